"""What a mechanism hands over, copied to plain numbers and words, for it is not believed."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import SupportsIndex

from dpsql.core.domain import Clique
from dpsql.core.threshold import Family, Threshold
from dpsql.errors import InvalidArgument
from dpsql.privacy.accounting import plain_fraction


def given_share(rho: Fraction) -> Fraction:
    """A share of the budget that a mechanism gives, checked."""
    return plain_fraction("a share of the budget", rho)


def given_clique(clique: Clique) -> Clique:
    """Columns that a mechanism names, as plain texts, so that what is counted is what is recorded.

    Raises:
        InvalidArgument: they are no texts.
    """
    try:
        return tuple(str.__str__(name) for name in clique)
    except TypeError:
        raise InvalidArgument(f"a marginal is {clique!r}: give the names of its columns, in a tuple") from None


def given_family(family: Family) -> Family:
    """A clique, or a family of thresholds, that a mechanism names; see `given_clique`."""
    if isinstance(family, Threshold):
        return Threshold(given_clique(family.clique), given_whole("least", family.least))
    return given_clique(family)


def given_whole(name: str, value: SupportsIndex, most: int | None = None) -> int:
    """A number that a mechanism gives, as a plain one from 1 on.

    Raises:
        InvalidArgument: it is none, or larger than `most`.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = 0
    if found < 1 or (most is not None and found > most):
        raise InvalidArgument(f"{name} is {value!r}: give a whole number from 1{'' if most is None else f' to {most}'}")
    return found
