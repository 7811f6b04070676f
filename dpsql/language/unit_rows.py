"""A subquery with one row a unit: how many rows of a linked table each has, and values of one of them.

    SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY n
    SELECT n, count(*) FROM (SELECT p.pid, count(v.pid) AS n FROM p LEFT JOIN v USING (pid) GROUP BY p.pid) GROUP BY n
    SELECT w, count(*) FROM (SELECT pid, min_by(ward, day) AS w FROM visits GROUP BY pid HAVING count(*) > 2) GROUP BY w

Groups of a unit's keys are the units that have a row, with LEFT JOIN all units. They are rows of the table whose rows
are units, so the query around them is one about that table: a unit is one row of it, and counts change by 1 at most,
whatever its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from dpsql.core.of_unit import OfUnit
from dpsql.language.columns import ColumnNames
from dpsql.language.expressions import conjuncts_of, sql_of, unwrapped
from dpsql.language.linked import reads_linked
from dpsql.language.place import Place
from dpsql.language.refusal import OF_ROWS, check_clauses, check_scalar, refuse, words_of
from dpsql.language.scope import Scope, Units

ScopeOf = Callable[[exp.Select, Place], tuple[Scope, exp.Select]]
"""The rows that a SELECT reads, and what it says of them."""
OF_UNITS: Final = (
    "ask about units, each with its number of rows: SELECT n, count(*) FROM (SELECT key, count(linked.key) AS n FROM "
    "units LEFT JOIN linked USING (key) GROUP BY key) GROUP BY n"
)
_ASKING: Final = (exp.Filter, exp.AggFunc, exp.IgnoreNulls)
_INSTEAD: Final = (
    "ask for units and their numbers of rows, SELECT key, count(*) AS n FROM linked GROUP BY key, or for a value of "
    "one of these: min, max, any_value, min_by, max_by, first(x ORDER BY y), last(x ORDER BY y)"
)


def rows_of_units(query: exp.Select, place: Place, scope_of: ScopeOf) -> Scope | None:
    """The rows of a subquery that has one for each unit; None of other groups.

    Args:
        query: a query of groups.
        place: where its tables are looked up.
        scope_of: what a FROM shows.

    Raises:
        InvalidQuery: it says what cannot be asked of each unit.
    """
    if query.args.get("group") is None or not reads_linked(query, place):
        return None
    scope, written = scope_of(query, place)
    units = _units(scope, place)
    names = ColumnNames(scope, written.expressions)
    keys = None if units is None else _keys(written, names, units)
    if units is None or keys is None or not units.keys <= keys:
        return None
    check_clauses(written, OF_ROWS | {"group", "having"}, inside=True)
    where = written.args.get("where")
    conditions = [names.over_rows(tree) for tree in conjuncts_of(None if where is None else where.this)]
    if scope.dimensions:
        refuse(query, "public tables beside rows that are counted for each unit are not supported", "leave them out")
    of_rows = scope.filters if scope.keeps else (*scope.filters, *conditions)
    texts = tuple(sorted({sql_of(tree) for tree in of_rows if not is_sure(tree, units)}))
    counted = {below for below, _ in place.catalog.path(scope.origin)[0].pairs}  # never NULL where a row has a unit
    upper = frozenset(name for step in place.catalog.path(scope.origin) for name in step.columns.values())
    reader = _Reader(names, texts, frozenset(counted), upper, scope.keeps)
    having = written.args.get("having")
    clauses = conjuncts_of(None if having is None else having.this)
    listed = [item.unalias() for item in written.expressions]
    questions = list(dict.fromkeys(question for tree in (*listed, *clauses) for question in reader.questions(tree)))
    some = OfUnit(texts) if OfUnit(texts) in questions else OfUnit(texts, most=1)
    units = _units(scope, place, list(dict.fromkeys([some, *questions])))
    assert units is not None
    columns: dict[str, exp.Expr] = {}
    for item, tree in zip(written.expressions, listed, strict=True):
        name = item.alias_or_name or item.sql(dialect="duckdb")
        if name in columns:
            refuse(item, f"two columns of a subquery are called {name!r}", "give one of them another name")
        columns[name] = reader.of_units(tree, units)
    filters = [reader.of_units(tree, units) for tree in clauses]
    if scope.keeps:
        filters += [reader.above(tree, units) for tree in conjuncts_of(None if where is None else where.this)]
    else:
        filters.append(exp.GTE(this=units.number(some), expression=exp.Literal.number(1)))
    return Scope(units.origin, columns, tuple(filters))


def _units(scope: Scope, place: Place, questions: Sequence[OfUnit] = (OfUnit(),)) -> Units | None:
    """The units of a linked table; where some have no rows there, no column of these tells them."""
    units = place.catalog.units(scope.origin, questions)
    if units is None or not scope.keeps:
        return units
    above = set(place.catalog.path(scope.origin)[-1].columns.values())
    return replace(units, columns={name: own for name, own in units.columns.items() if name in above})


def is_sure(tree: exp.Expr, units: Units) -> bool:
    """Whether a condition holds of all rows that have a unit: a column that tells it is not NULL."""
    inside = unwrapped(tree)
    test = inside.this if isinstance(inside, exp.Not) else None
    column = unwrapped(test.this) if isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) else None
    return isinstance(column, exp.Column) and units.columns.get(column.name) in units.keys


def _keys(query: exp.Select, names: ColumnNames, units: Units) -> frozenset[str] | None:
    """The columns of the units by which groups are made; None where another column is one."""
    group = query.args["group"]
    listed = [item.unalias() for item in query.expressions]
    trees: list[exp.Expr] = list(group.expressions)
    if group.args.get("all"):
        trees = [item for item in listed if item.find(exp.AggFunc) is None]
    keys = set()
    for tree in trees:
        if isinstance(tree, exp.Literal) and tree.is_int and 1 <= int(tree.name) <= len(listed):
            tree = listed[int(tree.name) - 1]
        inside = unwrapped(names.over_rows(tree)) if isinstance(unwrapped(tree), exp.Column) else tree
        if not isinstance(inside, exp.Column) or inside.name not in units.columns:
            return None
        keys.add(units.columns[inside.name])
    return frozenset(keys)


@dataclass(frozen=True)
class _Reader:
    """Reads what a subquery asks of each unit's rows.

    Attributes:
        names: what columns mean.
        where: which rows there are.
        counted: columns of the rows below that are never NULL, where units without rows are there.
        upper: columns of the tables above these rows, which units without rows have, too.
        keeps: whether those are.
    """

    names: ColumnNames
    where: tuple[str, ...]
    counted: frozenset[str]
    upper: frozenset[str]
    keeps: bool

    def questions(self, tree: exp.Expr) -> list[OfUnit]:
        """What an expression asks of a unit's rows."""
        nodes = tree.walk(prune=lambda node: isinstance(node, _ASKING))
        return [self._question(node) for node in nodes if isinstance(node, _ASKING)]

    def of_units(self, tree: exp.Expr, units: Units) -> exp.Expr:
        """An expression of the SELECT list or of HAVING as one on units."""
        _check_told(tree, units.most)

        def over_units(node: exp.Expr) -> exp.Expr:
            if isinstance(node, _ASKING):
                return units.number(self._question(node))
            if not isinstance(node, exp.Column):
                return node
            inside = unwrapped(self._listed(node))
            if isinstance(inside, _ASKING):
                return units.number(self._question(inside))
            column = unwrapped(self.names.over_rows(inside))
            if not isinstance(column, exp.Column) or column.name not in units.columns:
                refuse(tree, f"{words_of(node)} of each unit is not supported", _INSTEAD)
            return exp.column(exp.to_identifier(units.columns[column.name], quoted=True))

        expression = (
            over_units(tree) if isinstance(tree, exp.Column | exp.Filter | exp.AggFunc) else tree.transform(over_units)
        )
        check_scalar(expression)
        return expression

    def above(self, tree: exp.Expr, units: Units) -> exp.Expr:
        """A condition of WHERE after a LEFT JOIN, which is one on the units."""

        def over_units(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            columns = [column.name for column in self.names.over_rows(node).find_all(exp.Column)]
            if len(columns) != 1 or columns[0] not in units.columns:
                reason = "WHERE after LEFT JOIN reads a column of the table below, so it leaves out units without rows"
                refuse(tree, reason, "say it in ON, or JOIN in place of LEFT JOIN")
            return exp.column(exp.to_identifier(units.columns[columns[0]], quoted=True))

        return tree.transform(over_units)

    def _listed(self, column: exp.Column) -> exp.Expr:
        """The aggregate of the SELECT list that a name in HAVING means, else the column."""
        named = self.names.names_aggregate(column)
        return column if named is None or named.find(exp.AggFunc) is None else named

    def _question(self, node: exp.Expr) -> OfUnit:
        """What an aggregate asks of a unit's rows."""
        whole, where = node, self.where
        while isinstance(node, exp.Filter):
            where = self._with(where, node.expression.this)
            node = node.this
        if isinstance(node, exp.CountIf):
            if self.keeps:
                refuse(whole, "units without rows have one row of NULLs here, so count_if would count that", OF_UNITS)
            return OfUnit(self._with(where, node.this))
        if isinstance(node, exp.Count):
            return self._number(whole, node, where)
        chosen = self._chosen(node, where)
        if chosen is not None and self.keeps and not self.upper.isdisjoint((chosen.value, chosen.by)):
            reason = f"{words_of(whole)} of each unit is not supported: LEFT JOIN keeps rows that have none below"
            refuse(whole, reason, "say JOIN, or ask about the table that has the column without the tables below it")
        if chosen is None:
            refuse(whole, f"{words_of(whole)} of each unit is not supported", _INSTEAD)
        return chosen

    def _with(self, where: Sequence[str], condition: exp.Expr) -> tuple[str, ...]:
        more = [sql_of(self.names.over_rows(tree)) for tree in conjuncts_of(condition)]
        return tuple(sorted({*where, *more}))

    def _number(self, whole: exp.Expr, node: exp.Count, where: tuple[str, ...]) -> OfUnit:
        """A number of rows."""
        if node.this is None or isinstance(node.this, exp.Star):
            if self.keeps:
                reason = "count(*) counts units without rows as one row"
                refuse(whole, reason, "say count(linked.key), which is 0 for these")
            return OfUnit(where)
        column = unwrapped(self.names.over_rows(node.this)) if isinstance(node.this, exp.Column) else None
        if isinstance(column, exp.Column) and column.name in self.counted:
            return OfUnit(where)
        instead = "say count(linked.key), of the key that leads up" if self.keeps else "say count(*)"
        raise refuse(whole, f"{words_of(whole)} of each unit is not supported", f"{instead}; {_INSTEAD}")

    def _chosen(self, node: exp.Expr, where: tuple[str, ...]) -> OfUnit | None:
        """A value of one row; None of another aggregate."""
        if isinstance(node, exp.IgnoreNulls):
            chosen = self._chosen(node.this, where)
            return (
                None if chosen is None else replace(chosen, skips=tuple(dict.fromkeys([chosen.value, *chosen.skips])))
            )
        if isinstance(node, exp.ArgMin | exp.ArgMax) and not node.args.get("count"):
            value, by = self._column(node.this), self._column(node.expression)
            return OfUnit(where, value, by, isinstance(node, exp.ArgMax), False, (value, by))
        if isinstance(node, exp.Min | exp.Max) and not node.expressions:
            value = self._column(node.this)
            return OfUnit(where, value, value, isinstance(node, exp.Max), False, (value,))
        if isinstance(node, exp.AnyValue) and not isinstance(node.this, exp.HavingMax | exp.Order):
            value = self._column(node.this)
            return OfUnit(where, value, skips=(value,))
        if isinstance(node, exp.First | exp.Last):
            if not isinstance(node.this, exp.Order) or len(node.this.expressions) != 1:
                instead = "say first(x ORDER BY y), or any_value(x) of any row"
                refuse(node, "which row is the first is not said", instead)
            (order,) = node.this.expressions
            value, by = self._column(node.this.this), self._column(order.this)
            last = isinstance(node, exp.Last)
            return OfUnit(
                where, value, by, bool(order.args.get("desc")) != last, bool(order.args.get("nulls_first")) != last
            )
        return None

    def _column(self, tree: exp.Expr) -> str:
        """A column of the rows."""
        inside = unwrapped(self.names.over_rows(tree)) if isinstance(unwrapped(tree), exp.Column) else tree
        if not isinstance(inside, exp.Column) or inside.table:
            refuse(tree, f"{words_of(tree)} is no column of the rows", "name a column, and compute around the subquery")
        return inside.name


def _check_told(tree: exp.Expr, most: int) -> None:
    """Refuse to compare numbers of rows with one that is not told apart from larger ones."""
    for literal in tree.find_all(exp.Literal):
        around = literal.find_ancestor(exp.Predicate)
        compared = tree if around is None else around
        if not literal.is_number or compared.find(exp.Count, exp.CountIf) is None:
            continue
        if not literal.is_int or int(literal.name) > most:
            reason = f"numbers of {most} and more are one number, so {literal.name} cannot be told apart"
            refuse(literal, reason, "say a larger most := … in dp_link")
