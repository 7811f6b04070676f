"""What DuckDB's own `=` calls equal is one value, wherever a value is named: through SQL, without noise, on every type.

`tests/engines/conformance.py` asks every engine for the same counts.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.core.column_types import column_type, registered
from dpsql.engines.duckdb.ticks import canonical
from dpsql.errors import InvalidArgument, InvalidQuery
from tests.conftest import settle

from .spellings import SPELLINGS, Spelled, is_there

DELTA = 1e-9
KINDS = [kind for kind in SPELLINGS if is_there(kind)]


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    """No noise."""
    for kind in ("gaussian", "laplace"):
        monkeypatch.setattr(f"dpsql.privacy.distributions.discrete_{kind}", lambda v, n, e=None: np.zeros(n, np.int64))


@pytest.fixture
def host():
    with duckdb.connect() as connection:
        yield connection


def made(db: dpsql.Database, kind: str, texts, **how) -> str:
    """A protected table with a column of a type; the type as DuckDB writes it."""
    db.sql(f"CREATE TABLE t (x {kind}, v BOOLEAN)")
    plain = kind.partition(" COLLATE")[0]
    db.sql(f"INSERT INTO t SELECT CAST(unnest(CAST($1 AS VARCHAR[])) AS {plain}), true", [list(texts)])
    db.protect("t", epsilon=900.0, delta=DELTA, **how)
    return kind


def rows_of(kind: str) -> list[str]:
    """Spellings in rows, each as often as its place, so that a cell that lacks one is noticed."""
    more = ("-nan",) if column_type(kind).is_float else ()
    return [text for place, text in enumerate((*SPELLINGS[kind], *more)) for _ in range(place + 2)]


def asked(db: dpsql.Database, sql: str) -> list[tuple]:
    """The answers of a query, without their errors and intervals, and DuckDB's own answers to the same text."""
    found = db.query(sql, epsilon=20.0)
    names = [name for name in found.columns if not name.endswith(("_stderr", "_low", "_high"))]
    return list(found[names].itertuples(index=False, name=None))


def test_every_type_has_spellings():
    assert {one.name for one in registered() if one.listable} <= set(SPELLINGS)


@pytest.mark.medium
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not column_type(kind).depends_on_session])
def test_a_condition_counts_what_duckdb_counts(db, host, kind):
    """Of each spelling, in WHERE, of values that were declared in another one."""
    rows = rows_of(kind)
    column = Spelled(host, rows, made(db, kind, rows))
    db.domain("t", "x", values=column.distinct)
    for text in dict.fromkeys(rows):
        constant = f"'{text}'" if kind.startswith("ENUM") else f"'{text}'::{kind}"
        sql = f"SELECT count(*) FILTER (WHERE x = {constant}) AS n FROM t"
        assert asked(db, sql) == db.sql(sql).fetchall() == [(column.count("x = ?", text),)], text
    (grouped,) = zip(*asked(db, "SELECT count(*) AS n FROM t GROUP BY x"), strict=True)
    own = [n for (n,) in db.sql("SELECT count(*) AS n FROM t GROUP BY x").fetchall()]
    assert sorted(grouped) == sorted(own)
    assert len(own) == len(column.distinct)


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
def test_two_spellings_are_not_two_values(db, host, kind):
    """In values, other, nulls_as and points; a reference names each once."""
    rows = rows_of(kind)
    column = Spelled(host, rows, made(db, kind, rows))
    texts = {text: canonical(host, [text], kind, "x")[0] for text in dict.fromkeys(rows)}
    db.sql("CREATE TABLE d AS SELECT DISTINCT CAST(x AS VARCHAR) AS x FROM t")
    settle(db, "d")
    db.domain("t", "x", reference="d.x")
    for text in texts:
        for other in column.distinct:
            if not column._holds("=", text, other):
                continue
            rest = [value for value in column.distinct if value != other][:1]
            with pytest.raises(InvalidArgument, match="which are one value of type|values repeats"):
                db.domain("t", "x", values=[text, *rest, other])
            with pytest.raises(InvalidArgument, match="which is one of values"):
                db.domain("t", "x", values=[text, *rest], other=other)
            with pytest.raises(InvalidArgument, match="is in values too"):
                db.domain("t", "x", values=[text, *rest], nulls_as=[other])
            with pytest.raises(InvalidArgument, match="which are one value of type|nulls_as repeats"):
                db.domain("t", "x", values=rest or [text], nulls_as=[text, other])


@pytest.mark.medium
@pytest.mark.parametrize("kind", [k for k in KINDS if column_type(k).equal_text and not column_type(k).declares_itself])
def test_discovered_values_are_each_listed_once(db, host, kind):
    """By the number of rows of all spellings."""
    rows = [text for text in rows_of(kind) for _ in range(100)]
    column = Spelled(host, rows_of(kind), made(db, kind, rows))
    found = db.discover("t", "x", epsilon=5.0).values
    assert len(found) == len(column.distinct)
    for text in found:
        assert column.count("x = ?", text) > 0


def test_values_of_intervals_are_not_discovered(db):
    """Which spelling stands for all would depend on the rows."""
    made(db, "INTERVAL", ["1 month", "30 days"] * 50)
    with pytest.raises(InvalidArgument, match="equal values are written in several ways: declare them"):
        db.discover("t", "x", epsilon=1.0)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
def test_equal_units_are_one_unit(db, host, kind):
    """With one row of each unit as many rows count as DuckDB tells values apart."""
    rows = rows_of(kind)
    column = Spelled(host, rows, made(db, kind, rows, privacy_unit="x", max_rows=1))
    assert asked(db, "SELECT count(*) AS n FROM t") == [(len(column.distinct),)]


TOLD_APART = {
    "DOUBLE": ("1 / x > 0", "CAST(x AS VARCHAR) = '0.0'", "signbit(x)"),
    "FLOAT": ("CAST(x AS VARCHAR) = '-0.0'", "signbit(x)", "x || 'a' = '0.0a'"),
    "INTERVAL": (
        "DATE '2020-01-31' + x < DATE '2020-03-01'",
        "CAST(x AS VARCHAR) = '1 month'",
        "datepart('day', x) = 30",
    ),
}


@pytest.mark.parametrize(("kind", "condition"), [(kind, one) for kind, some in TOLD_APART.items() for one in some])
def test_what_tells_equal_values_apart_is_not_answered(db, kind, condition):
    """Those of the cell may differ in it, so no count of the cell is the answer."""
    zero, other = ("30 days", "1 day") if kind == "INTERVAL" else ("0.0", "1")
    made(db, kind, [zero, other])
    db.domain("t", "x", values=[zero, other])
    with pytest.raises(InvalidQuery, match="apart that are equal and counted as one|not finite|No function"):
        db.query(f"SELECT count(*) FILTER (WHERE {condition}) AS n FROM t", epsilon=1.0)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0,)]


KEYS = {"DOUBLE": ("0.0", "-0.0"), "FLOAT": ("nan", "-nan"), "INTERVAL": ("30 days", "720 hours")}


@pytest.mark.parametrize(("kind", "keys"), KEYS.items())
def test_equal_keys_of_a_public_table_are_one_key(db, kind, keys):
    """A row that joins two of them would be counted twice."""
    made(db, kind, keys)
    db.domain("t", "x", values=keys[:1])
    db.sql(f"CREATE TABLE d (k {kind}, name VARCHAR)")
    db.sql(f"INSERT INTO d SELECT CAST(unnest(CAST($1 AS VARCHAR[])) AS {kind}), 'a'", [list(keys)])
    sql = "SELECT d.name AS name, count(*) AS n FROM t JOIN d ON t.x = d.k GROUP BY d.name"
    with pytest.raises(InvalidQuery, match="two rows of 'd' have the same k"):
        db.query(sql, epsilon=1.0)
    db.sql("DELETE FROM d WHERE rowid > 0")
    assert asked(db, sql) == db.sql(sql).fetchall() == [("a", 2)]


def test_a_point_beside_the_upper_bound_has_no_cell_of_its_own(db):
    """The last bin holds its upper end too, so the cell would hold two values."""
    made(db, "DOUBLE", ["1"])
    with pytest.raises(InvalidArgument, match="or the number next to it"):
        db.domain("t", "x", edges=[0, 1.0000000000000002], points=[1])


# --- collations -------------------------------------------------------------------------------------------------------

COLLATIONS = {
    "NOCASE": ("a", "A", "b"),
    "NOACCENT": ("a", "ä", "b"),
    "nocase.noaccent": ("a", "Ä", "b"),
    "NFC": ("ä", "a\u0308", "b"),
}


@pytest.mark.parametrize(("collation", "texts"), COLLATIONS.items())
def test_texts_of_a_column_with_a_collation_are_not_named(db, collation, texts):
    """Rows that are equal by it would not be counted; the statement of the message mends it."""
    made(db, f"VARCHAR COLLATE {collation}", texts)
    ways = ({"values": [texts[0]]}, {"lower": 0, "upper": 9, "read_as": "INTEGER", "nulls_as": ["N"]})
    for how in ways:
        with pytest.raises(InvalidArgument, match="a collation, .* TYPE VARCHAR USING lower") as refused:
            db.domain("t", "x", **how)
    with pytest.raises(InvalidArgument, match="has a collation"):
        db.discover("t", "x", epsilon=1.0)
    db.domain("t", "x", lower=0, upper=9, read_as="INTEGER")
    db.domain("t", "x", exclude=True)
    db.sql(str(refused.value).split("as in ")[1])
    written = [text for (text,) in db.sql("SELECT DISTINCT x FROM t").fetchall()]
    db.domain("t", "x", values=written)
    sql = f"SELECT count(*) FILTER (WHERE x = '{texts[0]}') AS n FROM t"
    assert asked(db, sql) == db.sql(sql).fetchall()


def test_a_collation_that_comes_later_stops_the_domain(db):
    made(db, "VARCHAR", ["a", "A", "b"])
    db.domain("t", "x", values=["a", "b"], other="rest")
    db.sql("ALTER TABLE t ALTER x TYPE VARCHAR COLLATE NOCASE")
    for call in (
        lambda: db.query("SELECT x, count(*) AS n FROM t GROUP BY x", epsilon=1.0),
        lambda: db.synthesize("t", epsilon=1.0),
    ):
        with pytest.raises(InvalidArgument, match="has a collation"):
            call()
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0,)]


def test_a_public_column_with_a_collation_is_not_joined(db):
    """DuckDB would join 'A' to 'a'; columns that are not read do not matter."""
    made(db, "VARCHAR", ["a"])
    db.domain("t", "x", values=["a"])
    db.sql("CREATE TABLE d (k VARCHAR, other VARCHAR COLLATE NOCASE, name VARCHAR)")
    db.sql("INSERT INTO d VALUES ('a', 'A', 'one')")
    sql = "SELECT d.name AS name, count(*) AS n FROM t LEFT JOIN d ON t.x = d.{} GROUP BY d.name"
    with pytest.raises(InvalidQuery, match="column 'other' of 'd' has a collation"):
        db.query(sql.format("other"), epsilon=1.0)
    assert asked(db, sql.format("k")) == db.sql(sql.format("k")).fetchall() == [("one", 1)]
