"""The tables of a FROM clause in the order in which they are joined: the protected one first, none in parentheses.

    FROM (a JOIN b ON …) JOIN c ON …             a JOIN b ON … JOIN c ON …
    FROM a JOIN (b JOIN c ON …) ON …             a, b, c, and the conditions in WHERE
    FROM public JOIN protected ON …              protected JOIN public ON …
    FROM public, public, protected WHERE …       protected, public, public WHERE …

A join without ON waits until a condition of WHERE names its key: see `dpsql.language.from_clause`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.language.expressions import conjuncts_of
from dpsql.language.place import Place, check_plain
from dpsql.language.refusal import refuse, words_of

OF_JOIN: Final = ("this", "on", "using", "side", "kind", "method")
INSTEAD: Final = "join public tables on their key, many rows to one: FROM protected JOIN public ON public.key = …"
PRESERVED: Final = "dpsql_preserved"  # of a join: all rows of its public table are groups, as LEFT JOIN has it


def without_parentheses(select: exp.Select) -> exp.Select:
    """The same SELECT with no joins in parentheses."""
    origin = select.args.get("from_")
    joins = select.args.get("joins") or []
    if origin is None or not any(_joins_inside(item) for item in (origin.this, *(join.this for join in joins))):
        return select
    first, *made = _opened(origin.this)
    conditions: list[exp.Expr] = []
    for join in joins:
        if _joins_inside(join.this):
            table, *inner = _opened(join.this)
            outer = join.copy()
            outer.set("this", table)
            made += _made_loose([outer, *inner], conditions)  # type: ignore[list-item]
        else:
            made.append(join.copy())
    return _with_items(select, first, made, conditions)  # type: ignore[arg-type]


def _joins_inside(item: exp.Expr) -> list[exp.Join]:
    """The joins in the parentheses of an item of FROM that has no name of its own."""
    while isinstance(item, exp.Subquery | exp.Paren) and isinstance(item.this, exp.Subquery | exp.Table):
        if item.args.get("alias"):
            return []
        if isinstance(item.this, exp.Table):
            return item.this.args.get("joins") or []
        item = item.this
    return []


def _opened(item: exp.Expr) -> list[exp.Expr]:
    """A table and the joins to it, of an item of FROM."""
    if not _joins_inside(item):
        return [item.copy()]
    while not isinstance(item, exp.Table):
        check_plain(item, ("this",))
        item = item.this
    plain = item.copy()
    plain.set("joins", None)
    trees: list[exp.Expr] = [plain]
    for join in item.args["joins"]:
        if _joins_inside(join.this):
            refuse(join, "joins in parentheses inside others are not supported", "leave the inner parentheses out")
        trees.append(join.copy())
    return trees


def protected_first(select: exp.Select, place: Place) -> exp.Select:
    """The same SELECT with its protected table first in FROM, where public tables stand before it."""
    joins = select.args.get("joins") or []
    origin = select.args.get("from_")
    if origin is None or not joins:
        return select
    items = [origin.this, *(join.this for join in joins)]
    if not place.is_public(items[0]):
        keeps = joins[0].side == "RIGHT" and not joins[0].method and place.is_public(items[1])
        return _with_items(select, items[0], [_preserving(joins[0]), *joins[1:]], []) if keeps else select
    first = next((n for n, item in enumerate(items) if not place.is_public(item)), None)
    if first is None:
        return select
    conditions: list[exp.Expr] = []
    if first == 1:
        made = [_turned(joins[0], items[0])]
    else:
        before = [exp.Join(this=items[0]), *(join.copy() for join in joins[:first])]
        made = _made_loose(before, conditions)[:-1]
    return _with_items(select, items[first], [*made, *joins[first:]], conditions)


def _turned(join: exp.Join, public: exp.Expr) -> exp.Join:
    """A join of a protected table to a public one, from its other side."""
    if join.side not in ("", "LEFT", "RIGHT") or join.kind not in ("", "OUTER" if join.side else "INNER", "CROSS"):
        refuse(join, f"{words_of(join)} before the protected table is not supported", INSTEAD)
    new_join = _preserving(join) if join.side == "LEFT" and not join.method else join.copy()
    if join.side == "LEFT" and join.method:
        refuse(join, f"{words_of(join)} before the protected table is not supported", "say LEFT JOIN … USING (…)")
    new_join.set("this", public.copy())
    if join.side == "RIGHT":
        new_join.set("side", "LEFT")
    return new_join


def _preserving(join: exp.Join) -> exp.Join:
    """A join of which the public table's rows are all groups."""
    new_join = join.copy()
    new_join.set("side", None)
    new_join.set("kind", None)
    new_join.meta[PRESERVED] = True
    return new_join


def _made_loose(joins: Sequence[exp.Join], conditions: list[exp.Expr]) -> list[exp.Join]:
    """Inner joins without their conditions, which are added to others."""
    made = []
    for join in joins:
        check_plain(join, OF_JOIN)
        if join.side or join.method or join.kind not in ("", "INNER", "CROSS"):
            refuse(join, f"{words_of(join)} before the protected table or in parentheses is not supported", INSTEAD)
        if join.args.get("using"):
            refuse(join, "USING before the protected table or in parentheses is not supported", "say ON a.key = b.key")
        if join.args.get("on"):
            conditions.append(join.args["on"])
        made.append(exp.Join(this=join.this.copy()))
    return made


def is_loose(join: exp.Join) -> bool:
    """Whether it has no condition of its own: a comma or CROSS JOIN, whose condition is in WHERE."""
    has_own = join.args.get("on") or join.args.get("using") or join.method or join.side
    return not has_own and join.kind in ("", "CROSS")


def with_conditions(select: exp.Select, conditions: Sequence[exp.Expr]) -> exp.Select:
    """A SELECT whose WHERE is these conditions."""
    rewrite = select.copy()
    tree = exp.and_(*(exp.Paren(this=tree.copy()) for tree in conditions), copy=False) if conditions else None
    rewrite.set("where", None if tree is None else exp.Where(this=tree))
    return rewrite


def _with_items(
    select: exp.Select, first: exp.Expr, joins: Sequence[exp.Join], conditions: Sequence[exp.Expr]
) -> exp.Select:
    """A SELECT with another FROM, and more conditions."""
    rewrite = select
    if conditions:
        where = select.args.get("where")
        more = [part for tree in conditions for part in conjuncts_of(tree)]
        rewrite = with_conditions(select, [*([] if where is None else conjuncts_of(where.this)), *more])
    rewrite = rewrite.copy()
    rewrite.set("from_", exp.From(this=first.copy()))
    rewrite.set("joins", [join.copy() for join in joins])
    return rewrite
