"""Scripts that pages rest on run to their end: each in a small setting, on a fortieth of the rows of the real tables.

Those whose small setting takes more than ten CPU seconds run before a release, by the mark `audit`.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import claims
from tests.benchmarks.results import FILE, LONGEST, words
from tests.depth import is_deep

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "tests" / "benchmarks"
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *BENCHMARKS.glob("*.md")]
QUICK = {
    "accuracy": "--runs 1 --line adult/all_1-way/1 --mechanism direct",
    "adult": "",
    "device": "--columns 4 --values 4 --relaxed 8 --steps 5",
    "first_table": "bills --details",
    "foreseen": "--line adult/4_linear/1 --mechanism lp",
    "ledger": "--most 100 --verify 100",
    "linear": "--epsilon 1 --mechanism lp --workload queries --runs 1",
    "many_columns": "--columns 4 --rows 1000",
    "paired": "adult@500 --seeds 1",
    "papers": "papers.duckdb",
    "plot": "--output accuracy.png",
    "sandbox_cost": "--times 1",
    "scale": "--rows 1e4",
    "thresholds": "--epsilon 1 --mechanism lp --runs 1",
}
LONG = {
    "cold": "--worker 1000 1",
    "counting_cost": "--rows 50000",
    "growth": """--worker {"rows":1000,"columns":4,"relaxed_rows":16,"marginals":2}""",
    "jam_rules": "survey --runs 1 --epsilons 1",
    "orders": "visits 10",
    "postgres": "--times 1",
    "postgres_shapes": "--share 0.003",
    "prior": "--epsilon 1 --runs 1",
    "races": "",
    "service_cancel": "--times 1",
    "service_load": "--seconds 1 --clients 2",
    "settings": "--epsilon 1",
    "spark": "--times 1 --only marginals",
    "speed": "",
    "trees": "clients 1",
    "utility": "--tables adult --epsilons 1 --mechanisms direct --output utility.jsonl",
    "wide": "",
}
ELSEWHERE = {
    "claims": "by its papers, below",
    "group_means": "wants a file of one's own",
    "households": "wants the example data of a package",
    "peers": "wants an environment of its own for each peer",
    "raw": "finds values of columns only in the whole tables",
}
AS_MODULES = {
    *("counting_cost", "first_table", "many_columns", "postgres", "sandbox_cost", "service_cancel", "service_load"),
    *("jam_rules", "orders", "postgres_shapes", "spark", "trees"),
}


def test_every_script_that_a_page_names_is_run():
    named = {
        name
        for page in PAGES
        for name in re.findall(r"tests[./]benchmarks[./](\w+)(?:\.py)?", page.read_text(encoding="utf-8"))
        if (BENCHMARKS / f"{name}.py").exists()
    }
    assert named >= {"accuracy", "claims", "cold"}
    assert named <= {*QUICK, *LONG, *ELSEWHERE}


def test_the_results_are_the_present_state():
    """Short, and one section a command; what was before is in the history of the file."""
    text = FILE.read_text(encoding="utf-8")
    assert words(text) <= LONGEST
    headings = re.findall(r"(?m)^## (.*)$", text)
    assert len({*headings}) == len(headings)
    for section in text.split("\n## ")[1:]:
        assert re.match(r".*\n\n`python (-m )?tests", section), section.partition("\n")[0]


def test_sections_that_are_named_are_there():
    """In pages, docstrings and comments that name a section of RESULTS.md in quotes beside the file's name."""
    headings = {*re.findall(r"(?m)^## (.*)$", FILE.read_text(encoding="utf-8"))}
    claims = ROOT / "docs" / "explanation" / "claims.md"
    named = re.findall(r'\| "([^"|]*)" \|\n', claims.read_text(encoding="utf-8"))
    for path in (ROOT / "dpsql").rglob("*.py"):
        joined = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
        named += re.findall(r'RESULTS\.md`, "([^"]*)"', joined)
    assert len(named) > 10
    assert {*named} <= headings


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A checkout of the tests beside a fortieth of the real tables."""
    if not (ROOT.parent / "shared" / "data").is_dir():
        pytest.skip("the real tables are not beside the checkout")
    folder = tmp_path_factory.mktemp("small")
    shutil.copytree(ROOT / "tests", folder / "checkout" / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (data := folder / "shared" / "data").mkdir(parents=True)
    for path in (ROOT.parent / "shared" / "data").iterdir():
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8") as whole, gzip.open(data / path.name, "wt") as part:
                head, *lines = whole
                part.writelines([head, *lines[::40]])
        else:
            shutil.copy(path, data)
    return folder / "checkout"


@pytest.mark.parametrize(
    "script",
    [
        *(pytest.param(name, marks=pytest.mark.medium) for name in QUICK),
        *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.audit]) for name in LONG),
    ],
)
def test_a_script_runs_to_its_end(small, script):
    if script == "spark":
        pytest.importorskip("pyspark")
    program = ["-m", f"tests.benchmarks.{script}"] if script in AS_MODULES else [f"tests/benchmarks/{script}.py"]
    arguments = [word.replace("_", " ") if "/" in word else word for word in (QUICK | LONG)[script].split()]
    done = subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=small,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout or script in ("papers", "plot")


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["rap", "dualquery", "mwem", "lp", "ide"])
def test_claims_of_each_paper_are_checked(paper, monkeypatch, capsys):
    """docs/explanation/claims.md: each line has five cells, and the accuracy that is promised is met.

    By far: the errors are .01 of .6, .02 of .32 and .18 of .55, so chance fails none of them, of one run as of five.
    """
    monkeypatch.setattr(sys, "argv", ["claims.py", "--only", paper])
    monkeypatch.setattr(claims, "RUNS", claims.RUNS if is_deep() else 1)
    claims.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][2:]
    assert lines
    for line in lines:
        assert len(line.replace("\\|", "").split("|")) == 7, line
    promised = [
        line for line in lines if any(word in line for word in ("η = α/4", "Theorem 2.3", "MWEM lecture, Claim"))
    ]
    assert all(line.endswith("| yes |") for line in promised), promised
