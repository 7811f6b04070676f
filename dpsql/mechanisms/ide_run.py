"""One run of IDE: what is asked of the curator, and how the prior is moved. The algorithms: `dpsql.mechanisms.ide`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.prior import Prior, packed
from dpsql.core.workload import Workload
from dpsql.evidence.earlier_releases import precise, reused, usable
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.iterative_estimation import Partial, estimate, nearest_by_threshold
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.base import Outcome
from dpsql.models.grouped_rows import GroupedRows
from dpsql.models.weighted_rows import WeightedRows, systematic
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Progress
from dpsql.strategy.dependence import Noise, dependent_cliques, independent_columns, mutual_information

if TYPE_CHECKING:
    from dpsql.mechanisms.ide import IDE

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_PASSES: Final = 10
_FEWEST_ROWS: Final = 100
_SMALLEST: Final = 1e-12
_PRIOR_ROWS: Final = 10


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        asked: the mechanism.
        curator, workload, generator, progress: of the run.
        shares: ρ of one question of each part.
        counts: questions of each part.
        keys: the region's and the groups' columns.
        features: the other columns.
        codes: the support, of the features, shape (rows, features).
        prior: its weights; they add up to 1.
        size: public rows that it stands for.
    """

    asked: IDE
    curator: Curator
    workload: Workload
    generator: np.random.Generator
    progress: Progress
    shares: dict[str, Fraction]
    counts: dict[str, int]
    keys: Clique
    features: Clique
    codes: Codes
    prior: Floats
    size: float

    @staticmethod
    def of(
        asked: IDE,
        curator: Curator,
        workload: Workload,
        rho: Fraction,
        prior: Prior,
        generator: np.random.Generator,
        progress: Progress,
    ) -> Run:
        """Before the first question: the shares, and the support."""
        domain = curator.domain
        keys, features = asked.keys_of(domain), asked.features_of(domain)
        rows = max(_FEWEST_ROWS, asked.support // domain.size(keys))
        codes, weights = _support(prior, domain, features, asked.copies, rows, generator)
        parts = asked.parts(domain, workload, curator.neighbours)
        shares = asked.shares(domain, workload, curator.neighbours, rho)
        counts = {part.name: part.count for part in parts}
        return Run(
            asked, curator, workload, generator, progress, shares, counts, keys, features, codes, weights, prior.total
        )

    @property
    def domain(self) -> Domain:
        """Of the table."""
        return self.curator.domain

    def whole(self) -> Outcome:
        """Algorithm 1."""
        total = self._total()
        own = self.asked.own_marginals(self.domain, self.workload)
        chosen = own or self._dependent((), "marginals", np.array([max(1.0, float(total.values[0]))]))
        measured = self._measure(chosen, "marginals")
        best = best_total(targets_of([total, *measured]))
        earlier = self._earlier([total, *measured], best)
        known = _merged([*measured, *earlier])
        noisy = [measurement.reshape(1, -1) / best for measurement in known.values()]
        weights = self._estimate(self.prior[None, :], list(known), noisy)
        model = WeightedRows(self.domain, self.codes, weights[0], best)
        report = self._report(best, own or chosen, "the workload" if own else "dependences of the prior")
        fit = {"fit": "prior, reweighted", "distance": _kl(weights[0], self.prior)}
        return Outcome(model, {**report, **reused(earlier), **fit})

    def _total(self) -> Measurement:
        return self.curator.total(self.shares.get("total", Fraction(1)), self.asked.distribution)

    def _measure(self, cliques: Sequence[Clique], part: str) -> list[Measurement]:
        requests = [(clique, self.shares[part]) for clique in cliques]
        return self.curator.measure(requests, self.asked.distribution)

    def _earlier(self, measured: Sequence[Measurement], total: float) -> list[Measurement]:
        """Earlier whole marginals whose noise leaves something of them."""
        return precise(usable(self.curator.earlier, measured, self.domain, self.asked.max_cells), total)

    def by_groups(self) -> Outcome:
        """Algorithm 2."""
        region = self.asked.region_of(self.domain)
        totals, weights, chosen = self._regions(region)
        groups = _all_codes(self.domain, self.keys)
        if self.keys == region:
            return self._grouped(groups, weights, totals, chosen, ())
        inside = packed(groups, self.keys, self.domain, region)  # the region of each group
        measured = self._measure([self.keys], "groups")[0].values.astype(np.float64)
        counts = _shared_out(measured, totals, inside)
        kept = np.flatnonzero(counts > 0)
        fits = [self.domain.size((*self.keys, name)) <= self.asked.max_cells for name in self.features]
        columns = independent_columns(self.features, self.information, self.counts["group marginals"], fits)
        noisy = self._by(self.keys, columns, "group marginals", np.maximum(measured, 1.0))
        begin = self._group_prior(groups[kept], weights[inside[kept]])
        moved = self._estimate(begin, columns, [answers[kept] for answers in noisy])
        return self._grouped(groups[kept], moved, counts[kept], chosen, columns)

    def _group_prior(self, groups: Codes, weights: Floats) -> Floats:
        """What each group starts from; see the module. The regions' estimates, where the prior cannot say more."""
        public, region = cast(Prior, self.curator.prior), self.asked.region_of(self.domain)
        columns = tuple(name for name in self.keys if name not in region)
        if not self.asked.group_prior or not public.covers((*columns, *self.features)):
            return weights
        places = [public.names.index(name) for name in self.features]
        distinct, rows = np.unique(public.codes[:, places], axis=0, return_inverse=True)
        if len(distinct) != len(self.codes):  # a part of the prior was drawn
            return weights
        cells = packed(public.codes, public.names, self.domain, columns)
        shape = (self.domain.size(columns), len(distinct))
        counts = csr_matrix((public.weights, (cells, rows.ravel())), shape=shape)
        own = packed(groups, self.keys, self.domain, columns)
        size = np.asarray(counts.sum(axis=1)).ravel()[own][:, None]
        likely = weights * counts[own].toarray() / np.asarray(counts.sum(axis=0)).ravel()
        sums = likely.sum(axis=1, keepdims=True)
        part = np.where(sums > 0, size / (size + _PRIOR_ROWS), 0.0)
        scaled = np.divide(likely, sums, out=np.zeros_like(likely), where=sums > 0)
        return np.asarray((1 - part) * weights + part * scaled)

    def _regions(self, region: Clique) -> tuple[Floats, Floats, tuple[Clique, ...]]:
        """Total and estimate of each region, and what was measured."""
        first = self._measure([region], "regions")[0] if region else self._total()
        totals = np.maximum(first.values, 0).astype(np.float64)
        if region and self.curator.neighbours.total_is_public:  # then regions add up to it
            rows = self._total().values.astype(np.float64)
            totals = _shared_out(first.values.astype(np.float64), rows, np.zeros(len(totals), np.int64))
        chosen = self._dependent(region, "region marginals", totals)
        noisy = self._by(region, chosen, "region marginals", np.maximum(totals, 1.0))
        weights = np.repeat(self.prior[None, :], len(totals), axis=0)
        some = totals > 0
        weights[some] = self._estimate(weights[some], chosen, [answers[some] for answers in noisy])
        return totals, weights, chosen

    def _by(self, outer: Clique, inner: Sequence[Clique], part: str, totals: Floats) -> list[Floats]:
        """Noisy answers to marginals inside each value of `outer`, in fractions; shapes (values of outer, cells)."""
        cliques = [self.domain.clique((*outer, *clique)) for clique in inner]
        found = []
        for clique, own, measurement in zip(inner, cliques, self._measure(cliques, part), strict=True):
            order = [own.index(name) for name in (*outer, *clique)]
            values = measurement.values.reshape(self.domain.shape(own)).transpose(order).astype(np.float64)
            found.append(values.reshape(len(totals), -1) / totals[:, None])
        return found

    @cached_property
    def information(self) -> Floats:
        """Mutual information of the features, by the prior."""
        sizes = self.domain.shape(self.features)
        return mutual_information(self.codes, self.prior * self.size, sizes, self.progress)

    def _dependent(self, outer: Clique, part: str, totals: Floats) -> tuple[Clique, ...]:
        """Marginals chosen from the prior, and from the noisy totals that decide which would drown in noise."""
        stddev = math.sqrt(self.asked.variance(self.curator.neighbours, self.shares[part]))
        sizes, room = self.domain.shape(self.features), self.asked.max_cells // self.domain.size(outer)
        noise = _expected_noise(stddev, totals)
        return dependent_cliques(self.features, sizes, self.information, self.counts[part], room, noise)

    def _estimate(self, weights: Floats, cliques: Sequence[Clique], noisy: Sequence[Floats]) -> Floats:
        partials = [Partial.of(packed(self.codes, self.features, self.domain, clique)) for clique in cliques]
        steps = self.asked.iterations or _PASSES * len(cliques)
        return estimate(weights, partials, noisy, steps, self.generator, self.progress, self.asked.ties)

    def _grouped(
        self, groups: Codes, weights: Floats, totals: Floats, chosen: Sequence[Clique], columns: Sequence[Clique]
    ) -> Outcome:
        total = float(totals.sum())
        if total <= 0:  # no group has rows, as far as the noise lets see
            groups = _all_codes(self.domain, self.keys)
            totals, weights = np.ones(len(groups)), np.repeat(self.prior[None, :], len(groups), axis=0)
        kept = np.flatnonzero(totals > 0)
        share = totals[kept] / totals.sum()
        model = GroupedRows(
            self.domain, self.keys, groups[kept], self.codes, share[:, None] * weights[kept], max(0.0, total)
        )
        report = self._report(total, chosen, "dependences of the prior")
        report |= {"fit": "prior, reweighted by region and group", "groups": len(kept)}
        if columns:
            report["group marginals"] = [list(clique) for clique in columns]
        return Outcome(model, report)

    def _report(self, total: float, chosen: Sequence[Clique], why: str) -> dict[str, Any]:
        return {
            "total": round(total),
            "marginals": len(chosen),
            "measured": [list(clique) for clique in chosen],
            "chosen by": why,
            "support": len(self.codes),
            "noise": self.asked.noise,
        }


def _support(
    prior: Prior, domain: Domain, features: Clique, copies: int, most: int, generator: np.random.Generator
) -> tuple[Codes, Floats]:
    """The prior's distinct rows over some columns, those that it lacks filled in; at most `most`, and their weights."""
    names = tuple(name for name in features if name in prior.names)
    places = [prior.names.index(name) for name in names]
    codes, weights = prior.codes, prior.weights
    if names != prior.names:  # else they are distinct already
        codes, back = np.unique(codes[:, places], axis=0, return_inverse=True)
        weights = np.bincount(back.ravel(), weights, len(codes)).astype(np.float64)
    smaller = Prior(names, codes, weights)
    lacking = Domain(tuple(domain.by_name[name] for name in features))
    filled, parents = smaller.completed(lacking, generator, copies)
    filled_weights = weights[parents] / np.bincount(parents, minlength=len(codes))[parents]
    if len(filled) > most:
        kept, times = np.unique(systematic(filled_weights, most, generator), return_counts=True)
        filled, filled_weights = filled[kept], times.astype(np.float64)
    return filled, filled_weights / filled_weights.sum()


def _all_codes(domain: Domain, clique: Clique) -> Codes:
    """The codes of every cell, shape (cells, columns)."""
    return np.stack(np.unravel_index(np.arange(domain.size(clique)), domain.shape(clique)), axis=1).astype(np.int64)


def _expected_noise(stddev: float, totals: Floats) -> Noise:
    """The L1 error that noise brings to a marginal of so many cells in parts of these totals, 1 at most in each."""
    unit, whole = math.sqrt(2 / math.pi) * stddev, max(1.0, float(totals.sum()))
    return lambda cells: float(np.minimum(totals, cells * unit).sum()) / whole


def _merged(measurements: Sequence[Measurement]) -> dict[Clique, Floats]:
    """One answer for each clique (rows): the mean, weighted by the inverse of the variances."""
    found: dict[Clique, tuple[Floats, float]] = {}
    for measurement in measurements:
        precision = 1 / max(float(measurement.variance), _SMALLEST)
        sums, weight = found.get(measurement.clique, (np.zeros(len(measurement.values)), 0.0))
        found[measurement.clique] = (sums + precision * measurement.values, weight + precision)
    return {clique: sums / weight for clique, (sums, weight) in found.items()}


def _shared_out(counts: Floats, totals: Floats, inside: Codes) -> Floats:
    """Non-negative counts that add up to each part's total, by the threshold in each part: L1-nearest.

    Args:
        counts: of the groups (rows), as many in each part.
        totals: of the parts (rows), not negative.
        inside: the part of each group.
    """
    by_part = np.argsort(inside, kind="stable").reshape(len(totals), -1)
    fractions = nearest_by_threshold(counts[by_part] / np.maximum(totals, 1.0)[:, None], covers=True)
    found = np.zeros(len(counts))
    found[by_part] = totals[:, None] * fractions
    return found


def _kl(q: Floats, p: Floats) -> float:
    """KL(q‖p) in nats, rounded for the report."""
    some = q > 0
    return round(float(np.sum(q[some] * np.log(q[some] / np.maximum(p[some], _SMALLEST)))), 4)
