"""FROM taken apart: views, CTEs and subqueries of one protected table, and public tables joined to it by their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.errors import UnknownName
from dpsql.language.columns import ColumnNames, conjuncts
from dpsql.language.expressions import enclosed, unwrapped
from dpsql.language.refusal import OF_ROWS, check_clauses, first_word, refuse, refuse_clause, words_of
from dpsql.language.scope import Catalog, Dimension, Scope

_DEEPEST: Final = 20  # views, CTEs and subqueries inside one another
_NAME: Final = ("this", "db", "catalog", "alias")
_OF_JOIN: Final = ("this", "on", "using", "side", "kind", "method")
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
        _check_plain(item, ("this",))
        plain = inside.copy()
        plain.set("joins", None)
        scope = _with_joins(plain, inside.args.get("joins") or (), place)
        for join in joins:
            scope = _joined(scope, join, place)
        return scope
    if isinstance(item, exp.Table):
        scope = _table(item, place)
    elif isinstance(item, exp.Subquery):
        _check_plain(item, ("this", "alias", "with_"))
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
    _check_plain(table, _NAME)
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
    inside = place.with_(query)
    starred = any(item.is_star for item in query.expressions)
    turned = protected_first(query, inside)
    inner = scope_of(turned, inside)
    if starred and turned is not query:
        inner = inner.in_order(_tables_in_order(query, inner))
    query = turned
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
    return Scope(inner.origin, columns, (*inner.filters, *filters), dimensions=inner.dimensions, lacks=lacks)


def _tables_in_order(select: exp.Select, scope: Scope) -> list[str]:
    """The tables of a FROM clause as it was written."""
    found = []
    for item in (select.args["from_"].this, *(join.this for join in select.args["joins"])):
        table = pick(item.alias_or_name, scope.tables)
        if table is None:
            refuse(item, "* beside tables in parentheses is not supported", "list the columns")
        found.append(table)
    return found


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


def _joined(scope: Scope, join: exp.Join, place: Place) -> Scope:
    """A protected table beside the row of a public one that its key names; without LEFT only where there is one."""
    _check_plain(join, _OF_JOIN)
    table, side = join.this, join.side
    if join.method or side not in ("", "LEFT") or join.kind not in ("", "OUTER" if side else "INNER"):
        refuse(join, f"{' '.join(filter(None, (join.method, side, join.kind)))} JOIN is not supported", _JOIN)
    is_named = isinstance(table, exp.Table) and fold(table.name) in place.named and not table.args.get("db")
    if not isinstance(table, exp.Subquery) and not (isinstance(table, exp.Table) and _is_name(table)):
        refuse(join, "a join with anything but a table or a subquery is not supported", _JOIN)
    if not join.args.get("on") and not join.args.get("using"):
        refuse(join, "a join without ON is not supported", _JOIN)
    alias = table.alias_or_name
    if pick(alias, scope.tables) is not None:
        refuse(join, f"two tables are called {alias!r}", "give one of them an alias")
    if isinstance(table, exp.Subquery) or is_named:
        dimension, found, there = _selected(scope, join, place)
    else:
        _check_plain(table, _NAME)
        origin, columns = place.catalog.public(table)
        if table.args.get("alias") and table.args["alias"].args.get("columns"):
            refuse(table, "names of columns after a public table's are not supported", "say AS in a subquery of it")
        mine = [name for name, _ in columns]
        pairs = _key_pairs(join, scope, alias, mine)
        dimension = _dimension(scope, origin, columns, pairs)
        found = {c: _looked_up(dimension, n, pairs) for n, c in enumerate(mine)}
        there = (_is_there(dimension, pairs),)
    shared = {fold(c) for c in found} & {fold(c) for c in scope.columns}
    using = {fold(identifier.name) for identifier in join.args.get("using") or ()}
    return replace(
        scope,
        columns={**scope.columns, **{c: tree for c, tree in found.items() if fold(c) not in shared}},
        filters=scope.filters if side == "LEFT" else (*scope.filters, *there),
        tables={**scope.tables, alias: found},
        ambiguous=scope.ambiguous | (shared - using),
        dimensions=(*scope.dimensions, dimension),
    )


def _check_plain(item: exp.Expr, read: tuple[str, ...]) -> None:
    """Refuse what a part of FROM says beside what is read of it, by sqlglot's names: nothing is left out unseen."""
    for name, value in item.args.items():
        if value and name not in read:
            refuse_clause(item, name)


def _is_name(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier)


def _dimension(
    scope: Scope, origin: Any, columns: Sequence[tuple[str, str]], pairs: Sequence[tuple[int, exp.Expr]]
) -> Dimension:
    name = f"dpsql_joined_{len(scope.dimensions)}"
    return Dimension(name, origin, tuple(columns), tuple(key for key, _ in pairs))


def _is_there(dimension: Dimension, pairs: Sequence[tuple[int, exp.Expr]]) -> exp.Expr:
    """Whether the public table has a row that the keys name."""
    return exp.Not(this=exp.Is(this=_looked_up(dimension, pairs[0][0], pairs), expression=exp.null()))


@dataclass(frozen=True)
class _PublicTable:
    """A catalogue of public tables, for what selects from one of them.

    Attributes:
        catalog: of all tables.
        values: its columns over the protected table's, once they are known; else its own names stand for them.
    """

    catalog: Catalog
    values: Mapping[str, exp.Expr] | None = None

    def find(self, table: exp.Table) -> Scope:
        """See `Catalog.find`."""
        origin, columns = self.catalog.public(table)
        own = {name: exp.column(exp.to_identifier(name, quoted=True)) for name, _ in columns}
        return Scope((origin, tuple(columns)), own if self.values is None else self.values)

    def public(self, table: exp.Table) -> tuple[Any, Sequence[tuple[str, str]]]:
        """See `Catalog.public`."""
        refuse(table, "a join inside a subquery of a public table is not supported", "join each to the protected table")

    def is_public(self, table: exp.Table) -> bool:
        """See `Catalog.is_public`."""
        return False

    def aggregates(self) -> frozenset[str]:
        """See `Catalog.aggregates`."""
        return self.catalog.aggregates()


def _seen_by(place: Place, catalog: Catalog) -> Place:
    """The same place with another catalogue, in its WITH queries too."""
    named = {
        name: (query, columns, _seen_by(outside, catalog)) for name, (query, columns, outside) in place.named.items()
    }
    return Place(catalog, named, place.depth)


def _selected(
    scope: Scope, join: exp.Join, place: Place
) -> tuple[Dimension, dict[str, exp.Expr], tuple[exp.Expr, ...]]:
    """What a query selects of a public table that is joined: the table, the columns, and which rows there are."""
    item, alias = join.this, join.this.alias_or_name
    known = _with_joins(item, (), _seen_by(place, _PublicTable(place.catalog)))
    origin, columns = known.origin
    names = [name for name, _ in columns]
    visible = [name for name, tree in known.columns.items() if isinstance(unwrapped(tree), exp.Column)]
    places = [names.index(unwrapped(known.columns[name]).name) for name in visible]
    pairs = [(places[key], tree) for key, tree in _key_pairs(join, scope, alias, visible)]
    dimension = _dimension(scope, origin, columns, pairs)
    values = {name: _looked_up(dimension, n, pairs) for n, name in enumerate(names)}
    rows = _with_joins(item, (), _seen_by(place, _PublicTable(place.catalog, values)))
    there = (_is_there(dimension, pairs), *rows.filters)
    found = dict(rows.columns)
    if join.side == "LEFT":  # where there is no row, nothing is made of NULLs
        holds = exp.and_(*(enclosed(tree) for tree in there), copy=False)
        found = {name: exp.case().when(holds.copy(), tree.copy()) for name, tree in found.items()}
    return dimension, found, there


def protected_first(select: exp.Select, place: Place) -> exp.Select:
    """The same SELECT with its protected table first in FROM, where public tables stand before it."""
    joins = select.args.get("joins") or []
    origin = select.args.get("from_")
    if origin is None or not joins or not _is_public(origin.this, place):
        return select
    items = [origin.this, *(join.this for join in joins)]
    first = next((n for n, item in enumerate(items) if not _is_public(item, place)), None)
    if first is None:
        return select
    turned = first == 1 and joins[0].side == "RIGHT" and not joins[0].method
    for join in joins[: 0 if turned else first]:
        if join.side or join.method or join.kind not in ("", "INNER"):
            refuse(join, f"{words_of(join)} before the protected table is not supported", _JOIN)
    made = [_turned(joins[0], items[0], is_left=turned)] if first == 1 else _in_order(items, joins[:first])
    found = select.copy()
    found.set("from_", exp.From(this=items[first].copy()))
    found.set("joins", [*made, *(join.copy() for join in joins[first:])])
    return found


def _is_public(item: exp.Expr, place: Place) -> bool:
    """Whether an item of FROM reads public tables only."""
    if isinstance(item, exp.Table) and not item.args.get("db") and fold(item.name) in place.named:
        query, _, outside = place.named[fold(item.name)]
        return _reads_public(query, outside)
    if isinstance(item, exp.Subquery):
        return _reads_public(item.this, place.with_(item))
    return isinstance(item, exp.Table) and _is_name(item) and place.catalog.is_public(item)


def _reads_public(query: exp.Expr, place: Place) -> bool:
    origin = query.args.get("from_") if isinstance(query, exp.Select) else None
    items = [] if origin is None else [origin.this, *(join.this for join in query.args.get("joins") or ())]
    return bool(items) and all(_is_public(item, place.with_(query)) for item in items)  # type: ignore[arg-type]


def _turned(join: exp.Join, public: exp.Expr, *, is_left: bool) -> exp.Join:
    """A join from its other side."""
    found = join.copy()
    found.set("this", public.copy())
    found.set("side", "LEFT" if is_left else None)
    return found


def _in_order(items: Sequence[exp.Expr], joins: Sequence[exp.Join]) -> list[exp.Join]:
    """The tables before the protected one, each joined to those that are there by then."""
    for join in joins:
        _check_plain(join, _OF_JOIN)
        if join.args.get("using"):
            refuse(join, "USING before the protected table is not supported", _JOIN)
    waiting, left = [], [join.args["on"] for join in joins if join.args.get("on")]
    while left:
        tree = unwrapped(left.pop())
        if isinstance(tree, exp.And):
            left += [tree.expression, tree.this]
        else:
            waiting.append(tree)
    there, before, found = {fold(items[len(joins)].alias_or_name)}, list(items[: len(joins)]), []
    while before:
        for item in before:
            name = fold(item.alias_or_name)
            conditions = [tree for tree in waiting if _tables_of(tree) <= there | {name} and name in _tables_of(tree)]
            if conditions:
                break
        else:
            refuse(joins[0], "tables before the protected one are joined in a way that is not supported", _JOIN)
        found.append(exp.Join(this=item.copy(), on=exp.and_(*(tree.copy() for tree in conditions), copy=False)))
        waiting = [tree for tree in waiting if tree not in conditions]
        before.remove(item)
        there.add(name)
    if waiting:
        refuse(waiting[0], "a condition joins no public table", "say it in WHERE; name the table of each column")
    return found


def _tables_of(tree: exp.Expr) -> set[str]:
    return {fold(column.table) for column in tree.find_all(exp.Column)}


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
