"""The strength of two ordered columns: their rank correlation, its interval, and what the verdict says of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.ranks import rank_correlation, standard_ranks
from dpsql.release.correlation import correlation, correlation_of_counts
from dpsql.release.estimates import Estimates
from dpsql.utility.coded import Coded
from dpsql.utility.dependence import strength

SIZE = 12
DOMAIN = Domain(tuple(Attribute(n, "INTEGER", "bins", ticks=tuple(range(SIZE + 1)), nullable=True) for n in "ab"))


def codes(slope: float, rows: int = 5000) -> np.ndarray:
    """Two skewed columns, with NULL in a tenth of the rows of each; the last code is NULL's."""
    draw = np.random.default_rng(int(100 * slope) + 107)
    level, other = draw.normal(size=(2, rows))
    columns = [level, slope * level + np.sqrt(1 - slope**2) * other]
    coded = np.stack([np.clip((np.exp(one) * 3).astype(int), 0, SIZE - 1) for one in columns], axis=1)
    coded[draw.random((rows, 2)) < 0.1] = SIZE
    return coded


def counts_of(coded: np.ndarray) -> np.ndarray:
    counts = np.zeros((SIZE + 1, SIZE + 1))
    np.add.at(counts, (coded[:, 0], coded[:, 1]), 1)
    return counts


def estimates(counts: np.ndarray, stddev: float, draw: np.random.Generator, stated: float | None = None) -> Estimates:
    measured = []
    for clique, exact in ((("a",), counts.sum(axis=1)), (("b",), counts.sum(axis=0)), (("a", "b"), counts)):
        values = (exact + np.rint(draw.normal(0, stddev, exact.shape))).astype(np.int64)
        variance = Fraction((stated or stddev) ** 2)
        measured.append(Measurement(clique, exact.shape, values.ravel(), variance, "gaussian", Fraction(1)))
    return Estimates(DOMAIN, measured)


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**32))
def test_of_counts_it_is_spearmans(first, second, seed):
    draw = np.random.default_rng(seed)
    pairs = np.stack([draw.integers(0, first, 60), draw.integers(0, second, 60)], axis=1)
    table = np.zeros((first, second))
    np.add.at(table, (pairs[:, 0], pairs[:, 1]), 1)
    a, b = standard_ranks(table.sum(axis=1)), standard_ranks(table.sum(axis=0))
    assert a is not None
    assert b is not None
    expected = spearmanr(pairs[:, 0], pairs[:, 1]).statistic
    assert rank_correlation(table, a[:, None], b[None, :]) == pytest.approx(expected, abs=1e-9)


def test_rows_and_counts_have_one_strength():
    coded = codes(0.6)
    table = Coded(coded, coded, (SIZE + 1, SIZE + 1), (SIZE, SIZE))
    of_rows = strength(table.marginals((0, 1)), (SIZE, SIZE))
    assert of_rows == pytest.approx(correlation_of_counts(counts_of(coded), DOMAIN.attributes))
    assert of_rows > 0.5
    assert correlation_of_counts(counts_of(codes(-0.6)), DOMAIN.attributes) < -0.5
    one = np.zeros((SIZE + 1, SIZE + 1))
    one[3] = 5
    assert correlation_of_counts(one, DOMAIN.attributes) == 0


@pytest.mark.parametrize(("slope", "stddev"), [(0.0, 20.0), (0.3, 10.0), (0.9, 10.0), (-0.7, 15.0)])
def test_intervals_hold_the_truth(slope, stddev):
    """95 % of them at least; the seed is fixed."""
    draw, held, widths = np.random.default_rng(3), 0, []
    counts = counts_of(codes(slope))
    truth = correlation_of_counts(counts, DOMAIN.attributes)
    for _ in range(200):
        known = estimates(counts, stddev, draw)
        found = correlation(known, known.of(("a", "b")), DOMAIN.attributes)
        held += found.low <= truth <= found.high
        widths.append(found.high - found.low)
    assert held >= 180
    assert np.median(widths) < 0.35


def test_noise_that_is_larger_than_stated_is_noticed():
    """The broken twin."""
    draw, held = np.random.default_rng(4), 0
    counts = counts_of(codes(0.3))
    truth = correlation_of_counts(counts, DOMAIN.attributes)
    for _ in range(200):
        known = estimates(counts, 30.0, draw, stated=10.0)
        found = correlation(known, known.of(("a", "b")), DOMAIN.attributes)
        held += found.low <= truth <= found.high
    assert held < 170


def test_where_noise_hides_the_rows_nothing_is_said():
    counts = counts_of(codes(0.9, rows=50))
    known = estimates(counts, 50.0, np.random.default_rng(0))
    found = correlation(known, known.of(("a", "b")), DOMAIN.attributes)
    assert (found.low, found.high) == (-1.0, 1.0)


def ridge(db, rows: int = 20_000) -> None:
    db.sql(f"""
        CREATE TABLE t AS SELECT h % 100 AS a, 100 - h % 100 AS b, hash(i, 1) % 3 = 0 AS c, 2013 AS y
        FROM (SELECT i, hash(i) AS h FROM range({rows}) r(i))
    """)
    db.protect("t", epsilon=20.0, delta=1e-6)
    db.domain("t", "a", lower=0, upper=99, bins=10)
    db.domain("t", "b", lower=1, upper=100, bins=10)
    db.domain("t", "y", values=[2013])


@pytest.mark.medium
def test_the_report_tells_the_correlation_and_leaves_constants_out(db):
    ridge(db)
    release = db.synthesize("t", 5.0, mechanism="direct", workload="all 2-way")
    pairs = {pair.clique: pair for pair in release.judgement.pairs}
    assert set(pairs) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert release.judgement.undefined_pairs == 3
    assert pairs["a", "b"].measured.value < -0.95
    assert pairs["a", "b"].synthetic < -0.95
    assert pairs["a", "b"].state == "kept"
    page = release.report().html
    assert "-0.9" in page
    assert "3 pairs have a column of a single value" in page


@pytest.mark.medium
def test_a_correlation_that_the_rows_lost_is_missed_and_the_farthest_cell_is_named(db):
    ridge(db)
    release = db.synthesize("t", 5.0, mechanism="direct", workload="all 2-way")
    with db.connection.cursor() as cursor:
        cursor.execute(f"UPDATE dpsql.release_{release.entry.number} SET b = 100 - b")
    apart = db.release(release.entry.number)
    (pair,) = apart.judgement.of("missed")
    assert pair.clique == ("a", "b")
    assert pair.synthetic > 0.9
    assert "1 of 3 pairs of columns is not reliable" in apart.verdict.text
    assert apart.judgement.far > 10
    assert "cells of columns and pairs are far from what was measured, the most a = " in apart.verdict.text
