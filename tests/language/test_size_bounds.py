"""Expressions that would fill the memory, or take for ever, are refused from their text; what people write is not."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

import dpsql
from dpsql.errors import InvalidQuery
from dpsql.language.size_bounds import check_sizes

PLAIN = [
    "lpad(a, 5, '0') = '00003'",
    "rpad(lpad(a, 12, '0'), 20, ' ')",
    "upper(trim(lower(replace(replace(replace(a, 'ä', 'ae'), 'ö', 'oe'), 'ü', 'ue'))))",
    "regexp_replace(a, '[^0-9]+', '', 'g')",
    "CASE " + " ".join(f"WHEN a = 'v{i}' THEN 'group {i % 7}'" for i in range(900)) + " ELSE 'none' END",
    "a IN (" + ", ".join(f"'v{i}'" for i in range(5000)) + ")",
    " OR ".join(f"a = 'v{i}'" for i in range(900)),
    "concat_ws('/', a, b, a, b)",
    "levenshtein(a, 'Smith') < 3",
    "hex(a) || base64(b::BLOB)",
    "jaro_winkler_similarity(a, b) > 0.9",
    "strftime(b::DATE, '%Y-%m')",
]
LARGE = [
    "lpad('x', a::INT * 1000, 'y')",
    "lpad('x', 2000000000, 'y')",
    "replace(" * 6 + "'x'" + ", 'x', 'xxxxxxxxxx')" * 6,
    "bin(" * 8 + "a" + ")" * 8,
    "url_encode(" * 12 + "a" + ")" * 12,
    "levenshtein(lpad('x', 9000, 'y'), lpad('x', 9000, 'z'))",
    "list_transform([1], x -> x + 1)",
    "repeat('x', a::INT)",
    "repeat(repeat('x', 1000), 1000)",
    "[" * 20 + "a" + "]::VARCHAR" * 20,
    "concat_ws(rpad('', 900, 'x'), " + "a, " * 900 + "a)",
    "list_select([rpad('', 900, 'x')], [" + "1, " * 900 + "1])::VARCHAR",
    "concat(" + "sha256(''), " * 1800 + "a)",
    "strftime(b::DATE, rpad('', 40000, '%c'))",
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_people_write_is_not_refused(text):
    check_sizes(sqlglot.parse_one(f"SELECT {text}", read="duckdb").expressions)


@pytest.mark.parametrize("text", LARGE)
def test_what_could_be_too_large_is_refused(text):
    with pytest.raises(InvalidQuery, match="characters|width|too long|of its own"):
        check_sizes(sqlglot.parse_one(f"SELECT {text}", read="duckdb").expressions)


@pytest.fixture
def db():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT (i % 100)::INTEGER AS a, (i % 1000)::INTEGER AS b FROM range(1000) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=99)
        db.domain("t", "b", lower=0, upper=999)
        yield db


@pytest.mark.parametrize(
    "condition",
    [
        "length(printf(''%2000000000d'', a)) > 3",
        "length(format(''{:1000000000}'', a)) > 3",
        "length(lpad(''x'', a * 20000000, ''y'')) > 3",
        "levenshtein(lpad(''x'', a * 2000, ''y''), ''x'') > 3",
        "len(list_resize([1], 1000000000)) > a",
        "len(list_transform([1], x -> x)) > a",
    ],
)
@pytest.mark.parametrize("call", ["FROM dp_query('SELECT count(*) AS n FROM t WHERE {}', epsilon := 0.1)",
                                  "FROM dp_plan('SELECT count(*) AS n FROM t WHERE {}', epsilon := 0.1)",
                                  "FROM dp_constraint('t', '{}')"])  # fmt: skip
def test_bombs_are_refused_by_every_function(db, call, condition):
    with pytest.raises(duckdb.Error, match="query: |predicate: "):
        db.sql(call.format(condition)).fetchall()
    assert db.budget().releases[0] == 0


def test_many_conditions_are_refused(db):
    condition = " OR ".join(["a=1"] * 12_002)
    with pytest.raises(duckdb.Error, match=r"say x IN \(…\) instead"):
        db.sql(f"FROM dp_query('SELECT count(*) AS n FROM t WHERE {condition}', epsilon := 0.1)")


@pytest.mark.medium
def test_what_takes_long_can_be_interrupted(db, interrupting, monkeypatch):
    """A hundred thousand pairs of texts of two hundred characters; and after a time it ends by itself."""
    slow = "levenshtein(lpad(a::VARCHAR, 200, ''y''), lpad(b::VARCHAR, 200, ''z'')) > 3"
    call = f"FROM dp_plan('SELECT count(*) AS n FROM t WHERE {slow}', epsilon := 0.1)"
    with interrupting(db, 0.5), pytest.raises(duckdb.Error, match="[Ii]nterrupted"):
        db.sql(call)
    monkeypatch.setattr("dpsql.evaluation.sandbox._LONGEST", 0.3)
    with pytest.raises(duckdb.Error, match="takes more than 0 seconds"):
        db.sql(call)
