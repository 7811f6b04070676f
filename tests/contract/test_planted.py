"""A mechanism that lies: it is charged what was asked, its promise is the kernel's, and it gets no more than that.

Every lie goes through SQL as a registered mechanism. Nothing of it may be charged otherwise than by the request's ε and
δ, shown as another guarantee, or answered beyond the kinds of questions that it declared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.core.threshold import Threshold
from dpsql.errors import DpsqlError, InsufficientBudget, InvalidArgument
from dpsql.mechanisms import base
from dpsql.mechanisms.asks import Marginals
from dpsql.mechanisms.base import Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import PlannedMeasurement
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.accounting import OTHER_PRICE, Budget, gaussian_gdp, units, zcdp_rho
from dpsql.privacy.distributions import GAUSSIAN

DELTA = 1e-6
SHARE = Fraction(1, 10_000)


def asks_all_of_rho(curator, rho):
    return curator.measure([(("a",), rho)])[0].values.tolist()


class Planted(Mechanism):
    """Asks what its `ask` says, and keeps what it saw in `seen`."""

    ask = staticmethod(asks_all_of_rho)

    def course(self, facts):
        return Course(facts, GAUSSIAN, (Marginals(Fraction(1), (("a",),)),))

    def fit(self, walk, seed, progress):
        curator = walk.curator
        self.seen.append(type(self).ask(curator, walk.facts.charge))
        codes = np.zeros((1, len(curator.domain)), np.int64)
        return Outcome(WeightedRows(curator.domain, codes, np.ones(1), 8.0), {})


@pytest.fixture
def plant():
    """Registers a mechanism 'planted' with members of its own; the register is what it was afterwards."""
    before = dict(base._registry)

    def planted(**members):
        cls = type("Lying", (Planted,), {"seen": [], **members})
        return register("planted")(dataclass(frozen=True)(cls))

    yield planted
    base._registry.clear()
    base._registry.update(before)


def opened(delta=DELTA, epsilon=3.0) -> dpsql.Database:
    db = dpsql.connect()
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, 'v' || i % 3 AS v FROM range(30) r(i)")
    db.protect("t", epsilon=epsilon, delta=delta)
    db.domain("t", "v", values=["v0", "v1"])
    return db


@pytest.fixture
def table():
    with opened() as db:
        yield db


@pytest.fixture(scope="module")
def shared():
    """One table for many tests, each of which spends of it at most what one release costs."""
    with opened(epsilon=30.0) as db:
        yield db


def spent(db) -> float:
    return db.sql("SELECT epsilon_spent FROM dp_budget()").fetchone()[0]


def synthesize(db, release=""):
    return db.synthesize("t", epsilon=1.0, mechanism="planted", release=release)


def charged(db) -> tuple[int, ...]:
    """The ρ and the g of all releases, and how many answers were given."""
    return db.sql("SELECT rho_spent, gdp_spent, (SELECT count(*) FROM dpsql.answer) FROM dpsql.account").fetchone()


# What it says of itself


def lie(epsilon, delta, rho, gdp):
    return lambda self, *arguments: Budget(epsilon, delta, Fraction(rho), Fraction(gdp))


LIES = {
    "a small epsilon, a large charge": {"budget": lie(0.001, 1e-9, Fraction(1, 10), Fraction(1, 10))},
    "a pure promise": {"budget": lie(0.5, 0.0, Fraction(1, 100), Fraction(1, 100))},
    "a negative charge": {"budget": lie(1.0, DELTA, -1, -1)},
    "no charge": {"budget": lie(1.0, DELTA, 0, 0)},
    "a charge as text": {"budget": lambda self, *arguments: Budget("0.001", "1e-9", "0", "0")},
    "not a number": {"budget": lie(float("nan"), float("nan"), Fraction(1, 10), Fraction(1, 10))},
    "a conversion": {"conversion": property(lambda self: "none"), "budget": lie(0.1, DELTA, 1, 1)},
    "another's name": {"name": property(lambda self: "projection"), "budget": lie(0.1, DELTA, 1, 1)},
}


@pytest.mark.medium
@pytest.mark.parametrize("members", LIES.values(), ids=LIES)
def test_what_a_mechanism_says_of_its_guarantee_is_not_heard(table, plant, members):
    planted = plant(**members)
    planned = "SELECT DISTINCT epsilon, delta, mechanism FROM dp_plan('t', epsilon := 1.0, mechanism := 'planted')"
    assert table.sql(planned).fetchall() == [(1.0, DELTA, "planted")]
    assert spent(table) == 0
    synthesize(table)
    assert planted.seen
    assert spent(table) == pytest.approx(1.0, rel=1e-6)
    (shown,) = table.sql("SELECT mechanism, guarantee FROM dp_releases()").fetchall()
    assert shown[0] == "planted"
    assert shown[1].startswith("(1, 1e-06)-DP, by 0.2")
    assert "Gaussian DP" in shown[1]


def declared(**fields):
    """A declaration whose fields were forced."""

    def questions(self, domain, workload, neighbours):
        from dpsql.privacy.pricing import Questions

        found = Questions.of("gaussian")
        for name, value in fields.items():
            object.__setattr__(found, name, value)
        return found

    return questions


def parts(*given):
    def questions(self, domain, workload, neighbours):
        from dpsql.privacy.pricing import Part, Questions

        return Questions.pure(*(Part(*part) for part in given))

    return questions


def of_a_subclass(self, domain, workload, neighbours):
    from dpsql.privacy.pricing import Questions

    class Changing(Questions):
        kinds = property(lambda self: ("gaussian", "selection"))

    return object.__new__(Changing)


class Free(Fraction):
    """A fraction that costs nothing when it is added up."""

    def __radd__(self, other):
        return other

    def __mul__(self, other):
        return Fraction(0)

    __rmul__ = __pow__ = __mul__


class Few(int):
    """A whole number that multiplies to nothing."""

    def __mul__(self, other):
        return 0

    __rmul__ = __mul__

    def __lt__(self, other):
        return False


class Word(str):
    """A text that equals every other."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("gaussian")


class Cheap(type(GAUSSIAN)):
    """Gaussian noise that costs nothing, and that proves a pure ε."""

    __slots__ = ()
    gdp = Fraction(0)
    span = 1


DECLARATIONS = {
    "nothing": lambda self, *arguments: None,
    "a budget": lie(1.0, DELTA, 0, 0),
    "a subclass": of_a_subclass,
    "no kinds": declared(kinds=()),
    "kinds in a list": declared(kinds=["gaussian"]),
    "an unknown kind": declared(kinds=("exact",)),
    "a kind that equals every other": declared(kinds=(Word("exact"),)),
    "a kind of its own making": declared(kinds=(Cheap(),)),
    "a part of a kind of its own making": parts((Cheap(), 1, Fraction(1))),
    "the Gaussian conversion for selections": declared(kinds=("gaussian", "selection"), conversion="gdp"),
    "an unknown conversion": declared(conversion="free"),
    "parts that are none": declared(parts=((1, 2, 3),)),
    "parts of other kinds": declared(parts=parts(("laplace", 1, Fraction(1)))(None, 0, 0, 0).parts)
    if hasattr(base, "name_of")
    else declared(parts=(1,)),
    "more than all of epsilon": parts(("laplace", 3, Fraction(1, 2))),
    "Gaussian noise as pure": parts(("gaussian", 1, Fraction(1))),
    "a negative share": parts(("laplace", 1, Fraction(-1))),
    "a share in floats": parts(("laplace", 1, 0.5)),
    "a share that is no number": parts(("laplace", 1, float("nan"))),
    "a share as text": parts(("laplace", 1, "1/2")),
    "a share that costs nothing": parts(("laplace", 1, Free(1))),
    "half a question": parts(("laplace", 0.5, Fraction(1))),
    "fewer than no questions": parts(("laplace", -1, Fraction(1))),
    "true questions": parts(("laplace", True, Fraction(1))),
    "questions that multiply to nothing": parts(("laplace", Few(2), Fraction(1))),
}


@pytest.mark.parametrize("questions", DECLARATIONS.values(), ids=DECLARATIONS)
def test_a_declaration_that_cannot_be_is_refused_before_the_charge(shared, plant, questions):
    before = charged(shared)
    plant(questions=questions)
    with pytest.raises(DpsqlError, match="questions"):
        synthesize(shared)
    with pytest.raises(duckdb.Error, match="questions"):
        shared.sql("FROM dp_plan('t', epsilon := 1.0, mechanism := 'planted')").fetchall()
    assert charged(shared) == before


def test_a_declaration_that_changes_is_refused_before_the_charge(table, plant):
    """Bound with one declaration, run with another: nothing is charged for either."""
    from dpsql.privacy.pricing import Questions

    ways = iter([Questions.of("gaussian"), *[Questions.of("gaussian", "selection")] * 9])
    plant(questions=lambda self, *arguments: next(ways))
    with pytest.raises(DpsqlError, match="changed since the statement was bound"):
        synthesize(table)
    assert spent(table) == 0


def test_gaussian_noise_is_no_pure_promise_of_a_table_without_delta(plant):
    plant(budget=lie(1.0, 0.0, 1, 2))
    with opened(delta=0.0) as db:
        with pytest.raises(DpsqlError, match="Gaussian noise cannot promise"):
            synthesize(db)
        assert spent(db) == 0


def test_a_class_without_a_course_or_questions_is_refused_at_once(plant):
    with pytest.raises(InvalidArgument, match=r"mechanism 'planted' has no course"):
        plant(course=Mechanism.course)


@pytest.mark.parametrize("rho", [2.0, float("nan"), -1.0, "0.1", Fraction(1, 100)])
def test_a_plan_beyond_the_charge_is_not_shown(shared, plant, rho):
    plant(plan=lambda self, *arguments: [PlannedMeasurement(("a",), 2, 1.0, rho)])
    with pytest.raises(duckdb.Error, match="not within its charge"):
        shared.sql("FROM dp_plan('t', epsilon := 1.0, mechanism := 'planted')").fetchall()


# What it asks


def zeros(clique):
    return np.zeros(3)  # two values and NULL


class Spy(np.ndarray):
    """Answers of a model that would see what is done with them."""

    seen: list

    def __array_finalize__(self, other):
        self.seen = getattr(other, "seen", [])

    def __setitem__(self, key, value):
        self.seen.append(np.array(value))
        super().__setitem__(key, value)


def spies(curator, rho):
    spy = np.zeros(3).view(Spy)
    curator.select_cells([("a",)], lambda clique: spy, 1, rho / 4)
    return [values.tolist() for values in spy.seen]


def dear(curator, rho):
    curator.remaining = Fraction(10**9)
    return curator.measure([(("a",), Fraction(10**6))])


def sharper(curator, rho):
    curator.neighbours = base.Neighbours("replace_one")
    return curator.total(rho)


def crafted_query(curator, rho):
    """A sum whose value outside its bounds is a thousand times what the noise is made for."""
    from dpsql.core.linear_query import LinearQuery, Moment, Part

    one, zero = np.ones((1, 1), np.int64), np.zeros((1, 1), np.int64)
    part = Part((), one, zero, (1,))
    return curator.measure_linear(LinearQuery(curator.domain, (part,), moments={0: Moment("a", 1.0, 0, 1, 1000)}), rho)


class Silent(type(GAUSSIAN)):
    """Gaussian noise in its own opinion, of which there is none."""

    def draw(self, scale, count, entropy):
        return np.zeros(count, np.int64)

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash(GAUSSIAN)


ONLY_GAUSSIAN = {
    "noise of its own making": lambda curator, rho: curator.measure([(("a",), rho / 2)], Silent()),
    "noise of its own making on cells": lambda curator, rho: curator.measure_cells([(("a",), 0)], rho / 2, Silent()),
    "cells of columns that are none": lambda curator, rho: curator.measure_cells([((1,), 0)], rho / 2),
    "a marginal of columns that are none": lambda curator, rho: curator.measure([((b"a",), rho / 2)]),
    "another instance of a noise": lambda curator, rho: curator.measure([(("a",), rho / 2)], type(GAUSSIAN)()),
    "a change of the noise": lambda curator, rho: object.__setattr__(GAUSSIAN, "draw", Silent().draw),
    "a change of its price": lambda curator, rho: setattr(GAUSSIAN, "gdp", Fraction(0)),
    "exact counts": lambda curator, rho: curator.measure([(("a",), rho / 2)], "none"),
    "exact cells": lambda curator, rho: curator.measure_cells([(("a",), 0)], rho / 2, "none"),
    "Laplace noise": lambda curator, rho: curator.measure([(("a",), rho / 2)], "laplace"),
    "noise that equals every other": lambda curator, rho: curator.measure([(("a",), rho / 2)], Word("none")),
    "a cell chosen": lambda curator, rho: curator.select_cells([("a",)], zeros, 1, rho / 4),
    "a marginal chosen": lambda curator, rho: curator.select_marginals([("a",), ("v",)], zeros, 1, rho / 4),
    "a source chosen": lambda curator, rho: curator.select_source(
        [("a",)], [("v",)], zeros, zeros, rho / 4, [0.0], [1, 1]
    ),
    "a cell drawn": lambda curator, rho: curator.sample_cells([("a",)], zeros, 1, 1, rho / 4),
    "twice the charge": lambda curator, rho: curator.measure([(("a",), 2 * rho)]),
    "the charge twice": lambda curator, rho: curator.measure([(("a",), rho), (("v",), SHARE)]),
    "a share that costs nothing": lambda curator, rho: curator.measure([(("a",), Free(10**6))]),
    "a share in floats": lambda curator, rho: curator.measure([(("a",), 0.5)]),
    "a negative share": lambda curator, rho: curator.measure([(("a",), -rho)]),
    "cells that cost nothing": lambda curator, rho: curator.measure_cells([(("a",), 0)], Free(10**6)),
    "values by chance": lambda curator, rho: curator.discover_values("v", rho / 2, 0.999),
    "values for sure": lambda curator, rho: curator.discover_values("v", rho / 2, 1e-9),
    "values by no chance": lambda curator, rho: curator.discover_values("v", rho / 2, float("nan")),
    "other bins": lambda curator, rho: curator.measure_bins(next(iter(curator.domain)), rho / 2),
    "a crafted query": crafted_query,
    "a charge of its own": dear,
    "neighbours of its own": sharper,
}
SELECTIONS = {
    "more than one kind": lambda curator, rho: curator.measure([(("a",), rho / 2)]),
    "twice the charge": lambda curator, rho: curator.select_cells([("a",)], zeros, 2, rho),
    "fewer than none": lambda curator, rho: curator.select_cells([("a",)], zeros, -1, rho / 4),
    "none": lambda curator, rho: curator.sample_cells([("a",)], zeros, 1, 0, rho / 4),
    "a number that multiplies to nothing": lambda curator, rho: curator.select_cells([("a",)], zeros, Few(2), rho),
    "a share that costs nothing": lambda curator, rho: curator.select_cells([("a",)], zeros, 1, Free(10**6)),
    "a large negative weight": lambda curator, rho: curator.select_marginals(
        [("a",), ("v",)], zeros, 1, rho / 4, weights=[-(10**6), 1]
    ),
    "a source chosen by a negative weight": lambda curator, rho: curator.select_source(
        [("a",)], [("v",)], zeros, zeros, rho / 4, [0.0], [1, -(10**6)]
    ),
    "a source chosen without a weight": lambda curator, rho: curator.select_source(
        [("a",)], [("v",)], zeros, zeros, rho / 4, [0.0], [1]
    ),
    "a source that costs nothing": lambda curator, rho: curator.select_source(
        [("a",)], [("v",)], zeros, zeros, Free(10**6), [0.0], [1, 1]
    ),
    "a source of none": lambda curator, rho: curator.select_source([], [], zeros, zeros, rho / 4, [], []),
    "a weight between": lambda curator, rho: curator.select_marginals([("a",)], zeros, 1, rho / 4, weights=[0.5]),
    "too few weights": lambda curator, rho: curator.select_marginals([("a",), ("v",)], zeros, 1, rho / 4, weights=[1]),
    "a weight beyond 64 bits": lambda curator, rho: curator.sample_cells([("a",)], zeros, 2**62, 1, rho / 4),
    "a selection for noise": lambda curator, rho: curator.measure([(("a",), rho / 4)], "selection"),
    "a selection for noise of cells": lambda curator, rho: curator.measure_cells([(("a",), 0)], rho / 4, "selection"),
    "a negative factor": lambda curator, rho: curator.sample_cells([("a",)], zeros, -(10**3), 1, rho / 4),
}


def asks_selections(self, domain, workload, neighbours):
    from dpsql.privacy.pricing import Questions

    return Questions.of("selection")


@pytest.mark.parametrize(
    ("questions", "ask"),
    [
        *((Mechanism.questions, ask) for ask in ONLY_GAUSSIAN.values()),
        *((asks_selections, ask) for ask in SELECTIONS.values()),
    ],
    ids=[*ONLY_GAUSSIAN, *(f"selection: {name}" for name in SELECTIONS)],
)
def test_a_mechanism_that_asks_otherwise_is_stopped_before_it_sees_anything(shared, plant, request, questions, ask):
    planted = plant(ask=staticmethod(ask), questions=questions)
    shared.forgive("t", reason="each test stops a release")
    rho, gdp, answers = charged(shared)
    with pytest.raises((DpsqlError, AttributeError)):
        synthesize(shared, release=request.node.name)
    assert planted.seen == []
    selects = questions is asks_selections
    cost = zcdp_rho(1.0, DELTA) if selects else gaussian_gdp(1.0, DELTA)
    dear = cost * OTHER_PRICE if selects else cost
    assert charged(shared) == (rho + units(cost), gdp + units(dear), answers)


class Turning(Threshold):
    """Thresholds of other columns each time that they are asked for."""

    def __init__(self):
        object.__setattr__(self, "turns", iter(range(10**6)))
        object.__setattr__(self, "least", 1)

    @property
    def clique(self):
        return (("a",), ("v",))[next(self.turns) % 2]

    __hash__ = object.__hash__


def test_what_is_counted_is_what_is_recorded(table, plant):
    """Columns that change while they are asked about: they are copied before anything is made of them."""
    planted = plant(ask=staticmethod(lambda curator, rho: curator.measure_cells([(Turning(), 0)], rho)[0].clique))
    synthesize(table)
    (found,) = table.sql("SELECT question, columns FROM dpsql.answer").fetchall()
    assert tuple(json.loads(found[0])["clique"]) == tuple(found[1]) == planted.seen[0]


def test_a_models_answers_see_no_count(table, plant):
    planted = plant(ask=staticmethod(spies), questions=asks_selections)
    synthesize(table)
    assert planted.seen == [[]]


def test_questions_are_debited_by_kind(table, plant):
    """A selection costs 11/7 of its ρ in g, a Gaussian count as much as its ρ; both are told apart in the charge."""
    from dpsql.privacy.pricing import Questions

    def ask(curator, rho):
        before = curator.remaining_gdp
        curator.measure([(("a",), rho / 3)])
        between = curator.remaining_gdp
        curator.select_cells([("a",)], zeros, 1, rho / 3)
        return [(before - between) / (rho / 3), (between - curator.remaining_gdp) / (rho / 3), curator.remaining / rho]

    planted = plant(ask=staticmethod(ask), questions=lambda self, *arguments: Questions.of("gaussian", "selection"))
    synthesize(table)
    assert planted.seen == [[1, Fraction(11, 7), Fraction(1, 3)]]
    answers = [json.loads(row[0])["ask"] for row in table.sql("SELECT question FROM dpsql.answer").fetchall()]
    assert answers == ["measure", "select"]


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["laplace", "selection"])
def test_a_pure_promise_is_debited_in_epsilon(plant, kind):
    """Declared: a thousandth of ε. Asked: what ten times that costs; and the other kind, which is not declared."""
    asks = {
        "laplace": lambda curator, rho: curator.measure([(("a",), rho)], "laplace"),
        "selection": lambda curator, rho: curator.select_cells([("a",)], zeros, 1, rho),
    }
    other = next(name for name in asks if name != kind)
    small = parts((kind, 1, Fraction(1, 1000)))
    for ask, refused in ((lambda c, rho: asks[kind](c, 100 * rho), InsufficientBudget), (asks[other], InvalidArgument)):
        planted = plant(ask=staticmethod(ask), questions=small)
        with opened(delta=0.0) as db:
            with pytest.raises(refused):
                synthesize(db)
            assert planted.seen == []
            assert spent(db) == 1.0
            assert db.sql("SELECT guarantee[:4] FROM dp_releases()").fetchall() in ([], [("1-DP",)])
