"""What a proposal for any column of one table may depend on, beside the column itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from dpsql.core.names import fold
from dpsql.owner.described import statement_of
from dpsql.privacy.accounting import make_budget

MOST_EPSILON: Final = 1.0
"""Of the release that a script is written for, where the budget has as much."""
_PART: Final = 1 / 20
"""Of ρ, about, that the counts of a single column get."""
DEVIATIONS: Final = 2.5
_SMALL: Final = 1e-9


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
        delta: of the budget.
        pairs: of a CSV file, for columns of yes and no, both words as it writes them.
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
    delta: float = 1e-9
    pairs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def release_epsilon(self) -> float:
        """Of the release that the script is written for."""
        return min(MOST_EPSILON, self.epsilon)

    @cached_property
    def rows_of_cell(self) -> int:
        """How many rows a cell of numbers should have, so that noise does not make most of them: 2.5·√(1/(2ρ/20)).

        A cell at the end of a skewed number with fewer rows moves the mean by its noise times its large values, which
        is far more than drawing in a wider cell does.

        >>> Context("t", is_file=False).rows_of_cell
        62
        """
        rho = float(make_budget(self.release_epsilon, self.delta or _SMALL, "gdp").rho)
        return math.ceil(DEVIATIONS / math.sqrt(2 * rho * _PART))

    def codebook_entry(self, column: str) -> Mapping[str, Any] | None:
        """What the codebook says of a column."""
        return self.codebook.get(fold(column))

    def call(self, column: str, how: Mapping[str, Any]) -> str:
        """A declaration as a statement."""
        return statement_of(self.table, column, how)

    def discovery(self, column: str, **bounds: Any) -> dict[str, Any]:
        """The arguments of a discovery."""
        return {**bounds, "discover": True, "epsilon": self.price}
