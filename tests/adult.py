"""Adult as codes, for tests of what lies behind the counting."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.fitting.target import Target

DATA = Path(__file__).parents[2] / "shared" / "data"
ORDERED = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


@cache
def adult_codes() -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """All rows of Adult, shape (48842, 15), and the sizes of the columns' domains; skips where it is not here."""
    if not (DATA / "adult_coded.csv.gz").exists():
        pytest.skip("the table adult_coded is not in ../shared/data", allow_module_level=True)
    sizes = json.loads((DATA / "adult_coded_domain.json").read_text())
    with gzip.open(DATA / "adult_coded.csv.gz", "rt") as file:
        rows = list(csv.reader(file))
    places = [rows[0].index(name) for name in sizes]
    return np.array(rows[1:], np.int64)[:, places], sizes


def domain_of(names: Clique) -> Domain:
    """The domain of some columns: bins of one value each where they are ordered."""
    _, sizes = adult_codes()
    return Domain(
        tuple(
            Attribute(name, "INTEGER", "bins", ticks=tuple(range(sizes[name] + 1)))
            if name in ORDERED
            else Attribute(name, "INTEGER", "values", tuple(map(str, range(sizes[name]))))
            for name in names
        )
    )


def exact(clique: Clique, rows: int | None = None) -> npt.NDArray[np.int64]:
    """A marginal of the first rows, flat."""
    codes, sizes = adult_codes()
    places, shape = [list(sizes).index(name) for name in clique], tuple(sizes[name] for name in clique)
    packed = np.ravel_multi_index(tuple(codes[:rows, place] for place in places), shape)
    return np.bincount(packed, minlength=int(np.prod(shape)))


def noisy(clique: Clique, stddev: float, seed: int, rows: int | None = None) -> Target:
    """A marginal of the first rows with rounded normal noise."""
    _, sizes = adult_codes()
    counts = exact(clique, rows)
    values = counts + np.rint(np.random.default_rng([seed, *map(ord, "|".join(clique))]).normal(0, stddev, len(counts)))
    return Target(clique, tuple(sizes[name] for name in clique), values, stddev**2, 1 / (2 * stddev**2))
