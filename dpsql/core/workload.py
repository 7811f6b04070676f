"""A workload: the marginals, thresholds and linear queries that a synthetic table should answer well."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dpsql.core.domain import Clique
from dpsql.core.linear_family import LinearFamily, QueryFamily
from dpsql.core.threshold import Family, Threshold, clique_of, identity_of
from dpsql.errors import DomainTooLarge

_MOST_COLUMNS: Final = 18  # of a marginal all of whose subsets are listed
_MOST_SUBSETS: Final = 2_000_000


@dataclass(frozen=True)
class Workload:
    """Marginals, thresholds and linear queries to answer.

    Attributes:
        cliques: of the marginals, without repetition, in the order given.
        thresholds: families of thresholds, likewise.
        weights: of those that count more or less than 1.
        linear: families of linear queries, likewise.
    """

    cliques: tuple[Clique, ...]
    thresholds: tuple[Threshold, ...] = ()
    weights: tuple[tuple[Family, float], ...] = ()
    linear: tuple[LinearFamily, ...] = ()

    def weight(self, clique: Clique) -> float:
        """The largest weight of what a marginal is a part of.

        >>> Workload((("a", "b"), ("b", "c")), (), ((("a", "b"), 3.0),)).weight(("b",))
        3.0
        """
        if not self.weights:
            return 1.0
        columns, (fewest, *_) = {*clique}, sorted((self._weights_of[name] for name in clique or ("",)), key=len)
        return max((weight for names, weight in fewest if columns <= names), default=1.0)

    @cached_property
    def _weights_of(self) -> defaultdict[str, list[tuple[frozenset[str], float]]]:
        """The weights of the families that have a column, beside their columns: a tree has thousands of pairs."""
        weights, weights_by_column = dict(self.weights), defaultdict[str, list[tuple[frozenset[str], float]]](list)
        for family in self.families:
            names = frozenset(clique_of(family))
            for name in names or ("",):
                weights_by_column[name].append((names, weights.get(family, 1.0)))
        return weights_by_column

    @property
    def needed(self) -> tuple[Clique, ...]:
        """The cliques whose marginals give all answers but those of linear queries."""
        return tuple(dict.fromkeys((*self.cliques, *(threshold.clique for threshold in self.thresholds))))

    @property
    def families(self) -> tuple[Family, ...]:
        """The cliques and the families of thresholds."""
        return (*self.cliques, *self.thresholds)

    @property
    def query_families(self) -> tuple[QueryFamily, ...]:
        """The families of all queries: cliques, thresholds and linear queries."""
        return (*self.families, *self.linear)

    @property
    def linear_cells(self) -> int:
        """How many weights the linear queries have."""
        return sum(len(family.weights) for family in self.linear)

    def closure(self) -> tuple[Clique, ...]:
        """All non-empty subsets of the needed cliques, smaller ones first, without repetition.

        Raises:
            DomainTooLarge: see `check_subsets`.

        >>> Workload((("a", "b"),)).closure()
        (('a',), ('b',), ('a', 'b'))
        """
        self.check_subsets()
        subsets: dict[Clique, None] = {}
        for order in range(1, max(map(len, self.needed), default=0) + 1):
            for clique in self.needed:
                subsets.update(dict.fromkeys(itertools.combinations(clique, order)))
        return tuple(subsets)

    def check_subsets(self) -> None:
        """Refuse marginals whose subsets are too many to be listed; a mechanism that lists them asks before the charge.

        Raises:
            DomainTooLarge: they are.
        """
        largest = max(map(len, self.needed), default=0)
        count = sum(2 ** len(clique) for clique in self.needed)
        if largest > _MOST_COLUMNS or count > _MOST_SUBSETS:
            raise DomainTooLarge(
                f"the workload's marginals have up to {largest} columns and {count:.3g} subsets together, more than "
                f"{_MOST_COLUMNS} and {_MOST_SUBSETS:.3g}: ask for marginals of fewer columns"
            )

    def ordered(self) -> Workload:
        """The same workload in one order, whatever order it was written in: equal requests then ask equal questions."""
        thresholds = sorted(self.thresholds, key=lambda threshold: (threshold.clique, threshold.least))
        weights = sorted(self.weights, key=lambda part: identity_of(part[0]))
        linear = sorted(self.linear, key=lambda family: (family.clique, family.digest))
        return Workload(tuple(sorted(self.cliques)), tuple(thresholds), tuple(weights), tuple(linear))

    def __len__(self) -> int:
        return len(self.cliques) + len(self.thresholds) + len(self.linear)
