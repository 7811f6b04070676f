"""The basis of an ordered column: orthonormal, few coefficients for a trend, none across points and NULL."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.trends import trends, trends_of


def bins(name: str, size: int, **more: object) -> Attribute:
    return Attribute(name, "INTEGER", "bins", ticks=tuple(range(size + 1)), **more)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=60))
def test_square_sums_stay_for_any_shares_also_of_values_that_no_row_has(shares):
    column = bins("a", len(shares), nullable=True)
    waves = trends(column, np.append(shares, 0.1) / (sum(shares) + 0.1))
    assert np.allclose(waves.matrix.T @ waves.matrix, np.eye(column.size), atol=1e-7)
    assert np.isclose(waves.freedom.sum(), column.size)
    assert waves.slow.sum() == 2
    assert sorted(set(waves.block.tolist())) == [*range(max(waves.block) + 1)]


def test_a_trend_by_rank_has_few_coefficients_however_skewed_the_column_is():
    shares = 0.8 ** np.arange(32.0)
    shares /= shares.sum()
    rank = np.cumsum(shares) - shares / 2
    rising = shares * (rank - 0.5)
    slow = trends(bins("a", 32), shares)
    held = ((slow.matrix[slow.slow] @ rising) ** 2).sum() / (rising**2).sum()
    even = trends(bins("a", 32), np.full(32, 1 / 32))  # a twin that does not know the ranks
    assert held > 0.95
    assert ((even.matrix[even.slow] @ rising) ** 2).sum() / (rising**2).sum() < 0.6


def test_points_and_null_are_values_of_their_own_and_cut_a_run():
    column = bins("a", 9, nullable=True, points=(4,))
    waves = trends(column, np.full(column.size, 1 / column.size))
    point, null = 4, 9
    for place in (point, null):
        alone = np.flatnonzero(waves.matrix[:, place])
        assert len(alone) == 1
        assert waves.matrix[alone[0]].tolist() == np.eye(column.size)[place].tolist()
        assert not waves.slow[alone[0]]
    below, above = (waves.matrix[:, places].any(axis=1) for places in (range(4), range(5, 9)))
    assert not (below & above).any()
    assert not set(waves.block[below].tolist()) & set(waves.block[above].tolist())
    assert waves.slow.sum() == 4


def test_columns_without_an_order_or_of_two_values_have_no_basis():
    columns = (Attribute("kind", "VARCHAR", "values", ("x", "y", "z")), bins("two", 2), bins("age", 5))
    domain = Domain(columns)
    assert list(trends_of(domain, np.full(domain.width, 0.2))) == ["age"]
