r"""What a second stage spends on pairs of columns that a first one found to depend on each other strongly.

Strong pairs (`dpsql.fitting.relaxed.strong_pairs`) have min(½, pairs/K) of its ρ, in proportion to cells^{2/3};
everything that the first stage measured has the rest, in proportion to the first shares. Two measurements of one
marginal tell as much as one of both shares, so where nothing is strong the second stage costs no accuracy.

Where no strong pair is believed to have 0.1 nats, everything has all of it: such pairs tell little.

ρ and g of both stages add up, also where the second depends on what the first told (adaptive composition).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from dpsql.core.domain import Clique, Domain
from dpsql.strategy.allocation import stepped

_MOST: Final = Fraction(1, 2)


def second_shares(
    domain: Domain, first: Sequence[tuple[Clique, Fraction]], strong: Sequence[Clique], rho: Fraction
) -> list[tuple[Clique, Fraction]]:
    """What a second stage measures, with shares that add up to ρ.

    >>> half = Fraction(1, 2)
    >>> second_shares(Domain(()), [(("a",), half), (("b",), half)], [], Fraction(1, 10))
    [(('a',), Fraction(1, 20)), (('b',), Fraction(1, 20))]

    Args:
        domain: the columns.
        first: the shares of the first stage.
        strong: the strong pairs; none where they tell little.
        rho: of the second stage.
    """
    part = min(_MOST, Fraction(len(strong), max(1, len(domain))))
    weights = [stepped(Fraction(round(1000 * domain.size(clique) ** (2 / 3)))) for clique in strong]
    whole, spent = sum(weights, Fraction(0)), sum((share for _, share in first), Fraction(0))
    again = [(clique, rho * part * weight / whole) for clique, weight in zip(strong, weights, strict=True)]
    rest = [(clique, rho * (1 - part) * share / spent) for clique, share in first] if part < 1 else []
    return [*again, *rest]
