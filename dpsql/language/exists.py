"""Conditions on units that ask their rows of a linked table: EXISTS, IN, and a number of rows.

    FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND v.ward = 2)
    FROM patients WHERE pid NOT IN (SELECT pid FROM visits)
    FROM patients WHERE pid IN (SELECT pid FROM visits GROUP BY pid HAVING count(*) > 2)
    FROM patients p WHERE (SELECT count(*) FROM visits v WHERE v.pid = p.pid) BETWEEN 2 AND 4

Each becomes a column of the units, which is a matter of one unit's rows alone. So rows that are units stay so, and a
count of them changes by 1 at most. A key that is NULL leads nowhere: NOT IN is NOT EXISTS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from dpsql.core.names import pick
from dpsql.core.of_unit import OfUnit
from dpsql.language.columns import ColumnNames
from dpsql.language.expressions import conjuncts_of, enclosed, sql_of, unwrapped
from dpsql.language.join_order import with_conditions
from dpsql.language.linked import reads_linked
from dpsql.language.place import Place
from dpsql.language.refusal import OF_ROWS, check_clauses, refuse
from dpsql.language.scope import OF_ORIGIN, Scope
from dpsql.language.unit_rows import is_sure, rows_of_units

ScopeOf = Callable[[exp.Select, Place], tuple[Scope, exp.Select]]
"""The rows that a SELECT reads, and what it says of them."""
_INSTEAD: Final = "say FROM units WHERE EXISTS (SELECT 1 FROM linked WHERE linked.key = units.key AND …)"


def with_units(scope: Scope, select: exp.Select, place: Place, scope_of: ScopeOf) -> tuple[Scope, exp.Select]:
    """A SELECT whose subqueries of linked tables are columns of its rows, and the scope that has these.

    Args:
        scope: its rows.
        select: what it says about them.
        place: where it stands.
        scope_of: what a FROM shows.

    Raises:
        InvalidQuery: its rows are not the units, or a subquery asks for something else of their rows.
    """
    asking = select.find_all(exp.In, exp.Exists, exp.EQ, exp.Subquery)
    if not any(_query_of(node, place) is not None for node in asking):
        return scope, select
    rewrite = select.copy()
    for clause in ("where", "expressions", "group", "having"):
        parts = rewrite.args.get(clause) or []
        for part in parts if isinstance(parts, list) else [parts]:
            for node in list(part.walk(prune=lambda child: isinstance(child, exp.Query))):
                query = _query_of(node, place)
                if query is not None and clause != "where":
                    refuse(node, "a subquery of linked tables is supported in WHERE only", _INSTEAD)
                if query is not None:
                    scope = _with_column(node, query, scope, place, scope_of)
    return scope, rewrite


def _query_of(node: exp.Expr, place: Place) -> exp.Select | None:
    """The query of linked tables that an expression asks; None of another."""
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        query = node.expression.this
    elif isinstance(node, exp.Exists):
        query = node.this
    elif isinstance(node, exp.In):
        query = node.args.get("query")
    else:
        query = (
            node
            if isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.In | exp.Exists | exp.Any)
            else None
        )
    while isinstance(query, exp.Subquery):
        query = query.this
    return query if isinstance(query, exp.Select) and reads_linked(query, place) else None


def _with_column(node: exp.Expr, query: exp.Select, scope: Scope, place: Place, scope_of: ScopeOf) -> Scope:
    """The scope with the column that an expression means, which stands in its place."""
    inner = query.copy()
    distinct = inner.args.get("distinct")
    if distinct is not None and not distinct.args.get("on"):
        inner.set("distinct", None)  # of values that are only looked for
    if inner.args.get("group") is not None and isinstance(node, exp.In | exp.EQ):
        return _among(node, inner, scope, place, scope_of)
    is_number = isinstance(node, exp.Subquery)
    if not is_number and any(item.find(exp.AggFunc, exp.Explode) is not None for item in inner.expressions):
        refuse(node, "an aggregate or unnest is not supported in what this subquery lists", "list the key, or 1")
    check_clauses(inner, OF_ROWS, inside=True)
    where = inner.args.get("where")
    clauses = conjuncts_of(None if where is None else where.this)
    own = {item.alias_or_name for item in (inner.args["from_"].this, *(j.this for j in inner.args.get("joins") or ()))}
    links = [pair for tree in clauses if (pair := _link(tree, scope, own)) is not None]
    rest = [tree for tree in clauses if _link(tree, scope, own) is None]
    rows, written = scope_of(with_conditions(inner, rest), place.with_(inner))
    names = ColumnNames(rows, ())
    if isinstance(node, exp.In | exp.EQ):
        compared = _listed(node.this)
        if len(compared) != len(written.expressions):
            refuse(node, "the subquery lists more or fewer columns than stand before it", "list the key")
        links += list(zip(compared, (item.unalias() for item in written.expressions), strict=True))
    if is_number and not _is_number(written.expressions):
        refuse(node, "this subquery in an expression is not supported", "say (SELECT count(*) FROM linked WHERE …)")
    units = place.catalog.units(rows.origin)
    if units is None or rows.keeps or rows.dimensions:
        refuse(node, "a subquery of this kind is not supported", _INSTEAD)
    outside = ColumnNames(scope, ())
    met = set()
    for mine, theirs in links:
        above = unwrapped(outside.over_rows(mine)) if isinstance(mine, exp.Column) else mine
        below = unwrapped(names.over_rows(theirs)) if isinstance(theirs, exp.Column) else theirs
        if not isinstance(above, exp.Column) or not isinstance(below, exp.Column):
            refuse(node, "a subquery of linked tables is of the unit's rows, by its key", _INSTEAD)
        if units.columns.get(below.name) != above.name:
            refuse(node, f"{sql_of(theirs)} = {sql_of(mine)} does not lead from rows to their units", _INSTEAD)
        met.add(above.name)
    if not units.keys <= met:
        refuse(node, "a subquery of linked tables is of the unit's rows, by its key", _INSTEAD)
    where = written.args.get("where")
    conditions = [names.over_rows(tree) for tree in conjuncts_of(None if where is None else where.this)]
    conditions = [tree for tree in (*rows.filters, *conditions) if not is_sure(tree, units)]
    texts = sorted(set(map(sql_of, conditions)))
    question = OfUnit(tuple(texts), most=0 if is_number else 1)
    units = place.catalog.units(rows.origin, [question])
    assert units is not None
    column = units.number(question)
    some = exp.Paren(this=exp.GTE(this=column, expression=exp.Literal.number(1)))
    return _replaced(node, column if is_number else some, units.origin, scope, place)


def _among(node: exp.Expr, inner: exp.Select, scope: Scope, place: Place, scope_of: ScopeOf) -> Scope:
    """The same for `key IN (SELECT key … GROUP BY key HAVING …)`: the units that are groups there."""
    units = rows_of_units(inner, place.with_(inner), scope_of)
    mine = _listed(node.this)
    if units is None or len(mine) != len(units.columns):
        refuse(node, "these groups in a subquery of an expression are not supported", _INSTEAD)
    outside = ColumnNames(scope, ())
    for tree, column in zip(mine, units.columns.values(), strict=True):
        above = unwrapped(outside.over_rows(tree)) if isinstance(tree, exp.Column) else tree
        if not isinstance(above, exp.Column) or not isinstance(column, exp.Column) or above.name != column.name:
            refuse(node, "the groups of a subquery are told by the key of the units", _INSTEAD)
    filters = units.filters or (exp.true(),)
    holds = exp.Paren(this=exp.and_(*(enclosed(tree) for tree in filters), copy=False))
    return _replaced(node, holds, units.origin, scope, place)


def _replaced(node: exp.Expr, tree: exp.Expr, units: Any, scope: Scope, place: Place) -> Scope:
    """Put an expression over the units in the place of a node; returns the scope that has its columns."""
    origin = place.catalog.beside(scope.origin, units)
    if origin is None:
        refuse(node, f"rows of {scope.title} are not the units whose rows the subquery asks", _INSTEAD)
    for column in tree.find_all(exp.Column):
        column.meta[OF_ORIGIN] = True
    node.replace(tree)
    return replace(scope, origin=origin)


def _listed(tree: exp.Expr) -> list[exp.Expr]:
    inside = unwrapped(tree)
    return list(inside.expressions) if isinstance(inside, exp.Tuple) else [inside]


def _is_number(listed: list[exp.Expr]) -> bool:
    """Whether a SELECT list is count(*)."""
    item = listed[0].unalias() if len(listed) == 1 else None
    return isinstance(item, exp.Count) and (item.this is None or isinstance(item.this, exp.Star))


def _link(tree: exp.Expr, scope: Scope, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The column of the rows around a subquery, and the one of its own, of a condition that says they are equal."""
    if not isinstance(tree, exp.EQ):
        return None
    sides = [unwrapped(tree.this), unwrapped(tree.expression)]
    around = [
        isinstance(side, exp.Column)
        and bool(side.table)
        and pick(side.table, own) is None
        and pick(side.table, scope.tables) is not None
        for side in sides
    ]
    if sum(around) != 1:
        return None
    return (sides[0], sides[1]) if around[0] else (sides[1], sides[0])
