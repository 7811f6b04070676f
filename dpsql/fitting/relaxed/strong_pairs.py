r"""Pairs of columns that depend on each other strongly, found in noisy counts.

    D_ab = y_ab − N·p_a⊗p_b
    S_ab = Σ D_ab² − cells·σ² − |p_b|²·c_a·σ_a² − |p_a|²·c_b·σ_b²     the excess over the product of the columns (rows²)
    strong   S_ab > 3·σ²·√(2·cells)

y are noisy pairs of deviation σ, by all marginals that tell of them (`dpsql.fitting.relaxed.pooled_pairs`); p the 1-way
marginals, of c values that were measured with σ_a and σ_b. So a pair is strong where it is three standard deviations
above what noise leaves on average. It is seen as a whole long before one of its cells stands out of the noise. It looks
at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dpsql.core.domain import Domain
from dpsql.fitting.relaxed.pooled_pairs import pooled_pairs
from dpsql.fitting.relaxed.settings import one_way_prior
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.target import Target

_DEVIATIONS: Final = 3.0


def strong_pairs(domain: Domain, measured: Sequence[Target], total: float, *, pooled: bool = True) -> list[Target]:
    """The measured pairs that are strong, the strongest first.

    Args:
        domain: the columns.
        measured: noisy whole marginals; 1-way ones may be denoised.
        total: N, rows.
        pooled: whether a pair is seen by the triples that hold it, too.

    Returns:
        The pairs with their counts, which are pooled where that is asked for.
    """
    measured = pooled_pairs(measured) if pooled else measured
    prior, blocks = one_way_prior(domain, measured, total), Blocks.of(domain)
    noise = {one.clique[0]: len(one.values) * one.variance for one in measured if len(one.clique) == 1}
    found: list[tuple[float, Target]] = []
    for one in measured:
        if len(one.clique) == 2 and one.cells is None and one.variance > 0 and min(one.shape) > 1:
            (a, first), (b, second) = ((name, prior[blocks.block(name)]) for name in one.clique)
            deviation = one.values - total * np.outer(first, second).ravel()
            excess = float(deviation @ deviation) - len(deviation) * one.variance
            excess -= float(second @ second) * noise.get(a, 0.0) + float(first @ first) * noise.get(b, 0.0)
            if excess > _DEVIATIONS * one.variance * math.sqrt(2 * len(deviation)):
                found.append((excess, one))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def forest_information(strong: Sequence[Target]) -> float:
    """Σ I(a, b) over a forest of the strong pairs, the most informative first, in nats.

    It is the Kullback-Leibler divergence of the forest's distribution from the product of its columns. A mixture of
    products needs about e to the power of it rows to be the forest's distribution.

    Args:
        strong: by `strong_pairs`; negative counts are taken for 0.
    """
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    total = 0.0
    for nats, clique in sorted(((information(_clear(one)), one.clique) for one in strong), reverse=True):
        first, second = map(find, clique)
        if first != second:
            root[first] = second
            total += nats
    return total


def information(pair: Target) -> float:
    """I(a, b) of a pair in nats, by its counts as they are; those below 0 count as 0."""
    counts = np.maximum(pair.values, 0.0).reshape(pair.shape)
    if counts.sum() <= 0:
        return 0.0
    joint = counts / counts.sum()
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    held = joint > 0
    return float(np.sum(joint[held] * np.log(joint[held] / product[held])))


def _clear(pair: Target) -> Target:
    """A pair's counts that are at least three standard deviations, the others 0."""
    return replace(pair, values=np.where(pair.values > _DEVIATIONS * pair.stddev, pair.values, 0.0))
