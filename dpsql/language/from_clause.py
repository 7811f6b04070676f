"""FROM taken apart: views, CTEs and subqueries of one protected table, and public tables joined to it by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.language.around import GroupsInside, is_grouped
from dpsql.language.columns import ColumnNames, conjuncts
from dpsql.language.exists import with_units
from dpsql.language.expressions import conjuncts_of
from dpsql.language.join_order import INSTEAD, is_loose, protected_first, with_conditions, without_parentheses
from dpsql.language.joins import NAME_OF_TABLE, joined, key_sides, visible_columns
from dpsql.language.linked import linked
from dpsql.language.members import with_members
from dpsql.language.place import DEEPEST, Place, check_plain, is_name
from dpsql.language.refusal import OF_ROWS, check_clauses, check_names, first_word, refuse, words_of
from dpsql.language.scope import Scope
from dpsql.language.unit_rows import OF_UNITS, rows_of_units
from dpsql.language.written import stands_elsewhere


def scope_of(select: exp.Select, place: Place) -> tuple[Scope, exp.Select]:
    """The rows that a SELECT reads, and the SELECT with its tables in the order in which they are joined.

    A condition of WHERE that joins a table is none of the rows then.
    """
    if select.args.get("from_") is None:
        refuse(select, "there is no FROM")
    select = protected_first(without_parentheses(select), place)
    tree = linked(select, place, _item)
    if tree is None:
        return _with_public(_item(select.args["from_"].this, place), select, place)
    scope, select, links = tree
    scope, select = _with_public(scope, select, place)
    if links:
        select = select.copy()
        select.set("joins", [join.copy() for join in (*links, *(select.args.get("joins") or ()))])
    return scope, select


def _with_public(scope: Scope, select: exp.Select, place: Place) -> tuple[Scope, exp.Select]:
    """Those rows beside the public tables that are joined to them."""
    joins: list[exp.Join] = select.args.get("joins") or []
    if not any(map(is_loose, joins)):
        for join in joins:
            scope = joined(scope, join, place, _item)
        return scope, select
    where = select.args.get("where")
    conditions = [] if where is None else conjuncts_of(where.this)
    waiting: list[exp.Join] = []
    done: list[exp.Join] = []
    for join in joins:
        if is_loose(join):
            waiting.append(join)
        else:
            scope, done = joined(scope, join, place, _item), [*done, join]
        while (ready := _with_key(waiting, scope, conditions, place)) is not None:
            scope, done = joined(scope, ready, place, _item), [*done, ready]
    if waiting:
        instead = f"say {waiting[0].this.alias_or_name}.key = … in WHERE; or {INSTEAD}"
        refuse(waiting[0], "a join without ON is not supported where no condition names its key", instead)
    rewrite = with_conditions(select, conditions)
    rewrite.set("joins", [join.copy() for join in done])
    return scope, rewrite


def rows_and_words(select: exp.Select, place: Place) -> tuple[Scope, exp.Select]:
    """See `scope_of`; conditions ask public tables by their names in expressions."""
    scope, written = scope_of(select, place)
    if scope.keeps:
        refuse(select, "LEFT JOIN keeps rows of a table above without rows below, which counts no rows", OF_UNITS)
    scope, written = with_units(scope, written, place, scope_of)
    return with_members(scope, written, place, _item)


def _with_key(waiting: list[exp.Join], scope: Scope, conditions: list[exp.Expr], place: Place) -> exp.Join | None:
    """The first join that conditions name the key of, with those; all are taken from where they were."""
    for join in waiting:
        mine, alias = visible_columns(join, place, _item), join.this.alias_or_name
        keys = [
            tree
            for tree in conditions
            if (sides := key_sides(tree, alias, mine, scope)) is not None
            and pick(sides[0].name, mine) is not None
            and _is_seen(sides[1], scope)
        ]
        if keys:
            waiting.remove(join)
            conditions[:] = [tree for tree in conditions if not any(tree is key for key in keys)]
            on = exp.and_(*(exp.Paren(this=tree.copy()) for tree in keys), copy=False)
            return exp.Join(this=join.this.copy(), on=on)
    return None


def _is_seen(tree: exp.Expr, scope: Scope) -> bool:
    """Whether all columns of an expression are of tables that are joined."""
    return all(
        pick(column.table, scope.tables) is not None if column.table else pick(column.name, scope.columns) is not None
        for column in tree.find_all(exp.Column)
    )


def _item(item: exp.Expr, place: Place) -> Scope:
    """The rows of one item of FROM."""
    while isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table) and not item.args.get("alias"):
        check_plain(item, ("this",))
        item = item.this
    if isinstance(item, exp.Table):
        scope = _table(item, place)
    elif isinstance(item, exp.Subquery) and not isinstance(item.this, exp.Table):
        check_plain(item, ("this", "alias", "with_"))
        scope = _rows(item.this, replace(place.with_(item), depth=place.depth + 1))
    elif isinstance(item, exp.Subquery):
        refuse(item, "a name for joins in parentheses is not supported", "leave the parentheses out")
    else:
        refuse(item, f"FROM {words_of(item)} is not a protected table")
    alias = item.args.get("alias")
    renamed = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
    own = isinstance(item, exp.Table) and alias is None and not place.is_named(item)
    parts = _place_of(item, scope) if own else ()  # type: ignore[arg-type]
    return _renamed(scope, renamed, item).named(item.alias_or_name, parts)


def _place_of(table: exp.Table, scope: Scope) -> tuple[str, ...]:
    """The database and the schema of a table; of a view what is written of them."""
    parts = tuple(getattr(scope.origin, "parts", ()))
    is_table = bool(parts) and fold(parts[-1]) == fold(table.name)
    return parts[:-1] if is_table else tuple(part.name for part in table.parts[:-1])


def _table(table: exp.Table, place: Place) -> Scope:
    if not is_name(table):
        refuse(table, "a function in FROM is not a protected table")
    check_plain(table, NAME_OF_TABLE)
    if place.is_named(table):
        query, columns, outside = place.named[fold(table.name)]
        return _renamed(_rows(query, replace(outside, depth=place.depth + 1)), columns, table)
    entry = place.catalog.find(table)
    if isinstance(entry, Scope):
        return entry
    query, catalog = entry
    stands_elsewhere(query)
    check_names(query, table)
    try:
        return _rows(query, Place(catalog, depth=place.depth + 1))
    except GroupsInside as inside:
        if inside.node is query:
            inside.node = table
        raise


def _rows(query: exp.Expr, place: Place) -> Scope:
    """A subquery that selects, filters and renames rows of one table."""
    if place.depth > DEEPEST:
        refuse(query, f"views and subqueries are more than {DEEPEST} deep")
    while isinstance(query, exp.Subquery) and not any(value for name, value in query.args.items() if name != "this"):
        query = query.this
    if not isinstance(query, exp.Select):
        refuse(query, f"{first_word(query)} inside FROM is not supported", "ask about each part by itself")
    if is_grouped(query):
        units = rows_of_units(query, place.with_(query), scope_of)
        if units is not None:
            return units
        raise GroupsInside(query, place)
    order, limit = query.args.get("order"), query.args.get("limit")
    if order is not None and limit is None:
        query = query.copy()
        query.set("order", None)  # of rows that are counted
    check_clauses(query, OF_ROWS, inside=True)
    inside = place.with_(query)
    starred = any(item.is_star for item in query.expressions)
    written = query
    inner, query = rows_and_words(query, inside)
    if starred and query is not written:
        inner = inner.in_order(_tables_in_order(without_parentheses(written), inner))
    names_of_rows = ColumnNames(inner, query.expressions)
    filters = conjuncts(query.args.get("where"), names_of_rows)
    columns: dict[str, exp.Expr] = {}
    for item in query.expressions:
        for name, tree in names_of_rows.listed(item):
            if name in columns:
                refuse(item, f"two columns of a subquery are called {name!r}", "give one of them another name")
            columns[name] = tree
    every = any(isinstance(item, exp.Star) for item in query.expressions)
    lacks = (starred and inner.lacks) or (every and bool(inner.ambiguous))
    return Scope(
        inner.origin,
        columns,
        (*inner.filters, *filters),
        dimensions=inner.dimensions,
        lacks=lacks,
        preserved=inner.preserved,
    )


def _tables_in_order(select: exp.Select, scope: Scope) -> list[str]:
    """The tables of a FROM clause as it was written."""
    tables = []
    for item in (select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())):
        table = pick(item.alias_or_name, scope.tables)
        if table is None:
            refuse(item, "* beside tables in parentheses is not supported", "list the columns")
        tables.append(table)
    return tables


def _renamed(scope: Scope, names: Sequence[str], node: exp.Expr) -> Scope:
    if not names:
        return scope
    if scope.lacks:
        refuse(node, "names are given to columns of *, of which two have the same name", "list the columns")
    if len(names) > len(scope.columns):
        refuse(node, f"{len(names)} names are given for {len(scope.columns)} columns")
    visible = list(scope.columns.items())
    columns = {name: tree for name, (_, tree) in zip(names, visible, strict=False)}
    columns |= dict(visible[len(names) :])
    if len(columns) < len(visible):
        refuse(node, "a name is given to two columns")
    return replace(scope, columns=columns)
