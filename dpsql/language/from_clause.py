"""FROM taken apart: views, CTEs and subqueries of one protected table, and public tables joined to it by their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.errors import UnknownName
from dpsql.language.columns import ColumnNames, conjuncts
from dpsql.language.expressions import enclosed
from dpsql.language.refusal import OF_ROWS, check_clauses, first_word, refuse, refuse_clause, words_of
from dpsql.language.scope import Catalog, Dimension, Scope

_DEEPEST: Final = 20  # views, CTEs and subqueries inside one another
_JOIN: Final = "join public tables on their key, many rows to one: FROM protected JOIN public ON public.key = …"


@dataclass(frozen=True)
class Place:
    """Where a query stands: what names mean, the CTEs in sight, how deep it is."""

    catalog: Catalog
    named: Mapping[str, tuple[exp.Query, tuple[str, ...], Place]] = field(default_factory=dict)
    depth: int = 0

    def with_(self, query: exp.Query) -> Place:
        """With a query's CTEs."""
        clause = query.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            refuse(clause, "WITH RECURSIVE is not supported")
        place = self
        for part in clause.expressions:
            columns = tuple(column.name for column in part.args["alias"].args.get("columns") or ())
            place = replace(place, named={**place.named, fold(part.alias): (part.this, columns, place)})
        return place


def scope_of(select: exp.Select, place: Place) -> Scope:
    """The rows that a SELECT reads."""
    origin = select.args.get("from_")
    if origin is None:
        refuse(select, "there is no FROM")
    return _with_joins(origin.this, select.args.get("joins") or (), place)


def _with_joins(item: exp.Expr, joins: Sequence[exp.Join], place: Place) -> Scope:
    """One item of FROM, and the public tables that are joined to it."""
    inside = item.this if isinstance(item, exp.Subquery | exp.Paren) and isinstance(item.this, exp.Table) else None
    if inside is not None and not item.args.get("alias"):  # (a JOIN b ON …), as DuckDB writes views down
        plain = inside.copy()
        plain.set("joins", None)
        scope = _with_joins(plain, inside.args.get("joins") or (), place)
        for join in joins:
            scope = _joined(scope, join, place)
        return scope
    if isinstance(item, exp.Table):
        scope = _table(item, place)
    elif isinstance(item, exp.Subquery):
        for name, value in item.args.items():
            if value and name not in ("this", "alias", "with_"):
                refuse_clause(item, name)
        scope = _rows(item.this, replace(place.with_(item), depth=place.depth + 1))
    else:
        refuse(item, f"FROM {words_of(item)} is not a protected table")
    alias = item.args.get("alias")
    renamed = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
    scope = _renamed(scope, renamed, item).named(item.alias_or_name)
    for join in joins:
        scope = _joined(scope, join, place)
    return scope


def _table(table: exp.Table, place: Place) -> Scope:
    if not isinstance(table.this, exp.Identifier):
        refuse(table, "a function in FROM is not a protected table")
    for name, value in table.args.items():
        if value and name not in ("this", "db", "catalog", "alias"):
            refuse_clause(table, name)
    if not table.args.get("db") and fold(table.name) in place.named:
        query, columns, outside = place.named[fold(table.name)]
        return _renamed(_rows(query, replace(outside, depth=place.depth + 1)), columns, table)
    found = place.catalog.find(table)
    if isinstance(found, Scope):
        return found
    query, catalog = found
    return _rows(query, Place(catalog, depth=place.depth + 1))


def _rows(query: exp.Expr, place: Place) -> Scope:
    """A subquery that selects, filters and renames rows of one table."""
    if place.depth > _DEEPEST:
        refuse(query, f"views and subqueries are more than {_DEEPEST} deep")
    if not isinstance(query, exp.Select):
        refuse(query, f"{first_word(query)} inside FROM is not supported", "ask about each part by itself")
    order, limit = query.args.get("order"), query.args.get("limit")
    if order is not None and limit is None:
        query = query.copy()
        query.set("order", None)  # of rows that are counted
    check_clauses(query, OF_ROWS, inside=True)
    inner = scope_of(query, place.with_(query))
    names_of_rows = ColumnNames(inner, query.expressions)
    filters = conjuncts(query.args.get("where"), names_of_rows)
    columns: dict[str, exp.Expr] = {}
    for item in query.expressions:
        for name, tree in names_of_rows.listed(item):
            if name in columns:
                refuse(item, f"two columns of a subquery are called {name!r}", "give one of them another name")
            columns[name] = tree
    return Scope(inner.origin, columns, (*inner.filters, *filters), dimensions=inner.dimensions)


def _renamed(scope: Scope, names: Sequence[str], node: exp.Expr) -> Scope:
    if not names:
        return scope
    if len(names) > len(scope.columns):
        refuse(node, f"{len(names)} names are given for {len(scope.columns)} columns")
    visible = list(scope.columns.items())
    columns = {name: tree for name, (_, tree) in zip(names, visible, strict=False)}
    columns |= dict(visible[len(names) :])
    if len(columns) < len(visible):
        refuse(node, "a name is given to two columns")
    return replace(scope, columns=columns)


def _joined(scope: Scope, join: exp.Join, place: Place) -> Scope:
    """A protected table beside the row of a public one that its key names; without LEFT only where there is one."""
    table, side = join.this, join.side
    if join.method or side not in ("", "LEFT") or join.kind not in ("", "INNER", "OUTER"):
        refuse(join, f"{' '.join(filter(None, (join.method, side, join.kind)))} JOIN is not supported", _JOIN)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse(join, "a join with anything but a table is not supported", _JOIN)
    if fold(table.name) in place.named and not table.args.get("db"):
        refuse(join, "a join with a WITH query is not supported", _JOIN)
    if not join.args.get("on") and not join.args.get("using"):
        refuse(join, "a join without ON is not supported", _JOIN)
    origin, columns = place.catalog.public(table)
    alias = table.alias_or_name
    if pick(alias, scope.tables) is not None:
        refuse(join, f"two tables are called {alias!r}", "give one of them an alias")
    mine = [name for name, _ in columns]
    pairs = _key_pairs(join, scope, alias, mine)
    dimension = Dimension(
        f"dpsql_joined_{len(scope.dimensions)}", origin, tuple(columns), tuple(key for key, _ in pairs)
    )
    found = {c: _looked_up(dimension, n, pairs) for n, c in enumerate(mine)}
    shared = {fold(c) for c in mine} & {fold(c) for c in scope.columns}
    using = {fold(identifier.name) for identifier in join.args.get("using") or ()}
    there = exp.Not(this=exp.Is(this=_looked_up(dimension, pairs[0][0], pairs), expression=exp.null()))
    return replace(
        scope,
        columns={**scope.columns, **{c: tree for c, tree in found.items() if fold(c) not in shared}},
        filters=scope.filters if side == "LEFT" else (*scope.filters, there),
        tables={**scope.tables, alias: found},
        ambiguous=scope.ambiguous | (shared - using),
        dimensions=(*scope.dimensions, dimension),
    )


def _key_pairs(join: exp.Join, scope: Scope, alias: str, mine: Sequence[str]) -> list[tuple[int, exp.Expr]]:
    """The numbers of the public table's key columns, each with what it equals over the origin's columns."""
    names = ColumnNames(scope, ())
    if join.args.get("using"):
        found = []
        for identifier in join.args["using"]:
            known = pick(identifier.name, mine)
            if known is None:
                raise UnknownName(f"query: {alias!r} has no column {identifier.name!r}; it has {', '.join(mine)}")
            found.append((mine.index(known), names.find(exp.column(identifier.copy()), aliases=False)))
        return found
    pairs, waiting = [], [join.args["on"]]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, exp.Paren | exp.And):
            waiting += [tree.this] if isinstance(tree, exp.Paren) else [tree.expression, tree.this]
            continue
        if not isinstance(tree, exp.EQ):
            refuse(tree, "a condition of a join that is no equality is not supported", "say it in WHERE")
        sides = [tree.this, tree.expression]
        theirs = [side for side in sides if _is_of(side, alias, mine, scope)]
        if len(theirs) != 1:
            refuse(tree, f"a join compares a column of {alias!r} with the protected table's", _JOIN)
        other = sides[1] if theirs[0] is sides[0] else sides[0]
        known = pick(theirs[0].name, mine)
        if known is None:
            raise UnknownName(f"query: {alias!r} has no column {theirs[0].name!r}; it has {', '.join(mine)}")
        pairs.append((mine.index(known), enclosed(names.over_rows(other))))
    return pairs


def _is_of(tree: exp.Expr, alias: str, mine: Sequence[str], scope: Scope) -> bool:
    if not isinstance(tree, exp.Column):
        return False
    if tree.table:
        return fold(tree.table) == fold(alias)
    return pick(tree.name, mine) is not None and pick(tree.name, scope.columns) is None


def _looked_up(dimension: Dimension, number: int, pairs: Sequence[tuple[int, exp.Expr]]) -> exp.Expr:
    """The value of a dimension's column in the row that the keys name; its type is kept beside it."""
    equal = [exp.EQ(this=exp.column(f"dpsql_d{k}", table=dimension.name), expression=tree.copy()) for k, tree in pairs]
    value = exp.select(exp.column(f"dpsql_d{number}", table=dimension.name)).from_(dimension.name).where(*equal)
    found = exp.Subquery(this=value)
    found.meta["dpsql_type"] = dimension.columns[number][1]
    return found
