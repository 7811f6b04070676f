"""Modifiers of types: each has PostgreSQL's value or is refused, in statements that are generated, and none is ignored."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.service.allowlist import NotAllowed
from dpsql.service.respell import respelled
from dpsql.service.tokens import tokens

counts = st.integers(0, 7)
TYPES = {
    "varchar": ["varchar({})", "character varying({})", "char varying({})", "national character varying({})"],
    "char": ["char({})", "character({})", "bpchar({})", "nchar({})", "national char({})", "char", "character", "nchar"],
    "timestamp": ["timestamp({})", "timestamp({}) without time zone", "pg_catalog.timestamp({})"],
    "timestamptz": ["timestamptz({})", "timestamp({}) with time zone", '"timestamptz"({})'],
    "time": ["time({})", "time({}) without time zone"],
    "interval": ["interval({})", "interval second({})", "interval day to second({})"],
    "cut": [
        *(f"interval {field}" for field in ("year", "month", "day", "hour", "minute", "second")),
        *("interval year to month", "interval day to hour", "interval day to minute", "interval hour to minute"),
        *("interval hour to second", "interval minute to second", "interval day to second"),
    ],
    "numeric": ["numeric({}, 2)", "decimal({})", "dec(9, {})", "numeric", "decimal", "pg_catalog.numeric(9, {})"],
    "float": ["float({})", "float", "float(24)", "float(25)", "float(53)"],
    "other": ["bit({})", "bit", "varbit({})", "bit varying({})", "timetz({})", "time({}) with time zone", "text({})"],
}
words = st.text(alphabet="aé b😀_", max_size=8)
moments = st.builds(
    "{}-0{}-{} {}:59:59{}".format,
    st.sampled_from([1970, 1999, 2000, 2024]),
    st.integers(1, 9),
    st.integers(10, 28),
    st.integers(10, 23),
    st.sampled_from(["", ".5", ".25", ".125", ".999999", ".45", ".000005", ".35", ".0000005"[:7]]),
)
spans = st.builds(
    lambda *parts: " ".join(filter(None, parts)) or "0 days",
    st.sampled_from(["", "14 months", "-3 years"]),
    st.sampled_from(["", "40 days", "-1 day"]),
    st.sampled_from(["", "27:59:59.9995", "-27:00:01.555", "5 hours 90 minutes", "1.25 seconds", "-0.5 seconds"]),
)
numbers = st.sampled_from(["0.00012345", "1.255", "-1.245", "2.5", "9.995", "0", "-0.005", "12345.6", "1e2", " 7 "])
VALUES = {
    "varchar": words,
    "char": words,
    "timestamp": st.one_of(moments, st.sampled_from(["infinity", "-infinity"])),
    "timestamptz": st.one_of(moments.map("{}+02".format), st.just("infinity")),
    "time": moments.map(lambda moment: moment[11:]),
    "interval": spans,
    "cut": st.one_of(spans, st.sampled_from(["1", "90", "-1.5", "1:30", "1-2", "1 2:03", "1 day 2:03"])),
    "numeric": numbers,
    "float": numbers,
    "other": st.sampled_from(["101", "10:00:00.5", "abc"]),
}
SHAPES = [
    "SELECT {text}::{type}",
    "SELECT {text}::{type} = 'a  ', {text}::{type} || 'b'",
    "SELECT CAST({text} AS {type}), 1",
    "SELECT {type} {text} AS x",
    "SELECT count(*), max(v::{type}) FROM (VALUES ({text})) t(v)",
    "SELECT v::{type}, 'x' || v::{type} FROM (VALUES ({text})) t(v)",
    "SELECT (CASE WHEN true THEN {text} END)::{type}::text, NULL::{type}",
    "SELECT 1 FROM (VALUES ({text})) t(v) WHERE v::{type}::text = v AND v::{type} = {text}",
    "SELECT (ARRAY[{text}])[1]::{type}, (ARRAY[{text}, NULL]::{type}[])[1]",
]
OBEYED = {"varchar", "char", "timestamp", "timestamptz", "time", "interval", "cut", "numeric", "float"}


def outcome(connection, sql):
    """The names of the columns and the texts of all values; None where it is refused."""
    result = connection.pgconn.exec_(sql.encode())
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        return None
    columns = range(result.nfields)
    rows = [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)]
    return [result.fname(column) for column in columns], rows


def numbers_of(found):
    """With numbers in place of their texts: a numeric here has ten digits behind the point."""
    names, rows = found or ([], [])
    return names, [[None if text is None else Decimal(text.decode()) for text in row] for row in rows]


@pytest.mark.medium
@pytest.mark.parametrize("kind", TYPES)
def test_a_modifier_is_obeyed_or_refused(browsed, real, kind):
    served, differ = 0, []

    @settings(max_examples=80, deadline=None, derandomize=True)
    @given(st.sampled_from(SHAPES), st.sampled_from(TYPES[kind]), counts, VALUES[kind])
    def compare(shape, written, count, value):
        nonlocal served
        if kind in ("numeric", "float", "interval") and ("::text" in shape or "||" in shape):
            return  # how DuckDB's texts of these differ is said elsewhere
        text, spelled = "'" + value + "'", written.format(count)
        sql = shape.format(type=spelled, text=text)
        if kind == "cut" and "{type} {text}" in shape:
            sql = f"SELECT interval {text} {spelled.removeprefix('interval ')}"
        ours = outcome(browsed, sql)
        if ours is not None:
            served += 1
            there = outcome(real, sql)
            if kind in ("numeric", "float"):
                ours, there = (numbers_of(one) for one in (ours, there))
            if ours != there:
                differ.append((sql, ours, there))

    compare()
    assert not differ, "\n".join(map(str, differ[:40]))
    assert (served > 10) == (kind in OBEYED), served


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 'x'::char(2000000000)", "from 1 to 10000"),
        ("SELECT 'x'::varchar(99999999999999999999999999)", "from 1 to 10485760"),
        ("SELECT 'x'::varchar(0), 'x'::varchar(-1)", "from 1 to"),
        ("SELECT 'x'::varchar(1, 2)", "from 1 to"),
        ("SELECT 'x' || y::char(3)", "rpad(left(x, 3), 3, ' ')"),
        ("SELECT x FROM t WHERE x::char(3) = 'a '", "left(x, 3)"),
        ("SELECT DISTINCT x::char(3) FROM t", "left(x, 3)"),
        ("SELECT (SELECT x::char)", "left(x, 1)"),
        ("SELECT x::timetz(3)", "cast to time(n)"),
        ("SELECT TRY_CAST(x AS varchar(3))", "x::varchar ( 3 )"),
        ("SELECT x::int(4)", "write int without them"),
        ("SELECT x::bit(3)", "left(x, n)"),
        ("SELECT x::float(54)", "from 1 to 53"),
        ("SELECT x::interval hour", "date_trunc('hour', x)"),
        ("SELECT interval '1:30' hour to minute", "numbers have units"),
        ("SELECT interval '1 day' hour to day", "no fields hour to day"),
        ("SELECT localtime(2, 3)", "localtime(0)"),
        ("SELECT x::varchar(3)[][]", "one dimension"),
        ("SELECT ::varchar(3)", "behind an expression"),
    ],
)
def test_what_is_refused_says_what_works(sql, said):
    with pytest.raises(NotAllowed) as error:
        respelled(sql)
    assert said in str(error.value)


WORDS = """
    ( ) [ ] :: , . 'a' 3 -1 $1 x case when end array varchar char time timestamp(2) interval year to month second
    with zone double precision varying national over filter within group current_timestamp localtime pg_catalog
    float bit select = <> cast as
""".split()  # noqa: SIM905 - easier to read so


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(WORDS),
        max_size=30,
    ).map(" ".join)
)
def test_whatever_words_are_written_is_read_to_its_end(sql):
    try:
        made = respelled(sql)
    except NotAllowed:
        return
    assert len(tokens(made)) <= 20 * len(tokens(sql)) + 20


def test_the_time_is_in_proportion_to_the_length():
    """Many casts of one operand, and many operands in parentheses."""
    deep = "(" * 400 + "x" + "::varchar(3))" * 400
    assert respelled(f"SELECT {deep}").count("pgx.as_varchar(") == 400
    chain = "'x'" + "::varchar(3)" * 6000
    assert respelled(f"SELECT {chain}").count("pgx.as_varchar(") == 6000


def test_parameters_have_the_type_that_they_are_cast_to(browsed, real):
    for sql, sent in (
        ("$1::varchar(2)", "abc"),
        ("$1::timestamp(0)", "2020-01-01 10:00:00.5"),
        ("$1::time(1)", "10:00:00.25"),
    ):
        got, there = (
            connection.pgconn.exec_params(f"SELECT {sql}".encode(), [sent.encode()]) for connection in (browsed, real)
        )
        assert got.get_value(0, 0) == there.get_value(0, 0)
