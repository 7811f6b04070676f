"""Integers that a mechanism hands over: none of them makes the noise smaller than what a row changes.

Weights of −2⁶³ passed as small ones once, because `np.abs` of the least int64 is negative. Noise was made for a weight of
1, and −2⁶³ times an exact count is its parity. Floats and what is too large became that number by a cast.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_family import LARGEST_WEIGHT, LinearFamily, moved_of_linear
from dpsql.core.neighbours import Neighbours
from dpsql.errors import InvalidArgument
from dpsql.mechanisms import base
from dpsql.mechanisms.asks import Marginals
from dpsql.mechanisms.base import Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.given import given_cell, given_linear

DOMAIN = Domain((Attribute("a", "BOOLEAN", "values", ("false", "true")),))


def family_of(domain, weight, array) -> LinearFamily:
    """Counts the rows of which `a` is true, each weighing `weight`."""
    size = domain.size(("a",))
    return LinearFamily(("a",), array([0, weight, *[0] * (size - 2)]), np.zeros(size, np.int64), 1, Fraction(1))


def by_families(curator, family, rho):
    return curator.measure_linear_families([family], rho)[0].values[0]


def by_cells(curator, family, rho):
    return curator.measure_cells([(family, 0)], rho)[0].values[0]


DOORS = {"families": by_families, "cells": by_cells}
HOSTILE = {
    "the least int64": (-(2**63), lambda values: np.array(values, np.int64)),
    "minus infinity": (-np.inf, lambda values: np.array(values, np.float64)),
    "infinity": (np.inf, lambda values: np.array(values, np.float64)),
    "no number": (np.nan, lambda values: np.array(values, np.float64)),
    "a large float": (-1e300, lambda values: np.array(values, np.float64)),
    "a half, squeezed": (-(2.0**63), lambda values: np.array(values, np.float32)),
    "without a sign": (2**63, lambda values: np.array(values, np.uint64)),
    "an object": (-(2**63), lambda values: np.array(values, object)),
}


@pytest.fixture
def plant():
    """Registers a mechanism that asks what `ask` asks and keeps what it saw; the register is what it was afterwards."""
    before = dict(base._registry)

    def planted(ask):
        class Reading(Mechanism):
            seen: ClassVar[list[float]] = []

            def course(self, facts):
                return Course(facts, GAUSSIAN, (Marginals(Fraction(1), (("a",),)),))

            def fit(self, walk, seed, progress):
                curator = walk.curator
                self.seen.append(ask(curator, walk.facts.charge / 2))
                return Outcome(WeightedRows(curator.domain, np.zeros((1, 1), np.int64), np.ones(1), 8.0), {})

        return register("planted")(dataclass(frozen=True)(Reading))

    yield planted
    base._registry.clear()
    base._registry.update(before)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(("weight", "array"), HOSTILE.values(), ids=HOSTILE)
def test_a_mechanism_does_not_read_a_parity(plant, door, weight, array):
    """Of 8 and of 9 rows: an odd number of rows moved the answer by 2⁶³, which no noise hides."""
    planted = plant(lambda curator, rho: door(curator, family_of(curator.domain, weight, array), rho))
    for rows in (8, 9):
        with dpsql.connect() as db:
            db.sql(f"CREATE TABLE t AS SELECT true AS a FROM range({rows})")
            db.protect("t", epsilon=1.0, delta=1e-6)
            with pytest.raises(InvalidArgument, match="linear queries"):
                db.synthesize("t", epsilon=1.0, mechanism="planted")
    assert not planted.seen


DTYPES = [np.dtype(code) for code in "?bBhHiIlLqQefdgFDOSUmM"]


@st.composite
def arrays(draw):
    """Two numbers of any dtype, its extremes and what a cast makes of others among them, in either byte order."""
    dtype = draw(st.sampled_from(DTYPES))
    edges = [0, 1, -1, LARGEST_WEIGHT, -LARGEST_WEIGHT, LARGEST_WEIGHT + 1, -LARGEST_WEIGHT - 1]
    edges += [sign * 2**power + step for sign in (1, -1) for power in (31, 32, 53, 63, 64) for step in (-1, 0, 1)]
    numbers = st.one_of(st.sampled_from(edges), st.integers(-(2**64), 2**64), st.floats(width=64))
    raw = draw(st.lists(numbers, min_size=2, max_size=2))
    if draw(st.booleans()):
        return raw
    with np.errstate(all="ignore"):
        try:
            made = np.array(raw, object).astype(dtype)
        except (OverflowError, ValueError, TypeError):
            made = np.frombuffer(draw(st.binary(min_size=2 * dtype.itemsize, max_size=2 * dtype.itemsize)), dtype)
    return made.astype(made.dtype.newbyteorder()) if made.dtype.kind in "iuf" and draw(st.booleans()) else made


@settings(deadline=None, max_examples=300)
@given(weights=arrays(), groups=st.one_of(st.just(np.zeros(2, np.int64)), arrays()), count=st.integers(1, 3))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_counted_is_what_was_handed_over(weights, groups, count):
    """Whatever the dtype: refused, or each number is the one given, and a row moves no answer by more than is said."""
    try:
        family = given_linear(DOMAIN, LinearFamily(("a",), weights, groups, count, Fraction(1)))
    except InvalidArgument:
        return
    assert [family.weights.tolist(), family.groups.tolist()] == [[int(w) for w in weights], [int(g) for g in groups]]
    moved = moved_of_linear(DOMAIN, family, Neighbours.ADD_REMOVE)
    for cell in range(2):
        answers = family.exact(np.array([cell]), np.array([1]))
        assert sum(abs(int(answer)) for answer in answers) <= min(moved, family.largest) <= LARGEST_WEIGHT


def test_integers_of_every_width_are_taken():
    for code in "bBhHiIlLqQ":
        family = given_linear(DOMAIN, LinearFamily(("a",), np.array([0, 7], code), np.zeros(2, "B"), 1, Fraction(1)))
        assert (family.weights.dtype, family.weights.tolist()) == (np.int64, [0, 7])


def test_cells_that_are_none_are_refused():
    for cell in (2, -1, 2**63, -(2**63), 2**200, 0.0, None, np.array([0, 1])):
        with pytest.raises(InvalidArgument, match="no cell"):
            given_cell(DOMAIN, ("a",), cell)
    assert given_cell(DOMAIN, ("a",), np.int8(1)) == 1
