"""Tables of one tree in FROM: the rows of the deepest one, each beside the rows above it that its keys lead to.

    FROM labs JOIN visits USING (vid) JOIN patients USING (pid)
    FROM patients, visits WHERE patients.pid = visits.pid
    FROM visits LEFT JOIN patients ON visits.pid = patients.pid

are all rows of one table: those of `labs`, of `visits`. A row has one row above it. So the order of the joins, and
which of the tables stand there, changes neither which rows there are nor whose they are. What joins must be the
declared keys. A row whose key leads nowhere belongs to no unit, and counts nowhere, with LEFT JOIN too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.language.columns import ColumnNames
from dpsql.language.expressions import conjuncts_of, unwrapped
from dpsql.language.join_order import OF_JOIN, is_loose, with_conditions
from dpsql.language.place import Place, check_plain
from dpsql.language.refusal import refuse, words_of
from dpsql.language.scope import Scope, Step

RowsOf = Callable[[exp.Expr, Place], Scope]
"""The rows of one item of FROM."""
_ALONE = "ask about each of them alone, or about the number of children of each row of the table above"


def is_linked(item: exp.Expr, place: Place) -> bool:
    """Whether an item of FROM reads a table of a tree."""
    if place.is_named(item):
        query, _, outside = place.named[fold(item.name)]
        return reads_linked(query, outside)
    if isinstance(item, exp.Subquery):
        return reads_linked(item.this, place.with_(item)) if isinstance(item.this, exp.Query) else False
    return isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier) and place.catalog.is_linked(item)


def reads_linked(query: exp.Expr, place: Place) -> bool:
    """Whether a query reads a table of a tree."""
    origin = query.args.get("from_") if isinstance(query, exp.Select) else None
    items = [] if origin is None else [origin.this, *(join.this for join in query.args.get("joins") or ())]
    inside = place.with_(query) if isinstance(query, exp.Query) else place
    return any(is_linked(item, inside) for item in items)


@dataclass(frozen=True)
class _Tables:
    """The tables of a tree that a FROM names.

    Attributes:
        items: of FROM, with the join that brings each; None of the first.
        scopes: their rows.
        paths: the steps up from each.
    """

    items: Sequence[tuple[exp.Expr, exp.Join | None]]
    scopes: Sequence[Scope]
    paths: Sequence[Sequence[Step]]

    @property
    def deepest(self) -> int:
        """The number of the table whose rows are counted."""
        return max(range(len(self.paths)), key=lambda n: len(self.paths[n]))


def linked(select: exp.Select, place: Place, rows_of: RowsOf) -> tuple[Scope, exp.Select, list[exp.Join]] | None:
    """The rows of the tables of one tree, the SELECT with the other joins, and those of the tree.

    None where FROM names one table of a tree at most.

    Args:
        select: with its protected table first.
        place: where it stands.
        rows_of: the rows of an item.

    Raises:
        InvalidQuery: they are not joined by their keys.
    """
    first, joins = select.args["from_"].this, select.args.get("joins") or []
    mine = [join for join in joins if is_linked(join.this, place)]
    if not mine or not is_linked(first, place):
        return None
    items = [(first, None), *((join.this, join) for join in mine)]
    scopes = [rows_of(item, place) for item, _ in items]
    tables = _Tables(items, scopes, [place.catalog.path(scope.origin) for scope in scopes])
    names = _names(tables)
    scope = _beside(tables, names)
    where = select.args.get("where")
    conditions = [] if where is None else conjuncts_of(where.this)
    of_joins = _conditions(tables, scope)
    keys = _keys(tables, names)
    keeps = _keeps(tables)
    rest = [tree for tree in conditions if keeps or _pair(tree, scope) not in keys]
    met = {_pair(tree, scope) for tree in conditions} | {pair for pairs, _, _ in of_joins for pair in pairs}
    _check_met(tables, keys, met)
    filters = _filters(of_joins, keys, scope, keeps=keeps)
    rewrite = with_conditions(select, rest) if len(rest) < len(conditions) else select.copy()
    rewrite.set("joins", [join.copy() for join in joins if not any(join is own for own in mine)])
    return replace(scope, filters=(*scope.filters, *filters), keeps=keeps), rewrite, mine


def _names(tables: _Tables) -> list[Mapping[str, str] | None]:
    """For each table what its columns are called beside those of the deepest; None of the deepest itself.

    Raises:
        InvalidQuery: a table is not above it, or is named twice.
    """
    deepest = tables.deepest
    steps = {step.table: step for step in tables.paths[deepest]}
    top = tables.scopes[deepest]
    renamings: list[Mapping[str, str] | None] = []
    seen = {top.origin.key}
    for number, scope in enumerate(tables.scopes):
        item, join = tables.items[number]
        if scope.origin.per_unit:
            reason = "rows that are counted for each unit cannot be joined to another linked table"
            refuse(join or item, reason, "ask about the units alone: the subquery shows columns of theirs, too")
        if number == deepest:
            renamings.append(None)
            continue
        if scope.origin.key in seen:
            refuse(join or item, f"table {scope.origin.name!r} stands in FROM twice", _ALONE)
        if scope.origin.key not in steps or scope.origin.catalog != top.origin.catalog:
            reason = f"rows of {top.origin.name!r} do not lead to rows of {scope.origin.name!r} by declared keys"
            refuse(join or item, reason, _ALONE)
        seen.add(scope.origin.key)
        renamings.append(steps[scope.origin.key].columns)
    return renamings


def _beside(tables: _Tables, names: Sequence[Mapping[str, str] | None]) -> Scope:
    """What FROM shows of all, over the deepest table's columns and those that it reaches."""
    deepest = tables.scopes[tables.deepest]
    columns: dict[str, exp.Expr] = {}
    shown: dict[str, Mapping[str, exp.Expr]] = {}
    filters: list[exp.Expr] = []
    places: dict[str, tuple[str, ...]] = {}
    ambiguous: set[str] = set()
    using: set[str] = set()
    for (item, join), scope, called in zip(tables.items, tables.scopes, names, strict=True):
        own = {name: _renamed(tree, called) for name, tree in scope.columns.items()}
        shared = {fold(name) for name in own} & {fold(name) for name in columns}
        if join is not None:
            natural = shared if join.method == "NATURAL" else set()
            using |= {fold(identifier.name) for identifier in join.args.get("using") or ()} | natural
        alias = item.alias_or_name
        if pick(alias, shown) is not None:
            refuse(join or item, f"two tables are called {alias!r}", "give one of them an alias")
        ambiguous |= shared - using
        columns |= {name: tree for name, tree in own.items() if fold(name) not in shared}
        shown[alias] = own
        places |= scope.places
        filters += [_renamed(tree, called) for tree in scope.filters]
        if scope.dimensions and called is not None:
            refuse(join or item, "public tables inside a subquery of a table above are not supported", "join them here")
    return replace(
        deepest, columns=columns, filters=tuple(filters), tables=shown, places=places, ambiguous=frozenset(ambiguous)
    )


def _renamed(tree: exp.Expr, called: Mapping[str, str] | None) -> exp.Expr:
    """An expression over a table's columns as one over what they are called beside the deepest table's."""
    if called is None:
        return tree

    def over(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table:
            return exp.column(exp.to_identifier(called[node.name], quoted=True))
        return node

    return tree.transform(over)


Pair = frozenset[str]
"""Two columns that are equal."""
_OfJoin = tuple[set[Pair], list[exp.Expr], exp.Join]


def _conditions(tables: _Tables, scope: Scope) -> list[_OfJoin]:
    """Of each join the pairs of columns that it says are equal, and its conditions as they were written."""
    join_parts: list[_OfJoin] = []
    for number, (item, join) in enumerate(tables.items):
        if join is None:
            continue
        _check_kind(join)
        shown = scope.tables[item.alias_or_name]
        named = [identifier.name for identifier in join.args.get("using") or ()]
        before = [scope.tables[other.alias_or_name] for other, _ in tables.items[:number]]
        if join.method == "NATURAL":
            named = [name for name in shown if any(pick(name, columns) is not None for columns in before)]
        pairs = {_of_names(join, name, shown, before) for name in named}
        written = conjuncts_of(join.args["on"]) if join.args.get("on") else []
        equal = {pair for pair in (_pair(tree, scope) for tree in written) if pair is not None}
        join_parts.append((pairs | equal, written, join))
    return join_parts


def _of_names(
    join: exp.Join, name: str, shown: Mapping[str, exp.Expr], before: Sequence[Mapping[str, exp.Expr]]
) -> Pair:
    """The columns that USING says are equal."""
    mine = pick(name, shown)
    others = [columns[other] for columns in before if (other := pick(name, columns)) is not None]
    sides = [unwrapped(shown[mine]), unwrapped(others[0])] if mine is not None and others else []
    if not sides or not all(isinstance(side, exp.Column) for side in sides):
        refuse(join, f"USING ({name}) names no column of both", "say ON a.key = b.key")
    return frozenset(side.name for side in sides)


def _pair(tree: exp.Expr | None, scope: Scope) -> Pair | None:
    """The columns of `a = b`; None of another condition."""
    tree = None if tree is None else unwrapped(tree)
    if not isinstance(tree, exp.EQ):
        return None
    sides = [unwrapped(side) for side in (tree.this, tree.expression)]
    if not all(isinstance(side, exp.Column) and _is_there(side, scope) for side in sides):
        return None
    over = [unwrapped(ColumnNames(scope, ()).find(side)) for side in sides]  # type: ignore[arg-type]
    return frozenset(side.name for side in over) if all(isinstance(side, exp.Column) for side in over) else None


def _is_there(column: exp.Expr, scope: Scope) -> bool:
    """Whether a column is one of the tables, so that a condition on public ones is left to those."""
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        return False
    if not column.table:
        return pick(column.name, scope.columns) is not None and fold(column.name) not in scope.ambiguous
    table = pick(column.table, scope.tables)
    return table is not None and scope.is_at(column) and pick(column.name, scope.tables[table]) is not None


def _check_kind(join: exp.Join) -> None:
    """Refuse joins that are no plain ones."""
    check_plain(join, OF_JOIN)
    if join.kind not in ("", "INNER", "CROSS", "OUTER") or join.method not in ("", "NATURAL"):
        refuse(join, f"{words_of(join)} of linked tables is not supported", "say JOIN … USING (key)")
    if join.side not in ("", "LEFT", "RIGHT"):
        reason = f"{join.side} JOIN keeps rows of both tables, which is not supported"
        refuse(join, reason, "say JOIN, or LEFT JOIN from the table above down")


def _keeps(tables: _Tables) -> bool:
    """Whether rows of the highest table are there without rows below: all joins keep them, or none does.

    Raises:
        InvalidQuery: some do, or rows that are kept are not all of the table whose rows are units.
    """
    joins: list[exp.Join] = []
    keeping: list[exp.Join] = []
    for number, (_, join) in enumerate(tables.items):
        if join is not None:
            joins.append(join)
            is_below = len(tables.paths[number]) > max(len(path) for path in tables.paths[:number])
            if join.side == ("LEFT" if is_below else "RIGHT"):
                keeping.append(join)
    if not keeping:
        return False
    deepest = len(tables.paths[tables.deepest])
    pairs = zip(tables.scopes, tables.paths, strict=True)
    filtered = any(scope.filters for scope, path in pairs if len(path) < deepest)
    if len(keeping) < len(joins) or min(map(len, tables.paths)) or filtered:
        refuse(
            keeping[0],
            f"{keeping[0].side} JOIN keeps rows of a table above without rows below, which is supported where all "
            "joins do, from the table whose rows are units down",
            "say FROM units LEFT JOIN below …, or JOIN in place of each LEFT JOIN",
        )
    return True


def _keys(tables: _Tables, names: Sequence[Mapping[str, str] | None]) -> dict[Pair, int]:
    """The pairs of columns that link the tables up to the highest that is named, each with its step."""
    deepest = tables.deepest
    path = tables.paths[deepest]
    highest = min(len(tables.paths[n]) for n in range(len(tables.paths)))
    mine = {scope.origin.key for scope in tables.scopes}
    keys: dict[Pair, int] = {}
    for number, step in enumerate(path[: len(path) - highest]):
        if step.table not in mine:
            item = tables.items[-1][1] or tables.items[-1][0]
            refuse(item, f"{step.table!r} lies between tables of FROM", f"join {step.table} too, by its keys")
        keys |= {frozenset(pair): number for pair in step.pairs}
    return keys


def _check_met(tables: _Tables, keys: Mapping[Pair, int], met: set[Pair | None]) -> None:
    """Refuse tables that are not joined by all of their keys."""
    missing = [pair for pair in keys if pair not in met]
    if not missing:
        return
    step = tables.paths[tables.deepest][keys[missing[0]]]
    on_text = " AND ".join(f"{below} = {above}" for below, above in step.pairs)
    item = tables.items[-1][1] or tables.items[-1][0]
    refuse(item, "linked tables are joined by the keys that were declared, and by all of them", f"say ON {on_text}")


def _is_true(tree: exp.Expr) -> bool:
    """Whether a condition is the word TRUE."""
    inside = unwrapped(tree)
    return isinstance(inside, exp.Boolean) and bool(inside.this)


def _filters(of_joins: Sequence[_OfJoin], keys: Mapping[Pair, int], scope: Scope, *, keeps: bool) -> list[exp.Expr]:
    """What ON says beside the keys: which rows there are; where rows above are kept, which of those below are."""
    names = ColumnNames(scope, ())
    filters = []
    for pairs, written, join in of_joins:
        more = [tree for tree in written if _pair(tree, scope) not in keys and not _is_true(tree)]
        other = [pair for pair in pairs if pair not in keys]
        if join.side and (more or other) and not (keeps and not other and len(of_joins) == 1):
            refuse(join, "a condition beside the keys is not supported in an outer join", "say it in WHERE")
        if len(other) > len([tree for tree in more if _pair(tree, scope) is not None]):
            refuse(join, "USING names a column that is no declared key", "join by the keys that were declared")
        if is_loose(join):
            continue
        filters += [names.over_rows(tree) for tree in more]
    return filters
