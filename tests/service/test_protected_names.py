"""Who reads a protected table as if it were there is told what to ask; of other tables nothing is told."""

from __future__ import annotations

import psycopg
import pytest

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def alice(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM adult", "SELECT age FROM ADULT AS a", "SELECT 1 FROM shown JOIN main.adult USING (i)"]
)
@pytest.mark.parametrize("parameters", [None, [5]])
def test_a_protected_table_is_asked_about(alice, sql, parameters):
    text = sql if parameters is None else f"SELECT * FROM ({sql}) AS q LIMIT %s"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is protected") as raised:
        alice.execute(text, parameters)
    assert "FROM dp_query('SELECT count(*) AS n FROM adult', epsilon => 0.1)" in str(raised.value)
    assert "FROM dp_synthesize('adult'" in str(raised.value)
    assert "FROM dp_domains('adult')" in str(raised.value)


@pytest.mark.parametrize("name", ["secret", "nothing_of_the_kind", "bank.adult2"])
def test_of_other_tables_it_is_told_nothing(alice, name):
    """A table that the user has no limit on is as one that is not there; no other name is suggested."""
    with pytest.raises(psycopg.Error) as raised:
        alice.execute(f"SELECT * FROM {name}")
    assert "protected" not in str(raised.value)
    assert "Did you mean" not in str(raised.value)


def test_a_reader_is_told_nothing(served):
    with psycopg.connect(served.dsn("rita"), autocommit=True) as rita, pytest.raises(psycopg.errors.UndefinedTable):
        rita.execute("SELECT * FROM adult")


# --- what may be asked is seen ----------------------------------------------------------------------------------------

LISTED = {
    "pg_class": "SELECT relname FROM pg_catalog.pg_class",
    "pg_attribute": "SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid",
    "tables": "SELECT table_name FROM information_schema.tables",
    "columns": "SELECT table_name FROM information_schema.columns",
    "foreign": "SELECT c.relname FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid",
    "comments": "SELECT obj_description(oid, 'pg_class') FROM pg_class",
}


@pytest.mark.parametrize("listing", LISTED)
def test_who_may_ask_sees_the_table_in_the_catalogue_and_nobody_else_does(served, alice, listing):
    shown = {str(row[0]) for row in alice.execute(LISTED[listing])}
    assert any("asked" in text for text in shown)
    assert not any("secret" in text for text in shown)
    with psycopg.connect(served.dsn("rita"), autocommit=True) as rita:
        assert not any("asked" in str(row[0]) for row in rita.execute(LISTED[listing]))


def test_the_catalogue_says_what_is_declared_and_nothing_of_rows(alice):
    columns = alice.execute(
        "SELECT column_name, data_type, column_comment FROM information_schema.columns WHERE table_name = 'asked'"
    ).fetchall()
    assert columns == [("note", "text", "one of usual, rare"), ("size", "bigint", "from 0 to 4")]
    (table,) = alice.execute(
        "SELECT relkind, has_table_privilege(oid, 'SELECT'), has_table_privilege('main.asked', 'SELECT'), "
        "has_table_privilege('alice', 'shown', 'SELECT'), obj_description(oid), col_description(oid, 2) "
        "FROM pg_class WHERE relname = 'asked'"
    ).fetchall()
    assert table[:4] == ("f", False, False, True)
    assert "ask with dp_query('SELECT … FROM asked …', epsilon => 0.1)" in table[4]
    assert table[5] == "from 0 to 4"


def test_domains_are_listed_for_who_may_ask(served, alice):
    rows = alice.execute(
        'SELECT source, "column", kind, size, origin, undeclared, labels FROM dp_domains(%s)', ["asked"]
    ).fetchall()
    assert rows == [
        ("asked", "note", "values", 3, "declared", False, ["usual", "rare", "NULL"]),
        ("asked", "size", "bins", 6, "declared", False, ["0", "1", "2", "3", "4", "NULL"]),
    ]
    for table in ("secret", "shown", "nothing"):
        with pytest.raises(psycopg.Error, match="there is no table"):
            alice.execute("FROM dp_domains(%s)", [table])
    refused = pytest.raises(psycopg.errors.InsufficientPrivilege, match="role analyst")
    with psycopg.connect(served.dsn("rita"), autocommit=True) as rita, refused:
        rita.execute("FROM dp_domains('asked')")


@pytest.mark.parametrize("sql", [
    "FROM dpsql_protected.asked",
    "DESCRIBE dpsql_protected.asked",
    "SELECT * FROM memory.dpsql_protected.asked",
    "SUMMARIZE dpsql_protected.adult",
    "SELECT 'dpsql_protected.asked'::regclass::text FROM dpsql_protected.asked",
    "FROM dp_domains('asked', from_json => '{\"size\": {\"lower\": 0, \"upper\": 9}}')",
    "FROM dp_domains('asked', from_table => 'shown')",
    "FROM dp_domains('asked', as_json => true)",
])  # fmt: skip
def test_the_empty_tables_are_not_read_and_nothing_is_declared(alice, sql):
    before = alice.execute("FROM dp_domains('asked')").fetchall()
    with pytest.raises(psycopg.Error):
        alice.execute(sql)
    assert alice.execute("FROM dp_domains('asked')").fetchall() == before
