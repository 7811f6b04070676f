"""What statistics are measured by: sums and counts that the curator can answer, and bounds that are public.

    variance, standard deviation of x   count, Σ u, Σ (u² − r²/2)
    covariance of x and y               count, Σ u, Σ v, Σ u·v
    correlation                         those, Σ (u² − r²/2), Σ (v² − s²/2)
    a quantile of x                     the number of rows in each bin of x
    a ratio                             its two sides

u is x less the middle of its bounds, which are r from it; v and s likewise of y.
No |u| is above r and no |u² − r²/2| above r²/2: sums around the middle need a fraction of the noise that sums of x and
x² would need. The bounds of x are those that the declared domain and the filters leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import LinearQuery
from dpsql.engines.duckdb.formulas import double, is_there
from dpsql.evaluation.constancy import WRITTEN
from dpsql.evaluation.evaluated import Measured, Spread
from dpsql.evaluation.products import factors_of
from dpsql.language.expressions import columns_read, comparable
from dpsql.language.query import Aggregate

MOMENT: Final = "dpsql_moment"  # of an argument of ours: its sum is of rows' own values, where bins hold several
_PAIRS: Final = ("corr", "covar_samp", "covar_pop")
_QUANTILES: Final = ("quantile_cont", "quantile_disc")


@dataclass(frozen=True)
class Lowered:
    """An aggregate as plain ones.

    Attributes:
        aggregate: the query's.
        parts: what is measured for it.
        spreads: of what it is of.
    """

    aggregate: Aggregate
    parts: tuple[Aggregate, ...]
    spreads: tuple[Spread, ...] = ()

    def measured(self, numbers: Sequence[int], linear: LinearQuery, units: Sequence[Fraction]) -> Measured:
        """What it is computed from.

        Args:
            numbers: of the weights, in the order of the parts.
            linear: the query.
            units: for each weight the value of 1.
        """
        bounds = (-np.inf, np.inf)
        if self.aggregate.kind == "ratio":
            over, under = numbers
            ratio = _ratio_bounds(linear, over, under)
            if ratio is not None:
                unit = float(units[over] / units[under])
                bounds = ratio[0] * unit, ratio[1] * unit
            elif self.spreads and linear.bounds(under)[0] >= 0:  # weights of a mean
                bounds = self.spreads[0].low, self.spreads[0].high
        return Measured(self.aggregate.kind, tuple(numbers), self.spreads, bounds, self.aggregate.share)


def averages_for(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """The averages whose bounds must be known to say what is measured for an aggregate."""
    if aggregate.kind == "ratio":
        argument = _averaged(aggregate)
        return () if argument is None else (_of_rows(Aggregate("avg", argument, aggregate.sides[0].filters)),)
    if aggregate.is_plain or aggregate.kind in _QUANTILES:
        return ()
    filters = _there(aggregate)
    trees = (tree for tree in (aggregate.argument, aggregate.second) if tree is not None)
    return tuple(_of_rows(Aggregate("avg", tree, filters)) for tree in trees)


def lowered(aggregate: Aggregate, ranges: Sequence[tuple[float, float]], domain: Domain) -> Lowered:
    """An aggregate as plain ones.

    Args:
        aggregate: the query's.
        ranges: the bounds of its `averages_for`.
        domain: of the columns.
    """
    if aggregate.is_plain:
        return Lowered(aggregate, (aggregate,))
    if aggregate.kind == "ratio":
        spreads = tuple(Spread(*_with_zero(aggregate, ends, domain)) for ends in ranges)
        return Lowered(aggregate, tuple(map(_of_rows, aggregate.sides)), spreads)
    filters = _there(aggregate)
    if aggregate.kind in _QUANTILES:
        return Lowered(aggregate, (Aggregate("histogram", aggregate.argument, filters),))
    spreads = tuple(Spread(*ends) for ends in ranges)
    trees = [tree for tree in (aggregate.argument, aggregate.second) if tree is not None]
    sides = [_centred(tree, spread) for tree, spread in zip(trees, spreads, strict=True)]
    squares = [_squared(side, spread) for side, spread in zip(sides, spreads, strict=True)]
    arguments = list(zip(sides, trees, strict=True))
    if aggregate.kind in _PAIRS:
        arguments.append((_times(*sides), _times(*trees)))
    if aggregate.kind not in ("covar_samp", "covar_pop"):
        arguments += zip(squares, trees, strict=True)
    for argument, written in arguments:
        argument.meta[MOMENT] = True
        argument.meta[WRITTEN] = written
    sums = [Aggregate("sum", argument, filters) for argument, _ in arguments]
    return Lowered(aggregate, (Aggregate("count", None, filters), *sums), spreads)


def _of_rows(aggregate: Aggregate) -> Aggregate:
    """The same, measured of rows' own values where bins hold several."""
    if aggregate.argument is None:
        return aggregate
    argument = aggregate.argument.copy()
    argument.meta[MOMENT] = True
    return replace(aggregate, argument=argument)


def _there(aggregate: Aggregate) -> tuple[exp.Expr, ...]:
    """The filters of a statistic, which leaves out rows where what it is of is NULL."""
    conditions = [is_there(tree) for tree in (aggregate.argument, aggregate.second) if tree is not None]
    return (*aggregate.filters, *(tree for tree in conditions if not (isinstance(tree, exp.Boolean) and tree.this)))


def _centred(tree: exp.Expr, spread: Spread) -> exp.Expr:
    number = exp.Cast(this=exp.Paren(this=tree.copy()), to=exp.DataType.build("DOUBLE"))
    return exp.Sub(this=number, expression=double(spread.centre))


def _times(first: exp.Expr, two: exp.Expr) -> exp.Expr:
    return exp.Mul(this=exp.Paren(this=first.copy()), expression=exp.Paren(this=two.copy()))


def _squared(side: exp.Expr, spread: Spread) -> exp.Expr:
    """(x − m)² less half its maximum, written so that its least value in a bin around m is known to be 0."""
    size = exp.Abs(this=exp.Paren(this=side.copy()))
    return exp.Sub(this=exp.Mul(this=size, expression=size.copy()), expression=double(spread.offset))


def _averaged(ratio: Aggregate) -> exp.Expr | None:
    """The x where the ratio is sum(w * x) / sum(w), of the same rows."""
    over, under = ratio.sides
    if not over.kind == under.kind == "sum" or over.argument is None or under.argument is None:
        return None
    if sorted(map(comparable, over.filters)) != sorted(map(comparable, under.filters)):
        return None
    left = list(factors_of(over.argument))
    for wanted in map(comparable, factors_of(under.argument)):
        place = next((n for n, other in enumerate(left) if comparable(other) == wanted), None)
        if place is None:
            return None
        left.pop(place)
    if not left:
        return None
    product = left[0].copy()
    for factor in left[1:]:
        product = exp.Mul(this=product, expression=factor.copy())
    return product


def _with_zero(ratio: Aggregate, ends: tuple[float, float], domain: Domain) -> tuple[float, float]:
    """Bounds of a weighted mean: where a value is NULL its weight counts all the same, as if the value were 0."""
    argument = _averaged(ratio)
    never = argument is not None and not any(domain.by_name[domain.find(n)].nullable for n in columns_read(argument))
    return ends if never else (min(0.0, ends[0]), max(0.0, ends[1]))


def _ratio_bounds(linear: LinearQuery, over: int, under: int) -> tuple[float, float] | None:
    """Bounds of a ratio that hold because they hold in each cell; None if there are none."""
    if {over, under} & linear.units or under in linear.moments:
        return None
    moment = linear.moments.get(over)
    low, high = (1.0, 1.0) if moment is None else (float(min(0, moment.low)), float(max(0, moment.high)))
    for part in linear.parts:
        above, below = part.factors[over], part.factors[under]
        if (below < 0).any() or (above[below == 0] != 0).any():
            return None
        inside = below > 0
        shares = above[inside] / below[inside] if inside.any() else np.zeros(1)
        products = [x * y for x in (low, high) for y in (float(shares.min()), float(shares.max()))]
        low, high = min(products), max(products)
    return low, high
