"""What is off in means of number columns inside their bins, beside what measured means of bins would leave.

    dpsql init FILE --owner-looks && dpsql sql bank.duckdb TABLE.sql
    python -m tests.benchmarks.bin_means bank.duckdb TABLE --epsilon 1

bins       |mean of values drawn in the bins of the true rows − mean|: no noise at all
measured   √Σw²/(n·√(2ρr)) of a bounded sum in each bin of a column, at r = 2 % of ρ for all number columns together
counts     a part of √Σ(σ·middle)²/n: the error of the mean if the number of rows in each bin has noise of σ = 1/√(2ρ/20)

All as a part of the mean. The last two are noise of one column's numbers alone, without what a fit knows of the rest.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.books.tables.facts import declared
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.registry import find_source
from dpsql.privacy.accounting import make_budget
from dpsql.release.drawing import coded
from dpsql.release.inside_bins import Bins

SHARE = 0.02
HEADER = "| column | mean | bins | measured | counts |\n|---|---|---|---|---|"


def ticks_of(db: dpsql.Database, table: str, attribute: Attribute) -> np.ndarray:
    """The column's numbers in ticks, of rows that are inside its bins."""
    name = '"' + attribute.name.replace('"', '""') + '"'
    values = np.array(db.sql(f"SELECT {name}::DOUBLE AS v FROM {table} WHERE {name} IS NOT NULL").fetchnumpy()["v"])
    values = values if attribute.is_float else np.rint(values * 10 ** (attribute.of_type.scale or 0))
    return values[(values >= attribute.ticks[0]) & (values <= attribute.ticks[-1])]


def line(attribute: Attribute, truth: np.ndarray, rho: float, columns: int) -> str:
    """One column's line."""
    codes = np.clip(np.searchsorted(attribute.ticks, truth, side="right") - 1, 0, attribute.regular - 1)
    drawn = coded(Domain((attribute,)), codes[:, None], np.random.default_rng(1))["t0"]
    bins, mean = Bins.of(attribute), abs(truth.mean())
    middle = bins.middle + (0 if attribute.is_float else attribute.ticks[0])
    measured = math.sqrt((bins.width**2).sum() / (2 * rho * SHARE / columns)) / len(truth)
    counts = math.sqrt(((middle - truth.mean()) ** 2).sum() / (2 * rho / 20)) / len(truth)
    off = [abs(drawn.mean() - truth.mean()), measured, counts]
    return f"| {attribute.name} | {truth.mean():.5g} | " + " | ".join(f"{part / mean:.1%}" for part in off) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("table")
    parser.add_argument("--epsilon", type=float, default=1.0)
    args = parser.parse_args()
    rho = float(make_budget(args.epsilon, 1e-9, "gdp").rho)
    with dpsql.connect(args.database) as db:
        with db.instance.cursor() as cursor:
            source = find_source(cursor, args.table, "")
            found = declared(Books(cursor, source.catalog), source.key).values()
        wanted = [a for a in found if a.kind == "bins" and a.is_number and not a.is_read and not a.has_single_values]
        print(HEADER)
        for attribute in wanted:
            print(line(attribute, ticks_of(db, args.table, attribute), rho, len(wanted)))


if __name__ == "__main__":
    main()
