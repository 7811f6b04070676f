"""What is proposed for a column, and on what ground."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal

MOST_CELLS: Final = (24, 16, 12, 8, 6, 4)
"""About how many cells a column of numbers gets, from fine to coarse. At first few whole numbers have one each."""
KEPT: Final = 12
"""Different values that keep a cell each, however coarse the others are."""


class Ground(Enum):
    """Why a proposal may be made."""

    PUBLIC = "Public"
    """It follows from public facts: the type, the codebook, what everybody knows of such a column."""
    CONFIRM = "CONFIRM"
    """It is likely, but public only by the owner's word."""
    LOOKED = "Looked"
    """It was read off the rows, so it is the owner's disclosure."""
    QUESTION = "QUESTION"
    """Only the owner can tell."""


@dataclass(frozen=True)
class Proposal:
    """What is proposed for one column.

    Attributes:
        column: its name.
        type: its type, as the script loads it.
        ground: why it may be proposed.
        because: a sentence for the owner.
        how: the arguments of `dp_domain`; None where the type declares itself.
        options: other statements for the owner to choose from, written as comments.
        load: the SQL expression by which a file's column is loaded; None for as it is.
        price: the ε that the statement costs.
        codes: each value that it has, where it is a column of few values; for facts of several columns.
        coarser: proposals for the same column with fewer cells, one for each of `MOST_CELLS` but the first.
        finer: of dates, proposals with a cell for each month or quarter, the finest first: they are preferred where
            half of the column's pairs would be reliable with them.
    """

    column: str
    type: str
    ground: Ground
    because: str
    how: Mapping[str, Any] | None
    options: tuple[str, ...] = ()
    load: str | None = None
    price: float = 0.0
    codes: tuple[str, ...] = ()
    coarser: tuple[Proposal, ...] = field(default=(), repr=False)
    finer: tuple[Proposal, ...] = field(default=(), repr=False)

    @property
    def sql(self) -> str:
        """Of the column's values in the rows that are looked at, as the script loads them."""
        return self.load or quote(self.column)

    @property
    def is_as_stored(self) -> bool:
        """Whether the column is kept as it is stored, but for codes that mean a missing value."""
        how = self.how
        return how is not None and not self.is_excluded and not {"read_as", "computed_as", "discover", "ids"} & {*how}

    @property
    def filled_sql(self) -> str:
        """The same, with NULL for what stands for a missing value."""
        codes = (self.how or {}).get("nulls_as")
        if not codes:
            return self.sql
        listed = ", ".join(literal(code) for code in codes)
        return f"CASE WHEN {self.sql} NOT IN ({listed}) THEN {self.sql} END"

    @property
    def is_excluded(self) -> bool:
        """Whether the column stays NULL in synthetic rows."""
        return self.how is not None and bool(self.how.get("exclude"))

    def at(self, level: int) -> Proposal:
        """The proposal with about `MOST_CELLS[level]` cells; itself where it has as many at every level."""
        return self.coarser[level - 1] if level and self.coarser else self

    def each(self, change: Callable[[Proposal], Proposal]) -> Proposal:
        """The proposal with a change made to it, to the coarser and to the finer ones."""
        return replace(change(self), coarser=tuple(map(change, self.coarser)), finer=tuple(map(change, self.finer)))


def ladder(proposals: Callable[[int], Proposal]) -> Proposal:
    """The proposal with the most cells, and the coarser ones with it.

    Args:
        proposals: of about how many cells.
    """
    first, *others = map(proposals, MOST_CELLS)
    return first if all(other.how == first.how for other in others) else replace(first, coarser=tuple(others))
