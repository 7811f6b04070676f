"""Why means of numbers in groups are off, and whether a release tells which: `python -m tests.benchmarks.group_means FILE.csv …`.

By the road of README, as `first_table`, and of the same groups: those of 500 rows and more, right within a quarter. Of numbers
in bins also what would be off

exact counts    with the true rows of each pair's cells, at the synthetic mean of each bin
own means       with the synthetic rows of each cell, at its true mean in this group

and of those that the release calls likely right (`dpsql.release.group_means`) how many are, and how many of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import dpsql
from dpsql.api.proposing.propose import propose
from dpsql.core.domain import Attribute
from dpsql.engines.registry import find_source
from dpsql.owner.evaluate import Compared, compared
from dpsql.release.group_means import GROUP_ROWS, makes_groups
from tests.benchmarks import first_table

Floats = npt.NDArray[np.float64]
HEADER = "| table | ε | means | right | in bins | wrong | exact counts | own means | likely, right | others, right |"


def wrong(real: float, made: float) -> bool:
    """Whether a mean is off by more than a quarter."""
    return not abs(made - real) <= first_table.GROUP * abs(real)


def in_bins(db: dpsql.Database, name: str, both: Compared, columns: list[str]) -> Iterator[tuple[bool, bool, bool]]:
    """Of each mean of numbers in bins whether it is wrong, with exact counts, and with own means."""
    names = both.domain.names
    for number in (a for a in both.declared if a.kind == "bins" and a.name in columns):
        place = names.index(number.name)
        (x, real), (y, made) = (
            (_values(db, table, number), codes[:, place])
            for table, codes in ((f'"{name}"', both.tables.real), ("synthetic", both.tables.synthetic))
        )
        inside = _means(y, made, number.size, _means(x, real, number.size, np.zeros(number.size)))
        for groups in (a for a in both.declared if makes_groups(a) and a is not number):
            at = names.index(groups.name)
            for code in range(groups.regular):
                of_real = (both.tables.real[:, at] == code) & np.isfinite(x) & (real < number.regular)
                of_made = (both.tables.synthetic[:, at] == code) & np.isfinite(y) & (made < number.regular)
                truth = float(x[of_real].mean()) if of_real.sum() >= GROUP_ROWS else 0.0
                if truth and of_made.any():
                    own = _means(x[of_real], real[of_real], number.size, inside)
                    parts = y[of_made], inside[real[of_real]], own[made[of_made]]
                    yield tuple(wrong(truth, float(part.mean())) for part in parts)  # type: ignore[misc]


def _values(db: dpsql.Database, table: str, number: Attribute) -> Floats:
    asked = f'SELECT "{number.name}"::DOUBLE AS x FROM {table}'
    return np.ma.filled(np.ma.masked_invalid(db.sql(asked).fetchnumpy()["x"].astype(float)), np.nan)


def _means(values: Floats, codes: npt.NDArray[np.int64], size: int, others: Floats) -> Floats:
    """The mean in each cell; those of `others` where there is none."""
    is_there = np.isfinite(values)
    rows = np.bincount(codes[is_there], minlength=size)
    return np.where(rows > 0, np.bincount(codes[is_there], values[is_there], size) / np.maximum(rows, 1), others)


def measure(path: Path, epsilon: float) -> str:
    """One line of the table."""
    name, script = path.stem, propose(str(path), owner_looks=True)
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(script.text):
            db.sql(statement.query)
        release = db.synthesize(name, epsilon)
        release.to_table("synthetic")
        judged = release.judgement
        with db.instance.cursor() as cursor:
            both = compared(cursor, find_source(cursor, name), str(release.entry.number))
        columns = first_table.numbers(db)
        groups = [attribute.name for attribute in both.declared if makes_groups(attribute)]
        truth = {mean.of: mean.off <= first_table.GROUP for mean in first_table.group_means(db, name, columns, groups)}
        bins = np.array([*in_bins(db, name, both, columns)]).reshape(-1, 3)
    called: dict[bool, list[bool]] = {True: [], False: []}
    for figures in judged.numbers:
        for mean in figures.groups:
            of = f"{figures.name} of {mean.column} = {mean.label}"
            if of in truth:
                called[mean.is_likely].append(truth[of])
    shown = [f"{len(of)}, {np.mean(of):.0%}" if of else "0" for of in called.values()]
    figures_shown = [name, f"{epsilon:g}", len(truth), sum(truth.values()), len(bins), *bins.sum(axis=0), *shown]
    return f"| {' | '.join(map(str, figures_shown))} |"


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    print(HEADER)
    for path in options.files:
        print(measure(path, options.epsilon), flush=True)


if __name__ == "__main__":
    main()
