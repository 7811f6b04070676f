"""How large the values of an expression can get, told from its text: what would fill the memory is refused unseen.

DuckDB bounds neither the memory of a single text nor the time that one function takes on it, and stops at an interrupt
only between vectors of rows. So a text is taken to have at most 200 characters in a column, as many as it shows in a
constant, and as many as its parts together in all else, times what some functions can add to each character.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from sqlglot import exp

from dpsql.core.functions import TIMES_LONGER, having
from dpsql.core.functions import Trait as T
from dpsql.errors import InvalidQuery
from dpsql.language.syntax import check_depth
from dpsql.language.value_types import check_types

LAVISH: Final = having(T.LENGTH | T.GIVEN | T.LEVELS | T.SQL)
"""Functions whose results can be of any size, or that call others or themselves: no expression may use them."""
_COLUMN: Final = 200  # characters
_OTHER: Final = 50  # of a number, a date, …
_LONGEST: Final = 100_000
_MOST_COMPARED: Final = 100_000  # pairs of characters
_IN_PAIRS: Final = having(T.SQUARE) - LAVISH
"""Functions that compare each character of one text with each of another."""


def refuse_lavish(called: str) -> NoReturn:
    """Refuse a call of one of `LAVISH`."""
    raise InvalidQuery(
        f"query: {called}(…) cannot be used: what it makes can be of any size, or it calls others or itself"
    )


def check_sizes(trees: Sequence[exp.Expr]) -> None:
    """Refuse expressions whose values could be too large to be tried, or that are too many inside one another.

    Types that are not listed are refused too.

    Raises:
        InvalidQuery: with the part that is too large.
    """
    for tree in trees:
        nodes = check_depth(tree)
        check_types(tree)
        sizes: dict[int, int] = {}
        for node in reversed(nodes):  # what is inside first
            sizes[id(node)] = size = _size(node, sizes)
            if size > _LONGEST:
                _refuse(node, f"could be texts of {float(size):.2g} characters, more than {_LONGEST}")


def _size(node: exp.Expr, sizes: Mapping[int, int]) -> int:
    """The most characters of a node's value, from those of what is inside."""
    inside = [sizes[id(child)] for child in node.iter_expressions()]
    name = _name(node)
    if name in LAVISH:
        refuse_lavish(name)
    if name in _IN_PAIRS and math.prod(inside) > _MOST_COMPARED:
        _refuse(node, "compares texts that are too long")
    if isinstance(node, exp.Literal):
        return len(node.this) if node.is_string else _OTHER
    if isinstance(node, exp.Column | exp.Subquery):
        return _COLUMN
    if isinstance(node, exp.Lambda | exp.Comprehension):
        _refuse(node, "is a function of its own")
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not) or name in _IN_PAIRS:
        return _OTHER
    if isinstance(node, exp.Case | exp.If | exp.Coalesce):
        return max(inside, default=0)
    if isinstance(node, exp.Pad | exp.Repeat):
        return _repeated(node, inside)
    if isinstance(node, exp.Replace | exp.RegexpReplace):
        replacement = node.args.get("replacement")
        return (inside[0] + 1) * max(1, 0 if replacement is None else sizes[id(replacement)])
    return sum(inside) * TIMES_LONGER.get(name, 1) + (_OTHER if not inside else 0)


def _repeated(node: exp.Expr, inside: Sequence[int]) -> int:
    """Of a text that is padded, or repeated: the width must be there to be read."""
    width = node.args.get("expression") if isinstance(node, exp.Pad) else node.args.get("times")
    if not isinstance(width, exp.Literal) or width.is_string or not width.this.isdigit():
        _refuse(node, "can be of any length: give a whole number as its width")
    return max(inside[0], 1) * int(width.this) if isinstance(node, exp.Repeat) else int(width.this)


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_names()[0].lower() if isinstance(node, exp.Func) else ""


def _refuse(node: exp.Expr, why: str) -> NoReturn:
    raise InvalidQuery(f"query: {node.sql(dialect='duckdb')[:80]} {why}")
