r"""Which means of numbers in groups of a synthetic table are likely right, by released values only.

    μ      = Σ_k s_k·m_k/n                       the synthetic mean of a group, over the n of its rows with a number
    h_k    = min(σ, max(s_k, n·p_k) + 1)         rows of a cell that noise hides
    error  = √Σ_k ((m_k − μ)·h_k)² / (n·|μ|)     about how far the mean is off, as a fraction of it
    likely   error ≤ 1/4

s_k are the synthetic rows of the group in cell k of the numbers, scaled to as many as were measured. m_k is the mean
of synthetic numbers in the cell, σ the noise of the pair's counts by all that tell of them (`dpsql.release.estimates`).
p_k is the cell's share of all rows with a number. So n·p_k rows would be there if the group were like the others.

A cell of which noise hides all rows is as the fit guesses: between the group's own trend and the others' rows. Of
skewed numbers few rows in the last cells make up most of a mean, so noise weighs most there.

Where in a cell a group's numbers lie was not measured, and would tell little (`tests/benchmarks/group_means.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpsql.core.domain import Attribute
from dpsql.release.estimates import Estimate, Floats

RIGHT: Final = 0.25
"""Of a mean: the error that makes it likely right."""
GROUP_ROWS: Final = 500
"""Of smaller groups no mean is judged."""
MOST_GROUPS: Final = 24
"""Values of a column whose groups are judged."""


@dataclass(frozen=True)
class GroupMean:
    """The mean of a column of numbers in one group of rows.

    Attributes:
        column: whose values make groups.
        label: of the group.
        rows: about how many of its rows have a number.
        synthetic: the mean in the synthetic rows.
        error: about how far off it is, as a fraction of it; infinite where it is 0.
    """

    column: str
    label: str
    rows: float
    synthetic: float
    error: float

    @property
    def is_likely(self) -> bool:
        """Whether it is likely right within a quarter."""
        return self.error <= RIGHT


def makes_groups(attribute: Attribute) -> bool:
    """Whether means are judged within the values of a column."""
    return attribute.kind == "values" and attribute.regular <= MOST_GROUPS


def group_means(number: str, inside: Floats, groups: Attribute, pair: Estimate, made: Floats) -> Iterator[GroupMean]:
    """The means of a column of numbers in the groups of another column.

    >>> ward = Attribute("ward", "VARCHAR", "values", ("a", "b"))
    >>> pair = Estimate(("cost", "ward"), np.zeros((2, 2)), 100.0, {}, is_normal=True)
    >>> cost = np.array([1.0, 100.0])
    >>> [round(mean.error, 2) for mean in group_means("cost", cost, ward, pair, np.array([[5000, 5000], [600, 0]]))]
    [0.01, 0.2]

    Args:
        number: the column of numbers.
        inside: the mean of the numbers in each of its cells, shape (cells,); no number where the cell has none.
        groups: whose values make groups.
        pair: the estimate of the two columns.
        made: synthetic rows in its cells, in its shape, scaled to as many rows as were measured.
    """
    table = made if pair.clique.index(number) == 1 else made.T
    has_number = np.isfinite(inside)
    means, table = inside[has_number], table[:, has_number]
    whole = table.sum(axis=0)
    shares = whole / max(1.0, float(whole.sum()))
    for label, rows in zip(groups.labels(), table[: groups.regular], strict=False):
        n = float(rows.sum())
        if n < GROUP_ROWS:
            continue
        mean = float(rows @ means) / n
        hides = np.minimum(pair.stddev, np.maximum(rows, n * shares) + 1)
        off = float(np.sqrt((((means - mean) * hides) ** 2).sum())) / n
        yield GroupMean(groups.name, label, n, mean, off / abs(mean) if mean else math.inf)
