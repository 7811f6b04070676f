"""What `lp` and `barak` share: noisy marginals, a space of points, a linear program over densities on it.

Linear queries are measured at once, with the part that gives them a cell's noise (`dpsql.mechanisms.linear_queries`).
The questions share ε so that its parts add up to ε exactly. With s_j the part of question j, Σs_j = 1:

    ρ = Σ_j (s_j·ε)²/2 = Q·ε²/2,  Q = Σs_j²,   and question j asks for ρ·s_j²/Q

See `dpsql.mechanisms.reduced_space.lp` for the algorithm and its source.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.threshold import most_counted
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import agreeing, combined, light, reused, sharpened, usable
from dpsql.evidence.occupied import occupied
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.linear_program import OBJECTIVES, Codes, Density, nearest_density, statistics
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.asks import Linear, Marginals, Total
from dpsql.mechanisms.base import Mechanism, Outcome, Remark, usual_noise
from dpsql.mechanisms.cell_queries import cells_of, workload_words
from dpsql.mechanisms.costs import BASE_BYTES, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.linear_queries import linear_part, weighing_seconds
from dpsql.mechanisms.reduced_space.settling import left_alone, settle, settling_seconds
from dpsql.mechanisms.reduced_space.threshold_answers import reach_of_sums, threshold_answers
from dpsql.mechanisms.threshold_queries import to_measure
from dpsql.mechanisms.walk import Walk
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.distributions import LAPLACE, Distribution, find_noise, noise_names
from dpsql.runtime.progress import Progress

TOTAL_SHARE: Final = Fraction(1, 20)
_MOST_CELLS: Final = 50_000_000
_MOST_REUSED: Final = 3_000_000  # cells for one least-squares estimate
MOST_MEMBERSHIPS: Final = 5_000_000  # k·m, the entries of A
_THRESHOLD_BYTES: Final = 200  # of a pair of points: rows that bind are dense, and several for each point
_LONGEST_SECONDS: Final = 600
_PROGRAM_SECONDS: Final = 0.5
_MEASURED_SECONDS: Final = 7e-7  # of a cell that has noise and is recorded
NOT_PROVEN: Final = "nothing is proven of objective := 'l1', which minimises another error than the largest"


@dataclass(frozen=True)
class ReducedSpace(Mechanism):
    """What `lp` and `barak` share: noisy marginals, a space of points, a linear program over densities on it."""

    uses_earlier = True
    noise: str = LAPLACE.name
    objective: str = "max"
    seconds: float = 60.0
    gamma: float = 0.05
    bootstrap: bool = False

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`."""
        return {"noise": usual_noise(pure=pure)}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("noise", self.noise, noise_names())
        check_word("objective", self.objective, OBJECTIVES)
        check_range("seconds", self.seconds, 0.1, _LONGEST_SECONDS)
        check_range("gamma", self.gamma, 1e-9, 0.2499)

    @property
    def _noise(self) -> Distribution:
        return find_noise(self.noise)

    @property
    def entry_seconds(self) -> float:
        """About how long the linear program of 1,000 points takes for each entry of its matrix."""
        return 2e-5 if self.objective == "max" else 7e-5

    @property
    @abstractmethod
    def one_way_share(self) -> Fraction:
        """The part of the budget for the 1-way marginals that Ω* is drawn from."""

    @property
    def by_cell(self) -> bool:
        """Whether each cell has the noise of a question of its own."""
        return False

    @abstractmethod
    def most_points(self, domain: Domain, workload: Workload, noise: float | None = None) -> int:
        """The most points that Ω* can have; with noise in cells of at most that fraction, where it is known."""

    @abstractmethod
    def points_of(
        self,
        domain: Domain,
        workload: Workload,
        measured: Sequence[Target],
        prior: Prior | None,
        total: float,
        noise: float,
        seed: int,
    ) -> tuple[Codes, str]:
        """Ω*, distinct, and where it comes from.

        Args:
            domain: of the table.
            workload: what is asked for.
            measured: noisy marginals, among them the 1-way ones.
            prior: a public table.
            total: the number of rows.
            noise: about the largest noise of all cells (fraction).
            seed: of the draws.
        """

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: the total, the 1-way marginals of the points, what is asked for; in parts of 1."""
        total, first, own = *self._before(facts), facts.workload.cliques
        cliques, each = self.measured_marginals(facts.domain, facts.workload)[0], self._each(facts)
        others = [clique for clique in cliques if clique not in set(own)]
        linear = linear_part(facts.domain, facts.workload.linear, facts.neighbours, self._noise)
        return Course(
            facts,
            self._noise,
            (
                total,
                first,
                Marginals(each * (len(cliques) - len(others)), own),
                Marginals(each * len(others), others, note="measured for thresholds"),
                Linear(each * linear, facts.workload.linear),
            ),
        )

    def _before(self, facts: Facts) -> tuple[Total, Marginals]:
        """The number of rows, and the 1-way marginals that the points are drawn from, where they are not asked for."""
        cliques = self.measured_marginals(facts.domain, facts.workload)[0]
        used = {name for clique in (*cliques, *(part.clique for part in facts.workload.linear)) for name in clique}
        held = set(cliques)
        singles = [(name,) for name in facts.domain.names if name in used and (name,) not in held]
        wanted = singles if self.one_way_share else []
        share = self.one_way_share if wanted else Fraction(0)
        return Total.of(facts, TOTAL_SHARE), Marginals(share, wanted, note="for the points of the reduced space")

    def _each(self, facts: Facts) -> Fraction:
        """The part of a marginal, if there are some; linear queries have as much noise as with it."""
        marginals = len(self.measured_marginals(facts.domain, facts.workload)[0])
        linear = linear_part(facts.domain, facts.workload.linear, facts.neighbours, self._noise)
        left = 1 - sum((ask.share for ask in self._before(facts)), Fraction(0))
        if not self.by_cell:
            return left / (marginals + linear)
        return left / max(functions(facts.domain, facts.workload), math.ceil(marginals + linear))

    def cell_rho(self, facts: Facts) -> Fraction:
        """The ρ of a marginal, whose cells have as much noise as linear queries by their largest weight."""
        return self.course(facts).cost(self._each(facts))

    def measured_marginals(self, domain: Domain, workload: Workload) -> tuple[tuple[Clique, ...], float]:
        """The marginals from which the answers follow, and how much noisier an answer is than a cell, at most."""
        return to_measure(domain, workload, self._noise.norm)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse what the noise or the linear program cannot hold; says what would."""
        cells = sum(map(domain.size, self.measured_marginals(domain, workload)[0]))
        if cells > _MOST_CELLS:
            raise DomainTooLarge(
                f"the workload has {cells:.3g} cells, {self.name} measures every one of at most {_MOST_CELLS:.3g}: "
                "ask for fewer or smaller marginals, or declare coarser domains with dp_domain"
            )
        self._check_thresholds(domain, workload)
        count, points = program_rows(workload), self.most_points(domain, workload)
        entries = count * points
        if entries > MOST_MEMBERSHIPS:
            raise DomainTooLarge(
                f"{count} marginals and linear queries of {points} points make a linear program of "
                f"{entries:.3g} entries, of at most {MOST_MEMBERSHIPS:.3g}: ask for fewer marginals or points"
            )

    def _check_thresholds(self, domain: Domain, workload: Workload) -> None:
        """Refuse thresholds whose rows the linear program cannot hold."""
        if not workload.thresholds:
            return
        entries, points = self._threshold_entries(domain, workload), self.most_points(domain, workload)
        if self.objective == "l1" and entries > MOST_MEMBERSHIPS:
            raise DomainTooLarge(
                f"objective is 'l1', which makes a linear program of {entries:.3g} entries of the thresholds of "
                f"{points} points, of at most {MOST_MEMBERSHIPS:.3g}: say objective := 'max', or ask for fewer "
                "thresholds or points"
            )

    def _threshold_entries(self, domain: Domain, workload: Workload) -> int:
        """Of all queries' rows."""
        counted = sum(most_counted(domain.shape(family.clique), family.least) for family in workload.thresholds)
        return counted * self.most_points(domain, workload)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`."""
        cells = sum(map(domain.size, self.measured_marginals(domain, workload)[0]))
        points = self.most_points(domain, workload)
        count = program_rows(workload)
        program = 400 * count * points + 24 * workload.linear_cells
        program += _THRESHOLD_BYTES * points**2 if workload.thresholds else 0
        return BASE_BYTES + 180 * cells + program

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: the linear program, which ends after `seconds`, and noise in every cell."""
        program = self.seconds if workload.thresholds else _program_seconds(self, domain, workload, rho, rows)
        measured = _MEASURED_SECONDS * sum(map(domain.size, self.measured_marginals(domain, workload)[0]))
        return base_seconds(rows) + measured + weighing_seconds(workload) + min(self.seconds, program)

    def remarks(self, course: Course) -> Sequence[Remark]:
        """See `Mechanism.remarks`: what the theorems say."""
        facts, words = course.facts, NOT_PROVEN
        domain, workload, neighbours, rows = facts.domain, facts.workload, facts.neighbours, facts.about
        noise = self.largest_noise(domain, workload, neighbours, self.cell_rho(facts), rows)
        if self.objective == "max":
            words = self.promise(domain, workload, neighbours, noise, rows)
        return [Remark("promise", note) for note in (*self.privacy_theorem(course, noise), words)]

    def privacy_theorem(self, course: Course, noise: float) -> list[str]:
        """Theorem 2.2 for about so many rows, in words; nothing for other noise than Laplace's, which it is about."""
        if self._noise is not LAPLACE:
            return []
        domain, workload, rows = course.facts.domain, course.facts.workload, course.facts.about
        count, epsilon = functions(domain, workload), course.epsilon
        measured = "Each is measured by itself" if self.by_cell else "Whole marginals are measured"
        least = math.ceil(2 * count * math.log(count / self.gamma) / (epsilon * noise))
        return [
            f"Theorem 2.2 with |F| = {count}, gamma = {self.gamma:g}, epsilon = {epsilon:.4g}, delta = {noise:.3g}: to "
            f"measure all {workload_words(workload)} one by one with that noise would want n >= {least} rows, there "
            f"are about {rows:g}. {measured}, whose noise follows from epsilon: this release is epsilon-DP for every n"
        ]

    def _stddev(self, neighbours: Neighbours, rho: Fraction) -> float:
        """Of each cell's noise (rows)."""
        return self._noise.stddev(rho, neighbours.marginal(self._noise.norm))

    def largest_noise(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> float:
        """δ (fraction): no cell or threshold has more noise with probability 1 − γ; `rho` of each marginal."""
        failure = self.gamma / functions(domain, workload)
        stddev = self._stddev(neighbours, rho) / max(1.0, rows)
        if not workload.thresholds:
            return stddev * self._noise.reach(failure)
        return stddev * self.measured_marginals(domain, workload)[1] * reach_of_sums(self._noise, failure)

    @abstractmethod
    def promise(self, domain: Domain, workload: Workload, neighbours: Neighbours, noise: float, rows: float) -> str:
        """What is proven of the accuracy for about `rows` rows, in words."""

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        domain, workload, curator, neighbours = walk.domain, walk.workload, walk.curator, walk.facts.neighbours
        self.refuse_without(curator.prior)
        total = walk.total()
        measured, linear = walk.marginals(begun=True), walk.linear()  # as a version did that measured others
        held = occupied(domain, measured or agreeing([total], curator.earlier))
        full_domain, domain, measured = domain, held.domain, held.measurements(measured)
        room = _MOST_REUSED if sum(len(m.values) for m in measured) <= _MOST_REUSED else 0
        earlier = usable(
            held.measurements(curator.earlier), [total, *measured], domain, min(_MOST_CELLS, room), room=room
        )
        earlier = light(domain, measured, earlier)
        rows = best_total([Target.of(total), *combined(measured, earlier)])
        targets = sharpened(domain, measured, earlier)
        ratios = [after.stddev / before.stddev for after, before in zip(targets, measured, strict=True)]
        less = 1.0 if linear else max(ratios)
        each = self.cell_rho(walk.facts)
        noise = less * self.largest_noise(full_domain, workload, neighbours, each, rows)
        prior = held.side_facts(curator.prior).prior
        points, origin = self.points_of(domain, workload, targets, prior, rows, noise, seed)
        answers = [target for target in targets if target.clique in set(workload.cliques)]
        answers += threshold_answers(domain, workload.thresholds, combined(measured, earlier))
        marginals = len(answers)
        answers += targets_of(held.measurements(linear))
        facts = statistics(domain, points, answers, rows, merge=self.objective == "max")
        progress.stage("solving the linear program")
        deadline = time.monotonic() + self.seconds
        density = nearest_density(facts, self.objective, self.seconds, progress)
        left_open = statistics(domain, points, left_alone(workload, targets), rows)
        settled = settle(facts, density, self.objective, left_open, deadline, progress)
        report: dict[str, Any] = {
            "marginals": marginals,
            "total": round(rows),
            "points": len(points),
            "space": origin,
            "cells": facts.cells,
            "cells_without_a_point": facts.empty_cells,
            "largest_answer_without_a_point": round(facts.empty, 6),
            "error": round(density.error, 6),
            "least_error": round(density.bound, 6),
            "programs": density.rounds,
            "kappa": round(condition_number(settled.weights), 3),
            **({"one_way_error": round(settled.error, 6)} if left_open.cells else {}),
            **reused(earlier),
        }
        if not density.optimal:
            report["warning"] = unsolved(density, self.seconds)
        return Outcome(held.model(WeightedRows(domain, points, settled.weights, rows, self.bootstrap)), report)

    def refuse_without(self, prior: Prior | None) -> None:
        """Refuse a request whose space needs a prior that is not there, before any question."""


def unsolved(fit: Density, seconds: float) -> str:
    """What a report says of a density that is the best that was found in time."""
    return (
        f"the linear program was not solved in {seconds:g} seconds: the answers are within {fit.error:.3g} of the "
        f"noisy ones, no density on these points has less than {fit.bound:.3g}; ask for fewer points or more seconds"
    )


def _program_seconds(mechanism: ReducedSpace, domain: Domain, workload: Workload, rho: Fraction, rows: float) -> float:
    """About how long the linear programs take: the interior-point method's steps grow with the square of the points."""
    each = mechanism.cell_rho(Facts(domain, workload, Neighbours.ADD_REMOVE, rho))
    noise = mechanism.largest_noise(domain, workload, Neighbours.ADD_REMOVE, each, rows)
    points = mechanism.most_points(domain, workload, noise)
    entries = len(workload.needed) * points * (points / 1000)
    settling = points / mechanism.most_points(domain, workload) * settling_seconds(domain, workload)
    return float(_PROGRAM_SECONDS + mechanism.entry_seconds * entries + settling)


def program_rows(workload: Workload) -> int:
    """In how many rows of the linear program a point stands: one for each marginal and each linear query."""
    return len(workload.needed) + sum(family.count for family in workload.linear)


def functions(domain: Domain, workload: Workload) -> int:
    """|F|: the cells of all marginals, the thresholds, the linear queries, and the constant 1."""
    return 1 + cells_of(domain, workload)


def condition_number(weights: npt.NDArray[np.float64]) -> float:
    """κ(h ‖ uniform on the m points) = m·Σh²: what the density found says of κ, from noisy answers; from 1 to m.

    >>> condition_number(np.array([0.5, 0.5, 0.0, 0.0]))
    2.0
    """
    return float(len(weights) * np.square(weights / weights.sum()).sum())
