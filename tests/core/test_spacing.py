"""Bins that arithmetic finds: the same as a search among the edges, for every edge and beside it."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from dpsql.core.domain import equal_width
from dpsql.core.spacing import spacing_of

TICKS = st.integers(-(2**62), 2**62)


@st.composite
def edges(draw) -> tuple[int, ...]:
    """Edges of any kind: of equal width, with first and last bins of another, or none of these."""
    first, bins, width = draw(TICKS), draw(st.integers(1, 9)), draw(st.integers(1, 10**6))
    match draw(st.sampled_from(["ceiled", "even", "any"])):
        case "ceiled":
            return tuple(map(int, equal_width(first, first + bins + width, bins, is_float=False)))
        case "even":
            inner = [first + place * width for place in range(bins)]
            return (first - draw(st.integers(1, 10**7)), *inner, inner[-1] + draw(st.integers(1, 10**7)))
    return tuple(sorted(draw(st.sets(TICKS, min_size=2, max_size=9))))


@given(edges())
def test_a_bin_is_the_one_between_its_edges(ticks):
    spacing = spacing_of(ticks)
    if spacing is not None:
        for tick in {edge + step for edge in ticks for step in (-1, 0, 1)} | {
            (a + b) // 2 for a in ticks for b in ticks
        }:
            if ticks[0] <= tick < ticks[-1]:
                assert spacing.code(tick) == bisect_right(ticks, tick) - 1


def test_bins_of_equal_width_are_never_searched():
    assert spacing_of((0, 10, 20, 30, 41)) is not None
    assert spacing_of(equal_width(-5, 3_000, 7, is_float=False)) is not None
    assert spacing_of((0, 10, 20, 31, 40, 50)) is None
