"""Computed columns: not measured, computed in synthetic rows, and what they are computed from in queries."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.computed import in_levels
from dpsql.core.domain import Attribute
from dpsql.errors import DpsqlError, InvalidArgument, NotDeclared, UnknownName

ROWS = """
    CREATE TABLE bills AS SELECT (i * 7 % 50)::INTEGER AS repair, (i * 3 % 20)::INTEGER AS other,
        (i * 7 % 50 + i * 3 % 20)::INTEGER AS total, i % 2 = 0 AS paid FROM range(3000) r(i)
"""


@pytest.fixture
def bills(db):
    db.sql(ROWS)
    db.protect("bills", epsilon=50.0, delta=1e-6)
    db.domain("bills", "repair", lower=0, upper=49, bins=10)
    db.domain("bills", "other", lower=0, upper=19, bins=4)
    return db


def computed(db, expression="repair + other", column="total"):
    return db.sql(f"CALL dp_domain('bills', '{column}', computed_as := $${expression}$$)").fetchall()


def releases(db, **how):
    return db.synthesize("bills", 2.0, mechanism="direct", workload="all 2-way", **how)


# --- synthetic rows ---------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_computed_column_costs_nothing_and_is_what_it_is_computed_from(bills):
    ((_, _, kind, what, *_, because),) = computed(bills)
    assert (kind, what) == ("INTEGER", "computed")
    assert "never read" in because
    release = releases(bills)
    made = release.df()
    assert (made.total == made.repair + made.other).all()
    assert made.total.nunique() > 20
    assert str(made.total.dtype) == "int32"
    asked = {name for clique in release.measurements["columns"] for name in clique}
    assert asked == {"repair", "other", "paid"}
    assert "Not measured, but computed in each synthetic row: total = repair + other." in release.report().html
    assert "total = repair + other (not measured, but computed in each synthetic row)" in release.card().md
    assert "NULL in every synthetic row" not in release.report().html + release.card().md


@pytest.mark.medium
def test_what_is_stored_is_never_read(bills):
    """Two tables that differ in all values of the computed column have the same questions, and no error differs."""
    computed(bills)
    bills.sql("UPDATE bills SET total = 999999")
    made = releases(bills).df()
    assert made.total.max() <= 68
    (few,) = bills.query("SELECT count(*) AS n FROM bills WHERE total > 60", epsilon=5.0).n
    truth = bills.sql("SELECT count(*) FROM bills WHERE repair + other > 60").fetchall()[0][0]
    assert abs(few - truth) < 60 < 3000 - truth


@pytest.mark.medium
def test_an_expression_that_fails_in_a_row_is_null_in_it(bills):
    computed(bills, "CAST('2013-02-' || repair AS DATE) - DATE '2013-01-31'")
    made = releases(bills).df()
    held = made.repair.between(1, 28)
    assert made.total[held].tolist() == made.repair[held].tolist()
    assert made.total[~held].isna().all()
    assert (~held).sum() > 100


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("DOUBLE", "ln(1 + repair) / 3"),
        ("FLOAT", "sqrt(repair)"),
        ("DECIMAL(12,3)", "repair * 1.125"),
        ("HUGEINT", "repair::HUGEINT * 100000000000000000000"),
        ("UBIGINT", "repair::UBIGINT * 300000000000000000"),
        ("DATE", "DATE '2020-01-01' + repair::INTEGER"),
        ("TIMESTAMP", "TIMESTAMP '2020-01-01' + to_microseconds(repair)"),
        ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_microseconds(repair)"),
        ("TIME", "make_time(other, repair, 1.5)"),
        ("INTERVAL", "to_minutes(repair)"),
        ("BOOLEAN", "repair > other"),
        ("VARCHAR", "CASE WHEN repair > 20 THEN 'it''s, [\"much\"]' WHEN repair > 10 THEN '' END"),
        ("UUID", "CAST('00000000-0000-0000-0000-0000000000' || (10 + other) AS UUID)"),
    ],
)
def test_values_of_every_type_are_those_of_the_expression(db, kind, expression):
    db.sql(
        f"CREATE TABLE bills AS SELECT *, NULL::{kind} AS made FROM (SELECT i % 50 AS repair, i % 20 AS other FROM range(900) r(i))"
    )
    db.protect("bills", epsilon=50.0, delta=1e-6)
    db.domain("bills", "repair", lower=0, upper=49)
    db.domain("bills", "other", lower=0, upper=19)
    computed(db, expression, "made")
    releases(db).to_table("synthetic")
    same = f"made IS NOT DISTINCT FROM CAST(({expression}) AS {kind})"
    rows, equal, types = db.sql(
        f"SELECT count(*), count(*) FILTER ({same}), any_value(typeof(made)) FROM synthetic"
    ).fetchall()[0]
    assert rows == equal > 500
    assert types == kind


@pytest.mark.medium
def test_columns_are_computed_from_computed_ones_and_from_texts_that_are_read(db):
    db.sql(
        "CREATE TABLE bills AS SELECT i % 9 || '%' AS rate, 0.0::DOUBLE AS share, '' AS size, i % 2 = 0 AS paid FROM range(2000) r(i)"
    )
    db.protect("bills", epsilon=50.0, delta=1e-6)
    db.domain("bills", "rate", lower=0, upper=8, read_as="INTEGER%")
    computed(db, "CASE WHEN SHARE > .04 THEN 'large' ELSE 'small' END", "size")
    computed(db, "bills.Rate / 100", "share")
    made = releases(db).df()
    assert set(made.rate.dropna()) == {f"{i}%" for i in range(9)}
    assert (made["size"].eq("large") == made.share.gt(0.04)).all()
    shares = db.query("SELECT size, count(*) AS n, avg(share) AS a FROM bills GROUP BY size", epsilon=20.0)
    assert dict(zip(shares["size"], shares.n, strict=True))["large"] == pytest.approx(2000 * 4 / 9, abs=60)


@pytest.mark.medium
def test_a_clock_that_is_written_as_a_number_is_a_time_in_expressions(db):
    """In the check of the declaration, in synthetic rows and in queries alike."""
    db.sql(
        "CREATE TABLE flights AS SELECT i * 37 % 24 * 100 + i % 60 AS left_at, i * 37 % 24 AS hour FROM range(2400) r(i)"
    )
    db.protect("flights", epsilon=50.0, delta=1e-6)
    db.domain("flights", "left_at", lower="00:00:00", upper="23:59:59.999999", bins=24, read_as="HHMM")
    with pytest.raises(InvalidArgument, match="computed_as is 'left_at // 100', of which DuckDB makes no BIGINT"):
        db.domain("flights", "hour", computed_as="left_at // 100")
    db.domain("flights", "hour", computed_as="hour(left_at)")
    made = db.synthesize("flights", 2.0, mechanism="direct", workload="all 1-way").df()
    assert (made.hour == made.left_at // 100).all()
    answers = db.query("SELECT hour, count(*) AS n FROM flights GROUP BY hour", 40.0)
    assert answers.hour.tolist() == list(range(24))
    assert answers.n.between(90, 110).all()


@pytest.mark.medium
def test_no_rows_are_computed_too(bills):
    computed(bills)
    assert releases(bills, rows=0).df().total.tolist() == []


@pytest.mark.medium
def test_what_is_declared_anew_is_another_release(bills):
    computed(bills)
    first = releases(bills)
    assert releases(bills).entry.number == first.entry.number
    computed(bills, "repair - other")
    second = releases(bills)
    made = second.df()
    assert second.entry.number != first.entry.number
    assert (made.total == made.repair - made.other).all()
    assert (first.df().total == first.df().repair + first.df().other).all()


# --- queries ----------------------------------------------------------------------------------------------------------


QUERIES = [
    ("SELECT sum(total) AS x FROM bills", "SELECT sum(repair + other) AS x FROM bills"),
    ("SELECT avg(total) AS x FROM bills b WHERE b.total > 30", "SELECT avg(repair + other) AS x FROM bills WHERE (repair + other) > 30"),
    ("SELECT paid, count(total) AS x FROM bills GROUP BY paid", "SELECT paid, count(repair + other) AS x FROM bills GROUP BY paid"),
    ("WITH w AS (SELECT total AS t FROM bills WHERE paid) SELECT sum(t) AS x FROM w", "SELECT sum(repair + other) AS x FROM bills WHERE paid"),
    ("SELECT total // 30 AS k, count(*) AS x FROM main.bills GROUP BY ALL", "SELECT (repair + other) // 30 AS k, count(*) AS x FROM bills GROUP BY ALL"),
]  # fmt: skip


@pytest.mark.medium
def test_a_query_is_as_if_it_had_been_written_with_the_expression(bills):
    """The same questions, which cost the same and are as exact."""
    bills.sql("CREATE TABLE plain AS FROM bills")
    for name, how in (("repair", {"bins": 50}), ("other", {"bins": 20})):
        bills.domain("bills", name, lower=0, upper=how["bins"] - 1, **how)
    computed(bills)
    for query, written in QUERIES:
        first, second = (bills.query(text, epsilon=1.0) for text in (query, written))
        assert first.x_stderr.tolist() == pytest.approx(second.x_stderr.tolist(), rel=0.1), query
        assert abs(first.x - second.x).max() < 12 * first.x_stderr.max(), query
        truth = bills.sql(query.replace("bills", "plain")).fetchall()
        assert abs(float(first.x[0]) - float(truth[0][-1])) < 12 * float(first.x_stderr[0]) + 1, query


@pytest.mark.medium
def test_a_workload_may_name_a_computed_column(bills):
    computed(bills)
    plan = bills.sql("FROM dp_plan('bills', epsilon := 1.0, workload := 'SELECT sum(total) FROM bills')").fetchall()
    assert plan
    with pytest.raises(DpsqlError, match="computed"):
        bills.synthesize("bills", 1.0, columns=["total", "repair"])


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED = {
    "total + 1": "computed from itself",
    "repaired + 1": "has no column 'repaired'",
    "sum(repair)": "about one row alone",
    "repair + random()": "about one row alone",
    "count(*) OVER ()": "about one row alone",
    "repair + (SELECT 1)": "about one row alone",
    "repair + extract(epoch FROM now())": "about one row alone",
    "getvariable('x') + repair": "about one row alone",
    "repair, other": "one expression",
    "repair) + (other": "not an SQL expression",
    "repair; DROP TABLE bills": "one expression|not an SQL expression",
    "repair FROM bills": "without SELECT",
    "[repair]": "makes no INTEGER",
    "DATE '2020-01-01' + repair": "makes no INTEGER",
    "repair + DATE '2020-01-01' + DATE '2020-01-01'": "makes no INTEGER",
    "7": "names no column",
    "": "one expression|not an SQL expression",
    "other_table.repair": "alone",
}


@pytest.mark.medium
@pytest.mark.parametrize("expression", list(REFUSED))
def test_what_is_no_expression_of_one_row_is_refused(bills, expression):
    with pytest.raises((InvalidArgument, UnknownName), match=REFUSED[expression]):
        bills.domain("bills", "total", computed_as=expression)
    with pytest.raises(duckdb.Error, match=REFUSED[expression]):
        computed(bills, expression)
    assert bills.sql("SELECT kind FROM dp_domains('bills') WHERE \"column\" = 'total'").fetchall() == [(None,)]


@pytest.mark.medium
def test_circles_and_excluded_columns_are_refused_however_they_come(bills):
    computed(bills)
    for how in ({"repair": {"computed_as": "total - other"}}, {"repair": {"exclude": True}}):
        with pytest.raises(InvalidArgument, match="in a circle|which is excluded"):
            bills.domains("bills", how)
        with pytest.raises(InvalidArgument, match="in a circle|which is excluded"):
            bills.domain("bills", "repair", **how["repair"])
    both = {"repair": {"computed_as": "other + 1"}, "other": {"computed_as": "repair - 1"}}
    with pytest.raises(InvalidArgument, match="in a circle"):
        bills.domains("bills", both)
    with pytest.raises(InvalidArgument, match="bins is given|lower and upper"):
        bills.domain("bills", "total", computed_as="repair", lower=0, upper=1)
    for name, value in (("ids", True), ("nulls", True), ("other", 3), ("exclude", True), ("points", [1])):
        with pytest.raises(InvalidArgument, match=f"{name} is given"):
            bills.domain("bills", "total", computed_as="repair", **{name: value})


@pytest.mark.medium
def test_types_that_hold_values_and_the_unit_are_not_computed(db):
    db.sql(
        "CREATE TABLE bills AS SELECT i % 9 AS repair, 'a'::ENUM('a', 'b') AS e, [1] AS l, i // 2 AS who FROM range(90) r(i)"
    )
    db.protect("bills", epsilon=5.0, delta=1e-6, privacy_unit="who", max_rows=2)
    for name, said in (("e", "cannot be computed"), ("l", "cannot be computed"), ("who", "privacy unit")):
        with pytest.raises(InvalidArgument, match=said):
            db.domain("bills", name, computed_as="repair")
    db.domain("bills", "repair", lower=0, upper=8)
    with pytest.raises(InvalidArgument, match="from 'who', which is excluded"):
        db.domain("bills", "repair", computed_as="who % 9")


@pytest.mark.medium
def test_constraints_and_computed_columns_do_not_mix(bills):
    """A constraint is about what is measured, so it names what the column is computed from."""
    bills.sql("CALL dp_constraint('bills', 'repair < 40 OR other > 5')").fetchall()
    computed(bills)
    with pytest.raises(duckdb.Error, match=r"what it is computed from: \(repair \+ other\)"):
        bills.sql("CALL dp_constraint('bills', 'total < 60')").fetchall()
    with pytest.raises(InvalidArgument, match="names a column that is to be computed"):
        bills.domain("bills", "other", computed_as="repair * 2")
    made = releases(bills).df()
    assert ((made.repair < 40) | (made.other > 5)).all()


@pytest.mark.medium
def test_columns_without_those_that_they_are_computed_from_are_refused_before_the_charge(bills):
    computed(bills)
    with pytest.raises(NotDeclared, match="'total' of 'bills' is computed from other"):
        releases(bills, columns=["repair", "total"])
    made = releases(bills, columns=["repair", "other", "total"]).df()
    assert (made.total == made.repair + made.other).all()
    assert list(releases(bills, columns=["repair", "other"]).df()) == ["repair", "other"]


@pytest.mark.medium
def test_what_cannot_be_bound_any_more_is_refused_before_the_charge(db):
    """What a text is read as may change after an expression was declared."""
    db.sql("CREATE TABLE bills AS SELECT '2020-01-01' AS day, 0 AS n, i % 2 = 0 AS paid FROM range(90) r(i)")
    db.protect("bills", epsilon=5.0, delta=1e-6)
    db.domain("bills", "day", lower="2020-01-01", upper="2020-01-09", read_as="DATE")
    computed(db, "day - DATE '2020-01-01'", "n")
    db.domain("bills", "day", lower=1, upper=9, read_as="INTEGER")
    for ask in (lambda: db.synthesize("bills", 1.0), lambda: db.query("SELECT sum(n) FROM bills", epsilon=1.0)):
        with pytest.raises(DpsqlError):
            ask()
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]


# --- the books --------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_what_is_shown_declares_it_again(bills):
    bills.sql("CALL dp_domain('bills', 'total', computed_as := ' repair + other', looked := true)").fetchall()
    sql = "SELECT kind, origin, statement FROM dp_domains('bills') WHERE \"column\" = 'total'"
    shown = bills.sql(sql).fetchall()
    statement = "CALL dp_domain('bills', 'total', computed_as := 'repair + other', looked := true);"
    assert shown == [("computed", "looked", statement)]
    saved = bills.sql("FROM dp_domains('bills', as_json := true)").fetchall()[0][0]
    bills.domain("bills", "total", exclude=True)
    bills.domains("bills", saved)
    assert bills.sql(sql).fetchall() == shown
    bills.domain("bills", "total", computed_as="repair + other", looked=False)
    assert bills.sql(sql).fetchall()[0][1] == "declared"
    bills.domain("bills", "total", computed_as="repair + other", looked=True)
    assert "total" in releases(bills).entry.looked


def test_an_earlier_version_does_not_open_books_with_computed_columns(tmp_path):
    with dpsql.connect(tmp_path / "b.duckdb") as db:
        db.sql(ROWS)
        db.protect("bills", epsilon=5.0, delta=1e-6)
    with duckdb.connect(tmp_path / "b.duckdb") as con:
        con.execute("UPDATE dpsql.books SET version = 5")  # as the version before left them
    with dpsql.connect() as db:
        db.sql(f"ATTACH '{tmp_path / 'b.duckdb'}' AS shop")  # of which nothing is brought up to date by being opened
        db.domain("shop.bills", "repair", lower=0, upper=49, bins=10)
        assert db.sql("SELECT version FROM shop.dpsql.books").fetchall() == [(5,)]
        db.domain("shop.bills", "total", computed_as="repair + other")
        assert db.sql("SELECT version >= 6 FROM shop.dpsql.books").fetchall() == [(True,)]
    with dpsql.connect(tmp_path / "b.duckdb") as db:
        assert db.sql("SELECT kind FROM dp_domains('bills') WHERE \"column\" = 'total'").fetchall() == [("computed",)]


# --- order ------------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), min_size=8, max_size=8), st.permutations(range(8)))
def test_each_column_is_computed_behind_those_that_it_reads(reads, order):
    """Of any graph: it has a circle, is too deep, or is sorted."""
    columns = [
        Attribute(str(i), "BIGINT", "excluded", computed_as="x", computed_from=tuple(map(str, reads[i]))) for i in order
    ]
    try:
        levels = in_levels(columns)
    except InvalidArgument:
        left = set(range(8))
        while ready := {i for i in left if not left & set(reads[i])}:
            left -= ready
        assert left
        return
    placed: set[str] = set()
    for level in levels:
        assert all(placed.issuperset(one.computed_from) or {*one.computed_from} - placed == set() for one in level)
        placed |= {one.name for one in level}
    assert len(placed) == 8
