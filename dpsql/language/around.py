"""What a query says around a query of groups: `SELECT avg(n) FROM (SELECT a, count(*) AS n FROM t GROUP BY a)`.

The groups are asked for, and charged, as by themselves. What is around them is work on released answers, so it is free.
It stays a text in the user's own words, in which `dpsql_groups` stands for the answers: DuckDB runs it in a database
where nothing else is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.names import fold, quote
from dpsql.errors import InvalidQuery
from dpsql.language.expressions import spelled
from dpsql.language.grouping import grouping_sets
from dpsql.language.place import Place
from dpsql.language.refusal import ALLOWED, OF_GROUPS, check_clauses, refuse
from dpsql.language.written import list_end_of, span_of

GROUPS: Final = "dpsql_groups"
_PARTS: Final = (
    exp.Alias, exp.Star, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Qualify, exp.Distinct, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup, exp.TableAlias, exp.Rollup,
    exp.Cube, exp.GroupingSets,
)  # fmt: skip
_REFUSED: Final = (exp.Query, exp.Exists, exp.UDTF, exp.Lambda, exp.Columns)
_MOST_SETS: Final = 256  # DuckDB keeps a table of each at the same time
_UNNAMED: Final = "unnamed_subquery"  # as DuckDB calls it
_INSTEAD: Final = "ask for the groups, and say the rest around them: SELECT … FROM dp_query('…') JOIN …"


class GroupsInside(InvalidQuery):
    """A query of groups stands in FROM.

    Attributes:
        select: the query of groups.
        place: where it stands.
        node: what FROM says of it: itself, or the name of a view.
        within: what it says around groups in its own FROM.
    """

    def __init__(self, select: exp.Select, place: Place) -> None:
        self.select, self.place, self.within = select, place, ""
        self.node: exp.Expr = select
        try:
            refuse(select, "a query of groups inside FROM is not supported beside anything else", _INSTEAD)
        except InvalidQuery as refused:
            super().__init__(str(refused))


@dataclass(frozen=True)
class Around:
    """What stands around a query of groups.

    Attributes:
        words: a SELECT from `dpsql_groups`.
        shown: for each of its columns the column of the groups that it shows as it is, None for another; empty where
            that is not known.
        starred: whether it shows columns of the groups under their own names, and nothing else.
        hidden: names of the errors of the groups' columns, by the number of the column.
        longer: the same SELECT, with those errors behind its list; empty where its rows are no groups.
    """

    words: str
    shown: tuple[str | None, ...] = ()
    starred: bool = False
    hidden: tuple[tuple[int, tuple[str, str, str]], ...] = ()
    longer: str = ""


def is_grouped(select: exp.Select) -> bool:
    """Whether a query counts groups, and selects no rows."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    calls = (node for item in select.expressions for node in item.find_all(exp.AggFunc, exp.Anonymous))
    aggregates = (node for node in calls if isinstance(spelled(node), exp.AggFunc))
    return any(not _in_window(node, select) for node in aggregates)


def _in_window(node: exp.Expr, select: exp.Select) -> bool:
    """Whether an aggregate is the function of a window, or stands in a query inside."""
    inside, parent = node, node.parent
    while parent is not None and parent is not select:
        if isinstance(parent, exp.Query) or (isinstance(parent, exp.Window) and parent.this is inside):
            return True
        inside, parent = parent, parent.parent
    return False


def words_around(select: exp.Select, place: Place, inside: GroupsInside, within: str = "") -> str:
    """What a query says around a query of groups.

    Args:
        select: the whole query.
        place: where it stands, with its own WITH.
        inside: the query of groups.
        within: what that says itself around groups in its FROM; empty where it reads rows.

    Raises:
        InvalidQuery: it reads something else too, or says what is not answered.
    """
    inside.within = within
    words = _words(select, place, inside)
    _check(words, inside)
    return words


def around(words: str, select: exp.Select, place: Place, inside: GroupsInside, noisy: Sequence[int | None]) -> Around:
    """The same, with what it shows of the groups.

    Args:
        words: of `words_around`.
        select: see there.
        place: likewise.
        inside: likewise.
        noisy: for each column of the groups the number of its answer, None for keys.
    """
    if not _is_next(select.args["from_"].this, place, inside):
        return Around(words)
    hidden = tuple(
        (number, (f"dpsql_{number}_stderr", f"dpsql_{number}_low", f"dpsql_{number}_high"))
        for number, answer in enumerate(noisy)
        if answer is not None
    )
    changed = any(select.args.get(name) for name in ("distinct", "kind")) or is_grouped(select)
    rows = not changed and not _reads_whole_rows(select, inside)
    items = select.expressions
    if len(items) == 1 and isinstance(items[0], exp.Star):
        changed = any(items[0].args.get(name) for name in ("replace", "rename"))
        return Around(words, starred=True, hidden=hidden, longer=words) if rows and not changed else Around(words)
    if any(item.is_star for item in items):
        return Around(words)
    trees = [item.unalias() for item in items]
    shown = tuple(tree.name if isinstance(tree, exp.Column) else None for tree in trees)
    names = [name for _, errors in hidden for name in errors]
    longer = _words(select, place, inside, names) if rows else ""
    return Around(words, shown, hidden=hidden, longer=longer)


def _is_next(item: exp.Expr, place: Place, inside: GroupsInside) -> bool:
    """Whether FROM names the groups themselves, and their columns as they do."""
    alias = item.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return False
    if isinstance(item, exp.Table) and place.is_named(item):
        query, columns, _ = place.named[fold(item.name)]
        return query is inside.node and not columns
    return item is inside.node or (isinstance(item, exp.Subquery) and item.this is inside.node)


def _reads_whole_rows(select: exp.Select, inside: GroupsInside) -> bool:
    """Whether a name of a table stands for all of its columns: the errors of the groups are none of them."""
    tables = {_UNNAMED, *(fold(item.alias_or_name) for item in select.find_all(exp.Table, exp.Subquery))}
    tables -= {fold(item.alias_or_name) for item in inside.select.expressions}  # a column's name comes first
    return any(not column.table and fold(column.name) in tables for column in select.find_all(exp.Column))


def _words(select: exp.Select, place: Place, inside: GroupsInside, more: Sequence[str] = ()) -> str:
    """A query in its own words, without its WITH, the groups by their name, and more names behind its list."""
    span, origin = span_of(select), select.args.get("from_")
    if span is None or origin is None or select.args.get("joins") or select.args.get("laterals"):
        raise inside
    _check_own(select)
    replaced = [_item(origin.this, place, inside)]
    if more:
        end = list_end_of(select)
        if end is None:
            raise inside
        (first, last), word = end
        replaced.append(((first, last), ", ".join((word, *more))))
    return span.text(replaced)


def _item(item: exp.Expr, place: Place, inside: GroupsInside) -> tuple[tuple[int, int], str]:
    """Where an item of FROM stands, and what stands there instead."""
    if isinstance(item, exp.Subquery):
        if not isinstance(item.this, exp.Select):
            return _item(item.this, place, inside)
        span = span_of(item.this)
        if span is None:
            raise inside
        return (span.start, span.end), _query(item.this, place.with_(item), inside)
    parts = [part.meta for part in item.parts] if isinstance(item, exp.Table) else []
    if not parts or any("start" not in part for part in parts):
        raise inside
    spot = min(part["start"] for part in parts), max(part["end"] for part in parts)
    alias = "" if item.alias else f" AS {quote(item.name)}"
    if item is inside.node:
        return spot, (f"({inside.within})" if inside.within else GROUPS) + alias
    if not place.is_named(item):
        raise inside
    query, columns, outside = place.named[fold(item.name)]
    words = _query(query, outside, inside)
    if columns:
        words = f"FROM ({words}) AS dpsql_named({', '.join(map(quote, columns))})"
    return spot, f"({words}){alias}"


def _query(query: exp.Expr, place: Place, inside: GroupsInside) -> str:
    if query is inside.node:
        return inside.within or f"FROM {GROUPS}"
    if not isinstance(query, exp.Select):
        raise inside
    return _words(query, place.with_(query), inside)


# --- what may be said -------------------------------------------------------------------------------------------------


def _check_own(select: exp.Select) -> None:
    """Refuse what is no plain work on the answers; which functions are allowed is checked where they would run.

    Raises:
        InvalidQuery: with the part.
    """
    check_clauses(select, OF_GROUPS | {"distinct"})
    for name, value in select.args.items():
        parts = value if isinstance(value, list) else [value]
        for part in parts if name not in ("from_", "with_") else ():
            for node in part.walk() if isinstance(part, exp.Expr) else ():
                if isinstance(node, _REFUSED) or not isinstance(node, (*ALLOWED, *_PARTS)):
                    _refuse(node)
    group = select.args.get("group")
    if group is not None:
        grouping_sets(group, _MOST_SETS)


def _check(words: str, inside: GroupsInside) -> None:
    """Refuse words that read anything but the groups, whatever was looked at in them.

    Raises:
        InvalidQuery: they do.
    """
    try:
        trees = sqlglot.parse(words, read="duckdb")
    except (SqlglotError, RecursionError):
        trees = []
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise inside
    groupings = [len(grouping_sets(group)) for group in trees[0].find_all(exp.Group)]
    if math.prod(groupings) > _MOST_SETS:
        raise InvalidQuery(
            f"query: there are more than {_MOST_SETS} grouping sets, all around groups together; list those that matter"
        )
    for node in trees[0].walk():
        outside = node.parent
        if isinstance(node, exp.Select) and (node.args.get("joins") or node.args.get("with_")):
            raise inside
        if isinstance(node, exp.Query | exp.Subquery) and outside is not None and not _stands_in_from(node):
            raise inside
        if isinstance(node, exp.Table) and (node.name != GROUPS or node.args.get("db")):
            raise inside
        if isinstance(node, (exp.SetOperation, *_REFUSED[1:])):
            raise inside


def _stands_in_from(node: exp.Expr) -> bool:
    """Whether a query is what FROM reads, in parentheses."""
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    return isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From)


def _refuse(node: exp.Expr) -> NoReturn:
    refuse(node, "this is not supported around a query of groups", "say it around: SELECT … FROM dp_query('…')")
