"""What `lp` and `barak` share: noisy marginals, a space of points, a linear program over densities on it.

Linear queries are measured at once, with the part that gives them a cell's noise (`dpsql.mechanisms.linear_queries`).
The questions share ε so that its parts add up to ε exactly. With s_j the part of question j, Σs_j = 1:

    ρ = Σ_j (s_j·ε)²/2 = Q·ε²/2,  Q = Σs_j²,   and question j asks for ρ·s_j²/Q

See `dpsql.mechanisms.lp` for the algorithm and its source.
"""

from __future__ import annotations

import itertools
import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.threshold import most_counted
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import agreeing, combined, light, reused, sharpened, usable
from dpsql.evidence.occupied import occupied
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.linear_program import OBJECTIVES, Codes, nearest_density, statistics
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.base import Mechanism, Outcome, PlannedMeasurement, Remark, check_range, check_word, usual_noise
from dpsql.mechanisms.cell_queries import cells_of, workload_words
from dpsql.mechanisms.costs import BASE_BYTES, base_seconds
from dpsql.mechanisms.linear_queries import linear_part, planned_linear, weighing_seconds
from dpsql.mechanisms.reduced_settling import left_alone, settle, settling_seconds
from dpsql.mechanisms.threshold_answers import reach_of_sums, threshold_answers
from dpsql.mechanisms.threshold_queries import to_measure
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import LAPLACE, Distribution, find_noise, noise_names
from dpsql.privacy.pricing import Part, Questions
from dpsql.runtime.progress import Progress

TOTAL_SHARE: Final = Fraction(1, 20)
_MOST_CELLS: Final = 50_000_000
_MOST_REUSED: Final = 3_000_000  # cells for one least-squares estimate
_MOST_MEMBERSHIPS: Final = 5_000_000  # k·m, the entries of A
_THRESHOLD_BYTES: Final = 200  # of a pair of points: rows that bind are dense, and several for each point
_LONGEST_SECONDS: Final = 600
_PROGRAM_SECONDS: Final = 0.5
_NOT_PROVEN: Final = "nothing is proven of objective := 'l1', which minimises another error than the largest"


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

    @abstractmethod
    def most_points(self, domain: Domain, noise: float | None = None) -> int:
        """The most points that Ω* can have; with noise in cells of at most that fraction, where it is known."""

    @abstractmethod
    def points_of(
        self,
        domain: Domain,
        measured: Sequence[Target],
        prior: Prior | None,
        total: float,
        noise: float,
        seed: int,
    ) -> tuple[Codes, str]:
        """Ω*, distinct, and where it comes from.

        Args:
            domain: of the table.
            measured: noisy marginals, among them the 1-way ones.
            prior: a public table.
            total: the number of rows.
            noise: about the largest noise of all cells (fraction).
            seed: of the draws.
        """

    def parts(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> list[tuple[Clique, Fraction]]:
        """The part of ε (Laplace) or of ρ (Gaussian) of each question; with `linear_share` they add up to 1."""
        cliques = self.measured_marginals(domain, workload)[0]
        before = self._before(domain, workload, neighbours)
        return [*before, *zip(cliques, itertools.repeat(self._each(domain, workload, neighbours)))]

    def _before(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> list[tuple[Clique, Fraction]]:
        """The parts of the total, and of the 1-way marginals that the points are drawn from."""
        cliques = self.measured_marginals(domain, workload)[0]
        asked: list[tuple[Clique, Fraction]] = []
        if not neighbours.total_is_public:
            asked.append(((), TOTAL_SHARE))
        used = {name for clique in (*cliques, *(one.clique for one in workload.linear)) for name in clique}
        singles = [(name,) for name in domain.names if name in used and (name,) not in cliques]
        if singles and self.one_way_share:
            asked += zip(singles, itertools.repeat(self.one_way_share / len(singles)))
        return asked

    def _each(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Fraction:
        """The part of a marginal, if there are some; linear queries have as much noise as with it."""
        rest = 1 - sum((part for _, part in self._before(domain, workload, neighbours)), Fraction(0))
        marginals = len(self.measured_marginals(domain, workload)[0])
        return rest / (marginals + linear_part(domain, workload.linear, neighbours, self._noise))

    def linear_share(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Fraction:
        """The part of all linear queries together."""
        share = linear_part(domain, workload.linear, neighbours, self._noise)
        return share * self._each(domain, workload, neighbours) if share else share

    def squares(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Fraction:
        """Q of all parts."""
        return _squares(self.parts(domain, workload, neighbours)) + self.linear_share(domain, workload, neighbours) ** 2

    def _rho_of(
        self, part: Fraction, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction
    ) -> Fraction:
        """The ρ of a part."""
        return rho * part**2 / self.squares(domain, workload, neighbours) if self._noise.pure else rho * part

    def cell_rho(self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction) -> Fraction:
        """The ρ of a marginal, whose cells have as much noise as linear queries by their largest weight."""
        return self._rho_of(self._each(domain, workload, neighbours), domain, workload, neighbours, rho)

    def measured_marginals(self, domain: Domain, workload: Workload) -> tuple[tuple[Clique, ...], float]:
        """The marginals from which the answers follow, and how much noisier an answer is than a cell, at most."""
        return to_measure(domain, workload, self._noise.norm)

    def shares(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction
    ) -> list[tuple[Clique, Fraction]]:
        """The ρ of the total and of each marginal; with that of linear queries they add up to `rho`."""
        parts = self.parts(domain, workload, neighbours)
        known = {part for _, part in parts}
        each = {part: self._rho_of(part, domain, workload, neighbours, rho) for part in known}
        return [(clique, each[part]) for clique, part in parts]

    def questions(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Questions:
        """See `Mechanism.questions`: noise that proves a pure ε shares ε, other noise ρ."""
        if not self._noise.pure:
            return Questions.of(self._noise)
        counted = Counter(part for _, part in self.parts(domain, workload, neighbours))  # most parts are equal
        linear = self.linear_share(domain, workload, neighbours)
        if linear:
            counted[linear] += 1
        return Questions.pure(*(Part(self._noise, count, part) for part, count in counted.items()))

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse what the noise or the linear program cannot hold; says what would."""
        cells = sum(map(domain.size, self.measured_marginals(domain, workload)[0]))
        if cells > _MOST_CELLS:
            raise DomainTooLarge(
                f"the workload has {cells:.3g} cells, {self.name} measures every one of at most {_MOST_CELLS:.3g}: "
                "ask for fewer or smaller marginals, or declare coarser domains with dp_domain"
            )
        self._check_thresholds(domain, workload)
        asked = len(workload.needed) + _linear_rows(workload)
        entries = asked * self.most_points(domain)
        if entries > _MOST_MEMBERSHIPS:
            raise DomainTooLarge(
                f"{asked} marginals and linear queries of {self.most_points(domain)} points make a linear program of "
                f"{entries:.3g} entries, of at most {_MOST_MEMBERSHIPS:.3g}: ask for fewer marginals or points"
            )

    def _check_thresholds(self, domain: Domain, workload: Workload) -> None:
        """Refuse thresholds whose rows the linear program cannot hold."""
        if not workload.thresholds:
            return
        entries = self._threshold_entries(domain, workload)
        if self.objective == "l1" and entries > _MOST_MEMBERSHIPS:
            raise DomainTooLarge(
                f"objective is 'l1', which makes a linear program of {entries:.3g} entries of the thresholds of "
                f"{self.most_points(domain)} points, of at most {_MOST_MEMBERSHIPS:.3g}: say objective := 'max', or "
                "ask for fewer thresholds or points"
            )

    def _threshold_entries(self, domain: Domain, workload: Workload) -> int:
        """Of all queries' rows."""
        counted = sum(most_counted(domain.shape(one.clique), one.least) for one in workload.thresholds)
        return counted * self.most_points(domain)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`."""
        cells = sum(map(domain.size, self.measured_marginals(domain, workload)[0]))
        points = self.most_points(domain)
        asked = len(workload.needed) + _linear_rows(workload)
        program = 400 * asked * points + 24 * workload.linear_cells
        program += _THRESHOLD_BYTES * points**2 if workload.thresholds else 0
        return BASE_BYTES + 180 * cells + program

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: the linear program, which ends after `seconds`, and noise in every cell."""
        program = self.seconds if workload.thresholds else _program_seconds(self, domain, workload, rho, rows)
        measured = 3e-7 * sum(map(domain.size, self.measured_marginals(domain, workload)[0]))
        return base_seconds(rows) + measured + weighing_seconds(workload) + min(self.seconds, program)

    def plan(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> Sequence[PlannedMeasurement | Remark]:
        """See `Mechanism.plan`; the last lines are what the theorems say."""
        needed = set(self.measured_marginals(domain, workload)[0])
        planned = list[PlannedMeasurement]()
        shares = self.shares(domain, workload, neighbours, rho)
        for clique, share in shares:
            note = "measured" if clique in needed else "for the points of the reduced space"
            note += " for thresholds" if clique in needed and clique not in workload.cliques else ""
            stddev = self._stddev(neighbours, share)
            note = note if clique else "the number of rows"
            planned.append(PlannedMeasurement(clique, domain.size(clique), stddev, float(share), note))
        share = self._rho_of(self.linear_share(domain, workload, neighbours), domain, workload, neighbours, rho)
        planned += planned_linear(domain, workload.linear, share, neighbours, self._noise)
        each = self.cell_rho(domain, workload, neighbours, rho)
        noise = self.largest_noise(domain, workload, neighbours, each, rows)
        notes = [
            *self.privacy_theorem(domain, workload, neighbours, rho, noise, rows),
            self.promise(domain, workload, neighbours, noise, rows) if self.objective == "max" else _NOT_PROVEN,
        ]
        return [*planned, *(Remark("promise", note) for note in notes)]

    def privacy_theorem(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, noise: float, rows: float
    ) -> list[str]:
        """Theorem 2.2 for about `rows` rows, in words; nothing for other noise than Laplace's, which it is about."""
        if self._noise is not LAPLACE:
            return []
        count = functions(domain, workload)
        squares = self.squares(domain, workload, neighbours)
        epsilon = math.sqrt(2 * rho / squares)
        least = math.ceil(2 * count * math.log(count / self.gamma) / (epsilon * noise))
        return [
            f"Theorem 2.2 with |F| = {count}, gamma = {self.gamma:g}, epsilon = {epsilon:.4g}, delta = {noise:.3g}: to "
            f"measure all {workload_words(workload)} one by one with that noise would want n >= {least} rows, there "
            f"are about {rows:g}. "
            "Whole marginals are measured, whose noise follows from epsilon: this release is epsilon-DP for every n"
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

    def run(self, curator: Curator, workload: Workload, rho: Fraction, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.run`."""
        domain, neighbours = curator.domain, curator.neighbours
        self.refuse_without(curator.prior)
        shares = self.shares(domain, workload, neighbours, rho)
        total = curator.total(next((share for clique, share in shares if not clique), Fraction(0)), self._noise)
        begun = curator.begun()  # by an earlier version, which measured other marginals for thresholds
        measured = curator.measure(begun or [(clique, share) for clique, share in shares if clique], self._noise)
        linear = self._linear(curator, workload, rho)
        held = occupied(domain, measured or agreeing([total], curator.earlier))
        asked, domain, measured = domain, held.domain, held.measurements(measured)
        room = _MOST_REUSED if sum(len(m.values) for m in measured) <= _MOST_REUSED else 0
        earlier = usable(
            held.measurements(curator.earlier), [total, *measured], domain, min(_MOST_CELLS, room), room=room
        )
        earlier = light(domain, measured, earlier)
        rows = best_total([Target.of(total), *combined(measured, earlier)])
        targets = sharpened(domain, measured, earlier)
        ratios = [after.stddev / before.stddev for after, before in zip(targets, measured, strict=True)]
        less = 1.0 if linear else max(ratios)
        each = self.cell_rho(asked, workload, neighbours, rho)
        noise = less * self.largest_noise(asked, workload, neighbours, each, rows)
        points, origin = self.points_of(domain, targets, held.known(curator.prior).prior, rows, noise, seed)
        answers = [target for target in targets if target.clique in set(workload.cliques)]
        answers += threshold_answers(domain, workload.thresholds, combined(measured, earlier))
        marginals = len(answers)
        answers += targets_of(held.measurements(linear))
        facts = statistics(domain, points, answers, rows, merge=self.objective == "max")
        progress.stage("solving the linear program")
        deadline = time.monotonic() + self.seconds
        found = nearest_density(facts, self.objective, self.seconds, progress)
        left_open = statistics(domain, points, left_alone(workload, targets), rows)
        settled = settle(facts, found, self.objective, left_open, deadline, progress)
        report: dict[str, Any] = {
            "marginals": marginals,
            "total": round(rows),
            "points": len(points),
            "space": origin,
            "cells": facts.cells,
            "cells_without_a_point": facts.empty_cells,
            "largest_answer_without_a_point": round(facts.empty, 6),
            "error": round(found.error, 6),
            "least_error": round(found.bound, 6),
            "programs": found.rounds,
            "kappa": round(condition_number(settled.weights), 3),
            **({"one_way_error": round(settled.error, 6)} if left_open.cells else {}),
            **reused(earlier),
        }
        if not found.optimal:
            report["warning"] = (
                f"the linear program was not solved in {self.seconds:g} seconds: the answers are within "
                f"{found.error:.3g} of the noisy ones, no density on these points has less than {found.bound:.3g}; "
                "ask for fewer points or more seconds"
            )
        return Outcome(held.model(WeightedRows(domain, points, settled.weights, rows, self.bootstrap)), report)

    def _linear(self, curator: Curator, workload: Workload, rho: Fraction) -> list[Measurement]:
        """The linear queries, measured."""
        if not workload.linear:
            return []
        domain, neighbours = curator.domain, curator.neighbours
        share = self._rho_of(self.linear_share(domain, workload, neighbours), domain, workload, neighbours, rho)
        return curator.measure_linear_families(workload.linear, share, self._noise)

    def refuse_without(self, prior: Prior | None) -> None:
        """Refuse a request whose space needs a prior that is not there, before any question."""


def _program_seconds(mechanism: ReducedSpace, domain: Domain, workload: Workload, rho: Fraction, rows: float) -> float:
    """About how long the linear programs take: the interior-point method's steps grow with the square of the points."""
    each = mechanism.cell_rho(domain, workload, Neighbours.ADD_REMOVE, rho)
    noise = mechanism.largest_noise(domain, workload, Neighbours.ADD_REMOVE, each, rows)
    points = mechanism.most_points(domain, noise)
    entries = len(workload.needed) * points * (points / 1000)
    settling = points / mechanism.most_points(domain) * settling_seconds(domain, workload)
    return float(_PROGRAM_SECONDS + mechanism.entry_seconds * entries + settling)


def _squares(parts: Sequence[tuple[Clique, Fraction]]) -> Fraction:
    """Σ part²; most parts are equal."""
    return sum((count * part**2 for part, count in Counter(part for _, part in parts).items()), Fraction(0))


def _linear_rows(workload: Workload) -> int:
    return sum(family.count for family in workload.linear)


def functions(domain: Domain, workload: Workload) -> int:
    """|F|: the cells of all marginals, the thresholds, the linear queries, and the constant 1."""
    return 1 + cells_of(domain, workload)


def condition_number(weights: npt.NDArray[np.float64]) -> float:
    """κ(h ‖ uniform on the m points) = m·Σh²: what the density found says of κ, from noisy answers; from 1 to m.

    >>> condition_number(np.array([0.5, 0.5, 0.0, 0.0]))
    2.0
    """
    return float(len(weights) * np.square(weights / weights.sum()).sum())
