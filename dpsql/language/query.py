"""A query taken apart: keys, aggregates, filters, and what it says about results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from dpsql.language.expressions import sql_of, structure
from dpsql.language.scope import Scope


@dataclass(frozen=True)
class Aggregate:
    """A count, a sum or an average of an expression over the rows that satisfy all filters.

    Of kind `units`: how many different values the argument has, which must be the privacy unit's column.
    """

    kind: Literal["count", "units", "sum", "avg"]
    argument: exp.Expr | None
    filters: tuple[exp.Expr, ...]

    @property
    def trees(self) -> tuple[exp.Expr, ...]:
        """Its expressions; not the privacy unit's column, which has no domain."""
        return self.filters if self.argument is None or self.kind == "units" else (self.argument, *self.filters)


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

    @property
    def trees(self) -> list[exp.Expr]:
        """All that it says about rows: keys, filters, and what its aggregates are of."""
        return [*self.keys, *self.filters, *(tree for aggregate in self.aggregates for tree in aggregate.trees)]

    @property
    def fingerprint(self) -> str:
        """Tells queries apart that mean or show something else."""
        trees = [*self.keys, *self.filters, *self.outputs, *self.scope.columns.values(), self.select]
        trees += [] if self.having is None else [self.having]
        texts = [sql_of(tree) for tree in (*trees, *self.order)]
        aggregates = [
            [a.kind, a.argument and structure(a.argument), *map(structure, a.filters)] for a in self.aggregates
        ]
        shown = (
            {name: list(columns) for name, columns in self.scope.tables.items()},
            self.sets,
            self.noisy,
            self.limit,
            self.offset,
        )
        return repr((texts, aggregates, shown, len(self.keys), len(self.filters)))
