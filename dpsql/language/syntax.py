"""SQL text to statements, by sqlglot; what is too long or nested too deeply is refused."""

from __future__ import annotations

import re
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.errors import InvalidQuery
from dpsql.language.refusal import INSTEAD
from dpsql.language.value_types import check_nesting
from dpsql.language.written import parsed
from dpsql.runtime.process_settings import deep_recursion

_LONGEST: Final = 200_000  # characters
_MOST_CONDITIONS: Final = 12_000
_DEEPEST_NODES: Final = 300
_CONDITION: Final = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def parse_statements(text: str) -> list[exp.Expr]:
    """The statements of a text.

    Raises:
        InvalidQuery: no SQL, too long, or nothing in it.
    """
    if len(text) > _LONGEST:
        raise InvalidQuery(f"the query has {len(text)} characters, more than {_LONGEST}: split it")
    plain = text.lower().count(" or ") + text.lower().count(" and ")
    if plain > _MOST_CONDITIONS or len(_CONDITION.findall(text)) > _MOST_CONDITIONS:
        raise InvalidQuery(f"the query has more than {_MOST_CONDITIONS} times AND or OR: say x IN (…) instead")
    try:
        check_nesting(sqlglot.tokenize(text, read="duckdb"))
        with deep_recursion():
            statements = parsed(text)
    except SqlglotError as error:
        raise InvalidQuery(f"query: {first_line(error)}; {INSTEAD}") from None
    except RecursionError:
        raise InvalidQuery("query: nested too deeply") from None
    if not statements:
        raise InvalidQuery(f"the query is empty; {INSTEAD}")
    return statements


def check_depth(tree: exp.Expr) -> list[exp.Expr]:
    """Refuse what is nested too deeply: a chain of one operator, as x OR y OR …, counts as one.

    Returns:
        All nodes, what is outside first.
    """
    nodes = list(tree.bfs())
    if len(nodes) <= _DEEPEST_NODES:
        return nodes
    depths = {id(tree): 1}
    for node in nodes:
        for child in node.iter_expressions():
            chained = isinstance(node, exp.Binary) and type(node) is type(child)
            depths[id(child)] = depth = depths[id(node)] + (0 if chained else 1)
            if depth > _DEEPEST_NODES:
                raise InvalidQuery(
                    f"query: nested too deeply: more than {_DEEPEST_NODES} expressions inside one another"
                )
    return nodes


def first_line(error: Exception) -> str:
    """An error's first line without colours."""
    return re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0].rstrip(".")
