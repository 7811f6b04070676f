r"""IDE: the public prior, moved as little as the noisy marginals ask for.

Without groups (Algorithm 1), p the prior on its support, k marginals W of the workload or chosen from the prior:

    ñ ← n + Laplace(Δ/ε_n)              ε_n = ε/20 (free where n is public, then ε_0 = ε)
    ỹ ← (W h + Laplace(kΔ/ε_0))/ñ       ε_0 = ε − ε_n
    q ← IDE(W, ỹ, p, T)                 `dpsql.fitting.rows.iterative_estimation`

With a region and groups (Algorithm 2), ε_0 = ε/4, for every region r, and every group g inside r:

    ñ_r, ỹ_r ← total and W_S of the rows of r, Laplace(Δ/ε_0) and Laplace(k_S Δ/ε_0)    p_r ← IDE(W_S, ỹ_r/ñ_r, p, T)
    ñ_g, ỹ_g ← total and W_G of the rows of g, Laplace(Δ/ε_0) and Laplace(k_G Δ/ε_0)    p_g ← IDE(W_G, ỹ_g/ñ_g, p_r, T)
    sample ñ_g rows from p_g

Regions and groups part the rows, and their columns are known from the domain. So one whole marginal of {region} ∪ S
answers S in all regions at once, and the L1 sensitivity of a marginal is what parallel composition promises. Without
group_by there are regions only (ε_0 = ε/2); without a region the whole table is one.

W_S are cliques of the graph of high mutual information of the prior, W_G nearly independent 1-way marginals
(`dpsql.strategy.dependence`); how many is fixed by the request, for pure ε-DP is charged before the prior is read.

The estimate is on the prior's rows; with `reach` on more (`dpsql.mechanisms.ide.support`). With `clear` a partial
workload has only the cells that stand out of the noise; what no cell covers follows the prior (cases 3 and 4 of
Definition 3.1). `method := 'exact'` solves the paper's two problems one after the other instead
(`dpsql.fitting.rows.two_stages`).

Departs from the paper, but not with `faithful := true`: in Algorithm 1 the total gets ε/20, not ε/2; T is 10 times
the number of marginals, not twice; the ñ_g of a region are moved to add up to its ñ_r, by the threshold that is
L1-nearest, for else the many empty groups would gain rows, and the ñ_r to n where that is public; a group starts from

    (1 − λ)·p_r(v) + λ·p_r(v)·P(g|v)/Z,   λ = c_g/(c_g + 10),   P(g|v) and c_g by the group_by columns of the prior

instead of p_r (group_prior := false for p_r); noise := 'gaussian'.

Source: Tao, Bater, Machanavajjhala 2021 (IDE), Algorithms 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.mechanisms.asks import Ask, Chosen, Marginals, Total
from dpsql.mechanisms.base import Outcome, Remark, register, usual_noise
from dpsql.mechanisms.costs import BASE_BYTES, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.ide.options import MOST_SUPPORT, Options
from dpsql.mechanisms.ide.run import Run
from dpsql.mechanisms.ide.support import remarks
from dpsql.mechanisms.walk import Walk
from dpsql.privacy.distributions import Distribution, find_noise
from dpsql.runtime.progress import Progress

TOTAL_SHARE: Final = Fraction(1, 20)
_EQUAL: Final = Fraction(1)  # for each kind of question
_USUAL_SUPPORT: Final = 10_000
_HALF: Final = Fraction(1, 2)


@register("ide", when="a public table of the same kind and pure ε; many small public groups")
@dataclass(frozen=True)
class IDE(Options):
    """Reweight the rows of a public table as little as noisy marginals ask for (Tao et al. 2021).

    Privacy: for the table's neighbours, by `measure` only (L1 sensitivity of a marginal c, 1 without privacy units,
    under add_remove, 2 under replace_one). noise := 'laplace' is pure ε-DP; Laplace noise of ε_i costs ε_i²/2 of zCDP,
    in all ρ = Σ ε_i²/2. Without groups: `total` with ε/20 and k marginals with 19ε/20k each (n public: ε/k). With them:
    the region totals with ε/4, k_S region marginals with ε/4k_S each, the group totals with ε/4, k_G group marginals
    with ε/4k_G each; one half or one third for each kind where there are fewer. noise := 'gaussian' is ρ-zCDP and
    Gaussian DP of g = ρ, with the same parts of ρ instead of ε (the total without groups: ρ/20).

    Attributes:
        noise: 'laplace', the paper's, for pure ε-DP; or 'gaussian' by (ε, δ).
        marginals: k or k_S, how many are measured: none for half as many as there are columns (with regions or groups,
            for as many). A workload of at most so many (none: of at most as many as columns) is measured itself.
        iterations: T, steps of the fit; none for `passes` times the number of marginals.
        ties: which of the L1-closest answers a step takes: 'prior', the nearest to the current estimate, or
            'threshold', the Euclidean projection.
        region: a column; Algorithm 2 with its values as regions.
        group_by: columns, a list or text with commas, whose values make the groups inside each region.
        group_marginals: k_G, 1-way marginals measured in each group: none for a quarter of the columns.
        group_prior: whether a group starts from its own public rows, as far as there are some, and its region's
            estimate; false for the region's estimate alone, as in the paper.
        copies: rows for each row of the prior where it lacks columns, which are filled uniformly.
        max_cells: of one measured marginal, with the region's and the groups' columns.
        support: the most weights, which is prior rows times groups; of a larger prior a part is drawn.
        reach: the rows that may have weight: those of the 'prior'; also some in measured 'cells' that it does not reach
            (copies of them in each); or all records of the 'domain', at most as many as support says.
        clear: cells of fewer noisy rows than so many standard deviations follow the prior; none to meet all.
        method: 'iterations', or 'exact' for the paper's two problems, one after the other, on at most 2,000 prior rows.
        seconds: for the linear program of method := 'exact'; after them the prior's answers take its place.
        passes: how often a marginal is met, on average, where T is not given; twice in the paper.
        totals: 'consistent', where ñ gets ε/20 without groups, and those of groups add up to their region's; or those
            of the 'paper', where ñ gets as much ε as the marginals do, and those of groups stay as they are measured.

    Raises:
        InvalidArgument: an option is out of its range, or asks for more marginals than there are.
    """

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`."""
        return {"noise": usual_noise(pure=pure)}

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`."""
        return {"group_prior": False, "passes": 2, "totals": "paper"}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: more steps, and totals that add up."""
        return {"group_prior": False}

    @property
    def distribution(self) -> Distribution:
        """The noise."""
        return find_noise(self.noise)

    @property
    def uses_earlier(self) -> bool:  # type: ignore[override]
        """See `Mechanism.uses_earlier`: not inside regions or groups, of which nothing was measured before."""
        return self.region is None and self.group_by is None

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: equal shares of each kind, as the class says; what is chosen the prior decides."""
        domain, columns = facts.domain, len(self.features_of(facts.domain))
        region, keys = self.region_of(domain), self.keys_of(domain)
        chosen = min(self.marginals or (columns if keys else -(-columns // 2)), self.candidates(domain, region))
        asks: list[Ask] = [] if region else [Total.of(facts, _HALF if self.totals == "paper" else TOTAL_SHARE)]
        if not keys:
            own, rest = self.own_marginals(domain, facts.workload), 1 - sum((ask.share for ask in asks), Fraction(0))
            asks.append(Marginals(rest, own) if own else self._chosen(domain, rest, chosen, (), single=False))
        else:
            asks += [Marginals(_EQUAL, (region,), note="rows of each region", name="regions")] * bool(region)
            asks.append(self._chosen(domain, _EQUAL, chosen, region, single=False))
            if keys != region:
                count = min(self.group_marginals or -(-columns // 4), len(self._in_groups(domain)))
                asks.append(Marginals(_EQUAL, (keys,), note="rows of each group", name="groups"))
                asks.append(self._chosen(domain, _EQUAL, count, keys, single=True))
            paid = [ask for ask in asks if not ask.is_free]
            asks = [replace(ask, share=Fraction(1, len(paid))) for ask in paid]
        if self.distribution.pure and not all(part.count for ask in asks for part in ask.parts(self.distribution)):
            self.check(domain, facts.workload, facts.neighbours)  # says what is too large
        return Course(facts, self.distribution, tuple(asks))

    def _chosen(self, domain: Domain, share: Fraction, times: int, inside: Clique, *, single: bool) -> Chosen:
        """Marginals by the prior: of one column in each group, or of large dependences."""
        cells = round(math.exp(np.mean([math.log(domain.size((name,))) for name in domain.names])) ** 2)
        what = "a nearly independent column of the prior" if single else "large dependences of the prior"
        size = domain.size(inside) * (math.isqrt(cells) if single else cells)
        name = "group marginals" if single else "marginals"
        return Chosen(share, times, inside, size, note=f"{what}; about so many cells", name=name)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse columns that there are not, and marginals that are too large, from public facts."""
        self._check_keys(domain)
        size = domain.size(domain.names)
        if self.reach == "domain" and size > self.support:
            raise DomainTooLarge(
                f"reach is 'domain', which has {size:.3g} records, more than support = {self.support}: say reach := "
                f"'cells'{', or raise support' if size <= MOST_SUPPORT else ''}"
            )
        regions, groups = self.region_of(domain), self.keys_of(domain)
        others = self.features_of(domain)
        if not others:
            raise InvalidArgument(f"region and group_by take all of {', '.join(domain.names)}: leave one of them out")
        smallest = min(others, key=lambda name: domain.size((name,)))
        if not groups:
            for name in domain.names:
                domain.check_countable((name,), self.max_cells)
        for outer in {regions, groups} - {()}:
            domain.check_countable(domain.clique((*outer, smallest)), self.max_cells)
        beside = f" beside {', '.join(regions)}" if regions else ""
        most = max(self.candidates(domain, regions), len(self.own_marginals(domain, workload)))
        _check_count("marginals", self.marginals, most, f"of one or two columns{beside}")
        single = f"of one column beside {', '.join(groups)}"
        _check_count("group_marginals", self.group_marginals, len(self._in_groups(domain)), single)

    def check_unit(self, unit: str | None) -> None:
        """See `Mechanism.check_unit`: a region or a group of its own for each unit would be public."""
        named = {"region": [] if self.region is None else [self.region], "group_by": self.group_by or ()}
        for option, columns in named.items():
            if unit is not None and any(unit.lower() == column.lower() for column in columns):
                raise InvalidArgument(
                    f"{option} names {unit!r}, the column that tells whose row it is: regions and groups are public, "
                    f"leave it out of {option}"
                )

    def _check_keys(self, domain: Domain) -> None:
        """Refuse a column that is named twice."""
        groups = [domain.find(name) for name in self.group_by or ()]
        twice = next((name for place, name in enumerate(groups) if name in groups[:place]), None)
        if twice is not None:
            raise InvalidArgument(f"group_by names {twice!r} twice: name each column once")
        shared = next((name for name in groups if name in self.region_of(domain)), None)
        if shared is not None:
            raise InvalidArgument(
                f"group_by names {shared!r}, which is the region: groups are inside regions, leave it out of group_by"
            )

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: weights of groups times rows, of a prior of a usual size."""
        marginals = 20 * self._steps_over(domain, workload) if self.reach != "prior" else 40
        weights = self._weights(domain)
        return BASE_BYTES + (24 + marginals) * weights + 16 * len(domain) * weights // domain.size(self.keys_of(domain))

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: of a prior of a usual size, whose pairs are looked at, and each step of the fit."""
        steps = self.iterations or self.passes * self._steps_over(domain, workload)
        pairs = 1e-7 * len(domain) ** 2 * _USUAL_SUPPORT if not self.own_marginals(domain, workload) else 0.0
        solved = min(self.seconds, 10.0) if self.method == "exact" else 3e-8 * steps * self._weights(domain)
        return base_seconds(rows) + pairs + solved

    def _steps_over(self, domain: Domain, workload: Workload) -> int:
        """How many marginals take turns."""
        return len(self.own_marginals(domain, workload)) or self.marginals or -(-len(domain) // 2)

    def _weights(self, domain: Domain) -> int:
        """About how many weights there are."""
        rows = {"prior": _USUAL_SUPPORT, "cells": 10 * _USUAL_SUPPORT, "domain": domain.size(domain.names)}[self.reach]
        return int(min(self.support, domain.size(self.keys_of(domain)) * rows))

    def remarks_on(self, prior: Prior, domain: Domain, workload: Workload) -> Sequence[Remark]:
        """See `Mechanism.remarks_on`: which values it lacks, and how far an estimate can be from it."""
        keys = self.keys_of(domain)
        copies = None if keys else self.copies
        usual = remarks(prior, domain, workload, self.reach, copies, self.rows_of(domain))
        if self.totals != "paper" or len(keys) < 2:
            return usual
        words = (
            "totals of groups are cut off at 0 as in the paper, so noise makes more rows of many small groups than "
            "there are: totals := 'consistent' makes them add up"
        )
        return [*usual, Remark("noise", words)]

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        prior = walk.curator.prior
        if prior is None:
            raise InvalidArgument(f"mechanism {self.name!r} starts from a public table: give prior := 'its name'")
        work = Run.of(self, walk, prior, np.random.default_rng(seed), progress)
        return work.by_groups() if work.keys else work.whole()

    def candidates(self, domain: Domain, outer: Clique) -> int:
        """How many 1-way marginals and pairs of other columns may be measured beside `outer`."""
        room = self.max_cells // domain.size(outer)
        sizes = np.array(sorted(domain.shape(self.features_of(domain))))
        pairs = sum(int(np.searchsorted(sizes[place + 1 :], room // size, "right")) for place, size in enumerate(sizes))
        return int((sizes <= room).sum()) + pairs

    def _in_groups(self, domain: Domain) -> list[str]:
        """The columns whose 1-way marginals may be measured in each group."""
        keys = self.keys_of(domain)
        return [name for name in self.features_of(domain) if domain.size((*keys, name)) <= self.max_cells]


def _check_count(name: str, count: int | None, most: int, what: str) -> None:
    """Refuse more marginals than there are."""
    if count is not None and count > most:
        raise InvalidArgument(
            f"{name} is {count}, but within max_cells there are {most} {what}: give {most} at most, or leave it out"
        )
