"""Reliable pairs: those that little noise hides; the expected error follows the noise."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.target import Target
from dpsql.strategy.reliability import pair_errors, pair_words

DOMAIN = Domain(tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(10)))) for name in "abc"))
FLAT = RelaxedTable(Blocks.of(DOMAIN), np.full((30, 1), 0.1, np.float32), 10_000.0)


def pair(clique: tuple[str, str], stddev: float) -> Target:
    return Target(clique, (10, 10), np.full(100, 100.0), stddev**2)


def column(name: str, stddev: float) -> Target:
    return Target((name,), (10,), np.full(10, 1000.0), stddev**2)


def test_the_expected_error_is_that_of_the_formula():
    """Of independent columns: what noise hides of them, and what drawing leaves."""
    level = np.sqrt(2 / np.pi) / 10_000
    drawn = 100 * np.sqrt(4 * 0.01 / np.pi / 10_000)
    measured = [column("a", 30.0), column("b", 50.0), pair(("a", "b"), 20.0)]
    wanted = 0.63 * 10 * level * (30 + 50) + 0.32 * min(drawn, 100 * level * 20)
    assert pair_errors(FLAT, measured)[("a", "b")] == pytest.approx(wanted, rel=1e-4)
    unmeasured = 0.63 * 10 * level * 2 * 20 * np.sqrt(10) + 0.32 * min(drawn, 100 * level * 20)
    assert pair_errors(FLAT, measured[2:])[("a", "b")] == pytest.approx(unmeasured, rel=1e-4)


def test_a_pair_that_depends_misses_more_where_noise_hides_it():
    """Two columns that are equal, beside two that are independent, with the same noise."""
    equal = np.full((30, 10), 1e-6, np.float32)
    for value in range(10):
        equal[[value, 10 + value], value] = 1.0
        equal[20:, value] = 0.1
    joined = RelaxedTable(Blocks.of(DOMAIN), equal, 10_000.0)
    measured = [column(name, 1.0) for name in "abc"] + [pair(("a", "b"), 100.0), pair(("a", "c"), 100.0)]
    found = pair_errors(joined, measured)
    hidden, drawn = 10 * np.sqrt(2 / np.pi) * 100 / 10_000, 10 * np.sqrt(4 * 0.1 / np.pi / 10_000)
    assert found[("a", "b")] - 0.32 * drawn > 0.53 * hidden * 1.7
    assert pair_errors(FLAT, measured)[("a", "b")] == pytest.approx(found[("a", "c")], rel=1e-3)


def test_pairs_in_much_noise_are_not_reliable_and_the_best_comes_first():
    words = pair_words(FLAT, [pair(("a", "b"), 10.0), pair(("a", "c"), 500.0), pair(("b", "c"), 2.0)])
    assert words["reliable_pairs"] == ["b, c", "a, b"]
    assert 0 < words["expected_l1_pairs"] < 1


def test_without_measured_pairs_nothing_is_said():
    assert pair_words(FLAT, [Target(("a",), (10,), np.full(10, 1000.0), 4.0)]) == {}
