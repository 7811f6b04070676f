r"""MWEM from a public table: multiplicative weights on the rows of a prior (PMW-Pub).

    A_0        (1 − w)·the prior + w·uniform over its rows; w by the noisy 1-way marginals alone
    round i    S_i = a marginal with large ‖M_S(D) − M_S(A_{i−1})‖₁ − √(2/π)·σ·cells_S, by a noisy maximum with ρ/2T
               y_i = M_{S_i}(D) + noise with ρ/2T
               A_i(x) ∝ A_{i−1}(x)·exp((y − M_S(A))[cell of x]/2n), for all measurements so far
    output     A_T

The second term of the score is the error that the noise of measuring S would bring. Only rows of the prior can come
out: columns that it lacks are drawn at random and weighed like the others.

As it was published (`faithful := true`):

    A_0        the prior
    round i    q_i = a single cell with large |q(D) − q(A_{i−1})|, by the exponential mechanism with ρ/2T
               m_i = q_i(D) + noise with ρ/2T,    A_i(x) ∝ A_{i−1}(x)·exp(q_i(x)·(m_i − q_i(A_{i−1}))/2n)
    output     the average of A_1 … A_T

where n is public; where it is private a hundredth of ρ measures it first.

Source: Liu, Vietri, Steinke, Ullman, Wu 2021 (PMW^Pub, arXiv:2102.08598), Algorithm 1 with α = 1/2; MWEM as in
`dpsql.mechanisms.mwem.mwem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.arguments import check_range, check_rounds, check_word
from dpsql.core.domain import Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.evidence.earlier_releases import public_total, reused, usable
from dpsql.evidence.prior_reach import reach_report, reach_words
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.multiplicative_weights import Codes, Weighted, absorb
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.asks import Marginals, Rounds, Total
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, Remark, register
from dpsql.mechanisms.costs import BASE_BYTES, SCORED_SECONDS, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.mwem.asking import ask
from dpsql.mechanisms.one_way_start import singles
from dpsql.mechanisms.threshold_queries import refuse_thresholds
from dpsql.mechanisms.walk import Walk
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.runtime.progress import Progress

_MEND: Final = "give a prior that has some, or say mechanism := 'ide', reach := 'cells'"
_QUERIES: Final = ("marginals", "cells")
_OUTPUTS: Final = ("last", "average")
_STARTS: Final = ("mixture", "prior")
_CELL_ROUNDS: Final = 4  # for each column, as of `mwem`
_TOTAL_SHARE: Final = Fraction(1, 100)
_FIRST: Final = Fraction(1, 5)  # of ρ, for the 1-way marginals
_MIXTURES: Final = (0.0, 0.03, 0.1, 0.3, 1.0)
_MOST_SCORED: Final = 100_000_000
_USUAL_SUPPORT: Final = 10_000
_ROW_BYTES: Final = 16
_ROW_SECONDS: Final = 1e-7  # of an update
_MOST_ROWS: Final = 1_000_000


@register("pmwpub", when="a public table that has the rows that occur, and little budget")
@dataclass(frozen=True)
class PMWPub(Mechanism):
    """Multiplicative weights on the rows of a public table (Liu et al. 2021).

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge: one `measure` of the 1-way marginals with ρ/5 in all (with
    start := 'prior' `total` with ρ/100 instead, where the number of rows is private), then T times `select_marginals`
    and `measure`, or `select_cells` and `measure_cells`, with equal shares of the rest. Sensitivity of a marginal's L1
    score 1 (add_remove) or 2 (replace_one); L2 of a marginal 1 or √2; of a cell and its score 1. The prior is public.

    Attributes:
        rounds: T, or 'auto': one for each column, no more than there are marginals; four for each column with cells.
        passes: over all measurements in each round; more of them fit the noise too. Of cells 1 uses the newest only.
        copies: how many rows each row of the prior becomes, where it lacks columns.
        queries: 'marginals', or single 'cells' as in the paper.
        output: the 'last' distribution, or the 'average' of all rounds as in the paper.
        start: 'mixture' of the prior and even weights, by noisy 1-way marginals; or the 'prior', as in the paper.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    takes_prior = True
    needs_prior = True
    rounds: int | str = "auto"
    passes: int = 1
    copies: int = 20
    queries: str = field(default="marginals", metadata=LATER)
    output: str = field(default="last", metadata=LATER)
    start: str = field(default="mixture", metadata=LATER)

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`."""
        return {"queries": "cells", "output": "average", "start": "prior"}

    @property
    def uses_earlier(self) -> bool:  # type: ignore[override]
        """See `Mechanism.uses_earlier`: not where it starts from the prior as it is."""
        return self.start == "mixture"

    def __post_init__(self) -> None:
        """Check the options."""
        check_rounds(self.rounds)
        check_range("passes", self.passes, 1, 10_000)
        check_range("copies", self.copies, 1, 1_000)
        for name, words in (("queries", _QUERIES), ("output", _OUTPUTS), ("start", _STARTS)):
            check_word(name, getattr(self, name), words)

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: T rounds, after the 1-way marginals of the mixture, which tell the number of rows."""
        domain, workload = facts.domain, facts.workload
        rounds, whole = self._rounds(domain, workload), self.queries == "marginals"
        first = Marginals(_FIRST, singles(domain, "marginals"))
        return Course.in_turn(
            facts,
            GAUSSIAN,
            first if self.start == "mixture" else Total.of(facts, _TOTAL_SHARE),
            Rounds(
                Fraction(1),
                rounds,
                cells=max(map(domain.size, workload.cliques), default=0) if whole else rounds,
                whole=whole,
                open="selected marginals, at most" if whole else "selected cells",
                note=f"{rounds} rounds, each selects one and measures it",
            ),
        )

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        refuse_thresholds(self.name, workload)
        cells = sum(domain.size(clique) for clique in workload.cliques)
        if cells > _MOST_SCORED:
            raise DomainTooLarge(f"the workload has {cells:.3g} cells, too many for pmwpub to score: ask for fewer")
        by_marginal = self.queries == "marginals" and isinstance(self.rounds, int)
        if by_marginal and self._rounds(domain, workload) > len(workload.cliques):
            raise InvalidArgument(
                f"rounds is {self.rounds}, the workload has {len(workload.cliques)} marginals, each is selected once"
            )

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: of the most rows that a prior may have here, which is not known before."""
        largest = max(map(domain.size, workload.cliques), default=0)
        return BASE_BYTES + 24 * largest + _ROW_BYTES * len(domain) * _USUAL_SUPPORT

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: of a prior of a usual size."""
        rounds = self._rounds(domain, workload)
        scored = rounds * sum(map(domain.size, workload.cliques)) / (2 if self.queries == "marginals" else 1)
        each = 1 if self.queries == "cells" and self.passes == 1 else self.passes * (len(domain) + rounds / 2)
        updates = rounds * each
        return base_seconds(rows) + SCORED_SECONDS * scored + _ROW_SECONDS * _USUAL_SUPPORT * updates

    def remarks_on(self, prior: Prior, domain: Domain, workload: Workload) -> Sequence[Remark]:
        """See `Mechanism.remarks_on`: which values it lacks."""
        return [Remark("prior", words) for words in reach_words(prior, domain, workload.cliques, _MEND)]

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        domain, workload, curator, prior = walk.domain, walk.workload, walk.curator, walk.curator.prior
        if prior is None:
            raise InvalidArgument("mechanism 'pmwpub' starts from a public table: give prior := 'its name'")
        codes, weights = support_of(prior, domain, seed, self.copies)
        mixture, now, earlier = None, Weighted(domain, codes, weights), list[Measurement]()
        if self.start == "prior":
            measured: list[Measurement] = []
            targets, total = list[Target](), best_total(targets_of([walk.total()]))
        else:
            measured = walk.marginals()
            earlier = usable(curator.earlier, measured, domain, _MOST_SCORED)
            targets = targets_of([*measured, *earlier])
            total = best_total([*public_total(curator), *targets])
            mixture, now = _mixed(domain, codes, weights, measured, total)
        now, fresh = self._adapt(walk, now, targets, total, progress)
        measured += fresh
        model = WeightedRows(domain, now.codes, now.weights, total)
        report: dict[str, Any] = {
            "rounds": self._rounds(domain, workload),
            "total": round(total),
            "support": len(codes),
            **({} if mixture is None else {"uniform_part": mixture}),
            **({"marginals": len(measured)} if self.queries == "marginals" else {}),
            **reused(earlier),
            **reach_report(domain, codes, model.project, targets_of(measured), total, _MEND),
        }
        return Outcome(model, report)

    def _adapt(
        self, walk: Walk, now: Weighted, targets: Sequence[Target], total: float, progress: Progress
    ) -> tuple[Weighted, list[Measurement]]:
        """The last distribution, or the average of those of all rounds; and what was measured on the way."""
        domain, workload, whole = walk.domain, walk.workload, self.queries == "marginals"
        left, history = list(workload.cliques), list(targets)
        rounds, fresh, sums = self._rounds(domain, workload), list[Measurement](), np.zeros(len(now.weights))
        progress.rounds("multiplicative weights", rounds)
        for _ in range(rounds):
            answered = ask(walk, now, left, total, whole=whole, penalised=True)
            if whole:
                left.remove(answered[0].clique)
            fresh += answered
            history += targets_of(answered)
            newest = not whole and self.passes == 1
            now = absorb(now, targets_of(answered) if newest else history, total, self.passes, progress)
            sums += now.weights
            progress.round_done()
        return (Weighted(domain, now.codes, sums / rounds) if self.output == "average" else now), fresh

    def _rounds(self, domain: Domain, workload: Workload) -> int:
        if isinstance(self.rounds, int):
            return self.rounds
        return _CELL_ROUNDS * len(domain) if self.queries == "cells" else min(len(domain), len(workload.cliques))


def support_of(prior: Prior, domain: Domain, seed: int, copies: int) -> tuple[Codes, npt.NDArray[np.float64]]:
    """The rows of a prior over all columns, and their probabilities; the heaviest ones where there are too many."""
    codes, parents = prior.completed(domain, np.random.default_rng(seed), copies)
    weights = prior.weights[parents]
    if len(codes) > _MOST_ROWS:
        rows = np.sort(np.argsort(-weights, kind="stable")[:_MOST_ROWS])
        codes, weights = codes[rows], weights[rows]
    return codes, weights / weights.sum()


def _mixed(
    domain: Domain, codes: Codes, weights: npt.NDArray[np.float64], measured: Sequence[Measurement], total: float
) -> tuple[float, Weighted]:
    """The mixture of the prior and the uniform weights on its rows that is nearest to the noisy 1-way marginals."""
    mixtures = []
    for part in _MIXTURES:
        mixed = Weighted(domain, codes, (1 - part) * weights + part / len(weights))
        gap = sum(float(np.sum((total * mixed.project(m.clique) - m.values) ** 2) / m.variance) for m in measured)
        mixtures.append((gap, part, mixed))
    _, part, mixed = min(mixtures, key=lambda entry: entry[0])
    return part, mixed
