"""What rows of units say of each slot, and values of a table's columns where no unit says anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.unit_row import Slot, UnitRow

Codes = npt.NDArray[np.int64]


def slots_of(unit_row: UnitRow, units: Codes) -> tuple[list[Codes], list[npt.NDArray[np.bool_]]]:
    """For each slot the codes of its table's columns and numbers, and which units have it whole."""
    own, there = [], []
    for place in unit_row.places:
        attributes, codes = unit_row.domain.attributes[place], units[:, place]
        absent = np.array([-1 if a.absent_code is None else a.absent_code for a in attributes])
        there.append((codes != absent).all(axis=1))
        own.append(codes - ((codes > absent) & (absent >= 0)))
    return own, there


def any_values(
    unit_row: UnitRow, slot: Slot, own: Codes, rules: Sequence[Allowed], generator: np.random.Generator
) -> Codes:
    """Codes of a table's columns, each drawn by itself among those that are declared, or with those it is tied to."""
    domain: Domain = unit_row.extended(slot.table)
    count = max(1, min(len(own), 1_000))
    columns = [generator.integers(0, _declared(attribute), count) for attribute in domain]
    for part in rules:
        places = [domain.names.index(name) for name in part.clique]
        regular = [_declared(domain.attributes[place]) for place in places]
        tuples = part.codes[(part.codes < regular).all(axis=1)]
        tuples = tuples if len(tuples) else part.codes
        drawn = tuples[generator.integers(0, len(tuples), count)]
        for place, codes in zip(places, drawn.T, strict=True):
            columns[place] = codes
    return np.stack(columns, axis=1) if columns else np.zeros((count, 0), np.int64)


def _declared(attribute: Attribute) -> int:
    return max(1, attribute.regular)
