"""One run of IDE: what is asked of the curator, and how the prior is moved. Algorithms: `dpsql.mechanisms.ide.ide`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from dpsql.core import sparse
from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.prior import Prior, packed
from dpsql.evidence.earlier_releases import combined, precise, reused, usable
from dpsql.evidence.prior_reach import reach_report
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.iterative_estimation import Partial, estimate, nearest_by_threshold
from dpsql.fitting.rows.two_stages import two_stages
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.asks import Chosen
from dpsql.mechanisms.base import Outcome
from dpsql.mechanisms.ide.options import Options
from dpsql.mechanisms.ide.support import MEND, every_record, support_of, with_cells
from dpsql.mechanisms.walk import Walk
from dpsql.models.grouped_rows import GroupedRows
from dpsql.models.weighted_rows import WeightedRows
from dpsql.runtime.progress import Progress
from dpsql.strategy.dependence import Noise, dependent_cliques, independent_columns, mutual_information

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_SMALLEST: Final = 1e-12
_PRIOR_ROWS: Final = 10


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        options: the options of the mechanism.
        walk, generator, progress: of the run.
        keys: the region's and the groups' columns.
        features: the other columns.
        codes: the support, of the features, shape (rows, features).
        prior: its weights; they add up to 1.
        size: public rows that it stands for.
        own: how many rows are the prior's, the first ones; 0 for all that have weight.
        summed: what was measured inside regions or groups, added up over these.
    """

    options: Options
    walk: Walk
    generator: np.random.Generator
    progress: Progress
    keys: Clique
    features: Clique
    codes: Codes
    prior: Floats
    size: float
    own: int = 0
    summed: list[Target] = field(default_factory=list)

    @staticmethod
    def of(options: Options, walk: Walk, prior: Prior, generator: np.random.Generator, progress: Progress) -> Run:
        """Before the first question: the support."""
        domain = walk.domain
        keys, features = options.keys_of(domain), options.features_of(domain)
        codes, weights = support_of(prior, domain, features, options.copies, options.rows_of(domain), generator)
        if options.reach == "domain":
            codes, weights = every_record(domain, codes, weights)
        return Run(options, walk, generator, progress, keys, features, codes, weights, prior.total)

    @property
    def domain(self) -> Domain:
        """Of the table."""
        return self.walk.domain

    def whole(self) -> Outcome:
        """Algorithm 1."""
        total = self.walk.total()
        own = self.options.own_marginals(self.domain, self.walk.workload)
        chosen = own or self._dependent((), np.array([max(1.0, float(total.values[0]))]))
        measured = self.walk.marginals() if own else self.walk.chosen(chosen, "marginals")
        best = best_total(targets_of([total, *measured]))
        earlier = self._earlier([total, *measured], best)
        targets = combined(measured, earlier)
        outcome = self.reaching(targets).moved(targets, best)
        report = self._report(best, own or chosen, "the workload" if own else "dependences of the prior")
        return Outcome(outcome.model, {**report, **reused(earlier), **outcome.report})

    def moved(self, targets: Sequence[Target], total: float) -> Outcome:
        """The prior, moved towards what is known of the whole table, and what to report of how."""
        weights, report = self._fitted(targets, total)
        model = WeightedRows(self.domain, self.codes, weights, total)
        report |= {"support": len(self.codes), **self._distances(weights, targets)}
        return Outcome(model, report | self._reach(model.project, targets, total))

    def reaching(self, targets: Sequence[Target]) -> Run:
        """The run with rows in the measured cells, where it may have others than the prior's."""
        if self.options.reach != "cells":
            return self
        wanted = [(target.clique, np.where(self._clear(target), target.values, 0.0)) for target in targets]
        copies = self.options.copies
        codes, weights = with_cells(self.domain, self.codes, self.prior, wanted, copies, self.generator)
        return replace(self, codes=codes, prior=weights, own=len(self.codes))

    def _clear(self, target: Target) -> npt.NDArray[np.bool_]:
        """The cells of the partial workload: all, or those that stand out of the noise."""
        if self.options.clear is None:
            return np.ones(len(target.values), bool)
        return np.asarray(target.values >= self.options.clear * target.stddev)

    def _fitted(self, targets: Sequence[Target], total: float) -> tuple[Floats, dict[str, Any]]:
        """The weights, and what to report of how they were found."""
        if self.options.method == "exact":
            fit = two_stages(self.domain, self.codes, self.prior, targets, total, self.options.seconds, self.progress)
            report = {"fit": "prior, reweighted in two exact stages", "least_l1": round(fit.least, 4)}
            return fit.weights, report | ({} if fit.optimal else {"solved": False})
        partials, noisy = [], []
        for target in targets:
            cells = packed(self.codes, self.features, self.domain, target.clique)
            inside = self._clear(target)[cells]
            partials.append(Partial.of(cells, None if inside.all() else inside))
            noisy.append(target.values.reshape(1, -1) / total)
        places = [place for place, part in enumerate(partials) if len(part.reached)]
        steps = self.options.iterations or self.options.passes * len(partials)
        chosen = [partials[place] for place in places], [noisy[place] for place in places]
        start, random, ties = self.prior[None, :], self.generator, self.options.ties
        weights = estimate(start, *chosen, steps, random, self.progress, ties)[0]
        return weights, {"fit": "prior, reweighted"}

    def _distances(self, weights: Floats, targets: Sequence[Target]) -> dict[str, float]:
        """KL(q‖p), and the most of KL(W_S q‖W_S p) over the measured marginals.

        By Theorem 3.1 no estimate with these answers is nearer to the prior than the second. Where rows beyond the
        prior's have weight both are of the others, for they would be infinite.
        """
        inside = (self.prior > 0) & (np.arange(len(self.prior)) < (self.own or len(self.prior)))
        beyond = float(weights[~inside].sum())
        q = np.where(inside, weights, 0.0) / max(1 - beyond, _SMALLEST)
        p = np.where(inside, self.prior, 0.0) / max(float(self.prior[inside].sum()), _SMALLEST)
        least = 0.0
        for target in targets:
            cells, size = packed(self.codes, self.features, self.domain, target.clique), len(target.values)
            least = max(least, _kl(*(np.bincount(cells, part, size).astype(np.float64) for part in (q, p))))
        distances = {"distance": _kl(q, p), "least_distance": least}
        return distances | ({"beyond": round(beyond, 4)} if beyond > 0 else {})

    def _reach(
        self, answers: Callable[[Clique], npt.NDArray[Any]], targets: Sequence[Target], total: float
    ) -> dict[str, Any]:
        """A warning where the rows do not reach what was measured."""
        support = Domain(tuple(self.domain.by_name[name] for name in self.features))
        mend = MEND if self.options.reach == "prior" else "give a prior that has some, or more copies"
        return reach_report(support, self.codes, answers, targets, total, mend)

    def _earlier(self, measured: Sequence[Measurement], total: float) -> list[Measurement]:
        """Earlier whole marginals whose noise leaves something of them."""
        return precise(usable(self.walk.curator.earlier, measured, self.domain, self.options.max_cells), total)

    def by_groups(self) -> Outcome:
        """Algorithm 2."""
        region = self.options.region_of(self.domain)
        totals, weights, chosen = self._regions(region)
        groups = _all_codes(self.domain, self.keys)
        if self.keys == region:
            return self._grouped(groups, weights, totals, chosen, ())
        inside = packed(groups, self.keys, self.domain, region)  # the region of each group
        measured = self.walk.marginals("groups")[0].values.astype(np.float64)
        counts = np.maximum(measured, 0.0) if self._as_published else _shared_out(measured, totals, inside)
        places = np.flatnonzero(counts > 0)
        fits = [self.domain.size((*self.keys, name)) <= self.options.max_cells for name in self.features]
        columns = independent_columns(self.features, self.information, self._count("group marginals"), fits)
        noisy = self._by(self.keys, columns, "group marginals", np.maximum(measured, 1.0))
        begin = self._group_prior(groups[places], weights[inside[places]])
        moved = self._estimate(begin, columns, [answers[places] for answers in noisy])
        return self._grouped(groups[places], moved, counts[places], chosen, columns)

    @property
    def _as_published(self) -> bool:
        """Whether totals stay as they are measured."""
        return self.options.totals == "paper"

    def _group_prior(self, groups: Codes, weights: Floats) -> Floats:
        """What each group starts from; see the module. The regions' estimates, where the prior cannot say more."""
        public, region = cast(Prior, self.walk.curator.prior), self.options.region_of(self.domain)
        columns = tuple(name for name in self.keys if name not in region)
        if not self.options.group_prior or not public.covers((*columns, *self.features)):
            return weights
        places = [public.names.index(name) for name in self.features]
        distinct, rows = np.unique(public.codes[:, places], axis=0, return_inverse=True)
        if len(distinct) != len(self.codes):  # a part of the prior was drawn
            return weights
        cells = packed(public.codes, public.names, self.domain, columns)
        shape = (self.domain.size(columns), len(distinct))
        counts = sparse.csr_matrix((public.weights, (cells, rows.ravel())), shape=shape)
        own = packed(groups, self.keys, self.domain, columns)
        size = np.asarray(counts.sum(axis=1)).ravel()[own][:, None]
        likely = weights * counts[own].toarray() / np.asarray(counts.sum(axis=0)).ravel()
        sums = likely.sum(axis=1, keepdims=True)
        part = np.where(sums > 0, size / (size + _PRIOR_ROWS), 0.0)
        scaled = np.divide(likely, sums, out=np.zeros_like(likely), where=sums > 0)
        return np.asarray((1 - part) * weights + part * scaled)

    def _regions(self, region: Clique) -> tuple[Floats, Floats, tuple[Clique, ...]]:
        """Total and estimate of each region, and what was measured."""
        first = self.walk.marginals("regions")[0] if region else self.walk.total()
        totals = np.maximum(first.values, 0).astype(np.float64)
        public = self.walk.curator.neighbours.total_is_public
        if region and public and not self._as_published:  # then regions add up to it
            rows = self.walk.total().values.astype(np.float64)
            totals = _shared_out(first.values.astype(np.float64), rows, np.zeros(len(totals), np.int64))
        chosen = self._dependent(region, totals)
        noisy = self._by(region, chosen, "marginals", np.maximum(totals, 1.0))
        weights = np.repeat(self.prior[None, :], len(totals), axis=0)
        some = totals > 0
        weights[some] = self._estimate(weights[some], chosen, [answers[some] for answers in noisy])
        return totals, weights, chosen

    def _by(self, outer: Clique, inner: Sequence[Clique], part: str, totals: Floats) -> list[Floats]:
        """Noisy answers to marginals inside each value of `outer`, in fractions; shapes (values of outer, cells)."""
        cliques = [self.domain.clique((*outer, *clique)) for clique in inner]
        fractions = []
        for clique, own, measurement in zip(inner, cliques, self.walk.chosen(cliques, part), strict=True):
            order = [own.index(name) for name in (*outer, *clique)]
            values = measurement.values.reshape(self.domain.shape(own)).transpose(order).astype(np.float64)
            values, shape = values.reshape(len(totals), -1), self.domain.shape(clique)
            self.summed.append(Target(clique, shape, values.sum(axis=0), len(totals) * float(measurement.variance)))
            fractions.append(values / totals[:, None])
        return fractions

    @cached_property
    def information(self) -> Floats:
        """Mutual information of the features, by the prior."""
        sizes = self.domain.shape(self.features)
        return mutual_information(self.codes, self.prior * self.size, sizes, self.progress)

    def _count(self, name: str) -> int:
        """How many marginals are chosen."""
        return self.walk.course.of(Chosen, name)[0].times

    def _dependent(self, outer: Clique, totals: Floats) -> tuple[Clique, ...]:
        """Marginals chosen from the prior, and from the noisy totals that decide which would drown in noise."""
        stddev = self.walk.course.stddev(self.walk.course.of(Chosen, "marginals")[0].part)
        sizes, room = self.domain.shape(self.features), self.options.max_cells // self.domain.size(outer)
        noise = _expected_noise(stddev, totals)
        return dependent_cliques(self.features, sizes, self.information, self._count("marginals"), room, noise)

    def _estimate(self, weights: Floats, cliques: Sequence[Clique], noisy: Sequence[Floats]) -> Floats:
        partials = [Partial.of(packed(self.codes, self.features, self.domain, clique)) for clique in cliques]
        steps = self.options.iterations or self.options.passes * len(cliques)
        return estimate(weights, partials, noisy, steps, self.generator, self.progress, self.options.ties)

    def _grouped(
        self, groups: Codes, weights: Floats, totals: Floats, chosen: Sequence[Clique], columns: Sequence[Clique]
    ) -> Outcome:
        total = float(totals.sum())
        if total <= 0:  # no group has rows, as far as the noise lets see
            groups = _all_codes(self.domain, self.keys)
            totals, weights = np.ones(len(groups)), np.repeat(self.prior[None, :], len(groups), axis=0)
        places = np.flatnonzero(totals > 0)
        share = totals[places] / totals.sum()
        model = GroupedRows(
            self.domain, self.keys, groups[places], self.codes, share[:, None] * weights[places], max(0.0, total)
        )
        report = self._report(total, chosen, "dependences of the prior")
        report |= {"fit": "prior, reweighted by region and group", "groups": len(places)}
        if not self._as_published:  # its totals are cut off at 0, so they add up to more rows than the marginals
            report |= self._reach(model.project, self.summed, total)
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
            "noise": self.options.noise,
        }


def _all_codes(domain: Domain, clique: Clique) -> Codes:
    """The codes of every cell, shape (cells, columns)."""
    return np.stack(np.unravel_index(np.arange(domain.size(clique)), domain.shape(clique)), axis=1).astype(np.int64)


def _expected_noise(stddev: float, totals: Floats) -> Noise:
    """The L1 error that noise brings to a marginal of so many cells in parts of these totals, 1 at most in each."""
    unit, whole = math.sqrt(2 / math.pi) * stddev, max(1.0, float(totals.sum()))
    return lambda cells: float(np.minimum(totals, cells * unit).sum()) / whole


def _shared_out(counts: Floats, totals: Floats, inside: Codes) -> Floats:
    """Non-negative counts that add up to each part's total, by the threshold in each part: L1-nearest.

    Args:
        counts: of the groups (rows), as many in each part.
        totals: of the parts (rows), not negative.
        inside: the part of each group.
    """
    by_part = np.argsort(inside, kind="stable").reshape(len(totals), -1)
    fractions = nearest_by_threshold(counts[by_part] / np.maximum(totals, 1.0)[:, None], covers=True)
    shares = np.zeros(len(counts))
    shares[by_part] = totals[:, None] * fractions
    return shares


def _kl(q: Floats, p: Floats) -> float:
    """KL(q‖p) in nats, rounded for the report."""
    some = q > 0
    nats = float(np.sum(q[some] * np.log(q[some] / np.maximum(p[some], _SMALLEST))))
    return round(max(0.0, nats), 4)
