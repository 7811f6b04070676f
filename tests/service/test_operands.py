"""Where the operand of a cast begins: statements that are put together at random mean what they do in PostgreSQL, or are refused."""

from __future__ import annotations

import random

import duckdb
import psycopg
import pytest

from dpsql.service.allowlist import NotAllowed
from dpsql.service.respell import respelled
from dpsql.service.tokens import first_word, tokens

OPERANDS = (
    """
    'abcd'|E'a\\'b::varchar(1)'|$q1$x::char(2)$q1$|'it''s'|t.v|v|"v"|time|t."time"|(v)|((v))|(t).v|1.5e-1|.25e+1
    -7|+7|12.345|1|true|NULL|date '2020-01-02'|int '55'|text 'abc'|double precision '1.5'|lower(v)|left('xyz', 2)
    (ARRAY[v, 'zz'])[1]|(SELECT v)|(v || 'q')|CASE WHEN v = 'a' THEN 'no' ELSE v END|coalesce(v, 'x')|max(v) OVER ()
    count(*) FILTER (WHERE v > 'a') OVER ()|CAST(v AS varchar(2))|'12.345'::numeric(5,2)|'abc'::varchar(2)
    timestamp '2020-01-01 10:00:00.7'|interval '1' day|trim(both (' ') from v)|extract(year from date '2020-01-01')
    v COLLATE "C"|v IN ('a', 'abcdef')|v IS NULL|v IS NOT NULL|v = ANY (ARRAY['a'])|NOT true|v LIKE 'a%'|'ab' 'cd'
    v operator(pg_catalog.||) ('xyz')|position('b' in v)|v AT TIME ZONE 'UTC'|EXISTS(SELECT 1)|current_date
    /* /* */ ' */ v|'a' /* :: */|row_number() OVER w|v BETWEEN 'a' AND 'b'|v SIMILAR TO 'abc'|'ab'
    'cd'|substring(v from 2 for 3)|"time" || v|1 = 1|overlay(v placing ('xyz') from 1 for 1)
""".replace("\n    ", "|")
    .strip("\n|")
    .split("|")
)
if duckdb.__version__ >= "2":  # what 1.5 reads otherwise, with a cast and without one
    OPERANDS += ["B'101'", "v ~ '^(a)'", "float '16777217'::int"]
TYPES = ["varchar(1)", "varchar(3)", "character varying(2)", "text", "pg_catalog.varchar(2)", '"varchar"(4)']
SHAPES = [
    "{}",
    "({})",
    "'<' || {} || '>'",
    "{} = 'a'",
    "CASE WHEN {} = 'ab' THEN 1 ELSE 2 END",
    "coalesce({}, 'none')",
    "{} IN ('a', 'ab', 'abc')",
    "NOT {} > 'b'",
    "lower({})",
    "{} BETWEEN 'a' AND 'b'",
    "ARRAY[{}, {}]",
    "(SELECT {})",
    "length({}) + 1",
]


def values(connection, sql):
    """The texts of all values; None where the statement is refused."""
    result = connection.pgconn.exec_(sql.encode())
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        return None
    return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


@pytest.mark.medium
def test_a_cast_binds_as_in_postgresql(browsed, real):
    chance, differ, served = random.Random(20), [], 0
    for number in range(500):
        shown = []
        for _ in range(2):
            operand = OPERANDS[number % len(OPERANDS)] if not shown else chance.choice(OPERANDS)
            cast = "".join(f"::{chance.choice(TYPES)}" for _ in range(chance.choice([1, 1, 2])))
            shape = chance.choice(SHAPES)
            shown.append(shape.format(*[operand + cast] * shape.count("{}")))
        rows = "(VALUES ('abcdef', 'xyz')) AS t(v, time) WINDOW w AS (ORDER BY 1)"
        sql = f"SELECT {', '.join(shown)} FROM {rows}"
        ours = values(browsed, sql)
        if ours is not None and (there := values(real, sql)) is not None:
            served += 1
            if ours != there:
                differ.append((sql, respelled(sql), ours, there))
    assert not differ, "\n".join(map(str, differ[:20]))
    assert served > 250, served


@pytest.mark.parametrize(
    "text",
    [
        r"E'a\'b::varchar(3)c'",
        r"e'\\'",
        "$q1$b::varchar(3)$q1$",
        "$é1$ 'x::char(3) $é1$",
        "/* /* ::varchar(2) */ ' */",
        "'x''::varchar(1)'",
        '"a::varchar(1)"""',
        "-- 'x'::varchar(1)",
    ],
)
def test_what_is_quoted_is_no_cast(text):
    assert respelled(f"SELECT {text}") == f"SELECT {text}"
    assert len(tokens(text)) == 1


@pytest.mark.parametrize(
    "hostile", ["(", "[", "/*", "'", '"', "$a$", "case ", "x::varchar(3) in (", "::", "'a'::char(2)="]
)
def test_time_is_in_proportion_to_a_hostile_text(hostile):
    sql = "SELECT " + hostile * (30_000 // len(hostile))
    assert first_word(sql) == "SELECT"
    assert "".join(text for _, text in tokens(sql)) == sql
    try:
        made = respelled(sql)
    except NotAllowed:
        return
    assert len(made) < 20 * len(sql)
