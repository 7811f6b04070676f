"""What is asked of the rows of a linked table that belong to one unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OfUnit:
    """How many rows of a unit satisfy some conditions, or a value of one of them.

    Which row that is depends on what the unit's rows hold, and between equal ones on a secret: on no other unit.

    Attributes:
        where: conditions on the rows, over the table's columns and those that it reaches, as SQL.
        value: the column whose value is asked for; empty where rows are counted.
        by: the column that orders the rows, of which the first is asked; empty where any is.
        descending, nulls_first: how it does.
        most: so many rows or more are one number; 0 where the link says how many.
        skips: columns that are not NULL in the rows among which one is chosen.
    """

    where: tuple[str, ...] = ()
    value: str = ""
    by: str = ""
    descending: bool = False
    nulls_first: bool = False
    skips: tuple[str, ...] = ()
    most: int = 0

    def called(self, table: str) -> str:
        """What the column of the units is called that has it; other questions have other names."""
        if not self.value:
            return " and ".join([f"{f'up to {self.most} ' if self.most else ''}rows of {table}", *self.where])
        order = f"{self.by!r}{' descending' * self.descending}{' NULL first' * self.nulls_first}" if self.by else "any"
        without = [f"{name} is there" for name in self.skips]
        return " and ".join([f"{self.value} of the row of {table} by {order}", *without, *self.where])
