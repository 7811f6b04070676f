"""The same text means the same here and at a real PostgreSQL: values, the order of NULLs, and the names of columns.

What still differs is a table of docs/how-to/serve.md.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import psycopg
import pytest

import dpsql
from dpsql.service.allowlist import AllowList

pytestmark = pytest.mark.medium
WHOLE = ["7", "-7", "2", "-2", "1000000007"]
VALUES = "(VALUES (1, 'a', 1.5), (2, NULL, 2.5), (NULL, 'b', NULL)) AS t(x, y, z)"
SAME_NAMES = [
    "SELECT count(*), max(x), sum(x)::int, min(y)::text FROM " + VALUES,
    "SELECT 1 + 1, 'a', NULL, true, 2::int, '1'::int, (1 + 1)::text, x::int, y::varchar FROM " + VALUES,
    "SELECT CASE WHEN x > 1 THEN 1 END, CASE WHEN x > 1 THEN 1 ELSE x END, coalesce(x, 0), nullif(x, 1) FROM " + VALUES,
    "SELECT (SELECT 1 AS k), (SELECT max(x) FROM " + VALUES + "), exists(SELECT 1), (SELECT 1), array[1, 2]",
    "SELECT x IS NULL, y LIKE 'a', NOT x > 1, x BETWEEN 1 AND 2, x IN (1, 2), -x, y || 'b' FROM " + VALUES,
    "SELECT substr(y, 0), substring(y, x), substring(y FROM 0 FOR 2), 1 # 2, interval '1 day' / 2, to_char(1, '9') FROM "
    + VALUES,
    "SELECT date '2020-01-01', interval '1 day', now() - now(), current_date, lower(y), abs(x) FROM " + VALUES,
    "SELECT *, count(*) OVER (), row_number() OVER (ORDER BY x), greatest(x, 1), least(x, 1) FROM " + VALUES,
    "SELECT extract(year FROM d), EXTRACT('second' FROM d), date_part('second', d), extract(ms FROM d) FROM (SELECT now() AS d) AS q",
    "SELECT *, 1 FROM (SELECT count(*), max(x), 5 AS five FROM " + VALUES + ") AS q",
    "SELECT count(*) FROM " + VALUES + " UNION ALL SELECT 5 AS other",
    "SELECT count(*), t.* FROM " + VALUES + " GROUP BY x, y, z",
    "SELECT count(*), *, x + 1 AS more FROM (SELECT x, z FROM "
    + VALUES
    + ") AS q(a, b) CROSS JOIN (SELECT 1 AS x) AS p GROUP BY a, b, x",
    "WITH c AS (SELECT x FROM "
    + VALUES
    + ") SELECT sum(x), avg(x)::float8, bool_and(x > 0), string_agg(x::text, ',') FROM c",
]
SAME_ROWS = [
    *(f"SELECT {a} / {b}, {a} % {b}, ({a})::bigint / {b}" for a, b in itertools.product(WHOLE, WHOLE)),
    "SELECT count(*) / 2, sum(x) / 2, 5 / 2.0, 5.0 / 2, 5 / 2::float8, x / 2 FROM " + VALUES + " GROUP BY x ORDER BY x",
    *(
        f"SELECT x, y FROM {VALUES} ORDER BY {key} {order}, 1, 2"
        for key, order in itertools.product(
            ("x", "y", "z", "x + 1"), ("", "ASC", "DESC", "DESC NULLS LAST", "NULLS FIRST")
        )
    ),
    *(
        f"SELECT x, row_number() OVER (ORDER BY x {order}), first_value(x) OVER (ORDER BY x {order}) FROM {VALUES} ORDER BY 2"
        for order in ("", "DESC")
    ),
    f"SELECT array_agg(x ORDER BY x), string_agg(y, ',' ORDER BY y DESC) FROM {VALUES}",
    "SELECT 'a_c' LIKE 'a\\_c', 'abc' LIKE 'a\\_c', 'a_c' ILIKE 'A\\_C', 'a%' NOT LIKE 'a#%' ESCAPE '#', 'a' LIKE 'a' || '\\_'",
    "SELECT timestamptz '2020-01-01 10:00:00.5+00'::time, to_timestamp(0)::time, '12:00'::time, time '10:00'::time, NULL::time",
    "SELECT timestamp '2020-01-01 10:00'::time, '2020-07-01 23:59:59.999999'::pg_catalog.time, now()::time < '24:00'",
    "SELECT '\\x00ff'::bytea, '\\x'::bytea, '\\xDEADBEEF'::bytea",
    "SELECT round(3.14159::numeric, 2), round('0.00012345'::numeric, 6), round(CAST('12.345' AS numeric), 1)",
    "SELECT CAST(timestamptz '2020-01-01 10:00:00.5+00' AS time), CAST('12:00' AS time), CAST(CAST('10:00' AS text) AS time)",
    "SELECT CAST('\\x00ff' AS bytea), CAST('{1,2}' AS int[]), (CAST(ARRAY[1, 2] AS int[]))[1], CAST( 1.5 AS int )AS a",
    "SELECT 1 = ANY(CAST('{1,2}' AS int[])), CAST('1' AS /* a comment */ pg_catalog.int4), -CAST(2 AS double precision)",
    "SELECT round(CAST(1.23456 AS decimal), 4), round('1.23456'::dec, 4), 1.25::decimal(5, 1), CAST(1.25 AS numeric(5, 1))",
    "SELECT '0.00012345'::numeric = 0.00012345, '123456789.123456789'::numeric > 123456789.123456788, 7::numeric / 2 = 3.5",
]


DIFFERENT = [
    ("round(0.5::float8)", "1", "0"),
    ("1e15::float8", "1000000000000000", "1e+15"),
    ("1234567::real", "1234567", "1.234567e+06"),
    ("6.1054334452873424e16::float8", "6.105433445287342e+16", "6.1054334452873424e+16"),
    ("'NaN'::float8::text", "nan", "NaN"),
    ("to_json(1::float8)", "1.0", "1"),
    ("extract(epoch FROM time '00:00:01')", "1", "1.000000"),
    ("extract(year FROM timestamp 'infinity')", "NULL", "Infinity"),
    ("1 / 3.0", "0.3333333333333333", "0.33333333333333333333"),
    ("(SELECT avg(x) FROM (VALUES (1), (2)) AS t(x))", "1.5", "1.5000000000000000"),
    ("CASE WHEN true THEN 1 ELSE 2.5 END", "1.0", "1"),
    ("timestamp '2020-01-01 10:00:00.1234567'", "2020-01-01 10:00:00.123456", "2020-01-01 10:00:00.123457"),
    ("date_trunc('century', timestamp '2019-05-05')", "2000-01-01 00:00:00", "2001-01-01 00:00:00"),
    ("upper('ß')", "ẞ", "ß"),
    ("'a '::bpchar = 'a'", "false", "true"),
    ("(1, NULL) IS NOT NULL", "true", "false"),
    ("row(1, 'a')", "(1, a)", "(1,a)"),
    ("'{\"a\": 1.50}'::json ->> 'a'", "1.5", "1.50"),
    ("'\\xdead'::bytea::text", "\\xDE\\xAD", "\\xdead"),
    ("'pg_class'::regclass", "1259", "pg_class"),
    ("(1, NULL) = (1, NULL)", "true", "NULL"),
    ("1.10::numeric::text", "1.1000000000", "1.10"),
    ("1.0::float8::text", "1.0", "1"),
    ("array[1, 2]::text", "[1, 2]", "{1,2}"),
    ("array[[1, 2], [3, 4]]", "[[1, 2], [3, 4]]", "{{1,2},{3,4}}"),
    ('\'{"b": 1, "a": 2}\'::jsonb', '{"b": 1, "a": 2}', '{"a": 2, "b": 1}'),
    ("jsonb_build_array(1, 2)", "[1,2]", "[1, 2]"),
    ("'{\"a\": 1, \"a\": 2}'::jsonb -> 'a'", "1", "2"),
    ("(SELECT a || a FROM (SELECT '{}'::jsonb AS a) AS t)", "{}{}", "{}"),
    ("regexp_match('ab', 'a?(?:ab)?')", "{a}", "{ab}"),
    ("regexp_replace('foobar', 'foo|foobar', 'X')", "Xbar", "X"),
    ("concat(true, 'x')", "truex", "tx"),
    (
        "(SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (22.0), (22.02)) AS t(x))",
        "22.01",
        "22.009999999999998",
    ),
    ("date_trunc('quarter', date '2020-05-05')", "2020-04-01 00:00:00", "2020-04-01 00:00:00+00"),
]
"""What is another value: a table of docs/how-to/serve.md shows each."""
REFUSED = [
    "(interval '1 day') / 2",
    "to_char(1, '9th')",
    "to_char(1, 'L9')",
    "to_char(interval '1 day', 'DD')",
    "'a' SIMILAR TO lower('A')",
    "regexp_match('aab', 'a+b+?')",
    "regexp_count('ab', 'c*')",
    "'a' ~ '\\bb'",
    "jsonb_path_match('{\"a\": 1}', '$.a == 1')",
    "jsonb_path_exists('[1]', '$.size()')",
    "jsonb_insert('[1]', '{0}', '2')",
    "(now() - now()) / 2",
    "(SELECT sum(x) FROM (VALUES (interval '1 day')) AS t(x))",
    "(SELECT array[1] || x FROM (VALUES (2)) AS t(x))",
    "to_char(timestamp '2020-01-01', 'DDth')",
    "to_char(12345.6, '9.99EEEE')",
    "'{\"a\": 1}'::json -> 'a' IS NULL",
    "1 + 2 # 3",
    "substring('b' FROM '(a)?b')",
    "sha256('\\x41')",
    "array_upper(array[1, 2], 2)",
    "'x' || 'abc'::char(5)",
    "'10:00:00.5+00'::timetz(0)",
    "'101'::bit(2)",
    "interval '1:30' hour to minute",
    "(now() - now())::interval hour",
]
SAME_TEXTS = Path(__file__).with_name("dialect.sql").read_text(encoding="utf-8").splitlines()[1:]
ANALYSTS = Path(__file__).with_name("analyst.sql").read_text(encoding="utf-8").splitlines()[1:]
WIDER = {
    (20, 23), (20, 1700), (21, 23), (21, 1700), (1700, 20), (701, 1700), (700, 701), (1016, 1007), (114, 3802),
    (25, 19), (25, 1043), (25, 2206), (23, 26),
}  # fmt: skip
"""Numbers of types here and at PostgreSQL that the page says: wider numbers, json for jsonb, text for names."""
LENIENT = ["'1.5'::int", "'1_000'::int", "CASE WHEN true THEN 1 ELSE 'a' END"]
"""What is refused there and has a value here, which the page says."""
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"


CAST = {
    "'7'": ["int", "int2", "int4", "int8", "integer", "bigint", "smallint", "oid", "pg_catalog.int4", "numeric(5, 2)"],
    "'2.50'": ["decimal(5, 2)", "dec(4, 1)", "real", "float4", "float8", "double precision", "float", "numeric(3)"],
    "'true'": ["bool", "boolean", "text", "varchar", "name", "bpchar", "character varying", "pg_catalog.text"],
    "'2020-01-01 10:00:00.5'": [
        *("date", "time", "time without time zone", "timestamp", "timestamptz", "timestamp with time zone"),
        *("timestamp without time zone", "pg_catalog.timestamptz", "text"),
    ],
    "'1 day'": ["interval", "pg_catalog.interval"],
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'": ["uuid"],
    "'\\x00ff'": ["bytea", "pg_catalog.bytea"],
    "'{\"a\": 1}'": ["json"],
}
"""A text, and types that it is cast to."""


def rows_and_names(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall(), [column.name for column in cursor.description]


@pytest.fixture(scope="module")
def ours(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("sql", SAME_NAMES)
def test_columns_are_called_as_there(ours, real, sql):
    assert rows_and_names(ours, sql)[1] == rows_and_names(real, sql)[1]


@pytest.mark.parametrize("sql", SAME_ROWS)
def test_values_are_those_of_there(ours, real, sql):
    assert rows_and_names(ours, sql)[0] == rows_and_names(real, sql)[0]


def test_texts_are_those_of_there(ours, real):
    assert len(SAME_TEXTS) > 140
    assert [line for line in both_texts(ours, real, SAME_TEXTS) if line[1] != line[2]] == []


def both_texts(ours, real, statements):
    """Each statement with its texts here and there, but what DuckDB 1.5, which has fewer functions, refuses."""
    for sql in statements:
        got, expected = (texts(connection, sql) for connection in (ours, real))
        if duckdb.__version__ >= "2" or not isinstance(got, bytes):
            yield sql, got, expected


def test_what_an_analyst_sends_has_the_values_the_names_and_the_types_of_there(ours, real):
    assert len(ANALYSTS) > 160
    differ = []
    for sql, got, expected in both_texts(ours, real, ANALYSTS):
        if got != expected:
            differ.append((sql, got, expected))
        else:
            pairs = zip(columns(ours, sql), columns(real, sql), strict=True)
            differ += [(sql, a, b) for a, b in pairs if a[0] != b[0] or (a[1] != b[1] and (a[1], b[1]) not in WIDER)]
    assert differ == []


def columns(connection, sql):
    """The name and the type of each."""
    result = connection.pgconn.exec_(sql.encode())
    return [(result.fname(place), result.ftype(place)) for place in range(result.nfields)]


@pytest.mark.parametrize(("text", "name"), [(text, name) for text, names in CAST.items() for name in names])
def test_both_casts_are_those_of_there(ours, real, text, name):
    there = shown(real, f"{text}::{name}")
    assert [shown(ours, f"{text}::{name}"), shown(ours, f"CAST({text} AS {name})")] == [there, there]


@pytest.mark.parametrize(
    "sql", ["SELECT 1 / 0", "SELECT 1.5 / 0", "SELECT 1 / 0.0::float8", "SELECT x % 0 FROM " + VALUES]
)
def test_a_division_by_zero_is_no_number(ours, real, sql):
    """An error there and with DuckDB 2; with DuckDB 1.5 it is NULL, and never an infinity."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        real.execute(sql)
    if duckdb.__version__ < "2":
        assert {row[0] for row in ours.execute(sql)} == {None}
        return
    with pytest.raises(psycopg.errors.DivisionByZero):
        ours.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1" + "::int" * 400,
        "SELECT " + "(SELECT " * 60 + "1" + ")" * 60,
        "SELECT * FROM (" * 60 + "SELECT 1" + ")" * 60,
    ],
)
def test_a_statement_that_is_deep_is_served_as_before(sql):
    assert AllowList(titled=True).check(sql).sql == AllowList().check(sql).sql


def texts(connection, sql):
    """All values of a statement, as the client gets them in text."""
    found = connection.pgconn.exec_(sql.encode())
    if found.status != psycopg.pq.ExecStatus.TUPLES_OK:
        return found.error_message
    return [[found.get_value(row, column) for column in range(found.nfields)] for row in range(found.ntuples)]


def shown(connection, expression):
    """As the client gets it in text."""
    (value,) = (connection.pgconn.exec_(f"SELECT {expression}".encode()),)
    assert value.status == psycopg.pq.ExecStatus.TUPLES_OK, value.error_message
    found = value.get_value(0, 0)
    return "NULL" if found is None else {"t": "true", "f": "false"}.get(found.decode(), found.decode())


@pytest.mark.parametrize(("expression", "here", "there"), DIFFERENT)
def test_what_differs_is_on_the_page(ours, real, expression, here, there):
    assert shown(ours, expression) == here
    assert shown(real, expression) == there
    shown_there = expression.replace("|", "\\|")  # a line is the end of a cell
    assert f"| `{shown_there}` | {here} | {there} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("expression", LENIENT)
def test_what_has_a_value_here_alone_is_on_the_page(ours, real, expression):
    ours.execute(f"SELECT {expression}")
    with pytest.raises(psycopg.Error):
        real.execute(f"SELECT {expression}")
    assert f"`{expression}`" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_is_on_the_page(ours, real, expression):
    real.execute(f"SELECT {expression}")
    with pytest.raises(psycopg.Error):
        ours.execute(f"SELECT {expression}")
    assert f"`{expression}`" in PAGE.read_text(encoding="utf-8")


def test_a_query_of_dp_query_means_the_same_at_every_door(ours):
    """Its text is DuckDB's: there a quotient of whole numbers is none."""
    query = "SELECT 5 / 2 AS half, count(*) AS n FROM {} GROUP BY half"
    (here,) = ours.execute("SELECT half FROM dp_query(%s, epsilon => 0.01)", [query.format("adult")]).fetchall()
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 1 AS a")
        db.protect("t", epsilon=1.0, delta=1e-9)
        assert db.query(query.format("t"), epsilon=0.01).half[0] == here[0] == 2.5
