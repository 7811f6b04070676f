r"""Barak et al.: a density on the whole domain, nearest to noisy marginals, by linear programming.

    h* = argmin over densities h on Ω of  max_f |Σ_x f(x)·h(x) − ã_f|

`dpsql.mechanisms.reduced_space.lp` with Ω* = Ω. The table itself is a density on Ω, so no cell of h* is
farther from the truth than twice the largest noise. The program has one variable for each record of the domain: for
small domains only.

With `queries := 'fourier'` the f are the Fourier coefficients of the marginals, as the paper measures them, and with
`rounding := 'nearest'` the weights are whole: see `dpsql.mechanisms.reduced_space.fourier`. By default the cells are
measured, all of a marginal at the price of one, which errs less.

Source: Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007, Privacy, accuracy, and consistency too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from dpsql.core.arguments import check_word
from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.occupied import Widened, occupied
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.linear_program import Codes, nearest_density, statistics
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.base import LATER, Outcome, Remark, register
from dpsql.mechanisms.cell_queries import workload_words
from dpsql.mechanisms.costs import BASE_BYTES, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.reduced_space.fourier import (
    Coefficients,
    check_coefficients,
    coefficient_stddev,
    count_of,
    course_of,
    nearest_whole,
    one_way,
)
from dpsql.mechanisms.reduced_space.lp import all_points, whole_promise
from dpsql.mechanisms.reduced_space.space import NOT_PROVEN, ReducedSpace, functions, unsolved
from dpsql.mechanisms.walk import Walk
from dpsql.models.weighted_rows import WeightedRows
from dpsql.runtime.progress import Progress

MOST_RECORDS: Final = 5_000
_FOURIER: Final = "fourier"
_NEAREST: Final = "nearest"
_STEP_SECONDS: Final = 4e-10
_COEFFICIENT_SECONDS: Final = 1e-3
_ENTRY_BYTES: Final = 450


@register("barak", when="small domains, at most 5,000 records")
@dataclass(frozen=True)
class Barak(ReducedSpace):
    """Weight every record of a small domain by linear programming (Barak et al. 2007) to meet noisy marginals.

    Privacy: ε-DP for noise 'laplace', and ρ-zCDP with ρ = Q·ε²/2; ρ-zCDP and Gaussian DP of g = ρ for 'gaussian'; for
    the table's neighbours. Δ₁ = c, Δ₂² = c² (add_remove; c rows of a privacy unit, else 1) or 2 (replace_one) for each
    marginal. The questions, by their parts of ε (laplace: ρ·s²/Σs² for a part s) or of ρ (gaussian): `total`
    (add_remove only, 1/20) and one `measure` of the workload's marginals (the rest, the same for each). With queries
    'fourier': `total` (add_remove only, 1/|B|) and one `measure_linear_families` of the other coefficients (the rest);
    of all of them together Δ₁ = c·(|B| − 1), Δ₂² = c²·(|B| − 1) (add_remove), or at most 2(|B| − 1), 4(|B| − 1)
    (replace_one).

    Attributes:
        noise: 'laplace' for pure epsilon, 'gaussian' for (epsilon, delta).
        objective: 'max', the largest error of a cell or threshold; or 'l1', the sum of errors, which is slower.
        seconds: for the linear program; after them the best density found is taken. An interrupted solver ends by
            itself within them.
        gamma: γ of the accuracy that the plan states.
        bootstrap: draw rows independently, and not each record as often as its weight says.
        queries: 'marginals', whose cells are measured, all of a marginal at the price of one; or the 'fourier'
            coefficients, each at a price of its own as in the paper. Columns are written in bits for it.
        rounding: 'draw', weights become whole when rows are drawn; or 'nearest', they are rounded as in the paper, and
            so many rows are drawn where the number of rows is private.

    Raises:
        InvalidArgument: an option is out of its range.
        DomainTooLarge: the domain has more than 5,000 records, or the coefficients are too many for a dense program.
    """

    queries: str = field(default="marginals", metadata=LATER)
    rounding: str = field(default="draw", metadata=LATER)

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_word("queries", self.queries, (_FOURIER, "marginals"))
        check_word("rounding", self.rounding, ("draw", _NEAREST))
        object.__setattr__(self, "uses_earlier", not self._by_coefficient)

    @property
    def _by_coefficient(self) -> bool:
        return self.queries == _FOURIER

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`."""
        return {"queries": _FOURIER, "rounding": _NEAREST}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: cells, and weights as they are."""
        return {}

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`; coefficients are listed one by one, so too many of them are refused here already."""
        if not self._by_coefficient:
            return super().course(facts)
        self.check(facts.domain, facts.workload, facts.neighbours)
        return course_of(facts, self._noise)

    @property
    def one_way_share(self) -> Fraction:
        """No reduced space is drawn."""
        return Fraction(0)

    def most_points(self, domain: Domain, workload: Workload, noise: float | None = None) -> int:
        """All records."""
        return domain.size(domain.names)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse a domain that is too large to be enumerated."""
        records = self.most_points(domain, workload)
        if records > MOST_RECORDS:
            raise DomainTooLarge(
                f"the domain of {len(domain)} columns has {records:.3g} records, barak weights every one of at most "
                f"{MOST_RECORDS}: ask for fewer columns, or say mechanism := 'lp'"
            )
        if self._by_coefficient:
            check_coefficients(domain, workload, records)
        else:
            super().check(domain, workload, neighbours)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`."""
        if not self._by_coefficient:
            return super().footprint(domain, workload)
        return BASE_BYTES + _ENTRY_BYTES * count_of(domain, workload) * self.most_points(domain, workload)

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: by trials with 6 to 12 bits, the cube of the coefficients for each record."""
        if not self._by_coefficient:
            return super().duration(domain, workload, rows, rho)
        count, records = count_of(domain, workload), self.most_points(domain, workload)
        program = _STEP_SECONDS * count**3 * records + _COEFFICIENT_SECONDS * count
        return base_seconds(rows) + min(self.seconds, program)

    def remarks(self, course: Course) -> Sequence[Remark]:
        """See `Mechanism.remarks`: what follows for the cells of the marginals, of the largest error."""
        if not self._by_coefficient:
            return super().remarks(course)
        if self.objective != "max":
            return [Remark("promise", NOT_PROVEN)]
        (ask,), rows = course.of(Coefficients), max(1.0, course.facts.about)
        stddev = coefficient_stddev(course.facts, ask.families, course.cost(ask.share), self._noise)
        noise = stddev * self._noise.reach(self.gamma / len(ask.families)) / rows
        sampling = math.sqrt(math.log(functions(course.facts.domain, course.facts.workload) / self.gamma) / rows)
        promise = whole_promise("cells", noise, sampling, self.gamma)
        return [Remark("promise", f"{promise}; the noise is that of {len(ask.families)} Fourier coefficients")]

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        outcome = self._fit_coefficients(walk, progress) if self._by_coefficient else super().fit(walk, seed, progress)
        return outcome if self.rounding != _NEAREST else _whole(outcome)

    def _fit_coefficients(self, walk: Walk, progress: Progress) -> Outcome:
        """The density on all records that is nearest to the noisy coefficients."""
        total, measured = walk.total(), walk.linear()
        rows = best_total([Target.of(total)])
        held = occupied(walk.domain, one_way(walk.domain, total, measured))
        points = all_points(held.domain)
        facts = statistics(held.domain, points, targets_of(held.measurements(measured)), rows)
        progress.stage("solving the linear program")
        density = nearest_density(facts, self.objective, self.seconds, progress)
        report: dict[str, Any] = {
            "coefficients": len(measured) + 1,
            "total": round(rows),
            "points": len(points),
            "error": round(density.error, 6),
            "least_error": round(density.bound, 6),
            "programs": density.rounds,
            "sums": {answer.linear.digest: answer.linear.named() for answer in measured if answer.linear is not None},
        }
        if not density.optimal:
            report["warning"] = unsolved(density, self.seconds)
        return Outcome(held.model(WeightedRows(held.domain, points, density.weights, rows, self.bootstrap)), report)

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
        """See `ReducedSpace.points_of`."""
        return all_points(domain), "all of the domain"

    def promise(self, domain: Domain, workload: Workload, neighbours: Neighbours, noise: float, rows: float) -> str:
        """See `ReducedSpace.promise`."""
        sampling = math.sqrt(math.log(functions(domain, workload) / self.gamma) / max(1.0, rows))
        return whole_promise(workload_words(workload), noise, sampling, self.gamma)


def _whole(outcome: Outcome) -> Outcome:
    """The same with weights that are whole numbers of rows."""
    model, held = outcome.model, None
    if isinstance(model, Widened):
        held, model = model.held, model.inner
    assert isinstance(model, WeightedRows)
    weights = nearest_whole(model.weights, model.total)
    whole = replace(model, weights=weights / weights.sum(), total=float(weights.sum()))
    report = {**outcome.report, "rounded": round(whole.total)}
    return Outcome(whole if held is None else held.model(whole), report)
