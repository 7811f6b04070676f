"""A read of a released table always has its line in `dpsql audit show`; looks into the catalogue have none."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.service.audit_table import table
from dpsql.service.respell import respelled

NAMES = ["a", "b", "released"]


def has_line(statement: str) -> bool:
    event = {"event": "statement", "user": "ann", "statement": respelled(statement)}
    return table([event]) != "nothing was asked"


@pytest.mark.parametrize("statement", [
    "TABLE released",
    "SELECT r.* FROM released r, pg_class",
    "SELECT 1 AS dp_budget, * FROM released",
    "SELECT * FROM released -- pg_class",
    "WITH released AS (SELECT * FROM released) SELECT * FROM released",
    "WITH RECURSIVE released AS (SELECT i FROM released UNION ALL SELECT i FROM released) SELECT * FROM released",
    "SELECT * FROM released, (WITH released AS (SELECT 1) SELECT * FROM released)",
    "SELECT * FROM dp_query('SELECT 1', epsilon => 1), released",
    "SELECT (SELECT max(i) FROM released)",
    "SUMMARIZE released",
    "PIVOT released ON a USING sum(b)",
    'SELECT * FROM "pg_class"',
    "SELECT * FROM main.pg_class",
    "what is no statement",
])  # fmt: skip
def test_what_reads_a_table_has_a_line(statement):
    assert has_line(statement)


@pytest.mark.parametrize("statement", [
    "SELECT version()",
    "SHOW TABLES",
    "SELECT * FROM pg_catalog.pg_class",
    "WITH a AS (SELECT * FROM pg_class), b AS (FROM a) SELECT * FROM b JOIN information_schema.tables ON true",
    "WITH RECURSIVE a AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM a WHERE i < 3) FROM a",
    "FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1)",
])  # fmt: skip
def test_what_looks_into_the_catalogue_has_none(statement):
    assert not has_line(statement)


def test_what_programs_say_has_a_line_where_it_reads_a_table():
    from_shown = re.compile(r'\bfrom\s+("?\w+"?\.)*"?shown"?\b', re.IGNORECASE)
    for path in sorted((Path(__file__).parent / "statements").glob("*.sql")):
        for statement in filter(str.strip, re.split(r";\s*\n", path.read_text())):
            if not statement.lower().rstrip().splitlines()[-1].startswith("show"):
                assert has_line(statement) == bool(from_shown.search(statement)), statement


queries = st.recursive(
    st.sampled_from([*(f"SELECT 1 AS i FROM {name}" for name in NAMES), "SELECT 1 AS i FROM pgx.pg_class", "SELECT 1 AS i"]),
    lambda inner: st.one_of(
        st.builds("SELECT 1 AS i FROM ({}) q, {}".format, inner, st.sampled_from(NAMES)),
        st.builds("WITH {} AS ({}) SELECT 1 AS i FROM ({}) q".format, st.sampled_from(NAMES), inner, inner),
        st.builds("WITH {} AS ({}), {} AS ({}) FROM a".format, st.sampled_from(NAMES), inner, st.sampled_from(NAMES), inner),
        st.builds("WITH RECURSIVE a AS (({}) UNION ALL ({})) FROM a".format, inner, inner),
        st.builds("({}) UNION ALL ({})".format, inner, inner),
        st.builds("SELECT ({} LIMIT 1) AS i".format, inner),
    ),
    max_leaves=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def without_tables():
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA pgx; CREATE VIEW pgx.pg_class AS SELECT 1 AS oid")
        yield connection


@pytest.mark.medium
def test_what_lacks_a_table_reads_one_and_has_a_line(without_tables):
    """Where no table is there, DuckDB says of a statement that it reads one."""
    lacking = []

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(queries)
    def compare(query):
        try:
            without_tables.execute(f"EXPLAIN {query}")
        except duckdb.CatalogException:
            lacking.append(query)
            assert table([{"event": "statement", "user": "ann", "statement": query}]) != "nothing was asked"
        except duckdb.Error:  # it is none
            return

    compare()
    assert len(lacking) > 20
