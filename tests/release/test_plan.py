"""Plans, made of facts that are written by hand: no database, and in a process that has no DuckDB.

What a plan is of the facts that a database tells, `tests/contract/test_budgets.py` shows; here are the same keys.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.engines.source import Column, Source
from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.language.parse import parse_query
from dpsql.language.scope import Scope
from dpsql.language.workloads import parse_workload
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import account_budget
from dpsql.release.discovery_plan import DiscoveryFacts, plan_discovery
from dpsql.release.plan import TableFacts, check_drawable, check_not_drowned, check_questions, plan_table
from dpsql.release.preview import least_epsilon_of_table, preview
from dpsql.release.query_plan import QueryFacts, plan_query
from dpsql.release.request import DiscoveryRequest, QueryRequest, Request

ROOT = Path(__file__).parents[2]
COLUMNS = (
    Column("a", "BOOLEAN", True),
    Column("b", "BOOLEAN", True),
    Column("c", "VARCHAR", True),
    Column("who", "BIGINT", True),
)
SOURCE = Source("memory", "main", "added", COLUMNS)
BUDGET = account_budget(20.0, 1e-6)
ACCOUNT = Account(
    source="added",
    epsilon=20.0,
    delta=1e-6,
    neighbours=Neighbours("add_remove", None),
    unit_column=None,
    unit_type=None,
    delta_reserved=0.0,
    delta_spent=0.0,
    rho_budget=BUDGET.rho,
    rho_spent=Fraction(0),
    gdp_budget=BUDGET.gdp,
    gdp_spent=Fraction(0),
    currency=None,
    pure_spent=Fraction(0),
    releases=0,
    since=1,
    retired=False,
)
BOTH = ("false", "true")
TRUTHS = [Attribute(name, "BOOLEAN", "values", BOTH, nullable=True, origin="type") for name in "ab"]
DOMAIN = Domain(
    tuple(
        a.closed(never_null=False)
        for a in (*TRUTHS, Attribute("c", "VARCHAR", "values", ("v0", "v1", "v2"), nullable=True))
    ),
    (Attribute("who", "BIGINT", "excluded"),),
)
FACTS = TableFacts(SOURCE, ACCOUNT, DOMAIN, parse_workload(None, SOURCE.parts, DOMAIN, None).ordered())
REQUEST = Request("added", 0.1, 1e-9, mechanism="direct")


class Names:
    """What names in FROM mean: the one table."""

    def find(self, table: exp.Table) -> Scope:
        columns = {c.name: exp.column(exp.to_identifier(c.name, quoted=True)) for c in SOURCE.columns}
        return Scope(SOURCE, columns)


def of_query(sql: str, **how) -> str:
    query = parse_query(sql, Names())
    domain = Domain(DOMAIN.inner.attributes[:1])
    return plan_query(QueryRequest(sql, 0.5, **how), QueryFacts(SOURCE, ACCOUNT, domain, query)).key


def recorded(case: str) -> str:
    """A key that charges people, from a database; see `tests/contract/test_budgets.py`."""
    return json.loads((ROOT / "tests/fixtures/budgets.json").read_text())[case]["key"]


def test_keys_are_those_of_a_database():
    """A plan needs nothing but the facts: all of a recorded key is in them."""
    assert plan_table(REQUEST, FACTS).key == recorded("direct {} added 0.1 1e-09 all")
    assert of_query("SELECT a, count(*) FROM added GROUP BY a") == recorded("query gaussian added")
    assert of_query("SELECT a, count(*) FROM added GROUP BY a", mechanism="laplace") == recorded("query laplace added")
    facts = DiscoveryFacts(SOURCE, ACCOUNT, COLUMNS[2], None, True, None)
    assert plan_discovery(DiscoveryRequest("added", "c", 0.5), facts).key == recorded("discover added")


def test_a_plan_depends_on_its_facts_and_its_request_alone():
    """Each public fact that a release is about is in its key; how the request is spelled is not."""
    key = plan_table(REQUEST, FACTS).key
    assert key == plan_table(replace(REQUEST, table="ADDED", search_path="elsewhere"), FACTS).key
    others = [
        plan_table(replace(REQUEST, epsilon=0.2), FACTS),
        plan_table(replace(REQUEST, delta=1e-8), FACTS),
        plan_table(replace(REQUEST, release="again"), FACTS),
        plan_table(replace(REQUEST, rows=7), FACTS),
        plan_table(replace(REQUEST, columns=("a", "b", "c", "who")), FACTS),
        plan_table(REQUEST, replace(FACTS, source=replace(SOURCE, name="other"))),
        plan_table(REQUEST, replace(FACTS, account=replace(ACCOUNT, since=9))),
        plan_table(REQUEST, replace(FACTS, workload=Workload((("a",),)))),
        plan_table(REQUEST, replace(FACTS, prior=("main", "public_rows"))),
    ]
    assert len({key, *(plan.key for plan in others)}) == 1 + len(others)


def test_two_queries_that_ask_the_same_are_one_release():
    assert of_query("SELECT a AS x, count(*) FROM added AS t WHERE (b) GROUP BY a ORDER BY 2 LIMIT 1") == of_query(
        "SELECT a, count(*) AS n FROM added WHERE b GROUP BY 1"
    )
    assert of_query("SELECT a, count(*) FROM added GROUP BY a") != of_query("SELECT a, count(b) FROM added GROUP BY a")


def test_what_is_asked_for_is_charged():
    """ε and δ of the budget are the request's, for each conversion of them to ρ."""
    for mechanism in ("direct", "hdmm", "fem", "rap", "lp"):
        budget = plan_table(replace(REQUEST, mechanism=mechanism), FACTS).budget
        assert (budget.epsilon, budget.delta) in ((0.1, 1e-9), (0.1, 0.0))
        assert 0 < budget.rho < Fraction(1, 10)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_bad_numbers_are_refused_by_the_plan_itself(epsilon):
    with pytest.raises(InvalidArgument, match="epsilon"):
        plan_table(replace(REQUEST, epsilon=epsilon), FACTS)
    with pytest.raises(InvalidArgument, match="epsilon"):
        plan_discovery(
            DiscoveryRequest("added", "c", epsilon), DiscoveryFacts(SOURCE, ACCOUNT, COLUMNS[2], None, True, None)
        )


def test_a_pure_table_has_no_discovery():
    facts = DiscoveryFacts(SOURCE, replace(ACCOUNT, delta=0.0), COLUMNS[2], None, True, None)
    with pytest.raises(InvalidArgument, match="promises pure epsilon"):
        plan_discovery(DiscoveryRequest("added", "c", 0.5), facts)


def test_a_new_release_is_checked_by_its_plan():
    """What the mechanism cannot make, noise that cannot be drawn, and what the account does not hold."""
    with pytest.raises(InvalidArgument, match="prior"):
        check_questions(plan_table(replace(REQUEST, mechanism="pmwpub"), FACTS))
    many = replace(FACTS, account=replace(ACCOUNT, neighbours=Neighbours("add_remove", 100_000), unit_column="who"))
    with pytest.raises(InvalidArgument, match="epsilon"):
        check_drawable(plan_table(replace(REQUEST, epsilon=1e-9), many))
    plan = plan_table(replace(REQUEST, epsilon=50.0), FACTS)
    with pytest.raises(InsufficientBudget):
        plan.account.require(plan.budget, plan.questions.conversion)


def test_a_release_that_noise_drowns_is_refused():
    plan = plan_table(replace(REQUEST, epsilon=0.001), FACTS)
    check_not_drowned(plan, 10**9)
    with pytest.raises(InvalidArgument, match="too small for the 9 rows of 'added'"):
        check_not_drowned(plan, 9)


def test_the_least_epsilon_is_the_least():
    plan = plan_table(replace(REQUEST, mechanism="projection"), FACTS)
    least = least_epsilon_of_table(plan, 0.1, 10_000.0)
    errors = [
        preview(plan_table(replace(REQUEST, mechanism="projection", epsilon=e), FACTS), 10_000.0).overall
        for e in (least, 0.99 * least)
    ]
    assert errors[0] <= 0.1
    assert errors[1] is None or errors[1] > 0.1  # none where noise drowns all but single columns


WITHOUT = """
import sys
sys.modules["duckdb"] = sys.modules["_duckdb"] = None  # to import it fails
sys.path.insert(0, {root!r})
from tests.release import test_plan as tests
for name in [name for name in vars(tests) if name.startswith("test_keys") or name.startswith("test_the_least")]:
    getattr(tests, name)()
    print(name)
"""


@pytest.mark.medium
def test_plans_are_made_in_a_process_that_has_no_duckdb():
    script = WITHOUT.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["test_keys_are_those_of_a_database", "test_the_least_epsilon_is_the_least"], (
        done.stderr
    )
