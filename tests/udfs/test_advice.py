"""The call that an error advises runs as it is written, whatever the table is called and wherever it is."""

from __future__ import annotations

import re

import duckdb
import pytest

from dpsql.core.names import as_text
from dpsql.engines.source import Source

TABLES = ["people", "s.people", 's."peo.ple"', '"o\'x"', '"A b"']
_CALL = re.compile(r"CALL dp_\w+\((?:'(?:[^']|'')*'|[^()'])*\)")


def refusal(db, statement: str) -> str:
    with pytest.raises(duckdb.Error) as raised:
        db.execute(statement).fetchall()
    return str(raised.value)


def follow(db, statement: str, **places: str) -> str:
    """Run what the refusal of a statement advises, with what stands for its dots.

    Returns:
        the call.
    """
    (call, *_) = _CALL.findall(refusal(db, statement))
    for name, value in places.items():
        call = call.replace(f"{name} := …", f"{name} := {value}")
    db.execute(call).fetchall()
    return call


@pytest.fixture
def table(db, request):
    db.execute("CREATE SCHEMA s")
    db.execute(f"CREATE TABLE {request.param} AS SELECT i AS id, i % 10 AS age FROM range(100) r(i)")
    return request.param


def protected(db, table: str) -> str:
    """What asks for a synthetic table, once the advised calls were made."""
    asks = f"FROM dp_plan({as_text(table)}, epsilon := 1.0)"
    assert follow(db, asks).startswith("CALL dp_protect(")
    assert follow(db, asks, lower="0", upper="99", bins="10").startswith("CALL dp_domain(")
    follow(db, asks, lower="0", upper="9", bins="10")
    return asks


@pytest.mark.medium
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_call_that_an_error_advises_runs(db, table):
    asks = protected(db, table)
    assert db.execute(asks).fetchall()
    db.execute(f"CALL dp_constraint({as_text(table)}, 'age IS NOT NULL AND age > 5')")
    db.execute(f"CALL dp_domain({as_text(table)}, 'age', lower := 0, upper := 4)")
    assert follow(db, asks).endswith(", 'age IS NOT NULL AND age > 5', remove := true)")
    assert db.execute(asks).fetchall()


@pytest.mark.medium
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_link_that_an_error_advises_is_made(db, table):
    protected(db, table)
    below = 's."chi.ld"' if table.startswith("s.") else '"chi\'ld"'
    db.execute(f"CREATE TABLE {below} AS SELECT i AS age, i % 100 AS id FROM range(100) r(i)")
    db.execute(f"CALL dp_link({as_text(below)}, {as_text(table)}, key := 'id')")
    asks = f"FROM dp_query({as_text(f'SELECT count(*) FROM {below}')}, epsilon := 0.1)"
    assert follow(db, asks).startswith("CALL dp_link(")
    assert db.execute(asks).fetchall()


@pytest.mark.parametrize("table", ["s.people"], indirect=True)
def test_a_name_without_its_schema_is_noticed(db, table, monkeypatch):
    """The broken twin."""
    monkeypatch.setattr(Source, "argument", property(lambda source: as_text(source.name)))
    with pytest.raises(duckdb.Error, match="there is no table 'people'"):
        protected(db, table)


@pytest.mark.parametrize("kind", ["INTEGER", "TIME", "VARCHAR", "TIMESTAMP_NS", "TIMESTAMPTZ"])
def test_a_column_of_periods_is_altered_as_advised(db, kind):
    value = {"INTEGER": "20260102", "TIME": "TIME '10:00'"}.get(kind, "'2026-01-02'")
    db.execute(f'CREATE SCHEMA s; CREATE TABLE s.t AS SELECT {value}::{kind} AS "the day" FROM range(9)')
    asks = "CALL dp_protect('s.t', epsilon := 3.0, delta := 1e-9, period := 'month', by := 'the day')"
    (alter,) = re.findall(r"ALTER TABLE .*", refusal(db, asks))
    db.execute(alter.replace("…", "DATE '2026-01-02'"))
    assert db.execute(asks).fetchall()


def test_years_are_counted_as_years(db):
    db.execute(
        "CREATE TABLE t AS SELECT TIMESTAMP '2026-01-02' AS at; CALL dp_protect('t', epsilon := 3.0, delta := 1e-9)"
    )
    declare = "CALL dp_domain('t', 'at', lower := '{}', upper := '{}', every := '{}')"
    assert db.execute(declare.format("0001-01-01", "9999-12-31", "year")).fetchall()[0][4] == 9_999 + 1
    assert "or nearer bounds" in refusal(db, declare.format("0001-01-01", "9999-12-31", "month"))


@pytest.mark.parametrize(
    "given",
    ["\"values\" := 'o''x'", "type := true", "lower := 'a', upper := 'b'", ""],
)
def test_a_list_of_values_is_advised_as_it_is_typed(db, given):
    db.execute("CREATE TABLE t AS SELECT 'o''x' AS sex; CALL dp_protect('t', epsilon := 3.0, delta := 1e-9)")
    text = refusal(db, f"CALL dp_domain('t', 'sex'{', ' if given else ''}{given})")
    (advised,) = re.findall(r'"values" := \[[^]]*\]', text)
    db.execute(f"CALL dp_domain('t', 'sex', {advised.replace(', …', '').replace('…', repr('o'))})")


def test_a_column_that_can_have_no_domain_is_made_not_null(db):
    db.execute(
        "CREATE TABLE t AS SELECT [i] AS listed FROM range(9) r(i); CALL dp_protect('t', epsilon := 3.0, delta := 1e-9)"
    )
    asks = "FROM dp_query('SELECT count(listed) FROM t', epsilon := 0.1)"
    assert "the owner declares it as NOT NULL in the table" in refusal(db, asks)
    db.execute("ALTER TABLE t ALTER listed SET NOT NULL")
    assert db.execute(asks).fetchall()


def test_a_plan_assumes_no_fewer_rows_than_none(db):
    db.execute("CREATE TABLE people AS SELECT i % 10 AS age FROM range(100) r(i)")
    db.execute("CALL dp_protect('people', epsilon := 3.0, delta := 1e-9)")
    db.execute("CALL dp_domain('people', 'age', lower := 0, upper := 9)")
    for asked in ("people", "SELECT count(*) FROM people"):
        plan = f"FROM dp_plan({as_text(asked)}, epsilon := 1.0, assume_rows := "
        assert "such as 10000" in refusal(db, f"{plan}-1)")
        assert db.execute(f"{plan}0)").fetchall()
