r"""A fit with a public prior: the prior counts by how much closer it is to the measurements than a fit without it.

The noisy counts y, of variance σ², are split in two that are uncorrelated, with w of the same variance:

    y₁ = y + γ·w     to fit a model to, without the prior
    y₂ = y − w/γ     to compare this model and the prior with

Every marginal splits into orthogonal parts, one for each set U of columns (`dpsql.fitting.least_squares`): r_U of y₂
with precision p_U, d_U of the model, q_U of the prior, all in rows. What is fitted at last is, cell by cell,

    d_U + λ·(q_U − d_U),     0 ≤ λ ≤ 1

with one λ for the cells c of a part that lie in a class b by how many rows the model and the prior expect in them (the
error of a public sample grows with a cell, that of noise does not). By least squares it is, of precision s_Ub,

    λ_Ub = p_U·Σ_{c ∈ b} (r_U − d_U)(q_U − d_U) / s_Ub,     s_Ub = p_U·Σ_{c ∈ b} (q_U − d_U)²

which few cells tell badly. So the parts of as many columns k are looked at together, as in a random-effects model: λ_Ub
lies around λ_kb with standard deviation τ, and its posterior mean is used:

    λ_kb = (λ_0/ω² + Σ_U w_Ub·λ_Ub) / (1/ω² + Σ_U w_Ub),     w_Ub = 1/(τ² + 1/s_Ub)
    λ    = (λ_kb/τ² + s_Ub·λ_Ub) / (1/τ² + s_Ub)

The noise of y₂ has nothing to do with d or q, so λ prefers neither: a prior that is near counts for much where noise is
large, and for little where a model of the measurements alone is nearer; one that is far counts for little. λ_0, which
is all that counts where nothing was measured or noise hides everything, is λ_{k−1,b}, and 1 for pairs and single
columns: then the prior is better than noise.
The errors of d and q being independent, that of d is Σ λ(q − d)², of which Σ λ²(q − d)² goes away. Where this is less
than γ²/(1 + γ²) of it, which is what the split costs, and every part was measured, the prior is left out, and y is
fitted. Marginals of more than six columns are fitted as they were measured.

It matters that a fit is compared, and not y: a model of few rows does away with most of the noise in y, which no
mixture of rows looks like, but with none of the chance in a small public sample, which looks like rows. A mean of y and
the prior by their variances keeps that and can be far worse than no prior (`tests/benchmarks/RESULTS.md`, "A public
prior").

Only noisy counts and public rows are looked at: it costs nothing. The split in two is data fission (Leiner, Duan,
Wasserman, Ramdas 2023; Rasines, Young 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.evidence.occupied import SideFacts
from dpsql.fitting.least_squares import Estimate, centred, least_squares, subsets
from dpsql.fitting.relaxed.settings import Fit, Settings
from dpsql.fitting.relaxed.table import RelaxedTable
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Progress

Fitting = Callable[[Sequence[Target]], Fit]
Floats = npt.NDArray[np.float64]
_SPLIT: Final = 0.5  # γ: what is fitted has 1 + γ² of the variance, what is compared 1 + 1/γ²
_CLASSES: Final = 8
_CLASS: Final = 4.0  # a cell has as many times the rows of one of the class below
_SPREAD: Final = 0.2  # τ
_UNKNOWN: Final = 0.5  # ω
_SURE: Final = 0.02  # of the noise's square: as little as may be thought to be left
_LARGEST_ORDER: Final = 3
_MOST_COLUMNS: Final = 6  # of a measured marginal that is compared with the prior, in all of its 2⁶ parts
_MOST_CELLS: Final = 3_000_000


@dataclass(frozen=True)
class _Gap:
    """What is compared in one part U (rows, flat, shape (cells,)).

    Attributes:
        public: q_U − d_U.
        classes: the class b of each cell.
        noisy: r_U − d_U; None where U was not measured.
        precision: p_U (1/rows²).
        free: Π (n_i − 1), the dimension of the part.
    """

    public: Floats
    classes: npt.NDArray[np.int64]
    noisy: Floats | None
    precision: float
    free: int

    @property
    def noise(self) -> float:
        """The expected square of the noise in r_U (rows²)."""
        return self.free / self.precision

    def moment(self, shares: Floats, power: int) -> float:
        """Σ λ^power·(q_U − d_U)² over the cells (rows²)."""
        return float(np.sum(shares[self.classes] ** power * self.public**2))

    def left(self, shares: Floats) -> float:
        """The squared error (rows²) with the share λ of each class, without bias; 0 where U was not measured."""
        if self.noisy is None:
            return 0.0
        return float(np.sum((self.noisy - shares[self.classes] * self.public) ** 2)) - self.noise


def fit_with_prior(
    facts: SideFacts,
    cliques: Sequence[Clique],
    measured: Sequence[Target],
    alone: Fitting,
    last: Fitting | None = None,
    *,
    total: float,
    max_cells: int,
    seed: int,
    progress: Progress,
) -> tuple[Fit, dict[str, Any]]:
    """The fit to measurements and a prior together, and what to report of the prior.

    Args:
        facts: the domain and the prior; without a prior it is the fit to the measurements.
        cliques: to be answered beside what is measured; those of at most three columns are taken.
        measured: noisy whole marginals.
        alone: fits a model to noisy marginals.
        last: fits a model to marginals that have the prior in them; None for as `alone` does.
        total: N, rows.
        max_cells: of one marginal.
        seed: of the split, which touches no private data.
        progress: notified of it.
    """
    if facts.prior is None:
        return alone(measured), {}
    both = _WithPrior(facts.prior, facts.domain, cliques, total, max_cells, seed, progress)
    return both.fit(measured, alone, last or alone)


def fit_marginals_with_prior(
    facts: SideFacts,
    workload: Workload,
    measured: Sequence[Target],
    total: float,
    settings: Settings,
    max_cells: int,
    seed: int,
    progress: Progress,
    linear: Sequence[Target] = (),
) -> tuple[Fit, dict[str, Any]]:
    """A relaxed table nearest to marginals as they were measured, to linear queries and to a prior.

    See `fit_with_prior`.
    """
    from dpsql.fitting.relaxed.fit_marginals import fit_marginals  # loads JAX

    def fitted(marginals: Sequence[Target]) -> Fit:
        return fit_marginals(facts.domain, [*marginals, *linear], total, settings, seed, progress)

    cliques = () if facts.prior is None else workload.closure()
    return fit_with_prior(
        facts, cliques, measured, fitted, total=total, max_cells=max_cells, seed=seed, progress=progress
    )


@dataclass(frozen=True)
class _WithPrior:
    """What `fit_with_prior` is given, and its steps."""

    prior: Prior
    domain: Domain
    cliques: Sequence[Clique]
    total: float
    max_cells: int
    seed: int
    progress: Progress

    def fit(self, measured: Sequence[Target], alone: Fitting, last: Fitting) -> tuple[Fit, dict[str, Any]]:
        """See `fit_with_prior`."""
        first, second = split(measured, self.seed)
        model, wanted = alone(first).model, self._wanted(measured)
        compared = [m for m in second if len(m.clique) <= _MOST_COLUMNS]
        estimate = least_squares(self.domain, compared)
        split_up = [subsets(clique)[1:] for clique in wanted if len(clique) <= _MOST_COLUMNS]
        parts = dict.fromkeys(part for pieces in split_up for part in pieces if self.prior.covers(part))
        gaps = {part: self._gap(model, estimate, part) for part in parts}
        shares, around = _shares(gaps)
        report = {
            "prior_shares": {
                str(order): [round(float(x), 3) for x in shares_of_order] for order, shares_of_order in around.items()
            }
        }
        before, gain = (sum(gap.moment(shares[u], k) for u, gap in gaps.items()) for k in (1, 2))
        if all(gap.noisy is not None for gap in gaps.values()) and gain <= _SPLIT**2 / (1 + _SPLIT**2) * before:
            return alone(measured), {**report, "prior_left_out": True}
        return last(list(self._targets(measured, wanted, model, gaps, shares))), report

    def _wanted(self, measured: Sequence[Target]) -> list[Clique]:
        """The marginals of the last fit: the measured ones, and small ones that the prior knows."""
        wanted = [m.clique for m in measured]
        cells = sum(self.domain.size(clique) for clique in wanted)
        for clique in self.cliques:
            size = self.domain.size(clique)
            small = len(clique) <= _LARGEST_ORDER and size <= self.max_cells and cells + size <= _MOST_CELLS
            if small and clique not in wanted and self.prior.covers(clique):
                wanted.append(clique)
                cells += size
        return wanted

    def _of_model(self, model: RelaxedTable, clique: Clique) -> Floats:
        """A marginal of the model (rows), of the shape of its sizes."""
        return self.total * np.asarray(model.project(clique), np.float64).reshape(self.domain.shape(clique))

    def _gap(self, model: RelaxedTable, estimate: Estimate, part: Clique) -> _Gap:
        own = self._of_model(model, part)
        self.progress.check()
        public = self.total * self.prior.project(self.domain, part).reshape(own.shape)
        rows = np.maximum((public + own) / 2, 1.0).ravel()
        classes = np.minimum(np.log(rows) / math.log(_CLASS), _CLASSES - 1).astype(np.int64)
        free, own = math.prod(size - 1 for size in own.shape), centred(own)
        gap = (centred(public) - own).ravel()
        if part not in estimate.parts:
            return _Gap(gap, classes, None, 0.0, free)
        return _Gap(gap, classes, (estimate.parts[part] - own).ravel(), estimate.precisions[part], free)

    def _targets(
        self,
        measured: Sequence[Target],
        wanted: Sequence[Clique],
        model: RelaxedTable,
        gaps: dict[Clique, _Gap],
        shares: dict[Clique, Floats],
    ) -> Iterable[Target]:
        """What is fitted at last: marginals of all parts together; as measured where they were not compared."""
        domain, own, left = self.domain, {m.clique: m for m in measured}, _left(gaps, shares)
        moves = {u: centred((shares[u][gap.classes] * gap.public).reshape(domain.shape(u))) for u, gap in gaps.items()}
        for clique in wanted:
            if len(clique) > _MOST_COLUMNS or not self.prior.covers(clique):
                yield own[clique]
                continue
            counts, size, square = self._of_model(model, clique), domain.size(clique), 0.0
            for part in subsets(clique)[1:]:
                spread = [n if name in part else 1 for name, n in zip(clique, domain.shape(clique), strict=True)]
                counts += moves[part].reshape(spread) * (domain.size(part) / size)
                square += left[part] * domain.size(part) / size  # its cells share what is spread over them
            variance = max(1.0, square / size)  # never surer than one row
            rho = own[clique].rho if clique in own else 0.0
            yield Target(clique, domain.shape(clique), counts.ravel(), variance, rho)


def split(measured: Sequence[Target], seed: int) -> tuple[list[Target], list[Target]]:
    """y₁ and y₂ of every marginal: see the module.

    >>> y = Target(("a",), (2,), np.array([1000.0, 2000.0]), 100.0)
    >>> [part[0].variance for part in split([y], 0)]
    [125.0, 500.0]
    """
    generator = np.random.default_rng(seed)
    first, second = list[Target](), list[Target]()
    for m in measured:
        noise = generator.normal(0.0, math.sqrt(m.variance), len(m.values))
        for half, factor in ((first, _SPLIT), (second, -1 / _SPLIT)):
            half.append(replace(m, values=m.values + factor * noise, variance=m.variance * (1 + factor**2)))
    return first, second


def _shares(gaps: dict[Clique, _Gap]) -> tuple[dict[Clique, Floats], dict[int, Floats]]:
    """λ of each part, and λ_kb of each order k; all of shape (classes,)."""
    shares: dict[Clique, Floats] = {}
    around: dict[int, Floats] = {}
    for order in sorted({len(part) for part in gaps}):
        of_order = {part: gap for part, gap in gaps.items() if len(part) == order}
        along, precision_sums = np.zeros((2, len(of_order), _CLASSES))
        for row, gap in enumerate(of_order.values()):
            if gap.noisy is not None:
                along[row] = gap.precision * np.bincount(gap.classes, gap.noisy * gap.public, _CLASSES)
                precision_sums[row] = gap.precision * np.bincount(gap.classes, gap.public**2, _CLASSES)
        single = np.divide(along, precision_sums, out=np.zeros_like(along), where=precision_sums > 0)
        weights = precision_sums / (1 + _SPREAD**2 * precision_sums)
        below = around[order - 1] if order > 2 else np.ones(_CLASSES)
        mean = (below / _UNKNOWN**2 + (weights * single).sum(axis=0)) / (1 / _UNKNOWN**2 + weights.sum(axis=0))
        around[order] = np.clip(mean, 0.0, 1.0)
        posterior = (around[order] / _SPREAD**2 + along) / (1 / _SPREAD**2 + precision_sums)
        shares |= dict(zip(of_order, np.clip(posterior, 0.0, 1.0), strict=True))
    return shares, around


def _left(gaps: dict[Clique, _Gap], shares: dict[Clique, Floats]) -> dict[Clique, float]:
    """About the squared error that is left in each part (rows²): that of an order, shared by its parts as noise is."""
    errors = {}
    for order in {len(part) for part in gaps}:
        of_order = {part: gap for part, gap in gaps.items() if len(part) == order}
        noisy_gaps = {part: gap for part, gap in of_order.items() if gap.noisy is not None}
        noise = sum(gap.noise for gap in noisy_gaps.values())
        left = sum(gap.left(shares[part]) for part, gap in noisy_gaps.items())
        ratio = max(_SURE, left / noise) if noise else _SURE
        for part, gap in of_order.items():
            errors[part] = ratio * gap.noise if part in noisy_gaps else float(np.sum(gap.public**2))
    return errors
