"""Sums of products of two columns' own values: what a row adds to them, in whole steps between public bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula
from dpsql.core.linear_query import Integers, Moment, Product
from dpsql.evaluation.moments import FINEST, LARGEST_WEIGHT, Branch, moments_of, unit_of
from dpsql.evaluation.summed import Summed
from dpsql.language.expressions import columns_read, unwrapped

Read = Callable[[exp.Expr], tuple[str, Formula] | None]
"""An expression of one column as a formula; None if it is no such thing."""


@dataclass(frozen=True)
class SummedProduct:
    """The argument of a sum of products: a formula of one column times a formula of another one.

    Attributes:
        factors: the columns and the formulas.
        kinds: the type of each formula.
    """

    factors: tuple[tuple[str, Formula], tuple[str, Formula]]
    kinds: tuple[str, str]

    def counted(self, picks: Integers, attributes: Sequence[Attribute]) -> tuple[Integers, Fraction, Product]:
        """What is counted for it. Its bounds are those of the values that filters leave of both columns.

        Args:
            picks: for each cell whether it counts: not 0.
            attributes: of the part's columns.

        Returns:
            For each cell whether it counts, the step of the sum, and the product.
        """
        names, shape = [a.name for a in attributes], [attribute.size for attribute in attributes]
        every = dict(zip(names, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))
        counts = picks != 0
        moments = []
        for (name, formula), kind in zip(self.factors, self.kinds, strict=True):
            attribute = attributes[names.index(name)]
            possible = np.zeros(attribute.size, bool)
            possible[every[name][picks != 0]] = True
            (moment,), unit, (there,) = moments_of([Branch(attribute, formula, possible)], kind)
            counts &= there[every[name]]
            moments.append((moment, unit))
        (first, first_unit), (second, two) = moments
        ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
        exact = all(unit_of(kind) is not None for kind in self.kinds)
        coarser = 1
        while max(map(abs, ends)) > coarser * (LARGEST_WEIGHT if exact else FINEST):
            coarser *= 2
        bounds = math.floor(Fraction(min(ends), coarser)), math.ceil(Fraction(max(ends), coarser))
        return counts.astype(np.int64), first_unit * two * coarser, Product(first, second, 1 / coarser, *bounds)


@dataclass(frozen=True)
class ScaledSum:
    """The argument of a sum: a formula of one column, times what is one number in each cell.

    Attributes:
        factor: the column and the formula.
        kind: the type of the formula.
    """

    factor: tuple[str, Formula]
    kind: str

    def counted(self, picks: Integers, attributes: Sequence[Attribute]) -> tuple[Integers, Fraction, Moment]:
        """What is counted for it; see `SummedProduct.counted`.

        Args:
            picks: for each cell what the formula is multiplied by, in whole steps.
            attributes: of the part's columns.
        """
        alone = Summed((self.factor,), self.kind)
        counts, unit, moment = alone.counted((picks != 0).astype(np.int64), attributes)
        assert isinstance(moment, Moment)
        common = max(1, int(np.gcd.reduce(picks)))  # so that whole numbers stay whole
        picks = picks // common
        largest, scale = max(abs(moment.low), abs(moment.high)), int(np.abs(picks).max(initial=0))
        coarser = [1, 1]
        while largest // coarser[0] * (scale // coarser[1]) >= LARGEST_WEIGHT // 2:
            coarser[int(scale // coarser[1] > largest // coarser[0])] *= 2
        low, high = math.floor(Fraction(moment.low, coarser[0])), math.ceil(Fraction(moment.high, coarser[0]))
        outside, missing = (round(Fraction(steps, coarser[0])) for steps in (moment.outside, moment.missing))
        coarse = replace(
            moment, multiplier=moment.multiplier / coarser[0], low=low, high=high, outside=outside, missing=missing
        )
        scales = np.rint(picks / coarser[1]).astype(np.int64)
        return scales * counts, unit * common * coarser[0] * coarser[1], coarse


def product_of(
    argument: exp.Expr, wide: Set[str], read: Read, kind: Callable[[exp.Expr], str]
) -> tuple[SummedProduct | ScaledSum, exp.Expr | None] | None:
    """An expression as a product with a formula of a column; None if it is no such thing.

    Args:
        argument: any expression.
        wide: the columns whose bins hold several values.
        read: reads a factor.
        kind: tells the type of a factor.

    Returns:
        The product, and what is to be the same in all of each cell, if anything is.
    """
    factors = list(factors_of(argument))
    of_one = [next(iter(names)) if len(names := columns_read(factor)) == 1 else None for factor in factors]
    sides = {
        name: _product([f for f, of in zip(factors, of_one, strict=True) if of == name]) for name in of_one if name
    }
    wide_sides = [(name, side) for name, side in sides.items() if name in wide]
    rest = [f for f, of in zip(factors, of_one, strict=True) if of not in wide]
    if not wide_sides or len(wide_sides) > 2 or any(columns_read(factor) & wide for factor in rest):
        return None
    formulas = [read(side) for _, side in wide_sides]
    complete = [formula for formula in formulas if formula is not None]
    if len(complete) < len(formulas):
        return None
    if len(wide_sides) == 1:
        return ScaledSum(complete[0], kind(wide_sides[0][1])), _product(rest)
    if any(columns_read(factor) for factor in rest):
        return None
    first = read(_product([wide_sides[0][1], *rest]))
    if first is None:
        return None
    return SummedProduct(
        (first, complete[1]), (kind(_product([wide_sides[0][1], *rest])), kind(wide_sides[1][1]))
    ), None


def _product(factors: Sequence[exp.Expr]) -> exp.Expr:
    product = factors[0].copy() if factors else exp.Literal.number(1)
    for factor in factors[1:]:
        product = exp.Mul(this=product, expression=factor.copy())
    return product


def factors_of(tree: exp.Expr) -> Iterator[exp.Expr]:
    """What an expression is a product of."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        inside = unwrapped(node)
        if isinstance(inside, exp.Mul):
            waiting += [inside.expression, inside.this]
        else:
            yield node
