"""The way from the rows of a table up to the rows that are the privacy units, and the columns that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.core.domain import Domain
from dpsql.core.of_unit import OfUnit
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
    """What a unit's rows of a linked table are asked for, as a column of the units.

    One unit is one row, and what stands in the column is a matter of that unit's rows alone. So a count of units by it
    changes by 1 at most when a unit comes or goes, however many rows it has.

    Attributes:
        table: the linked table.
        path: the tables above it, the next one first, the units last.
        most: so many rows or more are one number.
        asked: of the rows.
        way: how the ledger states that the rows lead to the units.
        domain: of the columns that its conditions read, once it was looked up.
        cells: some columns of that domain, and the cells of them in which conditions hold; all of these must.
    """

    table: Source
    path: tuple[Above, ...]
    most: int
    asked: OfUnit
    way: str = ""
    domain: Domain | None = None
    cells: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = ()

    @property
    def name(self) -> str:
        """What the column is called beside those of the units."""
        return self.asked.called(self.table.key)

    @property
    def column(self) -> Column:
        """It, beside those of the units."""
        if not self.asked.value:
            return Column(self.name, "BIGINT", nullable=False)
        column = with_reached(self.table, self.path).column(self.asked.value)
        return replace(column, name=self.name, nullable=True)


def with_per_unit(units: Source, asked: Sequence[PerUnit]) -> Source:
    """The table of the units, with what their rows are asked for as further columns.

    Raises:
        InvalidArgument: the table has a column of that name.
    """
    plain = units.columns[: len(units.columns) - len(units.per_unit)]
    for name in {column.name for column in plain} & {one.name for one in asked}:
        raise InvalidArgument(
            f"table {units.name!r} has a column {name!r}, as what its units' rows are asked for is called beside it: "
            "give it another name"
        )
    return replace(units, columns=(*plain, *(one.column for one in asked)), per_unit=tuple(asked))
