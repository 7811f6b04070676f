"""How large the values of an expression can get, told from its text: what would fill the memory is refused unseen.

DuckDB bounds neither the memory of a single text nor the time that one function takes on it, and stops at an interrupt
only between vectors of rows. So a text is taken to have at most 200 characters in a column of a table, as many as it
shows in a constant, and as many as its parts together in all else, times what some functions can add to each character.
A query in FROM of another hands its sizes on: see `check_levels`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from dpsql.core.functions import TIMES_LONGER, having
from dpsql.core.functions import Trait as T
from dpsql.core.names import fold
from dpsql.errors import InvalidQuery
from dpsql.language.refusal import words_of
from dpsql.language.syntax import check_depth
from dpsql.language.value_types import check_types

LAVISH: Final = having(T.LENGTH | T.GIVEN | T.LEVELS | T.SQL)
"""Functions whose results can be of any size, or that call others or themselves: no expression may use them."""
LONGEST: Final = 100_000
"""Characters of a value."""
_COLUMN: Final = 200  # characters
NUMBER: Final = 70
"""Of a number, a date, a digest, …"""
_BESIDE: Final = 4  # quotes of a value inside another, and what is between it and the next
_MOST_COMPARED: Final = 100_000  # pairs of characters
_IN_PAIRS: Final = having(T.SQUARE) - LAVISH
"""Functions that compare each character of one text with each of another."""
_CHOSEN: Final = frozenset({"list_select", "array_select"})
"""Functions that show the values of a list as often as they are asked to."""
_NO_VALUES: Final = (exp.DataType, exp.DataTypeParam, exp.Var, exp.IntervalSpan)
_FIRST_ALONE: Final = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.Ordered)
_INSIDE: Final = (exp.Array, exp.Struct, exp.Tuple)


class Columns:
    """The most characters of the columns that an expression can name."""

    def __init__(self, sizes: Sequence[tuple[str, int]] | None = None) -> None:
        self._is_open = sizes is None  # names are of tables' columns
        self._sizes: dict[str, int] = {}
        self._all = 0
        self._add(sizes or ())

    def _add(self, sizes: Sequence[tuple[str, int]]) -> None:
        for name, size in sizes:
            self._sizes[fold(name)] = max(size, self._sizes.get(fold(name), 0))
            self._all += 2 * (size + len(name) + _BESIDE)

    def of(self, node: exp.Expr) -> int:
        """Of a column; of `*`, and of a name that may be a table's, all of them."""
        if self._is_open:
            return _COLUMN
        size = self._sizes.get(fold(node.name))
        is_field = fold(node.text("table")) in self._sizes
        return self._all if size is None or is_field or isinstance(node, exp.Star) else size

    def add(self, name: str, size: int) -> None:
        """Add one, which may have the name of another."""
        self._add([(name, size)])


def refuse_lavish(called: str) -> NoReturn:
    """Refuse a call of one of `LAVISH`."""
    raise InvalidQuery(
        f"query: {called}(…) cannot be used: what it makes can be of any size, or it calls others or itself"
    )


def check_sizes(trees: Sequence[exp.Expr], columns: Columns | None = None) -> list[int]:
    """Refuse expressions whose values could be too large to be tried, or that are too many inside one another.

    Types that are not listed are refused too.

    Args:
        trees: the expressions.
        columns: what they can name; columns of tables if it is left out.

    Returns:
        The most characters of each.

    Raises:
        InvalidQuery: with the part that is too large.
    """
    columns = columns or Columns()
    lengths = []
    for tree in trees:
        nodes = check_depth(tree)
        check_types(tree)
        sizes: dict[int, int] = {}
        for node in reversed(nodes):  # what is inside first
            sizes[id(node)] = size = _size(node, sizes, columns)
            if size > LONGEST and not node.is_star:  # `*` is several columns
                _refuse(node, f"could be texts of {float(size):.2g} characters, more than {LONGEST}")
        lengths.append(sizes[id(tree)])
    return lengths


def check_levels(select: exp.Select, groups: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Refuse a query around groups whose values could be too large, with those of the queries in its FROM.

    Args:
        select: it, with its FROM.
        groups: the names of the groups' columns, and the most characters of each.

    Returns:
        The same of its own columns, where names are known.

    Raises:
        InvalidQuery: with the part that is too large.
    """
    inner = _item(select.args["from_"].this, groups)
    seen, columns = Columns(inner), list[tuple[str, int]]()
    for item in select.expressions:
        (size,) = check_sizes([item], seen)
        if item.is_star:
            columns += [*inner, *_replaced(item, seen)]
            continue
        name = item.alias_or_name or item.sql(dialect="duckdb")
        columns.append((name, size))
        seen.add(name, size)  # later items can name it
    rest = [part for name in ("where", "group", "having", "qualify", "order") if (part := select.args.get(name))]
    check_sizes([child for part in rest for child in part.iter_expressions()], seen)
    return columns or list(inner)


def _replaced(star: exp.Expr, seen: Columns) -> list[tuple[str, int]]:
    """The columns that REPLACE and RENAME of a `*` name."""
    columns = []
    for alias in star.find_all(exp.Alias):
        (size,) = check_sizes([alias.this], seen)
        columns.append((alias.alias, size))
    return columns


def _item(item: exp.Expr, groups: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The columns of what stands in FROM."""
    inside = item
    while isinstance(inside, exp.Subquery):
        inside = inside.this
    columns = list(groups) if not isinstance(inside, exp.Select) else check_levels(inside, groups)
    alias = item.args.get("alias")
    renamed = alias.args.get("columns") or () if alias is not None else ()
    if renamed:
        most = max((size for _, size in columns), default=0)
        columns += [(column.name, most) for column in renamed]  # beside the others, whose places are not looked at
    return columns


def _size(node: exp.Expr, sizes: Mapping[int, int], columns: Columns) -> int:
    """The most characters of a node's value, from those of what is inside."""
    inside = [sizes[id(child)] for child in node.iter_expressions()]
    name = _name(node)
    if name in LAVISH:
        refuse_lavish(name)
    if name in _IN_PAIRS and math.prod(inside) > _MOST_COMPARED:
        _refuse(node, "compares texts that are too long")
    if isinstance(node, exp.Lambda | exp.Comprehension):
        _refuse(node, "is a function of its own")
    if isinstance(node, exp.Literal | exp.Identifier):
        return len(node.name) if node.args.get("is_string") is not False or node.is_int else NUMBER
    if isinstance(node, exp.Column | exp.Star):
        return columns.of(node)
    if isinstance(node, exp.Subquery):
        return _COLUMN
    if isinstance(node, _NO_VALUES):
        return 0
    if isinstance(node, exp.Paren | exp.Alias):
        return inside[0]
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Count) or name in _IN_PAIRS:
        return NUMBER
    return max(NUMBER, _made(node, name, inside, sizes))


def _made(node: exp.Expr, name: str, inside: Sequence[int], sizes: Mapping[int, int]) -> int:
    """The most characters of what a function makes of what is inside."""
    if isinstance(node, exp.Case | exp.If | exp.Coalesce):
        return max(inside, default=0)
    if isinstance(node, _FIRST_ALONE):
        return inside[0]
    if isinstance(node, exp.Pad | exp.Repeat):
        return _repeated(node, inside)
    if isinstance(node, exp.Replace | exp.RegexpReplace):
        replacement = node.args.get("replacement")
        return (inside[0] + 1) * max(1, 0 if replacement is None else sizes[id(replacement)])
    if isinstance(node, exp.ConcatWs):
        return (inside[0] + 1) * (sum(inside[1:]) + 1)
    if name in _CHOSEN:
        return math.prod(inside)
    if isinstance(node, exp.Max | exp.Min | exp.ArgMax | exp.ArgMin) and node.args.get("count") is not None:
        return 2 * (inside[0] + _BESIDE) * _number(node, node.args["count"])
    if isinstance(node, exp.PercentileCont | exp.PercentileDisc | exp.Quantile | exp.WithinGroup):
        return inside[0] if inside[1:] in ([], [NUMBER]) else math.prod(size + _BESIDE for size in inside)
    if isinstance(node, _INSIDE):
        return 2 * (sum(inside) + _BESIDE * (len(inside) + 1))
    if isinstance(node, exp.Cast):
        return sum(inside) * _times_of_type(node.to)
    return (sum(inside) + _BESIDE) * _times().get(name if isinstance(node, exp.Anonymous) else type(node), 1)


def _times_of_type(kind: exp.DataType) -> int:
    """How many characters a value can have for one of the text that is cast to this type."""
    if kind.is_type(exp.DataType.Type.BIT):
        return 8
    return 6 if kind.is_type(*exp.DataType.NESTED_TYPES) else 1


@lru_cache(maxsize=1)
def _times() -> Mapping[type[exp.Expr] | str, int]:
    """`TIMES_LONGER` by the names of functions that sqlglot does not know, and by its classes of the others."""
    factors: dict[type[exp.Expr] | str, int] = {}
    for name, times in TIMES_LONGER.items():
        node = sqlglot.parse_one(f"{name}(x, y)", read="duckdb", error_level=ErrorLevel.IGNORE)
        key = name if isinstance(node, exp.Anonymous) else type(node)
        factors[key] = max(times, factors.get(key, 1))
    return factors


def _repeated(node: exp.Expr, inside: Sequence[int]) -> int:
    """Of a text that is padded, or repeated: the width must be there to be read."""
    width = node.args.get("expression") if isinstance(node, exp.Pad) else node.args.get("times")
    if width is None:
        _refuse(node, "can be of any length: give a whole number as its width")
    number = _number(node, width)
    return max(inside[0], 1) * number if isinstance(node, exp.Repeat) else number


def _number(node: exp.Expr, width: exp.Expr) -> int:
    if not isinstance(width, exp.Literal) or width.is_string or not width.this.isdigit():
        _refuse(node, "can be of any length: give a whole number as its width")
    return int(width.this)


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_names()[0].lower() if isinstance(node, exp.Func) else ""


def _refuse(node: exp.Expr, why: str) -> NoReturn:
    raise InvalidQuery(f"query: {words_of(node)} {why}")
