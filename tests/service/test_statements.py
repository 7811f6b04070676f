"""What programs send when they connect, browse and draw a first chart: a file for each, and every statement runs.

`-- columns:` names those that the program reads. A `?column?` and the like are PostgreSQL's own names.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpsql.service.relations import FILE, relations
from dpsql.service.server_settings import FILE as SETTINGS
from tests.service.postgres_catalogue import lines, setting_lines
from tests.service.recorded import statements as recorded

LOG = """
2026-11-27 19:41:39.271 UTC [12900] LOG:  statement: BEGIN
2026-11-27 19:41:39.289 UTC [12900] LOG:  execute _pg3_0: SELECT $1::text,
\t$2 -- which of them
2026-11-27 19:41:39.296 UTC [12900] DETAIL:  parameters: $1 = 'it''s $2', $2 = NULL
2026-11-27 19:41:39.296 UTC [12900] LOG:  statement: /* a program */ SELECT 1;
2026-11-27 19:41:39.299 UTC [12900] LOG:  statement: SELECT 1
"""
FOLDER = Path(__file__).with_name("statements")
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.sql"))
_NEWER = "-- wants DuckDB 2: "
_COLUMNS = re.compile(r"^-- columns: (.*)$", re.MULTILINE)


def statements(program: str) -> list[tuple[str, list[str]]]:
    text = (FOLDER / f"{program}.sql").read_text(encoding="utf-8")
    found = []
    for part in text.split("\n;\n"):
        columns = _COLUMNS.search(part)
        if columns and (_NEWER not in part or duckdb.__version__ >= "2"):
            found.append((part[columns.end() :].strip(), columns[1].split(", ")))
    return found


def test_there_is_a_file_for_each():
    assert set(PROGRAMS) == {
        *("datagrip", "dbeaver", "dbt", "grafana", "ibis", "metabase", "npgsql", "pgadmin", "superset", "tableau")
    }
    assert all(statements(program) for program in PROGRAMS)


def test_what_is_recorded_is_what_was_sent():
    assert recorded(LOG) == ["SELECT 'it''s $2'::text,\nNULL", "SELECT 1"]


@pytest.mark.medium
def test_every_view_and_table_of_postgresql_is_there(browsed):
    """With PostgreSQL's columns, in its order and before ours; no other name is taken for one."""
    for schema, spelled in (("pg_catalog", "pgx"), ("information_schema", "pgi")):
        for name, columns in relations()[spelled].items():
            described = browsed.execute(f"SELECT * FROM {schema}.{name} LIMIT 1").description
            assert [column.name for column in described][: len(columns)] == list(columns), name
    assert sum(len(names) for names in relations().values()) > 200
    with pytest.raises(psycopg.errors.UndefinedTable):
        browsed.execute("SELECT * FROM pg_catalog.pg_nothing")


@pytest.mark.medium
def test_the_files_are_what_postgresql_says(real):
    if real.info.server_version // 10_000 != 15:
        pytest.skip("the files are of PostgreSQL 15")
    assert FILE.read_text(encoding="utf-8").splitlines() == lines()
    assert SETTINGS.read_text(encoding="utf-8").splitlines() == setting_lines()


@pytest.mark.medium
@pytest.mark.client(
    "Npgsql (.NET, Power BI)", "8", "its first statements, from a file", "it was not started: no package of it is here"
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_program_sends_runs_and_gives_what_it_reads(browsed, program):
    wrong = []
    for sql, columns in statements(program):
        try:
            cursor = browsed.execute(sql)
            cursor.fetchall()
            names = [one.name.lower() for one in cursor.description]
        except psycopg.Error as error:
            wrong.append((sql[:200], str(error)[:300]))
        else:
            lacking = [name for name in columns if name.lower() not in names]
            wrong += [(sql[:200], f"lacks {lacking}, has {names}")] if lacking else []
    assert wrong == []
