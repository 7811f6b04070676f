r"""Measured pairs of columns, each by all marginals that tell of it: its own, and sums of larger ones that hold it.

    y_ab = Σ_S w_S·y_S,    w_S ∝ 1/(σ_S²·cells(S)/cells(ab)),    variance  1/Σ_S 1/(σ_S²·cells(S)/cells(ab))

over the measured S ⊇ {a, b}. y_S are the counts of S, summed over its other columns; variances add up with them. Of all
weighted means it has the least variance. That is down to a quarter of the pair's own where triples have most of the
budget, so pairs stand out of the noise much sooner. A fit sees the triples by themselves, so it is given each pair as
it was measured.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.fitting.rows_by_code import RowsByCode
from dpsql.fitting.target import Target


def pooled_pairs(measured: Sequence[Target]) -> list[Target]:
    """The same targets; each whole pair has the weighted mean, and its variance.

    >>> pair = Target(("a", "b"), (2, 1), np.array([10.0, 20.0]), 6.0)
    >>> triple = Target(("a", "b", "c"), (2, 1, 2), np.array([5.0, 8.0, 9.0, 8.0]), 6.0)
    >>> pooled = pooled_pairs([pair, triple])[0]
    >>> pooled.values.round(6).tolist(), round(pooled.variance, 6)
    ([11.0, 19.0], 4.0)

    Args:
        measured: noisy marginals, whole or in part; pairs that were measured in part or exactly stay.
    """
    whole = [target for target in measured if target.cells is None and target.variance > 0]
    sums = {target.clique: target.values / target.variance for target in whole if len(target.clique) == 2}
    precisions = {target.clique: 1 / target.variance for target in whole if len(target.clique) == 2}
    for target in whole:
        for pair, values, variance in _pairs_in(target):
            if pair in sums:
                sums[pair] = sums[pair] + values / variance
                precisions[pair] += 1 / variance
    return [
        replace(target, values=sums[target.clique] / precisions[target.clique], variance=1 / precisions[target.clique])
        if target.cells is None and target.clique in sums
        else target
        for target in measured
    ]


def _pairs_in(target: Target) -> Iterator[tuple[Clique, npt.NDArray[np.float64], float]]:
    """The pairs inside a larger marginal: names, sums over its other columns, and the variance of each sum."""
    if len(target.clique) < 3:
        return
    values = target.values.reshape(target.shape)
    for others in itertools.combinations(range(len(target.shape)), len(target.shape) - 2):
        pair = tuple(name for place, name in enumerate(target.clique) if place not in others)
        yield (
            pair,
            values.sum(axis=others).ravel(),
            target.variance * math.prod(target.shape[place] for place in others),
        )


def columns_of(measured: Sequence[Target]) -> dict[Clique, Target]:
    """Each column that was measured by itself, by all whole marginals that hold it: the mean of least variance."""
    whole = [target for target in measured if target.cells is None and target.linear is None and target.variance > 0]
    columns = dict[Clique, Target]()
    for target in whole:
        by_code = RowsByCode.of(target.clique[0], whole) if len(target.clique) == 1 else None
        if by_code is not None:
            columns[target.clique] = replace(target, values=by_code.rows, variance=1 / by_code.weight)
    return columns
