"""The measures of pairs and triples, beside plain loops over rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import InvalidArgument
from dpsql.utility import coded as coded_module
from dpsql.utility.associations import associations
from dpsql.utility.coded import Coded

SIZES = (2, 3, 5, 4)
ORDERED = (0, 3, 4, 4)  # the third has a code beyond its order, as NULL is


@st.composite
def tables(draw) -> Coded:
    rows = [st.tuples(*(st.integers(0, size - 1) for size in SIZES))] * 2
    real, made = (draw(st.lists(row, min_size=1, max_size=30)) for row in rows)
    return Coded(np.array(real), np.array(made), SIZES, ORDERED)


def shares(rows: np.ndarray, columns: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    return {cell: n / len(rows) for cell, n in Counter(map(tuple, rows[:, columns].tolist())).items()}


def l1(tables: Coded, columns: tuple[int, ...]) -> tuple[float, float]:
    p, q = shares(tables.real, columns), shares(tables.synthetic, columns)
    gaps = [abs(p.get(cell, 0) - q.get(cell, 0)) for cell in {*p, *q}]
    return sum(gaps), max(gaps)


def entropy(rows: np.ndarray, columns: tuple[int, ...]) -> float:
    return -sum(p * math.log(p) for p in shares(rows, columns).values())


def nmi(rows: np.ndarray, i: int, j: int) -> float:
    smaller = min(entropy(rows, (i,)), entropy(rows, (j,)))
    return 0.0 if smaller < 1e-12 else (entropy(rows, (i,)) + entropy(rows, (j,)) - entropy(rows, (i, j))) / smaller


def correlation(rows: np.ndarray, i: int, j: int) -> float:
    kept = rows[(rows[:, i] < ORDERED[i]) & (rows[:, j] < ORDERED[j])]
    if len(kept) == 0 or len({*kept[:, i]}) < 2 or len({*kept[:, j]}) < 2:
        return 0.0
    return float(np.corrcoef(kept[:, i], kept[:, j])[0, 1])


@settings(max_examples=60, deadline=None)
@given(tables())
def test_the_measures_are_those_of_their_formulas(tables):
    found = associations(tables)
    pairs, triples = (list(itertools.combinations(range(len(SIZES)), order)) for order in (2, 3))
    assert (found.pairs, found.triples) == (6, 4)
    assert found.l1_pairs == pytest.approx(np.mean([l1(tables, pair)[0] for pair in pairs]))
    assert found.l1_triples == pytest.approx(np.mean([l1(tables, triple)[0] for triple in triples]))
    assert found.largest_error == pytest.approx(max(l1(tables, columns)[1] for columns in (*pairs, *triples)))
    both = np.array([[nmi(rows, *pair) for pair in pairs] for rows in (tables.real, tables.synthetic)])
    gaps = np.abs(both[0] - both[1])
    assert found.nmi == pytest.approx(gaps.mean(), abs=1e-9)
    assert any(found.nmi_top == pytest.approx(gap, abs=1e-9) for gap in gaps[both[0] > both[0].max() - 1e-9])
    assert 0 <= found.dependence <= 1
    ordered = [pair for pair in pairs if 0 not in pair]
    apart = [abs(correlation(tables.real, *pair) - correlation(tables.synthetic, *pair)) for pair in ordered]
    assert found.correlation == pytest.approx(np.mean(apart), abs=1e-9)
    real = {pair: {*shares(tables.real, pair)} for pair in pairs}
    assert found.unseen == sum(tuple(row[list(pair)]) not in real[pair] for row in tables.synthetic for pair in pairs)
    assert found.impossible is None


@settings(max_examples=30, deadline=None)
@given(tables())
def test_cells_that_are_found_by_sorting_give_the_same(tables):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coded_module, "_MOST_DENSE", 1)
        sparse = associations(tables)
    assert sparse == associations(tables)


@settings(max_examples=30, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_a_table_beside_its_own_rows_in_another_order_has_no_error(tables, random):
    order = random.sample(range(len(tables.real)), len(tables.real))
    found = associations(Coded(tables.real, tables.real[order], SIZES, ORDERED))
    measured = (found.l1_pairs, found.l1_triples, found.largest_error, found.nmi, found.nmi_top, found.correlation)
    assert measured == pytest.approx((0,) * 6)
    assert found.unseen == 0


def dependent(rows: int = 4000) -> np.ndarray:
    """Columns 0 and 1 determine each other, 2 follows 3, all have an order."""
    draw = np.random.default_rng(4)
    first, third = draw.integers(0, 8, rows), draw.integers(0, 6, rows)
    return np.column_stack([first, 7 - first, np.clip(third + draw.integers(-1, 2, rows), 0, 5), third])


def test_columns_that_were_shuffled_lose_what_tied_them():
    """The broken twin of a synthetic table: each column alone is exact, and nothing else is."""
    rows = dependent()
    shuffled = np.column_stack([np.random.default_rng(i).permutation(column) for i, column in enumerate(rows.T)])
    found = associations(
        Coded(rows, shuffled, (8, 8, 6, 6), (8, 8, 6, 6)), {(0, 1): np.add.outer(np.arange(8), np.arange(8)) != 7}
    )
    assert found.nmi_top == pytest.approx(1, abs=0.02)
    assert found.nmi > 0.2
    assert found.dependence_top == pytest.approx(1, abs=0.02)
    assert found.correlation > 0.2
    assert found.l1_pairs > 0.4
    assert found.impossible == pytest.approx(4000 * 7 / 8, rel=0.05)
    assert found.unseen >= found.impossible
    alone = associations(Coded(rows[:, :1], shuffled[:, :1], (8,), (8,)))
    assert (alone.pairs, alone.triples, alone.l1_pairs, alone.largest_error) == (0, 0, 0, 0)


def test_what_chance_alone_makes_up_is_taken_off():
    """Independent columns of many values in few rows: their mutual information is large and means nothing."""
    draw = np.random.default_rng(1)
    real = np.column_stack([draw.integers(0, 300, 1000), draw.integers(0, 40, 1000)])
    few = np.column_stack([draw.integers(0, 20, 1000), draw.integers(0, 40, 1000)])
    found = associations(Coded(real, few, (300, 40), (0, 0)))
    assert found.nmi > 0.2
    assert found.dependence < 0.03
    tied = real.copy()
    tied[:, 1] = tied[:, 0] % 40
    assert associations(Coded(tied, real, (300, 40), (0, 0))).dependence > 0.95


def test_of_many_columns_some_sets_are_looked_at_the_same_each_time():
    rows = np.zeros((3, 400), int)
    wide = Coded(rows, rows, (2,) * 400, (0,) * 400)
    for order, most in ((2, 100), (3, 50)):
        sets = wide.sets(order, most)
        assert len({*sets}) == most
        assert all(len({*one}) == order and list(one) == sorted(one) for one in sets)
        assert max(one[-1] for one in sets) > 300
        assert sets == wide.sets(order, most)
    few = Coded(rows[:, :5], rows[:, :5], (2,) * 5, (0,) * 5)
    assert few.sets(3, 10) == list(itertools.combinations(range(5), 3))
    assert len(few.sets(3, 9)) == 9


@pytest.mark.parametrize(
    ("real", "made", "sizes", "ordered", "words"),
    [
        ([[0, 1]], [[0, 1]], (2, 2), (0,), "ordered has 1 numbers"),
        ([[0, 2]], [[0, 1]], (2, 2), (0, 0), "real has a code"),
        ([[0, 1]], [[0, -1]], (2, 2), (0, 0), "synthetic has a code"),
        ([[0, 1, 1]], [[0, 1]], (2, 2), (0, 0), "real has shape"),
        ([[0, 1]], np.zeros((0, 2), int), (2, 2), (0, 0), "synthetic has shape"),
    ],
)
def test_tables_that_do_not_fit_are_refused(real, made, sizes, ordered, words):
    with pytest.raises(InvalidArgument, match=words):
        Coded(np.array(real), np.array(made), sizes, ordered)
