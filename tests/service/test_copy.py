"""COPY … TO STDOUT: every option of PostgreSQL's grammar, byte for byte as a real PostgreSQL sends it."""

from __future__ import annotations

import asyncio
import io
import struct

import duckdb
import psycopg
import pytest

from tests.service.test_values import VALUES, duckdbs, postgres_own
from tests.service.test_wire import raw, raw_session, read

pytestmark = pytest.mark.medium
ROWS = """
    SELECT a, b, c AS "C, d" FROM (VALUES (1, 'x', 'plain'), (2, 'it''s "q", {y}', 'tab' || chr(9) || 'line' || chr(10)),
    (3, NULL, ''), (4, 'null', 'NULL'), (5, '\\N', 'back\\slash'), (6, ';|', 'a;b|c'), (7, '''', '~x~'), (8, '\\.', chr(13))
    ) v(a, b, c)
"""
OPTIONS = [
    "",
    "WITH (FORMAT csv)",
    "(FORMAT 'csv', HEADER True)",
    '(FORMAT "csv", HEADER false)',
    "(format Csv, header on, delimiter ';', null 'NULL')",
    "(FORMAT csv, HEADER 1, FORCE_QUOTE *)",
    "(FORMAT csv, FORCE_QUOTE (b, \"C, d\"), NULL 'x')",
    "(FORMAT csv, QUOTE '''')",
    "(FORMAT csv, QUOTE '~', ESCAPE '\\')",
    "(FORMAT csv, ESCAPE E'\\\\', DELIMITER E'\\t')",
    "(FORMAT text, HEADER)",
    "(DELIMITER '|', NULL '')",
    "(DELIMITER ';', HEADER off, ENCODING 'UTF8')",
    "(FREEZE off)",
    "CSV HEADER",
    "WITH CSV HEADER DELIMITER AS ';' NULL AS 'none' QUOTE '~' ESCAPE AS '!' FORCE QUOTE b, c",
    "DELIMITER '|' NULL 'x'",
    "CSV FORCE QUOTE *",
    "(FORMAT binary)",
    "(FORMAT 'binary')",
    "WITH BINARY",
]
REFUSED = [
    "(FORMAT xml)",
    "(FORMAT csv, FORMAT csv)",
    "(HEADER maybe)",
    "(DELIMITER 'ab')",
    "(DELIMITER '')",
    "(DELIMITER E'\\n')",
    "(DELIMITER 'a')",
    "(NULL E'\\r')",
    "(DELIMITER 'ü')",
    "(QUOTE '~')",
    "(FORMAT csv, QUOTE 'ab')",
    "(FORMAT csv, QUOTE ',')",
    "(FORMAT csv, NULL 'a,b')",
    "(FORMAT csv, NULL '\"')",
    "(FORCE_QUOTE *)",
    "(FORMAT csv, FORCE_QUOTE (nope))",
    "(FORMAT csv, FORCE_NOT_NULL (b))",
    "(FORMAT binary, HEADER)",
    "(FORMAT binary, NULL '')",
    "(ENCODING 'nope')",
    "(NOPE 1)",
    "()",
    "(FORMAT csv",
    "NOPE",
]


def copied(connection, sql: str) -> list[bytes]:
    """The messages."""
    with connection.cursor().copy(sql) as copy:
        return [bytes(part) for part in copy]


@pytest.fixture(scope="module")
def ours(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_postgres_own(ours, real, options):
    rows = ROWS.replace('"C, d"', "c") if "FORCE QUOTE b" in options else ROWS
    for query in (rows, f"SELECT b FROM ({rows}) q WHERE a = 8", "SELECT 1 AS x WHERE false"):
        if "FORCE" in options and query != rows and "*" not in options:
            continue
        sql = f"COPY ({query}) TO STDOUT {options}"
        assert copied(ours, sql) == copied(real, sql)


@pytest.mark.parametrize("options", REFUSED)
def test_what_postgres_refuses_is_refused(ours, real, options):
    for connection in (ours, real):
        with pytest.raises(psycopg.Error):
            copied(connection, f"COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT {options}")
    assert ours.execute("SELECT 1").fetchone() == (1,)


def test_binary_has_every_type(ours, real):
    for kind, (postgres, values) in VALUES.items():
        sql = [
            "COPY (SELECT {} AS x) TO STDOUT (FORMAT binary)".format(" AS x UNION ALL SELECT ".join(found))
            for found in (
                [*(duckdbs(kind, one) for one in values), f"NULL::{kind}"],
                [*(postgres_own(postgres, one) for one in values), f"NULL::{postgres}"],
            )
        ]
        assert copied(ours, sql[0]) == copied(real, sql[1]), kind


def test_binary_has_many_rows(ours):
    sql = "SELECT i, x, s, t, l FROM shown ORDER BY i"
    with ours.cursor().copy(f"COPY ({sql}) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int8", "numeric", "text", "timestamp", "int8[]"])
        rows = [*copy.rows()]
    assert rows == ours.execute(sql).fetchall()


def test_asyncpg_copies(served):
    asyncpg = pytest.importorskip("asyncpg")

    async def talk():
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=served.service.port,
            user="alice",
            password=served.tokens["alice"],
            ssl="require",
            database="dpsql",
        )
        for options, expected in (
            ({"format": "csv", "header": True}, b"i,s\n7,x\n"),
            ({"format": "csv", "force_quote": True, "delimiter": ";"}, b'"7";"x"\n'),
            ({"format": "csv", "force_quote": ["s"], "quote": "~", "null": "?"}, b"7,~x~\n"),
            ({}, b"7\tx\n"),
        ):
            out = io.BytesIO()
            done = await connection.copy_from_query("SELECT i, 'x' AS s FROM shown WHERE i = 7", output=out, **options)
            assert (done, out.getvalue()) == ("COPY 1", expected)
        out = io.BytesIO()
        sql, sent = ("SELECT i, d, small FROM shown WHERE i = $1", [3])
        if duckdb.__version__ < "2":  # 1.5 infers no type of a macro's argument, which asyncpg asks for
            sql, sent = sql.replace("$1", "3"), []
        assert await connection.copy_from_query(sql, *sent, output=out, format="binary") == "COPY 1"
        assert out.getvalue().startswith(b"PGCOPY\n\xff\r\n\0")
        await connection.close()

    asyncio.run(talk())


def test_copies_are_counted_and_charged_once(ours):
    asks = "SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult GROUP BY sex', epsilon => 0.1, release => 'copied')"
    spent = "SELECT epsilon_spent FROM dp_budget()"
    before = ours.execute(spent).fetchall()
    first = copied(ours, f"COPY ({asks}) TO STDOUT (FORMAT binary)")
    after = ours.execute(spent).fetchall()
    assert after > before
    assert copied(ours, f"COPY ({asks}) TO STDOUT (FORMAT 'binary')") == first
    assert ours.execute(spent).fetchall() == after


@pytest.mark.parametrize(
    ("version", "more"), [(196608 + 2, b""), (196608, b"_pq_.x\0y\0"), (196608 + 9, b"_pq_.x\0y\0")]
)
def test_the_version_is_negotiated(served, version, more):
    """libpq 18 asks for 3.2 and sends `_pq_` parameters: the answer names the version that is spoken, 3.0."""
    with raw(served, tls=True) as connection:
        body = struct.pack("!i", version) + b"user\0alice\0" + more + b"\0"
        connection.sendall(struct.pack("!i", len(body) + 4) + body)
        kind, answer = read(connection)
        names = [b"_pq_.x"] if more else []
        assert kind == b"v"
        assert answer == struct.pack("!ii", 196608, len(names)) + b"".join(name + b"\0" for name in names)
        assert read(connection)[0] == b"R"
    with raw_session(served) as session:
        session.sendall(b"X\0\0\0\4")
