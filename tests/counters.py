"""Tables of codes for tests of what lies behind the curator: a counter over rows, and a journal in a list."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dpsql.core.domain import Domain
from dpsql.core.marginal import Marginal
from dpsql.core.neighbours import Neighbours


class Rows:
    """Exact counts of rows of codes (None: outside the domain); records what is read."""

    def __init__(self, domain: Domain, rows) -> None:
        self._domain, self._rows = domain, [tuple(row) for row in rows]
        self.read: list[tuple[str, ...]] = []
        self._marginals: dict[tuple[str, ...], Marginal] = {}

    def among(self, places):
        return Rows(self._domain, [self._rows[place] for place in places])

    def values(self, column):
        """The values of a column that two rows have or more, and how many have them."""
        place = self._domain.names.index(column)
        found = Counter(row[place] for row in self._rows if row[place] is not None)
        many = sorted((str(value), count) for value, count in found.items() if count >= 2)
        return [value for value, _ in many], np.array([count for _, count in many], np.int64)

    def marginal(self, clique):
        self.read.append(clique)
        if clique not in self._marginals:
            self._marginals[clique] = self._counted(clique)
        return self._marginals[clique]

    def _counted(self, clique):
        if not clique:
            return Marginal((), 1, np.array([0]), np.array([len(self._rows)]))
        places = [self._domain.names.index(name) for name in clique]
        inside = [cell for cell in (tuple(row[p] for p in places) for row in self._rows) if None not in cell]
        packed = np.array([np.ravel_multi_index(cell, self._domain.shape(clique)) for cell in inside], dtype=np.int64)
        cells, counts = np.unique(packed, return_counts=True)
        return Marginal(clique, self._domain.size(clique), cells, counts)


class Journal:
    """Keeps answers, as the books do."""

    def __init__(self, recorded=()) -> None:
        self.answers = list(recorded)

    def recorded(self):
        return list(self.answers)

    def append(self, answers):
        self.answers += answers


RELATIONS = [Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE, Neighbours("add_remove", 3)]
"""All kinds of neighbours, to run a test for each."""
