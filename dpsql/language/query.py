"""A query taken apart: keys, aggregates, filters, and what it says about results."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sqlglot import exp

from dpsql.language.around import Around
from dpsql.language.expressions import enclosed, sql_of, structure, unwrapped
from dpsql.language.scope import MATCHES, Scope
from dpsql.language.written import kept_words

Plain = Literal["count", "units", "sum", "avg"]
Kind = Literal[
    Plain, "stddev_samp", "stddev_pop", "var_samp", "var_pop", "corr", "covar_samp", "covar_pop", "quantile_cont",
    "quantile_disc", "ratio", "histogram",
]  # fmt: skip


@dataclass(frozen=True)
class Aggregate:
    """A count, a sum, an average or another statistic of an expression over the rows that satisfy all filters.

    Of kind `units`: how many different values the argument has, which must be the privacy unit's column. Of kind
    `ratio`: one of `sides` over the other. Of kind `histogram`, which nobody can write: how many rows have each value.

    Attributes:
        kind: which statistic.
        argument: what it is of; None of rows.
        filters: all of which hold of its rows.
        second: what it is of beside the argument.
        share: of a quantile, the share of the rows below it.
        sides: the sums or counts of a ratio.
    """

    kind: Kind
    argument: exp.Expr | None
    filters: tuple[exp.Expr, ...]
    second: exp.Expr | None = None
    share: float | None = None
    sides: tuple[Aggregate, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is what every version of dpsql knows: its key and its answers are as they were."""
        return self.kind in get_args(Plain)

    @property
    def trees(self) -> tuple[exp.Expr, ...]:
        """Its expressions; not the privacy unit's column, which has no domain."""
        own = () if self.kind == "units" else tuple(t for t in (self.argument, self.second) if t is not None)
        return (*own, *self.filters, *(tree for side in self.sides for tree in side.trees))

    def identity(self, text: Callable[[exp.Expr], str]) -> list[Any]:
        """All that tells it apart from others, as lists of texts; a plain one's must never change.

        Args:
            text: of an expression.
        """
        argument = None if self.argument is None else text(self.argument)
        parts: list[Any] = [self.kind, argument, [text(tree) for tree in self.filters]]
        if not self.is_plain:
            second = None if self.second is None else text(self.second)
            parts += [second, self.share, [side.identity(text) for side in self.sides]]
        return parts


@dataclass(frozen=True)
class Query:
    """A query taken apart.

    Attributes:
        scope: where its rows come from.
        select: as it was written, for the names and types of its columns.
        keys: expressions over the origin's columns, without repetition.
        sets: the grouping sets, as numbers of keys; one set for plain GROUP BY, the empty set without.
        aggregates: without repetition.
        outputs: for each column of the result its expression over k0, … and a0, …
        noisy: for each column of the result the number of its aggregate, None for keys.
        filters: conditions over the origin's columns, all of which hold.
        having: over keys and aggregates.
        order: likewise.
        limit: how many rows of the result.
        offset: after how many.
        windows: over keys and aggregates; w0, … stand for them in outputs, `qualify` and order.
        qualify: which rows of the result there are, by their windows.
        around: what stands around it, if it is a query of groups in FROM of another.
    """

    scope: Scope
    select: exp.Select
    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[exp.Expr, ...]
    noisy: tuple[int | None, ...]
    filters: tuple[exp.Expr, ...]
    having: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0
    windows: tuple[exp.Window, ...] = ()
    qualify: exp.Expr | None = None
    around: Around | None = None

    @property
    def trees(self) -> list[exp.Expr]:
        """All that it says about rows: keys, filters, and what its aggregates are of."""
        return [*self.keys, *self.filters, *(tree for aggregate in self.aggregates for tree in aggregate.trees)]

    def without_sure(self, columns: Set[str]) -> Query:
        """The same, where `count(x)` of some columns, which are never NULL, counts rows and does not read x."""

        def counted(aggregate: Aggregate) -> Aggregate:
            if aggregate.kind != "count":
                return replace(aggregate, sides=tuple(map(counted, aggregate.sides)))
            return replace(
                aggregate, filters=tuple(tree for tree in aggregate.filters if _column_there(tree) not in columns)
            )

        return replace(self, aggregates=tuple(map(counted, self.aggregates))) if columns else self

    def counting_there(self) -> Query:
        """The same, where `count(CASE WHEN p THEN x END)` asks of x only whether it is NULL.

        It is asked so only where x has no domain, because what was answered before keeps its key.
        """

        def counted(aggregate: Aggregate) -> Aggregate:
            sides, filters = tuple(map(counted, aggregate.sides)), tuple(map(_case_there, aggregate.filters))
            return replace(aggregate, sides=sides, filters=filters if aggregate.kind == "count" else aggregate.filters)

        return replace(self, aggregates=tuple(map(counted, self.aggregates)))

    @property
    def only_there(self) -> frozenset[str]:
        """The columns of which nothing is asked but whether they are NULL, as by `count(x)`."""
        columns = [node for tree in self.trees for node in tree.find_all(exp.Column) if not node.table]
        return frozenset(c.name for c in columns) - {c.name for c in columns if not _asks_for_null(c)}

    @property
    def of_units(self) -> list[Aggregate]:
        """Those of its aggregates, and of their sides, that count values of the privacy unit's column."""
        every = [part for aggregate in self.aggregates for part in (aggregate, *aggregate.sides)]
        return [aggregate for aggregate in every if aggregate.kind == "units"]

    @property
    def matches(self) -> list[exp.Expr]:
        """The filters that say which rows of two tables meet, and not which groups there are."""
        return [tree for tree in self.filters if tree.meta.get(MATCHES)]

    @property
    def fingerprint(self) -> str:
        """Tells queries apart that mean or show something else."""
        trees = [*self.keys, *self.filters, *self.outputs, *self.scope.columns.values(), self.select]
        trees += [tree for tree in (self.having, self.qualify, *self.windows) if tree is not None]
        texts = [sql_of(tree) for tree in (*trees, *self.order)]
        aggregates = [a.identity(structure) for a in self.aggregates]
        shown: tuple[Any, ...] = (
            {name: list(columns) for name, columns in self.scope.tables.items()},
            self.sets,
            self.noisy,
            self.limit,
            self.offset,
        )
        if self.scope.preserved is not None:
            shown += (self.scope.preserved.dimension.name, tuple(map(sql_of, self.matches)))
        if self.around is not None:
            shown += (self.around,)
        words = [words for tree in self.trees for _, words in kept_words(tree)]  # what is translated alike may differ
        return repr((texts, aggregates, shown, len(self.keys), len(self.filters), words))


def _case_there(tree: exp.Expr) -> exp.Expr:
    """`CASE … THEN x END IS NOT NULL` as `CASE … THEN x IS NOT NULL ELSE false END`; another condition as it is."""
    test = tree.this if isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) else None
    case = unwrapped(test.this) if test is not None and isinstance(test.expression, exp.Null) else None
    if not isinstance(case, exp.Case):
        return tree

    def there(value: exp.Expr | None) -> exp.Expr:
        branch = exp.null() if value is None else enclosed(value)
        return exp.Not(this=exp.Is(this=branch, expression=exp.null()))

    operand, ifs = case.this, [exp.If(this=arm.this.copy(), true=there(arm.args["true"])) for arm in case.args["ifs"]]
    return exp.Case(this=None if operand is None else operand.copy(), ifs=ifs, default=there(case.args.get("default")))


def _asks_for_null(column: exp.Column) -> bool:
    """Whether a column stands in `x IS NULL`."""
    outside = column.parent
    while isinstance(outside, exp.Paren):
        outside = outside.parent
    return isinstance(outside, exp.Is) and isinstance(outside.expression, exp.Null)


def _column_there(tree: exp.Expr) -> str | None:
    """The column that `x IS NOT NULL` asks for; None if a condition is another."""
    operand = tree.this.this if isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) else None
    inside = None if operand is None or not isinstance(tree.this.expression, exp.Null) else unwrapped(operand)
    return inside.name if isinstance(inside, exp.Column) and not inside.table else None
