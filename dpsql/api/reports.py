"""What Python says of a database's releases and plans: an earlier release by its number, and errors against epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from dpsql.api.function_rows import function_rows
from dpsql.api.people import People
from dpsql.api.release import Release
from dpsql.api.request_arguments import RequestArguments
from dpsql.api.signatures import of_requests
from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.store import Books
from dpsql.engines.registry import find_source
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.release.remedies import ASSUMED_ROWS
from dpsql.report.facts import check_synthetic
from dpsql.report.plan_chart import EPSILONS, PlanChart, Point, check_epsilons
from dpsql.udfs.bridge.declare import TableFunction
from dpsql.udfs.dp_measurements import find_release
from dpsql.udfs.dp_plan import DpPlan

if TYPE_CHECKING:
    import pandas as pd

    from dpsql.api.plan_frame import PlanFrame


def as_plan(rows: pd.DataFrame) -> PlanFrame:
    """The rows of `dp_plan` as a frame that draws itself."""
    from dpsql.api.plan_frame import PlanFrame  # imports pandas

    return PlanFrame(rows)


class Reports(People):
    """The methods that show what is known of releases and plans; they are free and read no private row."""

    def call(self, function: type[TableFunction], arguments: Mapping[str, Any]) -> pd.DataFrame:
        """The rows of one of the SQL functions, with the errors of Python.

        Args:
            function: its class.
            arguments: its parameters by name; None for their defaults.

        Raises:
            DpsqlError: a child with the text that is DuckDB's error in SQL.

        >>> import dpsql
        >>> from dpsql.udfs.dp_ledger import DpLedger
        >>> with dpsql.connect() as db:
        ...     len(db.call(DpLedger, {"source": "t"}))
        0
        """
        return function_rows(self.instance, function, arguments, self._search_path)

    def release(self, release: int | str) -> Release:
        """A synthetic table that was released before, by its number, name or key: see `dp_releases`.

        Raises:
            UnknownName: there is none, or several have that name.
            InvalidArgument: it is not published, or no synthetic table.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     made = db.synthesize("t", epsilon=1.0)
        ...     db.release(made.entry.number).entry.key == made.entry.key
        True
        """
        catalog, entry = find_release(self.instance, str(release))
        check_synthetic(entry)
        return Release(self.instance, self.connection, catalog, entry, str(entry.report.get("choice", "")))

    @of_requests
    def plan_chart(
        self,
        table: str,
        epsilons: Sequence[float] = EPSILONS,
        *,
        assume_rows: int | None = None,
        **arguments: Unpack[RequestArguments],
    ) -> PlanChart:
        """The predicted error of a release against epsilon, to choose one by; spends nothing.

        Args:
            table: the table, or a query.
            epsilons: to plan with.
            assume_rows: about how many rows there are; the number is private.
            **arguments: see `RequestArguments`.

        Raises:
            DpsqlError: a child says what is wrong.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN, old BOOLEAN)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     chart = db.plan_chart("t", [0.1, 1.0, 10.0])
        >>> print(chart)
        Predicted error of t against epsilon (mean L1 of the workload)
        <BLANKLINE>
        epsilon   error
            0.1   0.0431    ████████████████████████████████
              1   0.00625   ████▋
             10   0.000809  ▋                                 more than the 3 left
        <BLANKLINE>
        About 10,000 rows are assumed (assume_rows). A rough guide, free.
        """
        given = {"table": table, "assume_rows": assume_rows, **arguments}
        points = [self._planned(given, epsilon) for epsilon in check_epsilons(epsilons)]
        left = self._left(table)
        return PlanChart(table, tuple(points), assume_rows or ASSUMED_ROWS, left)

    def _planned(self, given: Mapping[str, Any], epsilon: float) -> Point:
        """One plan."""
        try:
            plan = self.call(DpPlan, {**given, "epsilon": epsilon})
        except InvalidArgument:
            raise
        except DpsqlError as error:  # such as noise that hides everything at so little
            return Point(epsilon, None, str(error))
        is_table = bool(plan["overall_l1"].notna().any())
        errors = plan["overall_l1"] if is_table else plan["stddev"]
        value = errors.max() if errors.notna().any() else None
        return Point(epsilon, None if value is None else float(value), "", is_table)

    def _left(self, table: str) -> float | None:
        """About the largest ε that a table may still be asked for; None for a query."""
        with suppress(DpsqlError), self.instance.cursor() as cursor:
            source = find_source(cursor, table, self._search_path)
            account = find_account(Books(cursor, source.catalog), source.key)
            return None if account is None else account.epsilon_left
        return None
