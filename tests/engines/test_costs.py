"""What a plan predicts of counting: what makes a count longer makes the forecast longer."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.costs import predict_cost
from dpsql.engines.postgres.engine import PostgresEngine

ROWS = 100_000


def domain(kind: str, columns: int, size: int) -> Domain:
    edges = tuple(map(str, range(size + 1)))
    bins = {"kind": "bins", "ticks": tuple(range(size + 1)), "edges": edges}
    how = {"kind": "values", "values": edges[:-1]} if kind == "VARCHAR" else bins
    return Domain(tuple(Attribute(f"c{place}", kind, **how) for place in range(columns)))


def most(kind: str, columns: int, size: int, rows: int = ROWS, *, has_units: bool = False) -> float:
    """Seconds of one pair of columns, of rows that do not repeat."""
    pairs = [("c0", "c1")] * 40
    cost = predict_cost(PostgresEngine.rates, domain(kind, columns, size), pairs, rows, has_units=has_units)
    assert cost.seconds is not None
    return cost.seconds[1]


def test_what_makes_a_count_longer_is_predicted():
    plain = most("INTEGER", 10, 20)
    assert most("INTEGER", 30, 20) > 1.3 * plain
    assert most("DECIMAL(9,2)", 10, 20) > 1.5 * plain
    assert most("INTEGER", 10, 500) > 3 * plain
    assert most("INTEGER", 10, 20, 3 * ROWS) > 2 * plain
    assert most("INTEGER", 10, 20, has_units=True) > 1.1 * plain


@pytest.mark.parametrize(
    ("kind", "columns", "size", "rows", "seconds"),
    [
        ("INTEGER", 10, 20, 100_000, 1.13),
        ("DECIMAL(9,2)", 10, 20, 300_000, 7.52),
        ("DECIMAL(9,2)", 30, 100, 100_000, 4.78),
        ("VARCHAR", 10, 20, 300_000, 4.14),
        ("VARCHAR", 10, 500, 100_000, 11.11),
        ("DATE", 10, 24, 300_000, 4.35),
    ],
)
def test_it_is_near_what_was_measured(kind, columns, size, rows, seconds):
    """By `tests/benchmarks/postgres_shapes.py`, of 40 pairs, on the machine whose rates these are."""
    assert seconds / 3 <= most(kind, columns, size, rows) <= 3 * seconds


@pytest.mark.parametrize("has_units", [False, True])
@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [((7, 90), (0.12, 0.76)), ((7, 90, 50), (0.41, 0.96)), ((7, 90, 50, 3, 11, 20), (1.65, 2.48))],
)
def test_a_synthetic_table_takes_about_as_long_as_predicted(sizes, seconds, has_units):
    """CPU seconds of Postgres for all pairs of 300,000 rows, without and with privacy units of three rows."""
    listed = [replace(domain("INTEGER", 1, size).attributes[0], name=f"c{n}") for n, size in enumerate(sizes)]
    cliques = list(combinations([one.name for one in listed], 2))
    cost = predict_cost(PostgresEngine.rates, Domain(tuple(listed)), cliques, 300_000, has_units=has_units)
    assert cost.seconds is not None
    assert cost.seconds[0] / 3 <= seconds[has_units] <= 3 * cost.seconds[1]
