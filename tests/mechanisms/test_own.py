"""Mechanisms from outside the package: of a file, and of an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from dpsql.udfs.dp_plan import DpPlan
from dpsql.udfs.dp_synthesize import DpSynthesize

from dpsql.errors import InvalidArgument
from dpsql.mechanisms import base, own
from dpsql.mechanisms.own import load_file, load_installed, loaded_from

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_mechanism.py"
REGISTERS = """
from dataclasses import dataclass
from dpsql.mechanisms.base import Mechanism, register

@register("{name}")
@dataclass(frozen=True)
class Another(Mechanism):
    def course(self, facts): ...
    def fit(self, walk, seed, progress): ...
"""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """No mechanism stays for other tests."""
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    monkeypatch.setattr(own, "_loaded", dict(own._loaded))


def test_a_file_registers_its_mechanisms_once(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(EXAMPLE.read_text())
    assert load_file(file) == ("independent",)
    first = base.find("independent")
    assert load_file(str(file)) == ("independent",)
    assert base.find("independent") is first, "the same text is not run again"
    before = loaded_from("independent")
    file.write_text(EXAMPLE.read_text() + "\n# changed\n")
    assert load_file(file) == ("independent",)
    assert base.find("independent") is not first
    assert loaded_from("independent") != before
    assert loaded_from("mwem") is None


def test_a_name_that_a_file_no_longer_has_goes(tmp_path):
    """A version that fails takes nothing away; a mechanism of a module that the file imports stays."""
    file = tmp_path / "mine.py"
    file.write_text(REGISTERS.format(name="first") + REGISTERS.format(name="second"))
    assert load_file(file) == ("first", "second")
    file.write_text("raise OSError('gone')")
    with pytest.raises(InvalidArgument, match="OSError: gone"):
        load_file(file)
    assert {"first", "second"} <= base.registered().keys()
    file.write_text(REGISTERS.format(name="third") + REGISTERS.format(name="second"))
    assert set(load_file(file)) == {"third", "second"}
    assert "first" not in base.registered()
    other = tmp_path / "other.py"
    other.write_text(REGISTERS.format(name="first"))
    assert load_file(other) == ("first",)


@pytest.mark.medium
@pytest.mark.parametrize("line", ["from dpsql import connect", "import dpsql; dpsql.Database", "import dpsql"])
def test_a_file_that_makes_sql_learn_too_early_is_refused(tmp_path, line):
    """In a process of its own, where nothing is imported yet."""
    file = tmp_path / "mine.py"
    file.write_text(line + REGISTERS.format(name="early") + "    turns: int = 3\n")
    statements = f"from dpsql.mechanisms.own import load_file\nprint(load_file({str(file)!r}))\n"
    statements += "from dpsql.udfs.dp_synthesize import OPTIONS\nprint('turns' in {one.name for one in OPTIONS})"
    made = subprocess.run([sys.executable, "-c", statements], capture_output=True, text=True, check=False)
    if line == "import dpsql":
        assert made.stdout == "('early',)\nTrue\n"
    else:
        assert "import them inside a function, and begin a new process" in made.stderr
        assert not made.stdout


def test_every_argument_of_a_request_is_a_name_that_no_option_may_have():
    """Else SQL would take the one for the other, in each call of the process."""
    functions = (DpSynthesize, DpPlan)
    named = {one.name for function in functions for one in function.parameters} - base.options().keys()
    assert named <= base.ARGUMENTS
    assert not base.ARGUMENTS & base.options().keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory; give a Python file"),
        ("", "registers no mechanism: decorate a class by @register"),
        ("import nothing_of_the_kind", "which fails: ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("def f(:", "which fails: SyntaxError"),
        ("raise SystemExit(0)", "which fails: SystemExit: 0"),
        (
            REGISTERS.format(name="fine") + "    rows: int = 1\n",
            "option 'rows' of 'fine' is an argument of every request",
        ),
        (REGISTERS.format(name="mwem"), "it registers 'mwem': give the mechanism another name"),
        (REGISTERS.format(name="auto"), "it registers 'auto': give the mechanism another name"),
        (REGISTERS.format(name="a:b=1"), "it registers 'a:b=1': give the mechanism another name"),
        (REGISTERS.format(name="fine") + "raise OSError('gone')", "which fails: OSError: gone"),
    ],
)
def test_what_is_no_mechanism_leaves_nothing(tmp_path, text, words):
    before = base.registered()
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidArgument, match=words):
        load_file(file)
    assert base.registered() == before


def test_a_name_of_another_file_is_taken(tmp_path):
    for name in ("mine.py", "yours.py"):
        (tmp_path / name).write_text(EXAMPLE.read_text())
    load_file(tmp_path / "mine.py")
    with pytest.raises(InvalidArgument, match="it registers 'independent': give the mechanism another name"):
        load_file(tmp_path / "yours.py")


def test_one_of_this_process_only_has_no_source():
    exec(REGISTERS.format(name="here"), {"__name__": __name__})
    with pytest.raises(InvalidArgument, match="mechanism 'here' is of this process only"):
        loaded_from("here")


def test_an_entry_point_that_fails_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "outside_of_tests.py").write_text(REGISTERS.format(name="outside"))
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint(name, name, own.GROUP) for name in ("nothing_of_the_kind", "outside_of_tests")]
    with pytest.warns(RuntimeWarning, match="entry point 'nothing_of_the_kind' of group dpsql.mechanisms is left out"):
        load_installed(entries)
    source = loaded_from("outside")
    assert source is not None
    assert (source.code, source.path) == ("outside_of_tests", None)


@pytest.mark.medium
def test_an_installed_package_is_there_by_itself(tmp_path):
    """As pip leaves it: a module, and what its distribution says of it."""
    (tmp_path / "outside_of_tests.py").write_text(EXAMPLE.read_text())
    stated = tmp_path / "outside_of_tests-1.5.dist-info"
    stated.mkdir()
    (stated / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-of-tests\nVersion: 1.5\n")
    (stated / "entry_points.txt").write_text("[dpsql.mechanisms]\nindependent = outside_of_tests\n")
    statements = """
        import dpsql
        from dpsql.mechanisms.own import loaded_from
        with dpsql.connect() as db:
            db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
            db.sql("CALL dp_protect('t', epsilon := 2.0, delta := 1e-6)")
            asked = "FROM dp_plan('t', epsilon := 1.0, mechanism := 'independent')"
            print(len(db.sql(asked).fetchall()), loaded_from("independent").code)
    """
    text = "\n".join(line[8:] for line in statements.splitlines())
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    made = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.split(maxsplit=1)[1] == "outside-of-tests 1.5\n"
