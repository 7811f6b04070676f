"""What is found out about one column: its values, and the rows in bins that need not be its domain."""

from __future__ import annotations

import hashlib
from fractions import Fraction

from dpsql.core.domain import Attribute
from dpsql.core.marginal import Measurement
from dpsql.privacy.accounting import discovery_threshold
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.given import given_share, given_whole
from dpsql.privacy.journal import Answer, measured
from dpsql.privacy.questions import BinsQuestion, ValuesQuestion


class Discoveries(Asking):
    """Discovers what columns hold."""

    def measure_bins(self, attribute: Attribute, rho: Fraction) -> Measurement:
        """The rows of one column in bins that need not be its domain, every bin with independent noise.

        Privacy: as a marginal in `measure`, ρ-zCDP and Gaussian DP of g = ρ.
        """
        self._check_may_ask("other bins of a column")
        rho = given_share(rho)
        # what was added later is left out where there is none, because journals keep the digest
        read = (attribute.nulls_as, attribute.text, attribute.suffix)
        of = (attribute.type, attribute.ticks, *(read if any(read) else ()))
        digest = hashlib.sha256(repr(of).encode()).hexdigest()
        question = BinsQuestion(attribute.name, digest, rho)

        def fresh() -> Answer:
            exact = self._counter.bins(attribute)
            scale = GAUSSIAN.scale(rho, self.neighbours.marginal(GAUSSIAN.norm))
            values = self._draw(GAUSSIAN, scale, exact.size)
            values[exact.cells] += exact.counts
            shape, variance = (attribute.size,), GAUSSIAN.variance(scale)
            return Answer(question, rho, Measurement((attribute.name,), shape, values, variance, GAUSSIAN.name, rho))

        return measured(self._answer(GAUSSIAN, [rho], question, fresh))

    def discover_values(self, column: str, rho: Fraction, failure: float, least: int | None = None) -> tuple[str, ...]:
        """The values of a column that so many units have that no single unit makes one known.

        Of the values that 2 units have or more, those are published whose number of units, with discrete Gaussian noise
        of σ² = Δ²/2ρ + 1/8, reaches `discovery_threshold`. Δ² = c, for a unit of c rows has at most c values (2 for
        replace_one).

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ, with `failure` added to δ: a unit that comes or goes changes the
        numbers of values that others have too, which is what ρ pays for, and at most c values cross from 1 unit to 2,
        each of which stays unpublished with probability 1 − failure/c. A larger threshold publishes less of the same
        noisy numbers, so `least` costs nothing.

        Args:
            column: its name.
            rho: of it all.
            failure: δ′, of what the charge allows for.
            least: publish only values whose noisy number of units reaches this too; made of noisy answers.
        """
        self._check_may_ask("the values of a column")
        rho, failure = given_share(rho), float(failure)
        least = None if least is None else given_whole("least", least)
        question = ValuesQuestion(column, failure, rho, least)

        def fresh() -> Answer:
            values, units = self._counter.values(column)
            scale = GAUSSIAN.scale(rho, self.neighbours.presence_l2_squared)
            enough = discovery_threshold(GAUSSIAN.variance(scale), failure, self.neighbours.cell)
            enough = max(enough, least or 0)
            noisy = units + self._draw(GAUSSIAN, scale, len(units))
            common = tuple(value for value, count in zip(values, noisy, strict=True) if count >= enough)
            return Answer(question, rho, values=common)

        texts = self._answer(GAUSSIAN, [rho], question, fresh, failure).values
        assert texts is not None
        return texts
