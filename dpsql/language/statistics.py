"""Statistics in a query, as sqlglot reads them: which there are, what they are of, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, cast

from sqlglot import exp

from dpsql.language.columns import ColumnNames
from dpsql.language.query import Aggregate, Kind
from dpsql.language.refusal import call_of, refuse, words_of

OF_ONE: Final[Mapping[type[exp.Expr], Kind]] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}
_OF_TWO: Final[Mapping[type[exp.Expr], Kind]] = {
    exp.Corr: "corr",
    exp.CovarSamp: "covar_samp",
    exp.CovarPop: "covar_pop",
}
_QUANTILES: Final[Mapping[type[exp.Expr], Kind]] = {
    exp.Median: "quantile_cont",
    exp.PercentileCont: "quantile_cont",
    exp.PercentileDisc: "quantile_disc",
    exp.Quantile: "quantile_disc",
}
ANSWERED: Final = (
    "count, count_if, sum, avg, stddev, variance, median, quantile_cont, quantile_disc, corr and covar_samp are; or "
    "group by bins and count"
)


def statistic(tree: exp.AggFunc, filters: tuple[exp.Expr, ...], names: ColumnNames) -> Aggregate:
    """A sum, or a statistic of one column or of two.

    Args:
        tree: its call.
        filters: which rows it is of.
        names: what columns are over the protected table's.

    Raises:
        InvalidQuery: it is none of those that can be answered with noise.
    """
    kind = type(tree)
    if kind in OF_ONE:
        return Aggregate(OF_ONE[kind], names.over_rows(tree.this), filters)
    if kind in _OF_TWO and tree.expression is not None:
        return Aggregate(_OF_TWO[kind], names.over_rows(tree.this), filters, names.over_rows(tree.expression))
    if kind in _QUANTILES:
        share = 0.5 if kind is exp.Median else _share_of(tree)
        return Aggregate(_QUANTILES[kind], names.over_rows(tree.this), filters, share=share)
    return refuse(tree, f"{call_of(tree)} is not supported", ANSWERED)


def within_group(tree: exp.WithinGroup) -> exp.Expr:
    """`percentile_cont(0.9) WITHIN GROUP (ORDER BY x)` as `quantile_cont(x, 0.9)`."""
    order, called = tree.expression, tree.this
    is_plain = isinstance(called, exp.PercentileCont | exp.PercentileDisc) and isinstance(order, exp.Order)
    if not is_plain or len(order.expressions) != 1 or called.expression is not None:
        refuse(tree, "WITHIN GROUP of this is not supported", "say quantile_cont(x, 0.9)")
    ordered, share = order.expressions[0], called.this
    if ordered.args.get("desc"):
        is_plain = isinstance(share, exp.Literal) and not share.is_string
        name = "quantile_cont" if isinstance(called, exp.PercentileCont) else "quantile_disc"
        instead = f"{1 - Decimal(share.name)}" if is_plain and name == "quantile_cont" else "…"
        refuse(tree, "ORDER BY … DESC is not supported here", f"say {name}({words_of(ordered.this)}, {instead})")
    return cast(exp.Expr, type(called)(this=ordered.this.copy(), expression=share.copy()))


def _share_of(tree: exp.Expr) -> float:
    """Which quantile is asked for: a number from 0 to 1."""
    given = tree.args.get("quantile") or tree.expression
    while isinstance(given, exp.Paren):
        given = given.this
    if isinstance(given, exp.Array | exp.List):
        refuse(tree, f"{call_of(tree)} of a list is not supported", "ask for each quantile by itself")
    is_number = isinstance(given, exp.Literal) and not given.is_string
    share = float(given.name) if is_number and given is not None else math.nan
    if not 0 <= share <= 1:
        refuse(tree, f"{call_of(tree)} takes a constant from 0 to 1", "say quantile_cont(x, 0.9)")
    return share


def ratio_of(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The two sides of a division of aggregates; None if it is none."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Div):
        return None
    over, under = _side(tree.this), _lower_side(tree)
    return (over, under) if all(isinstance(side, exp.AggFunc | exp.Filter) for side in (over, under)) else None


def constants_apart(tree: exp.Expr) -> tuple[list[exp.Expr], exp.Expr | None]:
    """The constants that the upper side of a division is multiplied by, and the division without them; None if none is.

    `100.0 * count(*) FILTER (…) / count(*)` is 100.0 times a share.
    """
    if not isinstance(tree, exp.Div):
        return [], None
    constants, left, waiting = [], [], [tree.this]
    while waiting:
        node = _side(waiting.pop())
        if isinstance(node, exp.Mul):
            waiting += [node.expression, node.this]
        elif node.find(exp.Column, exp.AggFunc, exp.Star) is None:
            constants.append(node)
        else:
            left.append(node)
    return (constants, exp.Div(this=left[0], expression=_lower_side(tree))) if len(left) == 1 else ([], None)


def _side(tree: exp.Expr) -> exp.Expr:
    """One side of a division without parentheses and a cast to DOUBLE, which `/` does anyway."""
    while isinstance(tree, exp.Paren) or (type(tree) is exp.Cast and tree.to.is_type("DOUBLE")):
        tree = tree.this
    return tree


def _lower_side(division: exp.Div) -> exp.Expr:
    """What is divided by, also x of nullif(x, 0): a division by 0 is NULL anyway, while 0 / y is 0."""
    tree = _side(division.expression)
    while isinstance(tree, exp.Nullif) and tree.expression.is_number and float(tree.expression.name) == 0:
        tree = _side(tree.this)
    return tree
