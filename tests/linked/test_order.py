"""Rows in order: two that follow each other stand in a unit's row, and synthetic rows of one parent rise from row to row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import dpsql
from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.tree import UNITS, Link, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.core.unit_words import words_of
from dpsql.engines.duckdb import unit_rows
from dpsql.engines.duckdb.catalog import find_source
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.evidence.ascent import ascending, is_strict, orders, with_orders
from dpsql.release.chains import Chains, Pairs, Parents, rising
from tests.depth import depth
from tests.linked.test_unit_rows import SETTINGS, full, sensitivity
from tests.linked.trees import SHAPES, Shape, databases

DAY = Attribute("value", "INTEGER", "bins", ticks=(0, 1, 2, 5, 9), edges=("0", "1", "2", "5", "8"), nullable=True)


@dataclass(frozen=True)
class InOrder(Shape):
    """A shape whose links are in order where a row has several rows below."""

    @property
    def tree(self) -> Tree:
        links = super().tree.links
        return Tree("root", tuple(replace(one, ordered_by="value" if one.most > 1 else "") for one in links))

    @property
    def unit_row(self) -> UnitRow:
        return UnitRow(self.tree, dict.fromkeys(self.tree.tables, Domain((DAY,))))


def in_order(shape: Shape) -> InOrder:
    return InOrder(shape.links, shape.type)


@pytest.mark.medium
@settings(SETTINGS, max_examples=10)
@given(databases())
def test_removing_a_unit_moves_one_row(database):
    shape, rows = database
    with duckdb.connect() as con:
        assert sensitivity(con, in_order(shape), rows) <= 1


@pytest.mark.slow
@settings(SETTINGS, max_examples=60)
@given(databases(unique=False))
def test_removing_a_unit_moves_one_row_of_many_trees(database):
    shape, rows = database
    with duckdb.connect() as con:
        assert sensitivity(con, in_order(shape), rows) <= 1


TWO_UNITS = full({"root": [{"value": 0, "k0": 1}, {"value": 1, "k0": 2}], "a": []})
TWO_UNITS["a"] = full(
    {"a": [{"value": v, "up0": k} for k, listed in ((1, (0, 1, 7)), (2, (0, 1, 2, 7))) for v in listed]}
)["a"]


@pytest.mark.medium
def test_a_pair_that_depends_on_other_units_is_found_out(monkeypatch):
    """A broken twin: the pair of least digest of all units, so that others have one only where it is theirs."""
    shape = in_order(SHAPES[0])
    with duckdb.connect() as con:
        databases = [{**TWO_UNITS, "a": turned} for turned in turns(TWO_UNITS["a"])]
        assert [sensitivity(con, shape, rows) for rows in databases] == [1] * len(databases)
        over_all = exp.maybe_parse(
            "arg_min(nth, drawn) FILTER (WHERE nth < whole OR whole = 1) OVER ()", dialect="duckdb"
        )
        monkeypatch.setitem(unit_rows._PAIR, "first", over_all)
        assert max(sensitivity(con, shape, rows) for rows in databases) > 1


def turns(rows):
    """The rows with other values, so that another unit has the least digest."""
    return [[{**row, "k1": number * row["up0"]} for row in rows] for number in range(1, 5)]


def test_all_pairs_of_a_unit_are_never_counted(monkeypatch):
    """A broken twin: every two rows that follow each other, each with the weight of a unit."""
    shape = in_order(SHAPES[0])
    monkeypatch.setitem(unit_rows._PAIR, "place", exp.Literal.number(1))
    with duckdb.connect() as con:
        with pytest.raises(DpsqlError, match="did not read every row"):
            shape.units(con, TWO_UNITS)
        for guard in ("_number_of", "_check_seen"):
            monkeypatch.setattr(unit_rows.UnitCounter, guard, lambda self, table: 2)
        shape.load(con, TWO_UNITS)
        sources = {table: find_source(con, table) for table in shape.tree.tables}
        counter = unit_rows.UnitCounter(con, sources, shape.unit_row, exp.Literal.string("x"))
        assert counter.marginal(("a[1].value",)).counts.sum() > 2  # of two units


LINK = Link("t", UNITS, ("unit",), ("unit",), most=20, ordered_by="value")
PANEL = UnitRow(Tree(UNITS, (LINK,)), {UNITS: Domain(()), "t": Domain((DAY,))})


@pytest.mark.medium
@settings(SETTINGS, max_examples=depth(15))
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2, 3, 7, 8, None])), max_size=14))
def test_a_unit_shows_two_rows_that_follow_each_other(rows):
    """By plain loops: the codes of the pair stand in the sorted codes of the unit, as far on as `before` says."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (unit INTEGER, value INTEGER)")
        if rows:
            con.executemany("INSERT INTO t VALUES (?, ?)", rows)
        for unit in {unit for unit, _ in rows}:
            con.execute(f"CREATE OR REPLACE TABLE one AS FROM t WHERE unit = {unit}")
            counter = unit_rows.UnitCounter(con, {"t": find_source(con, "one")}, PANEL, exp.Literal.string("x"))
            cells = counter.marginal(PANEL.domain.names).cells
            counter.close()
            number, before, first, second = np.unravel_index(int(cells[0]), PANEL.domain.shape(PANEL.domain.names))
            days = sorted(
                4 if day is None else int(np.searchsorted((1, 2, 5), day, side="right")) for u, day in rows if u == unit
            )
            assert number + 1 == len(days)
            absent = PANEL.domain.by_name["t[2].value"].absent_code
            assert days[before : before + 2] == ([first] if second == absent else [first, second])


@pytest.mark.parametrize("setting", ["default_order = 'DESC'", "default_null_order = 'NULLS FIRST'"])
def test_rows_are_in_order_whatever_a_session_sorts_by(setting):
    with duckdb.connect() as con:
        con.execute(f"SET {setting}")
        con.execute("CREATE TABLE t AS SELECT 1 AS unit, unnest([0, 1, 2, NULL])::INTEGER AS value")
        counter = unit_rows.UnitCounter(con, {"t": find_source(con, "t")}, PANEL, exp.Literal.string("x"))
        cells = counter.marginal(PANEL.orders["t"]).cells
    first, second = np.unravel_index(int(cells[0]), PANEL.domain.shape(PANEL.orders["t"]))
    assert (first, second) in ((0, 1), (1, 2), (2, 4))


def test_an_order_is_part_of_the_request_and_of_what_is_stored():
    assert PANEL.to_json()["order"] == {"t": "value"}
    assert UnitRow.from_json(PANEL.to_json(), PANEL.domain).domain == PANEL.domain
    assert UnitRow.from_json(PANEL.to_json(), PANEL.domain).tree == PANEL.tree
    without = UnitRow(Tree(UNITS, (replace(LINK, ordered_by=""),)), PANEL.members)
    assert "order" not in without.to_json()  # keys of earlier releases stay
    assert len(without.domain) == len(PANEL.domain) - 1
    assert words_of(PANEL)["t[2].value"] == "value of the next row of the same unit"
    assert words_of(PANEL)["t.before"] == "number of rows of t a unit has before the two"


def test_rows_rise_strictly_where_noisy_counts_show_no_two_alike():
    earlier, later = PANEL.orders["t"]
    shape = PANEL.domain.shape((earlier, later))
    counts = np.zeros(shape)
    counts[0, 1], counts[1, 2] = 90, 80

    def measured(values):
        return [Measurement((earlier, later), shape, values.ravel(), Fraction(25), "gaussian", Fraction(1, 100))]

    assert is_strict(PANEL.domain, earlier, later, measured(counts))
    alike = counts.copy()
    alike[2, 2] = 40
    assert not is_strict(PANEL.domain, earlier, later, measured(alike))
    assert not is_strict(PANEL.domain, earlier, later, [])
    (public,) = with_orders(PANEL, [])
    assert all(a <= b for a, b in public.codes.tolist())
    (drawn,), strict = orders(PANEL, [public], measured(counts))
    assert strict == {"t"}
    assert all(a < b or (a, b) == (4, 4) for a, b in drawn.codes.tolist())  # NULL comes last, and may be there twice
    tied = [Allowed((earlier,), (earlier,), (), np.array([[0]]), np.zeros((1, 1)))]
    assert with_orders(PANEL, tied) == tied
    assert ascending(PANEL.domain, earlier, later, strictly=True).clique == (earlier, later)


@st.composite
def chains(draw):
    """Pairs that rise, and parents with rows of their own; codes 0 to 7, and 8 is NULL."""
    nullable, strict = draw(st.booleans()), draw(st.booleans())
    last = 7 + nullable
    code, two = st.integers(0, last), st.integers(0, 2)
    lenders = draw(st.lists(st.tuples(code, code, two, two), min_size=1, max_size=12))
    parents = draw(
        st.lists(st.tuples(st.integers(1, 11), st.integers(0, 12), code, code, st.booleans()), min_size=1, max_size=8)
    )
    return nullable, strict, np.array(lenders), np.array(parents, np.int64), draw(st.integers(0, 2**32 - 1))


@pytest.mark.medium
@settings(deadline=None, derandomize=True, max_examples=depth(150))
@given(chains())
def test_a_chain_rises_whatever_lends(case):
    nullable, strict, lenders, given_parents, seed = case
    day = Attribute("day", "INTEGER", "bins", ticks=tuple(range(9)), edges=tuple(map(str, range(9))), nullable=nullable)
    both = np.sort(lenders[:, :2], axis=1)
    numbers, before, *codes, has = given_parents.T
    pairs = Pairs(
        np.stack([both[:, 0], lenders[:, 2]], axis=1),
        np.stack([both[:, 1], lenders[:, 3]], axis=1),
        np.zeros((len(both), 1), np.int64),
        *(0, 0, day, strict),
    )
    own = np.sort(np.stack(codes, axis=1), axis=1)
    rows = [np.stack([own[:, place], 0 * numbers], axis=1) for place in (0, 1)]
    parents = Parents(np.zeros((len(numbers), 1), np.int64), numbers, before, lambda rows: rows)
    drawn, places = Chains(pairs, parents, np.random.default_rng(seed), lambda: None).draw(*rows, has.astype(bool))
    ends = np.cumsum(numbers)
    for start, end, place in zip(ends - numbers, ends, places, strict=True):
        days = drawn[start:end, 0]
        assert start <= place < end
        assert days.min() >= 0
        assert days.max() < day.size
        assert (np.diff(days) >= 0).all()
        regular = days[days < 8]
        if strict and end - start <= 8:
            assert len({*regular.tolist()}) == len(regular)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30))
def test_values_in_one_bin_rise_and_differ_where_there_is_room(rows):
    day = Attribute("day", "BIGINT", "bins", ticks=(0, 5, 10, 11), edges=("0", "5", "10", "11"))
    up, codes, inside = np.array(sorted(rows)).T
    ticks = np.array(day.ticks)[codes] + np.where(codes < 2, inside, 0)
    placed = rising(day, codes, ticks, up)
    assert (np.searchsorted(day.ticks, placed, side="right") - 1 == codes).all()
    for parent in {*up.tolist()}:
        mine, bins = placed[up == parent], codes[up == parent]
        assert (np.diff(mine) >= 0).all()
        for code, room in ((0, 5), (1, 5)):
            own = mine[bins == code]
            assert len(own) > room or len({*own.tolist()}) == len(own)


def panel(db: dpsql.Database) -> None:
    db.sql(
        "CREATE TABLE wages AS SELECT i % 250 AS person, 1980 + i // 250 AS year, i % 3 AS wage FROM range(2000) r(i)"
    )
    db.protect("wages", epsilon=500, delta=1e-9, privacy_unit="person", max_rows=8)
    db.sql("CALL dp_domain('wages', 'year', lower := 1980, upper := 1987)").fetchall()
    db.sql("CALL dp_domain('wages', 'wage', lower := 0, upper := 2)").fetchall()


@pytest.mark.medium
def test_persons_of_a_panel_have_each_year_once():
    """At an ε without noise to speak of; the second call is the same release, in order or not."""
    with dpsql.connect() as db:
        panel(db)
        made = db.synthesize("wages", 100.0, linked=True, ordered_by="year").df()
        left = db.sql("SELECT epsilon_left FROM dp_budget()").fetchone()
        again = db.connection.execute(
            "FROM dp_synthesize('wages', epsilon := 100.0, linked := true, ordered_by := 'YEAR')"
        )
        assert again.df().equals(made)
        assert db.sql("SELECT epsilon_left FROM dp_budget()").fetchone() == left
        years = made.groupby("person")["year"]
        assert years.size().eq(8).mean() > 0.95
        assert not made.duplicated(["person", "year"]).any()
        moved = made.sort_values(["person", "year"]).groupby("person")["wage"].diff().dropna() % 3
        assert (moved == 250 % 3).mean() > 0.9  # each year's wage follows from that of the year before
        with pytest.raises(InvalidArgument, match="say linked := true too"):
            db.synthesize("wages", 1.0, ordered_by="year")


TREE = (
    "CREATE TABLE patients (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL)",
    "CREATE TABLE visits (pid INTEGER REFERENCES patients (pid), day INTEGER, ward VARCHAR)",
    "INSERT INTO patients SELECT i, i % 2 = 0 FROM range(300) r(i)",
    "INSERT INTO visits SELECT i % 300, 10 * (i // 300) + i % 7, 'a' FROM range(1200) r(i)",
)


def tree(db: dpsql.Database, **link: object) -> None:
    for statement in TREE:
        db.sql(statement)
    db.protect("patients", epsilon=500, delta=1e-9)
    db.link("visits", "patients", **link)
    db.sql("CALL dp_domain('visits', 'day', lower := 0, upper := 49)").fetchall()
    db.sql("CALL dp_domain('visits', 'ward', \"values\" := ['a', 'b'])").fetchall()


@pytest.mark.medium
def test_visits_of_a_patient_follow_each_other():
    with dpsql.connect() as db:
        tree(db, most=6, ordered_by="DAY")
        assert db.links("visits")["ordered_by"].tolist()[1] == "day"
        release = db.synthesize("patients", 100.0, linked=True)
        visits = release["visits"].df()
        assert not visits.duplicated(["pid", "day"]).any()
        steps = visits.sort_values(["pid", "day"]).groupby("pid")["day"].diff().dropna()
        assert steps.between(9, 11).mean() > 0.7  # of the real ones all are 10
        with pytest.raises(InvalidArgument, match="whose order its owner says with the link"):
            db.synthesize("visits", 1.0, linked=True, ordered_by="day")
        db.sql("CALL dp_constraint('visits', 'day <> 3')").fetchall()
        with pytest.raises(InvalidArgument, match="the constraint day <> 3 names"):
            db.synthesize("patients", 2.0, linked=True)


def test_a_table_that_is_linked_without_an_order_gets_one_as_the_message_says():
    with dpsql.connect() as db:
        tree(db, most=6)
        with pytest.raises(InvalidArgument, match=r"db\.unprotect\('child', reason\) takes a link back"):
            db.synthesize("visits", 1.0, linked=True, ordered_by="day")
        with pytest.raises(InvalidArgument, match="that is said once"):
            db.link("visits", "patients", ordered_by="day")
        db.unprotect("visits", "its rows have an order")
        assert db.link("visits", "patients", most=6, ordered_by="day").ordered_by == "day"


def test_what_is_no_order_is_refused_in_words():
    with dpsql.connect() as db:
        tree(db, most=6, ordered_by="ward")
        with pytest.raises(InvalidArgument, match=r"whose values are not in bins\. Of numbers or times CALL dp_domain"):
            db.synthesize("patients", 1.0, linked=True)
    for given_link, words in (
        ({"ordered_by": "pid"}, "the key, in which all rows of one row above are alike"),
        ({"ordered_by": "day", "most": 1}, "has one row for each row above: leave ordered_by out"),
        ({"ordered_by": "day", "one_of": {"first": "ward = 'a'"}}, "has roles, of which each has a place of its own"),
    ):
        with dpsql.connect() as db, pytest.raises(InvalidArgument, match=words):
            tree(db, **given_link)
