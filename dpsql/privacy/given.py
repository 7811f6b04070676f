"""What a mechanism hands over, copied to plain numbers and words, for it is not believed."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import SupportsIndex

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import LARGEST_WEIGHT, Integers, LinearFamily, QueryFamily, columns_of, number_of
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


def given_asked(domain: Domain, family: QueryFamily) -> QueryFamily:
    """A clique, thresholds or linear queries that a mechanism names; see `given_clique`."""
    return given_linear(domain, family) if isinstance(family, LinearFamily) else given_family(family)


def given_linear(domain: Domain, family: LinearFamily) -> LinearFamily:
    """Linear queries that a mechanism names, with arrays of our own that fit the domain, so that nothing moves them.

    Raises:
        InvalidArgument: they do not fit, or a weight is too large.
    """
    clique = given_clique(family.clique)
    count = given_whole("count", family.count)
    weights = _given_integers(family.weights, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    groups = _given_integers(family.groups, 0, count - 1)
    shape = (domain.size(clique),)
    fits = domain.clique(clique) == clique
    if not fits or weights is None or groups is None or not weights.shape == groups.shape == shape:
        raise InvalidArgument(
            f"the linear queries of {', '.join(clique)} need for each cell a weight from −{LARGEST_WEIGHT} to "
            f"{LARGEST_WEIGHT} steps and a group below {count}, both in arrays of integers"
        )
    for array in (weights, groups):
        array.flags.writeable = False
    step = plain_fraction("the step of linear queries", family.step)
    return LinearFamily(clique, weights, groups, count, step, str.__str__(family.text))


def _given_integers(array: object, least: int, most: int) -> Integers | None:
    """Numbers that a mechanism gives, in an array of our own; None unless all are integers between two bounds.

    Both ends are compared as Python's own integers. The absolute value of the least int64 is negative, and a cast makes
    that number of NaN, of infinity and of what is too large.
    """
    try:
        own = np.array(array)
    except (TypeError, ValueError, OverflowError):
        return None
    if own.dtype.kind not in "iu" or (own.size and not least <= int(own.min()) <= int(own.max()) <= most):
        return None
    return own.astype(np.int64)


def given_cell(domain: Domain, family: QueryFamily, cell: SupportsIndex) -> int:
    """The number of a cell, a threshold or a group that a mechanism names; see `given_clique`.

    Raises:
        InvalidArgument: the family has no such one.
    """
    size, name = number_of(domain, family), ", ".join(columns_of(family))
    try:
        place = operator.index(cell)
    except TypeError:
        place = -1
    if not 0 <= place < size:
        raise InvalidArgument(f"{name} has no cell {cell!r}: give a whole number from 0 to {size - 1}")
    return place


def given_whole(name: str, value: SupportsIndex, most: int | None = None) -> int:
    """A number that a mechanism gives, as a plain one from 1 on.

    Raises:
        InvalidArgument: it is none, or larger than `most`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or (most is not None and number > most):
        raise InvalidArgument(f"{name} is {value!r}: give a whole number from 1{'' if most is None else f' to {most}'}")
    return number
