"""The expressions of one part of a query on every cell of its columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_query import Choice, Integers, Moment, Product
from dpsql.engines.source import Source
from dpsql.errors import DomainTooLarge, InvalidQuery
from dpsql.evaluation.bins import PERIODS, TriedColumn, all_tried, closed_at_end, cut_at, finest_of
from dpsql.evaluation.components import columns_of
from dpsql.evaluation.constancy import Varies
from dpsql.evaluation.constants import constants_of
from dpsql.evaluation.histograms import Histogram, histogram_of_bins, histogram_of_values
from dpsql.evaluation.moments import FINEST, LARGEST_WEIGHT, unit_of
from dpsql.evaluation.points import Points
from dpsql.evaluation.statistics import MOMENT
from dpsql.evaluation.sums import Arguments, Sums
from dpsql.evaluation.trial import Expressions, prefix_for, values_at
from dpsql.evaluation.weights import Weight
from dpsql.evaluation.workers import Empty
from dpsql.evaluation.zones import QUARTER, shows_zones
from dpsql.language.expressions import columns_read, sql_of, unwrapped
from dpsql.language.query import Query


class PartOnCells:
    """The expressions of one part, on its cells.

    Attributes:
        attributes: of its columns, with the bins that tell all its expressions apart.
        names: of its columns.
        keys: numbers of the query's keys that are of this part.
        key_numbers: for each of them its rank in each cell.
        key_texts: for each of them its text in each cell.
        mask: for each cell whether the filters hold.
        factors: each weight in each cell.
        rows: for each weight the cells in which a row counts for it, if only with 0.
        units: for each weight the value of 1.
        moments: of the weights that are sums of rows' own values.
        histograms: of the weights that count the bins of a column, or the values of an expression.
    """

    def __init__(
        self,
        empty: Empty,
        source: Source,
        domain: Domain,
        names: tuple[str, ...],
        query: Query,
        weights: Sequence[Weight],
        *,
        is_first: bool,
    ) -> None:
        self._empty, self._source, self._domain, self._arguments = empty, source, domain, Arguments(empty, source)

        def inside(tree: exp.Expr | None) -> bool:
            if tree is None:
                return False
            read = columns_of(domain, tree)
            return set(read) <= set(names) if read else is_first

        self.keys = [number for number, tree in enumerate(query.keys) if inside(tree)]
        self._expressions = Expressions(
            [query.keys[number] for number in self.keys],
            [tree for tree in query.filters if inside(tree)],
            [
                (weight.argument if inside(weight.argument) else None, [f for f in weight.filters if inside(f)])
                for weight in weights
            ],
        )
        attributes = [domain.by_name[name] for name in names]
        self.moments: dict[int, Moment | Choice | Product] = {}
        self.histograms: dict[int, Histogram] = {}
        self._summed: dict[int, Sums] = {}
        self._counted = {n for n, w in enumerate(weights) if w.histogram and inside(w.argument)}
        self._binned = self._columns_with_bins()
        self._sum_values_of([attribute for attribute in attributes if not all_tried(attribute)], plain=True)
        self._sum_values_of(attributes, moments=True)
        try:
            self._evaluate(attributes)
        except (Varies, DomainTooLarge) as problem:
            self._refine(attributes, problem)
        for number, summed in self._summed.items():
            self.factors[number], unit, self.moments[number] = summed.counted(self.factors[number], self.attributes)
            self.units[number] *= unit
        self._bin(domain)

    def pad_texts(self, size: int) -> None:
        """Make room for texts of groups that no cell is in; a key that is constant is that there, too."""
        for place, texts in enumerate(self.key_texts):
            self.key_texts[place] = np.concatenate([texts, np.full(size - len(texts), texts[0], object)])

    def _columns_with_bins(self) -> dict[int, str]:
        """The columns whose own bins are counted; they need not be tried."""
        own_bins = {}
        for number in self._counted:
            argument, filters = self._expressions.weights[number]
            inner = None if argument is None else unwrapped(argument)
            if isinstance(inner, exp.Column) and not inner.table and self._domain.by_name[inner.name].kind == "bins":
                unit_of(self._domain.by_name[inner.name].type)
                own_bins[number] = inner.name
                self._expressions.weights[number] = None, filters
        return own_bins

    def _bin(self, domain: Domain) -> None:
        """The bins of what is counted by value."""
        shape = [attribute.size for attribute in self.attributes]
        for number in self._counted:
            if number in self._binned:
                place = self.names.index(self._binned[number])
                codes = np.unravel_index(np.arange(math.prod(shape)), shape)[place]
                declared = domain.by_name[self._binned[number]]
                self.histograms[number] = histogram_of_bins(declared, self.attributes[place], codes)
            else:
                values, unit = self._values[number]
                self.histograms[number] = histogram_of_values(values, self.factors[number], unit)

    def _refine(self, attributes: list[Attribute], problem: Varies | DomainTooLarge) -> None:
        """Evaluate on finer bins, or sum a column's own values, or both: the first that leaves nothing unknown."""
        varies = isinstance(problem, Varies)
        if varies and self._fits(attributes, [attributes]):
            return
        if not self._sum_values_of(attributes):
            raise problem.refusal() if isinstance(problem, Varies) else problem
        try:
            self._evaluate(attributes)
        except Varies as still:
            if not self._fits(attributes, [attributes]):
                raise still.refusal() from None

    def _fits(self, attributes: list[Attribute], tried: list[list[Attribute]]) -> bool:
        """Evaluate on finer bins: single values, days or hours; those cut at the constants of comparisons."""
        for finer in self._finer(attributes):
            if finer in tried:
                continue
            tried.append(finer)
            try:
                self._evaluate(finer)
            except (Varies, DomainTooLarge):
                continue
            return True
        return False

    def _finer(self, attributes: list[Attribute]) -> Iterator[list[Attribute]]:
        """Finer bins of some columns; the ends of floats come last, because answers from before have none."""
        periods = sorted({*PERIODS, QUARTER}, reverse=True) if shows_zones(self._expressions.trees) else PERIODS
        finest = [[finest_of(attribute, period) for attribute in attributes] for period in periods]
        cut = [[cut_at(a, self._constants(a)) for a in finer] for finer in [attributes, *finest]]
        yield from finest
        yield from cut
        yield from ([closed_at_end(a) for a in finer] for finer in [attributes, *cut])

    def _sum_values_of(self, attributes: Sequence[Attribute], *, plain: bool = False, moments: bool = False) -> bool:
        """Sum the rows' own values where an argument is a formula of one of these columns; whether there is any.

        Args:
            attributes: of which those of numbers in wide bins are looked at.
            plain: only where the argument is the column itself.
            moments: only of arguments that say so.
        """
        numbers = {a.name: a for a in attributes if a.kind == "bins" and a.is_number}
        wide = {name for name, attribute in numbers.items() if not attribute.has_single_values}
        formulas = {}
        for number, (argument, filters) in enumerate(self._expressions.weights):
            if argument is None or number in self._counted or wide.isdisjoint(columns_read(argument)):
                continue
            if moments and not argument.meta.get(MOMENT):
                continue
            summed = self._arguments.summed(argument, numbers, plain=plain)
            if summed is not None:
                formulas[number], pick = summed
                self._expressions.weights[number] = pick, filters
        self._summed |= formulas
        return bool(formulas)

    def _constants(self, attribute: Attribute) -> Iterator[int | float]:
        return constants_of(self._empty, self._expressions.trees, attribute)

    def _evaluate(self, attributes: list[Attribute]) -> None:
        """Try all expressions in every cell of columns with these attributes.

        Raises:
            Varies: one is not the same in all of a bin.
            DomainTooLarge: there are too many points to try.
        """
        read = set().union(*(columns_read(tree) for tree in self._expressions.trees if not _asks_for_null(tree)))
        columns = [TriedColumn.of(a, list(self._constants(a)), tried=a.name in read) for a in attributes]
        points = Points(columns, prefix_for(self._source))
        self.attributes, self.names = points.attributes, points.names
        self._read(points, *values_at(points, self._expressions, self._empty, self._source))

    def _read(self, points: Points, answers: dict[str, Any], steps: Mapping[str, Fraction | None]) -> None:
        """Values at points to values of cells; refuses what differs inside a cell."""
        self.mask = np.ones(points.cells, bool)
        for number, tree in enumerate(self._expressions.filters):
            values = np.asarray(answers[f"f{number}"]).astype(np.int64)
            self.mask &= points.constant(values, _as_condition(tree)).astype(bool)
        self.key_numbers, self.key_texts = [], []
        for number, tree in enumerate(self._expressions.keys):
            numbers = points.constant(np.asarray(answers[f"k{number}"], np.int64), tree)
            texts = answers[f"v{number}"]
            plain = np.asarray(np.ma.getdata(texts), object).copy()
            plain[np.ma.getmaskarray(np.ma.asarray(texts))] = None
            self.key_numbers.append(numbers)
            self.key_texts.append(points.firsts(plain))
        self.factors, self.units, self.rows, self._values = [], [], [], {}
        for number, (argument, filters) in enumerate(self._expressions.weights):
            factor, rows = np.ones(points.cells, np.int64), self.mask.copy()
            unit = Fraction(1)
            if argument is not None:
                factor, unit = _weight(points, answers[f"w{number}"], steps[f"w{number}"], argument)
                if number in self._counted:
                    self._values[number] = factor, unit
                    factor, unit = np.ones(points.cells, np.int64), Fraction(1)
            for place, tree in enumerate(filters):
                values = np.asarray(answers[f"g{number}_{place}"]).astype(np.int64)
                holds = points.constant(values, _as_condition(tree))
                factor, rows = factor * holds, rows & holds.astype(bool)
            self.rows.append(rows)
            self.factors.append(factor * self.mask)
            self.units.append(unit)


def _weight(points: Points, values: Any, unit: Fraction | None, tree: exp.Expr) -> tuple[Integers, Fraction]:
    """An argument of a sum in each cell, in whole steps, and the step: of its type, or found if that is None."""
    masked = np.ma.asarray(values)
    plain = np.ma.filled(masked.astype(np.float64), 0.0)
    if not all(map(all_tried, points.attributes)):
        points.constant(plain, tree, summed=True)  # what differs inside a bin may yet be summed value by value
    if not np.isfinite(plain).all():
        raise InvalidQuery(f"query: {sql_of(tree)} is not finite for some values of the declared domain")
    if np.abs(plain).max(initial=0.0) > LARGEST_WEIGHT:
        raise InvalidQuery(
            f"query: {sql_of(tree)} is as large as {np.abs(plain).max():.3g} on the declared domain, more than 2^32 "
            "steps of its type: divide it, or cast it to a coarser type"
        )
    if unit is not None:
        whole = np.rint(plain).astype(np.int64)
    elif (plain == np.rint(plain)).all():
        whole, unit = plain.astype(np.int64), Fraction(1)
    else:
        exponent = math.ceil(math.log2(np.abs(plain).max()))
        unit = Fraction(2) ** exponent / FINEST
        whole = np.rint(plain / float(unit)).astype(np.int64)
    return points.constant(whole, tree, summed=True), unit


def _asks_for_null(tree: exp.Expr) -> bool:
    """Whether a condition asks of columns only whether they are NULL: that is the same in all of a bin."""
    inside = unwrapped(tree)
    if isinstance(inside, exp.Is):
        return isinstance(unwrapped(inside.this), exp.Column) and isinstance(inside.expression, exp.Null)
    if isinstance(inside, exp.Not):
        return _asks_for_null(inside.this)
    return isinstance(inside, exp.And) and _asks_for_null(inside.expression) and _asks_for_null(inside.this)


def _as_condition(tree: exp.Expr) -> exp.Expr:
    """A filter as what is evaluated: a number is cast to BOOLEAN, which no step of it says."""
    is_condition = isinstance(tree, exp.Predicate | exp.Connector | exp.Not | exp.Boolean)
    return tree if is_condition else exp.cast(exp.Paren(this=tree.copy()), "BOOLEAN", dialect="duckdb")
