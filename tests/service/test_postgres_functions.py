"""Functions of PostgreSQL's that DuckDB has not, or has with another meaning: the same value, or an error."""

from __future__ import annotations

import contextlib
import itertools
import re
from datetime import datetime
from decimal import Decimal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.functions import VALUES
from dpsql.service import catalogue
from dpsql.service.allowed import FUNCTIONS
from dpsql.service.allowlist import AllowList, NotAllowed
from dpsql.service.copies import Macros
from dpsql.service.from_postgres import prepared
from dpsql.service.parse_tree import open_parser
from dpsql.service.respell import respelled
from dpsql.service.served import functions_served
from dpsql.service.tokens import tokens
from tests.service.beside_postgres import compare

texts = st.text(alphabet="aB1_ .,\"'%sIL\u00e9$", max_size=8)
parts = """
    YYYY MM DD HH24 HH12 HH MI SS US MS DDD YYY YY Y IYYY IYY IY I IW WW W Q ID D SSSS SSSSS AM pm Month MONTH month Mon MON
    mon Day DAY day Dy DY dy yyyy mm dd hh24 mi FM J TH B
""".split()  # noqa: SIM905
patterns = st.lists(st.sampled_from([*parts, "FM", "-", ":", " ", "/", '"Qx "', "é"]), max_size=6)
lengths = st.one_of(st.integers(-2, 12), st.none(), st.just(1000))
lists = st.lists(st.one_of(st.integers(0, 2), st.none()), max_size=5)
hundredths = st.integers(-200, 200).map(lambda one: Decimal(one) / 100)
counts = st.one_of(st.integers(-1, 100), st.none())
CALLS = {
    "quote_ident(%s)": st.tuples(texts),
    "parse_ident(%s)": st.tuples(texts),
    "string_to_array(%s, %s)": st.tuples(texts, st.one_of(texts, st.none())),
    "format(%s, %s)": st.tuples(texts, st.one_of(texts, st.none())),
    "format(%s, %s, %s)": st.tuples(texts, texts, texts),
    "to_char(%s::timestamp, %s)": st.tuples(
        st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(str), patterns.map("".join)
    ),
    "width_bucket(%s::numeric, %s::numeric, %s::numeric, %s)": st.tuples(*[hundredths] * 3, counts),
    "width_bucket(%s::float8, %s::float8, %s::float8, %s)": st.tuples(*[hundredths.map(float)] * 3, counts),
    "width_bucket(%s::int, %s::int, %s::int, %s)": st.tuples(*[st.integers(-20, 20)] * 3, counts),
    "width_bucket(%s::numeric, %s::numeric[])": st.tuples(
        hundredths, st.lists(st.one_of(hundredths, st.just(Decimal(0))), max_size=5).map(sorted)
    ),
    "lpad(%s, %s)": st.tuples(texts, lengths),
    "rpad(%s, %s, %s)": st.tuples(texts, lengths, texts),
    "lpad(%s, %s, %s)": st.tuples(texts, lengths, texts),
    "repeat(%s, %s)": st.tuples(texts, lengths),
    "initcap(%s)": st.tuples(texts),
    "octet_length(%s)": st.tuples(texts),
    "octet_length(%s::bytea)": st.tuples(st.binary(max_size=9)),
    "encode(%s::bytea, %s)": st.tuples(st.binary(max_size=60), st.sampled_from(["hex", "base64", "HEX", "x"])),
    "decode(encode(%s::bytea, 'base64'), 'base64')": st.tuples(st.binary(max_size=57)),
    "array_replace(%s::int[], %s::int, %s::int)": st.tuples(lists, *[st.one_of(st.integers(0, 2), st.none())] * 2),
    "array_positions(%s::int[], %s::int)": st.tuples(lists, st.one_of(st.integers(0, 2), st.none())),
    "trim_array(%s::int[], %s)": st.tuples(lists, st.integers(-1, 6)),
    "num_nulls(%s::int, %s::int, %s::int)": st.tuples(*[st.one_of(st.integers(0, 2), st.none())] * 3),
    "num_nonnulls(%s::int, %s::int)": st.tuples(*[st.one_of(st.integers(0, 2), st.none())] * 2),
    "make_interval(months => %s, days => %s, secs => %s)": st.tuples(
        st.integers(-20, 20), st.integers(-40, 40), st.integers(-200, 200).map(lambda one: one / 4)
    ),
    "to_date(%s, 'YYYY-MM-DD')": st.tuples(st.dates().map(str)),
    "to_timestamp(%s, 'YYYY-MM-DD HH24:MI:SS')": st.tuples(st.datetimes().map(lambda one: str(one)[:19])),
    "date_bin(%s::interval, %s::timestamp, '2001-01-01'::timestamp)": st.tuples(
        st.sampled_from(["15 minutes", "1 day", "7 hours", "1 month"]),
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(str),
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS)
def test_a_value_is_postgresqls_or_refused(browsed, real, call):
    compare(browsed, real, call, CALLS[call], 25)


def test_calls_in_one_another_are_bounded():
    """DuckDB writes out a macro's text for each call: it has its argument often, so some in one another fill the memory."""
    allowed, macros = AllowList(), Macros(catalogue.TEXTS, frozenset({"pgx", "pgi"}), open_parser())
    assert macros.written("format", ours=True).copies > 8
    allowed.check(respelled("SELECT format('%s', quote_ident('a'))"))
    names = [(True, name) for name in catalogue.FUNCTIONS] + [(False, name) for name in FUNCTIONS if name.islower()]
    refused = set()
    for ours, name in sorted(names):
        if macros.written(name, ours=ours).copies > 1:
            more = {"format": ", 'a'", "nullif": ", 'a'", "split_part": ", 'a', 1"}.get(name, "")
            deep = "'a'"
            for _ in range(30):
                deep = f"{name}({deep}{more})"
            with pytest.raises(NotAllowed):
                allowed.check(respelled(f"SELECT {deep}"))
            refused.add(name)
    assert refused > {"format", "quote_ident", "nullif", "split_part", "map_to_pg_oid"}


def test_the_type_of_a_type_takes_no_time(made):
    """A CASE of a value has the value once for each arm: so it took minutes, in which nothing stops DuckDB."""
    nested = "1"
    for _ in range(4):
        nested = f"pgx.pg_typeof({nested})"
    plan = made.execute(f"EXPLAIN (FORMAT JSON) SELECT {nested}").fetchall()[0][1]
    assert len(plan) < 50_000
    rows = made.execute(
        "SELECT pgx.pg_typeof(1), pgx.pg_typeof([1]), pgx.pg_typeof(1.5), pgx.pg_typeof([1.5]), pgx.pg_typeof({'a': 1}), "
        "pgx.pg_typeof([1, 2]::INTEGER[2]), pgx.pg_typeof([[1]]), pgx.current_setting('Server_Version'), "
        "pgx.current_setting('no', true), pgx.type_oid('what[]'), pgx.type_oid(NULL)"
    ).fetchall()
    assert rows == [
        ("integer", "integer[]", "numeric", "numeric[]", "text", "integer[]", "text", "14.0 (dpsql)", None, 1009, 25)
    ]


@pytest.fixture(scope="module")
def made():
    with duckdb.connect(config={"threads": "1"}) as connection:
        catalogue.make(connection, functions_served())
        yield connection


KINDS = ["VARCHAR", "INTEGER", "VARCHAR[]", "BOOLEAN", "TIMESTAMP", "INTERVAL"]


def measured(connection, name, kinds, place) -> int:
    """How often a plan that DuckDB has not optimized has an argument."""
    arguments = [f"NULL::{kind}" for kind in kinds]
    arguments[place] = f"(SELECT NULL::{kinds[place]} FROM range(3))"
    plan = connection.execute(f"EXPLAIN (FORMAT JSON) SELECT {name}({', '.join(arguments)})").fetchall()[0][1]
    return len(re.findall(r'"name": "RANGE ?"', plan))


@pytest.mark.medium
def test_as_often_as_it_is_counted_duckdb_writes_an_argument(made):
    macros = Macros(catalogue.TEXTS, frozenset({"pgx", "pgi"}), open_parser())
    made.execute("PRAGMA disable_optimizer")
    forms = made.execute(
        "SELECT schema_name, function_name, parameters FROM duckdb_functions() WHERE function_type = 'macro' AND "
        "(schema_name IN ('pgx', 'pgi') OR function_name IN ('nullif', 'split_part', 'map_to_pg_oid', 'format_pg_type'))"
    ).fetchall()
    most = {}
    for schema, name, parameters in forms:
        for place in range(len(parameters)):
            several = itertools.product(KINDS, repeat=len(parameters)) if len(parameters) < 4 else [["VARCHAR"] * 9]
            for kinds in several:
                with contextlib.suppress(duckdb.Error):
                    count = measured(made, f"{schema}.{name}", list(kinds)[: len(parameters)], place)
                    most[schema, name] = max(most.get((schema, name), 0), count)
                    break
    counted = {
        key: macros.written(key[1], ours=key[0].startswith("pg") and key[0] != "pg_catalog").copies for key in most
    }
    assert {key: (most[key], counted[key]) for key in most if most[key] > counted[key]} == {}
    assert most["pgx", "format"] == counted["pgx", "format"] == 20
    assert most["pgx", "to_regclass"] == counted["pgx", "to_regclass"] == 3
    assert len(most) > 60


OF_BOTH = sorted((catalogue.FUNCTIONS & VALUES.keys()) - FUNCTIONS)
"""Functions of ours with the name of one of DuckDB's that may not be called."""


def outcome(connection, sql):
    try:
        return connection.execute(sql).fetchall()
    except duckdb.Error as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize("name", OF_BOTH)
def test_where_a_column_is_named_as_our_schema_ours_is_called(made, name):
    """For DuckDB reads `x.f(y)` as `f(x, y)`, too."""
    for arguments in ("", "2000", "'x', 2000", "2000, 'x'"):
        call = f"SELECT pgx.{name}({arguments})"
        assert outcome(made, f"{call} FROM (SELECT 'x' AS pgx) AS given") == outcome(made, call)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('SELECT "dpsql"."main"."t".x FROM dpsql.main.t', 'SELECT "main"."t".x FROM main.t'),
        ("SELECT a.dpsql.main.x", "SELECT a.dpsql.main.x"),
        ("x = ANY(ARRAY(SELECT 1)) AND (2)", "x = ANY(  SELECT 1 ) AND (2)"),
        ("SELECT 1 FROM generate_series(1, 2) AS i, t", "SELECT 1 FROM generate_series(1, 2) AS i(i), t"),
        ("SELECT generate_series(1, 2) AS i FROM t", "SELECT generate_series(1, 2) AS i FROM t"),
        ("SELECT a IS DISTINCT FROM unnest(b) AS c, d", "SELECT a IS DISTINCT FROM unnest(b) AS c, d"),
        ("SELECT 1 FROM unnest(a) AS u(x)", "SELECT 1 FROM unnest(a) AS u(x)"),
        ("SELECT 'typreceive = 0', typreceive FROM pg_type", "SELECT 'typreceive = 0', typreceive FROM pg_type"),
        ("WHERE t.typreceive <> 0", "WHERE t.typreceive_oid <> 0"),
        ("FROM t TABLESAMPLE system (10)", "FROM t TABLESAMPLE system (10 PERCENT)"),
        (
            "FROM t TABLESAMPLE BERNOULLI ( 2.5 ) REPEATABLE (1)",
            "FROM t TABLESAMPLE BERNOULLI ( 2.5  PERCENT) REPEATABLE (1)",
        ),
        ("FROM t TABLESAMPLE reservoir (10 ROWS)", "FROM t TABLESAMPLE reservoir (10 ROWS)"),
        ("SELECT t.tablesample, (1) FROM t", "SELECT t.tablesample, (1) FROM t"),
    ],
)
def test_what_is_spelled_in_several_places(written, meant):
    assert "".join(text for _, text in prepared(tokens(written))) == meant


@pytest.mark.medium
@settings(max_examples=25)
@given(
    st.text(alphabet="(),.\"'=a1 ", max_size=30),
    st.sampled_from(["any(array(select", "cast(cast(", "from unnest(", "dpsql.main."]),
)
def test_whatever_is_written_is_read_to_its_end(text, begin):
    respelled(begin + text)
    respelled(text + begin)
