"""Rows that lend: the units that are alike are those of plain loops, and they are put into order once for all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.release import lending
from dpsql.release.lending import Lenders


@st.composite
def rows(draw):
    """Lenders and borrowers with codes that repeat, or are of many; some borrowers have codes that no lender has."""
    columns, most = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 40]))
    row = st.lists(st.integers(0, most), min_size=columns, max_size=columns)
    mine = draw(st.lists(row, min_size=1, max_size=12))
    others = st.lists(st.integers(0, most + 2), min_size=columns, max_size=columns)
    theirs = draw(st.lists(st.one_of(st.sampled_from(mine), others), min_size=1, max_size=6))
    return np.array(mine), np.array(theirs)


@pytest.mark.parametrize("largest", [2**40, 3])
def test_those_that_are_alike_are_those_of_plain_loops(largest, monkeypatch):
    monkeypatch.setattr(lending, "_LARGEST_KEY", largest)  # of 3 every column is numbered anew

    @settings(deadline=None, derandomize=True, max_examples=60)
    @given(rows())
    def holds(given_rows):
        mine, theirs = given_rows
        index = lending._Index(mine)
        for wanted, low, high in zip(theirs, *index.alike(theirs), strict=True):
            assert sorted(index.order[low:high]) == [i for i, row in enumerate(mine) if (row == wanted).all()]

    holds()


def test_lenders_are_put_into_order_once_for_all_rows_of_a_chain(monkeypatch):
    made, plain = [], lending._Index

    def noted(keys):
        made.append(len(keys))
        return plain(keys)

    monkeypatch.setattr(lending, "_Index", noted)
    codes = np.arange(24).reshape(8, 3) % 5
    lenders = Lenders(codes, codes, (1.0, 0.5), np.random.default_rng(1))
    for _ in range(50):
        assert lenders.lend(codes[:2]).tolist() == codes[:2].tolist()
    assert made == [8]  # all of them share all columns, so the second level is never needed
