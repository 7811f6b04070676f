"""A type of a column is one file: what is registered here by a test is then known everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import dpsql
from dpsql.core.column_types import ColumnType, base, column_type, lists_members, public_type, register, registered

TYPES = [known.name for known in registered()]
NEW = ColumnType(
    "INTERVAL",
    "lengths of time",
    step="a second",
    to_tick="CAST(epoch(x) AS BIGINT)",
    from_tick="to_seconds(x)",
)
"""A type that has no bins today, because a month has no length."""


@pytest.fixture
def interval(monkeypatch) -> Iterator[None]:
    """INTERVAL with bins of seconds, while inside."""
    monkeypatch.setattr(base, "_named", dict(base._named))
    register(NEW)
    yield
    monkeypatch.undo()
    column_type.cache_clear()


def through_all(db: dpsql.Database, kind: str, edges: list[str], value: str) -> None:
    """Protect, declare, query and synthesize a table with a column of a type, whose rows are spread over two bins."""
    db.sql(f"CREATE TABLE t (x {kind}, y BOOLEAN)")
    db.sql(f"INSERT INTO t SELECT {value}, i % 2 = 0 FROM range(400) r(i)")
    db.protect("t", epsilon=60.0, delta=1e-6)
    db.domain("t", "x", edges=edges, nulls=False)
    early = f"SELECT x < ''{edges[1]}''::{kind} AS early, count(*) AS n FROM t GROUP BY early ORDER BY early"
    found = db.sql(f"SELECT early, n FROM dp_query('{early}', epsilon := 20.0)").fetchall()
    assert found == [(False, pytest.approx(200, abs=9)), (True, pytest.approx(200, abs=9))]
    options = "epsilon := 20.0, mechanism := 'direct', relaxed_rows := 32, steps := 60"
    db.sql(f"CREATE TABLE s AS FROM dp_synthesize('t', {options})")
    assert db.sql("DESCRIBE s").fetchall() == db.sql("DESCRIBE t").fetchall()
    inside = f"count(*) FILTER (WHERE x >= '{edges[0]}'::{kind} AND x < '{edges[2]}'::{kind})"
    ((rows, there, distinct),) = db.sql(f"SELECT count(*), {inside}, count(DISTINCT x) FROM s").fetchall()
    assert rows == there == pytest.approx(400, abs=20)
    assert distinct > 100


SECONDS = ["0 seconds", "200 seconds", "400 seconds"]


@pytest.mark.medium
def test_a_new_type_is_one_file(db, interval):
    through_all(db, "INTERVAL", SECONDS, "to_seconds(i)")


def test_without_its_file_it_has_no_bins(db):
    """The twin: nothing but the file makes it known."""
    with pytest.raises(dpsql.DpsqlError, match="which has no bins"):
        through_all(db, "INTERVAL", SECONDS, "to_seconds(i)")


@pytest.mark.medium
def test_times_in_nanoseconds(db):
    """TIME_NS was added by its file alone."""
    value = "make_timestamp_ns(i * 50000001)::TIME_NS"
    through_all(db, "TIME_NS", ["00:00:00", "00:00:10.000000200", "00:00:20.000000001"], value)
    hours = "SELECT minute(x) AS m, count(*) AS n FROM t GROUP BY m"
    assert [row[0] for row in db.sql(f"FROM dp_query('{hours}', epsilon := 1.0)").fetchall()] == [0]


@pytest.mark.parametrize("name", TYPES)
def test_what_is_registered_is_what_duckdb_calls_it(db, name):
    if name == "GEOMETRY":
        pytest.skip("needs an extension")
    db.sql(f"CREATE TABLE t (x {name})")
    assert db.sql("SELECT data_type FROM duckdb_columns() WHERE table_name = 't'").fetchall() == [(name,)]


@pytest.mark.parametrize("name", [name for name in TYPES if column_type(name).has_bins])
def test_ticks_and_values_are_the_same_thing(db, name):
    """A tick's value has that tick, by DuckDB and by Python alike, and steps above a constant are counted right."""
    from dpsql.engines.duckdb.ticks import edge_texts, tick

    known = column_type(name)
    wanted = [0.25, 0.5, 1.5] if known.is_float else [0, 7, 99]
    texts = edge_texts(db.connection, [*wanted, math.inf if known.is_float else 100], name)
    assert [tick(db.connection, text, name, "value") for text in texts[:3]] == wanted
    if known.ticks_above is not None:
        from sqlglot import exp

        from dpsql.engines.duckdb.types import constant_of, filled

        low, high = (constant_of(text, name) for text in texts[1:3])
        above = exp.select(filled(known.ticks_above, x=high, y=low, t=exp.Literal.number(7)))
        assert db.connection.execute(above.sql(dialect="duckdb")).fetchall() == [(92,)]


@pytest.mark.parametrize("member", ["plain", "it's", "a, b", "x'] (", "ENUM('y')", "", "line\nbreak", "🦆", "\\"])
def test_members_are_read_as_duckdb_writes_them(db, member):
    quoted = member.replace("'", "''")
    db.sql(f"CREATE TABLE t (x ENUM('first', '{quoted}'))")
    ((name,),) = db.sql("SELECT data_type FROM duckdb_columns() WHERE table_name = 't'").fetchall()
    assert column_type(name).members == ("first", member)
    assert lists_members(name)
    assert public_type(name) == "VARCHAR"


@pytest.mark.parametrize("name", ["ENUM('a')[]", "STRUCT(a ENUM('b'))", "MAP(INTEGER, VARCHAR)", "INTEGER[3]", "JSON"])
def test_nested_types_have_no_domain(name):
    known = column_type(name)
    assert not known.listable
    assert not known.has_bins
    assert not lists_members(name)
