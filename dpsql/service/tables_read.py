"""Whether a statement reads nothing but the catalogue, by DuckDB's own parse tree of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import duckdb

from .allowed import TABLE_FUNCTIONS
from .parse_tree import TooDeep, open_parser, parsed

_CATALOGUE: Final = frozenset({"pgx", "pgi", "pg_catalog", "information_schema"})
"""Schemas without a row of a table. The first two stand for the others in a statement that runs."""
_LISTS: Final = frozenset({"SHOW_UNQUALIFIED", "SHOW_SPECIAL"})
_Scope = frozenset[str]
_parser = lru_cache(maxsize=1)(open_parser)


@lru_cache(maxsize=4096)
def reads_catalogue_alone(statement: str) -> bool:
    """Whether all tables of a statement are the catalogue's; no, where it cannot be read.

    A dp_* function is no table, because the keeper's log has its call.
    """
    try:
        tree = parsed(_parser(), statement)
        return not tree.get("error") and all_of_catalogue(tree["statements"])
    except (duckdb.Error, ValueError, TooDeep):
        return False


def all_of_catalogue(statements: Any) -> bool:
    """The same of statements that DuckDB's parser has read."""
    return not any(_is_table(node, scope) for node, scope in _nodes(statements))


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], _Scope]]:
    """Every node, with the names that WITH gave to queries where it stands: such a name is no table there."""
    waiting: list[tuple[Any, _Scope]] = [(tree, frozenset())]
    while waiting:
        node, scope = waiting.pop()
        if isinstance(node, list):
            waiting += [(child, scope) for child in node]
        if not isinstance(node, dict):
            continue
        yield node, scope
        inner = scope
        for entry in (node.get("cte_map") or {}).get("map", ()):
            waiting.append((entry["value"], inner))  # a query does not see its own name
            inner |= {str(entry["key"]).lower()}
        named = inner | {str(node["cte_name"]).lower()} if "cte_name" in node else inner
        for part, value in node.items():
            if part != "cte_map":  # of a query in WITH, the first part does not see its name either
                waiting.append((value, inner if part in ("query", "left") else named))


def _is_table(node: dict[str, Any], scope: _Scope) -> bool:
    """Whether a node reads rows of a table that is not the catalogue's."""
    kind = node.get("type")
    if kind == "TABLE_FUNCTION":
        function = node["function"]
        place = str(function.get("schema") or "").lower()
        return place not in _CATALOGUE and str(function.get("function_name")).lower() not in TABLE_FUNCTIONS
    if kind not in ("BASE_TABLE", "SHOW_REF") or (kind == "SHOW_REF" and node.get("show_type") in _LISTS):
        return False
    name, place = str(node.get("table_name") or "").lower(), str(node.get("schema_name") or "").lower()
    return bool(name) and place not in _CATALOGUE and (bool(place) or name not in scope)
