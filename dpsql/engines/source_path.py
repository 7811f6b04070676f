"""The columns of a table together with those that its rows lead to, and with what units are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.engines.source import Above, Column, PerUnit, Source
from dpsql.errors import InvalidArgument


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


def with_per_unit(units: Source, derived: Sequence[PerUnit]) -> Source:
    """The table of the units, with what their rows are asked for as further columns.

    Raises:
        InvalidArgument: the table has a column of that name.
    """
    plain = units.columns[: len(units.columns) - len(units.per_unit)]
    for name in {column.name for column in plain} & {column.name for column in derived}:
        raise InvalidArgument(
            f"table {units.name!r} has a column {name!r}, as what its units' rows are asked for is called beside it: "
            "give it another name"
        )
    return replace(units, columns=(*plain, *map(_column_of, derived)), per_unit=tuple(derived))


def _column_of(derived: PerUnit) -> Column:
    """What a unit's rows are asked for, as a column beside those of the units."""
    if not derived.question.value:
        return Column(derived.name, "BIGINT", nullable=False)
    column = with_reached(derived.table, derived.path).column(derived.question.value)
    return replace(column, name=derived.name, nullable=True)
