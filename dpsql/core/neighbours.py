r"""Neighbours: which two tables a guarantee compares, and how far their counts can differ then.

    add_remove     one row more or less; the number of rows is private
    replace_one    one row changed; the number of rows is public
    units          all rows of one privacy unit (a patient, a client) more or less, of which at most c count;
                   the number of rows is private
    whole units    the same without c, where units are counted, each as one row (`dpsql.core.unit_row`)

All sensitivities follow from c, the rows that count of a unit, 1 where each row or unit is one. They may all be alike,
so

    one count     c, or 1 (replace_one)
    a marginal    L1  c, or 2 (replace_one);   L2²  c², or 2 (replace_one)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from dpsql.errors import InvalidArgument

KINDS: Final = ("add_remove", "replace_one")


@dataclass(frozen=True)
class Neighbours:
    """Which two tables count as neighbours.

    Attributes:
        kind: `add_remove` or `replace_one`.
        unit_rows: c, how many rows of a privacy unit count at most; None where each row is a unit of its own.
        whole: whether privacy units are counted, each as one row, however many rows it has.

    >>> Neighbours("add_remove", 8).marginal_l2_squared, Neighbours.REPLACE_ONE.marginal_l2_squared
    (64, 2)
    """

    kind: str
    unit_rows: int | None = None
    whole: bool = False

    ADD_REMOVE: ClassVar[Neighbours]
    UNITS: ClassVar[Neighbours]
    REPLACE_ONE: ClassVar[Neighbours]

    def __post_init__(self) -> None:
        """Check the kind."""
        if self.kind not in KINDS:
            raise InvalidArgument(f"neighbours is {self.kind!r}: say {' or '.join(map(repr, KINDS))}")
        if self.unit_rows is not None and self.kind != "add_remove":
            raise InvalidArgument("neighbours is 'replace_one': a privacy unit goes with 'add_remove'")

    def __str__(self) -> str:
        """The kind."""
        return self.kind

    @property
    def of_units(self) -> bool:
        """Whether neighbours differ by a privacy unit with all its rows, and not by a row."""
        return self.whole or self.unit_rows is not None

    @property
    def total_is_public(self) -> bool:
        """Whether neighbours have as many rows."""
        return self.kind == "replace_one"

    @property
    def cell(self) -> int:
        """Sensitivity of one count, and of abs(count − constant)."""
        return self.unit_rows or 1

    @property
    def marginal_l1(self) -> int:
        """L1 sensitivity of a marginal in counts; also of its L1 distance to constants, as a score."""
        return 2 if self.total_is_public else self.cell

    @property
    def marginal_l2_squared(self) -> int:
        """Square of the L2 sensitivity of a marginal in counts."""
        return 2 if self.total_is_public else self.cell**2

    def marginal(self, norm: int) -> int:
        """The most that Σ |change|^norm over the cells of a marginal can be, for norm 1 or 2."""
        return self.marginal_l1 if norm == 1 else self.marginal_l2_squared

    @property
    def presence_l2_squared(self) -> int:
        """Square of the L2 sensitivity of how many units have each value: a unit has at most c values."""
        return 2 if self.total_is_public else self.cell

    @property
    def words(self) -> str:
        """By what two neighbours differ, in words."""
        if self.whole:
            return "all rows of one privacy unit, however many, added or removed"
        if self.unit_rows is not None:
            return f"all rows of one privacy unit, of which at most {self.unit_rows} count, added or removed"
        return "one row changed" if self.total_is_public else "one row added or removed"

    @property
    def change(self) -> str:
        """What turns a table into its neighbour, for somebody who knows no differential privacy."""
        if self.of_units:
            return "one privacy unit with all of its rows is added or removed"
        return "one row is changed into any other" if self.total_is_public else "one row is added or removed"


Neighbours.ADD_REMOVE = Neighbours("add_remove")
Neighbours.UNITS = Neighbours("add_remove", whole=True)
Neighbours.REPLACE_ONE = Neighbours("replace_one")
