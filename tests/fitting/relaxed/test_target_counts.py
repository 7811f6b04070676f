"""Counts of rows in the cells of many marginals are those of a plain count, whatever the order of the attributes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.fitting.relaxed import target_counts as module
from dpsql.fitting.relaxed.target_counts import target_counts


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    rows=st.sampled_from((0, 1, module._ROWS_IN_CACHE - 1, module._ROWS_IN_CACHE + 1)),
    data=st.data(),
)
@settings(deadline=None, max_examples=40)
def test_counts_are_those_of_each_row(sizes, rows, data):
    """In stretches that the processor's cache holds, of cliques in any order of their attributes."""
    attributes = st.permutations(range(len(sizes))).flatmap(
        lambda order: st.integers(1, len(order)).map(lambda k: order[:k])
    )
    cliques = data.draw(st.lists(attributes, min_size=1, max_size=6))
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(0, size, rows) for size in sizes], axis=1).astype(np.int16)
    strides, offsets = np.zeros((len(cliques), len(sizes)), np.int32), [0]
    for number, clique in enumerate(cliques):
        stride = 1
        for place in reversed(clique):
            strides[number, place] = stride
            stride *= sizes[place]
        offsets.append(offsets[-1] + stride)
    expected = [
        np.bincount(codes.astype(np.int64) @ row, minlength=end - begin)
        for row, begin, end in zip(strides, offsets, offsets[1:], strict=False)
    ]
    counted = target_counts(codes, strides, np.array(offsets, np.int32))
    assert counted.tolist() == np.concatenate(expected).tolist()
