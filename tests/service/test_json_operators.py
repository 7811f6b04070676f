"""Operators, paths and aggregates of JSON, and arrays with an element: PostgreSQL's value, or a refusal."""

from __future__ import annotations

import json

import duckdb
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql as composed

from dpsql.service import catalogue
from dpsql.service.allowlist import NotAllowed
from dpsql.service.respell import respelled
from dpsql.service.served import functions_served
from tests.service.beside_postgres import compare

pytestmark = pytest.mark.medium
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b", "a/b", "~", "1", "it's", 1.5, 0.25])
)
names = st.sampled_from(["a", "b", "a b", "~", "é", "0", "/"])
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
"""Values of JSON, few names and few numbers, so that some are in others."""
written = documents.map(json.dumps)
literal = written.map(lambda text: composed.Literal(text).as_string())
steps = st.lists(
    st.sampled_from(
        [".a", ".b", '."a b"', "[*]", "[0]", "[1]", ".*", " ? (@ > 1)", ' ? (@.a == "a")', " ? (@.b != 2)"]
    ),
    max_size=4,
).map("".join)
paths = steps.map(lambda path: composed.Literal("$" + path).as_string())
places = st.lists(st.sampled_from(["a", "b", "a b", "0", "1"]), min_size=1, max_size=3).map(",".join)
whole = st.lists(st.integers(-2, 2), max_size=4)


class Written:
    """A text that stands in the statement as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


psycopg.adapters.register_dumper(
    Written,
    type(
        "WrittenDumper",
        (psycopg.adapt.Dumper,),
        {"dump": lambda self, obj: obj.text.encode(), "quote": lambda self, obj: obj.text.encode()},
    ),
)
as_written = literal.map(Written)
CALLS = {
    "%s::jsonb @> %s::jsonb": st.tuples(as_written, as_written),
    "%s::jsonb <@ %s::jsonb": st.tuples(as_written, as_written),
    "%s::jsonb -> 'a' @> %s::jsonb": st.tuples(as_written, as_written),
    "%s::jsonb ? %s": st.tuples(as_written, names),
    "%s::jsonb ?| array[%s, %s]": st.tuples(as_written, names, names),
    "%s::jsonb ?& array[%s, %s]": st.tuples(as_written, names, names),
    "jsonb_path_exists(%s, %s)": st.tuples(as_written, paths.map(Written)),
    "jsonb_path_query_array(%s, %s) = 'null'::jsonb": st.tuples(as_written, paths.map(Written)),
    "jsonb_array_length(jsonb_path_query_array(%s, %s))": st.tuples(as_written, paths.map(Written)),
    "jsonb_typeof(jsonb_path_query_first(%s, %s))": st.tuples(as_written, paths.map(Written)),
    "(SELECT count(*) FROM jsonb_path_query(%s, %s) AS e)": st.tuples(as_written, paths.map(Written)),
    "jsonb_typeof((%s::jsonb || %s::jsonb) -> 'a'), (%s::jsonb || %s::jsonb) ? 'b', (%s::jsonb || '[]'::jsonb) @> '[1]'": (
        st.tuples(*[as_written] * 5)
    ),
    "%s::int[] || %s::int, %s::int || %s::int[]": st.tuples(whole, st.integers(0, 2), st.integers(0, 2), whole),
    "array_agg(DISTINCT x), string_agg(DISTINCT x::text, ',') FROM unnest(%s::int[]) AS x": st.tuples(whole),
    "array_agg(DISTINCT x) FROM unnest(%s::text[]) AS x": st.tuples(
        st.lists(st.sampled_from(["b", "a", "B", None, ""]), max_size=5)
    ),
    "json_agg(x ORDER BY x DESC) ->> 0, json_agg(DISTINCT x) ->> 1 FROM unnest(%s::int[]) AS x": st.tuples(whole),
    "jsonb_agg(x) FILTER (WHERE x > 0) ->> 0 FROM unnest(%s::int[]) AS x": st.tuples(whole),
    "json_object_agg(x, x ORDER BY x) ->> '1' FROM unnest(%s::int[]) AS x": st.tuples(
        st.lists(st.integers(0, 2), unique=True)
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_value_is_postgresqls_or_refused(browsed, real, call):
    compare(browsed, real, call, CALLS[call], 30)


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1.5 has no function that sets a part of JSON")
def test_what_is_set_is_what_postgresql_sets(browsed, real):
    compare(
        browsed,
        real,
        "jsonb_typeof(jsonb_set(%s, %s, %s) -> 'a'), jsonb_set(%s, '{a}', '7') @> '{\"a\": 7}'",
        st.tuples(as_written, places.map(lambda place: Written(f"'{{{place}}}'")), as_written, as_written),
        40,
    )


REFUSED = {
    "a::jsonb @> b": "written out",
    "a @> b::jsonb": "written out",
    "a <@ '{\"a\": 1}'::jsonb": "written out",
    "a @> '{}'": "'{}'::jsonb",
    "a + b ? 'c'": "parentheses",
    "a @> '[[[[[[1]]]]]]'": "arrays in one another",
    "a @> '[" + ", ".join(map(str, range(30))) + "]'": "at most 20 values",
    "a @> '{\"a\": 1234567890123456}'": "15 digits",
    "a::jsonb || 'x'": "::jsonb behind both",
    "jsonb_path_query(a, b)": "written out",
    "jsonb_path_match(a, '$.a == 1')": "jsonb_path_exists",
    "jsonb_path_exists(a, 'strict $.a')": "such as",
    "jsonb_path_exists(a, '$.a.size()')": "such as",
    "jsonb_path_exists(a, '$.a[last]')": "such as",
    "jsonb_path_exists(a, '$.a ? (@.b > 1 && @.c > 2)')": "such as",
    "jsonb_path_exists(a, '$.a ? (exists(@.b))')": "such as",
    "jsonb_path_exists(a, '$.a ? (@.b like_regex \"x\")')": "one comparison",
    "jsonb_path_exists(a, '$" + ".a" * 30 + "')": "20 steps",
    "jsonb_path_exists(a, '$ ? (@" + " " * 50_000 + ")')": "such as",
    "a::jsonb @> b || '" + "[" * 50_000 + "'": "written out",
    "jsonb_set(a, b, c)": "path that is written out",
    "array_agg(DISTINCT (SELECT count(DISTINCT x)))": "ORDER BY",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_says_what_works(expression):
    with pytest.raises(NotAllowed) as refusal:
        respelled(f"SELECT {expression} FROM t")
    assert REFUSED[expression] in str(refusal.value)


WORDS = """
    ( ) , @ > < ? | & || ~ * ! '{"a": 1}' '{a}' '\\y' '$.a' [ ] array x 1 :: jsonb -> distinct order by filter over json_agg
    array_agg json_object_agg jsonb_path_query jsonb_set regexp_replace substring from select case end $1
""".split()  # noqa: SIM905


@settings(max_examples=400)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_whatever_is_written_is_read_to_its_end(sql):
    try:
        respelled(sql)
    except NotAllowed:
        return


MANY = 256_000 // 12
LONG = {
    "jsonb_each": "SELECT count(*) FROM jsonb_each($1)",
    "json_each_text": "SELECT count(*) FROM json_each_text($1)",
    "json_has": "SELECT $1 ? 'k7'",
    "json_has_any": "SELECT $1 ?| array['k7', 'x']",
    "json_holds": 'SELECT $1 @> \'{"k7": 7, "k8": [1]}\'',
    "path": "SELECT jsonb_path_query_array($1, '$.* ? (@ > 7)')",
    "set": "SELECT jsonb_set($1, '{k7}', '8')",
}


@pytest.mark.parametrize("name", sorted(LONG))
@pytest.mark.timeout(60)
def test_a_long_value_takes_time_in_proportion_to_its_length(name):
    """An object of 256,000 characters takes a part of a second: by the square of its keys it took 46."""
    if name == "set" and duckdb.__version__ < "2":
        pytest.skip("it is refused")
    keys = ", ".join(f'"k{number}": {number}' for number in range(MANY))
    with duckdb.connect(config={"threads": "1"}) as connection:
        catalogue.make(connection, functions_served())
        assert connection.execute(respelled(LONG[name]), [f"{{{keys}}}"]).fetchall()


def test_objects_of_many_keys_are_not_joined():
    """Each key is looked for among the others, so their number is bounded."""
    keys = ", ".join(f'"k{number}": {number}' for number in range(1001))
    with duckdb.connect(config={"threads": "1"}) as connection:
        catalogue.make(connection, functions_served())
        with pytest.raises(duckdb.Error, match="that many keys"):
            connection.execute(respelled(f"SELECT '{{{keys}}}'::jsonb || '{{{keys}}}'::jsonb")).fetchall()
