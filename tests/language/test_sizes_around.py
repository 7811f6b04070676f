"""Whatever is said around groups, at however many levels: what is accepted makes no value above the bound."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dpsql.errors import InvalidQuery
from dpsql.evaluation.sandbox import check_around, functions_around
from dpsql.language.size_bounds import LONGEST

GROUPS = {"a": 2, "b": 4, "n": 7}
ROWS = "WITH dpsql_groups AS (FROM (VALUES (1, '''\"', 1000000), (22, 'é,\\\\x', 12), (3, NULL, 7)) v(a, b, n)) "
LITERALS = ("''", "'x'", "'''\"\\'", "', '", "'%c%A'", "7", "1.5", "1e15")
UNARY = (
    "{0}::VARCHAR", "[{0}]::VARCHAR", "[{0}, {0}]", "{{'k': {0}}}::VARCHAR", "row({0})::VARCHAR", "MAP([1], [{0}])::VARCHAR",
    "to_json({0}::VARCHAR)", "json_array({0})::VARCHAR", "json_object('k', {0})::VARCHAR", "json_quote({0}::VARCHAR)",
    "hex({0}::VARCHAR)", "bin({0}::VARCHAR)", "url_encode({0}::VARCHAR)", "encode({0}::VARCHAR)::VARCHAR", "md5({0}::VARCHAR)",
    "encode({0}::VARCHAR)::BIT::VARCHAR", "sha256({0}::VARCHAR)", "regexp_escape({0}::VARCHAR)", "upper({0}::VARCHAR)",
    "lpad({0}::VARCHAR, 300, '''')", "rpad({0}::VARCHAR, 9000, '\"')", "string_split({0}::VARCHAR, '')::VARCHAR",
    "regexp_split_to_array({0}::VARCHAR, '')::VARCHAR", "regexp_extract_all({0}::VARCHAR, '.?')::VARCHAR",
    "list_select([{0}], [1, 1, 1, 1, 1, 1])::VARCHAR", "list_grade_up(string_split({0}::VARCHAR, ''))::VARCHAR",
    "json_extract(to_json([{0}]), '$[*]')::VARCHAR", "json_structure(to_json([{0}]))::VARCHAR", "'[1e15,1e15]'::JSON::VARCHAR",
    "strftime(DATE '2024-01-01', {0}::VARCHAR)", "CASE WHEN a > 1 THEN {0} END", "coalesce({0}, {0})", "[{0}]", "{{'k': {0}}}",
    "regexp_replace({0}::VARCHAR, '(.*)', '\\1\\1\\1', 'g')", "greatest({0}, {0})", "[[{0}::VARCHAR]::VARCHAR]::VARCHAR",
    "list_append([{0}], {0})", "reverse({0}::VARCHAR)", "format_bytes(length({0}::VARCHAR))", "to_base(length({0}::VARCHAR), 2, 64)",
    "CAST(length({0}::VARCHAR) AS DECIMAL(38, 30))::VARCHAR", "to_years(length({0}::VARCHAR)::INTEGER)::VARCHAR",
)  # fmt: skip
BINARY = (
    "{0} || {1}", "replace({0}::VARCHAR, '\"', {1}::VARCHAR)", "regexp_replace({0}::VARCHAR, '', {1}::VARCHAR, 'g')",
    "concat_ws({0}, {1}, {1}, {1}, 1)", "[{0}::VARCHAR, {1}::VARCHAR]::VARCHAR", "list_concat([{0}], [{1}])::VARCHAR",
    "concat_ws({0}::VARCHAR, string_split({1}::VARCHAR, ''))", "translate({0}::VARCHAR, '\"', {1}::VARCHAR)",
    "MAP([{0}], [{1}])::VARCHAR", "struct_insert({{'k': {0}}}, l := {1})::VARCHAR",
)  # fmt: skip
OF_ROWS = (
    "max({0})", "min({0}, 3)", "max({0}, 40)::VARCHAR", "arg_max({0}, a, 2)::VARCHAR", "mode({0})", "quantile_disc({0}, 0.5)",
    "quantile_disc({0}, [0.1, 0.2, 0.9])::VARCHAR", "quantile_disc({0}, [0.1] || [0.2, 0.9])::VARCHAR", "count({0})",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY {0})", "concat(max({0}), min({0}))", "arg_min({0}, a)::VARCHAR",
)  # fmt: skip
OF_WINDOWS = (
    "lag({0}, 1, {0}) OVER (ORDER BY 1)",
    "first_value({0}) OVER ()",
    "max({0}) OVER ()",
    "nth_value({0}, 2) OVER ()",
)


@st.composite
def values(draw, names: tuple[str, ...], depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*names, *names, *names, *LITERALS]))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        times = draw(st.sampled_from((2, 9, 60)))
        return f"concat({', '.join([draw(values(names, depth - 1))] * times)})"
    if kind == 1:
        return draw(st.sampled_from(BINARY)).format(draw(values(names, depth - 1)), draw(values(names, depth - 1)))
    return draw(st.sampled_from(UNARY)).format(draw(values(names, depth - 1)))


@st.composite
def levels(draw) -> str:
    words, names = (
        draw(st.sampled_from(("dpsql_groups", "dpsql_groups AS q", "dpsql_groups AS q(a, b, n)"))),
        ("a", "b", "n"),
    )
    for level in range(draw(st.integers(1, 4))):
        grouped = draw(st.integers(0, 4)) == 0
        kinds = OF_ROWS if grouped else ("{0}", "{0}", *OF_WINDOWS)
        listed, seen = [], names
        for place, name in enumerate(("b", "n", "y")[: draw(st.integers(1, 3))]):
            listed.append(f"{draw(st.sampled_from(kinds)).format(draw(values(seen)))} AS {name}{level}_{place}")
            seen = seen if grouped else (*seen, f"{name}{level}_{place}")
        words = f"SELECT {', '.join(['count(*) AS a' if grouped else 'a', *listed])} FROM {words}"
        names = ("a", *(one.rsplit(" AS ", 1)[1] for one in listed))
        names += () if draw(st.booleans()) else ("q",)
        words = f"({words}) AS q"
    return f"FROM {words}" if draw(st.booleans()) else f"SELECT a, {draw(values(names))} AS x FROM {words}"


def longest(db, words: str) -> int:
    """The most characters of a value that the words make; 0 where DuckDB does not take them."""
    try:
        names = [row[0] for row in db.execute(f"DESCRIBE {ROWS}{words}").fetchall()]
        sizes = ", ".join(f'max(length("{name}"::VARCHAR))' for name in names)
        return max(size or 0 for size in db.execute(f"{ROWS}SELECT {sizes} FROM ({words})").fetchone())
    except duckdb.Error as error:
        assert "Memory" not in str(error), words
        return 0


def tried(count: int) -> tuple[int, int, int]:
    """How many texts were accepted, how many of these DuckDB takes, and the longest value."""
    seen, taken, most = 0, 0, 0
    with duckdb.connect(config={"memory_limit": "2GB", "threads": 2}) as db:

        @seed(31)
        @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(levels())
        def run(words):
            nonlocal seen, taken, most
            try:
                check_around(words, list(GROUPS.items()))
            except InvalidQuery:
                return
            size = longest(db, words)
            seen, taken, most = seen + 1, taken + (size > 0), max(most, size)
            assert size <= LONGEST, words

        run()
    return seen, taken, most


@pytest.mark.medium
def test_what_is_accepted_stays_below_the_bound():
    accepted, taken, most = tried(120)
    assert accepted > 25
    assert taken > 8
    assert most > 1000


@pytest.mark.slow
@pytest.mark.audit
def test_many_texts_that_are_accepted_stay_below_the_bound():
    assert tried(2500)[1] > 200


def test_sizes_that_begin_anew_at_each_level_are_noticed(monkeypatch):
    """As they did: three levels, none of which is large by itself."""
    many = ", ".join(["x"] * 400)
    words = f"SELECT concat({many}) AS x FROM (SELECT concat({many}) AS x FROM (SELECT a AS x FROM dpsql_groups))"
    with pytest.raises(InvalidQuery, match="could be texts of"):
        check_around(words, list(GROUPS.items()))
    monkeypatch.setattr("dpsql.language.size_bounds._item", lambda item, groups: [("x", 200)])
    check_around(words, list(GROUPS.items()))


def test_each_aggregate_around_groups_shows_one_value():
    """Of 40 rows with values of 50 characters no aggregate makes more than one of them, unless a number asks for more."""
    made = set()
    with duckdb.connect() as db:
        db.execute("CREATE TABLE r AS SELECT i, repeat('x', 50) || i AS t, i / 7 AS f FROM range(40) s(i)")
        for name in sorted(functions_around() & {row[0] for row in db.execute(
            "SELECT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('aggregate', 'window')"
        ).fetchall()}):  # fmt: skip
            for arguments in ("t", "t, i", "i, t", "i", "f, i", "i, f", "t, 1", "i, 1, 5", ""):
                for over in ("", " OVER (ORDER BY i)"):
                    try:
                        sql = f'SELECT max(length(x::VARCHAR)) FROM (SELECT "{name}"({arguments}){over} AS x FROM r)'
                        (size,) = db.execute(sql).fetchone()
                    except duckdb.Error:
                        continue
                    made.add(name)
                    assert (size or 0) < 110, (name, arguments, over)
    assert len(made) > 50
