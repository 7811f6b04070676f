"""Constraints: public facts that every synthetic row satisfies, as the tuples of codes that they allow.

An owner states a fact as an SQL predicate over columns of one row (`dp_constraint`). Facts that share a column belong
together: their columns form a clique, and of all tuples of that clique's codes some are allowed. Rounding draws and
changes the values of such a clique together, so no forbidden tuple ever arises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique

Codes = npt.NDArray[np.int64]
MOST_TUPLES: Final = 200_000


@dataclass(frozen=True)
class Constraint:
    """One fact, as its owner stated it.

    Attributes:
        predicate: SQL over the columns; it holds unless it is FALSE, as a CHECK does.
        columns: those that it names, as the source spells them.
    """

    predicate: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Allowed:
    """What facts that belong together allow.

    Attributes:
        clique: their columns that have a domain, in the domain's order.
        columns: all columns that they name; those left out of the domain are NULL.
        predicates: the facts.
        codes: the allowed tuples, shape (tuples, columns).
        places: for each tuple, where in the bins the facts were seen to hold (0 is the lower end), shape as `codes`.
    """

    clique: Clique
    columns: tuple[str, ...]
    predicates: tuple[str, ...]
    codes: Codes
    places: npt.NDArray[np.float64]


def components(constraints: Sequence[Constraint]) -> list[tuple[Constraint, ...]]:
    """Constraints that share columns, together.

    >>> facts = [Constraint("a < b", ("a", "b")), Constraint("c > 0", ("c",)), Constraint("b > 0", ("b",))]
    >>> [len(part) for part in components(facts)]
    [1, 2]
    """
    parts: list[tuple[set[str], list[Constraint]]] = []
    for constraint in constraints:
        columns, members = set(constraint.columns), [constraint]
        apart = []
        for others, theirs in parts:
            if others & columns:
                columns, members = columns | others, theirs + members
            else:
                apart.append((others, theirs))
        parts = [*apart, (columns, members)]
    return [tuple(members) for _, members in parts]
