"""The basis of an ordered column: orthonormal, few coefficients for a trend, none across points and NULL."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.trends import trends, trends_of


def bins(name: str, size: int, **more: object) -> Attribute:
    return Attribute(name, "INTEGER", "bins", ticks=tuple(range(size + 1)), **more)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=60))
@example([1.0, *[0.0] * 7])
@example([*[0.0] * 15, 1.0])
@example([1.0, *[0.0] * 16])
@example([*[0.0] * 50, 1.0, *[0.0] * 49])
@example([0.1**place for place in range(32)])
@example([0.9] + [0.001] * 30)
def test_square_sums_stay_for_any_shares_also_of_values_that_no_row_has(shares):
    column = bins("a", len(shares), nullable=True)
    waves = trends(column, np.append(shares, 0.1) / (sum(shares) + 0.1))
    assert np.allclose(waves.waves @ waves.waves.T, np.eye(len(waves.waves)), atol=1e-9)
    values = np.random.default_rng(0).normal(size=(column.size, 3))
    found = waves.apart(values)
    assert np.allclose((found**2).sum(axis=0), (values**2).sum(axis=0))
    assert np.allclose(waves.together(found), values)
    assert np.isclose(waves.freedom.sum(), column.size)
    assert waves.slow.sum() == 2
    assert len(waves.block) == len(found)


def test_a_trend_by_rank_has_few_coefficients_however_skewed_the_column_is():
    shares = 0.8 ** np.arange(32.0)
    shares /= shares.sum()
    rank = np.cumsum(shares) - shares / 2
    rising = shares * (rank - 0.5)
    slow = trends(bins("a", 32), shares)
    held = ((slow.waves[slow.slow] @ rising) ** 2).sum() / (rising**2).sum()
    even = trends(bins("a", 32), np.full(32, 1 / 32))  # a twin that does not know the ranks
    assert held > 0.95
    assert ((even.waves[even.slow] @ rising) ** 2).sum() / (rising**2).sum() < 0.6


def test_points_and_null_are_values_of_their_own_and_cut_a_run():
    column = bins("a", 9, nullable=True, points=(4,))
    waves = trends(column, np.full(column.size, 1 / column.size))
    below, above = (waves.waves[:, places].any(axis=1) for places in (range(4), range(5, 9)))
    assert not (below & above).any()
    assert not waves.waves[:, [4, 9]].any()
    assert waves.slow.sum() == 4
    block = [*waves.block]
    left = block[len(waves.waves) :]
    assert block.count(left[4]) == block.count(left[9]) == 1
    assert left[0] == left[3] != left[5] == left[8]
    assert not {*waves.block[: len(waves.waves)][below]} & {*waves.block[: len(waves.waves)][above]}


def test_columns_without_an_order_or_of_two_values_have_no_basis():
    columns = (Attribute("kind", "VARCHAR", "values", ("x", "y", "z")), bins("two", 2), bins("age", 5))
    domain = Domain(columns)
    assert list(trends_of(domain, np.full(domain.width, 0.2), domain.names)) == ["age"]
    assert trends_of(domain, np.full(domain.width, 0.2), ["kind"]) == {}


def test_a_column_of_very_many_bins_costs_as_many_numbers_as_a_few_waves():
    size = 50_000
    waves = trends(bins("a", size), np.full(size, 1 / size))
    assert waves.waves.nbytes < 10_000_000
    values = np.random.default_rng(0).normal(size=(size, 2))
    assert np.allclose(waves.together(waves.apart(values)), values)
