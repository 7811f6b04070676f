r"""Linear queries: sums over the rows of a table of weights that depend on the row's cell in one clique.

    answer[g, a] = Σ_cells M[cell]·w_a(cell)·[the cell is in group g],   w_a(cell) = Π_p f_{p,a}(cell_p)

M is the marginal of the clique. The clique falls into parts p, sets of attributes that no expression joins, so that the
weights and the group of a cell are put together from its coordinates in the parts, and no array is larger than a part.
A group is one value of each part's key; with several grouping sets a cell has a group in each of them.

Beside such sums there are sums of a column's own values, where its bins hold several (a `Moment`: w_a is the row's
value in whole steps instead of 1; a `Product` of two of them; or a `Choice`: the moment that the cell picks), and
numbers of privacy units, those with at least one row of weight 1 in the group.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.magnitudes import magnitudes
from dpsql.core.marginal import Marginal, Presence
from dpsql.core.neighbours import Neighbours

Integers = npt.NDArray[np.int64]
_ABOVE_ROUNDING: Final = 1 + 1e-12


@dataclass(frozen=True)
class Part:
    """Attributes that expressions of the query join, with what the expressions are for each of their cells.

    Attributes:
        clique: the attributes.
        factors: f_{p,a}, shape (aggregates, cells): whole numbers, 0 where a filter does not hold.
        groups: shape (sets, cells): the number of the cell's key among the part's keys; anything where factors are 0.
        keys: how many keys the part has in each grouping set.
    """

    clique: Clique
    factors: Integers
    groups: Integers
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Moment:
    """What a row adds to a sum instead of 1: a formula of its value in a column, in steps, between two public bounds.

    Attributes:
        column: of numbers.
        multiplier: how many steps are 1; values are rounded to steps.
        low, high: the least and the largest number of steps of a row whose weight is not 0. Every row is clamped to
            them.
        outside: the steps of a value outside the column's bins.
        formula: of the value; the value itself by default.
        missing: the steps of NULL.
    """

    column: str
    multiplier: float
    low: int
    high: int
    outside: int = 0
    formula: Formula = COLUMN
    missing: int = 0

    @property
    def identity(self) -> str:
        """Tells moments apart: a format of its own, because journals hash it. It must never change.

        >>> Moment("age", 1.0, 0, 90).identity
        "Moment(column='age', multiplier=1.0, low=0, high=90, outside=0)"
        """
        fields = [f"{name}={getattr(self, name)!r}" for name in ("column", "multiplier", "low", "high", "outside")]
        if self.formula != COLUMN:
            fields.append(f"formula={self.formula.identity}")
        if self.missing:
            fields.append(f"missing={self.missing!r}")
        return f"Moment({', '.join(fields)})"


@dataclass(frozen=True)
class Choice:
    """One of several moments, which the cell of a row decides: a CASE whose conditions read other columns.

    Attributes:
        moments: with the same steps.
        clique: of the cells.
        picks: for each cell 1 plus the number of its moment, in one byte; 0 where there is nothing to add.
    """

    moments: tuple[Moment, ...]
    clique: Clique
    picks: bytes

    @property
    def identity(self) -> str:
        """Tells choices apart: a format of its own, because journals hash it. It must never change.

        >>> Choice((Moment("age", 1.0, 0, 90),), ("sex",), b"12").identity[:73]
        "Choice([Moment(column='age', multiplier=1.0, low=0, high=90, outside=0)],"
        """
        moments = ", ".join(moment.identity for moment in self.moments)
        return f"Choice([{moments}], {self.clique!r}, {hashlib.sha256(self.picks).hexdigest()})"

    @property
    def column(self) -> str:
        """The first moment's."""
        return self.moments[0].column

    @property
    def low(self) -> int:
        """The least that a row adds."""
        return min(moment.low for moment in self.moments)

    @property
    def high(self) -> int:
        """The most that a row adds."""
        return max(moment.high for moment in self.moments)


@dataclass(frozen=True)
class Product:
    """What a row adds to a sum: the product of two moments' steps, in coarser steps, between two public bounds.

    Attributes:
        first: of one column.
        second: of another one.
        multiplier: how many steps the product of two steps is, at most 1; products are rounded to steps.
        low, high: every row is clamped to them.
    """

    first: Moment
    second: Moment
    multiplier: float
    low: int
    high: int

    @property
    def identity(self) -> str:
        """Tells products apart: a format of its own, because journals hash it. It must never change.

        >>> Product(Moment("a", 1.0, 0, 9), Moment("b", 1.0, 0, 2), 1.0, 0, 18).identity[-33:]
        ', multiplier=1.0, low=0, high=18)'
        """
        fields = [f"{name}={getattr(self, name)!r}" for name in ("multiplier", "low", "high")]
        return f"Product({self.first.identity}, {self.second.identity}, {', '.join(fields)})"

    @property
    def column(self) -> str:
        """The first moment's."""
        return self.first.column


@dataclass(frozen=True)
class LinearQuery:
    """Weighted counts in groups.

    Attributes:
        domain: of the attributes; its codes are what the marginal counts.
        parts: at least one; their cliques share no attribute.
        units: the numbers of the aggregates that count privacy units; their weights are 0 or 1.
        moments: for the numbers of the aggregates that sum a column's own values; their weights multiply those.
    """

    domain: Domain
    parts: tuple[Part, ...]
    units: frozenset[int] = frozenset()
    moments: Mapping[int, Moment | Choice | Product] = field(default_factory=dict)

    @property
    def clique(self) -> Clique:
        """The attributes of all parts."""
        return self.domain.clique(name for part in self.parts for name in part.clique)

    @property
    def aggregates(self) -> int:
        """How many weights there are."""
        return len(self.parts[0].factors)

    @property
    def groups(self) -> tuple[int, ...]:
        """How many groups each grouping set has."""
        return tuple(math.prod(counts) for counts in zip(*(part.keys for part in self.parts), strict=True))

    @property
    def fingerprint(self) -> str:
        """Tells queries apart."""
        digest = hashlib.sha256(self.domain.to_json().encode())
        moments = ", ".join(f"({number}, {moment.identity})" for number, moment in sorted(self.moments.items()))
        digest.update(f"({sorted(self.units)}, [{moments}])".encode())
        for part in self.parts:
            for piece in (repr((part.clique, part.keys)).encode(), part.factors.tobytes(), part.groups.tobytes()):
                digest.update(piece)
        return digest.hexdigest()

    @property
    def scales(self) -> tuple[int, ...]:
        """The largest |w_a| of a row, for each aggregate; 1 where all weights are 0."""
        largest = [magnitudes(part.factors).max(axis=1, initial=0) for part in self.parts]
        scales = [max(1, math.prod(int(m[a]) for m in largest)) for a in range(self.aggregates)]
        for a, moment in self.moments.items():
            scales[a] = max(1, scales[a] * max(abs(moment.low), abs(moment.high)))
        return tuple(scales)

    def sensitivity(self, power: int, neighbours: Neighbours) -> float:
        """The most that two neighbours differ in Σ |change_a/scale_a|^power over all groups and aggregates.

        Args:
            power: 1 or 2.
            neighbours: of which tables.

        Returns:
            An upper bound, at least 1.

        A row adds its weights to one group of each set. Over several parts the bound is the least of what each part
        alone allows, for the factors of the others are at most their largest. The c rows of a unit may all be alike:
        the norm is at most c times that of one row. A unit is counted once in each group that it has a row in, at most
        c of a set.
        """
        if neighbours.total_is_public:
            return max(1.0, self._replaced(power))
        units = len(self.units) * sum(min(neighbours.cell, count) for count in self.groups)
        scaled: float = neighbours.cell**power * self._row(power)
        return max(1.0, scaled + units)

    def _replaced(self, power: int) -> float:
        apart = 2 * (self._row(power) + len(self.units) * len(self.groups)) if max(self.groups, default=1) > 1 else 0.0
        same = min(len(self.groups) * self._same_group(power), self._same_group_together(power))
        return max(apart, same)

    def _same_group_together(self, power: int) -> float:
        """|a − b|^power of what one row takes away and another adds, of all aggregates together.

        |a − b| ≤ |a| + |b|; and |a − b|² ≤ |a|² + |b|² where no weight is below 0. That is little where aggregates
        exclude one another, as the bins of a histogram do.
        """
        signed = any(self.bounds(a)[0] < 0 for a in range(self.aggregates))
        return (4 if signed and power == 2 else 2) * self._row(power) + len(self.units) * len(self.groups)

    def _row(self, power: int) -> float:
        """The most that adding one row changes the sums by: of all of them by one part, or of each by its own part."""
        sums = [a for a in range(self.aggregates) if a not in self.units]
        bound = min(self._row_of(part, power, sums) for part in self.parts)
        if len(self.parts) > 1:
            homes = self._homes()
            by_home = [[a for a in sums if homes[a] == number] for number in range(len(self.parts))]
            bounds = [self._row_of(part, power, own) for part, own in zip(self.parts, by_home, strict=True) if own]
            bound = min(bound, sum(bounds))
        return bound * len(self.groups)

    def _homes(self) -> Integers:
        """For each aggregate the part whose cells tell most about it: in which it is 0 most often."""
        zeros = [np.count_nonzero(part.factors == 0, axis=1) / max(1, part.factors.shape[1]) for part in self.parts]
        return np.asarray(np.argmax(np.stack(zeros), axis=0), np.int64)

    def _row_of(self, part: Part, power: int, sums: Sequence[int]) -> float:
        """Max over cells of Σ_a |f_a/largest_a|^power, over some aggregates that are sums."""
        factors = part.factors[list(sums)]
        largest = np.maximum(magnitudes(factors).max(axis=1, initial=0), 1)
        relative = np.abs(factors / largest[:, None]) ** power
        exact = bool(((relative == 0) | (relative == 1)).all())
        return float(relative.sum(axis=0).max(initial=0.0)) * (1 if exact else _ABOVE_ROUNDING)

    def _same_group(self, power: int) -> float:
        """Σ_a (range_a/scale_a)^power, where the row stays in its group; 0 is in the range, of rows outside."""
        total = 0.0
        for a, scale in enumerate(self.scales):
            low, high = self.bounds(a)
            total += ((high - low) / scale) ** power
        return total if total.is_integer() and self.aggregates == 1 else total * _ABOVE_ROUNDING

    def bounds(self, aggregate: int) -> tuple[int, int]:
        """The least and the largest weight of a row, or 0 if that is beyond; over several parts an outer bound."""
        low, high = self._of_rows(aggregate)
        for part in self.parts:
            factors = part.factors[aggregate]
            ends = min(0, int(factors.min(initial=0))), max(0, int(factors.max(initial=0)))
            products = [x * y for x in (low, high) for y in ends]
            low, high = min(0, *products), max(0, *products)
        return low, high

    def _of_rows(self, aggregate: int) -> tuple[int, int]:
        """What the weight of a cell is multiplied by: 1, or a row's own value between its bounds."""
        moment = self.moments.get(aggregate)
        return (1, 1) if moment is None else (moment.low, moment.high)

    def average_bounds(self, over: int, under: int) -> tuple[int, int]:
        """The least and the largest mean of weights: of the sum `over` among the rows that `under` counts."""
        low, high = self._of_rows(over)
        for part in self.parts:
            values = part.factors[over][part.factors[under] != 0]
            if len(values):
                products = [x * y for x in (low, high) for y in (int(values.min()), int(values.max()))]
                low, high = min(products), max(products)
        return low, high

    def cell_weights(self, cells: Integers) -> tuple[Integers, Integers]:
        """The weights of cells of the clique, shape (aggregates, cells), and their groups, shape (sets, cells)."""
        places = [self._within(part.clique, cells) for part in self.parts]
        weights = [self._weights(a, places) for a in range(self.aggregates)]
        return np.stack(weights), self._groups_at(places, len(cells))

    def _weights(self, aggregate: int, places: Sequence[Integers]) -> Integers:
        """One aggregate's weights of cells, given their places in each part."""
        factors = [part.factors[aggregate, local] for part, local in zip(self.parts, places, strict=True)]
        return np.asarray(np.multiply.reduce(factors), np.int64)

    def _groups_at(self, places: Sequence[Integers], cells: int) -> Integers:
        groups = np.zeros((len(self.groups), cells), np.int64)
        for part, local in zip(self.parts, places, strict=True):
            groups = groups * np.array(part.keys, np.int64)[:, None] + part.groups[:, local]
        return groups

    def _within(self, clique: Clique, cells: Integers) -> Integers:
        """The cells of a part's clique in which cells of the whole clique lie."""
        if not clique:
            return np.zeros(len(cells), np.int64)
        place = dict(zip(self.clique, np.unravel_index(cells, self.domain.shape(self.clique)), strict=True))
        return np.ravel_multi_index([place[name] for name in clique], self.domain.shape(clique)).astype(np.int64)

    def chosen(self, choice: Choice, sums: Sequence[Marginal]) -> Marginal:
        """In each cell the sum of the moment that the cell picks, of the sums of all moments."""
        picks = np.frombuffer(choice.picks, np.uint8)
        masks = [picks[self._within(choice.clique, summed.cells)] == n for n, summed in enumerate(sums, start=1)]
        cells = [summed.cells[keep] for summed, keep in zip(sums, masks, strict=True)]
        counts = [summed.counts[keep] for summed, keep in zip(sums, masks, strict=True)]
        return Marginal(self.clique, self.domain.size(self.clique), np.concatenate(cells), np.concatenate(counts))

    def answers(
        self, marginal: Marginal, presence: Presence | None = None, sums: Mapping[int, Marginal] | None = None
    ) -> list[Integers]:
        """The exact answers of each grouping set, shape (aggregates, groups).

        Args:
            marginal: of the clique.
            presence: of the clique's cells, where units are counted.
            sums: for each moment the sums of its steps in the clique's cells.
        """
        sums_by_set = self._sums(marginal)
        for a, summed in (sums or {}).items():
            for answers, own in zip(sums_by_set, self._sums(summed), strict=True):
                answers[a] = own[a]
        if presence is not None:
            weights, groups = self.cell_weights(presence.cells)
            for answers, of_set, count in zip(sums_by_set, groups, self.groups, strict=True):
                for a in self.units:
                    inside = weights[a] != 0
                    seen = np.unique(presence.units[inside] * count + of_set[inside])
                    answers[a] = 0
                    np.add.at(answers[a], seen % count, presence.alike[seen // count])
        return sums_by_set

    def _sums(self, marginal: Marginal) -> list[Integers]:
        """The sums of each grouping set; weights of one aggregate at a time, because a histogram is many aggregates."""
        places = [self._within(part.clique, marginal.cells) for part in self.parts]
        groups = self._groups_at(places, len(marginal.cells))
        sums_by_set = [np.zeros((self.aggregates, count), np.int64) for count in self.groups]
        for a in range(self.aggregates):
            weights = self._weights(a, places) * marginal.counts
            inside = weights != 0
            for answers, of_set in zip(sums_by_set, groups, strict=True):
                np.add.at(answers[a], of_set[inside], weights[inside])
        return sums_by_set
