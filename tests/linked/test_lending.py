"""Rows that lend: the units that are alike are those of plain loops, and they are put into order once for all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domain import Attribute, Domain
from dpsql.core.tree import Link, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.release import lending
from dpsql.release.lending import Lenders
from dpsql.release.unit_drawing import draw_tables
from dpsql.runtime.progress import Quiet


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


@settings(deadline=None, derandomize=True, max_examples=60)
@given(rows(), st.data())
def test_nobody_lends_to_itself_where_another_is_there(given_rows, data):
    """Each lender has a number of its own for a value, so that one sees who lent."""
    mine, _ = given_rows
    lenders = Lenders(mine, np.arange(len(mine))[:, None], (1.0, 0.5), np.random.default_rng(1))
    own = np.array(data.draw(st.lists(st.integers(-1, len(mine) - 1), min_size=len(mine), max_size=len(mine))))
    for _ in range(5):
        lent = lenders.lend(mine, own=own)[:, 0]
        for borrower, lender in enumerate(lent):
            alike = [(mine[i] == mine[borrower]).all() for i in range(len(mine))]
            if sum(alike) > (own[borrower] >= 0 and alike[own[borrower]]):
                assert alike[lender]
                assert lender != own[borrower]


def drawn(tables, links, units):
    """The tables of random rows of units, which `units` changes: it gets the codes and the place of each column."""
    members = {
        table: Domain(
            tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(size)))) for name, size in columns)
        )
        for table, columns in tables.items()
    }
    unit_row = UnitRow(Tree("patients", links), members)
    draw = np.random.default_rng(1)
    codes = np.stack([draw.integers(0, a.regular, 2_000) for a in unit_row.domain.attributes], axis=1)
    units(codes, {name: place for place, name in enumerate(unit_row.domain.names)})
    most, rules = dict.fromkeys(tables, 50_000), {table: {None: []} for table in tables}
    return draw_tables(unit_row, codes, None, draw, Quiet(), most, rules)[0]


VISITS = Link("visits", "patients", ("pid",), ("pid",), most=8)


def test_a_third_child_is_no_copy_of_the_second():
    """Of two columns of a hundred codes each hardly two rows of one parent are alike."""

    def four(codes, place):
        codes[:, place["visits.number"]] = 4

    visits = drawn({"patients": [("age", 100)], "visits": [("ward", 100), ("kind", 100)]}, (VISITS,), four)["visits"]
    rows = np.hstack([visits.up[:, None], visits.codes])
    assert len(rows) == 8_000
    assert len(rows) - len(np.unique(rows, axis=0)) < 80  # some 160 if units lend to themselves


def test_rows_below_a_row_that_was_lent_are_like_those_of_the_unit_whose_it_became():
    """What a lab result is depends on the patient alone, whose second visit has no labs of its own to say so."""

    def follow(codes, place):
        codes[:, place["visits.number"]] = 2
        codes[:, place["visits[1].labs.number"]] = 1
        codes[:, place["visits[2].labs.number"]] = 1
        codes[:, place["labs[1].result"]] = codes[:, place["sex"]]

    tables = {"patients": [("sex", 2)], "visits": [("ward", 6)], "labs": [("result", 2)]}
    made = drawn(tables, (VISITS, Link("labs", "visits", ("vid",), ("vid",), most=4)), follow)
    sexes = made["patients"].codes[made["visits"].up[made["labs"].up], 0]
    assert len(sexes) == 4_000
    assert (made["labs"].codes[:, 0] == sexes).mean() > 0.95  # half of the second visits' otherwise, so 0.75
