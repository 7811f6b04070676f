"""How well a synthetic table answers the queries of a workload: cells of marginals, and thresholds.

    e_q = |q(D) − q(D′)|           of each query q, as a fraction of the rows
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

from dpsql.core.threshold import threshold_counts
from dpsql.errors import InvalidArgument
from dpsql.utility.coded import Coded, Fractions

_MOST_CELLS: Final = 20_000_000
"""Of the columns of a family of thresholds, all of whose answers are computed."""

Asked = tuple[tuple[int, ...], int | None]
"""The places of the columns of a marginal and None, or those of a family of thresholds and how many must match."""


@dataclass(frozen=True)
class Answers:
    """The measures at the top of this file. Computed from real rows: private.

    Attributes:
        marginals, families: how many of the workload's were looked at.
        largest: the largest error of a query.
        zeros: the same if every answer were 0.
        l1: the mean L1 of the marginals; None where there are only thresholds.
        rmse: over all queries.
    """

    marginals: int
    families: int
    largest: float
    zeros: float
    l1: float | None
    rmse: float


def answers(tables: Coded, asked: Sequence[Asked]) -> Answers:
    """Compare the answers of both tables.

    Args:
        tables: the real and the synthetic one.
        asked: what the workload asks for, one at least.

    Raises:
        InvalidArgument: nothing is asked, or a family of thresholds has too many cells.

    >>> rows, made = np.array([[0, 1], [1, 0], [1, 1], [0, 0]]), np.array([[0, 1], [0, 1]])
    >>> answers(Coded(rows, made, (2, 2), (0, 0)), [((0, 1), None)]).l1
    1.5
    """
    if not asked:
        raise InvalidArgument("the workload asks for nothing: name at least one marginal")
    largest = zeros = squares = 0.0
    cells = 0
    l1 = []
    for columns, least in asked:
        real, gap = _marginal(tables, columns) if least is None else _thresholds(tables, columns, least)
        largest, zeros = max(largest, float(gap.max())), max(zeros, float(real.max()))
        squares += float(gap @ gap)
        cells += math.prod(tables.sizes[column] for column in columns)
        if least is None:
            l1.append(float(gap.sum()))
    return Answers(
        marginals=len(l1),
        families=len(asked) - len(l1),
        largest=largest,
        zeros=zeros,
        l1=float(np.mean(l1)) if l1 else None,
        rmse=math.sqrt(squares / cells),
    )


def _marginal(tables: Coded, columns: tuple[int, ...]) -> tuple[Fractions, Fractions]:
    """The real answers and the errors, of cells that are not empty in both tables."""
    found = tables.marginals(columns)
    return found.real, np.abs(found.real - found.synthetic)


def _thresholds(tables: Coded, columns: tuple[int, ...], least: int) -> tuple[Fractions, Fractions]:
    """The same of every threshold of a family."""
    shape = tuple(tables.sizes[column] for column in columns)
    if math.prod(shape) > _MOST_CELLS:
        raise InvalidArgument(
            f"a family of thresholds has {math.prod(shape):,} answers, more than {_MOST_CELLS:,}: give fewer columns"
        )
    found = tables.marginals(columns)
    dense = np.zeros((2, math.prod(shape)))
    dense[:, np.ravel_multi_index(found.places, shape)] = found.real, found.synthetic
    real, synthetic = (threshold_counts(part, shape, least) for part in dense)
    return real, np.abs(real - synthetic)
