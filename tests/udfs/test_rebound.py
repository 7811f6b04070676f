"""A call that DuckDB binds twice to run it is looked up once, and what ran is what is there when it runs."""

from __future__ import annotations

import pytest
from dpsql.udfs.bridge.declare import Call, Query
from dpsql.udfs.bridge.rebound import bound_once, relation_of
from dpsql.udfs.dp_query import DpQuery

from dpsql.api import once
from dpsql.errors import DpsqlError

ASKED = "FROM dp_query('SELECT sex, count(*) AS n FROM people GROUP BY sex', epsilon := {})"


@pytest.fixture
def binds(monkeypatch) -> list[Call]:
    """The calls of dp_query that were looked up."""
    calls, bind = [], DpQuery.bind
    monkeypatch.setattr(DpQuery, "bind", lambda self, call: calls.append(call) or bind(self, call))
    return calls


@pytest.mark.medium
def test_a_statement_looks_a_call_up_once_however_it_is_asked(people, binds):
    for ask in (people.sql, people.execute):
        ask(ASKED.format(0.1)).fetchall()
    assert len(binds) == 2
    people.sql("CREATE TABLE kept AS " + ASKED.format(0.1))
    assert len(binds) == 3


@pytest.mark.medium
def test_calls_of_one_statement_are_each_looked_up(people, binds):
    rows = people.sql(f"{ASKED.format(0.1)} UNION ALL {ASKED.format(0.1)} UNION ALL {ASKED.format(0.2)}").fetchall()
    assert len(binds) == 3
    assert len(rows) == 6
    assert sorted(map(repr, rows[:2])) == sorted(map(repr, rows[2:4]))


@pytest.mark.medium
@pytest.mark.parametrize(
    "change", ["ALTER TABLE people DROP COLUMN sex", "CALL dp_domain('people', 'sex', \"values\" := ['F'])"]
)
def test_what_changes_before_it_runs_is_noticed_and_nothing_is_charged(people, monkeypatch, change):
    keep = once.materialized

    def late(*arguments):
        with people.cursor() as other:
            other.execute(change)
        return keep(*arguments)

    monkeypatch.setattr(once, "materialized", late)
    with pytest.raises(DpsqlError, match="sex|columns|changed"):
        people.sql(ASKED.format(0.1))
    assert people.connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]


def bind(call: Call) -> Query:
    return Query("SELECT 1")


def elsewhere(call: Call) -> Query:
    """Of the function of another database."""
    return Query("SELECT 2")


def test_a_relation_is_given_once_and_only_the_second_time():
    call, alike = Call("f", {"x": 1}), Call("f", {"x": True})
    assert call == alike, "so equality would not tell them apart"
    assert relation_of(call, bind) is not relation_of(call, bind)
    with bound_once() as again:
        bound = [relation_of(call, bind) for _ in range(2)]
        assert bound[0] is not bound[1]
        with bound_once() as inside:
            inside()
            assert not any(relation_of(call, bind) is one for one in bound)
        again()
        for other, by in ((alike, bind), (call, elsewhere)):
            assert not any(relation_of(other, by) is one for one in bound)
        taken = [relation_of(call, bind) for _ in range(3)]
        assert {id(one) for one in bound} < {id(one) for one in taken}
        assert len({id(one) for one in taken}) == 3
    assert not any(relation_of(call, bind) is one for one in bound)
