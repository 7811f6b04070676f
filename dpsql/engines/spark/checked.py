"""What came back is checked before it is used: an engine that is not this process is not believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.engines.checked import WrongCounts

Counts = npt.NDArray[np.int64]
Cells = tuple[Counts, Counts]
"""Cells with their counts or sums, without those of rows that have no cell."""
WHOLE: Final = -1
"""In place of the number of a marginal: how many rows were seen."""


def numbers_of(table: Any, names: Sequence[str]) -> list[Counts]:
    """Columns of whole numbers of 64 bits.

    Raises:
        WrongCounts: they are none.
    """
    try:
        columns = [table.column(name) for name in names]
        if any(column.null_count for column in columns):
            raise WrongCounts
        return [np.asarray(column.to_numpy(), np.int64) for column in columns]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise WrongCounts from None


def marginals_of(table: Any, sizes: Mapping[int, int], rows: int, *, are_counts: bool = True) -> dict[int, Cells]:
    """The marginals that one pass counted, by their numbers; cells are distinct, from −1 to below the size.

    Args:
        table: columns m, cell and n.
        sizes: for each marginal, how many cells it has.
        rows: of the table.
        are_counts: whether n counts rows, so that it is positive and adds up to the rows; else it is a sum.

    Raises:
        WrongCounts: it is none of that.
    """
    marginal, cell, count = numbers_of(table, ("m", "cell", "n"))
    if not np.isin(marginal, [WHOLE, *sizes]).all():
        raise WrongCounts
    seen = count[marginal == WHOLE]
    if seen.sum() != rows:
        raise WrongCounts
    order = np.argsort(marginal, kind="stable")
    bounds = np.searchsorted(marginal[order], [[number, number + 1] for number in sizes])
    marginals = {}
    for (number, size), (start, end) in zip(sizes.items(), bounds.tolist(), strict=True):
        places = order[start:end]
        cells, counts = cell[places], count[places]
        if len(np.unique(cells)) != len(cells) or ((cells < -1) | (cells >= size)).any():
            raise WrongCounts
        if are_counts and ((counts <= 0).any() or sum(counts.tolist()) != rows):
            raise WrongCounts
        marginals[number] = cells[cells >= 0], counts[cells >= 0]
    return marginals


def decoded(value: bytes) -> str | None:
    """A text from its bytes; None of bytes that are none, which Spark has and DuckDB has not, so they are left out."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
