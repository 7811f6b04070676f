"""Forms of PostgreSQL's that analysts type, and DuckDB has not: the same value, or an error, for whatever is in them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.service.allowlist import AllowList, NotAllowed
from dpsql.service.operators import operators
from dpsql.service.respell import respelled
from dpsql.service.tokens import tokens
from tests.service.beside_postgres import compare

numbers = st.integers(-(10**6), 10**6)
decimals = st.tuples(numbers, st.integers(0, 5)).map(lambda pair: Decimal(pair[0]).scaleb(-pair[1]))
floats = st.one_of(st.floats(-1e9, 1e9), st.sampled_from([0.5, 2.5, 0.125, -0.001, 1e15]))
angles = st.one_of(
    st.integers(-6400, 6400).map(lambda eighth: eighth / 8), st.integers(-50, 50).map(lambda step: step * 15.0)
)
ratios = st.integers(-64, 64).map(lambda part: part / 64)
formats = st.one_of(
    st.tuples(
        st.sampled_from(["", "FM", "$", "fm"]),
        st.sampled_from(["", "", "S", "MI"]),
        st.text("999990,G", min_size=1, max_size=8),
        st.sampled_from(["", ".99", ".00", ".090", "D9"]),
        st.sampled_from(["", "", "S", "MI", "PR", " %"]),
    ).map("".join),
    st.sampled_from(["RN", "FMrn", "9V9", "9EEEE", "L9", "B9", "9TH", "", "."]),
)
spans = st.tuples(*[st.integers(-90, 90)] * 4).map(lambda parts: "{} months {} days {} hours {} seconds".format(*parts))
texts = st.text("aAbcÄ1. _%", max_size=8)
patterns = st.lists(
    st.sampled_from(
        ["a", "b", "(b)", "((a))", "\\\\w", "[ab]", "(?:c)", ".", "a+", "c?", "^", "1$", "|", "(a|b)", "b+?"]
    ),
    max_size=4,
).map("".join)
similar = st.lists(st.sampled_from(["a", "%", "_", "(b|c)", "[ab]", ".", "b+", "\\%", "^"]), max_size=4).map("".join)
places = st.one_of(st.integers(-3, 9), st.none())
days = st.dates().map(str)
whole = st.one_of(st.integers(-50, 50), st.none())
CALLS = {
    "to_char(%s::numeric, %s)": st.tuples(decimals, formats),
    "to_char(%s::float8, %s)": st.tuples(floats, formats),
    "to_char(%s::int, %s)": st.tuples(numbers, formats),
    "to_number(%s, %s) + 0.0": st.one_of(
        st.tuples(st.sampled_from(["1,234.5", "12", "-7.25", "999", "1,2", "+1", ""]), formats),
        st.sampled_from([("1,234.5", "9,999.9"), ("12", "99"), ("999", "9G999"), ("-7", "9"), ("12", "99.9")]),
    ),
    "div(%s::numeric, %s::numeric)": st.tuples(decimals, decimals),
    "div(%s, %s)": st.tuples(numbers, st.integers(-9, 9)),
    "sind(%s), cosd(%s), tand(%s), cotd(%s)": angles.map(lambda angle: (angle,) * 4),
    "asind(%s), acosd(%s), atand(%s)": ratios.map(lambda ratio: (ratio,) * 3),
    "justify_interval(%s::interval)": st.tuples(spans),
    "justify_days(%s::interval)": st.tuples(spans),
    "justify_hours(%s::interval)": st.tuples(spans),
    "interval %s / %s": st.tuples(spans, st.one_of(st.integers(-9, 9), st.sampled_from([0.5, 1.5, 7.25]))),
    "regexp_match(%s, %s)": st.tuples(texts, patterns),
    "regexp_count(%s, %s)": st.tuples(texts, patterns),
    "regexp_substr(%s, %s, %s, %s)": st.tuples(texts, patterns, st.integers(0, 3), st.integers(0, 3)),
    "regexp_instr(%s, %s)": st.tuples(texts, patterns),
    "regexp_like(%s, %s, 'i')": st.tuples(texts, patterns),
    "regexp_matches(%s, %s)": st.tuples(texts, patterns),
    "regexp_split_to_array(%s, %s)": st.tuples(texts, patterns),
    "%s SIMILAR TO %s": st.tuples(texts, similar),
    "substr(%s, %s)": st.tuples(texts, places),
    "substring(%s from %s for %s)": st.tuples(texts, places, places),
    "(%s::date, %s::date) OVERLAPS (%s::date, %s::date)": st.tuples(*[days] * 4),
    "(%s::timestamp, %s::interval) OVERLAPS (%s::timestamp, %s::interval)": st.tuples(days, spans, days, spans),
    "%s::int BETWEEN SYMMETRIC %s::int AND %s::int": st.tuples(*[whole] * 3),
    "%s::int NOT BETWEEN SYMMETRIC %s::int AND %s::int": st.tuples(*[whole] * 3),
    "(%s) # (%s)": st.tuples(numbers, numbers),
    "array_to_string(%s::int[], ',', %s)": st.tuples(st.lists(whole, max_size=4), texts),
    "array_to_string(%s::bool[], ',')": st.tuples(st.lists(st.one_of(st.booleans(), st.none()), max_size=4)),
    "generate_series(%s, %s)": st.tuples(st.integers(-2, 2), st.integers(-2, 3)),
}
WORDS = """
    ( ) , # > 'a' '{a}' x 1 symmetric between and overlaps similar to interval / - substr from for generate_series select
    json_array_elements value e as :: int . [ ] $1
""".split()  # noqa: SIM905


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS)
def test_a_value_is_postgresqls_or_refused(browsed, real, call):
    compare(browsed, real, call, CALLS[call], 20)


@pytest.mark.parametrize(
    "sql",
    [
        "a SIMILAR TO b",
        "a SIMILAR TO 'a' ESCAPE '#'",
        "a BETWEEN SYMMETRIC '10' AND '9'",
        "a BETWEEN SYMMETRIC $1 AND 2",
        "a BETWEEN SYMMETRIC (b BETWEEN SYMMETRIC 1 AND 2)::int AND 2",
        "a BETWEEN SYMMETRIC 1",
        "5 BETWEEN SYMMETRIC 6 AND 8 >> 1",
        "x SIMILAR TO 'a' || '%'",
        "SELECT * FROM json_array_elements(j) WITH ORDINALITY",
        "1 + a # 2",
        "a # 2 * 3",
        "j #> ARRAY['a']",
        "j #>> '{-1}'",
        "j #>> '{}'",
        "f (a, b) OVERLAPS (c, d)",
        "SELECT e, e.value FROM json_array_elements(j) e",
    ],
)
def test_what_cannot_be_respelled_is_refused(sql):
    with pytest.raises(NotAllowed):
        respelled(sql)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a # b", "xor(a , b)"),
        ("SELECT a FROM t ORDER BY #1", "SELECT a FROM t ORDER BY #1"),
        *(
            (f"SELECT * FROM {name}(a) WITH ORDINALITY", f"SELECT * FROM {name}(a) WITH ORDINALITY")
            for name in ("unnest", "pg_catalog.pg_partition_ancestors")
        ),
        ("t.a # f(1)[1]", None),
        ("x BETWEEN SYMMETRIC 3 AND 1 AND y", "x BETWEEN pgx.lower_of(3, 1) AND pgx.upper_of(3, 1) AND y"),
        ("d BETWEEN SYMMETRIC '2020-02-01' AND '2020-01-01'", "d BETWEEN '2020-01-01' AND '2020-02-01'"),
        ("j #>> '{a,0,b c}'", "j ->> '/a/0/b c'"),
        ("SELECT len(generate_series(1, 2))", "SELECT len(generate_series(1, 2))"),
        (
            "substr(a, 2, b), substr(a, 2, 3), substring(a, 1), substring(a from 'x')",
            "pgx.substr_of(a, 2, b), substr(a, 2, 3), substring(a, 1), substring(a from 'x')",
        ),
        ("interval '1 month - 1 day' hour", "interval '1 month -1 day' hour"),
        ("SELECT overlaps, symmetric, similar FROM t", "SELECT overlaps, symmetric, similar FROM t"),
    ],
)
def test_what_is_respelled_as_a_call(written, meant):
    if meant is None:
        with pytest.raises(NotAllowed):
            operators(tokens(written))
        return
    assert " ".join("".join(text for _, text in operators(tokens(written))).split()) == meant


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(WORDS),
        max_size=14,
    ).map(" ".join)
)
def test_whatever_is_written_is_read_to_its_end(sql):
    try:
        respelled(sql)
    except NotAllowed:
        return


def test_no_bound_is_written_more_often_than_twice():
    """Bounds in one another would double the statement for each of them."""
    deep = "1"
    for _ in range(30):
        deep = f"(x BETWEEN SYMMETRIC {deep} AND 2)::int"
    with pytest.raises(NotAllowed):
        respelled(deep)


def test_lambdas_of_functions_count_with_those_around_them():
    """DuckDB takes twice the time and memory for each that is in another."""
    allowed = AllowList()
    call = "to_char(timestamp '2020-01-01', 'YYYY')"
    for count in range(1, 9):
        call = f"list_transform([1], lambda x{count}: {call})"
        if count == 7:
            allowed.check(respelled(f"SELECT {call}"))
    with pytest.raises(NotAllowed, match="lambdas are in one another"):
        allowed.check(respelled(f"SELECT {call}"))
