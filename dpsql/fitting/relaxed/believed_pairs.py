r"""Noisy pairs of columns, each as far as its deviation from the product of the columns is more than noise.

    D = y − N·p_a⊗p_b                       y noisy counts of deviation σ, p the 1-way marginals
    q = Π_simplex(p_a⊗p_b + E(D)/N)

With an ordered column E(D) is a trend along it: D is taken to the coefficients of `dpsql.fitting.relaxed.trends`, whose
noise is σ too. Those of one block of each column make a block of the pair. Each block of m independent coefficients of
square sum S is multiplied by max(0, 1 − (m + 2·√(2m))·σ²/S), James and Stein's factor with two standard deviations of S
beside. A pair without an ordered column has the posterior means of `dpsql.fitting.relaxed.shrinkage`, cell by cell.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.fitting.relaxed.shrinkage import shrunken
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable, simplex_projection
from dpsql.fitting.relaxed.trends import Trends, cells, trends_of
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]


def believed_pairs(
    domain: Domain, prior: Floats, pairs: Iterable[Target], total: float, *, trends: bool = True
) -> Iterator[Target]:
    """The pairs, one after the other, with N·q for their counts.

    Args:
        domain: the columns.
        prior: p, the 1-way marginals of all columns, shape (T,).
        pairs: noisy counts.
        total: N, rows.
        trends: whether a deviation is believed as a trend along ordered columns; else cell by cell.
    """
    pairs = [*pairs]
    blocks = Blocks.of(domain)
    bases = trends_of(domain, prior, (name for pair in pairs for name in pair.clique)) if trends else {}
    product = RelaxedTable(blocks, prior[:, None].astype(np.float32), total)
    for pair in pairs:
        along = [bases.get(name) for name in pair.clique]
        if not any(along):
            shares = shrunken(product, [pair])[pair.clique].astype(np.float64)
        else:
            expected = total * np.outer(*(prior[blocks.block(name)] for name in pair.clique))
            deviation = trend(pair.values.reshape(pair.shape) - expected, along, pair.variance)
            shares = simplex_projection((expected + deviation).ravel() / total)
        yield replace(pair, values=total * shares)


def trend(deviation: Floats, bases: Sequence[Trends | None], variance: float) -> Floats:
    """E(D), shape as D.

    >>> from dpsql.core.domain import Attribute
    >>> from dpsql.fitting.relaxed.trends import trends
    >>> along = trends(Attribute("a", "INTEGER", "bins", ticks=tuple(range(9))), np.full(8, 1 / 8))
    >>> noise = np.random.default_rng(0).normal(size=(8, 8))
    >>> bool(np.abs(trend(noise, [along, along], 1.0)).max() < 1)
    True

    Args:
        deviation: D.
        bases: of both columns; None for one without an order.
        variance: σ².
    """
    first, second = (basis or cells(n) for n, basis in zip(deviation.shape, bases, strict=True))
    coefficients = second.apart(first.apart(deviation).T).T
    label = (first.block[:, None] * (second.block.max() + 1) + second.block).ravel()
    size = np.bincount(label, np.outer(first.freedom, second.freedom).ravel())
    squares = np.bincount(label, (coefficients**2).ravel())
    factor = np.maximum(0.0, 1 - (size + 2 * np.sqrt(2 * size)) * variance / np.maximum(squares, 1e-300))
    return second.together(first.together(coefficients * factor[label].reshape(coefficients.shape)).T).T
