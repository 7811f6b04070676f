"""What every registered mechanism costs, word for word as it was at commit 37ab9f7: ρ, g, ε, δ, promise and key.

A key that changes charges people again for what they have; a ρ that changes is another guarantee. Where a request gets
other options now than it got then, its release is still found by the plan that it had then, which is what is compared;
what it costs now is recorded beside it. To record that anew, on purpose, and mechanisms that are not recorded yet:
`python -m tests.contract.test_budgets`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.mechanisms.base import registered
from dpsql.mechanisms.defaults import Meaning, has_defaults
from dpsql.privacy.promised import recorded_promise as promise
from dpsql.release.discovery import DiscoveryRequest, resolve_discovery
from dpsql.release.lookup import look_up_table
from dpsql.release.plan import check_drawable, check_questions, plan_table
from dpsql.release.query_answers import QueryRequest, resolve_query
from dpsql.release.request import Request
from dpsql.release.synthesis import resolve

RECORDED = Path(__file__).parents[1] / "fixtures" / "budgets.json"
NOW = RECORDED.with_name("budgets_now.json")
BEFORE = RECORDED.with_name("budgets_before.json")
"""Of requests as published, as version 0.2.0 planned them."""
TABLES = ("added", "replaced", "units")
LOSSES = ((0.1, 1e-9), (7.5, 1e-3))
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "auto": [{}, {"prior": "public_rows"}],
    "barak": [{}, {"noise": "gaussian"}],
    "direct": [{}, {"noise": "laplace"}],
    "dualquery": [{}, {"rounds": 3, "samples": 2}, {"alpha": 0.9}],
    "ide": [
        {"prior": "public_rows"},
        {"prior": "public_rows", "noise": "gaussian"},
        {"prior": "public_rows", "marginals": 2},
        {"prior": "public_rows", "region": "c"},
        {"prior": "public_rows", "region": "c", "group_by": "b", "noise": "gaussian"},
        {"prior": "public_rows", "group_by": "c", "group_marginals": 2},
    ],
    "lp": [{}, {"noise": "gaussian"}, {"space": "uniform"}],
    "mwem": [{}, {"rounds": 7}, {"queries": "marginals"}, {"noise": "gaussian"}, {"noise": "gaussian", "rounds": 3}],
    "pgm": [{}, {"selection": "mst"}, {"selection": "aim"}],
    "rap": [
        {"rounds": 2, "queries_per_round": 2},
        {"rounds": 2, "queries_per_round": 2, "conversion": "tight"},
        {"rounds": 1},
    ],
}
"""Of mechanisms that have several ways."""
OWN = {name: mechanism for name, mechanism in registered().items() if mechanism.__module__.startswith("dpsql.")}
"""Those of the package, without such as `--load` adds: no key of theirs is recorded."""
OPTIONS |= {
    name: [{"prior": "public_rows"} if mechanism.needs_prior else {}]
    for name, mechanism in OWN.items()
    if name not in OPTIONS
}


def opened() -> dpsql.Database:
    """Three protected tables of the same rows, one for each kind of neighbours, and public rows."""
    db = dpsql.connect()
    db.sql("CREATE TABLE public_rows AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b, 'v' || i % 3 AS c FROM range(9) r(i)")
    for table, how in zip(
        TABLES, ({}, {"neighbours": "replace_one"}, {"privacy_unit": "who", "max_rows": 3}), strict=True
    ):
        db.sql(f"CREATE TABLE {table} AS SELECT *, row_number() OVER () % 5 AS who FROM public_rows")
        db.protect(table, epsilon=20.0, delta=1e-6, **how)
        db.domain(table, "c", values=["v0", "v1", "v2"])
        if table != "units":
            db.domain(table, "who", exclude=True)
    return db


@pytest.fixture(scope="module")
def tables() -> Iterator[dpsql.Database]:
    with opened() as db:
        yield db


Case = tuple[str, str, float, float | None, str | None]


def cases(name: str, several: Sequence[dict[str, Any]] = ()) -> list[Case]:
    """A mechanism's options, on each table at one ε, and at each ε on one table; another workload on that one."""
    found: list[Case] = []
    for options in several or OPTIONS[name]:
        given = json.dumps(options, sort_keys=True)
        found += [(given, table, 1.0, None, None) for table in TABLES]
        found += [(given, TABLES[0], epsilon, delta, None) for epsilon, delta in LOSSES]
        found.append((given, TABLES[0], 1.0, None, f"SELECT a, b, count(*) FROM {TABLES[0]} GROUP BY a, b"))
    return found


def told(resolved: Any) -> dict[str, Any]:
    """What a request costs and says."""
    budget = resolved.budget
    return {
        "key": resolved.key,
        "epsilon": repr(budget.epsilon),
        "delta": repr(budget.delta),
        "rho": str(budget.rho),
        "gdp": str(budget.gdp),
        "pure": budget.pure,
        "currency": budget.currency,
        "guarantee": promise(budget, resolved.account.neighbours),
    }


def then_planned(cursor: Any, request: Request, meaning: Meaning = Meaning.FIRST) -> Any:
    """The plan that a request had, checked as it was."""
    planned = plan_table(request, look_up_table(cursor, request), meaning=meaning)
    check_questions(planned)
    check_drawable(planned)
    planned.account.check_kind(planned.budget)
    return planned


def now_planned(cursor: Any, request: Request) -> Any:
    """The plan that it has."""
    return resolve(cursor, request, to_charge=False)


def of_now(db: dpsql.Database) -> dict[str, Any]:
    """What requests cost whose defaults are others than they were, and with the published ones."""
    found: dict[str, Any] = {}
    for name, mechanism in sorted(OWN.items()):
        if has_defaults(mechanism):
            needed = [dict(options) for options in OPTIONS[name][:1]]
            needed += [{**options, "faithful": True} for options in needed]
            found |= of_tables(db, name, now_planned, cases(name, needed))
    return found


def of_tables(
    db: dpsql.Database, name: str, planned: Callable[[Any, Request], Any], asked: Sequence[Case]
) -> dict[str, Any]:
    """What the synthetic tables of a mechanism cost; a refusal is kept as its text."""
    found: dict[str, Any] = {}
    with db.connection.cursor() as cursor:
        for given, table, epsilon, delta, workload in asked:
            options = json.loads(given)
            prior = options.pop("prior", None)
            request = Request(table, epsilon, delta, workload, name, prior=prior, options=options)
            case = " ".join(map(str, (name, given, table, epsilon, delta, "pair" if workload else "all")))
            try:
                found[case] = told(planned(cursor, request))
            except dpsql.DpsqlError as refused:
                found[case] = str(refused)
    return found


def of_others(db: dpsql.Database) -> dict[str, Any]:
    """What queries and discoveries cost."""
    found: dict[str, Any] = {}
    with db.connection.cursor() as cursor:
        for table in TABLES:
            for noise in ("gaussian", "laplace"):
                query = QueryRequest(f"SELECT a, count(*) FROM {table} GROUP BY a", 0.5, mechanism=noise)
                found[f"query {noise} {table}"] = told(resolve_query(cursor, query, to_charge=False))
            found[f"discover {table}"] = told(resolve_discovery(cursor, DiscoveryRequest(table, "c", 0.5)))
    return found


def known() -> dict[str, Any]:
    return dict(json.loads(RECORDED.read_text()))


def test_nothing_that_is_recorded_is_gone():
    """Nor is a mechanism that is registered not recorded."""
    assert {case.split()[0] for case in known()} == {*OPTIONS, "query", "discover"}
    assert {*OPTIONS} == {*OWN, "auto"}


@pytest.mark.medium
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_budget_promise_and_key_of_a_table_are_what_they_were(tables, name):
    if name == "pgm":
        pytest.importorskip("mbi")
    then = known()
    now = of_tables(tables, name, then_planned, cases(name))
    assert {case for case in then if case.split()[0] == name} == set(now)
    for case, value in now.items():
        assert value == then[case], case


@pytest.mark.medium
def test_what_a_request_costs_by_its_defaults_is_recorded_too(tables):
    now, recorded = of_now(tables), dict(json.loads(NOW.read_text()))
    assert set(now) == set(recorded)
    for case, value in now.items():
        assert value == recorded[case], case


@pytest.mark.medium
def test_a_request_as_published_is_looked_for_by_what_it_cost_before(tables):
    """Settings of papers changed; who paid for a release by the ones before is told the same again, free."""
    recorded = dict(json.loads(BEFORE.read_text()))
    names = sorted({case.split()[0] for case in recorded})
    asked = {name: [{**dict(OPTIONS[name][0]), "faithful": True}] for name in names}
    now: dict[str, Any] = {}
    for name in names:
        now |= of_tables(tables, name, partial(then_planned, meaning=Meaning.BEFORE), cases(name, asked[name]))
    for case, value in recorded.items():
        assert now[case] == value, case
    keys = [{value["key"] for value in found.values() if isinstance(value, dict)} for found in (now, of_now(tables))]
    changed = {"barak", "dualquery", "fem", "ide", "lp", "mwem"} & set(names)
    of_changed = {now[case]["key"] for case in recorded if case.split()[0] in changed and isinstance(now[case], dict)}
    assert of_changed
    assert not of_changed & keys[1], "the broken twin takes a release of other settings for it"


def test_no_release_is_taken_for_one_with_other_defaults(tables):
    """Nor one that was asked for as it was published, whose options may all be those of a request before."""
    before = {value["key"] for value in known().values() if isinstance(value, dict)}
    now = [value["key"] for value in json.loads(NOW.read_text()).values() if isinstance(value, dict)]
    assert not before & set(now)
    assert len(now) == len(set(now))


@pytest.mark.medium
def test_the_budget_promise_and_key_of_a_query_are_what_they_were(tables):
    now, then = of_others(tables), known()
    assert now == {case: value for case, value in then.items() if case.split()[0] in ("query", "discover")}


def unrecorded(db: dpsql.Database) -> dict[str, Any]:
    """What mechanisms cost of which nothing is recorded."""
    names = sorted({*OPTIONS} - {case.split()[0] for case in known()})
    return {case: value for name in names for case, value in of_tables(db, name, then_planned, cases(name)).items()}


if __name__ == "__main__":
    with opened() as db:
        for file, recorded in ((NOW, of_now(db)), (RECORDED, known() | unrecorded(db))):
            file.write_text(json.dumps(recorded, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
