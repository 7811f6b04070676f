"""Functions of PostgreSQL's that DuckDB has not, or has with another meaning: the same value, or an error."""

from __future__ import annotations

from datetime import datetime

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.service import catalogue
from dpsql.service.allowlist import AllowList, NotAllowed
from dpsql.service.from_postgres import prepared
from dpsql.service.respell import respelled
from dpsql.service.tokens import tokens

texts = st.text(alphabet="aB1_ .,\"'%sIL\u00e9$", max_size=8)
patterns = st.lists(
    st.sampled_from(["YYYY", "MM", "DD", "HH24", "HH12", "MI", "SS", "US", "MS", "DDD", "-", ":", " ", "/"]), max_size=6
)
CALLS = {
    "quote_ident(%s)": st.tuples(texts),
    "parse_ident(%s)": st.tuples(texts),
    "string_to_array(%s, %s)": st.tuples(texts, st.one_of(texts, st.none())),
    "format(%s, %s)": st.tuples(texts, st.one_of(texts, st.none())),
    "format(%s, %s, %s)": st.tuples(texts, texts, texts),
    "to_char(%s::timestamp, %s)": st.tuples(
        st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(str), patterns.map("".join)
    ),
    "to_date(%s, 'YYYY-MM-DD')": st.tuples(st.dates().map(str)),
    "to_timestamp(%s, 'YYYY-MM-DD HH24:MI:SS')": st.tuples(st.datetimes().map(lambda one: str(one)[:19])),
    "date_bin(%s::interval, %s::timestamp, '2001-01-01'::timestamp)": st.tuples(
        st.sampled_from(["15 minutes", "1 day", "7 hours", "1 month"]),
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(str),
    ),
}


def value(connection, call, arguments):
    cursor = psycopg.ClientCursor(connection)
    try:
        return cursor.execute(f"SELECT {call}", arguments).fetchall()
    except psycopg.Error:
        return None


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS)
def test_a_value_is_postgresqls_or_refused(browsed, real, call):
    seen = []

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(CALLS[call])
    def compare(arguments):
        ours = value(browsed, call, arguments)
        seen.append(ours is not None)
        assert ours is None or ours == value(real, call, arguments), arguments

    compare()
    assert any(seen)


def test_calls_in_one_another_are_bounded():
    """DuckDB writes out a macro's text for each call: it has its argument often, so some in one another fill the memory."""
    allowed = AllowList()
    assert catalogue.COPIES["format"] > 8
    allowed.check(respelled("SELECT format('%s', quote_ident('a'))"))
    for name in sorted(catalogue.COPIES):
        if catalogue.COPIES[name] > 1:
            call = f"{name}({{}}, 'a')" if name == "format" else f"{name}({{}})"
            deep = "'a'"
            for _ in range(30):
                deep = call.format(deep)
            with pytest.raises(NotAllowed):
                allowed.check(respelled(f"SELECT {deep}"))


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
    ],
)
def test_what_is_spelled_in_several_places(written, meant):
    assert "".join(text for _, text in prepared(tokens(written))) == meant


@given(
    st.text(alphabet="(),.\"'=a1 ", max_size=30),
    st.sampled_from(["any(array(select", "cast(cast(", "from unnest(", "dpsql.main."]),
)
def test_whatever_is_written_is_read_to_its_end(text, begin):
    respelled(begin + text)
    respelled(text + begin)
