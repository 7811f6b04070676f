"""The two rules by which `jam` believes public answers, which were chosen on Adult: what each brings on other tables.

    pip install causaldata
    python -m tests.benchmarks.jam_rules                        Loans, and a table of a package
    python -m tests.benchmarks.jam_rules survey --runs 1 --epsilons 1

A part of the rows is public and not protected: a random twentieth, or a twentieth of which two thirds come from one end
of a column. Columns of the package's table with many numbers become sixteen bins of as many rows. The figures are the
mean L1 of 64 random 3-way marginals, medians of the runs; "κ" and "limit" are explained in `dpsql.mechanisms.residual.jam`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

import dpsql
from dpsql.mechanisms.residual import jam
from tests.benchmarks import results
from tests.benchmarks.accuracy import DATA
from tests.benchmarks.first_table import written
from tests.benchmarks.simulated import survey

WORKLOAD = "64 random 3-way seed 3"
BINS = 16
_LARGE = 1e30


def coded(name: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """A table of codes, and how many each column has."""
    if name in ("adult", "loans"):
        sizes = json.loads((DATA / f"{name}_coded_domain.json").read_text())
        return pd.read_csv(DATA / f"{name}_coded.csv.gz")[list(sizes)], sizes
    if name == "survey":
        made = survey()
        return pd.DataFrame(made.codes, columns=list(made.sizes)), made.sizes
    with tempfile.TemporaryDirectory() as folder:
        frame = pd.read_csv(written(name, Path(folder)), low_memory=False)
    codes = {column: _codes(values) for column, values in frame.items()}
    codes = {column: values for column, values in codes.items() if values.max() > 0}
    return pd.DataFrame(codes), {column: int(values.max()) + 1 for column, values in codes.items()}


def _codes(values: pd.Series) -> np.ndarray:
    """Codes of a column: as they are, of few values; else of bins. NULL is the first."""
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > BINS:
        values = pd.qcut(values, BINS, labels=False, duplicates="drop")
    codes = pd.factorize(values, sort=True)[0]
    return codes + 1 if (codes < 0).any() else codes


def public_rows(frame: pd.DataFrame, *, is_biased: bool) -> np.ndarray:
    """Which rows are public."""
    generator = np.random.default_rng(0)
    if not is_biased:
        return generator.random(len(frame)) < 1 / 20
    upper = frame.iloc[:, 0].rank(method="first", pct=True).to_numpy() > 0.5
    return generator.random(len(frame)) < np.where(upper, 1 / 15, 1 / 30)


@contextmanager
def without(rule: str) -> Iterator[None]:
    """`jam` without one of its rules."""
    farther: Callable = (lambda *_: 1.0) if rule == "κ" else jam.farther_than_drawn
    sure = jam.as_sure

    def unlimited(taken, public_rows, farther):
        return sure(replace(taken, variance=_LARGE, rho=taken.rho * taken.variance / _LARGE), public_rows, farther)

    with (
        mock.patch.object(jam, "farther_than_drawn", farther),
        mock.patch.object(jam, "as_sure", unlimited if rule == "limit" else sure),
    ):
        yield


def opened(frame: pd.DataFrame, sizes: dict[str, int], public: np.ndarray) -> dpsql.Database:
    """The protected table `t` and the public table `p`."""
    db = dpsql.connect()
    for name, rows in (("t", frame[~public]), ("p", frame[public])):
        db.connection.register("rows_of_it", rows.astype(np.int32))
        db.sql(f"CREATE TABLE {name} AS FROM rows_of_it")
        db.connection.unregister("rows_of_it")
    db.protect("t", epsilon=1000, delta=1e-9)
    for column, size in sizes.items():
        db.domain("t", column, lower=0, upper=size - 1, bins=size, nulls=False)
    return db


def lines(name: str, epsilons: list[float], runs: int) -> Iterator[list[str]]:
    """For each kind of public rows and ε: the mean L1 with both rules, and without either."""
    frame, sizes = coded(name)
    for is_biased in (False, True):
        public = public_rows(frame, is_biased=is_biased)
        for epsilon in epsilons:
            line = [name, "biased" if is_biased else "random", f"{epsilon:g}"]
            for rule in ("", "κ", "limit"):
                with opened(frame, sizes, public) as db, without(rule):
                    errors = [_l1(db, epsilon, f"{run}") for run in range(runs)]
                line.append(f"{np.median(errors):.3f}")
            print("  ".join(line), flush=True)
            yield line


def _l1(db: dpsql.Database, epsilon: float, name: str) -> float:
    how = {"mechanism": "jam", "prior": "p", "reuse": False, "workload": WORKLOAD}
    release = db.synthesize("t", epsilon, release=name, **how)
    return float(db.evaluate("t", release, workload=WORKLOAD).answers.l1)


def main() -> None:
    """Print a line for each table, public part and ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["loans", "ccdrug"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    made = [line for table in options.tables for line in lines(table, options.epsilons, options.runs)]
    print(results.table(["table", "public", "ε", "both", "without κ", "without the limit"], made))


if __name__ == "__main__":
    main()
