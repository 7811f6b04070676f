"""A refusal speaks in the words of whoever wrote the query, and points at them: no name of dpsql's or of a parser's."""

from __future__ import annotations

import re

import duckdb
import pytest
from sqlglot import exp

from dpsql.language.written import parsed, place_of
from tests.language import test_around, test_members
from tests.language.test_shapes import SHAPES, declared  # noqa: F401 - a fixture
from tests.release.test_query import declared as people  # noqa: F401 - a fixture
from tests.release.test_query import refused

around = test_around.declared
members = test_members.declared
CLASSES = {"POSITIONALCOLUMN", "ATTIMEZONE", "GROUPINGSETS"} | {
    name.upper()
    for name in dir(exp)
    if re.fullmatch("(?:[A-Z][a-z]+){2,}", name) and isinstance(getattr(exp, name), type)
}
CLASSES -= {"TABLESAMPLE"}
"""Names of a parser's classes that no SQL has: of two words at least."""
WRONG = (
    "{} USING SAMPLE 3",
    "{} UNION ALL {}",
    "SELECT * FROM ({}) AS q JOIN channels AS c ON true",
    "SELECT nothing FROM ({}) AS q",
    "SELECT q.nothing FROM ({}) AS q",
    "SELECT\n  (SELECT 1), *\nFROM ({}) AS q",
    "WITH q AS ({}) SELECT count(*)\nFROM q WHERE EXISTS (FROM orders)",
    "SELECT *, now() FROM ({}) AS q",
    "SELECT *, list_transform([1], x -> x + 1) FROM ({}) AS q",
    "SELECT *, string_agg('a', ', ') OVER () FROM ({}) AS q",
    "SELECT * FROM ({}) AS q, range(3) AS r",
    "SELECT * FROM ({}) AS q WHERE 1 IN (SELECT channel FROM lanes)",
    "SELECT q::INTEGER FROM ({}) AS q",
    "SELECT * FROM ({}) AS q GROUP BY CUBE (1, 2, 3, 4, 5, 6, 7, 8, 9)",
    "SELECT * FROM ({}) AS q NATURAL JOIN orders",
)


def wrong():
    """Statements that are refused, for each shape some in turn, and those of other tests."""
    for number, sql in enumerate(SHAPES):
        for place in (number, number + 4, number + 9):
            yield WRONG[place % len(WRONG)].format(sql, sql)
        parts = re.split(r"\bcount\(\*\)", sql)
        if len(parts) > 1:
            yield ("histogram(units)", "#1", "units -> 1", "count(*) OVER (ROWS 1 PRECEDING)", "sum(nothing)")[
                number % 5
            ].join(parts)
        yield (
            re.sub(r"\bFROM orders\b", ("FROM orders TABLESAMPLE 3", "FROM orders, orders AS other")[number % 2], sql)
            + (" OFFSET 1.5", " WINDOW w AS ()", "")[number % 3]
        )


def check(sql: str, message: str) -> None:
    """That a message is of the statement's words, and that its place holds what it shows."""
    own = sql.lower()
    for name in re.findall(r"dpsql_\w+", message, re.IGNORECASE):
        assert name.lower() in own or "reserved" in message, message
    for word in re.findall(r"\w+", message):
        assert word not in CLASSES or word.lower() in own, message
    for shown, line, column in re.findall(r", in: (.*?) \(line (\d+), column (\d+)\)", message, re.DOTALL):
        rest = sql.splitlines()[int(line) - 1][int(column) - 1 :]
        word = re.match(r"\w+|\W", rest)[0]
        assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)" if word.isalnum() else re.escape(word), shown), (
            message,
            rest,
        )


def message_of(db, sql: str) -> str:
    try:
        db.connection.execute("FROM dp_plan(?, epsilon := 0.1)", [sql]).fetchall()
    except duckdb.Error as error:
        return str(error)
    return ""


@pytest.mark.medium
def test_a_refusal_of_a_shape_is_in_its_own_words(declared):  # noqa: F811
    messages = [(sql, message_of(declared, sql)) for sql in list(wrong())[::8]]
    assert sum(bool(message) for _, message in messages) > 35
    for sql, message in messages:
        check(sql, message)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["people", "around", "members"])
def test_refusals_of_other_tests_are_in_their_own_words(name, request):
    db = request.getfixturevalue(name)
    listed = {
        "people": [sql for sql, _ in refused()],
        "around": list(test_around.REFUSED),
        "members": list(test_members.REFUSED),
    }[name]
    for sql in listed:
        check(sql, message_of(db, sql))


def test_a_refusal_of_a_view_points_nowhere(around):
    """Its definition is not what was written: its words are shown, and no line of it."""
    around.sql("CREATE OR REPLACE VIEW distinct_rows AS SELECT DISTINCT a, v FROM t")
    message = message_of(around, "SELECT count(*)\nFROM distinct_rows")
    assert "DISTINCT" in message
    assert "line 1, column" not in message


def test_a_star_that_nobody_wrote_is_no_place():
    (tree,) = parsed("SELECT 1 FROM t\nCROSS JOIN (FROM p) AS q")
    assert place_of(tree.args["joins"][0]) == (2, 12)
    (tree,) = parsed("SELECT *\nFROM t")
    assert place_of(tree.expressions[0]) == (1, 8)
