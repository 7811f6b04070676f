r"""Pairs of columns that depend on each other strongly, found in noisy counts.

    D_ab = y_ab − N·p_a⊗p_b
    S_ab = Σ D_ab² − cells·σ² − |p_b|²·c_a·σ_a² − |p_a|²·c_b·σ_b²     the excess over the product of the columns (rows²)
    strong   S_ab > 3·σ²·√(2·cells)

y are noisy pairs of deviation σ, by all marginals that tell of them (`dpsql.fitting.relaxed.pooled_pairs`); p the 1-way
marginals of c values, with σ_a and σ_b by all that hold them. So a pair is strong where it is three standard deviations
above what noise leaves on average. It is seen as a whole long before one of its cells stands out of the noise.

A pair with ordered columns is also strong where its trend is. D is then taken along each ordered column to the slow
coefficients of `dpsql.fitting.relaxed.trends`, two a run of values, and so are p and the numbers of cells and values.
S is to be above 4·σ²·√(2·cells) there: of so few cells that is as rare by chance, once in 250 pairs. The correlation of
two columns of 32 values is seen in 4 cells instead of 1,024, with a sixteenth of the noise. So weak trends are seen,
too. A pair that is found by its trend alone must be believed to have 0.05 nats
(`dpsql.fitting.relaxed.believed_pairs`).

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.fitting.relaxed.believed_pairs import believed_pairs
from dpsql.fitting.relaxed.pooled_pairs import columns_of, pooled_pairs
from dpsql.fitting.relaxed.settings import one_way_prior
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.relaxed.trends import Trends, trends_of
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]
_DEVIATIONS: Final = 3.0
_OF_A_TREND: Final = 4.0
_OF_SOME_SIZE: Final = 0.05  # nats
TELLING: Final = 0.1  # nats


def strong_pairs(
    domain: Domain, measured: Sequence[Target], total: float, *, pooled: bool = True, trends: bool = True
) -> list[Target]:
    """The measured pairs that are strong, the strongest first.

    Args:
        domain: the columns.
        measured: noisy whole marginals; 1-way ones may be denoised.
        total: N, rows.
        pooled: whether a pair is seen by the triples that hold it, too.
        trends: whether a pair is seen by its trend along ordered columns, too.

    Returns:
        The pairs with their counts, which are pooled where that is asked for.
    """
    noise = {clique[0]: target.variance for clique, target in columns_of(measured).items()}
    measured = pooled_pairs(measured) if pooled else measured
    prior, blocks = one_way_prior(domain, measured, total), Blocks.of(domain)
    bases = trends_of(domain, prior, (name for target in measured for name in target.clique)) if trends else {}
    rated: list[tuple[float, Target]] = []
    for target in measured:
        if len(target.clique) == 2 and target.cells is None and target.variance > 0 and min(target.shape) > 1:
            shares = [prior[blocks.block(name)] for name in target.clique]
            deviation = target.values.reshape(target.shape) - total * np.outer(*shares)
            whole = _Seen(deviation, shares, target.variance, [noise.get(name, 0.0) for name in target.clique])
            excess = whole.excess(_DEVIATIONS)
            slow = 0.0 if excess else whole.along([bases.get(name) for name in target.clique])
            if excess or (slow and tell(believed_pairs(domain, prior, [target], total), _OF_SOME_SIZE)):
                rated.append((excess or slow, target))
    return [target for _, target in sorted(rated, key=lambda pair: -pair[0])]


@dataclass(frozen=True)
class _Seen:
    """D of a pair with p of both columns, as cells or as coefficients; σ², and σ_a² and σ_b²."""

    deviation: Floats
    shares: Sequence[Floats]
    variance: float
    variances: Sequence[float]

    def excess(self, deviations: float) -> float:
        """S where it is more than so many standard deviations of noise, else 0."""
        (first, second), (of_first, of_second) = self.shares, self.variances
        excess = float((self.deviation**2).sum()) - self.deviation.size * self.variance
        excess -= float(second @ second) * len(first) * of_first + float(first @ first) * len(second) * of_second
        return excess if excess > deviations * self.variance * math.sqrt(2 * self.deviation.size) else 0.0

    def along(self, bases: Sequence[Trends | None]) -> float:
        """The excess of the slow coefficients along the ordered columns, 0 where neither is ordered."""
        if not any(bases):
            return 0.0
        values, shares = self.deviation, [*self.shares]
        for place, basis in enumerate(bases):
            if basis is not None:
                waves = basis.waves[basis.slow]
                values = waves @ values if place == 0 else values @ waves.T
                shares[place] = waves @ shares[place]
        slow = replace(self, deviation=values, shares=shares)
        return slow.excess(_OF_A_TREND)


def forest_information(believed: Sequence[Target]) -> float:
    """Σ I(a, b) over a forest of the pairs, the most informative first, in nats.

    It is the Kullback-Leibler divergence of the forest's distribution from the product of its columns. A mixture of
    products needs about e to the power of it rows to be the forest's distribution.

    Args:
        believed: strong pairs, as far as they are believed (`dpsql.fitting.relaxed.believed_pairs`).
    """
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    total = 0.0
    for nats, clique in sorted(((information(pair), pair.clique) for pair in believed), reverse=True):
        first, second = map(find, clique)
        if first != second:
            root[first] = second
            total += nats
    return total


def tell(believed: Iterable[Target], least: float = TELLING) -> bool:
    """Whether one of the pairs has so many nats or more; it looks at no more of them than it must.

    Args:
        believed: pairs, as far as they are believed.
        least: 0.1 nats for none.
    """
    return any(information(pair) >= least for pair in believed)


def information(pair: Target) -> float:
    """I(a, b) of a pair in nats, by its counts as they are; those below 0 count as 0."""
    counts = np.maximum(pair.values, 0.0).reshape(pair.shape)
    if counts.sum() <= 0:
        return 0.0
    joint = counts / counts.sum()
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    held = joint > 0
    return float(np.sum(joint[held] * np.log(joint[held] / product[held])))
