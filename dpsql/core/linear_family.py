r"""Families of linear queries: how much the rows of each group weigh, where a row's weight follows from its cell.

    q_g(D) = s·Σ_{rows x of D in group g} w(x_C),      w whole numbers, s = 2^−k the step

C is a clique. Its cell decides the weight w(x_C) of a row and the group that it is in, so one row changes one q_g. All
of it is public: it comes from an expression and the declared domain. With W = max |w|, a row changes the sum Σ_g |q_g|
by at most s·W; a row that is replaced changes it by |w − w′| where both are in one group, and |w| + |w′| elsewhere.

Of several families f together Σ_f Σ_g |change/W_f|^p is looked at in the joint cells of their cliques: no row has the
largest weight of all of them, unless some cell has. Where the joint cells are too many, families are put together as
long as their cells are few enough, and the sums of the parts are added up, which bounds it.

A row that is replaced by another is compared pair by pair on few cells. On more of them, with m the middle of the
weights of a family of one group,

    |w − w′| ≤ |w − m| + |w′ − m|,   (w − w′)² ≤ 2(w − m)² + 2(w′ − m)²

so twice the largest sum over single cells is a bound. Of a family of several groups m is 0; where no weight is below 0
its square is w² + w′² at most.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.magnitudes import largest_magnitude, magnitudes
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Family, clique_of, family_counts, has_every_row, moved_of

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LARGEST_WEIGHT: Final = 1 << 16
"""In steps: a score of such a weight can stand beside the score of a cell, whose weight is 1."""
_MOST_JOINT: Final = 500_000
"""Cells in which families are looked at together."""
_MOST_PAIRED: Final = 400
"""Cells all of whose pairs are compared."""
_FINENESS: Final = 1 << 20
_ABOVE_ROUNDING: Final = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """Linear queries, one for each group.

    Attributes:
        clique: C, the columns.
        weights: w, in steps, one for each cell of C, row-major.
        groups: the number of each cell's group, from 0 on.
        count: how many groups there are.
        step: s.
        text: the sum as it was written, for people; no part of what it is.
        scale: W of a family of more cells, of which these are a part.
        labels: of the groups, for people; none where they are too many.

    >>> half = LinearFamily(("a",), np.array([2, 1]), np.array([0, 0]), 1, Fraction(1, 2), "sum(1 or 0.5)")
    >>> half.answers(np.array([10.0, 4.0])).tolist(), half.largest  # 10 rows of weight 1 and 4 of weight 1/2, in halves
    ([24.0], 2)
    """

    clique: Clique
    weights: Integers
    groups: Integers
    count: int
    step: Fraction
    text: str = field(default="")
    scale: int = field(default=1)
    labels: tuple[str, ...] = field(default=())

    def of_cells(self, weights: Integers, groups: Integers) -> LinearFamily:
        """The same queries of a domain in which some cells hold no row; their scale stays."""
        return LinearFamily(self.clique, weights, groups, self.count, self.step, self.text, self.largest, self.labels)

    @cached_property
    def digest(self) -> str:
        """Tells families apart; journals and keys of requests have it, so it must never change."""
        hashing = hashlib.sha256(repr((self.clique, self.count, str(self.step), len(self.weights))).encode())
        for array in (self.weights, self.groups):
            hashing.update(array.astype("<i8").tobytes())
        return hashing.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearFamily) and (self.digest, self.largest) == (other.digest, other.largest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def largest(self) -> int:
        """W, at least 1."""
        return max(self.scale, largest_magnitude(self.weights))

    @property
    def span(self) -> int:
        """What the weights of two rows differ by at most, a row of weight 0 too, in steps; at least 1, at most 2W.

        >>> LinearFamily(("a",), np.array([2, -1]), np.array([0, 0]), 1, Fraction(1)).span
        3
        """
        return max(1, int(self.weights.max(initial=0)) - int(self.weights.min(initial=0)))

    @property
    def unit(self) -> float:
        """The largest weight as it was written, s·W: what errors are measured in."""
        return float(self.step) * self.largest

    def terms(self, group: int) -> list[tuple[int, int]]:
        """The cells of a group that weigh something, with their weights in steps.

        >>> LinearFamily(("a",), np.array([2, 0, -1]), np.array([0, 0, 0]), 1, Fraction(1)).terms(0)
        [(0, 2), (2, -1)]
        """
        cells = np.flatnonzero((self.groups == group) & (self.weights != 0))
        return [(int(cell), int(self.weights[cell])) for cell in cells]

    def named(self) -> dict[str, Any]:
        """What it is, as a report says it beside its digest: the books have the answers in steps."""
        return {"query": self.text, "step": float(self.step), "count": self.count, "groups": list(self.labels)}

    def answers(self, marginal: Floats) -> Floats:
        """The answers in steps, shape (groups,), from the marginal of C, counts or probabilities, shape (cells,)."""
        return np.bincount(self.groups, self.weights * np.asarray(marginal, np.float64), self.count).astype(np.float64)

    def exact(self, cells: Integers, counts: Integers) -> Integers:
        """The answers in whole steps from the cells that are not empty."""
        answers = np.zeros(self.count, np.int64)
        np.add.at(answers, self.groups[cells], self.weights[cells] * counts)
        return answers

    def spread(self, values: Floats) -> Floats:
        """For each cell what its row adds up: w times the value of its group, shape (cells,)."""
        return np.asarray(self.weights * values[self.groups], np.float64)

    def moved(self, neighbours: Neighbours, *, every_row: bool) -> int:
        """The most that Σ_g |q_g − a_g| differs between neighbours, in steps, whatever the a_g.

        Args:
            neighbours: which tables they are.
            every_row: whether every row has a cell of C.
        """
        if not neighbours.total_is_public:
            return neighbours.cell * self.largest
        low, high = self._ends(with_none=not every_row)
        apart = np.sort(np.maximum(magnitudes(low), magnitudes(high)))[-2:]
        return max(1, int((high - low).max()), sum(apart.tolist()) if len(low) > 1 else 0)

    def moved_single(self, neighbours: Neighbours, *, every_row: bool) -> int:
        """The most that one of the queries differs between neighbours, in steps."""
        if not neighbours.total_is_public:
            return neighbours.cell * self.largest
        low, high = self._ends(with_none=not every_row or self.count > 1)
        return max(1, int((high - low).max()))

    def _ends(self, *, with_none: bool) -> tuple[Integers, Integers]:
        """The least and the largest weight in each group that has a cell; with 0 where a row may be in none."""
        low, high = np.full(self.count, np.iinfo(np.int64).max), np.full(self.count, np.iinfo(np.int64).min)
        np.minimum.at(low, self.groups, self.weights)
        np.maximum.at(high, self.groups, self.weights)
        low, high = low[low <= high], high[low <= high]
        return (np.minimum(low, 0), np.maximum(high, 0)) if with_none else (low, high)


def moved_of_linear(domain: Domain, family: LinearFamily, neighbours: Neighbours, *, single: bool = False) -> int:
    """`LinearFamily.moved`, or `moved_single`, over a domain."""
    every = has_every_row(domain, family.clique)
    return family.moved_single(neighbours, every_row=every) if single else family.moved(neighbours, every_row=every)


def joint_change(
    domain: Domain, families: Sequence[LinearFamily], power: int, neighbours: Neighbours, *, anew: bool = False
) -> Fraction:
    """Δ^power: the most that Σ_f Σ_g |change/W_f|^power can be between neighbours, or little more; see the module.

    Args:
        domain: of the cliques.
        families: whose answers are asked for together.
        power: 1 or 2.
        neighbours: which tables they are.
        anew: whether it is computed although it is known, because whoever knows it may have been told by others.
    """
    sizes = tuple((name, domain.size((name,))) for name in domain.names)
    every = all(has_every_row(domain, family.clique) for family in families)
    compute = _joint_change.__wrapped__ if anew else _joint_change
    return compute(sizes, tuple(families), power, neighbours, every)


@lru_cache(maxsize=256)
def _joint_change(
    sizes: tuple[tuple[str, int], ...],
    families: tuple[LinearFamily, ...],
    power: int,
    neighbours: Neighbours,
    every_row: bool,  # noqa: FBT001
) -> Fraction:
    shape = dict(sizes)
    total = sum(_of_part(shape, part, power, neighbours, every_row=every_row) for part in _parts(shape, families))
    if not neighbours.total_is_public:
        total *= neighbours.cell**power
    rounded = Fraction(math.ceil(total * _ABOVE_ROUNDING * _FINENESS), _FINENESS)
    whole = Fraction(round(total))
    close = abs(total - float(whole)) < 1e-9 and all(_is_plain(family) for family in families)
    return max(Fraction(1, _FINENESS), whole if close else rounded)


def _is_plain(family: LinearFamily) -> bool:
    """Whether w/W is 0, 1 or −1 everywhere, so that sums of it have no rounding error."""
    return bool(np.isin(family.weights, (0, family.largest, -family.largest)).all())


def _parts(shape: dict[str, int], families: Iterable[LinearFamily]) -> list[list[LinearFamily]]:
    """The families, put together as long as their joint cells are few enough."""
    parts: list[tuple[set[str], list[LinearFamily]]] = []
    for family in sorted(families, key=lambda member: (member.clique, member.digest)):
        for names, part in parts:
            joined = names | {*family.clique}
            if math.prod(shape[name] for name in joined) <= _MOST_JOINT:
                names |= joined
                part.append(family)
                break
        else:
            parts.append(({*family.clique}, [family]))
    return [part for _, part in parts]


def _of_part(
    shape: dict[str, int], families: Sequence[LinearFamily], power: int, neighbours: Neighbours, *, every_row: bool
) -> float:
    """Of families whose joint cells are few enough, for one row; of a family alone too, whatever its cells."""
    used = {name for family in families for name in family.clique}
    names = [name for name in shape if name in used]
    if not neighbours.total_is_public:
        return float(_summed(shape, names, families, [np.abs(f.weights / f.largest) ** power for f in families]))
    if math.prod(shape[name] for name in names) <= _MOST_PAIRED and every_row:
        return _paired(shape, names, families, power)
    return 2 * float(_summed(shape, names, families, [_halves(f, power, every_row=every_row) for f in families]))


def _halves(family: LinearFamily, power: int, *, every_row: bool) -> Floats:
    """What each cell adds to the bound of a replaced row: see the module."""
    relative = family.weights / family.largest
    ends = (min(relative.min(), 0.0), max(relative.max(), 0.0)) if not every_row else (relative.min(), relative.max())
    centre = sum(ends) / 2 if family.count == 1 else 0.0
    twice = 2 if power == 2 and (family.count == 1 or ends[0] < 0) else 1
    halves = twice * np.abs(relative - centre) ** power
    return np.asarray(halves if every_row else np.maximum(halves, twice * abs(centre) ** power), np.float64)


def _summed(
    shape: dict[str, int], names: Sequence[str], families: Sequence[LinearFamily], values: Sequence[Floats]
) -> float:
    """The largest sum of the families' values in a joint cell."""
    total: Floats = np.zeros([shape[name] for name in names]) if len(families) > 1 else values[0]
    if len(families) > 1:
        for family, of_cells in zip(families, values, strict=True):
            total += of_cells.reshape([shape[name] if name in family.clique else 1 for name in names])
    return float(total.max(initial=0.0))


def _paired(shape: dict[str, int], names: Sequence[str], families: Sequence[LinearFamily], power: int) -> float:
    """The most that two rows differ in, over all pairs of joint cells."""
    sizes = [shape[name] for name in names]
    codes = dict(zip(names, np.unravel_index(np.arange(math.prod(sizes)), sizes), strict=True))
    total: Floats = np.zeros((math.prod(sizes),) * 2)
    for family in families:
        places = [codes[name] for name in family.clique]
        cell = np.ravel_multi_index(places, [shape[n] for n in family.clique]) if places else np.zeros(1, np.int64)
        weights, groups = family.weights[cell] / family.largest, family.groups[cell]
        same = groups[:, None] == groups[None, :]
        apart = np.abs(weights[:, None]) ** power + np.abs(weights[None, :]) ** power
        total += np.where(same, np.abs(weights[:, None] - weights[None, :]) ** power, apart)
    return float(total.max())


QueryFamily = Family | LinearFamily
"""What a workload asks for."""


def columns_of(family: QueryFamily) -> Clique:
    """The columns of a marginal, thresholds or linear queries."""
    return family.clique if isinstance(family, LinearFamily) else clique_of(family)


def number_of(domain: Domain, family: QueryFamily) -> int:
    """How many answers there are: cells, thresholds or groups."""
    return family.count if isinstance(family, LinearFamily) else domain.size(clique_of(family))


def answers_of(domain: Domain, marginal: Floats, family: QueryFamily) -> Floats:
    """The answers from the marginal of the columns; those of linear queries are in steps."""
    if isinstance(family, LinearFamily):
        return family.answers(marginal)
    return family_counts(marginal, domain.shape(clique_of(family)), family)


def moved_by(domain: Domain, family: QueryFamily, neighbours: Neighbours) -> int:
    """The most that Σ |answer − a| differs between neighbours; of linear queries in steps."""
    if isinstance(family, LinearFamily):
        return moved_of_linear(domain, family, neighbours)
    return moved_of(domain, family, neighbours)
