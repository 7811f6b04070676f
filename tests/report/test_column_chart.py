"""The picture of a column of bins: as many rows for each value are drawn as high, whatever the widths of its bins."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from dpsql.core.domain import Attribute
from dpsql.report.column_chart import _edges


@given(st.lists(st.integers(1, 5), min_size=3, max_size=30), st.sets(st.integers(0, 29), max_size=8))
def test_a_flat_column_is_drawn_flat(widths, points):
    """Points are single whole numbers: beside bins of two or three they were drawn half as high or less."""
    ticks = np.concatenate([[20], 20 + np.cumsum(widths)]).tolist()
    single = tuple(ticks[place] for place in sorted(points) if place < len(widths) and widths[place] == 1)
    age = Attribute("age", "INTEGER", "bins", ticks=tuple(ticks), edges=tuple(map(str, ticks)), points=single)
    _, units, is_density = _edges(age)
    assume(is_density)
    heights = np.array(widths) / units
    assert np.allclose(heights, heights[0])
