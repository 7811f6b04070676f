r"""The least-squares answer to noisy marginals: consistent, unbiased, of known variance; and the best strategy for it.

A marginal of S splits into orthogonal parts, one for each U ⊆ S: r_U, the marginal of U centred along each of its axes,
spread evenly over the other cells. From a noisy marginal y_S of independent noise σ_S²,

    r_U ← centre(Σ_{S∖U} y_S)   with noise of σ_S²·Π_{i ∈ S∖U} n_i per cell

so the parts of the least-squares estimate are averages over all measured S ⊇ U, weighted by their precisions

    p_U = Σ_{S ⊇ U} 1/(σ_S²·Π_{S∖U} n_i),        M_W = Σ_{U ⊆ W} r_U ⊗ Π_{W∖U} 1/n_i

and the sum of the variances of the cells of M_W is Σ_{U ⊆ W} Π_U (n_i − 1)/(p_U·Π_{W∖U} n_i).

With 1/σ_S² = 2ρ_S/Δ² the expected squared error of a workload is Σ_U v_U/p_U(ρ), convex in ρ. The best ρ with Σρ_S = ρ
satisfies Σ_{U ⊆ S} v_U·a_{US}/p_U² = λ wherever ρ_S > 0; ρ_S ← ρ_S·√(that sum), normalised, goes there.

Source: McKenna, Miklau, Hay, Machanavajjhala 2018 (HDMM, strategies of marginals); Xiao, He, Zhang, Kifer 2023 (the
residual basis).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core import sparse
from dpsql.core.domain import Clique, Domain
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]
_STEPS: Final = 2000
_CLOSE: Final = 1e-9
MOST_ADDED: Final = 2_000_000_000
"""What one estimate may add up, in half a minute: see `additions`."""


def subsets(clique: Clique) -> list[Clique]:
    """All subsets, the empty one first.

    >>> subsets(("a", "b"))
    [(), ('a',), ('b',), ('a', 'b')]
    """
    return [part for order in range(len(clique) + 1) for part in itertools.combinations(clique, order)]


@dataclass(frozen=True)
class Estimate:
    """The least-squares estimate of all marginals that the measured ones determine.

    Attributes:
        domain: the attributes.
        parts: r_U for each U, of the shape of its sizes.
        precisions: p_U (1/rows²).
    """

    domain: Domain
    parts: dict[Clique, Floats]
    precisions: dict[Clique, float]

    def covers(self, clique: Clique) -> bool:
        """Whether a marginal is determined: it is a subset of a measured one, all of whose subsets have parts."""
        return clique in self.parts

    def answer(self, clique: Clique) -> Floats:
        """The counts of a marginal, shape (cells,); they may be negative."""
        shape = self.domain.shape(clique)
        counts = np.zeros(shape)
        for part in subsets(clique):
            spread = [size if name in part else 1 for name, size in zip(clique, shape, strict=True)]
            others = math.prod(size for name, size in zip(clique, shape, strict=True) if name not in part)
            counts += self.parts[part].reshape(spread) / others
        return counts.ravel()

    def variance(self, clique: Clique) -> float:
        """The mean variance of the cells of `answer` (rows²)."""
        whole = 0.0
        for part in subsets(clique):
            inside = math.prod(size - 1 for size in self.domain.shape(part))
            others = self.domain.size(clique) / self.domain.size(part)
            whole += inside / (self.precisions[part] * others)
        return whole / self.domain.size(clique)


def additions(domain: Domain, cliques: Iterable[Clique]) -> int:
    """How many numbers `least_squares` adds up for marginals of these cliques: each cell for each subset.

    >>> from dpsql.core.domain import Attribute
    >>> ages = Attribute("age", "INTEGER", "bins", ticks=(0, 20, 40, 60))
    >>> additions(Domain((ages,)), [("age",)])
    6
    """
    return sum(2 ** len(clique) * domain.size(clique) for clique in cliques)


class Pool:
    """Residuals of noisy marginals, averaged by their precisions as they come.

    Attributes:
        estimate: the least-squares estimate from all that was added.
    """

    def __init__(self, domain: Domain) -> None:
        """Nothing is measured yet.

        Args:
            domain: the attributes.
        """
        self.estimate = Estimate(domain, {}, {})
        self._sums: dict[Clique, Floats] = {}

    def add(self, measured: Target) -> None:
        """Take in one noisy whole marginal of positive variance; the empty clique is a measured total."""
        table, parts, precisions = (
            measured.values.reshape(measured.shape),
            self.estimate.parts,
            self.estimate.precisions,
        )
        for part in subsets(measured.clique):
            axes = tuple(axis for axis, name in enumerate(measured.clique) if name not in part)
            component = centred(table.sum(axis=axes))
            weight = 1 / (measured.variance * math.prod(measured.shape[axis] for axis in axes))
            self._sums[part] = self._sums.get(part, 0.0) + weight * component
            precisions[part] = precisions.get(part, 0.0) + weight
            parts[part] = np.asarray(self._sums[part] / precisions[part])


def least_squares(domain: Domain, measurements: Sequence[Target]) -> Estimate:
    """The estimate from whole marginals of positive variance.

    Args:
        domain: the attributes.
        measurements: noisy whole marginals; the empty clique is a measured total.
    """
    pool = Pool(domain)
    for measured in measurements:
        pool.add(measured)
    return pool.estimate


def centred(table: Floats) -> Floats:
    """A table minus its means along each axis: the part of it that no smaller marginal tells."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def terms(domain: Domain, workload: Sequence[Clique], candidates: Sequence[Clique]) -> tuple[Floats, sparse.csr_array]:
    """v_U, and a_US, of the expected squared error Σ_U v_U/(Σ_S a_US/σ_S²) of a workload; see the module.

    Args:
        domain: the attributes.
        workload: the marginals to answer.
        candidates: S, the marginals that may be measured.
    """
    wanted = list(dict.fromkeys(part for clique in workload for part in subsets(clique)))
    place = {part: number for number, part in enumerate(wanted)}
    worth = np.zeros(len(wanted))
    for clique in workload:
        for part in subsets(clique):
            inside = math.prod(size - 1 for size in domain.shape(part))
            worth[place[part]] += inside * domain.size(part) / domain.size(clique)
    rows, columns, entries = [], [], []
    for number, clique in enumerate(candidates):
        for part in subsets(clique):
            if part in place:
                rows.append(place[part])
                columns.append(number)
                entries.append(domain.size(part) / domain.size(clique))
    return worth, sparse.csr_array((entries, (rows, columns)), shape=(len(wanted), len(candidates)))


def best_strategy(domain: Domain, workload: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
    """The shares of ρ among the candidates that minimise the expected squared error of a workload's marginals.

    Args:
        domain: the attributes.
        workload: the marginals to answer, each a subset of some candidate.
        candidates: the marginals that may be measured.

    Returns:
        Shares that add up to 1, shape (candidates,); zero where a marginal is not worth measuring.
    """
    worth, precision = terms(domain, workload, candidates)
    shares = np.full(len(candidates), 1 / len(candidates))
    for _ in range(_STEPS):
        gain = precision.T @ (worth / np.maximum(precision @ shares, 1e-300) ** 2)
        moved = shares * np.sqrt(gain)
        moved /= moved.sum()
        done = float(np.abs(moved - shares).sum()) < _CLOSE
        shares = moved
        if done:
            break
    return np.asarray(np.where(shares < 1e-6 / len(candidates), 0.0, shares) / shares.sum())
