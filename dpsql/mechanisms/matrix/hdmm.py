r"""Select, measure, reconstruct: the strategy of marginals with the least expected squared error.

    select       shares ρ_S of the workload's subsets that minimise Σ_U v_U/p_U(ρ)   (`dpsql.fitting.least_squares`)
    measure      y_S = M_S(D) + N_Z(0, Δ²/2ρ_S + 1/8)
    reconstruct  a relaxed table fitted to the y_S, or to their least-squares answers to the workload; or the graphical
                 model of largest entropy (HDMM + PGM), where its junction tree is small enough

With Laplace noise the shares are of ε, ε_S, for pure ε (`dpsql.fitting.laplace_strategy`): y_S = M_S(D) + Lap(Δ₁/ε_S).

The strategy depends on the workload and the domain only. It is best for answers that may be negative: it knows nothing
of sparse tables, so `projection`'s rule, which does, is nearer on real ones.

Source: McKenna, Miklau, Hay, Machanavajjhala 2018 (HDMM); McKenna, Sheldon, Miklau 2019 (HDMM + PGM).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import combined, light, public_total, reused, usable
from dpsql.evidence.occupied import Occupied, occupied
from dpsql.evidence.public_prior import fit_marginals_with_prior
from dpsql.fitting.graph.fit_graph import fit_graph
from dpsql.fitting.laplace_strategy import best_laplace_strategy
from dpsql.fitting.least_squares import best_strategy
from dpsql.fitting.relaxed.settings import RELAXED_ROWS, Settings, best_total, fitting_seconds
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.asks import Marginals, Open
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.graph.fits import check_graph, graph_bytes, graph_report, graph_seconds, within_tree
from dpsql.mechanisms.matrix.direct import check_additions, check_fit, consistent_bytes, fit_consistent
from dpsql.mechanisms.threshold_queries import refuse_thresholds
from dpsql.mechanisms.walk import Walk
from dpsql.models.fitness import Fitness
from dpsql.models.graph import GraphModel
from dpsql.models.relaxed import RelaxedModel, fit_report
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE, Distribution, find_noise, noise_names
from dpsql.runtime.progress import Progress

_RECONSTRUCTIONS: Final = ("projection", "least_squares", "pgm")
_DIGITS: Final = 10**6
_ROUNDED: Final = 1e-9
_MOST_CELLS: Final = 5_000_000
_MOST_PAIRS: Final = 2_000_000


@register("hdmm", when="a comparison of strategies")
@dataclass(frozen=True)
class HDMM(Mechanism):
    """Measure the marginals of least expected squared error (McKenna et al. 2018), then reconstruct.

    Privacy: ρ-zCDP and Gaussian DP of g = ρ for the table's neighbours, ρ the charge: one `measure` whose shares add up
    to ρ. Gaussian noise of σ² = Δ₂²/2ρ_S + 1/8, Δ₂² = c² (add_remove; c rows of a privacy unit, else 1) or 2
    (replace_one). noise := 'laplace' is ε-DP: the shares are ε_S, which add up to ε, of scale Δ₁/ε_S, Δ₁ = c or 2.

    Attributes:
        reconstruct: 'projection' fits the measured marginals; 'least_squares' the workload's least-squares answers;
            'pgm' fits a graphical model (`pip install 'dpsql[pgm]'`) if its junction tree has at most model_mb.
        max_cells: larger marginals are no candidates.
        relaxed_rows: n′, rows of the relaxed table.
        steps: of the fit.
        noise: 'gaussian', or 'laplace' for pure ε.
        model_mb: of reconstruct := 'pgm': the largest junction tree, in megabytes at 8 bytes a cell.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    uses_earlier = True
    reconstruct: str = "projection"
    max_cells: int = 1_000_000
    relaxed_rows: int = RELAXED_ROWS
    steps: int = 500
    noise: str = field(default=GAUSSIAN.name, metadata=LATER)
    model_mb: int = field(default=20, metadata=LATER)

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`: the noise that can keep a pure promise."""
        return {"noise": LAPLACE.name} if pure else {}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("reconstruct", self.reconstruct, _RECONSTRUCTIONS)
        check_word("noise", self.noise, noise_names())
        check_range("model_mb", self.model_mb, 1, 100_000)
        check_range("max_cells", self.max_cells, 2, 10_000_000)
        check_range("relaxed_rows", self.relaxed_rows, 1, 100_000)
        check_range("steps", self.steps, 1, 100_000)

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: the marginals of least error; which they are is no matter for a price in ρ."""
        if self.distribution.pure:
            refuse_thresholds(self.name, facts.workload, "lp")  # there may be no marginals to share ε
        elif facts.rho is None:
            return Course(facts, self.distribution, (Open(Fraction(1)),))
        cliques, weights = zip(*self._strategy(facts.domain, facts.workload), strict=True)
        return Course(facts, self.distribution, (Marginals(Fraction(1), cliques, weights),))

    @property
    def distribution(self) -> Distribution:
        """The noise."""
        return find_noise(self.noise)

    @property
    def takes_prior(self) -> bool:  # type: ignore[override]
        """See `Mechanism.takes_prior`: a graphical model takes none."""
        return self.reconstruct != "pgm"

    def _strategy(self, domain: Domain, workload: Workload) -> list[tuple[Clique, Fraction]]:
        """The marginals, each with its part of ε or of ρ."""
        return optimised_shares(domain.inner, workload, Fraction(1), self.max_cells, self.distribution)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        refuse_thresholds(self.name, workload, "lp" if self.distribution.pure else "projection")
        check_fit(domain, workload.cliques, self.relaxed_rows, self.name)
        if self.reconstruct == "pgm":
            check_graph(domain, [clique for clique, _ in self._strategy(domain, workload)], self.model_mb)
        if self.reconstruct == "least_squares":
            shares = self._strategy(domain, workload)
            check_additions(domain, [clique for clique, _ in shares], self.name)
        else:
            _candidates(domain.inner, workload, self.max_cells)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`."""
        cells = sum(domain.size(clique) for clique, _ in self._strategy(domain, workload))
        if self.reconstruct == "pgm":
            return graph_bytes(self.model_mb) + 40 * cells
        return consistent_bytes(domain, self.relaxed_rows, cells)

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float | None:
        """See `Mechanism.duration`."""
        if self.reconstruct == "pgm":
            return graph_seconds(domain, self.model_mb, self.steps, rows)
        cells = sum(domain.size(clique) for clique, _ in self._strategy(domain, workload))
        return fitting_seconds(domain, float(self.relaxed_rows * self.steps), rows, cells)

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        workload, curator = walk.workload, walk.curator
        measured = curator.measure(self._shares_of(walk), self.distribution)
        held = occupied(walk.domain, measured)
        domain, measured = held.domain, held.measurements(measured)
        if self.reconstruct == "pgm":
            return self._graph(curator, held, measured, progress)
        facts = held.side_facts(curator.prior)
        earlier = usable(held.measurements(curator.earlier), measured, domain, self.max_cells, room=_MOST_CELLS)
        if self.reconstruct == "least_squares":
            earlier = light(domain, measured, earlier)
        evidence = combined(measured, earlier)
        total = best_total([*public_total(curator), *evidence])
        settings = Settings(rows=self.relaxed_rows, steps=self.steps)
        if self.reconstruct == "least_squares":
            fit, prior_report = fit_consistent(facts, evidence, workload, total, settings, seed, progress)
        else:
            fit, prior_report = fit_marginals_with_prior(
                facts, workload, evidence, total, settings, self.max_cells, seed, progress
            )
        least_squares = self.reconstruct == "least_squares"
        against = Fitness.of(RelaxedModel(fit.model), measured) if least_squares else None
        targets = tuple(sorted({*(m.clique for m in measured), *workload.cliques}))
        report: dict[str, Any] = {
            "marginals": len(measured),
            "total": round(total),
            **reused(earlier),
            **prior_report,
            **fit_report(fit, against),
        }
        return Outcome(held.model(RelaxedModel(fit.model, targets)), report)

    def _shares_of(self, walk: Walk) -> list[tuple[Clique, Fraction]]:
        """The marginals to measure with their ρ: those of the run that was killed, or within what is left of a pure ε.

        The best shares under Laplace noise come from a descent whose last digits another processor may find otherwise,
        so a run that goes on there must neither ask something else nor more than was charged.
        """
        begun = [
            (clique, share) for clique, share in walk.curator.begun() if share
        ]  # a public total is free, and comes later
        if begun:
            return begun
        shares, left = walk.requests(), walk.curator.remaining_pure
        needed = sum(math.sqrt(2 * share) for _, share in shares)
        if left is None or needed <= float(left) * (1 + _ROUNDED):
            return shares
        smaller = Fraction((float(left) / needed) ** 2 * (1 - _ROUNDED))
        return [(clique, share * smaller) for clique, share in shares]

    def _graph(self, curator: Curator, held: Occupied, measured: Sequence[Measurement], progress: Progress) -> Outcome:
        """HDMM + PGM."""
        free = within_tree(held, measured, curator.earlier, self.max_cells)
        total = best_total([*public_total(curator), *targets_of([*measured, *free])])
        fit = fit_graph(held.domain, targets_of([*measured, *free]), total, self.steps, progress)
        cells = sum(len(m.values) for m in measured)
        report = {"marginals": len(measured), "total": round(total), **reused(free), **graph_report(fit, cells)}
        return Outcome(held.model(GraphModel(fit.tree, total)), report)


def optimised_shares(
    domain: Domain, workload: Workload, rho: Fraction, max_cells: int, noise: Distribution = GAUSSIAN
) -> list[tuple[Clique, Fraction]]:
    """The marginals worth measuring for a workload's squared error, with their shares; they add up to ρ.

    With noise that proves a pure ε the shares are of ε, and `rho` is ε.

    The workload's marginals of more than `max_cells` cells are answered through their subsets; every 1-way marginal is
    measured a little, for rows need it.

    Raises:
        DomainTooLarge: there are too many subsets to be weighed.
    """
    weights = _weights(domain, workload, max_cells, pure=noise.pure)
    whole = sum(weight for _, weight in weights)
    return [(clique, rho * weight / whole) for clique, weight in weights if weight]


@lru_cache(maxsize=4)
def _weights(domain: Domain, workload: Workload, max_cells: int, *, pure: bool) -> tuple[tuple[Clique, int], ...]:
    """The weights of `optimised_shares`: a plan, its seconds and the release ask for the same ones."""
    closure = _candidates(domain, workload, max_cells)
    held = set(closure)
    wanted = [clique for clique in workload.needed if clique in held] or closure
    strategy = (best_laplace_strategy if pure else best_strategy)(domain, wanted, closure)
    weights = {clique: round(_DIGITS * float(share)) for clique, share in zip(closure, strategy, strict=True)}
    for clique in closure:
        if len(clique) == 1:
            weights[clique] = max(weights[clique], _DIGITS // (20 * len(closure)))
    return tuple(weights.items())


def _candidates(domain: Domain, workload: Workload, max_cells: int) -> list[Clique]:
    """The marginals that may be measured; refuses too many, see `optimised_shares`."""
    closure = [clique for clique in workload.closure() if len(clique) == 1 or domain.size(clique) <= max_cells]
    pairs = sum(2 ** len(clique) for clique in closure)
    if pairs > _MOST_PAIRS:
        raise DomainTooLarge(
            f"hdmm weighs every subset of the workload's marginals by what it tells of its own subsets, {pairs:.3g} "
            f"pairs, more than {_MOST_PAIRS:.3g}: ask for marginals of fewer columns"
        )
    return closure
