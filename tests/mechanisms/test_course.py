"""A course is one value: its price, its plan and its walk agree whatever it is made of, and who strays is stopped."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.workload import Workload
from dpsql.errors import DpsqlError, InsufficientBudget
from dpsql.mechanisms import base
from dpsql.mechanisms.asks import Cells, Marginals, Rounds, Total
from dpsql.mechanisms.base import Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.walk import Walk
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE
from dpsql.privacy.pricing import price
from dpsql.runtime.progress import Quiet
from tests.depth import depth

from ..counters import RELATIONS, Journal, Rows

DOMAIN = Domain(tuple(Attribute(name, "BOOLEAN", "values", ("false", "true")) for name in "abc"))
ROWS = Rows(DOMAIN, np.random.default_rng(1).integers(0, 2, size=(30, 3)))
CLIQUES = [("a",), ("b", "c"), ("a", "b", "c")]
SHARES = st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=20)


@st.composite
def courses(draw):
    """A course by facts; what stands last takes all that is left."""
    total, first = draw(SHARES), draw(SHARES)
    cliques = draw(st.lists(st.sampled_from(CLIQUES), unique=True))
    count, times, each = (draw(st.integers(1, 4)) for _ in range(3))
    last = draw(st.sampled_from((Cells(Fraction(1), count), Rounds(Fraction(1), times, each))))
    noise = draw(st.sampled_from((GAUSSIAN, LAPLACE)))
    return lambda facts: Course.in_turn(facts, noise, Total.of(facts, total), Marginals(first, cliques), last)


def walked(walk: Walk) -> None:
    """Ask all that the course says."""
    walk.total()
    walk.marginals()
    for ask in walk.course.of(Cells):
        queries = [(("a", "b", "c"), cell) for cell in range(ask.count)]
        walk.curator.measure_cells(queries, walk.cell, walk.course.noise)
    for ask in walk.course.of(Rounds):
        for _ in range(ask.times):
            walk.curator.measure_selected_cells(
                [("a", "b", "c")], lambda _: np.zeros(8), ask.each, walk.course.step, walk.course.noise
            )


def a_walk(make, neighbours, factor: int = 1, kinds=None) -> Walk:
    """The walk of a course at its price, by a curator that knows what was declared."""
    course = make(Facts(DOMAIN, Workload(()), neighbours))
    budget = price(course.questions, 1.5, 1e-6)
    pure = budget.exact_epsilon if budget.pure else None
    declared = course.questions.kinds if kinds is None else kinds
    known = {"gdp": budget.gdp, "pure": pure, "kinds": declared, "for_mechanism": True}
    curator = Curator(ROWS, DOMAIN, neighbours, budget.rho, Journal(), Quiet(), **known)
    return Walk(curator, Facts(DOMAIN, Workload(()), neighbours, factor * budget.rho), make)


@pytest.mark.medium
@given(courses(), st.sampled_from(RELATIONS))
@settings(max_examples=depth(40), deadline=None)
def test_price_plan_and_walk_agree(make, neighbours):
    """All of the charge is asked for, to the last digit, and it is what the plan says."""
    walk = a_walk(make, neighbours)
    charge = walk.curator.remaining
    walked(walk)
    assert walk.course.left == 0
    assert walk.curator.remaining == 0
    assert sum(row.rho for row in walk.course.preview()) == pytest.approx(float(charge), rel=1e-12)
    assert walk.curator.remaining_pure is None or 0 <= walk.curator.remaining_pure < Fraction(1, 10**20)


@given(courses(), st.sampled_from(RELATIONS))
@settings(max_examples=depth(20), deadline=None)
def test_who_walks_at_twice_the_price_is_stopped(make, neighbours):
    with pytest.raises(InsufficientBudget):
        walked(a_walk(make, neighbours, factor=2))


@given(courses(), st.sampled_from(RELATIONS))
@settings(max_examples=depth(20), deadline=None)
def test_who_asks_a_kind_that_was_not_declared_is_stopped(make, neighbours):
    for kind in (kinds := make(Facts(DOMAIN, Workload(()), neighbours)).questions.kinds):
        with pytest.raises(DpsqlError, match=f"kind {kind!r}"):
            walked(a_walk(make, neighbours, kinds=[one for one in kinds if one is not kind]))


@pytest.fixture
def mechanisms():
    """The register, as it was afterwards."""
    before = dict(base._registry)
    yield
    base._registry.clear()
    base._registry.update(before)


@pytest.mark.medium
@pytest.mark.parametrize("strays", [False, True])
def test_a_mechanism_that_leaves_its_course_publishes_nothing(mechanisms, strays):
    """Through SQL: its course is one marginal, and it asks a second one, as dear; the honest twin is released."""

    @register("planted")
    @dataclass(frozen=True)
    class Planted(Mechanism):
        """Privacy: ρ-zCDP."""

        def course(self, facts):
            return Course(facts, GAUSSIAN, (Marginals(Fraction(1), (("a",),)),))

        def fit(self, walk, seed, progress):
            answers = walk.marginals()
            if strays:
                answers += walk.marginals()
            return Outcome(WeightedRows(walk.domain, np.zeros((1, 1), np.int64), np.ones(1), 5.0), {"n": len(answers)})

    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(50) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
        if not strays:
            assert len(db.synthesize("t", epsilon=1.0, mechanism="planted").df()) == 5
            return
        with pytest.raises(DpsqlError, match="of its charge 0 is left"):
            db.synthesize("t", epsilon=1.0, mechanism="planted")
        assert db.sql("SELECT state FROM dp_releases()").fetchall() != [("published",)]


HALF, ONE = Fraction(1, 2), Fraction(1)
DEAR = {
    "a share above 1": ((Marginals(Fraction(3, 2), [("a",)]),), "add up to 3/2, more than 1"),
    "shares above 1 together": ((Total(HALF), Marginals(ONE, [("a",)])), "Total 1/2, Marginals 1"),
    "weights above 1": ((Marginals(ONE, [("a",)], [Fraction(2)]),), "add up to 2, more than 1"),
    "more is spent": ((Marginals(ONE, [("a",)], spent=Fraction(2)),), "add up to 2, more than 1"),
    "one below 0": ((Total(Fraction(-1, 2)), Marginals(Fraction(3, 2), [("a",)])), "is below 0"),
    "a weight below 0": ((Marginals(ONE, [("a",), ("b",)], [Fraction(2), -ONE]),), "is below 0"),
    "no exact number": ((Total(0.5), Marginals(0.5, [("a",)])), "give a Fraction"),
}


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("what", DEAR)
def test_a_course_that_no_charge_pays_for_is_refused_before_the_charge(mechanisms, what, noise):
    """Through SQL: the sentence names the mechanism and its shares, and the table keeps its budget."""
    asks, said = DEAR[what]

    @register("dear")
    @dataclass(frozen=True)
    class Dear(Mechanism):
        """Privacy: none, because it never runs."""

        def course(self, facts):
            return Course(facts, noise, asks)

        def fit(self, walk, seed, progress):
            raise AssertionError("it was charged")

    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(50) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
        before = len(db.ledger())
        for call in ("dp_synthesize", "dp_plan"):
            with pytest.raises(duckdb.Error) as caught:
                db.sql(f"FROM {call}('t', epsilon := 1, mechanism := 'dear')").fetchall()
            assert "'dear'" in str(caught.value)
            assert said in str(caught.value)
        assert len(db.ledger()) == before
        assert db.sql("FROM dp_releases()").fetchall() == []
