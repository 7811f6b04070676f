"""Rows of a link in order: the order column of the later of two rows is not before that of the earlier one.

    public     c₁ ≤ c₂,   by what the two rows of a unit's row are
    measured   c₁ < c₂,   where T = Σ_c y(c, c) ≤ 2·√Σ σ²: no more pairs have equal codes than noise makes up

NULL has the last code, and is not among the equal ones. What is measured are noisy counts, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Domain
from dpsql.core.marginal import Measurement
from dpsql.core.unit_row import UnitRow

_MOST_TUPLES: Final = 20_000
"""Pairs of codes from which on rows are put into order when they are drawn: a fit would not gain by so many facts."""
_DEVIATIONS: Final = 2.0


def with_orders(unit_row: UnitRow, allowed: Sequence[Allowed]) -> list[Allowed]:
    """What is allowed of units' rows, and that rows in order rise, where no other fact has their columns."""
    tied = {name for part in allowed for name in part.clique}
    parts = list(allowed)
    for pair in unit_row.orders.values():
        part = ascending(unit_row.domain, *pair)
        if part is not None and tied.isdisjoint(pair):
            parts.append(part)
    return parts


def orders(
    unit_row: UnitRow, allowed: Sequence[Allowed], measured: Sequence[Measurement]
) -> tuple[list[Allowed], frozenset[str]]:
    """What is allowed of drawn units, where rows that measured counts show to rise strictly do; and their tables."""
    strict = {t: pair for t, pair in unit_row.orders.items() if is_strict(unit_row.domain, *pair, measured)}
    rising = [ascending(unit_row.domain, *pair, strictly=True) for pair in strict.values()]
    instead = {part.clique: part for part in rising if part is not None and len(part.codes)}
    return [instead.get(part.clique, part) for part in allowed], frozenset(strict)


def ascending(domain: Domain, earlier: str, later: str, *, strictly: bool = False) -> Allowed | None:
    """The pairs of codes of the order column that two rows which follow each other may have; None for too many.

    Args:
        domain: of units' rows.
        earlier: the column of the row that comes first.
        later: that of the next one.
        strictly: whether none has the same code twice.
    """
    attributes = domain.by_name[earlier], domain.by_name[later]
    sizes = [attribute.size for attribute in attributes]
    if math.prod(sizes) > _MOST_TUPLES:
        return None
    codes = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1).astype(np.int64)
    first, second = codes.T
    absent = [attribute.absent_code for attribute in attributes]
    none, alone = first == absent[0], second == absent[1]  # no code is None
    regular = first < attributes[0].regular
    rises = (first < second) | ((first == second) & ~(regular & strictly))
    codes = codes[(none & alone) | (~none & (alone | rises))]
    return Allowed((earlier, later), (earlier, later), (), codes, np.zeros(codes.shape))


def is_strict(domain: Domain, earlier: str, later: str, measured: Sequence[Measurement]) -> bool:
    """Whether noisy counts show no pair of rows with equal codes of the order column; not where none was counted."""
    regular = domain.by_name[earlier].regular
    equal, weight = 0.0, 0.0
    for measurement in measured:
        if (
            measurement.cells is None
            and measurement.least is None
            and measurement.linear is None
            and {earlier, later} <= {*measurement.clique}
        ):
            places = measurement.clique.index(earlier), measurement.clique.index(later)
            table = np.moveaxis(measurement.values.reshape(measurement.shape), places, (0, 1))
            cells = table[np.arange(regular), np.arange(regular)]
            share = 1 / max(float(measurement.variance) * cells.size, 1e-9)
            equal, weight = equal + share * float(cells.sum()), weight + share
    return weight > 0 and equal / weight <= _DEVIATIONS / math.sqrt(weight)
