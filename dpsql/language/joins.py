"""One public table joined to the rows of a protected one: for a row of those one row of it at most, by its key.

A column of the public table is a look-up of the row that the key names. Conditions of ON beside the key say which rows
there are, with LEFT which look-ups have a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.errors import UnknownName
from dpsql.language.columns import ColumnNames
from dpsql.language.expressions import conjuncts_of, enclosed, unwrapped
from dpsql.language.join_order import INSTEAD, OF_JOIN, PRESERVED
from dpsql.language.place import Place, check_plain, is_name
from dpsql.language.preserved import over_public
from dpsql.language.refusal import refuse, words_of
from dpsql.language.scope import MATCHES, Catalog, Dimension, Preserved, Scope, Unlinked

NAME_OF_TABLE = ("this", "db", "catalog", "alias")
RowsOf = Callable[[exp.Expr, Place], Scope]
"""The rows of one item of FROM."""


@dataclass(frozen=True)
class PublicTable(Unlinked):
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
        refuse(
            table,
            "a second table in a subquery of a public table is not supported",
            "ask each table in a condition of "
            "its own: x IN (SELECT … FROM one) AND x IN (SELECT … FROM other), or join each to the protected table",
        )

    def is_public(self, table: exp.Table) -> bool:
        """See `Catalog.is_public`."""
        return False

    def aggregates(self) -> frozenset[str]:
        """See `Catalog.aggregates`."""
        return self.catalog.aggregates()


@dataclass(frozen=True)
class _Joined:
    """What is read of a public table.

    Attributes:
        dimension: the table.
        columns: over the protected table's columns.
        there: which rows have one of its rows.
        keys: what its key is equal to, as it was written and over the protected table's columns.
        place: its database and schema, where FROM calls it by its own name.
        own: those of `there` that say which of its rows there are.
    """

    dimension: Dimension
    columns: Mapping[str, exp.Expr]
    there: tuple[exp.Expr, ...]
    keys: tuple[tuple[str, exp.Expr], ...]
    place: tuple[str, ...] = ()
    own: tuple[exp.Expr, ...] = ()


def visible_columns(join: exp.Join, place: Place, rows_of: RowsOf) -> list[str]:
    """The names of the columns of what is joined."""
    table = join.this
    if isinstance(table, exp.Subquery) or place.is_named(table):
        return list(rows_of(table, place.seen_by(PublicTable(place.catalog))).columns)
    _check_table(join)
    return [name for name, _ in place.catalog.public(table)[1]]


def joined(scope: Scope, join: exp.Join, place: Place, rows_of: RowsOf) -> Scope:
    """A protected table beside the row of a public one that its key names; without LEFT only where there is one."""
    check_plain(join, OF_JOIN)
    table, side, preserved = join.this, join.side, bool(join.meta.get(PRESERVED))
    is_natural = join.method == "NATURAL"
    if (
        (join.method and not is_natural)
        or side not in ("", "LEFT")
        or join.kind not in ("", "OUTER" if side else "INNER")
    ):
        refuse(join, f"{' '.join(filter(None, (join.method, side, join.kind)))} JOIN is not supported", INSTEAD)
    _check_table(join)
    if not join.args.get("on") and not join.args.get("using") and not is_natural:
        refuse(join, "a join without ON is not supported", INSTEAD)
    alias = table.alias_or_name
    if pick(alias, scope.tables) is not None:
        refuse(join, f"two tables are called {alias!r}", "give one of them an alias")
    if is_natural:
        join = _with_using(join, scope, visible_columns(join, place, rows_of))
    selects = isinstance(table, exp.Subquery) or place.is_named(table)
    lookup, conditions = (_selected if selects else _whole)(scope, join, place, rows_of)
    if scope.preserved is not None:
        _check_keys(join, scope.preserved, lookup)
    using = {fold(identifier.name) for identifier in join.args.get("using") or ()}
    wide_scope = _beside(scope, alias, lookup, using, preserved=preserved)
    if conditions:
        names = ColumnNames(wide_scope, ())
        lookup = replace(lookup, there=(*lookup.there, *(names.over_rows(tree) for tree in conditions)))
    if side == "LEFT" and (conditions or selects):  # where there is no row, nothing is made of NULLs
        holds = exp.and_(*(enclosed(tree) for tree in lookup.there), copy=False)
        columns = {name: exp.case().when(holds.copy(), tree.copy()) for name, tree in lookup.columns.items()}
        wide_scope = _beside(scope, alias, replace(lookup, columns=columns), using, preserved=preserved)
    if side == "LEFT":
        return wide_scope
    if not preserved:
        return replace(wide_scope, filters=(*wide_scope.filters, *lookup.there))
    meets = [tree for tree in (*wide_scope.filters, *lookup.there) if not any(tree is own for own in lookup.own)]
    return replace(wide_scope, filters=(*map(_matching, meets), *lookup.own))


def _check_keys(join: exp.Join, preserved: Preserved, lookup: _Joined) -> None:
    """Refuse a further join by a column that is NULL where a row of the preserved table meets none."""
    if any(over_public(tree, preserved) is None for _, tree in lookup.keys):
        reason = f"a join by a column of {preserved.protected!r} is not supported after a LEFT JOIN to it"
        refuse(join, reason, f"join by a column of {preserved.public!r}, or say JOIN in place of LEFT JOIN")


def _beside(scope: Scope, alias: str, lookup: _Joined, using: set[str], *, preserved: bool) -> Scope:
    """What FROM shows of both."""
    shared = {fold(c) for c in lookup.columns} & {fold(c) for c in scope.columns}
    own, keeps = dict(scope.columns), scope.preserved
    if preserved:  # whose values of USING are those of all rows
        keeps = Preserved(lookup.dimension, alias, next(iter(scope.tables)), lookup.keys[0][0])
        own |= {name: lookup.columns[str(pick(name, lookup.columns))] for name in own if fold(name) in shared & using}
    return replace(
        scope,
        columns={**own, **{c: tree for c, tree in lookup.columns.items() if fold(c) not in shared}},
        tables={**scope.tables, alias: lookup.columns},
        places={**scope.places, fold(alias): lookup.place},
        ambiguous=scope.ambiguous | (shared - using),
        dimensions=(*scope.dimensions, lookup.dimension),
        preserved=keeps,
    )


def _matching(tree: exp.Expr) -> exp.Expr:
    """A condition that says which rows meet, not which rows there are."""
    condition = tree.copy()
    condition.meta[MATCHES] = True
    return condition


def _check_table(join: exp.Join) -> None:
    table = join.this
    if not isinstance(table, exp.Subquery) and not (isinstance(table, exp.Table) and is_name(table)):
        refuse(join, "a join with anything but a table or a subquery is not supported", INSTEAD)


def _with_using(join: exp.Join, scope: Scope, mine: Sequence[str]) -> exp.Join:
    """A NATURAL JOIN as a join by the columns that both have."""
    shared = [name for name in mine if pick(name, scope.columns) is not None]
    if not shared:
        refuse(join, f"no column of {join.this.alias_or_name!r} has the name of another's", INSTEAD)
    new_join = join.copy()
    new_join.set("method", None)
    new_join.set("using", [exp.to_identifier(name, quoted=True) for name in shared])
    return new_join


def _whole(scope: Scope, join: exp.Join, place: Place, rows_of: RowsOf) -> tuple[_Joined, list[exp.Expr]]:
    """A public table as it is, and what ON says beside the key."""
    table, alias = join.this, join.this.alias_or_name
    check_plain(table, NAME_OF_TABLE)
    origin, columns = place.catalog.public(table)
    if table.args.get("alias") and table.args["alias"].args.get("columns"):
        refuse(table, "names of columns after a public table's are not supported", "say AS in a subquery of it")
    mine = [name for name, _ in columns]
    pairs, conditions, written = _key_pairs(join, scope, alias, mine)
    dimension = _dimension(scope, origin, columns, pairs)
    lookups = {c: _looked_up(dimension, n, pairs) for n, c in enumerate(mine)}
    parts = () if table.args.get("alias") else tuple(getattr(origin, "parts", ()))[:-1]
    return _Joined(dimension, lookups, (_is_there(dimension, pairs),), tuple(written), parts), conditions


def _selected(scope: Scope, join: exp.Join, place: Place, rows_of: RowsOf) -> tuple[_Joined, list[exp.Expr]]:
    """What a query selects of a public table, and what ON says beside the key."""
    item, alias = join.this, join.this.alias_or_name
    selection = rows_of(item, place.seen_by(PublicTable(place.catalog)))
    origin, columns = selection.origin
    names = [name for name, _ in columns]
    visible = [name for name, tree in selection.columns.items() if isinstance(unwrapped(tree), exp.Column)]
    places = [names.index(unwrapped(selection.columns[name]).name) for name in visible]
    keys, conditions, written = _key_pairs(join, scope, alias, visible)
    pairs = [(places[key], tree) for key, tree in keys]
    dimension = _dimension(scope, origin, columns, pairs)
    values = {name: _looked_up(dimension, n, pairs) for n, name in enumerate(names)}
    rows = rows_of(item, place.seen_by(PublicTable(place.catalog, values)))
    there = (_is_there(dimension, pairs), *rows.filters)
    return _Joined(dimension, rows.columns, there, tuple(written), own=rows.filters), conditions


def _dimension(
    scope: Scope, origin: Any, columns: Sequence[tuple[str, str]], pairs: Sequence[tuple[int, exp.Expr]]
) -> Dimension:
    name = f"dpsql_joined_{len(scope.dimensions)}"
    return Dimension(name, origin, tuple(columns), tuple(key for key, _ in pairs))


def _is_there(dimension: Dimension, pairs: Sequence[tuple[int, exp.Expr]]) -> exp.Expr:
    """Whether the public table has a row that the keys name."""
    return exp.Not(this=exp.Is(this=_looked_up(dimension, pairs[0][0], pairs), expression=exp.null()))


def _looked_up(dimension: Dimension, number: int, pairs: Sequence[tuple[int, exp.Expr]]) -> exp.Expr:
    """The value of a dimension's column in the row that the keys name; its type is kept beside it."""
    equal = [exp.EQ(this=exp.column(f"dpsql_d{k}", table=dimension.name), expression=tree.copy()) for k, tree in pairs]
    value = exp.select(exp.column(f"dpsql_d{number}", table=dimension.name)).from_(dimension.name).where(*equal)
    subquery = exp.Subquery(this=value)
    subquery.meta["dpsql_type"] = dimension.columns[number][1]
    return subquery


# --- keys -------------------------------------------------------------------------------------------------------------


def _key_pairs(
    join: exp.Join, scope: Scope, alias: str, mine: Sequence[str]
) -> tuple[list[tuple[int, exp.Expr]], list[exp.Expr], list[tuple[str, exp.Expr]]]:
    """The numbers of the public table's key columns, each with what it equals over the origin's columns.

    Beside them what else ON says, and what the keys are equal to as it was written and over those columns.
    """
    names = ColumnNames(scope, ())
    if join.args.get("using"):
        keys = []
        for identifier in join.args["using"]:
            column = pick(identifier.name, mine)
            if column is None:
                raise UnknownName(f"query: {alias!r} has no column {identifier.name!r}; it has {', '.join(mine)}")
            keys.append((mine.index(column), names.find(exp.column(identifier.copy()), aliases=False)))
        first = next(iter(scope.tables))
        named = zip(join.args["using"], keys, strict=True)
        return keys, [], [(f"{first}.{identifier.name}", tree) for identifier, (_, tree) in named]
    pairs, conditions, written = [], [], []
    for tree in conjuncts_of(join.args["on"]):
        sides = key_sides(tree, alias, mine, scope)
        if sides is None:
            conditions.append(tree)
            continue
        key, other = sides
        column = pick(key.name, mine)
        if column is None:
            raise UnknownName(f"query: {alias!r} has no column {key.name!r}; it has {', '.join(mine)}")
        pairs.append((mine.index(column), enclosed(names.over_rows(other))))
        written.append((words_of(other), pairs[-1][1]))
    if not pairs:
        if not isinstance(conditions[0], exp.EQ):
            reason = "a join by a condition that is no equality is not supported"
            refuse(conditions[0], reason, "say it in WHERE, beside a join on the key")
        refuse(conditions[0], f"a join compares a column of {alias!r} with the protected table's", INSTEAD)
    return pairs, conditions, written


def key_sides(tree: exp.Expr, alias: str, mine: Sequence[str], scope: Scope) -> tuple[exp.Column, exp.Expr] | None:
    """The column of the table to join, and what it is equal to in the tables before it; None if it says no such thing.

    Args:
        tree: a condition.
        alias: what the table is called.
        mine: its columns.
        scope: the tables before it.
    """
    if not isinstance(tree, exp.EQ):
        return None
    sides = [unwrapped(tree.this), unwrapped(tree.expression)]
    theirs = [side for side in sides if _is_of(side, alias, mine, scope)]
    if len(theirs) != 1:
        return None
    other = tree.expression if theirs[0] is sides[0] else tree.this
    columns = list(other.find_all(exp.Column))
    if not columns or any(_is_of(column, alias, mine, scope) for column in columns):
        return None
    return theirs[0], other  # type: ignore[return-value]


def _is_of(tree: exp.Expr, alias: str, mine: Sequence[str], scope: Scope) -> bool:
    if not isinstance(tree, exp.Column):
        return False
    if tree.table:
        return fold(tree.table) == fold(alias)
    return pick(tree.name, mine) is not None and pick(tree.name, scope.columns) is None
