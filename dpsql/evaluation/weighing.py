r"""Sums of a workload as linear queries: which weight and which group a row has in each cell of the declared domain.

    w(cell) = Σ over values v of the cell of share(v)·[filters hold at v]·argument(v),      NULL is 0

The expressions run in an empty database on the codes' values, as synthetic rows have them: NULL for what is outside the
domain, and values that are spread evenly over a bin that holds several. All values of a bin are tried where they are
few, else some at even distances. So what is measured is a query on the codes: a private row counts with the mean weight
of its cell, not with its own. Keys of groups must be the same in all of a bin.

Weights are rounded to whole steps of a power of two, the largest one to 2¹⁶ steps at most: by at most 2⁻¹⁶ of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_family import LARGEST_WEIGHT, LinearFamily
from dpsql.core.names import shorten
from dpsql.engines.source import Source
from dpsql.errors import DomainTooLarge, InvalidQuery
from dpsql.evaluation.decode import as_read
from dpsql.evaluation.lookups import Loaded, database_for
from dpsql.evaluation.trial import Expressions, prefix_for, values_at
from dpsql.evaluation.workers import Empty
from dpsql.language.expressions import columns_read, sql_of
from dpsql.language.query import Aggregate, Query

_MOST_CELLS: Final = 1_000_000
_MOST_POINTS: Final = 2_000_000
_MOST_GROUPS: Final = 100_000
_MOST_LABELS: Final = 100
_LEAST_UNIT: Final = 1e-100
_VALUES: Final = (64, 16, 8, 4, 2, 1)
"""Of a bin that are tried at most, as many as there is room for."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def weigh(source: Source, domain: Domain, query: Query, dimensions: Sequence[Loaded] = ()) -> list[LinearFamily]:
    """The linear queries of a statement whose aggregates are sums: one family for each sum and each grouping set.

    Args:
        source: the protected table.
        domain: of its columns.
        query: taken apart, over the columns of `source`.
        dimensions: the public tables that it joins.

    Raises:
        InvalidQuery: an expression fails, or all weights are 0, or a key is not the same in all of a bin.
        DomainTooLarge: too many cells or groups.
    """
    source = as_read(source, domain)
    families = []
    with database_for(query, dimensions) as empty:
        for keys in query.sets:
            for aggregate in query.aggregates:
                families.append(_family(empty, source, domain, query, aggregate, [query.keys[key] for key in keys]))
    return families


def _family(
    empty: Empty,
    source: Source,
    domain: Domain,
    query: Query,
    aggregate: Aggregate,
    keys: Sequence[exp.Expr],
) -> LinearFamily:
    """The queries of one sum in the groups of some keys."""
    filters = [*query.filters, *aggregate.filters]
    trees = [*keys, *filters, *aggregate.trees]
    clique = domain.clique(name for tree in trees for name in columns_read(tree))
    text = sql_of(exp.Sum(this=(aggregate.argument or exp.Literal.number(1)).copy()))
    if not clique:
        raise InvalidQuery(f"query: {shorten(text)} reads no column, so every row has the same weight: say count(*)")
    cells = domain.size(clique)
    if cells > _MOST_CELLS:
        raise DomainTooLarge(
            f"query: {shorten(text)} reads {', '.join(clique)}, which have {cells:.3g} cells together, more than "
            f"{_MOST_CELLS:.3g}: use fewer columns in one sum, or declare coarser domains"
        )
    plain = [tree.name if isinstance(tree, exp.Column) and not tree.table else None for tree in keys]
    others = [tree for tree, name in zip(keys, plain, strict=True) if name is None]
    weighed = {name for tree in (*others, *filters, *aggregate.trees) for name in columns_read(tree)}
    values = _Values.of([domain.by_name[name] for name in clique], weighed, prefix_for(source))
    expressions = Expressions(others, filters, [(aggregate.argument, [])])
    answers, steps = values_at(values, expressions, empty, source)  # type: ignore[arg-type]
    means = values.means(_weights(answers, steps, len(filters), text))
    numbers = iter(values.constant(np.asarray(answers[f"k{n}"], np.int64), tree) for n, tree in enumerate(others))
    of_keys = [values.codes(name) if name is not None else next(numbers) for name in plain]
    groups, firsts = _groups(of_keys, means)
    weights, step = _whole(means, text)
    texts = iter(answers[f"v{n}"] for n in range(len(others)))
    texts_of_keys = [values.labels(name) if name is not None else values.texts(next(texts)) for name in plain]
    labels = [", ".join(key[cell] for key in texts_of_keys) for cell in firsts] if len(firsts) <= _MOST_LABELS else []
    return LinearFamily(clique, weights, groups, len(firsts), step, text, labels=tuple(labels))


def _weights(answers: dict[str, Any], steps: dict[str, Fraction | None], filters: int, text: str) -> Floats:
    """The weight at each point; 0 where the argument is NULL or a filter does not hold."""
    weights = np.ma.filled(np.ma.asarray(answers["w0"]).astype(np.float64), 0.0) if "w0" in answers else np.ones(1)
    weights = weights * float(steps.get("w0") or 1)
    for number in range(filters):
        weights = weights * np.asarray(answers[f"f{number}"]).astype(np.float64)
    if not np.isfinite(weights).all():
        raise InvalidQuery(
            f"query: {shorten(text)} is not finite for some values of the declared domain: leave them out with CASE or "
            "WHERE"
        )
    return np.asarray(weights, np.float64)


def _groups(keys: Sequence[Integers], means: Floats) -> tuple[Integers, Integers]:
    """The number of each cell's group, and a cell of each group that has a weight."""
    groups = np.zeros(len(means), np.int64)
    places = np.flatnonzero(means)
    if not keys or not len(places):
        return groups, places[:1] if len(places) else np.zeros(1, np.int64)
    _, firsts, inverse = np.unique(np.stack(keys)[:, places], axis=1, return_index=True, return_inverse=True)
    groups[places] = inverse.ravel()
    count = len(firsts)
    if count > _MOST_GROUPS:
        raise DomainTooLarge(
            f"query: the declared domain has {count} groups, more than {_MOST_GROUPS}: group by fewer or coarser "
            "columns"
        )
    return groups, places[firsts]


def _whole(means: Floats, text: str) -> tuple[Integers, Fraction]:
    """Weights in whole steps, and the step: the coarsest power of two in which they are what they are otherwise."""
    largest = float(np.abs(means).max(initial=0.0))
    if largest == 0:
        raise InvalidQuery(f"query: {shorten(text)} is 0 on the whole declared domain: there is nothing to ask")
    if not _LEAST_UNIT <= largest <= 1 / _LEAST_UNIT:
        raise InvalidQuery(
            f"query: {shorten(text)} has weights of up to {largest:.3g}, in which no answer can be told: ask in "
            "another unit, with weights nearer to 1"
        )
    exponent = math.ceil(math.log2(largest)) - (LARGEST_WEIGHT.bit_length() - 1)
    weights = np.rint(np.ldexp(means, -exponent)).astype(np.int64)
    while not (weights & 1).any():
        weights >>= 1
        exponent += 1
    return weights, Fraction(2) ** exponent


@dataclass(frozen=True)
class _Values:
    """Values of every cell of some columns.

    Attributes:
        attributes: of the columns.
        frame: the points, as `dpsql.evaluation.points` has them.
        cells: the cell of each point.
        shares: the part of its cell's rows that each point stands for.
    """

    attributes: tuple[Attribute, ...]
    frame: dict[str, Any]
    cells: Integers
    shares: Floats

    @staticmethod
    def of(attributes: Sequence[Attribute], weighed: set[str], prefix: str) -> _Values:
        """Those of some columns; several of a bin only where something beside a key reads the column."""
        for most in _VALUES:
            columns = [_column(attribute, most if attribute.name in weighed else 1) for attribute in attributes]
            if math.prod(len(codes) for codes, _, _ in columns) <= _MOST_POINTS:
                break
        points = math.prod(len(codes) for codes, _, _ in columns)
        picked = np.unravel_index(np.arange(points), [len(codes) for codes, _, _ in columns])
        frame: dict[str, Any] = {f"{prefix}point": np.arange(points)}
        shares, every = np.ones(points), []
        for number, ((codes, ticks, parts), pick) in enumerate(zip(columns, picked, strict=True)):
            every.append(codes[pick])
            frame[f"{prefix}c{number}"] = every[-1]
            if attributes[number].kind == "bins":
                frame[f"{prefix}t{number}"] = ticks[pick]
            shares = shares * parts[pick]
        cells = np.ravel_multi_index(every, [attribute.size for attribute in attributes])
        return _Values(tuple(attributes), frame, np.asarray(cells, np.int64), shares)

    @property
    def names(self) -> Clique:
        """Of the columns."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def _shape(self) -> list[int]:
        return [attribute.size for attribute in self.attributes]

    def means(self, values: Floats) -> Floats:
        """The mean of each cell's points, without what rounding leaves of one that is the same at all of them."""
        size = math.prod(self._shape)
        spread = np.broadcast_to(values, self.cells.shape)
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, self.cells, spread)
        np.maximum.at(high, self.cells, spread)
        mean = np.bincount(self.cells, self.shares * spread, size)
        return np.where(low == high, low, mean)

    def codes(self, name: str) -> Integers:
        """The code that each cell has in a column; what is outside the domain has that of NULL, as synthetic rows."""
        place = self.names.index(name)
        codes = np.unravel_index(np.arange(math.prod(self._shape)), self._shape)[place].astype(np.int64)
        attribute = self.attributes[place]
        if attribute.outside_code is not None and attribute.null_code is not None:
            codes = np.where(codes == attribute.outside_code, attribute.null_code, codes)
        return np.asarray(codes, np.int64)

    def labels(self, name: str) -> list[str]:
        """The label of each cell in a column, as synthetic rows tell them apart."""
        attribute = self.attributes[self.names.index(name)]
        labels = attribute.labels()
        return [f"{name} = {labels[code]}" for code in self.codes(name)]

    def texts(self, values: Any) -> list[str]:
        """The text of a key in each cell."""
        texts: npt.NDArray[Any] = np.ma.filled(np.ma.asarray(values, object), "NULL")
        first = np.zeros(math.prod(self._shape), np.int64)
        first[self.cells[::-1]] = np.arange(len(self.cells))[::-1]
        return [str(text) for text in texts[first]]

    def constant(self, values: Integers, tree: exp.Expr) -> Integers:
        """The value of each cell.

        Raises:
            InvalidQuery: it is not the same at all points of a cell.
        """
        size = math.prod(self._shape)
        low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        np.minimum.at(low, self.cells, values)
        np.maximum.at(high, self.cells, values)
        if (low != high).any():
            raise InvalidQuery(
                f"query: {shorten(sql_of(tree))} is not the same in all of a bin, so rows of a bin would be in several "
                "groups: group by the column itself, or declare edges where the expression changes"
            )
        return low


def _column(attribute: Attribute, most: int) -> tuple[Integers, npt.NDArray[Any], Floats]:
    """Codes of a column, each as often as it has values to be tried, with their ticks and shares."""
    codes = np.arange(attribute.size)
    if attribute.kind != "bins":
        return codes, np.zeros(len(codes), np.int64), np.ones(len(codes))
    widths = np.full(attribute.size, most)
    if not attribute.is_float:
        whole = np.diff(np.array(attribute.ticks, np.int64))
        widths[: attribute.regular] = np.minimum(whole, most)
    widths[attribute.regular :] = 1
    every = np.repeat(codes, widths)
    first = np.repeat(np.cumsum(widths) - widths, widths)
    places = (np.arange(len(every)) - first + 0.5) / widths[every]
    return every, attribute.draw_ticks(every, places), 1.0 / widths[every]
