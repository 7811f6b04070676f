"""Names of columns to expressions over the protected table's columns, whatever lies between."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.errors import UnknownName
from dpsql.language.expressions import conjuncts_of, enclosed
from dpsql.language.refusal import RAW_ROWS, check_scalar, is_members, refuse
from dpsql.language.scope import OF_ORIGIN, Scope
from dpsql.language.written import keep_words

_PARTS: Final = "the owner makes a table with the part as a column of its own, and protects that"
_MOST_NODES: Final = 200_000


class ColumnNames:
    """What column names mean in one SELECT: columns of its FROM first, then names of its SELECT list."""

    def __init__(self, scope: Scope, listed: Sequence[exp.Expr]) -> None:
        self.scope = scope
        self._aliases = {fold(item.alias): item.this for item in listed if isinstance(item, exp.Alias)}
        self._busy: set[str] = set()

    def find(self, column: exp.Column, *, aliases: bool = True) -> exp.Expr:
        """What a column is over the origin's columns, in parentheses if need be."""
        if column.meta.get(OF_ORIGIN):
            return column.copy()
        if isinstance(column.this, exp.Star):
            refuse(column, "* is not supported here", RAW_ROWS)
        columns = self._of(column)
        name = pick(column.name, columns)
        if name is not None:
            if not column.table and fold(name) in self.scope.ambiguous:
                refuse(column, f"two tables have a column {name!r}", f"say {next(iter(self.scope.tables))}.{name}")
            return enclosed(columns[name])
        alias = fold(column.name)
        if aliases and not column.table and alias in self._aliases and alias not in self._busy:
            self._busy.add(alias)
            try:
                return enclosed(self.over_rows(self._aliases[alias]))
            finally:
                self._busy.discard(alias)
        raise UnknownName(
            f"query: there is no column {column.name!r} in {column.table or self.scope.title!r}; the columns are "
            f"{', '.join(columns)}"
        )

    def _of(self, column: exp.Column) -> Mapping[str, exp.Expr]:
        """The columns among which one is looked for: all, or those of the table that qualifies it."""
        if not column.table:
            return self.scope.columns
        table = pick(column.table, self.scope.tables)
        if pick(column.table, self.scope.columns) is not None and table is None:
            refuse(column, f"{column.table!r} is a column, and parts of it are not supported", _PARTS)
        if table is None or not self.scope.is_at(column):
            instead = f"say {next(iter(self.scope.tables))}.{column.name}"
            refuse(column, f"{column.table!r} is not what FROM calls {self.scope.title!r}", instead)
        return self.scope.tables[table]

    def names_aggregate(self, column: exp.Column, *, first: bool = False) -> exp.Expr | None:
        """The expression of the SELECT list that a name means, where no column is called that.

        Args:
            column: the name.
            first: also where a column is: HAVING means what is selected, unless the column is in GROUP BY.
        """
        if column.table or (not first and pick(column.name, self.scope.columns) is not None):
            return None
        return self._aliases.get(fold(column.name))

    def over_rows(self, tree: exp.Expr) -> exp.Expr:
        """A scalar expression with every column replaced by what it is over the origin's columns."""
        check_scalar(tree)
        expression = self.find(tree) if isinstance(tree, exp.Column) else self._replaced(tree)  # to transform copies
        if sum(1 for _ in itertools.islice(expression.walk(), _MOST_NODES + 1)) > _MOST_NODES:
            refuse(tree, "an expression grows too large where its names are replaced")
        return expression

    def _replaced(self, tree: exp.Expr) -> exp.Expr:
        """An expression over the origin's columns, with the words in which it was written."""
        columns: list[tuple[exp.Expr, exp.Expr]] = []

        def over_origin(node: exp.Expr) -> exp.Expr:
            if is_members(node):
                columns.append((node.this, node.this))
                return node.copy()
            if not isinstance(node, exp.Column):
                return node
            columns.append((node, self.find(node)))
            return columns[-1][1]

        expression = tree.transform(over_origin)
        keep_words(expression, tree, columns)
        return expression

    def listed(self, item: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """The columns that one item of a SELECT list stands for."""
        star = item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else item
        if isinstance(star, exp.Star):
            columns = self._of(item) if isinstance(item, exp.Column) else self.scope.columns
            return self._starred(star, columns)
        if isinstance(item, exp.Alias):
            return [(item.alias, self.over_rows(item.this))]
        if isinstance(item, exp.Column):
            expression = self.find(item, aliases=False)
            return [(pick(item.name, self.scope.columns) or item.name, expression)]
        return [(item.sql(dialect="duckdb"), self.over_rows(item))]

    def _starred(self, star: exp.Star, visible: Mapping[str, exp.Expr]) -> list[tuple[str, exp.Expr]]:
        left_out = {fold(column.name) for column in star.args.get("except_") or star.args.get("except") or ()}
        replaced = {fold(item.alias): item.this for item in star.args.get("replace") or ()}
        renamed = {fold(item.this.name): item.alias for item in star.args.get("rename") or ()}
        columns = []
        for name, tree in visible.items():
            if fold(name) in left_out:
                continue
            value = self.over_rows(replaced[fold(name)]) if fold(name) in replaced else tree
            columns.append((renamed.get(fold(name), name), value))
        return columns


def conjuncts(where: exp.Expr | None, names: ColumnNames) -> tuple[exp.Expr, ...]:
    """The parts of a WHERE that all must hold, over the origin's columns."""
    return tuple(names.over_rows(tree) for tree in conjuncts_of(None if where is None else where.this))
