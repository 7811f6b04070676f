"""The tables on which the figures of the papers are remade, protected in one file, for `dpsql compare`.

    python tests/benchmarks/papers.py papers.duckdb
    dpsql compare papers.duckdb adult --mechanisms rap fem projection --epsilons 0.1 0.3 1 --runs 5 \\
        --workload '64 random 3-way seed 0' --output figure2
    python tests/benchmarks/papers.py papers.duckdb --read figure2

The last line writes what all runs of that folder had into CLAIMS.md.
Adult and Loans, coded, in the papers' setting: replace_one and δ = 1/n². `people` are the private rows of Adult whose
public part is `public` (add_remove). docs/explanation/claims.md has all commands.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

import results
from accuracy import DATA
from claims import spread

import dpsql

TABLES = {
    "adult": ("adult_coded", "replace_one"),
    "loans": ("loans_coded", "replace_one"),
    "people": ("adult_priv", "add_remove"),
}
DOMAINS = {"adult": "adult_coded_domain", "loans": "loans_coded_domain", "people": "adult_pub_domain"}


def make(path: str) -> None:
    """Write the tables and protect them; nothing is released of them here."""
    with dpsql.connect(path) as db:
        for table, (file, neighbours) in TABLES.items():
            db.sql(f"CREATE TABLE {table} AS FROM '{DATA}/{file}.csv.gz'")
            rows = db.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            db.protect(table, epsilon=10.0, delta=1 / rows**2, neighbours=neighbours)
            for name, size in json.loads((DATA / f"{DOMAINS[table]}.json").read_text()).items():
                db.domain(table, name, lower=0, upper=size - 1, bins=size, nulls=False)
            print(f"{table}: {rows:,} rows", flush=True)
        db.sql(f"CREATE TABLE public AS FROM '{DATA}/adult_pub.csv.gz'")


def lines_of(folder: Path) -> list[list[str]]:
    """A line for each mechanism and ε of a comparison, of all runs that ended."""
    table = json.loads((folder / "settings.json").read_text(encoding="utf-8"))["table"]
    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]

    def place(run: dict) -> tuple:
        varied = f", {run['option']} = {run['value']:g}" if run.get("option") else ""
        return f"{run['mechanism']}{varied}", run["epsilon"]

    made = sorted((run for run in runs if "error" not in run), key=place)
    lines = []
    for (mechanism, epsilon), group in itertools.groupby(made, place):
        of = list(group)
        figures = [spread([run[name] for run in of]) for name in ("workload_largest", "workload_l1")]
        seconds = spread([run["cpu_seconds"] for run in of], ".0f")
        lines.append([folder.name, table, f"`{mechanism}`", f"{epsilon:g}", *figures, seconds])
    return lines


def read(folders: list[Path]) -> None:
    """Write the lines of comparisons into CLAIMS.md; those of other folders stay."""
    head = ["figure", "table", "mechanism", "ε", "largest error", "mean L1", "CPU s"]
    names = {folder.name for folder in folders}
    text = results.CLAIMS.read_text(encoding="utf-8").partition("\n## Comparisons\n")[2]
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    stay = [line for line in cells if line[0] not in names]
    lines = sorted([*stay, *itertools.chain.from_iterable(map(lines_of, folders))], key=lambda line: line[0])
    command = "python tests/benchmarks/papers.py papers.duckdb --read …"
    results.write("Comparisons", results.table(head, lines), command, file=results.CLAIMS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a new DuckDB file")
    parser.add_argument("--read", nargs="+", type=Path, metavar="FOLDER", help="instead: comparisons into CLAIMS.md")
    options = parser.parse_args()
    sys.exit(read(options.read) if options.read else make(options.file))
