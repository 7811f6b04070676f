"""The way from the rows of a table up to the rows that are the privacy units, and the columns that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.core.domain import Domain
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument


@dataclass(frozen=True)
class Above:
    """A table whose rows the rows of the table below it lead to.

    Attributes:
        source: the table, with its own columns.
        key: columns of the table below.
        references: columns of its own that they name, in the same order.
    """

    source: Source
    key: tuple[str, ...]
    references: tuple[str, ...]


def reached(above: Source, column: str) -> str:
    """What a column of a table above is called beside the columns of a table below it."""
    return f"{above.key}.{column}"


def with_reached(source: Source, path: Sequence[Above]) -> Source:
    """A table with the columns of the rows that its rows lead to, after its own.

    Raises:
        InvalidArgument: two columns are then called alike.
    """
    own = {column.name for column in source.columns}
    more: list[Column] = []
    for step in path:
        more += [replace(column, name=reached(step.source, column.name)) for column in step.source.columns]
    for column in more:
        if column.name in own or sum(other.name == column.name for other in more) > 1:
            raise InvalidArgument(
                f"table {source.name!r} has a column {column.name!r}, as a column of a table that it is linked to is "
                "called beside it: give it another name"
            )
    return replace(source, columns=(*source.columns, *more))


@dataclass(frozen=True)
class PerUnit:
    """How many rows of a linked table belong to each unit, as a column of the units.

    One unit is one row, and the number is a matter of that unit's rows alone. So a count of units by it changes by 1 at
    most when a unit comes or goes, however many rows it has.

    Attributes:
        table: the linked table.
        path: the tables above it, the next one first, the units last.
        most: so many rows or more are one number.
        where: conditions on the rows that count, over the table's columns and those that it reaches, as SQL.
        domain: of the columns that those read, once it was looked up.
        cells: of that domain, in which all of them hold.
    """

    table: Source
    path: tuple[Above, ...]
    most: int
    where: tuple[str, ...] = ()
    domain: Domain | None = None
    cells: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What the column is called beside those of the units."""
        return " and ".join([f"rows of {self.table.key}", *self.where])


def with_numbers(units: Source, numbers: Sequence[PerUnit]) -> Source:
    """The table of the units, with numbers of rows below each as further columns."""
    more = [Column(number.name, "BIGINT", nullable=False) for number in numbers]
    return replace(units, columns=(*units.columns, *more), per_unit=tuple(numbers))
