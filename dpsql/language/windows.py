"""Windows over groups, such as `100.0 * count(*) / sum(count(*)) OVER ()`: work on answers, which costs nothing.

They are computed of the groups that HAVING leaves, as in SQL. w<i> stands for the one of number i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from dpsql.language.arithmetic import is_answer, is_window
from dpsql.language.refusal import call_of, refuse

_FUNCTIONS: Final = (
    exp.Sum, exp.Avg, exp.Count, exp.Min, exp.Max, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank,
    exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue,
)  # fmt: skip
_ANSWERED: Final = (
    "sum, avg, count, min, max, row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value "
    "and last_value are; or say it around: SELECT … OVER … FROM dp_query('…')"
)


def over_answers(window: exp.Window, of_results: Callable[[exp.Expr], exp.Expr]) -> exp.Window:
    """A window over keys and answers.

    Args:
        window: as it was written.
        of_results: makes an expression over keys and aggregates one over their names.

    Raises:
        InvalidQuery: it is of another kind.
    """
    function = window.this
    if not isinstance(function, _FUNCTIONS):
        refuse(window, f"{call_of(window)} is not supported in a window", _ANSWERED)
    extra = [name for name in ("alias", "first") if window.args.get(name)]
    if extra or function.find(exp.Distinct, exp.Order):
        refuse(
            window, "this kind of window is not supported", "say OVER (PARTITION BY … ORDER BY …) of a plain function"
        )
    spec = window.args.get("spec")
    if spec is not None and spec.find(exp.Column, exp.AggFunc, exp.Query) is not None:
        refuse(window, "a frame takes constants", _ANSWERED)
    new_window = window.copy()
    for part in parts_of(new_window):
        part.replace(of_results(part))
    return new_window


def parts_of(window: exp.Window) -> list[exp.Expr]:
    """What a window reads: the arguments of its function, and what it partitions and orders by."""
    arguments = [child for child in window.this.iter_expressions() if not isinstance(child, exp.Star)]
    order = window.args.get("order")
    ordered = [] if order is None else [item.this for item in order.expressions]
    return [*arguments, *(window.args.get("partition_by") or ()), *ordered]


def answers_in(tree: exp.Expr, windows: Sequence[exp.Window]) -> set[int]:
    """The numbers of all answers in an expression, also in its windows."""
    columns = list(tree.find_all(exp.Column))
    inside = (answers_in(windows[int(column.name[1:])], windows) for column in columns if is_window(column))
    return {int(column.name[1:]) for column in columns if is_answer(column)}.union(*inside)


def first_answer(tree: exp.Expr, windows: Sequence[exp.Window]) -> int | None:
    """The number of the first answer in an expression, also in its windows; None if it is made of keys alone."""
    for column in tree.find_all(exp.Column):
        if is_answer(column):
            return int(column.name[1:])
        number = first_answer(windows[int(column.name[1:])], windows) if is_window(column) else None
        if number is not None:
            return number
    return None
