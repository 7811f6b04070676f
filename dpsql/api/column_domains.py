"""What a table's owner says of its columns from Python: their domains, declared or discovered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.api.connection import Connection
from dpsql.core.arguments import checked
from dpsql.core.domain import Attribute
from dpsql.engines.registry import find_source
from dpsql.owner.protect import declare
from dpsql.release.discovery import discover, resolve_discovery
from dpsql.release.request import DiscoveryRequest
from dpsql.udfs.interrupts import pressed, watched


class ColumnDomains(Connection):
    """The methods by which owners declare columns; see `Owner`."""

    def domain(
        self,
        table: str,
        column: str,
        *,
        values: Sequence[Any] | None = None,
        lower: Any = None,
        upper: Any = None,
        bins: int | None = None,
        scale: str | None = None,
        every: str | None = None,
        edges: Sequence[Any] | None = None,
        points: Sequence[Any] | None = None,
        step: float | None = None,
        reference: str | None = None,
        type: bool = False,
        computed_as: str | None = None,
        exclude: bool = False,
        ids: bool = False,
        fake: str | None = None,
        nulls: bool | None = None,
        nulls_as: Sequence[Any] | None = None,
        read_as: str | None = None,
        other: Any = None,
        looked: bool | None = None,
    ) -> None:
        """Declare the public domain of a column. See `dp_domain` in SQL.

        Args:
            table: the protected table.
            column: of it.
            values: all values.
            lower: the smallest value.
            upper: the largest value, included.
            bins: intervals of equal width; by default at most 100.
            scale: 'log' for intervals that grow by the same factor.
            every: 'week', 'month', 'quarter' or 'year' for intervals of the calendar.
            edges: increasing edges of intervals, the last one exclusive.
            points: values in the intervals that get a cell of their own, such as 0.
            step: synthetic values are multiples of it: 1 for whole numbers, 0.01 for cents; of times and timestamps in
                seconds, as 60 for whole minutes.
            reference: 'table.column' of a public table that has the values.
            type: the members of its ENUM type are public, whatever the rows.
            computed_as: an expression of other columns, as 'repair + other', which is computed and not measured.
            exclude: leave the column NULL in every synthetic row.
            ids: exclude the column; synthetic rows get ids of their own.
            fake: exclude the column; the faker package writes 'name', 'city', … (`pip install 'dpsql[faker]'`).
            nulls: whether NULL has a cell; by default unless the column is NOT NULL.
            nulls_as: values that stand for a missing one: they count as NULL.
            read_as: the type as which texts are read, such as 'INTEGER' or 'DECIMAL(5,2)%', or the form of times.
            other: the value that stands for all that is not in the domain.
            looked: you read it off the rows, so it is your disclosure; False for one that is public after all.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (age INTEGER)"), db.protect("t", 3.0, 1e-9)
        ...     db.domain("t", "age", lower=0, upper=119, bins=12, nulls_as=[-9])
        """
        self._declare(table, column, locals())

    def _declare(self, table: str, column: str, given: Mapping[str, Any]) -> None:
        """See `domain`, whose arguments are given."""
        how = {name: value for name, value in given.items() if name not in ("self", "table", "column")}
        self.instance.check_owner("domain")
        with self.instance.cursor() as cursor:
            declare(cursor, find_source(cursor, table, self._search_path), column, search_path=self._search_path, **how)

    def discover(
        self,
        table: str,
        column: str,
        epsilon: float,
        *,
        delta: float | None = None,
        lower: Any = None,
        upper: Any = None,
        bins: int | None = None,
        nulls: bool | None = None,
        nulls_as: Sequence[Any] | None = None,
        read_as: str | None = None,
        other: Any = None,
        heavy: float | None = None,
        period: str | None = None,
    ) -> Attribute:
        """Find the domain of a column in its private rows, with noise: charged. See `dp_domain` in SQL.

        With `lower` and `upper` (public) the edges of `bins` with about as many rows in each: (ε, δ)-DP by Gaussian DP.
        Without, the values that so many rows or units have that none of them makes one known: (ε, δ/2)-DP but for δ/2.

        Args:
            table: the protected table.
            column: of it.
            epsilon: what it may cost.
            delta: of it; by default the table's, for values a tenth of that.
            lower: the smallest value, for bins.
            upper: the largest value, included.
            bins: how many, at most; by default 20.
            nulls: whether NULL has a cell; by default unless the column is NOT NULL.
            nulls_as: values that stand for a missing one: they count as NULL.
            read_as: the type as which texts are read, for bins.
            other: the value that stands for all that is not in the domain.
            heavy: find points too: the values that about this part of the rows have, such as 0.05.
            period: whose rows are looked at, such as `2026-03`, where each period has a budget.

        Raises:
            DpsqlError: nothing was common enough to be published (the charge is kept), or a child says what is wrong.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT 'ward ' || i % 3 AS ward FROM range(3000) r(i)")
        ...     _ = db.sql("INSERT INTO t VALUES ('ward of a single person')")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.discover("t", "ward", epsilon=1.0).values
        ('ward 0', 'ward 1', 'ward 2')
        """
        arguments = {name: value for name, value in locals().items() if name not in ("self", "epsilon")}
        self.instance.check_owner("discover")
        budget = checked("epsilon", epsilon, float)
        request = DiscoveryRequest(**arguments, epsilon=budget, search_path=self._search_path)
        with pressed(), watched(self.instance) as progress:
            with self.instance.cursor() as cursor:
                resolved = resolve_discovery(cursor, request)
            return discover(self.instance.cursor, resolved, progress)
