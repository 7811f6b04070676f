"""A published table with every type that DuckDB has: text and binary agree, in lists and for NULL, too."""

from __future__ import annotations

import asyncio

import duckdb
import psycopg
import pytest

from tests.service.conftest import browsing

pytestmark = pytest.mark.medium
MOOD = "CREATE TYPE mood AS ENUM ('sad', 'ok');"
HUGE, LARGEST = 2**127, 2**128 - 1
VALUES = {
    "ARRAY": ["[1, 2]::INTEGER[2]", "['a', 'NULL']::VARCHAR[2]"],
    "BIGINT": ["'-9223372036854775808'::BIGINT"],
    "BIGNUM": [f"'{'9' * 60}'::BIGNUM", f"'-{'9' * 60}'::BIGNUM"],
    "BIT": ["'0101'::BIT", "'1'::BIT"],
    "BLOB": ["'\\x00\\xFF'::BLOB"],
    "BOOLEAN": ["true"],
    "DATE": ["DATE '9999-12-31'", "DATE '2020-02-29'"],
    "DECIMAL": [f"'{'9' * 38}'::DECIMAL(38, 0)", "0.05::DECIMAL(2, 2)"],
    "DOUBLE": ["'nan'::DOUBLE", "5e-324::DOUBLE"],
    "ENUM": ["'ok'::mood"],
    "FLOAT": ["'-inf'::FLOAT", "0.5::FLOAT"],
    "GEOMETRY": ["'POINT (1 2)'::GEOMETRY"],
    "HUGEINT": [f"'{-HUGE}'::HUGEINT", f"'{HUGE - 1}'::HUGEINT"],
    "INTEGER": ["'-2147483648'::INTEGER"],
    "INTERVAL": ["INTERVAL '1 month -2 days'"],
    "LIST": ["[[1], [2, NULL]]", "[{'a': 'x, y'}]", "[MAP {'a': 1}]", "[]::VARCHAR[]"],
    "MAP": ["MAP {'a': 1, 'b, c': NULL}"],
    "SMALLINT": ["'-32768'::SMALLINT"],
    "STRUCT": ["{'a': 1, 'b': 'it''s, {x}', 'c': NULL::DATE}"],
    "TIME": ["'23:59:59.999999'::TIME"],
    "TIME WITH TIME ZONE": ["'10:00:00.5+02:30'::TIMETZ"],
    "TIMESTAMP": ["'0001-01-01'::TIMESTAMP"],
    "TIMESTAMP WITH TIME ZONE": ["'2020-01-01 10:00:00.123456+00'::TIMESTAMPTZ"],
    "TIMESTAMPTZ_NS": ["'2020-01-01 10:00:00.123456789+00'::TIMESTAMPTZ_NS"],
    "TIMESTAMP_MS": ["'2020-01-01 10:00:00.123'::TIMESTAMP_MS"],
    "TIMESTAMP_NS": ["'2020-01-01 10:00:00.123456789'::TIMESTAMP_NS", "'1677-09-22 00:00:00'::TIMESTAMP_NS"],
    "TIMESTAMP_S": ["'9999-12-31'::TIMESTAMP_S", "'2020-01-01'::TIMESTAMP_S"],
    "TIME_NS": ["'10:00:00.123456789'::TIME_NS"],
    "TINYINT": ["'-128'::TINYINT"],
    "TUPLE": ["(1, 'a')::TUPLE(INTEGER, VARCHAR)"],
    "UBIGINT": ["18446744073709551615::UBIGINT"],
    "UHUGEINT": [f"'{LARGEST}'::UHUGEINT"],
    "UINTEGER": ["4294967295::UINTEGER"],
    "UNION": ["union_value(n := 5)", "{'u': union_value(n := 'x')}"],
    "USMALLINT": ["65535::USMALLINT"],
    "UTINYINT": ["255::UTINYINT"],
    "UUID": ["'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID"],
    "VARCHAR": ["'ü\"😀 '", "''", "'NULL'", "'{\"a\": [1, null]}'::JSON"],
    "VARIANT": ["'5'::VARIANT"],
}
"""By logical type; those that Python cannot hold are in `test_values`."""
IN_NO_TABLE = {"NULL": "NULL", "TYPE": "get_type(1)"}
"""Types of expressions that no column of a table has."""


ODD = "MAP {'}': '10:00:00+15:59:59'::TIMETZ}"
TABS = "{'a': [chr(9)]}"
"""DuckDB 1.5 does not read the text of the first again, and loses the tab of the second."""


def is_there(expression):
    """Whether a file of this DuckDB holds it: 1.5 stores no VARIANT in files of the version that it writes."""
    return not ("VARIANT" in expression and duckdb.__version__ < "2")


def names_of_types():
    with duckdb.connect() as connection:
        own = "SELECT DISTINCT logical_type FROM duckdb_types() WHERE database_name = 'system' OR internal"
        return {row[0] for row in connection.execute(own).fetchall()}


def columns():
    """Each value alone, and in a list with NULL, by the name of its column."""
    found = [expression for expressions in VALUES.values() for expression in expressions]
    with duckdb.connect() as connection:
        connection.execute(MOOD)
        kinds = names_of_types()
        made = {}
        for kind, expressions in VALUES.items():
            for expression in expressions if kind in kinds and all(map(is_there, expressions)) else ():
                number = found.index(expression)
                made[f"v{number}"] = expression
                made[f"l{number}"] = f"[{expression}, NULL]"
        texts = ", ".join(f"CAST({expression} AS VARCHAR)" for expression in made.values())
        return made, dict(zip(made, connection.execute(f"SELECT {texts}").fetchall()[0], strict=True))


def test_every_type_of_duckdb_is_here():
    assert names_of_types() <= {*VALUES, *IN_NO_TABLE}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    shown = ", ".join(f"{expression} AS {name}" for name, expression in columns()[0].items())
    table = f"{MOOD} CREATE TABLE shown AS SELECT {shown}; INSERT INTO shown DEFAULT VALUES"
    with browsing(tmp_path_factory.mktemp("typed"), table) as found:
        yield found


def differ(one, other):
    return repr(one) != repr(other)


def test_text_and_binary_agree(typed):
    made, texts = columns()
    with psycopg.connect(typed.dsn(), autocommit=True) as connection:
        for name, expression in made.items():
            sql = f"SELECT {name} FROM shown ORDER BY {name} IS NULL"
            read = [connection.execute(sql, binary=binary) for binary in (False, True)]
            oids = [cursor.description[0].type_code for cursor in read]
            rows = [cursor.fetchall() for cursor in read]
            assert not differ(rows[0], rows[1]), expression
            assert oids[0] == oids[1], expression
            assert rows[0][1] == (None,), expression
            if oids[0] == 25:
                assert rows[0][0] == (texts[name],), expression


def test_asyncpg_has_the_same(typed):
    asyncpg = pytest.importorskip("asyncpg")

    async def read():
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=typed.service.port,
            user="alice",
            password=typed.tokens["alice"],
            ssl="require",
            database="dpsql",
        )
        made, texts = columns()
        for name, expression in made.items():
            value = await connection.fetchval(f"SELECT {name} FROM shown ORDER BY {name} IS NULL")
            text = await connection.fetchval(f"SELECT {name}::text FROM shown ORDER BY {name} IS NULL")
            assert text == texts[name], expression
            assert (value == text) == (type(value) is str), expression
        await connection.close()

    asyncio.run(read())


def test_what_went_comes_back(typed):
    """A parameter of a type that PostgreSQL has not is a text that is cast; what cannot be cast is refused."""
    made, texts = columns()
    with duckdb.connect() as local, psycopg.connect(typed.dsn(), autocommit=True) as connection:
        local.execute(MOOD)
        came = 0
        for name, expression in made.items():
            kind = local.execute(f"SELECT typeof({expression})").fetchall()[0][0]
            for form in ("%t", "%b"):
                try:
                    (text,) = connection.execute(f"SELECT ({form}::{kind})::text", [texts[name]]).fetchone()
                except psycopg.Error as error:
                    assert error.sqlstate != "XX000", expression
                    continue
                came += 1
                assert text == texts[name], expression
        assert came > 100


def test_a_value_that_cannot_be_read_again_keeps_nobody_out(tmp_path):
    table = f"CREATE TABLE shown AS SELECT {ODD} AS odd, {TABS} AS tabs"
    with duckdb.connect() as local:
        there = local.execute(f"SELECT ({ODD})::VARCHAR, ({TABS})::VARCHAR").fetchall()
    with browsing(tmp_path, table) as found, psycopg.connect(found.dsn(), autocommit=True) as connection:
        assert connection.execute("SELECT odd::text, tabs::text FROM shown").fetchall() == there
