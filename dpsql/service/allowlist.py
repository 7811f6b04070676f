"""Which statements may run: one SELECT, decided on DuckDB's own parse tree by lists of what is known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import duckdb

from dpsql.core.roles import SERVED
from dpsql.errors import DpsqlError

from .allowed import EXPRESSIONS, FUNCTIONS, PARTS, SCHEMAS, TABLE_FUNCTIONS, VIEWS
from .audit import LONG_TEXT
from .catalogue import FUNCTIONS as OF_POSTGRES
from .catalogue import TABLE_FUNCTIONS as PG_TABLE_FUNCTIONS
from .catalogue import TEXTS
from .copies import Macros
from .parse_tree import open_parser, parsed
from .tables_read import all_of_catalogue
from .titles import Titles, titles

LONGEST: Final = 100_000
_DEEPEST: Final = 500
_MOST_NAMES: Final = 32
"""In a row, such as a.b.c: DuckDB binds thousands of them for minutes, and cannot be interrupted in it."""
_MOST_LAMBDAS: Final = 10
"""In one another: DuckDB takes twice the time and memory for each. It reads an arrow of JSON as one, too."""
_CONSTANTS: Final = frozenset({"CONSTANT", "PARAMETER", "CAST", "TYPE", "COMPARISON", "COLUMN_REF"})
"""Expressions of arguments; a name before `:=` is a COMPARISON of a COLUMN_REF."""
_PURE: Final = frozenset({"list_value", "-", "+", "*", "/", "||"})
_SHOWN: Final = frozenset({"DESCRIBE", "SUMMARY"})
_LISTS: Final = frozenset({"SHOW_UNQUALIFIED", "SHOW_SPECIAL"})
_OURS: Final = frozenset({"pgx", "pgi"})
_OF_PGI: Final = frozenset(name for name in OF_POSTGRES if name.startswith("_pg"))
_CALLED_OF: Final = {"pgx": OF_POSTGRES - _OF_PGI, "pgi": _OF_PGI}
_OURS_BEGIN: Final = "dpsql_"
_MOST_WRITTEN: Final = 300_000
"""Expressions of a statement, once DuckDB has written out the text of each function of Postgres' in its place."""
Places = frozenset[tuple[str, str]]
"""Schemas and names of tables, in lower case."""
_OF_FILES: Final = "./\\:*?"
"""What DuckDB could take for the name of a file."""


class NotAllowed(DpsqlError):
    """The statement is not one that is served."""


@dataclass(frozen=True)
class Checked:
    """A statement that may run.

    Attributes:
        sql: what runs.
        calls: whether it calls dp_* functions.
        explains: whether it only explains.
        titles: of its columns, where they are to be PostgreSQL's.
        looks_up: whether it is too long for a line of the audit log, and reads the catalogue alone.
    """

    sql: str
    calls: bool
    explains: bool = False
    titles: Titles | None = None
    looks_up: bool = False


class AllowList:
    """Parses with an empty DuckDB of its own, and looks at every node.

    Args:
        titled: whether columns without a name get PostgreSQL's.
    """

    def __init__(self, *, titled: bool = False) -> None:
        self._titled = titled
        self._parser = open_parser()
        self._lock = threading.Lock()

    @cached_property
    def _macros(self) -> Macros:
        return Macros(TEXTS, _OURS, self._parser.cursor())

    def interrupt(self) -> None:
        """End what is being read."""
        self._parser.interrupt()

    def check(self, sql: str, places: Places = frozenset()) -> Checked:
        """The statement, if it may run.

        Args:
            sql: its text.
            places: the tables that the user is shown in schemas of their own.

        Raises:
            NotAllowed: with the reason.
            duckdb.ParserException: it is no SQL.
        """
        check_length(sql)
        if sql.count("(") > _DEEPEST:
            raise NotAllowed(f"the statement has more than {_DEEPEST} parentheses")
        with self._lock:
            statements = self._parser.extract_statements(sql)
            if len(statements) != 1:
                raise NotAllowed("one statement at a time, and a SELECT (PIVOT is several)")
            kind, selects = statements[0].type, sql
            if kind == duckdb.StatementType.EXPLAIN:
                selects = _explained(sql)
            elif kind != duckdb.StatementType.SELECT:
                raise NotAllowed(f"{kind.name} is not served: only SELECT is")
            tree = parsed(self._parser, selects)
        if tree.get("error"):
            raise NotAllowed(f"only SELECT is served: {tree.get('error_message', 'it cannot be read')}")
        described: list[str] = []
        called = [name for name in _calls(tree["statements"], described, places) if name in SERVED]
        if self._macros.size(tree["statements"]) > _MOST_WRITTEN:
            raise NotAllowed("functions are called in too many calls of one another: use WITH")
        if self._macros.lambdas(tree["statements"]) > _MOST_LAMBDAS:
            raise NotAllowed(
                f"more than {_MOST_LAMBDAS} lambdas are in one another, with those of the functions: use WITH"
            )
        if called and described:
            raise NotAllowed(f"DESCRIBE of {described[0]} stands alone: it tells the columns, and charges nothing")
        explains = kind == duckdb.StatementType.EXPLAIN
        # what runs is the text that was looked at: ours and DuckDB's reading of comments may differ
        titled = titles(tree["statements"]) if self._titled and not explains else None
        looks_up = len(sql) > LONG_TEXT and all_of_catalogue(tree["statements"])
        return Checked(f"EXPLAIN {selects}" if explains else sql, bool(called), explains, titled, looks_up)


def check_length(sql: str) -> None:
    """Refuse a text that is too long to be read, before anything reads it.

    Raises:
        NotAllowed: with the longest.
    """
    if len(sql) > LONGEST:
        raise NotAllowed(f"the statement has {len(sql)} characters: {LONGEST} is the most")


def _explained(sql: str) -> str:
    """What an EXPLAIN explains.

    Raises:
        NotAllowed: it would run it, or has options.
    """
    from .tokens import tokens

    rest = tokens(sql)
    while rest and rest[0][0] == "space":
        rest.pop(0)
    rest.pop(0)
    words = [text.upper() for kind, text in rest if kind != "space"]
    if words[:1] == ["ANALYZE"] or words[:1] == ["ANALYSE"] or words[:1] == ["("]:
        inner = "".join(text for _, text in rest).lstrip()
        if words[:1] != ["("] or not inner[1:].lstrip().upper().startswith(("SELECT", "FROM", "WITH", "VALUES", "(")):
            raise NotAllowed(
                "EXPLAIN is served without ANALYZE and without options, because ANALYZE runs the statement"
            )
    return "".join(text for _, text in rest)


def _calls(tree: Any, described: list[str], places: Places) -> Iterator[str]:
    """Check every node; yields the names of table functions that are called.

    Args:
        tree: of DuckDB's parser.
        described: gets the names of dp_* functions of which only the columns are asked for.
        places: see `AllowList.check`.
    """
    waiting = [(tree, 0)]
    while waiting:
        node, lambdas = waiting.pop()
        if isinstance(node, list):
            waiting += [(part, lambdas) for part in node]
        if not isinstance(node, dict):
            continue
        kind = node.get("type")
        _kind(node)
        lambdas += node.get("class") == "LAMBDA"
        if lambdas > _MOST_LAMBDAS:
            raise NotAllowed(f"more than {_MOST_LAMBDAS} lambdas or arrows (->) are in one another: name some by WITH")
        if kind == "TABLE_FUNCTION":
            name = _table_function(node["function"])
            yield name
            waiting += [(argument, lambdas) for argument in _arguments(node["function"])]
            if name in SERVED:
                _constant(name, _arguments(node["function"]))
            waiting += [(value, lambdas) for name, value in node.items() if name != "function"]
            continue
        if kind == "BASE_TABLE":
            _table(node, places)
        elif kind == "SHOW_REF":
            _shown(node, places)
            if node.get("show_type") == "DESCRIBE":
                described += [name for name in _calls(node.get("query"), described, places) if name in SERVED]
                continue
        elif node.get("class") in ("FUNCTION", "WINDOW"):
            _function(node)
        elif len(node.get("column_names") or ()) > _MOST_NAMES:
            raise NotAllowed(f"{'.'.join(node['column_names'][:3])}.… has more than {_MOST_NAMES} names")
        elif "function_name" in node and "class" not in node:
            raise NotAllowed(f"{node['function_name']} may not be called")
        waiting += [(value, lambdas) for value in node.values()]


def _kind(node: dict[str, Any]) -> None:
    """Refuse a part of a statement that is not in the list, such as a DELETE in a WITH."""
    kind, allowed_kinds = (node["class"], EXPRESSIONS) if "class" in node else (node.get("type"), PARTS)
    if isinstance(kind, str) and kind not in allowed_kinds:
        raise NotAllowed(f"only SELECT is served: {kind.removesuffix('_NODE').replace('_', ' ')} may not be in it")


def _arguments(function: dict[str, Any]) -> list[Any]:
    return [value for name, value in function.items() if name not in ("function_name",)]


def _constant(name: str, arguments: list[Any]) -> None:
    """Refuse arguments of a dp_* function that are not written out: what is charged for is what the statement says."""
    waiting = list(arguments)
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        if isinstance(node, dict):
            waiting.extend(node.values())
            kind = node.get("class")
            if kind == "FUNCTION" and str(node.get("function_name", "")).lower() in _PURE:
                continue
            if kind is not None and kind not in _CONSTANTS:
                raise NotAllowed(f"the arguments of {name} are constants or parameters: write the values out")


def _table_function(function: dict[str, Any]) -> str:
    name = str(function.get("function_name", "")).lower()
    place = (function.get("catalog") or "", function.get("schema") or "")
    functions = TABLE_FUNCTIONS if place == ("", "") else PG_TABLE_FUNCTIONS if place == ("", "pgx") else ()
    if function.get("class") != "FUNCTION" or name not in functions:
        raise NotAllowed(f"{function.get('function_name')} may not be called")
    return name


def _table(node: dict[str, Any], places: Places) -> None:
    name, schema = str(node.get("table_name", "")), str(node.get("schema_name") or "").lower()
    catalog = str(node.get("catalog_name") or "").lower()
    if catalog not in ("", "memory") or (schema, name.lower()) not in places:
        _check_readable(catalog, schema, name, frozenset(own for own, _ in places))
    if node.get("at_clause"):
        raise NotAllowed(f"{name} has no earlier versions")


def _check_readable(catalog: str, schema: str, name: str, shown: frozenset[str] = frozenset()) -> None:
    """Refuse what is not in the schemas that may be read, DuckDB's own views in them, and names of files."""
    if catalog not in ("", "memory") or schema not in SCHEMAS | shown:
        raise NotAllowed(f"{'.'.join(filter(None, (catalog, schema, name)))} may not be read")
    if schema not in _OURS and _is_own(name):
        raise NotAllowed(f"{name} may not be read")


def _is_own(name: str) -> bool:
    """Whether a name is a view of DuckDB's, or of ours, or could be a file's."""
    plain = name.lower()
    return plain in VIEWS or plain.startswith(_OURS_BEGIN) or any(sign in name for sign in _OF_FILES)


def _shown(node: dict[str, Any], places: Places) -> None:
    name = str(node.get("table_name") or "")
    listed = node.get("show_type") in _LISTS
    place = (node.get("catalog_name") or "", node.get("schema_name") or "")
    if not any(place[:1]) and (place[1].lower(), name.lower()) in places and node.get("show_type") in _SHOWN:
        return
    if any(place) or (node.get("show_type") not in _SHOWN and not listed) or (listed and name != '"tables"'):
        raise NotAllowed("of SHOW, SHOW TABLES and DESCRIBE are served")
    if name and not listed:
        _check_readable("", "", name)


def _function(node: dict[str, Any]) -> None:
    name, schema = str(node.get("function_name", "")).lower(), str(node.get("schema") or "").lower()
    if node.get("catalog") not in (None, "") or schema not in ("", "main", *_OURS):
        raise NotAllowed(f"{schema}.{name} may not be called")
    # all names are known, those of our schemas, too: where a column is named as the schema, a name that is not in the
    # schema is DuckDB's own function, with the column as its argument
    if name not in _CALLED_OF.get(schema, FUNCTIONS):
        hint = ": it gives rows, so it stands behind FROM" if name in SERVED else ""
        raise NotAllowed(f"{name} may not be called{hint}")
