r"""Barak et al.: a density on the whole domain, nearest to noisy marginals, by linear programming.

    h* = argmin over densities h on Ω of  max_f |Σ_x f(x)·h(x) − ã_f|

`dpsql.mechanisms.reduced_space.lp` with Ω* = Ω. The table itself is a density on Ω, so no cell of h* is
farther from the truth than twice the largest noise. The program has one variable for each record of the domain: for
small domains only.

Source: Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007, Privacy, accuracy, and consistency too. They measure
Fourier coefficients of Boolean marginals; here the cells are measured, of any domain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.fitting.rows.linear_program import Codes
from dpsql.fitting.target import Target
from dpsql.mechanisms.base import register
from dpsql.mechanisms.cell_queries import workload_words
from dpsql.mechanisms.reduced_space.lp import all_points, whole_promise
from dpsql.mechanisms.reduced_space.space import ReducedSpace, functions

MOST_RECORDS: Final = 5_000


@register("barak", when="small domains, at most 5,000 records")
@dataclass(frozen=True)
class Barak(ReducedSpace):
    """Weight every record of a small domain by linear programming (Barak et al. 2007) to meet noisy marginals.

    Privacy: ε-DP for noise 'laplace', and ρ-zCDP with ρ = Q·ε²/2; ρ-zCDP and Gaussian DP of g = ρ for 'gaussian'; for
    the table's neighbours. Δ₁ = c, Δ₂² = c² (add_remove; c rows of a privacy unit, else 1) or 2 (replace_one) for each
    marginal. The questions, by their parts of ε (laplace: ρ·s²/Σs² for a part s) or of ρ (gaussian): `total`
    (add_remove only, 1/20) and one `measure` of the workload's marginals (the rest, the same for each).

    Attributes:
        noise: 'laplace' for pure epsilon, 'gaussian' for (epsilon, delta).
        objective: 'max', the largest error of a cell or threshold; or 'l1', the sum of errors, which is slower.
        seconds: for the linear program; after them the best density found is taken. An interrupted solver ends by
            itself within them.
        gamma: γ of the accuracy that the plan states.
        bootstrap: draw rows independently, and not each record as often as its weight says.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`."""
        return {}

    @property
    def one_way_share(self) -> Fraction:
        """No reduced space is drawn."""
        return Fraction(0)

    def most_points(self, domain: Domain, noise: float | None = None) -> int:
        """All records."""
        return domain.size(domain.names)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse a domain that is too large to be enumerated."""
        records = self.most_points(domain)
        if records > MOST_RECORDS:
            raise DomainTooLarge(
                f"the domain of {len(domain)} columns has {records:.3g} records, barak weights every one of at most "
                f"{MOST_RECORDS}: ask for fewer columns, or say mechanism := 'lp'"
            )
        super().check(domain, workload, neighbours)

    def points_of(
        self,
        domain: Domain,
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
