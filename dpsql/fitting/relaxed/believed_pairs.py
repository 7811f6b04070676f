r"""A noisy pair of columns, as far as its deviation from the product of the columns is more than noise.

    D = y − N·p_a⊗p_b                       y noisy counts of deviation σ, p the 1-way marginals
    q = Π_simplex(p_a⊗p_b + E(D)/N)

With an ordered column E(D) is smooth along it: D is taken to cosines along ordered columns (DCT-II, orthonormal, so
noise stays σ), whose frequencies 0, 1, 2–3, 4–7, … of each column make blocks. Each block of m values of square sum S
is multiplied by max(0, 1 − (m + 2·√(2m))·σ²/S), James and Stein's factor with two standard deviations of S beside.
A pair without an ordered column has the posterior means of `dpsql.fitting.relaxed.shrinkage`, cell by cell.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.fitting.relaxed.shrinkage import shrunken
from dpsql.fitting.relaxed.smoothness import FEWEST
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable, simplex_projection
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]


def believed_pair(domain: Domain, prior: Floats, pair: Target, total: float) -> Target:
    """The pair with q for its counts.

    Args:
        domain: the columns.
        prior: p, the 1-way marginals of all columns, shape (T,).
        pair: noisy counts.
        total: N, rows.
    """
    blocks = Blocks.of(domain)
    ordered = [_is_ordered(domain, name) for name in pair.clique]
    if not any(ordered):
        product = RelaxedTable(blocks, prior[:, None].astype(np.float32), total)
        return replace(pair, values=total * shrunken(product, [pair])[pair.clique].astype(np.float64))
    expected = total * np.outer(*(prior[blocks.block(name)] for name in pair.clique))
    deviation = smooth_part(pair.values.reshape(pair.shape) - expected, ordered, pair.variance)
    return replace(pair, values=total * simplex_projection((expected + deviation).ravel() / total))


def _is_ordered(domain: Domain, name: str) -> bool:
    column = domain.by_name[name]
    return column.is_ordered and not column.points and column.regular >= FEWEST


def smooth_part(deviation: Floats, ordered: Sequence[bool], variance: float) -> Floats:
    """E(D), shape as D.

    >>> noise = np.random.default_rng(0).normal(size=(8, 8))
    >>> bool(np.abs(smooth_part(noise, [True, True], 1.0)).max() < 1)
    True

    Args:
        deviation: D.
        ordered: which of both columns are.
        variance: σ².
    """
    rows, columns = (cosines(n) if one else np.eye(n) for n, one in zip(deviation.shape, ordered, strict=True))
    found = rows @ deviation @ columns.T
    first, second = (_blocks_of(n) if one else np.arange(n) for n, one in zip(deviation.shape, ordered, strict=True))
    label = (first[:, None] * (second.max() + 1) + second).ravel()
    size, squares = np.bincount(label), np.bincount(label, (found**2).ravel())
    factor = np.maximum(0.0, 1 - (size + 2 * np.sqrt(2 * size)) * variance / np.maximum(squares, 1e-300))
    return np.asarray(rows.T @ (found * factor[label].reshape(found.shape)) @ columns)


def cosines(length: int) -> Floats:
    """The orthonormal DCT-II as a matrix, frequencies × places.

    >>> bool(np.allclose(cosines(5) @ cosines(5).T, np.eye(5)))
    True
    """
    frequency, place = np.arange(length)[:, None], np.arange(length)
    matrix = np.sqrt(2 / length) * np.cos(np.pi * (2 * place + 1) * frequency / (2 * length))
    matrix[0] /= np.sqrt(2)
    return np.asarray(matrix)


def _blocks_of(length: int) -> npt.NDArray[np.int64]:
    """The block of each frequency; 0 is one, 1, 2–3, 4–7 and so on."""
    return np.array([frequency.bit_length() for frequency in range(length)])
