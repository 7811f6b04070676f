"""What a plan foretells of counting: what makes a count longer makes the forecast longer."""

from __future__ import annotations

import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.costs import foretell
from dpsql.engines.postgres.engine import PostgresEngine

ROWS = 100_000


def domain(kind: str, columns: int, size: int) -> Domain:
    edges = tuple(map(str, range(size + 1)))
    bins = {"kind": "bins", "ticks": tuple(range(size + 1)), "edges": edges}
    how = {"kind": "values", "values": edges[:-1]} if kind == "VARCHAR" else bins
    return Domain(tuple(Attribute(f"c{place}", kind, **how) for place in range(columns)))


def most(kind: str, columns: int, size: int, rows: int = ROWS) -> float:
    """Seconds of one pair of columns, of rows that do not repeat."""
    cost = foretell(PostgresEngine.rates, domain(kind, columns, size), [("c0", "c1")] * 40, rows)
    assert cost.seconds is not None
    return cost.seconds[1]


def test_what_makes_a_count_longer_is_foretold():
    plain = most("INTEGER", 10, 20)
    assert most("INTEGER", 30, 20) > 1.3 * plain
    assert most("DECIMAL(9,2)", 10, 20) > 1.5 * plain
    assert most("INTEGER", 10, 500) > 3 * plain
    assert most("INTEGER", 10, 20, 3 * ROWS) > 2 * plain


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
