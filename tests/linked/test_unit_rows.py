"""One unit is one row: removing it, with all its rows in all tables, takes one row away and changes no other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.tree import Link, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.engines.duckdb import unit_rows
from dpsql.engines.duckdb.catalog import find_source
from tests.linked.trees import SHAPES, Rows, Shape, databases, moved, removals

SETTINGS = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def sensitivity(con: duckdb.DuckDBPyConnection, shape: Shape, rows: Rows) -> int:
    """The most that removing one unit moves; of ways to say whose children of equal keys are, the best."""
    before = shape.units(con, rows)
    worst = 0
    for number in range(len(rows["root"])):
        worst = max(worst, min(moved(before, shape.units(con, after)) for after in removals(shape, rows, number)))
    return worst


def moves_one_row(database):
    shape, rows = database
    with duckdb.connect() as con:
        assert sensitivity(con, shape, rows) <= 1


@pytest.mark.medium
@settings(SETTINGS, max_examples=30)
@given(databases())
def test_removing_a_unit_moves_one_row(database):
    moves_one_row(database)


@pytest.mark.medium
@settings(SETTINGS, max_examples=12)
@given(databases(unique=False))
def test_removing_a_unit_moves_one_row_where_keys_are_shared(database):
    moves_one_row(database)


@pytest.mark.slow
@settings(SETTINGS, max_examples=20)
@given(databases(unique=False))
def test_removing_a_unit_moves_one_row_of_many_trees(database):
    moves_one_row(database)


@pytest.mark.slow
@pytest.mark.audit
@pytest.mark.timeout(7200)
@settings(SETTINGS, max_examples=1000)
@given(databases(unique=False))
def test_removing_a_unit_moves_one_row_of_a_thousand_trees(database):
    moves_one_row(database)


def full(rows: Rows) -> Rows:
    names = ("value", "up0", "up1", "k0", "k1")
    return {table: [{name: row.get(name) for name in names} for row in listed] for table, listed in rows.items()}


def test_two_parents_of_one_key_are_found_out(monkeypatch):
    """A broken twin: without the choice among parents of one key a child is a row of two units."""
    rows = full({"root": [{"value": 0, "k0": 1}, {"value": 1, "k0": 1}], "a": [{"value": 0, "up0": 1}]})
    with duckdb.connect() as con:
        assert sensitivity(con, SHAPES[0], rows) == 1
        assert shares(con, SHAPES[0], rows) == 1
        one = exp.Literal.number(1)
        monkeypatch.setattr(
            unit_rows, "_first_of_key", lambda names: exp.GTE(this=unit_rows._number_in(*names), expression=one)
        )
        twice = shares(con, SHAPES[0], rows)
    assert twice > 1


def shares(con: duckdb.DuckDBPyConnection, shape: Shape, rows: Rows) -> int:
    """The most units that change with one row of a table below, with the unit that it is of; one is allowed."""
    before = shape.units(con, rows)
    return max(
        moved(before, shape.units(con, {**rows, table: [r for p, r in enumerate(rows[table]) if p != place]})) // 2
        for table in shape.tree.tables[1:]
        for place in range(len(rows[table]))
    )


def test_a_choice_by_place_is_found_out(monkeypatch):
    """A broken twin: children in the order of where they are stored, which rows of others decide."""
    rows = full({"root": [{"value": 0, "k0": 1}, {"value": 1, "k0": 2}], "a": []})
    children = [{"value": value, "up0": key} for value, key in ((0, 1), (1, 1), (None, 1), (0, 2), (1, 2))]
    rows["a"] = full({"a": children})["a"]
    turned = {**rows, "a": rows["a"][::-1]}
    with duckdb.connect() as con:
        assert moved(SHAPES[0].units(con, rows), SHAPES[0].units(con, turned)) == 0
        monkeypatch.setattr(unit_rows, "content_of", lambda source, secret: exp.Literal.string("same"))
        assert moved(SHAPES[0].units(con, rows), SHAPES[0].units(con, turned)) > 0


def test_a_choice_that_depends_on_other_units_is_found_out(monkeypatch):
    """A broken twin: the first child is that of the whole table's order of ids, counted over all units."""
    shape = SHAPES[0]
    rows = full({"root": [{"value": 0, "k0": 1}, {"value": 1, "k0": 2}], "a": []})
    rows["a"] = full({"a": [{"value": v, "up0": k} for v, k in ((0, 1), (1, 1), (7, 1), (0, 2), (1, 2), (7, 2))]})["a"]

    def of_all(order):
        return exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=[exp.Ordered(this=order)]))

    with duckdb.connect() as con:
        assert sensitivity(con, shape, rows) == 1
        monkeypatch.setattr(unit_rows, "_in_parent", of_all)
        assert sensitivity(con, shape, rows) > 1


@pytest.mark.medium
def test_a_unit_of_a_million_rows_is_one_row():
    shape = Shape((("a", "root", 1, 100), ("b", "a", 1, 4)), "INTEGER")
    with duckdb.connect() as con:
        shape.load(con, {"root": [], "a": [], "b": []})
        con.execute("INSERT INTO root SELECT 0, NULL, NULL, i, NULL FROM range(5) r(i)")
        con.execute("INSERT INTO a SELECT i % 2, if(i < 8, i % 5, 3), NULL, i, NULL FROM range(1_000_000) r(i)")
        con.execute("INSERT INTO b SELECT i % 2, if(i % 2 = 0, i, 17), NULL, NULL, NULL FROM range(100_000) r(i)")
        before = counted(con, shape)
        con.execute("DELETE FROM b WHERE up0 IN (SELECT k0 FROM a WHERE up0 = 3)")
        con.execute("DELETE FROM a WHERE up0 = 3")
        con.execute("DELETE FROM root WHERE k0 = 3")
        assert sum(before.values()) == 5
        assert moved(before, counted(con, shape)) == 1


def counted(con: duckdb.DuckDBPyConnection, shape: Shape) -> Counter[int]:
    sources = {table: find_source(con, table) for table in shape.tree.tables}
    counter = unit_rows.UnitCounter(con, sources, shape.unit_row, exp.Literal.string("x"))
    whole = counter.marginal(shape.unit_row.domain.names)
    counter.close()
    return Counter(dict(zip(whole.cells.tolist(), whole.counts.tolist(), strict=True)))


def test_slots_say_what_rows_hold():
    """A chain by hand: numbers of children in bins, no row where there is none."""
    shape = SHAPES[2]
    rows = full({"root": [{"value": 1, "k0": 1, "k1": 2}, {"value": 0, "k0": 2, "k1": None}], "a": [], "b": []})
    rows["a"] = full({"a": [{"value": 0, "up0": 1, "up1": 2, "k0": 3}]})["a"]
    rows["b"] = full({"b": [{"value": None, "up0": 3}, {"value": None, "up0": None}]})["b"]
    with duckdb.connect() as con:
        shape.load(con, rows)
        sources = {table: find_source(con, table) for table in shape.tree.tables}
        domain = shape.unit_row.domain
        counter = unit_rows.UnitCounter(con, sources, shape.unit_row, exp.Literal.string("x"))
        shown = {
            a.name: {
                label: int(n) for label, n in zip(a.labels(), counter.marginal((a.name,)).dense(), strict=True) if n
            }
            for a in domain
        }
    assert shown == {
        "value": {"1": 1, "0": 1},
        "a.number": {"1": 1, "0": 1},
        "a[1].value": {"0": 1, "no row": 1},
        "a[1].b.number": {"1": 1, "no row": 1},
        "b[1].value": {"NULL": 1, "no row": 1},
        "b[2].value": {"no row": 2},
        "a[2].value": {"no row": 2},
        "a[2].b.number": {"no row": 2},
    }


def test_names_of_columns_do_not_meet():
    link = Link("a", "root", ("k",), ("k",), most=2)
    shape = SHAPES[0]
    column = shape.unit_row.members["root"].attributes[0]
    root = Domain((replace(column, name="A[1].value"), replace(column, name="a.number")))
    unit_row = UnitRow(Tree("root", (link,)), {"root": root, "a": Domain((column,))})
    names = [name.lower() for name in unit_row.domain.names]
    assert len(set(names)) == len(names)
    assert UnitRow.from_json(unit_row.to_json(), unit_row.domain).domain == unit_row.domain
