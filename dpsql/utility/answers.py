"""How well a synthetic table answers the queries of a workload: cells of marginals, thresholds, and linear queries.

    e_q = |q(D) − q(D′)|           of each query q, as a fraction of the rows; of a linear query of their largest weight
    largest     max_q e_q          and, of answering every query with 0, max_q q(D)
    mean L1     Σ_{x of S} e_x     the mean over the marginals S
    RMSE        √ mean_q e_q²      over all queries; a cell that is empty in both tables is a query too

An error above that of answering 0 everywhere says that a table is useless for what was asked.

Source: Aydore et al. 2021, section 6 (largest error, and the baseline of zeros).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpsql.core.linear_family import LinearFamily
from dpsql.core.threshold import threshold_counts
from dpsql.errors import InvalidArgument
from dpsql.utility.coded import Coded, Fractions

_MOST_CELLS: Final = 20_000_000
"""Of the columns of a family of thresholds, all of whose answers are computed."""


@dataclass(frozen=True)
class Sums:
    """A family of linear queries.

    Attributes:
        family: its weights, one for each cell of the declared values.
        shape: of these cells. A row with a code beyond them, which no declared value has, weighs nothing.
    """

    family: LinearFamily
    shape: tuple[int, ...]


PlacedQuery = tuple[tuple[int, ...], int | Sums | None]
"""The places of columns, and what is asked of them: of a marginal None, of thresholds how many must match."""


@dataclass(frozen=True)
class Answers:
    """The measures at the top of this file. Computed from real rows: private.

    Attributes:
        marginals, families, linear: how many marginals, families of thresholds and linear queries were looked at.
        largest: the largest error of a query.
        zeros: the same if every answer were 0.
        l1: the mean L1 of the marginals; None where there are none.
        rmse: over all queries.
    """

    marginals: int
    families: int
    linear: int
    largest: float
    zeros: float
    l1: float | None
    rmse: float


def answers(tables: Coded, queries: Sequence[PlacedQuery]) -> Answers:
    """Compare the answers of both tables.

    Args:
        tables: the real and the synthetic one.
        queries: what the workload asks for, one at least.

    Raises:
        InvalidArgument: nothing is asked, or a family of thresholds has too many cells.

    >>> rows, made = np.array([[0, 1], [1, 0], [1, 1], [0, 0]]), np.array([[0, 1], [0, 1]])
    >>> answers(Coded(rows, made, (2, 2), (0, 0)), [((0, 1), None)]).l1
    1.5
    """
    if not queries:
        raise InvalidArgument("the workload asks for nothing: name at least one marginal")
    errors = [errors_of(tables, columns, of) for columns, of in queries]
    l1 = [each.l1 for each in errors if each.l1 is not None]
    return Answers(
        marginals=len(l1),
        families=sum(isinstance(of, int) for _, of in queries),
        linear=sum(each.number for each, (_, of) in zip(errors, queries, strict=True) if isinstance(of, Sums)),
        largest=max(each.largest for each in errors),
        zeros=max(each.zeros for each in errors),
        l1=float(np.mean(l1)) if l1 else None,
        rmse=math.sqrt(sum(each.squares for each in errors) / sum(each.number for each in errors)),
    )


@dataclass(frozen=True)
class Errors:
    """The errors of one marginal, family of thresholds or of linear queries.

    Attributes:
        number: of its queries.
        largest: of their errors.
        zeros: the same if every answer were 0.
        l1: the sum of the errors; None but for a marginal.
        squares: the sum of the squared errors.
    """

    number: int
    largest: float
    zeros: float
    l1: float | None
    squares: float


def errors_of(tables: Coded, columns: tuple[int, ...], of: int | Sums | None) -> Errors:
    """Compare the answers of both tables to one marginal or family; see `PlacedQuery`.

    Raises:
        InvalidArgument: a family of thresholds has too many cells.
    """
    if isinstance(of, Sums):
        real, synthetic = _sums(tables, columns, of)
        number = len(real)
    else:
        real, synthetic = _marginal(tables, columns) if of is None else _thresholds(tables, columns, of)
        number = math.prod(tables.sizes[column] for column in columns)
    return errors_between(real, synthetic, number, is_marginal=of is None)


def errors_between(real: Fractions, answers: Fractions, number: int, *, is_marginal: bool) -> Errors:
    """The errors of answers.

    Args:
        real: the true answers.
        answers: the others.
        number: how many queries there are, with those of which both answers are 0 and not listed.
        is_marginal: whether they are the cells of a marginal.
    """
    gap = np.abs(real - answers)
    l1 = float(gap.sum()) if is_marginal else None
    return Errors(number, float(gap.max()), float(np.abs(real).max()), l1, float(gap @ gap))


def _marginal(tables: Coded, columns: tuple[int, ...]) -> tuple[Fractions, Fractions]:
    """The answers of both tables, of cells that are not empty in both."""
    marginals = tables.marginals(columns)
    return marginals.real, marginals.synthetic


def _sums(tables: Coded, columns: tuple[int, ...], sums: Sums) -> tuple[Fractions, Fractions]:
    """The same of linear queries, divided by their largest weight."""
    marginals, family = tables.marginals(columns), sums.family
    inside = np.ones(len(marginals.real), bool)
    for codes, size in zip(marginals.places, sums.shape, strict=True):
        inside &= codes < size
    cells = np.zeros(int(inside.sum()), np.int64)
    for codes, size in zip(marginals.places, sums.shape, strict=True):
        cells = cells * size + codes[inside]
    real, synthetic = (
        family.answers(np.bincount(cells, part[inside], len(family.weights)).astype(np.float64))
        for part in (marginals.real, marginals.synthetic)
    )
    return real / family.largest, synthetic / family.largest


def _thresholds(tables: Coded, columns: tuple[int, ...], least: int) -> tuple[Fractions, Fractions]:
    """The same of every threshold of a family."""
    shape = tuple(tables.sizes[column] for column in columns)
    if math.prod(shape) > _MOST_CELLS:
        raise InvalidArgument(
            f"a family of thresholds has {math.prod(shape):,} answers, more than {_MOST_CELLS:,}: give fewer columns"
        )
    marginals = tables.marginals(columns)
    dense = np.zeros((2, math.prod(shape)))
    dense[:, np.ravel_multi_index(marginals.places, shape)] = marginals.real, marginals.synthetic
    real, synthetic = (threshold_counts(part, shape, least) for part in dense)
    return real, synthetic
