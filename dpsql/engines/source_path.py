"""The way from the rows of a table up to the rows that are the privacy units, and the columns that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
        if column.name in own:
            raise InvalidArgument(
                f"table {source.name!r} has a column {column.name!r}, as a column of a table that it is linked to is "
                "called beside it: give it another name"
            )
    return replace(source, columns=(*source.columns, *more))
