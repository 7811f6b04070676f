"""Which pairs of a unit's row are measured, that those left out follow from others, and that older releases stay free."""

from __future__ import annotations

import itertools
import math

import pytest

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.tree import Link, Role, Tree
from dpsql.core.unit_row import FAR, SIBLINGS, UnitRow
from dpsql.release.judged_tree import judged_tree
from tests.linked.test_release import LINKS, TABLES, asked, charges, run
from tests.linked.trees import SHAPES

CHAIN = SHAPES[2].unit_row  # root, at most 4 of a, at most 3 of b of each


@pytest.fixture
def of_before(monkeypatch):
    """A database whose linked releases are those of an earlier version, until `undo`."""
    with dpsql.connect() as db:
        run(db, TABLES + LINKS)
        monkeypatch.setattr(UnitRow, "workload", UnitRow.former_workload)
        yield db


def test_pairs_that_have_a_twin_are_left_out():
    workload = CHAIN.workload()
    measured = {frozenset(clique): workload.weight(clique) for clique in workload.cliques}
    for left, weight in {
        ("value", "a[1].value"): 1.0,
        ("value", "a[2].value"): 1.0,
        ("value", "b[1].value"): FAR,
        ("value", "b[2].value"): 0.0,  # as b[1]
        ("a[1].value", "a[2].value"): SIBLINGS,
        ("a[1].value", "a[2].b.number"): 0.0,  # of different columns
        ("a[1].b.number", "a[2].b.number"): SIBLINGS,
        ("a[1].value", "b[2].value"): FAR,
        ("a[2].value", "b[1].value"): 0.0,  # as with any other child
        ("a.number", "b[2].value"): 0.0,
        ("b[1].value", "b[2].value"): SIBLINGS,
    }.items():
        assert measured.get(frozenset(left), 0.0) == weight, left


@pytest.mark.parametrize("unit_row", [shape.unit_row for shape in SHAPES])
def test_each_pair_that_is_left_out_is_of_siblings_or_has_a_first_row_in_its_place(unit_row):
    """Over all shapes: the same columns of first rows are measured, so nothing but siblings is unknown."""
    measured = {frozenset(clique) for clique in unit_row.workload().cliques}
    slots, place = unit_row.slots, unit_row.slot_of_column
    assert {frozenset((name,)) for name in unit_row.domain.names} <= {
        frozenset((name,)) for clique in measured for name in clique
    }

    def first(name: str) -> str:
        slot = slots[place[name]]
        twin = slots[unit_row.slot_of(slot.table, 0, slot.role)]
        return twin.names[slot.names.index(name)]

    for pair in itertools.combinations(unit_row.domain.names, 2):
        above = [slots[place[name]].above for name in pair]
        if frozenset(pair) not in measured and (place[pair[0]] == place[pair[1]] or above[0] != above[1]):
            assert frozenset(map(first, pair)) in measured


def test_pairs_of_roles_and_of_branches_are_all_measured():
    value = Domain((Attribute("value", "INTEGER", "values", ("0", "1")), Attribute("sex", "INTEGER", "values", ("0",))))
    head, key = Role("head", "sex = 0", always=True), (("up",), ("id",))
    links = (Link("a", "root", *key, 3, (head,)), Link("c", "root", *key, 2))
    row = UnitRow(Tree("root", links), dict.fromkeys(("root", "a", "c"), value))
    measured = {frozenset(clique) for clique in row.workload().cliques}
    left = {pair for pair in map(frozenset, itertools.combinations(row.domain.names, 2)) if pair not in measured}
    assert left == {
        frozenset((f"{t}[1].{x}", f"{t}[2].{y}")) for t in "ac" for x, y in (("value", "sex"), ("sex", "value"))
    }


@pytest.mark.medium
def test_a_release_of_an_earlier_version_stays_free(of_before, monkeypatch):
    of_before.sql(asked("patients")).fetchall()
    monkeypatch.undo()
    of_before.sql(asked("visits")).fetchall()
    assert charges(of_before) == 1
    of_before.sql(asked("visits", epsilon=19.0)).fetchall()
    of_before.sql(asked("visits", epsilon=19.0)).fetchall()
    assert charges(of_before) == 2


@pytest.mark.medium
def test_pairs_that_are_not_measured_say_nothing_against_a_join():
    """At a large ε every pair that is measured is reliable or not for reasons of its own; no other is counted."""
    with dpsql.connect() as db:
        run(db, TABLES + LINKS)
        release = db.synthesize("patients", 20.0, linked=True, steps=40, relaxed_rows=20)
        row = UnitRow.from_json(release.entry.linked, release.entry.domain)
        tree, left = judged_tree(row, release.judgement), math.comb(len(row.domain.names), 2) - len(row.workload())
        assert release.judgement.implied_pairs == left > 0
        assert not release.judgement.unmeasured_pairs
        said = f"{left:,} more pairs follow from others, so they were not measured"
        assert said in release.verdict.text
        assert "not judged" not in release.verdict.text
        visits = next(link for link in tree.links if link.link.child == "visits")
        assert visits.siblings.judged == 3  # ward, severity and the number of labs, each with itself
        plan = db.forecast("patients", 20.0, linked=True)
        assert f"{len(row.workload()):,} pairs of columns" in str(plan)
