r"""FEM: follow the perturbed leader, the exponential mechanism as the adversary.

The queries are all cells of the workload's marginals and their negations, as in `dpsql.mechanisms.dualquery`.

    start     D_0 = s uniform records, which is what the perturbed leader is while there are no queries
    round t   q_t = a query with large q(D) − q(D_{t−1}), by the exponential mechanism, ρ/T
              D_t = s records; each maximises  Σ_{i≤t} q_i(x) + ⟨x, σ⟩  over one-hot records x, with σ ~ Exp of its own
    output    all records of D_1 … D_T, with equal weights

That is the paper's order, shifted so that no query is paid for that no record hears of.

A query that the released records should satisfy more often comes with a plus, its negation with a minus; which of both
is private too, so cell and sign are drawn together. Instead of an integer program for each record, all s of a round are
found at once by block coordinate ascent (`dpsql.fitting.rows.best_records`): privacy does not depend on how good they
are.

Source: Vietri, Tian, Bun, Steinke, Wu 2020, New Oracle-Efficient Algorithms for Private Synthetic Data Release, FEM
(arXiv:2007.05453).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import project_rows
from dpsql.core.workload import Workload
from dpsql.fitting.rows.best_records import Goal, perturbed_leaders, random_records
from dpsql.mechanisms.base import Mechanism, Outcome, PlannedMeasurement, check_range, plan_total, register
from dpsql.mechanisms.cell_queries import check_cells
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN, SELECTION
from dpsql.privacy.pricing import Questions
from dpsql.runtime.progress import Progress

_TOTAL_SHARE: Final = Fraction(1, 100)


@register("fem", when="comparison with the paper")
@dataclass(frozen=True)
class FEM(Mechanism):
    """Records that follow the perturbed leader, then the cell that they answer worst (Vietri et al. 2020).

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge: T times `sample_cells` of one cell and its sign with
    factor 1 at ρ/T; the records touch no private count. Sensitivity of the score sign·(count − n·q(D_{t−1})): 1, for
    both neighbours. Under add_remove the number of rows is private: `total` takes ρ/100 first, the noisy total is n in
    the score, and the rest is shared.

    Attributes:
        rounds: T, queries found; more tell more, each one less surely.
        samples: s, records of each round.
        noise: the mean of the perturbation of each value; 0 follows the leader itself. More noise wants more rounds:
            the defaults did best on Adult at ε = 1, of 40 to 300 rounds and a noise of 0.1 to 4.

    Raises:
        InvalidArgument: an option is out of its range.
        DomainTooLarge: the workload has more than 20 million cells.
    """

    rounds: int = 300
    samples: int = 50
    noise: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_range("rounds", self.rounds, 1, 10_000)
        check_range("samples", self.samples, 1, 10_000)
        check_range("noise", self.noise, 0, 1e6)

    def questions(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Questions:
        """See `Mechanism.questions`."""
        return Questions.of(SELECTION) if neighbours.total_is_public else Questions.of(GAUSSIAN, SELECTION)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        check_cells(self.name, domain, workload)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: scores of all queries and their order; conjunctions times records, and σ."""
        cells = sum(domain.size(clique) for clique in workload.cliques)
        return 60 * cells + self.samples * (16 * self.rounds + 32 * domain.width)

    def plan(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> Sequence[PlannedMeasurement]:
        """See `Mechanism.plan`: which cells is found out by selection."""
        planned, rho = plan_total(rho, neighbours, _TOTAL_SHARE)
        note = f"one cell and its sign drawn in each of {self.rounds} rounds"
        return [*planned, PlannedMeasurement((), self.rounds, None, float(rho), note, open="drawn cells")]

    def run(self, curator: Curator, workload: Workload, rho: Fraction, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.run`."""
        domain = curator.domain
        total = max(1, int(curator.total(rho * _TOTAL_SHARE).values[0]))
        if not curator.neighbours.total_is_public:
            rho -= rho * _TOTAL_SHARE
        records = self._play(curator, workload, rho / self.rounds, total, seed, progress)
        codes, counts = np.unique(records, axis=0, return_counts=True)
        report: dict[str, Any] = {
            "rounds": self.rounds,
            "samples": self.samples,
            "records": len(codes),
            "total": total,
        }
        return Outcome(WeightedRows(domain, codes, counts / len(records), float(total)), report)

    def _play(
        self, curator: Curator, workload: Workload, share: Fraction, total: int, seed: int, progress: Progress
    ) -> npt.NDArray[np.int64]:
        """The records of all rounds, shape (T·s, attributes)."""
        domain, generator = curator.domain, np.random.default_rng(seed)
        worst: list[tuple[Clique, int]] = []
        signs: list[int] = []
        records, found = random_records(Goal.of(domain, [], []), self.samples, generator), []
        each = np.full(self.samples, total / self.samples)  # rows that a record stands for
        for number in range(self.rounds):

            def answers(clique: Clique, shown: npt.NDArray[np.int64] = records) -> npt.NDArray[np.float64]:
                return project_rows(shown, each, domain.names, domain, clique)

            for query, sign in curator.sample_cells(workload.cliques, answers, 1, 1, share):
                worst.append(query)
                signs.append(sign)
            progress.stage(f"round {number + 1} of {self.rounds}", 1)
            records = perturbed_leaders(Goal.of(domain, worst, signs), self.samples, self.noise, generator, progress)
            found.append(records)
            progress.advance(1)
        return np.concatenate(found)
