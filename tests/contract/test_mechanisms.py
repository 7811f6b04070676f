"""What every registered mechanism promises, tested on each by name."""

from __future__ import annotations

import inspect
import json
import math
import runpy
from collections import Counter, defaultdict
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
import dpsql.mechanisms
from dpsql.api.cli import main
from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, DpsqlError, InsufficientBudget, Interrupted, InvalidArgument
from dpsql.mechanisms.base import explicit_options, make, options_of, registered
from dpsql.mechanisms.defaults import Meaning, having_papers, make_for
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import find_kind
from dpsql.privacy.pricing import price
from dpsql.privacy.questions import LinearQuestion
from dpsql.release.plan import plan_table
from dpsql.release.synthesis import resolve
from dpsql.runtime.progress import Quiet
from tests.conftest import settle

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows

FAST: dict[str, dict[str, Any]] = defaultdict(dict)
"""Options with which a mechanism works briefly; a new one needs none here if it does so by its defaults."""
FAST |= {
    "ide": {"iterations": 3},
    "dualquery": {"rounds": 4, "samples": 3},
    "fem": {"rounds": 4, "samples": 5},
    "barak": {"seconds": 5},
    "jam": {"relaxed_rows": 8, "steps": 5},
    "lp": {"points": 50, "seconds": 5},
    "pgm": {"steps": 5},
    "pmwpub": {"rounds": 1, "passes": 2},
    "direct": {"relaxed_rows": 8, "steps": 5},
    "hdmm": {"relaxed_rows": 8, "steps": 5},
    "mwem": {"rounds": 3},
    "projection": {"relaxed_rows": 8, "steps": 5},
    "rap": {"rounds": 2, "queries_per_round": 2, "relaxed_rows": 8, "steps": 5},
    "residual": {"relaxed_rows": 8, "steps": 5},
}
NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(bool(cls.package) and find_spec(cls.package) is None, reason=f"needs {cls.package}"),
    )
    for name, cls in sorted(registered().items())
]


def domain_of(columns: int) -> Domain:
    return Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", ("0", "1", "2", "3", "4")) for i in range(columns)))


def prior_of(domain: Domain) -> Prior:
    """A public table of all values of each column."""
    codes = np.random.default_rng(5).integers(0, 5, size=(40, len(domain)))
    return Prior(domain.names, codes, np.ones(len(codes)))


def run(
    name: str, *, columns=3, rows=60, rho=Fraction(1), seed="contract", neighbours=Neighbours.ADD_REMOVE, stop=None
):
    domain = domain_of(columns)
    table = np.random.default_rng(1).integers(0, 3, size=(rows, columns))
    journal = Journal()
    progress = Quiet(stop or (lambda: False))
    entropy, prior = seeded_entropy(seed), prior_of(domain) if registered()[name].needs_prior else None
    curator = Curator(Rows(domain, table), domain, neighbours, rho, journal, progress, entropy, prior=prior)
    workload = Workload((domain.names[:2],) if columns > 1 else (domain.names,))
    mechanism = make(name, FAST[name])
    mechanism.check(domain, workload, neighbours)
    outcome = mechanism.run(curator, workload, rho, 7, progress)
    codes = outcome.model.sample(rows, np.random.default_rng(3), progress)
    return domain, curator, journal, outcome, codes


def with_prior(db, name, table):
    """The argument of a mechanism that needs a prior: a public table with the columns of `table`."""
    if not registered()[name].needs_prior:
        return {}
    db.sql(f"CREATE OR REPLACE TABLE public_rows AS FROM {table}")
    settle(db, "public_rows")
    return {"prior": "public_rows"}


@pytest.mark.medium
def test_what_each_was_told_is_what_the_ledger_has(tmp_path):
    """Measurements, cells, selections and values are read back as they were written: `dpsql ledger verify` compares."""
    path = tmp_path / "t.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b, 'v' || i % 2 AS v FROM range(300) r(i)")
        db.protect("t", epsilon=300.0, delta=1e-6)
        db.discover("t", "v", epsilon=5.0)
        names = [name for name in sorted(registered()) if find_spec(registered()[name].package or "dpsql") is not None]
        for name in names:
            several = {"queries_per_round": 8} if name == "rap" else {}  # selected in another order than that of cells
            options = {**FAST[name], **several, **with_prior(db, name, "(SELECT a, b, v FROM t)")}
            given = "".join(f", {key} := {value!r}" for key, value in options.items())
            db.sql(f"FROM dp_synthesize('t', epsilon := 5.0, mechanism := '{name}', reuse := false{given})").fetchall()
        kinds = db.sql("SELECT DISTINCT kind FROM dpsql.answer ORDER BY 1").fetchall()
        assert [kind for (kind,) in kinds] == ["cells", "marginal", "selection", "values"]
    assert main(["ledger", "verify", str(path)]) == 0


def test_no_option_is_of_a_mechanism_that_is_gone():
    assert {*FAST, *OTHERWISE} <= {*registered()}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_spends_its_charge_and_no_more(name, neighbours):
    _, curator, journal, _, _ = run(name, neighbours=neighbours)
    spent = sum((answer.rho for answer in journal.answers), Fraction(0))
    assert spent + curator.remaining == 1
    assert spent <= 1
    assert float(spent) > 0.98


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_pure_promise_adds_up(name, neighbours):
    """Where a mechanism promises ε-DP, the curator that counts ε stops none of its questions, and little is left."""
    domain, epsilon = domain_of(3), 1.5
    workload = Workload((domain.names[:2],))
    mechanism = make(name, FAST[name])
    budget = price(mechanism.questions(domain, workload, neighbours), epsilon, 1e-6)
    if not budget.pure:
        assert budget.delta == 1e-6
        return
    table = np.random.default_rng(1).integers(0, 3, size=(60, 3))
    pure = budget.exact_epsilon
    rows, prior = Rows(domain, table), prior_of(domain)
    curator = Curator(rows, domain, neighbours, budget.rho, Journal(), Quiet(), pure=pure, prior=prior)
    mechanism.run(curator, workload, budget.rho, 7, Quiet())
    assert 0 <= curator.remaining_pure < 0.02 * pure
    less = pure * 98 / 100
    curator = Curator(rows, domain, neighbours, budget.rho, Journal(), Quiet(), pure=less, prior=prior)
    with pytest.raises(InsufficientBudget):
        mechanism.run(curator, workload, budget.rho, 7, Quiet())


OTHERWISE = {
    "barak": [{"noise": "gaussian"}, {"queries": "fourier"}, {"queries": "fourier", "noise": "gaussian"}],
    "direct": [{"noise": "laplace"}],
    "hdmm": [{"noise": "laplace"}],
    "ide": [{"noise": "gaussian"}, {"region": "c2"}, {"region": "c2", "group_by": ("c1",)}],
    "lp": [{"noise": "gaussian"}],
    "mwem": [{"noise": "gaussian"}, {"queries": "marginals"}, {"queries": "marginals", "noise": "gaussian"}],
    "pgm": [{"selection": "mst"}, {"selection": "aim"}],
    "pmwpub": [{"queries": "cells", "start": "prior"}],
    "rap": [{"rounds": 1, "queries": "marginals"}, {"rounds": 1, "queries_per_round": 1}, {"conversion": "tight"}],
}
"""Options that change what is asked, beside those of FAST."""


def asked_by(journal: Journal) -> list[tuple[str, float]]:
    """The kind and the ε of each question that has an answer: √(2ρ) of Laplace noise, 2√(2ρ) of a selection."""
    found, together = [], defaultdict[tuple[str, str], Fraction](Fraction)  # linear queries are one question
    for answer in journal.answers:
        question = json.loads(answer.question.text)
        if isinstance(answer.question, LinearQuestion):
            together[answer.measurement.noise, answer.question.detail] += answer.rho
            continue
        if answer.selection is not None:
            found += [("selection", 2 * math.sqrt(2 * answer.rho / len(answer.selection)))] * len(answer.selection)
        elif answer.measurement.noise != "none":
            cells = len(answer.measurement.cells or (0,))
            assert ("laplace" in (question["ask"] + question["detail"])) == (answer.measurement.noise == "laplace")
            found += [(answer.measurement.noise, math.sqrt(2 * answer.rho / cells))] * cells
    return [*found, *((noise, math.sqrt(2 * rho)) for (noise, _), rho in together.items())]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_asked_is_what_was_declared(name, neighbours):
    """Each kind, and of a pure promise as many questions of each share; a kind less is refused by the curator."""
    domain, epsilon = domain_of(3), 1.5
    workload = Workload((domain.names[:2],))
    table = np.random.default_rng(1).integers(0, 3, size=(60, 3))
    for options in ({}, *OTHERWISE.get(name, [])):
        mechanism = make(name, {**FAST[name], **options})
        questions = mechanism.questions(domain, workload, neighbours)
        budget = price(questions, epsilon, 1e-6)

        def ask(kinds, mechanism=mechanism, budget=budget):
            journal, prior = Journal(), prior_of(domain)
            pure = budget.exact_epsilon if budget.pure else None
            curator = Curator(
                Rows(domain, table),
                domain,
                neighbours,
                budget.rho,
                journal,
                Quiet(),
                gdp=budget.gdp,
                pure=pure,
                prior=prior,
                kinds=kinds,
                for_mechanism=True,
            )
            mechanism.run(curator, workload, budget.rho, 7, Quiet())
            return asked_by(journal)

        asked = ask(questions.kinds)
        assert {kind for kind, _ in asked} == {kind.name for kind in questions.kinds}
        if questions.parts:
            parts = Counter()
            for part in questions.parts:
                parts[find_kind(part.kind, "a kind").name, round(float(part.share) * epsilon, 9)] += part.count
            assert Counter((kind, round(each, 9)) for kind, each in asked) == parts
        for missing in questions.kinds:
            with pytest.raises(DpsqlError, match=f"kind {missing!r}"):
                ask([kind for kind in questions.kinds if kind is not missing])


@pytest.mark.parametrize("name", NAMES)
def test_cannot_spend_beyond_the_charge(name):
    """A mechanism that is told of more than was charged is stopped by the curator before it reads anything."""
    domain, journal = domain_of(3), Journal()
    curator = Curator(
        Rows(domain, np.zeros((9, 3), int)),
        domain,
        Neighbours.ADD_REMOVE,
        Fraction(1, 10**6),
        journal,
        Quiet(),
        prior=prior_of(domain),
    )
    with pytest.raises(InsufficientBudget):
        make(name, FAST[name]).run(curator, Workload((domain.names[:2],)), Fraction(1), 0, Quiet())
    assert journal.answers == []


@pytest.mark.parametrize("name", NAMES)
def test_sees_no_more_than_the_curator(name):
    """A mechanism's module imports nothing that counts, and touches nothing of the curator's that is private."""
    check_sees_no_more(Path(registered()[name].run.__code__.co_filename).read_text("utf-8"))


def test_what_mechanisms_share_sees_no_more_either():
    """A mechanism may be in several files, as `ide` and its runs are."""
    for path in Path(dpsql.mechanisms.__file__).parent.rglob("*.py"):
        check_sees_no_more(path.read_text("utf-8"))


def check_sees_no_more(source: str) -> None:
    assert "duckdb" not in source
    assert "curator._" not in source
    assert ".database" not in source


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("columns", "rows"), [(3, 60), (1, 60), (3, 1), (3, 0)])
def test_model_and_rows_lie_in_the_domain(name, columns, rows):
    domain, _, _, outcome, codes = run(name, columns=columns, rows=rows)
    assert codes.shape == (rows, columns)
    assert ((codes >= 0) & (codes < 5)).all()
    for attribute in domain.names:
        answer = outcome.model.project((attribute,))
        assert np.isfinite(answer).all()
        assert (answer >= 0).all()
        assert answer.sum() == pytest.approx(1, abs=1e-4)
    assert np.isfinite(outcome.model.total)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_satisfies_the_constraints(name):
    _, _, _, outcome, _ = run(name)
    heaviest = divmod(int(outcome.model.project(("c0", "c2")).argmax()), 5)
    tuples = np.array([(a, b) for a in range(5) for b in range(5) if (a, b) != heaviest])
    rule = Allowed(("c0", "c2"), ("c0", "c2"), ("…",), tuples, np.zeros(tuples.shape))
    for count in (0, 1, 300):
        rows = outcome.model.sample(count, np.random.default_rng(1), Quiet(), (rule,))
        assert rows.shape == (count, 3)
        assert not (rows[:, [0, 2]] == heaviest).all(axis=1).any()
    free = outcome.model.sample(300, np.random.default_rng(1), Quiet())
    assert (free[:, [0, 2]] == heaviest).all(axis=1).any()  # the fact does not hold by itself


@pytest.mark.parametrize("name", NAMES)
def test_the_same_entropy_gives_the_same_release(name):
    one, two, other = (run(name, seed=seed) for seed in ("a", "a", "b"))
    assert [a.question.text for a in one[2].answers] == [a.question.text for a in two[2].answers]
    np.testing.assert_array_equal(one[4], two[4])
    values = [[a.measurement.values.tolist() for a in r[2].answers if a.measurement] for r in (one, two, other)]
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize("name", NAMES)
def test_can_be_interrupted(name):
    """At the seventh time that it asks; of a mechanism that needs no quick options, at the first."""
    last = 6 if FAST[name] else 0
    calls = iter(range(10**9))
    with pytest.raises(Interrupted):
        run(name, stop=lambda: next(calls) >= last)


@pytest.mark.parametrize("name", NAMES)
def test_more_budget_is_nearer(name):
    """With ρ = 1e6 the measured answers are exact to the row."""
    _, _, journal, _, _ = run(name, rho=Fraction(10**6))
    exact = Rows(domain_of(3), np.random.default_rng(1).integers(0, 3, size=(60, 3)))
    for answer in journal.answers:
        measured = answer.measurement
        if measured is None or not measured.clique:
            continue
        dense = exact.marginal(measured.clique).dense()
        cells = slice(None) if measured.cells is None else list(measured.cells)
        assert abs(measured.values - dense[cells]).max() <= 1


@pytest.mark.parametrize("name", NAMES)
def test_is_documented(name):
    mechanism = registered()[name]
    text = inspect.getdoc(mechanism) or ""
    for part in ("Privacy:", "zCDP"):
        assert part in text
    for option in explicit_options(make(name, {})):
        assert f"{option}:" in text


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_refuses_a_huge_domain_before_the_charge(db, name):
    columns = ", ".join(f"1 AS c{k}" for k in range(12))
    db.sql(f"CREATE TABLE wide AS SELECT {columns}")
    db.protect("wide", epsilon=1, delta=1e-6)
    for k in range(12):
        db.domain("wide", f"c{k}", lower=0, upper=49)
    workload = "SELECT " + ", ".join(f"c{k}" for k in range(12)) + ", count(*) FROM wide GROUP BY ALL"
    with pytest.raises(DomainTooLarge):
        db.synthesize("wide", 1.0, mechanism=name, workload=workload, **with_prior(db, name, "wide"))
    assert db.budget().epsilon_spent.tolist() == [0.0]


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_through_sql(people, name):
    options = {**FAST[name], **with_prior(people, name, "people")}
    options = "".join(f", {key} := {value!r}" for key, value in options.items())
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    sql = f"FROM dp_synthesize('people', epsilon := 1.0, mechanism := '{name}'{options})"
    people.sql(f"CREATE TABLE s AS {sql}")
    assert people.sql("DESCRIBE s").fetchall() == people.sql("DESCRIBE people").fetchall()
    assert people.sql("SELECT mechanism, releases FROM dp_releases(), dp_budget()").fetchall() == [(name, 1)]
    plan = f"SELECT count(*) > 0 FROM dp_plan('people', epsilon := 1.0, mechanism := '{name}'{options})"
    assert people.sql(plan).fetchall() == [(True,)]


def test_options_are_checked():
    with pytest.raises(DpsqlError, match="its options are"):
        make("projection", {"rounds": 3})
    with pytest.raises(DpsqlError, match="there is no mechanism"):
        make("nothing", {})


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_every_release_is_foreseen_and_judged(db, name):
    """The plan knows bytes and seconds; the report a loss, and a residual against what was measured, as errors list it.

    Of a request as most make it: what a mechanism measures by default is enough to judge it by.
    """
    db.sql("CREATE TABLE t AS SELECT i % 3 AS a, i % 4 AS b, i % 2 = 0 AS c, 1 AS same FROM range(2000) r(i)")
    db.protect("t", epsilon=100.0, delta=1e-6)
    for column, top in (("a", 2), ("b", 3), ("same", 4)):
        db.domain("t", column, lower=0, upper=top)
    how = {"mechanism": name, "workload": "all 2-way", **quick(name), **with_prior(db, name, "t")}
    plan = db.plan("t", 2.0, assume_rows=2000, **how)
    assert (plan.memory_mb > 100).all()
    assert (plan.seconds > 0.1).all()
    release = db.synthesize("t", 2.0, **how)
    report, errors = release.entry.report, release.errors
    assert report["loss"] >= 0
    assert 0 <= report["residual"] < 100
    assert len(errors) > 0
    assert (errors.noise_l1 > 0).all()
    assert release.verdict.text.startswith(("Shares of", "The "))
    assert "did not converge" not in report.get("warning", "")


def quick(name: str) -> dict[str, Any]:
    """Options that keep a mechanism short, but for those that ask for other questions."""
    steps = {"direct", "hdmm", "projection", "pgm", "residual"}
    small = {"dualquery": {"rounds": 20}, "fem": {"rounds": 10}, "rap": {"rounds": 2, "steps": 200}}
    return small.get(name, {"steps": 200} if name in steps else {})


@pytest.mark.medium
@pytest.mark.parametrize("name", [name for name, cls in sorted(registered().items()) if cls.published() is not None])
def test_the_published_algorithm_is_one_option_away(people, name):
    """It is another release than the default, in a key of its own, and its options are the fields' and published ones."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    how = {"mechanism": name, **with_prior(people, name, "people")}
    with people.instance.cursor() as cursor:
        usual, faithful = (
            resolve(cursor, people.request("people", 1.0, **how, **more), to_charge=False)
            for more in ({}, {"faithful": True})
        )
    published = registered()[name].published()
    assert faithful.mechanism == make(name, {**published})
    assert faithful.mechanism != usual.mechanism
    assert faithful.key != usual.key
    for option, value in registered()[name].recommended(pure=False).items():
        assert getattr(usual.mechanism, option) == value
    if registered()[name].recommended(pure=False).get("noise") == "gaussian":
        assert faithful.budget.pure
        assert not usual.budget.pure


@pytest.mark.medium
@pytest.mark.parametrize("name", [name for name in having_papers() if make_for(name, {}, pure=False).uses_earlier])
def test_the_published_algorithm_knows_nothing_of_earlier_releases(people, name):
    """As with reuse := false; the broken twin is the default, which leans on what was measured before."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    people.synthesize("people", 1.0, workload="all 2-way", mechanism="direct", steps=50)
    how = {"mechanism": name, **with_prior(people, name, "people"), **quick(name)}
    reports = [people.synthesize("people", 0.3, **how, **more).entry.report for more in ({"faithful": True}, {})]
    assert "reused" not in reports[0]
    assert "reused" in reports[1]


@pytest.mark.medium
def test_what_was_charged_by_defaults_of_which_the_new_ones_refuse_an_option_is_told_again(people, monkeypatch):
    """`alpha` of dualquery needs faithful := true now; the release of that time needs nothing."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    how = {"epsilon": 1.0, "mechanism": "dualquery", "alpha": 0.9, "workload": "all 1-way", "rows": 100}
    with pytest.raises(InvalidArgument, match="say faithful := true"):
        people.synthesize("people", **how)
    with monkeypatch.context() as before:
        before.setattr(
            "dpsql.release.synthesis.plan_table", lambda *given, **_: plan_table(*given, meaning=Meaning.FIRST)
        )
        then = people.synthesize("people", **how)
    spent = people.budget()
    assert people.synthesize("people", **how).entry.key == then.entry.key
    assert people.budget().equals(spent)
    with pytest.raises(InvalidArgument, match="say faithful := true"):
        people.synthesize("people", **how, release="another")


@pytest.mark.medium
@pytest.mark.parametrize("name", [name for name, cls in sorted(registered().items()) if "noise" in options_of(name)])
def test_a_pure_account_gets_noise_that_keeps_its_promise(people, name):
    """By default, in every mechanism that has a choice of noise; what was paid for is told again to who names the noise."""
    if name == "fem":
        pytest.skip("its noise is the scale of what its leaders are drawn with")
    people.sql("CREATE TABLE strict AS FROM people")
    settle(people, "strict")
    people.protect("strict", epsilon=3.0, delta=0.0, enums=True)
    people.domain("strict", "age", lower=18, upper=77, bins=6)
    for table in ("people", "strict"):
        people.domain(table, "sex", values=["F", "M"], nulls=True)
        how = {"mechanism": name, "delta": 0.0, **with_prior(people, name, table), **quick(name)}
        release = people.synthesize(table, 0.5, **how)
        assert release.entry.guarantee.startswith("0.5-DP")
        if name in ("direct", "hdmm"):
            assert people.synthesize(table, 0.5, **how, noise="laplace").entry.key == release.entry.key


@pytest.mark.medium
def test_what_an_earlier_version_made_by_default_is_told_again_free(people, monkeypatch):
    """A request without options meant the fields' defaults then; what is left of it is completed as it was charged."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    how = {"epsilon": 1.0, "mechanism": "mwem", "workload": "all 2-way"}
    with monkeypatch.context() as before:
        before.setattr(
            "dpsql.release.synthesis.plan_table", lambda *given, **_: plan_table(*given, meaning=Meaning.FIRST)
        )
        then = people.synthesize("people", **how)
    spent = people.budget()
    again = people.synthesize("people", **how)
    assert again.entry.key == then.entry.key
    assert people.budget().equals(spent)
    columns = len(then.entry.domain)
    assert again.entry.report["rounds"] == 4 * columns
    fresh = people.synthesize("people", **how, release="b")
    assert fresh.entry.report["rounds"] == 2 * columns
    assert json.loads(fresh.entry.request)["options"]["start"] == "marginals"


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_what_memory_cannot_hold_is_refused_before_the_charge(people, monkeypatch, name):
    """On a machine of 200 MB, which not even Python and DuckDB fit in beside it."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    monkeypatch.setattr("dpsql.release.plan.machine_memory", lambda: 200_000_000)
    how = {"mechanism": name, "workload": "all 2-way", **with_prior(people, name, "people")}
    for ask in (people.plan, people.synthesize):
        with pytest.raises(
            DomainTooLarge, match=r"needs about [\d.]+ [MG]B of memory for this request, 200.0 MB may be taken"
        ):
            ask("people", 1.0, **how)
    assert people.budget().epsilon_spent.tolist() == [0.0]


EVERY = (
    *(test_spends_its_charge_and_no_more, test_a_pure_promise_adds_up, test_what_is_asked_is_what_was_declared),
    *(
        test_cannot_spend_beyond_the_charge,
        test_sees_no_more_than_the_curator,
        test_every_row_satisfies_the_constraints,
    ),
    *(test_the_same_entropy_gives_the_same_release, test_more_budget_is_nearer),
)
"""What the example must pass too; it works so briefly that it asks once whether it should stop."""


@pytest.fixture
def independent():
    """`examples/new_mechanism.py`, registered while inside."""
    from dpsql.mechanisms import base

    before = dict(base._registry)
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "new_mechanism.py"), run_name="__main__")
    yield "independent"
    base._registry.clear()
    base._registry.update(before)


def test_a_new_mechanism_is_one_file(independent):
    """The example registers itself, and keeps what every mechanism promises."""
    for check in EVERY:
        wanted = inspect.signature(check).parameters
        for relation in RELATIONS if "neighbours" in wanted else [None]:
            check(**({"name": independent} | ({"neighbours": relation} if relation else {})))


def test_the_noise_that_the_example_plans_is_the_noise_that_it_has(independent):
    """To the last digit, with the 1/8 of the discrete Gaussian."""
    domain, curator, journal, _, _ = run(independent)
    planned = make(independent, {}).plan(domain, None, Neighbours.ADD_REMOVE, Fraction(1), 60.0)
    had = [math.sqrt(answer.measurement.variance) for answer in journal.answers if answer.measurement is not None]
    assert [p.stddev for p in planned] == pytest.approx(had, rel=1e-12)
