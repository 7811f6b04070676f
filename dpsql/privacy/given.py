"""What a mechanism hands over, copied to plain numbers and words, for it is not believed."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import SupportsIndex

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import LARGEST_WEIGHT, Asked, LinearFamily
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


def given_asked(domain: Domain, asked: Asked) -> Asked:
    """A clique, thresholds or linear queries that a mechanism names; see `given_clique`."""
    return given_linear(domain, asked) if isinstance(asked, LinearFamily) else given_family(asked)


def given_linear(domain: Domain, family: LinearFamily) -> LinearFamily:
    """Linear queries that a mechanism names, with arrays of our own that fit the domain, so that nothing moves them.

    Raises:
        InvalidArgument: they do not fit, or a weight is too large.
    """
    clique = given_clique(family.clique)
    weights, groups = (np.array(array, np.int64) for array in (family.weights, family.groups))
    count = given_whole("count", family.count)
    fits = weights.shape == groups.shape == (domain.size(clique),) and domain.clique(clique) == clique
    if not fits or np.abs(weights).max(initial=0) > LARGEST_WEIGHT or not ((groups >= 0) & (groups < count)).all():
        raise InvalidArgument(
            f"the linear queries of {', '.join(clique)} need a weight of at most {LARGEST_WEIGHT} steps and a group "
            f"below {count} for each cell"
        )
    for array in (weights, groups):
        array.flags.writeable = False
    step = plain_fraction("the step of linear queries", family.step)
    return LinearFamily(clique, weights, groups, count, step, str.__str__(family.text))


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
