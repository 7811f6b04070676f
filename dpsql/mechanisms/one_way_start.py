"""1-way marginals that a mechanism measures before its own questions, where `start` is 'marginals'; in equal shares.

A third of ρ goes to them (after the number of rows), because whatever a mechanism answers, rows whose single columns
are wrong answer it badly; and because what is measured whole can be judged (`dpsql.release.judgement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.evidence.earlier_releases import light, sharpened
from dpsql.fitting.target import Target
from dpsql.mechanisms.asks import Ask, Marginals, Total
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.pricing import Conversion

STARTS: Final = ("uniform", "marginals")
_TOTAL_SHARE: Final = Fraction(1, 100)
_SHARE: Final = Fraction(1, 3)


def singles(domain: Domain, start: str) -> list[Clique]:
    """The 1-way marginals that are measured first; none where the start is uniform."""
    return [(name,) for name in domain.names] if start == "marginals" else []


def after_singles(facts: Facts, start: str, *asks: Ask, conversion: Conversion | None = None, note: str = "") -> Course:
    """Gaussian: the number of rows with ρ/100, a third of the rest for the 1-way marginals, and what follows them."""
    total = Total.of(facts, _TOTAL_SHARE, **({"note": note} if note else {}))
    first = Marginals(_SHARE, singles(facts.domain, start))
    return Course.in_turn(facts, GAUSSIAN, total, first, *asks, conversion=conversion)


def left_after(facts: Facts, start: str) -> Fraction:
    """The ρ that these leave."""
    return facts.charge * after_singles(facts, start).left


def told_singles(domain: Domain, measured: Sequence[Measurement], earlier: Sequence[Measurement]) -> list[Target]:
    """The 1-way marginals by all that is known of them: earlier releases may tell them with less noise."""
    return sharpened(domain, measured, light(domain, measured, earlier)) if measured else []
