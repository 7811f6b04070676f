r"""LP: a density on a reduced space whose answers are as near as possible to noisy ones.

    Ω* = {z_1 … z_m}    drawn from a known measure μ: uniform, a public prior, or a product of noisy 1-way marginals
    ã_f                 noisy fractions of all cells f of the workload's k marginals, Laplace of scale b = Δ₁/ε_f
                        of thresholds f what noisy marginals tell of them (`dpsql.mechanisms.threshold_queries`)
                        of linear queries f, divided by their largest weight, noisy answers of their own
    h*                  = argmin over densities h on Ω* of  max_f |Σ_i f(z_i)·h_i − ã_f|, a linear program
    Y                   rows drawn from h*; for linear queries alone from the h that is as near to them, and nearest to
                        the 1-way marginals that the points are drawn from (`dpsql.mechanisms.reduced_space.settling`)

`dpsql.mechanisms.reduced_space.space` says how the questions share ε.

Theorem 2.3. Let |F| count the cells and the constant 1, noise of at most δ on all of them with probability 1 − γ (for
Laplace noise δ = (b/n)·ln(|F|/γ)), n ≥ δ⁻²·ln(|F|/γ), m ≥ δ⁻²·K·|F|/γ, δ ≤ 1/2, γ < 1/4. If the rows are drawn from a ν
with Rényi condition number κ(ν‖μ) = ∫(dν/dμ)² dμ ≤ K, the synthetic rows are 8δ-accurate with probability 1 − 4γ.
It counts n as public and μ as independent of the rows; a product of measured marginals is not, but costs no privacy.
For the uniform μ, κ = |Ω|·Σ_x φ(x)² ≤ |Ω|. Theorem 2.2: with that noise on every f ∈ F by itself, n ≥ 2(εδ)⁻¹·|F|·
ln(|F|/γ) makes the release ε-DP; here the noise follows from ε, for every n. With `queries := 'cells'`, which
`faithful := true` asks for, it is that of |F| questions with Δ = 2/n each: a whole marginal of that noise takes ε/|F|
only, so the rest of ε is charged and not used. It asks for the theorem's m as well (`rule`).

Source: Boedihardjo, Strohmer, Vershynin 2022, Algorithm 1 (arXiv:2109.12381). Beyond it: Gaussian noise, whole
marginals (Δ₁ of a marginal, not of |F| single counts), a private n, μ from measurements, the sum of errors (`l1`), and
where earlier releases measured something, ã by least squares from all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.fitting.relaxed.settings import one_way_prior
from dpsql.fitting.rows.linear_program import Codes
from dpsql.fitting.target import Target
from dpsql.mechanisms.base import LATER, register
from dpsql.mechanisms.cell_queries import workload_words
from dpsql.mechanisms.reduced_space.space import MOST_MEMBERSHIPS, ReducedSpace, functions, program_rows

ONE_WAY_SHARE: Final = Fraction(1, 10)
SPACES: Final = ("auto", "measured", "prior", "uniform")
FEWEST_POINTS: Final = 200
USUAL_POINTS: Final = 1000  # the program takes seconds; 2,000 points take minutes
SUM_POINTS: Final = 400  # of objective l1, which is slower
_POINTS_SCALE: Final = 150
_MOST_POINTS: Final = 100_000
_MOST_NOISE: Final = 0.5  # δ of Theorem 2.3
THEOREM: Final = "theorem"


@register("lp", when="pure ε (δ = 0), and the largest error of few marginals")
@dataclass(frozen=True)
class LP(ReducedSpace):
    """Reweight points of a reduced space by linear programming (Boedihardjo et al. 2022) to meet noisy marginals.

    Privacy: ε-DP for noise 'laplace', and ρ-zCDP with ρ = Q·ε²/2; ρ-zCDP and Gaussian DP of g = ρ for 'gaussian'; for
    the table's neighbours. Δ₁ = c, Δ₂² = c² (add_remove; c rows of a privacy unit, else 1) or 2 (replace_one) for each
    marginal. The questions, by their parts of ε (laplace: ρ·s²/Σs² for a part s) or of ρ (gaussian): `total`
    (add_remove only, 1/20), one `measure` of the 1-way marginals that Ω* is drawn from (spaces 'measured' and 'auto':
    1/10 together) and of the workload's marginals (the rest, the same for each). For thresholds these are the marginals
    of their columns, or of all subsets of these, by which their answers have less noise; Δ is that of a marginal. All
    linear queries are one `measure_linear_families`, Δ is what `dpsql.core.linear_family` says. The
    points are computed from their answers and public data only.

    Attributes:
        points: m, drawn for the reduced space, repeated ones count once; none to take it from the rule. Where the
            domain has no more records all of them are taken.
        space: what they are drawn from: 'uniform' on the domain; 'prior', the public table given; 'measured', the
            product of noisy 1-way marginals; 'auto' is 'measured', with half of the points from the prior if one is
            given ('auto' measures in any case: the charge is fixed before a prior is looked at).
        noise: 'laplace' for pure epsilon as in the document, 'gaussian' for (epsilon, delta).
        objective: 'max', the largest error of a cell or threshold, as in the document; or 'l1', the sum of errors,
            which is slower (at most 400 points unless `points` says so).
        seconds: for the linear program; after them the best density found is taken. An interrupted solver ends by
            itself within them.
        gamma: γ of the accuracy that the plan states.
        bootstrap: draw rows independently, as in the document, and not each point as often as its weight says.
        queries: 'cells', each at a price of its own as in the document: noise of scale |F|·Δ/ε, which takes a part of
            ε only; or 'marginals', where all cells of a marginal share one price, with all of ε.
        kappa: K, a bound on κ that is known of the rows; the plan then says whether m is enough for it. None asks for
            the largest K that m is enough for.
        rule: of m where points is none, with δ the largest noise to be expected at gamma: 150/√δ, from 200 to 1,000, by
            'trials' on one table; or δ⁻²·K·|F|/γ of the 'theorem', with K = 1 where kappa is none and δ = 1/2 where it
            is more, and no more than the linear program holds: 100,000 points, or 5,000,000 over the number of
            marginals. Thresholds and objective 'l1' have the points of trials.

    Raises:
        InvalidArgument: an option is out of its range, or space 'prior' without a prior.
    """

    takes_prior = True
    takes_linear = True
    points: int | None = None
    space: str = "auto"
    kappa: float | None = field(default=None, metadata=LATER)
    queries: str = field(default="marginals", metadata=LATER)
    rule: str = field(default="trials", metadata=LATER)

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`."""
        return {"space": "uniform", "bootstrap": True, "queries": "cells", "rule": THEOREM}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: whole marginals at one price, and points by trials."""
        return {"space": "uniform", "bootstrap": True}

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.points is not None:
            check_range("points", self.points, 1, _MOST_POINTS)
        check_word("space", self.space, SPACES)
        check_word("queries", self.queries, ("cells", "marginals"))
        check_word("rule", self.rule, ("trials", THEOREM))
        if self.kappa is not None:
            check_range("kappa", self.kappa, 1.0, math.inf)
        object.__setattr__(self, "needs_prior", self.space == "prior")  # refused before the charge
        object.__setattr__(self, "takes_prior", self.space in ("auto", "prior"))

    def check_prior(self, *, given: bool) -> None:
        """See `Mechanism.check_prior`: a prior that no point would be drawn from."""
        if given and not self.takes_prior:
            raise InvalidArgument(
                f"space is {self.space!r}, which draws no point from a prior: say space := 'prior', or 'auto' for half "
                "of the points, or leave the prior out"
            )
        super().check_prior(given=given)

    @property
    def by_cell(self) -> bool:
        """See `ReducedSpace.by_cell`."""
        return self.queries == "cells"

    @property
    def one_way_share(self) -> Fraction:
        """See `ReducedSpace.one_way_share`."""
        return ONE_WAY_SHARE if self.space in ("auto", "measured") else Fraction(0)

    @property
    def entry_seconds(self) -> float:
        """See `ReducedSpace.entry_seconds`: points of a uniform measure lie in hardly any cell that is not empty."""
        return super().entry_seconds * (0.03 if self.space == "uniform" else 1.0)

    def most_points(self, domain: Domain, workload: Workload, noise: float | None = None) -> int:
        """See `ReducedSpace.most_points`."""
        if noise is not None:
            usual = self.count(domain, workload, noise)
        elif self.points is None:
            usual = self._held_points(workload) if self._by_theorem(workload) else USUAL_POINTS
        else:
            usual = self.points
        return min(usual, domain.size(domain.names))

    def refuse_without(self, prior: Prior | None) -> None:
        """See `ReducedSpace.refuse_without`."""
        if self.space == "prior" and prior is None:
            raise InvalidArgument("space is 'prior', but there is none: give prior := 'its name', or leave space out")

    def count(self, domain: Domain, workload: Workload, noise: float) -> int:
        """m: more points come nearer to small noise; where it is large they only fit more of it."""
        if self.points is not None:
            return self.points
        if self._by_theorem(workload):
            kappa = 1.0 if self.kappa is None else self.kappa
            wanted = theorem_points(functions(domain, workload), min(noise, _MOST_NOISE), self.gamma, kappa)
            return math.ceil(min(self._held_points(workload), wanted))
        most = USUAL_POINTS if self.objective == "max" else SUM_POINTS
        return int(min(most, max(FEWEST_POINTS, _POINTS_SCALE / math.sqrt(noise))))

    def _by_theorem(self, workload: Workload) -> bool:
        """Whether m is the theorem's: it says nothing of sums of errors, and programs of thresholds are too large."""
        return self.rule == THEOREM and self.objective == "max" and not workload.thresholds

    def _held_points(self, workload: Workload) -> int:
        """The most points that a linear program of this workload holds."""
        return max(FEWEST_POINTS, min(_MOST_POINTS, MOST_MEMBERSHIPS // max(1, program_rows(workload))))

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
        count = self.count(domain, workload, noise)
        if count >= domain.size(domain.names):
            return all_points(domain), "all of the domain"
        generator = np.random.default_rng(seed)
        if self.space == "uniform":
            return np.unique(from_product(domain, (), count, generator), axis=0), "uniform"
        if self.space == "prior" and prior is not None:
            return np.unique(from_prior(domain, prior, count, generator), axis=0), "prior"
        probabilities = split(domain, one_way_prior(domain, measured, total))
        public = 0 if prior is None or self.space == "measured" else count // 2
        drawn = [from_product(domain, probabilities, count - public, generator)]
        if prior is not None and public:
            drawn.append(from_prior(domain, prior, public, generator))
        return np.unique(np.concatenate(drawn), axis=0), "prior and measured" if public else "measured"

    def promise(self, domain: Domain, workload: Workload, neighbours: Neighbours, noise: float, rows: float) -> str:
        """See `ReducedSpace.promise`: Theorem 2.3, and which of its conditions do not hold."""
        points, count = self.count(domain, workload, noise), functions(domain, workload)
        sampling = math.sqrt(math.log(count / self.gamma) / max(1.0, rows))
        delta = max(noise, sampling)
        if points >= domain.size(domain.names):
            return whole_promise(workload_words(workload), noise, sampling, self.gamma)
        begun = f"Theorem 2.3 with |F| = {count}, gamma = {self.gamma:g}, m = {points}, delta = {delta:.3g}"
        if delta > _MOST_NOISE:
            return f"{begun} promises nothing: delta must be at most 0.5, ask for fewer cells or more epsilon"
        largest, kappa = points * delta**2 * self.gamma / count, 1.0 if self.kappa is None else self.kappa
        if largest < kappa:
            least = math.ceil(theorem_points(count, delta, self.gamma, kappa))
            even = "even for kappa = 1" if self.kappa is None else f"for kappa = {kappa:g}"
            return f"{begun} promises nothing: {even} it wants {least:.3g} points"
        limit = f"{largest:.3g}{self._kappa(domain)}" if self.kappa is None else f"{kappa:g}, as kappa says"
        return (
            f"{begun}: all {workload_words(workload)} within 8 delta = {8 * delta:.3g} with probability "
            f"{1 - 4 * self.gamma:g}, for as many synthetic rows as the table has, and rows drawn from a density whose "
            f"Rényi condition number is at most {limit}{self._unproven(neighbours)}"
        )

    def _kappa(self, domain: Domain) -> str:
        """What is known of κ: for the uniform μ it is |Ω|·Σφ², so at most |Ω|, which m < |Ω| points are too few for."""
        if self.space != "uniform":
            return "; kappa has no bound here, it is infinite where rows lie that the space cannot draw"
        return (
            f"; kappa <= |Omega| = {domain.size(domain.names):.3g} for every table, nearer 1 the more evenly rows lie"
        )

    def _unproven(self, neighbours: Neighbours) -> str:
        """The conditions of the theorem that this request does not meet."""
        missing = []
        if self.space in ("auto", "measured"):
            missing.append("points independent of the rows (these are drawn from their noisy marginals)")
        if not neighbours.total_is_public:
            missing.append("a public n (this one is private, and answers are divided by a noisy one)")
        if not self.bootstrap:
            missing.append("rows drawn independently (bootstrap := true)")
        return f". It is an indication only, for it supposes {', '.join(missing)}" if missing else ""


def theorem_points(count: int, delta: float, gamma: float, kappa: float) -> float:
    """The least m of Theorem 2.3, δ⁻²·K·|F|/γ; `count` is |F|.

    >>> round(theorem_points(7, 0.04, 0.05, 1.0))
    87500
    """
    return kappa * count / (gamma * delta**2)


def whole_promise(words: str, noise: float, sampling: float, gamma: float) -> str:
    """For Ω* = Ω the table itself is a density that misses no noisy answer by more than the noise; `words` of what."""
    return (
        f"all {words} within {2 * noise:.3g} before rows are drawn with probability {1 - gamma:g} (twice the largest "
        "noise, for a public number of rows), and as many rows as the table has, drawn independently, add at most "
        f"{sampling:.3g} with the same"
    )


def all_points(domain: Domain) -> Codes:
    """Every record of the domain, shape (records, attributes)."""
    shape = domain.shape(domain.names)
    return np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1).astype(np.int64)


def split(domain: Domain, joined: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """One probability vector for each attribute, from the vector of all of them."""
    return np.split(joined, np.cumsum(domain.shape(domain.names))[:-1])


def from_product(
    domain: Domain, probabilities: Sequence[npt.NDArray[np.float64]], count: int, generator: np.random.Generator
) -> Codes:
    """Points with independent columns; uniform if no probabilities are given."""
    columns = []
    for place, size in enumerate(domain.shape(domain.names)):
        if probabilities:
            weights = probabilities[place] / probabilities[place].sum()
            columns.append(generator.choice(size, count, p=weights))
        else:
            columns.append(generator.integers(0, size, count))
    return np.stack(columns, axis=1).astype(np.int64)


def from_prior(domain: Domain, prior: Prior, count: int, generator: np.random.Generator) -> Codes:
    """Points drawn from a public table by its weights; columns that it lacks are uniform."""
    chosen = generator.choice(len(prior.codes), count, p=prior.weights / prior.total)
    return Prior(prior.names, prior.codes[chosen], np.ones(count)).completed(domain, generator)[0]
