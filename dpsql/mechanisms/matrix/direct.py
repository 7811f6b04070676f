r"""Direct answers: noise on every marginal of the workload, made consistent and non-negative.

    y_S = M_S(D) + noise, each of the k marginals with ρ/k (Gaussian) or ε/k (Laplace)
    y_q = q(D) + noise, the linear queries at once, with noise that is to their largest weight what a cell's is to 1
    consistent: the least-squares estimate from all of them (`dpsql.fitting.least_squares`), with a public prior as
                far as it is near (`dpsql.evidence.public_prior`)
    non-negative: a relaxed table fitted to it, and to the y_q, from which the rows are drawn

What to compare the others with: no marginal is chosen, no budget goes to smaller ones. The noisy marginals are in
`dp_measurements`, and the y_q in the report; the consistent ones are what the fit gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import agreeing, combined, light, public_total, reused, usable
from dpsql.evidence.occupied import SideFacts, occupied
from dpsql.evidence.public_prior import fit_with_prior
from dpsql.fitting.least_squares import MOST_ADDED, Estimate, additions, least_squares
from dpsql.fitting.relaxed.settings import RELAXED_ROWS, Fit, Settings, best_total, fitting_bytes, fitting_seconds
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.asks import Linear, Marginals, Total
from dpsql.mechanisms.base import Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.linear_queries import linear_part, linear_seconds
from dpsql.mechanisms.threshold_queries import refuse_thresholds
from dpsql.mechanisms.walk import Walk
from dpsql.models.fitness import Fitness
from dpsql.models.relaxed import RelaxedModel, fit_report
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE, Distribution, find_noise, noise_names
from dpsql.runtime.memory import in_words, machine_memory
from dpsql.runtime.progress import Progress

_TOTAL_PART: Final = Fraction(1, 20)  # where there are linear queries alone, which do not tell the number of rows
_MOST_CELLS: Final = 5_000_000
_ESTIMATE_BYTES: Final = 200_000_000
_ESTIMATED_BYTES: Final = 80  # of a cell


@register("direct", when="few or small marginals of the same weight; the smallest error of single cells")
@dataclass(frozen=True)
class Direct(Mechanism):
    """Noise on every marginal of the workload, made consistent and non-negative, then a relaxed table fitted to them.

    Privacy: with Gaussian noise ρ-zCDP and Gaussian DP of g = ρ, with Laplace noise ε-DP (pure, ε²/2k-zCDP), for the
    table's neighbours: one `measure` of the k marginals with equal shares. Sensitivity of a marginal: L1 c, 1 without
    privacy units (add_remove) or 2 (replace_one), L2 1 or √2. Linear queries are one `measure_linear_families`, whose
    sensitivity `dpsql.core.linear_family` says; they take Δ^p shares of a marginal. Without marginals one `total`.

    Attributes:
        noise: 'gaussian', or 'laplace' for pure ε.
        relaxed_rows: n′, rows of the relaxed table.
        steps: of the fit.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    takes_prior = True
    uses_earlier = True
    takes_linear = True
    noise: str = GAUSSIAN.name
    relaxed_rows: int = RELAXED_ROWS
    steps: int = 500

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`: the noise that can keep a pure promise."""
        return {"noise": LAPLACE.name} if pure else {}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("noise", self.noise, noise_names())
        check_range("relaxed_rows", self.relaxed_rows, 1, 100_000)
        check_range("steps", self.steps, 1, 100_000)

    @property
    def _noise(self) -> Distribution:
        return find_noise(self.noise)

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: equal shares of marginals; linear queries get as much noise by theirs."""
        workload, noise = facts.workload, self._noise
        if noise.pure:
            self._refuse_thresholds(workload)  # there may be no marginals to share ε
        linear = linear_part(facts.domain, workload.linear, facts.neighbours, noise)
        total = Total.of(facts, Fraction(0) if workload.cliques else _TOTAL_PART)
        each, count = (1 - total.share) / (len(workload.cliques) + linear or 1), len(workload.cliques)
        before = () if workload.cliques else (total,)
        return Course(
            facts, noise, (*before, Marginals(each * count, workload.cliques), Linear(each * linear, workload.linear))
        )

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        self._refuse_thresholds(workload)
        workload.check_subsets()
        check_fit(domain, workload.cliques, self.relaxed_rows, self.name, workload.linear_cells)
        check_additions(domain, workload.cliques, self.name)

    def _refuse_thresholds(self, workload: Workload) -> None:
        refuse_thresholds(self.name, workload, "lp" if self._noise.pure else "projection")

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`."""
        cells = sum(map(domain.size, workload.cliques)) + workload.linear_cells
        return consistent_bytes(domain, self.relaxed_rows, cells)

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float | None:
        """See `Mechanism.duration`."""
        work = float(self.relaxed_rows * self.steps)
        cells = sum(map(domain.size, workload.cliques))
        return fitting_seconds(domain, work, rows, cells) + linear_seconds(workload, work)

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        workload, curator = walk.workload, walk.curator
        total_known = [] if workload.cliques else [walk.total()]
        measured, linear = walk.marginals(), walk.linear()
        held = occupied(curator.domain, measured or agreeing(total_known, curator.earlier))
        measured, linear = held.measurements(measured), held.measurements(linear)
        earlier = usable(held.measurements(curator.earlier), measured, held.domain, _MOST_CELLS, room=_MOST_CELLS)
        earlier = light(held.domain, measured, earlier)
        targets = combined(measured, earlier)
        total = best_total([*public_total(curator), *targets_of(total_known), *targets])
        settings = Settings(rows=self.relaxed_rows, steps=self.steps)
        fit, prior_report = fit_consistent(
            held.side_facts(curator.prior), targets, workload, total, settings, seed, progress, targets_of(linear)
        )
        model = RelaxedModel(fit.model, (*workload.cliques, *dict.fromkeys(m.clique for m in linear)))
        report = {
            "marginals": len(measured),
            "total": round(total),
            **reused(earlier),
            **prior_report,
            **fit_report(fit, Fitness.of(model, [*measured, *linear])),
        }
        return Outcome(held.model(model), report)


def consistent_bytes(domain: Domain, relaxed_rows: int, cells: int) -> int:
    """About how many bytes a release takes that makes so many cells consistent, and fits every one."""
    return fitting_bytes(domain, relaxed_rows, cells) + _ESTIMATE_BYTES + _ESTIMATED_BYTES * cells


def check_fit(domain: Domain, cliques: Sequence[Clique], relaxed_rows: int, name: str, further: int = 0) -> None:
    """Refuse marginals that are too large to be measured and fitted whole, beside so many further cells.

    Raises:
        DomainTooLarge: too many cells, or more memory than the machine has.
    """
    cells = sum(domain.size(clique) for clique in cliques) + further
    if cells > _MOST_CELLS:
        raise DomainTooLarge(
            f"{name} measures every marginal whole, {cells:.3g} cells, more than {_MOST_CELLS:.3g}: ask for smaller "
            "marginals, or say mechanism := 'projection', which measures subsets of the large ones"
        )
    needed, limit = fitting_bytes(domain, relaxed_rows, cells), machine_memory()
    if needed > limit:
        raise DomainTooLarge(
            f"the fit needs about {in_words(needed)} of memory, {in_words(limit)} may be taken: give fewer relaxed_rows"
        )


def check_additions(domain: Domain, cliques: Sequence[Clique], name: str) -> None:
    """Refuse marginals of so many columns that their least-squares estimate would take too long.

    Raises:
        DomainTooLarge: they are.
    """
    added, columns = additions(domain, cliques), max(map(len, cliques), default=0)
    if added > MOST_ADDED:
        raise DomainTooLarge(
            f"{name} makes all subsets of its marginals of up to {columns} columns consistent, which adds up "
            f"{added:.3g} numbers, more than {MOST_ADDED:.3g}: ask for marginals of fewer columns"
        )


def fit_consistent(
    facts: SideFacts,
    targets: Sequence[Target],
    workload: Workload,
    total: float,
    settings: Settings,
    seed: int,
    progress: Progress,
    linear: Sequence[Target] = (),
) -> tuple[Fit, dict[str, Any]]:
    """A relaxed table near the least-squares estimate from measurements, and a prior where there is one.

    It is fitted to the estimate's 1-way marginals and the workload's, by their variances, and to linear queries.

    Returns:
        The fit, and what to report of the prior.
    """
    from dpsql.fitting.relaxed.fit_marginals import fit_marginals  # loads JAX

    domain, cliques = facts.domain, workload.closure()
    if linear:  # of columns that no marginal tells of earlier releases may have told
        cliques = tuple(dict.fromkeys((*cliques, *((name,) for target in linear for name in target.clique))))
    wanted = [clique for clique in cliques if len(clique) == 1 or clique in workload.cliques]

    def last(marginals: Sequence[Target]) -> Fit:
        selection = [measured for measured in marginals if measured.clique in set(wanted)]
        return fit_marginals(domain, [*selection, *linear], total, settings, seed, progress)

    def fit(marginals: Sequence[Target]) -> Fit:
        return last(_targets(domain, least_squares(domain, marginals), wanted))

    return fit_with_prior(
        facts, cliques, targets, fit, last, total=total, max_cells=_MOST_CELLS, seed=seed, progress=progress
    )


def _targets(domain: Domain, estimate: Estimate, wanted: Sequence[Clique]) -> list[Target]:
    """An estimate's marginals, each as if it had been measured with the estimate's variance."""
    targets = []
    for clique in wanted:
        if estimate.covers(clique):
            variance = estimate.variance(clique)
            targets.append(Target(clique, domain.shape(clique), estimate.answer(clique), variance, 1 / (2 * variance)))
    return targets
