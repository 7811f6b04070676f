"""What `Database.plan` returns: the rows of `dp_plan` as a data frame that draws itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from dpsql.report.plan_errors import draw_errors, expected_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PlanFrame(pd.DataFrame):
    """The rows of a plan. What is selected from it is an ordinary data frame."""

    def plot(self, *how: Any, **more: Any) -> Figure:  # type: ignore[override] # the accessor of pandas, where asked for
        """The expected errors as a figure of matplotlib: a bar for each marginal, the largest of each size.

        Args:
            *how: with arguments it is the `plot` of pandas.
            **more: likewise.

        Raises:
            DpsqlError: matplotlib is not installed, or the plan expects no error of a marginal.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN, old BOOLEAN)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     [axes.get_title(loc="left") for axes in db.plan("t", epsilon=1.0).plot().axes]
        ['single columns: noise of the counts', 'pairs of columns: predicted error']
        """
        if how or more:
            drawn: Figure = pd.DataFrame(self).plot(*how, **more)
            return drawn
        rows = [{str(name): value for name, value in row.items()} for row in self.to_dict("records")]
        return draw_errors(expected_errors(rows), float(self["epsilon"].iloc[0]))
