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


def test_the_expected_error_is_that_of_the_formula():
    hidden, drawn = 100 * np.sqrt(2 / np.pi) * 20 / 10_000, 100 * np.sqrt(4 * 0.01 / np.pi / 10_000)
    assert pair_errors(FLAT, [pair(("a", "b"), 20.0)])[("a", "b")] == pytest.approx(0.65 * np.sqrt(hidden * drawn))


def test_pairs_in_much_noise_are_not_reliable_and_the_best_comes_first():
    words = pair_words(FLAT, [pair(("a", "b"), 10.0), pair(("a", "c"), 500.0), pair(("b", "c"), 2.0)])
    assert words["reliable_pairs"] == ["b, c", "a, b"]
    assert 0 < words["expected_l1_pairs"] < 1


def test_without_measured_pairs_nothing_is_said():
    assert pair_words(FLAT, [Target(("a",), (10,), np.full(10, 1000.0), 4.0)]) == {}
