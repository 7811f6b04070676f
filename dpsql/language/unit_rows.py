"""A subquery with one row a unit: how many rows of a linked table each has.

    SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY n
    SELECT sex, count(*) FROM (SELECT pid, sex FROM visits JOIN patients USING (pid) GROUP BY ALL HAVING count(*) > 2) …

Groups of a unit's keys are the units that have a row. They are rows of the table whose rows are units, so the query
around them is one about that table: a unit is one row of it, and counts change by 1 at most, whatever the numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.language.columns import ColumnNames
from dpsql.language.expressions import conjuncts_of, sql_of, unwrapped
from dpsql.language.linked import reads_linked
from dpsql.language.place import Place
from dpsql.language.refusal import OF_ROWS, check_clauses, refuse, words_of
from dpsql.language.scope import Scope, Units

ScopeOf = Callable[[exp.Select, Place], tuple[Scope, exp.Select]]
"""The rows that a SELECT reads, and what it says of them."""
_INSTEAD = "ask for units and their numbers of rows: SELECT key, count(*) AS n FROM linked GROUP BY key"


def rows_of_units(query: exp.Select, place: Place, scope_of: ScopeOf) -> Scope | None:
    """The rows of a subquery that has one for each unit; None of other groups.

    Args:
        query: a query of groups.
        place: where its tables are looked up.
        scope_of: what a FROM shows.

    Raises:
        InvalidQuery: it says what cannot be counted for each unit.
    """
    if query.args.get("group") is None or not reads_linked(query, place):
        return None
    scope, written = scope_of(query, place)
    units = place.catalog.units(scope.origin)
    names = ColumnNames(scope, written.expressions)
    keys = None if units is None else _keys(written, names, units)
    if units is None or keys is None or not units.keys <= keys:
        return None
    check_clauses(written, OF_ROWS | {"group", "having"}, inside=True)
    where = written.args.get("where")
    conditions = [names.over_rows(tree) for tree in conjuncts_of(None if where is None else where.this)]
    if scope.dimensions:
        refuse(query, "public tables beside rows that are counted for each unit are not supported", "leave them out")
    asked = sorted({sql_of(tree) for tree in (*scope.filters, *conditions) if not _is_sure(tree, units)})
    units = place.catalog.units(scope.origin, asked)
    assert units is not None
    columns: dict[str, exp.Expr] = {}
    for item in written.expressions:
        name = item.alias_or_name or item.sql(dialect="duckdb")
        if name in columns:
            refuse(item, f"two columns of a subquery are called {name!r}", "give one of them another name")
        columns[name] = _of_units(item.unalias(), names, units)
    having = written.args.get("having")
    filters = [_condition(tree, names, units) for tree in conjuncts_of(None if having is None else having.this)]
    some = exp.GTE(this=_number(units), expression=exp.Literal.number(1))
    return Scope(units.origin, columns, (some, *filters))


def _is_sure(tree: exp.Expr, units: Units) -> bool:
    """Whether a condition holds of all rows that have a unit: a column that tells it is not NULL."""
    inside = unwrapped(tree)
    asked = inside.this if isinstance(inside, exp.Not) else None
    column = unwrapped(asked.this) if isinstance(asked, exp.Is) and isinstance(asked.expression, exp.Null) else None
    return isinstance(column, exp.Column) and units.columns.get(column.name) in units.keys


def _number(units: Units) -> exp.Column:
    return exp.column(exp.to_identifier(units.number, quoted=True))


def _keys(query: exp.Select, names: ColumnNames, units: Units) -> frozenset[str] | None:
    """The columns of the units by which groups are made; None where another column is one."""
    group = query.args["group"]
    listed = [item.unalias() for item in query.expressions]
    trees: list[exp.Expr] = list(group.expressions)
    if group.args.get("all"):
        trees = [item for item in listed if item.find(exp.AggFunc) is None]
    found = set()
    for tree in trees:
        if isinstance(tree, exp.Literal) and tree.is_int and 1 <= int(tree.name) <= len(listed):
            tree = listed[int(tree.name) - 1]
        inside = unwrapped(names.over_rows(tree)) if isinstance(unwrapped(tree), exp.Column) else tree
        if not isinstance(inside, exp.Column) or inside.name not in units.columns:
            return None
        found.add(units.columns[inside.name])
    return frozenset(found)


def _of_units(tree: exp.Expr, names: ColumnNames, units: Units) -> exp.Expr:
    """What an item of the SELECT list is of a unit: one of its columns, or its number of rows."""
    if isinstance(tree, exp.Count) and (tree.this is None or isinstance(tree.this, exp.Star)):
        return _number(units)
    inside = unwrapped(names.over_rows(tree)) if isinstance(unwrapped(tree), exp.Column) else None
    if not isinstance(inside, exp.Column) or inside.name not in units.columns:
        refuse(tree, f"{words_of(tree)} of each unit is not supported", _INSTEAD)
    return exp.column(exp.to_identifier(units.columns[inside.name], quoted=True))


def _condition(tree: exp.Expr, names: ColumnNames, units: Units) -> exp.Expr:
    """A condition of HAVING as one on units."""
    for literal in tree.find_all(exp.Literal):
        if (literal.is_number and not literal.is_int) or (literal.is_int and int(literal.name) > units.most):
            reason = f"numbers of {units.most} and more are one number, so {literal.name} cannot be told apart"
            refuse(literal, reason, "say a larger most := … in dp_link")

    def of_units(node: exp.Expr) -> exp.Expr:
        return _of_units(node, names, units) if isinstance(node, exp.AggFunc | exp.Column) else node

    return tree.transform(of_units)
