"""What a query reads: DuckDB binds it, and every table, function and step of the bound plan must be known.

Only the bound plan tells. A name in SQL text may mean a table, a view, a macro, a CTE of that place or a file; DuckDB
resolves it by rules of its own, also inside the views, macros and computed queries that it meets on the way. Nothing of
the plan passes that is not listed here: what DuckDB adds later is refused until somebody has thought about it.

While it binds, DuckDB computes calls with constant arguments, which the plan then does not show. So the definitions of
all views and macros that may be met are looked through first, and may call no function that is not listed.

The plan and the rows must be of one snapshot: see `snapshot`. Else a view could be replaced between the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import Any, Final

import duckdb
from sqlglot import exp

from dpsql.books.tables.public import is_protected
from dpsql.core import functions
from dpsql.core.functions import Trait as T
from dpsql.core.names import fold
from dpsql.engines.registry import find_parts
from dpsql.engines.source import Source
from dpsql.errors import UnknownName

_STEPS: Final = frozenset(
    f"LOGICAL_{step}"
    for step in """
    GET EXPRESSION_GET DUMMY_SCAN EMPTY_RESULT PROJECTION FILTER AGGREGATE_AND_GROUP_BY WINDOW UNNEST LIMIT ORDER_BY
    DISTINCT SAMPLE CROSS_PRODUCT COMPARISON_JOIN ANY_JOIN ASOF_JOIN POSITIONAL_JOIN DELIM_JOIN DEPENDENT_JOIN
    DELIM_GET UNION EXCEPT INTERSECT MATERIALIZED_CTE CTE_REF RECURSIVE_CTE
    """.split()  # noqa: SIM905
)
"""Kinds of a plan's steps that read nothing but their children; GET reads the table that it names."""
_EXPRESSIONS: Final = frozenset(
    f"BOUND_{kind}"
    for kind in """
    REF COLUMN_REF CONSTANT FUNCTION AGGREGATE WINDOW CASE CAST COMPARISON BETWEEN CONJUNCTION OPERATOR UNNEST LAMBDA
    LAMBDA_REF
    """.split()  # noqa: SIM905
)
"""Kinds of expressions whose values depend on their children alone; functions and aggregates by their names."""
_FUNCTIONS: Final = functions.callable_with(
    T.AGGREGATE | T.GATHERS | T.ORDER | T.OPERATOR | T.SYNTAX | T.GIVEN | T.ROWS | T.UNTRIED_IN_EXPRESSIONS
)
"""DuckDB's own functions whose values depend on their arguments alone: none looks at settings, variables or tables.

Nor at the members of an ENUM type, which may have been made from private rows. None makes texts of any length, or calls
itself for each level of a value.
"""


class Unclear(Exception):
    """What a query reads is not known; the text is the part that is not understood."""


@contextmanager
def snapshot(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Statements inside see one state of each database, its catalogue too: what was checked is what is read."""
    cursor.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # an error may have ended it
            cursor.execute("ROLLBACK")


def protected_among(cursor: duckdb.DuckDBPyConnection, query: str) -> str | None:
    """The name of a protected table that a query reads, or None: then all that it reads is surely public.

    Call it in the `snapshot` in which the rows are read.

    Raises:
        Unclear: it is not known.
        InvalidArgument: no table is surely public now; see `is_protected`.
    """
    check_calls(cursor, query)
    for catalog, schema, name in sorted(tables_read(cursor, query)):
        try:
            source = find_parts(cursor, (catalog, schema, name), (catalog, schema))
        except UnknownName:  # temporary, or of the books
            raise Unclear(name) from None
        if is_protected(cursor, source):
            return source.name
        _check_stored(source)
    return None


def is_public(cursor: duckdb.DuckDBPyConnection, source: Source) -> bool:
    """Whether what is read under a table's name is surely that table alone, and is not protected."""
    query = exp.select("*").from_(source.table()).sql(dialect="duckdb")
    try:
        _check_stored(source)
        return tables_read(cursor, query) == {source.parts} and not is_protected(cursor, source)
    except Unclear:
        return False


def _check_stored(source: Source) -> None:
    """Refuse a table with generated columns, whose expressions run when it is read."""
    if any(column.generated for column in source.columns):
        raise Unclear(f"{source.name}, which has a generated column,")


_VIEWS: Final = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal"
_CALLS: Final = "SELECT DISTINCT function_name, internal, macro_definition FROM duckdb_functions()"
_CALLED: Final = re.compile(r'\w+(?="?\s*\()')


def check_calls(cursor: duckdb.DuckDBPyConnection, query: str, beside: Set[str] = frozenset()) -> None:
    """Refuse a query if a text that it may come to has a word in it that calls a function which is not listed.

    It may come to the definition of every view and macro whose name is in a text that it comes to, in whatever schema.

    Args:
        cursor: of the database.
        query: its text.
        beside: functions that may be called too.

    Raises:
        Unclear: there is such a word.
    """
    functions = cursor.execute(_CALLS).fetchall()
    macros = [(name, text) for name, internal, text in functions if text is not None and not internal]
    definitions = [(_plain(n), _plain(text)) for n, text in (*macros, *cursor.execute(_VIEWS).fetchall())]
    called = {_plain(name) for name, internal, text in functions if internal or text is None}
    unknown = called - _FUNCTIONS - beside
    odd = [name for name in unknown if not _WORD.fullmatch(name)]
    waiting, seen = [_plain(query)], set[str]()
    while waiting:
        text = waiting.pop()
        words = set(_WORD.findall(text))
        calls = unknown.intersection(_CALLED.findall(text)) or {name for name in odd if name in text}
        if calls:
            raise Unclear(f"the function {min(calls)}")
        met = {other for name, other in definitions if (name in words if _WORD.fullmatch(name) else name in text)}
        waiting += met - seen
        seen |= met


_WORD: Final = re.compile(r"\w+")


def _plain(text: str) -> str:
    """A text in lower case, quotes inside of names as they are in names."""
    return fold(text).replace('""', '"')


def tables_read(cursor: duckdb.DuckDBPyConnection, query: str) -> frozenset[tuple[str, str, str]]:
    """Database, schema and name of every table that a query reads, however it comes to it.

    Raises:
        Unclear: DuckDB cannot bind it, or the plan has a part that is not known.
    """
    try:
        text = cursor.execute("SELECT system.main.json_serialize_plan($1)", [query]).fetchall()[0][0]
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        raise Unclear("what DuckDB cannot bind") from None
    try:
        plan = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise Unclear("what is nested too deeply") from None
    if plan.get("error") is not False or len(plan.get("plans", ())) != 1:
        raise Unclear("what has no plan that can be checked")
    return frozenset(_tables_of(plan["plans"]))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise Unclear("a plan with two parts of one name")
    return mapping


def _tables_of(part: Any) -> Iterator[tuple[str, str, str]]:
    """The tables in a part of a plan.

    Raises:
        Unclear: it is of a kind that is not known.
    """
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            step, expression = str(part.get("type", "")), part.get("expression_class")
            if step.startswith("LOGICAL_") and step not in _STEPS:
                raise Unclear(step.removeprefix("LOGICAL_").replace("_", " "))
            if expression is not None and expression not in _EXPRESSIONS:
                raise Unclear(str(expression).removeprefix("BOUND_").replace("_", " "))
            name = _function(part)
            if (expression == "BOUND_CAST" or name == "__cast") and "ENUM_TYPE_INFO" in json.dumps(part["return_type"]):
                raise Unclear("a cast to an ENUM")  # it tells whether a text is among the members
            if step == "LOGICAL_GET":
                yield _table(part, name)
            elif name and name.lower() not in _FUNCTIONS:
                raise Unclear(f"the function {name}")
            elif not name and (expression in ("BOUND_FUNCTION", "BOUND_AGGREGATE") or step == "WINDOW_AGGREGATE"):
                raise Unclear("a function without a name")
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _function(part: Mapping[str, Any]) -> str:
    """The name of the function that a part of a plan calls, which is DuckDB's own; empty if it calls none.

    Raises:
        Unclear: it is of somebody's schema.
    """
    if "arguments" not in part and "function_data" not in part:
        return ""
    if "qname" in part:  # from DuckDB 2 on
        *place, name = part["qname"]["path"] or [""]
    else:
        place, name = [part.get("catalog_name"), part.get("schema_name")], part.get("name")
    if [other for other in place if other] not in ([], ["system", "main"]):
        raise Unclear(f"the function {name}")
    return str(name or "")


def _table(part: Mapping[str, Any], function: str) -> tuple[str, str, str]:
    data = part.get("function_data")
    if function != "seq_scan" or not isinstance(data, dict):
        raise Unclear(f"the table function {function}")
    return str(data["catalog"]), str(data["schema"]), str(data["table"])
