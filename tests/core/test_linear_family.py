"""Families of linear queries: what one row, or one privacy unit, can change, against all neighbours of a small domain."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpsql.core import linear_family
from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_family import LinearFamily, joint_change, moved_of_linear
from dpsql.core.neighbours import Neighbours

SIZES = {"a": 2, "b": 3, "c": 2}


def domain_of(*, outside: bool) -> Domain:
    """Each column has a code for what is outside, or rows may have no cell."""
    return Domain(
        tuple(
            Attribute(name, "INTEGER", "values", tuple(map(str, range(size))), outside=outside)
            for name, size in SIZES.items()
        )
    )


WHOLE, OPEN = domain_of(outside=True), domain_of(outside=False)
RELATIONS = (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE, Neighbours("add_remove", 2))


@st.composite
def families(draw, domain=WHOLE, most=3):
    found = []
    for _ in range(draw(st.integers(1, most))):
        clique = domain.clique(draw(st.sets(st.sampled_from("abc"), min_size=1, max_size=2)))
        cells, count = domain.size(clique), draw(st.integers(1, 3))
        weights = draw(st.lists(st.integers(-4, 9), min_size=cells, max_size=cells))
        groups = draw(st.lists(st.integers(0, count - 1), min_size=cells, max_size=cells))
        found.append(LinearFamily(clique, np.array(weights), np.array(groups), count, Fraction(1)))
    return found


def answers(domain: Domain, asked: list[LinearFamily], rows: list[tuple[int, ...] | None]) -> np.ndarray:
    """All answers of a table, divided by each family's largest weight; None is a row without a cell."""
    found = []
    for family in asked:
        marginal = np.zeros(domain.shape(family.clique))
        for row in rows:
            if row is not None:
                marginal[tuple(row[domain.names.index(name)] for name in family.clique)] += 1
        found.append(family.answers(marginal.ravel()) / family.largest)
    return np.concatenate(found)


def brute(domain: Domain, asked: list[LinearFamily], power: int, neighbours: Neighbours, *, none: bool) -> float:
    """The most that Σ |change|^power is over all pairs of neighbours."""
    rows = list(itertools.product(*(range(size) for size in domain.shape(domain.names))))
    single = [answers(domain, asked, [row]) for row in rows] + ([answers(domain, asked, [None])] if none else [])
    vectors = np.array(single)
    if neighbours.total_is_public:
        changes = vectors[:, None] - vectors[None]
    elif neighbours.cell == 1:
        changes = vectors
    else:
        changes = vectors[:, None] + vectors[None]
    return float((np.abs(changes) ** power).sum(axis=-1).max())


def exactly(asked, power, neighbours, domain=WHOLE, *, none=False):
    return brute(domain, asked, power, neighbours, none=none)


@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
@pytest.mark.parametrize("power", [1, 2])
@settings(deadline=None, max_examples=25)
@given(families())
def test_the_joint_change_is_that_of_all_neighbours(neighbours, power, asked):
    """Equal to brute force: on this domain no bound is needed."""
    found = float(joint_change(WHOLE, asked, power, neighbours))
    truth = exactly(asked, power, neighbours)
    assert truth <= found * (1 + 1e-9)
    assert found <= max(truth, 1e-6) * (1 + 1e-5) + 2e-6


def test_a_change_that_leaves_out_the_others_is_noticed():
    """The broken twin: the largest change of one family alone is below that of two together."""
    one = LinearFamily(("a",), np.array([1, 0, 0]), np.zeros(3, int), 1, Fraction(1))
    two = LinearFamily(("b",), np.array([3, 3, 1, 0]), np.zeros(4, int), 1, Fraction(1))
    alone = max(float(joint_change(WHOLE, [family], 1, Neighbours.ADD_REMOVE)) for family in (one, two))
    assert alone < exactly([one, two], 1, Neighbours.ADD_REMOVE) == 2.0


@pytest.mark.parametrize("power", [1, 2])
@settings(deadline=None, max_examples=25)
@given(families(OPEN))
def test_a_row_without_a_cell_counts_too(power, asked):
    """A row that replaces one in no cell; a bound, of at most twice as much for L1 and four times for its square."""
    truth = brute(OPEN, asked, power, Neighbours.REPLACE_ONE, none=True)
    found = float(joint_change(OPEN, asked, power, Neighbours.REPLACE_ONE))
    assert truth <= found * (1 + 1e-9) + 1e-6
    assert found <= max(truth, 1e-6) * 2**power * len(asked) + 2e-6


@pytest.mark.parametrize("power", [1, 2])
@settings(deadline=None, max_examples=25)
@given(asked=families())
def test_the_bound_of_many_cells_holds(power, asked):
    """What larger domains use, where pairs of cells are too many."""
    shape = dict(zip(WHOLE.names, WHOLE.shape(WHOLE.names), strict=True))
    names = [name for name in WHOLE.names if any(name in family.clique for family in asked)]
    halves = [linear_family._halves(family, power, every_row=True) for family in asked]
    bound = 2 * linear_family._summed(shape, names, asked, halves)
    assert exactly(asked, power, Neighbours.REPLACE_ONE) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
@settings(deadline=None, max_examples=25)
@given(families(most=1))
def test_one_family_moves_its_score_by_as_much(neighbours, asked):
    """In steps, as selections take it: of all groups together, and of the group that moves the most."""
    (family,) = asked
    assume(family.weights.any())
    together = exactly(asked, 1, neighbours) * family.largest
    assert moved_of_linear(WHOLE, family, neighbours) == max(1, round(together))
    rows = [answers(WHOLE, asked, [row]) for row in itertools.product(*map(range, WHOLE.shape(WHOLE.names)))]
    vectors = np.array(rows) * family.largest
    changes = vectors[:, None] - vectors[None] if neighbours.total_is_public else neighbours.cell * vectors
    single = moved_of_linear(WHOLE, family, neighbours, single=True)
    assert single >= max(1, round(float(np.abs(changes).max())))
    assert single <= max(1, neighbours.cell * family.largest, round(float(np.abs(changes).max())))


def test_families_whose_joint_cells_are_too_many_are_added_up(monkeypatch):
    """Put together as long as their cells are few: a bound, and the exact change of each alone."""
    asked = [
        LinearFamily((name,), np.arange(size + 1), np.zeros(size + 1, int), 1, Fraction(1))
        for name, size in SIZES.items()
    ]
    opposite = LinearFamily(("a",), np.arange(SIZES["a"] + 1)[::-1].copy(), np.zeros(3, int), 1, Fraction(1))
    found = joint_change(WHOLE, [*asked, opposite], 1, Neighbours.ADD_REMOVE)
    assert float(found) == pytest.approx(3, abs=1e-5)  # a's two are never both at their most
    linear_family._joint_change.cache_clear()
    monkeypatch.setattr(linear_family, "_MOST_JOINT", 3)
    apart = joint_change(WHOLE, [*asked, opposite], 1, Neighbours.ADD_REMOVE)
    assert float(apart) == pytest.approx(3, abs=1e-5)
    other = LinearFamily(("a", "b"), np.arange(12), np.zeros(12, int), 1, Fraction(1))
    linear_family._joint_change.cache_clear()
    assert float(joint_change(WHOLE, [opposite, other], 1, Neighbours.ADD_REMOVE)) == pytest.approx(2, abs=1e-5)
    linear_family._joint_change.cache_clear()
    monkeypatch.undo()
    assert float(joint_change(WHOLE, [opposite, other], 1, Neighbours.ADD_REMOVE)) < 1.4


def test_what_tells_families_apart():
    """Books and keys have the digest: it must never change."""
    one = LinearFamily(("a",), np.array([2, 1, 0]), np.zeros(3, int), 1, Fraction(1, 2), "sum(x)")
    assert one.digest == "c76c5d7fe8a3f792c2829e52973706d4de72fc65cea0589f4eaf259aed1bf648"
    assert one == LinearFamily(("a",), np.array([2, 1, 0]), np.zeros(3, int), 1, Fraction(1, 2), "another text")
    for other in (
        LinearFamily(("b",), np.array([2, 1, 0]), np.zeros(3, int), 1, Fraction(1, 2)),
        LinearFamily(("a",), np.array([2, 1, 1]), np.zeros(3, int), 1, Fraction(1, 2)),
        LinearFamily(("a",), np.array([2, 1, 0]), np.array([0, 1, 0]), 2, Fraction(1, 2)),
        LinearFamily(("a",), np.array([2, 1, 0]), np.zeros(3, int), 1, Fraction(1)),
    ):
        assert other != one
