r"""FEM: follow the perturbed leader, the exponential mechanism as the adversary.

The queries are all cells of the workload's marginals, its thresholds, and their negations, as in
`dpsql.mechanisms.query_games.dualquery`.

    start     D_0 = s uniform records, which is what the perturbed leader is while there are no queries
    round t   q_t = a query with large q(D) − q(D_{t−1}), by the exponential mechanism, ρ/T
              D_t = s records; each maximises  Σ_{i≤t} q_i(x) + ⟨x, σ⟩  over one-hot records x, with σ ~ Exp of its own
    output    all records of D_1 … D_T, with equal weights

That is the paper's order, shifted so that no query is paid for that no record hears of. With `"order" := 'paper'`,
which `faithful := true` asks for, the output is all records of D_0 … D_{T−1}, the paper's D_1 … D_T: uniform ones are
part of it, and the last query is heard of by none.

A query that the released records should satisfy more often comes with a plus, its negation with a minus; which of both
is private too, so cell and sign are drawn together. Instead of an integer program for each record, all s of a round are
found at once by block coordinate ascent (`dpsql.fitting.rows.best_records`): privacy does not depend on how good they
are. `search := 'milp'` solves the paper's integer program for each of them, on small domains; 'auto', which `faithful
:= true` asks for, where the domain is small.

With `start := 'marginals'` all 1-way marginals p are measured first, and σ_v = λ·(log p_v + Gumbel) for the value v of
an attribute. So D_0 is drawn from the product of p, and a query that was found raises the odds of what satisfies it.

Source: Vietri, Tian, Bun, Steinke, Wu 2020, New Oracle-Efficient Algorithms for Private Synthetic Data Release, FEM
(arXiv:2007.05453).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Family
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.fitting.relaxed.settings import best_total, one_way_prior
from dpsql.fitting.rows.best_records import Goal, perturbed_leaders, random_records
from dpsql.fitting.rows.exact_leaders import exact_leaders
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.asks import Draws
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, register
from dpsql.mechanisms.cell_queries import (
    answers_of_rows,
    cells_of,
    check_cells,
    conjunctions_of,
    game_seconds,
    unsatisfied,
    workload_words,
)
from dpsql.mechanisms.costs import BASE_BYTES, SCORED_BYTES, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.one_way_start import STARTS, after_singles
from dpsql.mechanisms.walk import Walk
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.journal import SignedQuery
from dpsql.runtime.progress import Progress

_WIDEST: Final = 200  # the one-hot width of an integer program for each record
_PROGRAM_SECONDS: Final = 1.8e-4  # of an integer program, for each query found so far, on average


@register("fem", when="comparison with the paper")
@dataclass(frozen=True)
class FEM(Mechanism):
    """Records that follow the perturbed leader, then the cell that they answer worst (Vietri et al. 2020).

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge: T times `sample_cells` of one cell and its sign with
    factor 1 at ρ/T; the records touch no private count. Sensitivity of the score sign·(count − n·q(D_{t−1})), of a cell
    or a threshold: 1, for both neighbours. Under
    add_remove the number of rows is private: `total` takes ρ/100 first, the noisy total is n in the score, and the rest
    is shared. With start := 'marginals' one `measure` of the 1-way marginals takes a third of it.

    Attributes:
        rounds: T, queries found; more tell more, each one less surely.
        samples: s, records of each round.
        noise: the mean of the perturbation of each value; 0 follows the leader itself. More noise wants more rounds:
            1 did best on Adult at ε = 1, of 40 to 300 rounds and a noise of 0.1 to 4; 2 to 4 after 1-way marginals,
            where it is λ.
        start: 'uniform', as in the paper, or 'marginals': all 1-way marginals are measured first.
        search: of a record: 'local', block coordinate ascent of all at once, or 'milp', the paper's integer program for
            each record, of columns with at most 200 values together, ten times and more as slow; 'auto' for 'milp'
            where the columns have so few.
        seconds: the most that one integer program may take, which cannot be interrupted; its best record is used then.
        order: 'heard', where the records of each round have heard of its query, or the 'paper' one, where those before
            it are output.

    Raises:
        InvalidArgument: an option is out of its range.
        DomainTooLarge: the workload has more than 20 million cells.
    """

    rounds: int = 300
    samples: int = 50
    noise: float = 1.0
    start: str = field(default="uniform", metadata=LATER)
    search: str = field(default="local", metadata=LATER)
    seconds: float = field(default=5.0, metadata=LATER)
    order: str = field(default="heard", metadata=LATER)

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`."""
        return {"start": "marginals", "rounds": 100, "samples": 500, "noise": 4.0}

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`: the fields' defaults, with the paper's program and order."""
        return {"search": "auto", "order": "paper"}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: the local search, and the shifted order."""
        return {}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("start", self.start, STARTS)
        check_range("rounds", self.rounds, 1, 10_000)
        check_range("samples", self.samples, 1, 10_000)
        check_range("noise", self.noise, 0, 1e6)
        check_word("search", self.search, ("local", "milp", "auto"))
        check_word("order", self.order, ("heard", "paper"))
        check_range("seconds", self.seconds, 0.01, 3600)

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: T draws, after the number of rows and the 1-way marginals; which is found out."""
        words = workload_words(facts.workload)
        query_words = {"cells": "one cell", "thresholds": "one threshold"}.get(words, "one cell or threshold")
        note = f"{query_words} and its sign drawn in each of {self.rounds} rounds"
        drawn = Draws(Fraction(1), self.rounds, self.rounds, open=f"drawn {words}", note=note)
        return after_singles(facts, self.start, drawn)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        check_cells(self.name, domain, workload)
        if self.search == "milp" and domain.width > _WIDEST:
            raise DomainTooLarge(
                f"search is 'milp', which solves an integer program for each record, and the columns have "
                f"{domain.width} values together, of at most {_WIDEST}: leave it out, ask for fewer columns, or "
                "declare coarser domains"
            )

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: scores of all queries and their order; conjunctions times records, and σ."""
        records = self.samples * (16 * self.rounds + 32 * domain.width + 8 * len(domain) * self.rounds)
        return BASE_BYTES + SCORED_BYTES * cells_of(domain, workload) + records

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`."""
        work = game_seconds(domain, workload, self.rounds, self.samples, self.rounds / 2)
        programs = _PROGRAM_SECONDS * self.rounds**2 * self.samples if self._is_exact(domain.width) else 0.0
        return base_seconds(rows) + work + programs

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        domain, row_total, singles = walk.domain, walk.total(), walk.marginals()
        total = max(1, round(best_total(targets_of([row_total, *singles]))))
        shares = one_way_prior(domain, targets_of(singles), total) if singles else None
        records, drawn = self._play(walk, total, shares, seed, progress)
        codes, counts = np.unique(records, axis=0, return_counts=True)
        report: dict[str, Any] = {
            "rounds": self.rounds,
            "samples": self.samples,
            "records": len(codes),
            "total": total,
            "loss": round(unsatisfied(domain, records, drawn), 4),
        }
        return Outcome(WeightedRows(domain, codes, counts / len(records), float(total)), report)

    def _is_exact(self, width: int) -> bool:
        """Whether an integer program finds each record."""
        return self.search == "milp" or (self.search == "auto" and width <= _WIDEST)

    def _leaders(
        self, goal: Goal, generator: np.random.Generator, progress: Progress, shares: npt.NDArray[np.float64] | None
    ) -> npt.NDArray[np.int64]:
        """The s records that follow the perturbed leader, shape (s, attributes)."""
        if self._is_exact(sum(goal.sizes)):
            return exact_leaders(goal, self.samples, self.noise, self.seconds, generator, progress, shares)
        return perturbed_leaders(goal, self.samples, self.noise, generator, progress, shares)

    def _play(
        self,
        walk: Walk,
        total: int,
        shares: npt.NDArray[np.float64] | None,
        seed: int,
        progress: Progress,
    ) -> tuple[npt.NDArray[np.int64], list[SignedQuery]]:
        """The records of all rounds, shape (T·s, attributes), and the queries that were drawn."""
        domain, generator = walk.domain, np.random.default_rng(seed)
        drawn: list[SignedQuery] = []
        nothing = Goal.of(domain, [], [])
        if shares is None:
            records = random_records(nothing, self.samples, generator)
        else:
            records = self._leaders(nothing, generator, progress, shares)
        record_sets = []
        each = np.full(self.samples, total / self.samples)  # rows that a record stands for
        progress.rounds("rounds", self.rounds)
        for _ in range(self.rounds):

            def answers(family: Family, shown: npt.NDArray[np.int64] = records) -> npt.NDArray[np.float64]:
                return answers_of_rows(domain, shown, each, family)

            if self.order == "paper":
                record_sets.append(records)
            drawn += walk.curator.sample_cells(walk.workload.families, answers, 1, 1, walk.draw)
            goal = Goal.of(domain, *conjunctions_of(drawn))
            if self.order == "heard" or len(drawn) < self.rounds:
                records = self._leaders(goal, generator, progress, shares)
            if self.order == "heard":
                record_sets.append(records)
            progress.round_done()
        return np.concatenate(record_sets), drawn
