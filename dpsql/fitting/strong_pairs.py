r"""Pairs of columns that depend on each other strongly, found in noisy counts.

    D_ab = y_ab − N·p_a⊗p_b,    S_ab = Σ D_ab² − cells·σ²         the excess over the product of the columns (rows²)
    strong  S_ab > 3·σ²·√(2·cells)                                 three standard deviations of what noise alone leaves

y are noisy pairs and p the 1-way marginals. A pair is seen as a whole long before one of its cells stands out of the
noise. It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dpsql.core.domain import Domain
from dpsql.fitting.relaxation import Blocks
from dpsql.fitting.settings import one_way_prior
from dpsql.fitting.target import Target

_DEVIATIONS: Final = 3.0


def strong_pairs(domain: Domain, measured: Sequence[Target], total: float) -> list[Target]:
    """The measured pairs that are strong, the strongest first.

    Args:
        domain: the columns.
        measured: noisy whole marginals; 1-way ones may be denoised.
        total: N, rows.
    """
    prior, blocks = one_way_prior(domain, measured, total), Blocks.of(domain)
    found: list[tuple[float, Target]] = []
    for one in measured:
        if len(one.clique) == 2 and one.cells is None and one.variance > 0:
            first, second = (prior[blocks.block(name)] for name in one.clique)
            deviation = one.values - total * np.outer(first, second).ravel()
            excess = float(deviation @ deviation) - len(deviation) * one.variance
            if excess > _DEVIATIONS * one.variance * math.sqrt(2 * len(deviation)):
                found.append((excess, one))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]
