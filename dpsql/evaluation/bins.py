"""The values of a column at which expressions are tried, and finer bins of it.

A bin that holds several values is tried at all of them if they can be counted, else at its ends and around every
constant of the expressions. A listed value is tried in all spellings that DuckDB calls equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute
from dpsql.core.linear_query import Integers
from dpsql.engines.duckdb.ticks import edge_texts
from dpsql.evaluation.sandbox import empty_database

_MOST_STEPS: Final = 200_000  # of one column, taken value by value
_MOST_CUTS: Final = 2_000  # edges that are not evenly spaced, added to a column's own
PERIODS: Final = (86_400, 3600, 60, 1)  # seconds: a day, an hour, a minute, a second


def all_tried(attribute: Attribute) -> bool:
    """Whether every value of every bin is tried."""
    if attribute.kind != "bins":
        return True
    return not attribute.is_float and attribute.ticks[-1] - attribute.ticks[0] <= _MOST_STEPS


@dataclass
class TriedColumn:
    """The values of one attribute at which expressions are tried, sorted by code."""

    attribute: Attribute
    codes: Integers
    ticks: npt.NDArray[Any]
    """Of bins; of listed values which spelling of the value it is, 0 for the declared one."""

    @staticmethod
    def of(attribute: Attribute, constants: Sequence[int | float], *, tried: bool) -> TriedColumn:
        """The lowest value of each code; where expressions read the column, others in its bins too."""
        codes, ticks = [np.arange(attribute.size)], [_lowest(attribute, np.arange(attribute.size))]
        for more_codes, more_ticks in _inside(attribute, constants) if tried else ():
            codes.append(np.asarray(more_codes, np.int64))
            ticks.append(np.asarray(more_ticks))
        together = np.concatenate(codes)
        order = np.argsort(together, kind="stable")
        return TriedColumn(attribute, together[order], np.concatenate(ticks)[order])


def _lowest(attribute: Attribute, codes: Integers) -> npt.NDArray[Any]:
    if attribute.kind != "bins":
        return np.zeros(len(codes), np.int64)
    return np.array(attribute.ticks)[np.minimum(codes, attribute.regular - 1)]


def _inside(attribute: Attribute, constants: Sequence[int | float]) -> Iterator[tuple[Any, Any]]:
    """Codes of bins and further ticks in them: all, or the highest and those around constants.

    Of listed values all spellings, because −0.0 counts as 0.0, and an expression may tell them apart.
    """
    if attribute.kind == "values":
        for spelling in range(1, len(attribute.of_type.respelled) + 1):
            yield np.arange(len(attribute.values)), np.full(len(attribute.values), spelling)
    if attribute.kind != "bins":
        return
    if attribute.is_float:
        edges = np.array(attribute.ticks, attribute.of_type.float_type)
        highest = np.nextafter(edges[1:], -np.inf)
        highest[-1] = edges[-1]
        yield np.arange(attribute.regular), highest.astype(float)
        for constant in constants:
            value = edges.dtype.type(constant)
            for near in (np.nextafter(value, -np.inf), value, np.nextafter(value, np.inf)):
                if edges[0] <= near <= edges[-1]:
                    code = min(int(np.searchsorted(edges, near, side="right")) - 1, attribute.regular - 1)
                    yield [code], [float(near)]
        return
    ticks = np.array(attribute.ticks, np.int64)
    if attribute.has_single_values:
        return
    if ticks[-1] - ticks[0] <= _MOST_STEPS:
        every = np.arange(ticks[0], ticks[-1])
        codes = np.searchsorted(ticks, every, side="right") - 1
        more = every != ticks[codes]
        yield codes[more], every[more]
        return
    yield np.arange(attribute.regular), ticks[1:] - 1
    for constant in constants:
        for near in (int(constant) - 1, int(constant), int(constant) + 1):
            if ticks[0] <= near < ticks[-1]:
                yield [int(np.searchsorted(ticks, near, side="right")) - 1], [near]


def finest_of(attribute: Attribute, period: int) -> Attribute:
    """The same bounds with a bin for each value, or for each period of so many seconds, where there are few enough."""
    unit = attribute.of_type.ticks_per_second * period
    if attribute.kind != "bins" or (not all_tried(attribute) and not unit) or attribute.has_single_values:
        return attribute
    low, high = int(attribute.ticks[0]), int(attribute.ticks[-1])
    if all_tried(attribute):
        return _with_ticks(attribute, range(low, high + 1))
    uneven = any(edge % unit for edge in attribute.ticks[1:-1])  # a search tree of the edges is parsed for seconds
    if (high - low) // unit > (_MOST_CUTS if uneven else _MOST_STEPS):
        return attribute
    return _with_ticks(attribute, {*map(int, attribute.ticks), *range(-(-low // unit) * unit, high, unit)})


def cut_at(attribute: Attribute, constants: Iterable[int | float]) -> Attribute:
    """The same bounds with each of some constants, as ticks, in a bin of its own."""
    if attribute.kind != "bins" or all_tried(attribute):
        return attribute
    lowest, last = attribute.ticks[0], attribute.ticks[-1]
    cuts: set[int | float] = set()
    for constant in constants:
        if attribute.is_float:
            assert attribute.of_type.float_type is not None
            near = attribute.of_type.float_type(constant)
            cuts |= {float(near), float(np.nextafter(near, near.dtype.type(np.inf)))}
        else:
            cuts |= {int(constant), int(constant) + 1}
    if len(cuts) > _MOST_CUTS:
        return attribute
    return _with_ticks(attribute, {*attribute.ticks, *(cut for cut in cuts if lowest < cut < last)})


def closed_at_end(attribute: Attribute) -> Attribute:
    """The same bounds with the largest value of floats in a bin of its own: the last bin holds its upper end."""
    if attribute.kind != "bins" or not attribute.is_float or attribute.ticks[-1] == attribute.ticks[-2]:
        return attribute
    return replace(
        attribute, ticks=(*attribute.ticks, attribute.ticks[-1]), edges=(*attribute.edges, attribute.edges[-1])
    )


def _with_ticks(attribute: Attribute, ticks: Iterable[int | float]) -> Attribute:
    """The same with other edges."""
    ordered = tuple(sorted(ticks))
    if ordered == attribute.ticks:
        return attribute
    with empty_database() as empty:
        return replace(attribute, ticks=ordered, edges=edge_texts(empty, ordered, attribute.type))
