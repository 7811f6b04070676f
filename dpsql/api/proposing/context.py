"""What a proposal for any column of one table may depend on, beside the column itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpsql.core.names import fold
from dpsql.owner.described import statement_of


@dataclass(frozen=True)
class Context:
    """What is the same for all columns of a table.

    Attributes:
        table: as `dp_protect` reads it.
        is_file: whether the script loads the table, so that it can change how.
        codebook: for columns, by folded names, the arguments of their declarations.
        references: for columns, by name, public tables that may have their values, as 'table.column'.
        unit: the privacy unit's column; empty without one.
        discover: whether what nobody knows is discovered, and paid for, when the script runs.
        price: ε of each discovery.
        epsilon: of the budget.
        columns: folded names of those that are kept; empty for all.
        is_csv: whether the file has no types, so that the script may load a column as another type than it is.
        missing: of a CSV file, for columns that would be numbers but for them, the texts for missing values.
    """

    table: str
    is_file: bool
    codebook: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = ""
    discover: bool = False
    price: float = 0.1
    epsilon: float = 1.0
    columns: frozenset[str] = frozenset()
    is_csv: bool = False
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def said(self, column: str) -> Mapping[str, Any] | None:
        """What the codebook says of a column."""
        return self.codebook.get(fold(column))

    def call(self, column: str, how: Mapping[str, Any]) -> str:
        """A declaration as a statement."""
        return statement_of(self.table, column, how)

    def discovery(self, column: str, **bounds: Any) -> dict[str, Any]:
        """The arguments of a discovery."""
        return {**bounds, "discover": True, "epsilon": self.price}
