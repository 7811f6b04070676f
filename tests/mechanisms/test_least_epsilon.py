"""The least ε for an accuracy: what a plan says of it, and what is charged, of dualquery and mwem."""

from __future__ import annotations

import math
import re

import duckdb
import pytest

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.mechanisms.base import make
from dpsql.mechanisms.promises import mwem_bound, mwem_epsilon, mwem_rounds
from dpsql.privacy.curator import Curator
from dpsql.privacy.pricing import price
from dpsql.release.least import Pricing

ROWS = 400_000
PROMISED = "SELECT guarantee FROM dp_releases()"
OPTIONS = {
    "dualquery": {"alpha": 0.9, "faithful": True, "columns": ["c"], "workload": "all 1-way"},
    "mwem": {"alpha": 0.9, "faithful": True, "workload": "all 3-way"},
}


def table(neighbours: str, budget: float = 10.0) -> dpsql.Database:
    db = dpsql.connect()
    db.sql(f"CREATE TABLE t AS SELECT i % 30 AS a, i * i % 30 AS b, i % 7 AS c FROM range({ROWS}) r(i)")
    db.protect("t", epsilon=budget, delta=1e-6, neighbours=neighbours)
    for name, top in (("a", 29), ("b", 29), ("c", 6)):
        db.domain("t", name, lower=0, upper=top, nulls=False)
    return db


def call(name: str, function: str, more: str = "") -> str:
    given = ", ".join(f"{key} := {value!r}" for key, value in OPTIONS[name].items())
    return f"{function}('t', epsilon := 5.0, mechanism := '{name}', {given}{more})"


@pytest.mark.medium
@pytest.mark.parametrize("name", OPTIONS)
def test_no_more_is_charged_than_an_accuracy_takes(name):
    """The plan's ε is what is spent, of 5, and the table is as near as was asked; so is the same call again, free.

    The plan shows the noise of that ε: one of the request's ε, the broken twin, has a hundred times its ρ.
    """
    with table("replace_one") as db:
        plan = db.sql(f"SELECT note, epsilon, rho FROM {call(name, 'dp_plan', f', assume_rows := {ROWS}')}").fetchall()
        (said,) = [note for note, _, _ in plan if "takes epsilon := " in note]
        least = float(re.search(r"takes epsilon := (\S+) for", said)[1])
        assert "no more is charged" in said
        assert 0 < least < 1
        for _ in range(2):
            db.sql(f"CREATE OR REPLACE TABLE made AS FROM {call(name, 'dp_synthesize', ', rows := 5000')}")
            (promised,) = {
                words.split(",")[0].strip("(").removesuffix("-DP") for (words,) in db.sql(PROMISED).fetchall()
            }
            assert float(promised) == least
            assert 0 < db.budget().epsilon_spent[0] <= least * (1 + 1e-6)
        assert {epsilon for _, epsilon, _ in plan} == {least}
        ((cost,),) = db.sql("SELECT rho FROM dp_ledger() WHERE kind = 'charge'").fetchall()
        assert 0.9 * cost < sum(rho for _, _, rho in plan) <= cost * (1 + 1e-6)
        share = "SELECT c, count(*) / sum(count(*)) OVER () AS p FROM {} GROUP BY c"
        gaps = db.sql(
            f"SELECT max(abs(t.p - m.p)) FROM ({share.format('t')}) t JOIN ({share.format('made')}) m USING (c)"
        )
        assert gaps.fetchall()[0][0] < OPTIONS[name]["alpha"]


@pytest.mark.medium
def test_a_private_number_of_rows_is_not_told_by_the_charge():
    with table("add_remove") as db:
        notes = db.sql(f"SELECT note FROM {call('mwem', 'dp_plan', f', assume_rows := {ROWS}')}").fetchall()
        assert any("their number is private, so all of epsilon is charged" in note for (note,) in notes)
        db.sql(f"FROM {call('mwem', 'dp_synthesize', ', rows := 100')}").fetchall()
        charged = db.sql("SELECT epsilon FROM dp_ledger() WHERE kind = 'charge'").fetchall()
        assert charged == [(pytest.approx(5.0),)]


@pytest.mark.medium
def test_an_epsilon_above_what_is_left_is_no_reason_where_less_is_charged():
    """What an accuracy takes is compared with what is left, and a plan of what was made says what that was charged."""
    plan = "SELECT max(epsilon), max(epsilon_left) FROM {}"
    with table("replace_one", budget=1.0) as db:
        ((epsilon, left),) = db.sql(plan.format(call("mwem", "dp_plan", f", assume_rows := {ROWS}"))).fetchall()
        assert epsilon < 0.1
        db.sql(f"FROM {call('mwem', 'dp_synthesize', ', rows := 100')}").fetchall()
        again = call("mwem", "dp_plan", ", assume_rows := 1000, rows := 100")
        assert db.sql(plan.format(again)).fetchall() == [(epsilon, pytest.approx(left))]


@pytest.mark.medium
def test_an_accuracy_that_costs_more_is_refused_with_one_that_fits():
    with table("replace_one") as db:
        asked = call("mwem", "dp_synthesize").replace("0.9", "0.2, beta := 0.9").replace("5.0", "0.5")
        with pytest.raises(
            duckdb.Error, match=r"alpha 0.2 costs epsilon = .*, of which there is 0.5: alpha := 0\.\d+ fits"
        ) as refused:
            db.sql(f"FROM {asked}")
        assert db.budget().epsilon_spent.tolist() == [0.0]
    fits = float(re.search(r"alpha := (\S+) fits", str(refused.value))[1])
    domain, workload = small(outside=1)
    for alpha, pays in ((fits, True), (fits - 0.002, False)):
        mechanism = make("mwem", {"alpha": alpha})
        rho = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), 0.5, 1e-6).rho
        assert (mechanism.enough(domain, workload, Neighbours.REPLACE_ONE, ROWS) <= rho) is pays


def small(outside: int = 0) -> tuple[Domain, Workload]:
    sizes = {"a": 30, "b": 30, "c": 7}
    attributes = (Attribute(n, "INTEGER", "values", tuple(map(str, range(s + outside)))) for n, s in sizes.items())
    return Domain(tuple(attributes)), Workload((("a", "b", "c"),))


@pytest.mark.parametrize(("alpha", "rows"), [(0.9, 10**6), (0.5, 10**6), (0.3, 10**7)])
def test_mwem_takes_the_least_epsilon_of_all_numbers_of_rounds(alpha, rows):
    """By going through them; and Claim 3 of that run is α."""
    records, queries = math.log(6300), 6300
    rounds = mwem_rounds(records, alpha)
    found = mwem_epsilon(records, queries, rounds, alpha, rows)
    every = min(mwem_epsilon(records, queries, other, alpha, rows) for other in range(1, 5 * rounds))
    assert every <= found <= every * (1 + 1e-4)
    assert mwem_bound(records, queries, rounds, found, rows).error == pytest.approx(alpha)


@pytest.mark.parametrize("neighbours", [Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE])
def test_the_least_epsilon_pays_and_less_does_not(neighbours):
    domain, workload = small()
    mechanism = make("mwem", {"alpha": 0.9})
    questions = mechanism.questions(domain, workload, neighbours)
    pricing = Pricing(questions, price(questions, 5.0, 1e-6))
    asked = mechanism.enough(domain, workload, neighbours, ROWS)
    least = pricing.least(asked)
    assert asked <= least.rho < pricing.offered.rho
    assert pricing.at(least.epsilon * 0.99).rho < asked
    assert pricing.least(pricing.offered.rho * 2) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha": 0.5, "queries": "marginals"}, "alpha is 0.5, which Claim 3 promises of the lecture's algorithm"),
        ({"alpha": 1.5}, "alpha is 1.5: give a number between 0 and 1"),
        ({"beta": 0.0}, "beta is 0: give a number between 0 and 1"),
    ],
)
def test_bad_options(options, said):
    with pytest.raises(InvalidArgument, match=said):
        make("mwem", options)


def test_refused_from_public_facts():
    domain, workload = small()
    with pytest.raises(
        InvalidArgument, match=r"beta is 0.001, but with 6300 queries Claim 3 proves alpha 0.9 in 98 rounds"
    ):
        make("mwem", {"alpha": 0.9, "beta": 0.001}).check(domain, workload, Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidArgument, match="with 30 queries Claim 3 proves nothing of the 46 rounds"):
        make("mwem", {"alpha": 0.9, "rounds": 46}).check(domain, Workload((("a",),)), Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidArgument, match="alpha 0.08 asks for .* rounds, of at most 10000"):
        make("mwem", {"alpha": 0.08}).check(domain, workload, Neighbours.REPLACE_ONE)


@pytest.mark.medium
def test_a_run_that_goes_on_has_the_epsilon_that_was_charged(monkeypatch):
    """Not the larger one of its request: the curator of the second run is given what the ledger says."""
    seen = []

    class Watched(Curator):
        def __init__(self, *parts, **named):
            super().__init__(*parts, **named)
            seen.append(self.remaining_pure)
            if len(seen) == 1:
                raise ZeroDivisionError

    monkeypatch.setattr("dpsql.release.pipeline.Curator", Watched)
    with table("replace_one") as db:
        request = call("mwem", "dp_synthesize", ", rows := 5000")
        with pytest.raises((ZeroDivisionError, duckdb.Error)):
            db.sql(f"FROM {request}").fetchall()
        db.domain("t", "c", lower=0, upper=3, nulls=False)  # by which the questions would share it otherwise
        db.sql(f"FROM {request}").fetchall()
        charged = db.sql("SELECT epsilon FROM dp_ledger() WHERE kind = 'charge'").fetchall()
    assert len(charged) == 1
    assert [float(one) for one in seen] == pytest.approx([charged[0][0]] * 2, rel=1e-9)
    assert charged[0][0] < 1
