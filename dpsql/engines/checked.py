"""What came back is checked before it is used: an engine that is not this process is not believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.column_types import column_type
from dpsql.core.domain import Clique
from dpsql.core.marginal import Presence
from dpsql.engines.protocol import CountingRefused

Counts = npt.NDArray[np.int64]
_WHOLE: Final = ("int32", "int64")


class WrongCounts(CountingRefused):
    """What came back are no counts of the domain's cells."""

    def __init__(self) -> None:
        super().__init__("the engine returned what cannot be counts of this table, so nothing is released")


def cells_of(answer: dict[str, Any], size: int) -> tuple[Counts, Counts]:
    """Cells with their counts or sums: cells are distinct, from −1 to below `size`.

    Raises:
        WrongCounts: they are not.
    """
    cells, counts = _whole_numbers(answer, "cell"), _whole_numbers(answer, "n")
    if len(np.unique(cells)) != len(cells) or ((cells < -1) | (cells >= size)).any():
        raise WrongCounts
    return cells, counts


def counts_of(cells: Counts, counts: Counts, rows: int) -> tuple[Counts, Counts]:
    """The cells of a marginal with their counts, which are positive and add up to the rows of the table.

    Raises:
        WrongCounts: they do not.
    """
    if (counts <= 0).any() or sum(counts.tolist()) != rows:
        raise WrongCounts
    return cells[cells >= 0], counts[cells >= 0]


def presence_of(answer: dict[str, Any], clique: Clique, size: int, rows: int, most: int) -> Presence:
    """Sets of cells with how many units have rows in just those; each pair of a unit and a cell takes a row.

    Args:
        answer: columns cells, each a list in order, and n.
        clique: whose cells they are.
        size: how many of them there are.
        rows: that count.
        most: rows of one unit that count.

    Raises:
        WrongCounts: it is none of that.
    """
    alike = _whole_numbers(answer, "n")
    try:
        if str(answer["cells"].type.value_type) not in _WHOLE:
            raise WrongCounts
        lists = [np.array(cells, np.int64) for cells in answer["cells"].to_pylist()]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise WrongCounts from None
    lengths = np.array([cells.size for cells in lists], np.int64)
    units, cells = np.repeat(np.arange(len(lists)), lengths), np.concatenate([np.empty(0, np.int64), *lists])
    same = units[1:] == units[:-1]
    if (
        len({cells.tobytes() for cells in lists}) < len(lists)
        or ((lengths < 1) | (lengths > most) | (alike < 1) | (alike > rows)).any()
        or ((cells < 0) | (cells >= size)).any()
        or (np.diff(cells)[same] <= 0).any()
        or sum(n * length for n, length in zip(alike.tolist(), lengths.tolist(), strict=True)) > rows
    ):
        raise WrongCounts
    return Presence(clique, units, cells, alike)


def codes_in(answer: dict[str, Any], sizes: Sequence[int], rows: int) -> tuple[npt.NDArray[np.int32], Counts]:
    """Tuples of codes, −1 for none, with how many rows have each: they are positive and add up to the rows.

    Args:
        answer: columns c0, c1, … and n.
        sizes: how many codes each column has.
        rows: how many there are in all.

    Raises:
        WrongCounts: it is none of that.
    """
    counts = _whole_numbers(answer, "n")
    columns = [_whole_numbers(answer, f"c{place}") for place in range(len(sizes))]
    codes = np.array(columns, np.int64).reshape(len(sizes), len(counts)).T
    if (counts <= 0).any() or sum(counts.tolist()) != rows or ((codes < -1) | (codes >= np.array(sizes))).any():
        raise WrongCounts
    return codes.astype(np.int32), counts


def number_of(answer: dict[str, Any]) -> int:
    """The one number of a statement, at least 0.

    Raises:
        WrongCounts: it is none.
    """
    numbers = _whole_numbers(answer, "n")
    if len(numbers) != 1 or numbers[0] < 0:
        raise WrongCounts
    return int(numbers[0])


def _whole_numbers(answer: dict[str, Any], name: str) -> Counts:
    """A column of whole numbers: of 64 bits, or decimals, or a sum that Postgres writes as text."""
    try:
        column = answer[name]
        if str(column.type) in _WHOLE and not column.null_count:
            return np.asarray(column.to_numpy(), np.int64)
        return np.array([int(value) for value in column.to_pylist()], np.int64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise WrongCounts from None


def listed_once(pairs: Iterable[tuple[str | None, int]], type_name: str = "VARCHAR") -> tuple[list[str], Counts]:
    """Values with how many units have each, in the order of their bytes; None is left out.

    Two texts of equal values are one value, with the larger number: a unit more adds at most 1 to it.

    >>> listed_once([("b", 2), ("a", 3), (None, 9), ("b", 5)])
    (['a', 'b'], array([3, 5]))
    >>> listed_once([("-0.0", 2), ("0.0", 3)], "DOUBLE")
    (['0.0'], array([3]))
    """
    folded = column_type(type_name).folded
    best: dict[str, int] = {}
    for written, number in pairs:
        if written is not None:
            text = folded(written)
            best[text] = max(best.get(text, 0), number)
    ordered = sorted(best, key=str.encode)
    return ordered, np.array([best[text] for text in ordered], np.int64)
