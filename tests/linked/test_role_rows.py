"""Roles of children: removing a unit takes one row away and changes no other, and surplus rows stay children."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.constraint import Allowed
from dpsql.core.domain import LARGEST_INDEX
from dpsql.core.tree import Role, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.engines.duckdb import unit_rows
from dpsql.engines.duckdb.catalog import find_source
from dpsql.evaluation.roles import roles_of
from tests.linked.test_unit_rows import full, moves_one_row, sensitivity
from tests.linked.trees import SECRET, SHAPES, Rows, Shape, databases, moved

SETTINGS = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
HEAD, SPOUSE = Role("head", "value = 0", always=True), Role("spouse", "value IS NULL", always=False)


@dataclass(frozen=True)
class Cast(Shape):
    """A shape in which the rows of some tables have roles.

    Attributes:
        roles: of the rows of each table.
    """

    roles: tuple[tuple[str, tuple[Role, ...]], ...] = ()

    @property
    def tree(self) -> Tree:
        plain, roles = super().tree, dict(self.roles)
        return Tree("root", tuple(replace(link, roles=roles.get(link.child, ())) for link in plain.links))

    def units(self, con: duckdb.DuckDBPyConnection, rows: Rows) -> Counter[int]:
        """See `Shape.units`."""
        self.load(con, rows)
        unit_row: UnitRow = self.unit_row
        counter = counter_of(con, unit_row)
        whole = counter.marginal(unit_row.domain.names)
        assert counter.marginal(()).counts.tolist() == [len(rows["root"])]
        counter.close()
        return Counter(dict(zip(whole.cells.tolist(), whole.counts.tolist(), strict=True)))


def counter_of(con: duckdb.DuckDBPyConnection, unit_row: UnitRow) -> unit_rows.UnitCounter:
    """A counter of the units of tables that are loaded."""
    sources = {table: find_source(con, table) for table in unit_row.tree.tables}
    secret, roles = exp.Literal.string(SECRET), roles_of(unit_row, sources)
    return unit_rows.UnitCounter(con, sources, unit_row, secret, roles=roles)


@st.composite
def casts(draw: st.DrawFn, unique: bool = True) -> tuple[Cast, Rows]:
    """A tree with roles in some tables, and rows."""
    shape, rows = draw(databases(unique))
    sets = st.sampled_from([(HEAD,), (SPOUSE,), (HEAD, SPOUSE), (SPOUSE, replace(HEAD, always=False))])
    roles = tuple((table, draw(sets)) for table in shape.tree.tables[1:] if draw(st.booleans()) or table == "a")
    cast = Cast(shape.links, shape.type, roles)
    assume(cast.unit_row.domain.size(cast.unit_row.domain.names) <= LARGEST_INDEX)
    return cast, rows


@pytest.mark.medium
@settings(SETTINGS, max_examples=12)
@given(casts())
def test_removing_a_unit_moves_one_row(database):
    moves_one_row(database)


@pytest.mark.slow
@settings(SETTINGS, max_examples=15)
@given(casts(unique=False))
def test_removing_a_unit_moves_one_row_where_keys_are_shared(database):
    moves_one_row(database)


HOUSES = full({"root": [{"value": 0, "k0": 1}, {"value": 1, "k0": 2}, {"value": 1, "k0": 3}], "a": []})
HOUSES["a"] = full(
    {"a": [{"value": v, "up0": k} for v, k in ((0, 1), (1, 1), (0, 2), (0, 2), (0, 2), (None, 2), (1, 9), (None, 3))]}
)["a"]
HOUSE = Cast(SHAPES[0].links, SHAPES[0].type, (("a", (HEAD, SPOUSE)),))


def shown(con: duckdb.DuckDBPyConnection, shape: Cast, rows: Rows) -> dict[str, dict[str, int]]:
    """The counts of each column of the units' rows, by label."""
    shape.load(con, rows)
    counter = counter_of(con, shape.unit_row)
    found = {}
    for attribute in shape.unit_row.domain:
        counts = counter.marginal((attribute.name,)).dense().tolist()
        found[attribute.name] = {label: n for label, n in zip(attribute.labels(), counts, strict=True) if n}
    counter.close()
    return found


def test_a_role_has_one_row_and_surplus_ones_are_children():
    with duckdb.connect() as con:
        assert shown(con, HOUSE, HOUSES) == {
            "value": {"0": 1, "1": 2},
            "a.number": {"0": 1, "1": 1, "2": 1},
            "a.spouse": {"0": 1, "1": 2},
            "a.head.value": {"0": 2, "no row": 1},
            "a.spouse.value": {"NULL": 2, "no row": 1},
            "a[1].value": {"0": 1, "1": 1, "no row": 1},
            "a[2].value": {"0": 1, "no row": 2},
        }


def test_a_choice_among_all_units_is_found_out(monkeypatch):
    """A broken twin: the row of a role is the first of all units'."""
    numbered = unit_rows._in_parent

    def of_all(order, *among):
        if among != ("able",):
            return numbered(order, *among)
        by = exp.Order(expressions=[exp.Ordered(this=order)])
        return exp.Window(this=exp.RowNumber(), partition_by=[exp.column("able")], order=by)

    with duckdb.connect() as con:
        assert sensitivity(con, HOUSE, HOUSES) == 1
        monkeypatch.setattr(unit_rows, "_in_parent", of_all)
        assert sensitivity(con, HOUSE, HOUSES) > 1


def test_rows_whose_roles_are_told_by_place_are_found_out():
    """Rows in any order have the same roles: they are chosen by what they hold."""
    rows = {**HOUSES, "a": [{**row, "k0": place} for place, row in enumerate(HOUSES["a"])]}
    turned = {**rows, "a": rows["a"][::-1]}
    with duckdb.connect() as con:
        assert moved(HOUSE.units(con, rows), HOUSE.units(con, turned)) == 0


def test_the_tree_of_a_request_has_roles_and_without_any_is_what_it_was():
    unit_row = HOUSE.unit_row
    assert UnitRow.from_json(unit_row.to_json(), unit_row.domain).domain == unit_row.domain
    assert unit_row.to_json()["links"][0][5] == [["head", "value = 0", True], ["spouse", "value IS NULL", False]]
    assert len(SHAPES[0].unit_row.to_json()["links"][0]) == 5


def test_what_is_allowed_of_a_role_is_said_of_its_slots():
    """A role that need not be is there with its values, or is not; one of every unit is always there."""
    unit_row = HOUSE.unit_row
    part = Allowed(("value",), ("value",), ("",), np.array([[0]]), np.zeros((1, 1)))
    (spouse,) = unit_row.allowed("a", SPOUSE, [part])
    none = unit_row.domain.by_name["a.spouse.value"].absent_code
    assert (spouse.clique, spouse.codes.tolist()) == (("a.spouse", "a.spouse.value"), [[0, none], [1, 0]])
    (head,) = unit_row.allowed("a", HEAD, [part])
    assert (head.clique, head.codes.tolist()) == (("a.head.value",), [[0]])
