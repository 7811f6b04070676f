"""About what work takes, in bytes and in seconds of one core: constants fitted to Adult and Loans at ε = 1.

A plan says them before anything is charged; `tests/benchmarks/RESULTS.md` has what was measured beside them.
"""

from __future__ import annotations

from typing import Final

BASE_BYTES: Final = 290_000_000
"""Python, DuckDB and pandas."""
JAX_BYTES: Final = 260_000_000
"""JAX, and what it compiles."""
SCORED_BYTES: Final = 50
"""Of a cell that the exponential mechanism scores, with its order."""
BASE_SECONDS: Final = 0.2
ROW_SECONDS: Final = 5e-6
"""Of a row that is counted and one that is drawn."""
SCORED_SECONDS: Final = 3e-8
"""Of a cell in each round that scores it."""
QUESTION_SECONDS: Final = 0.008
"""Of an answer, which is written durably before anybody sees it."""
TILTED_SECONDS: Final = 1.8e-8
"""Of a cell of a histogram that an update moves."""
MOVED_SECONDS: Final = 8.5e-9
"""Of a cell of a group that `mwem` moves by a whole marginal."""
UPDATE_SECONDS: Final = 7e-5
"""Of such an update, whatever the group."""
FAMILY_SECONDS: Final = 0.02
"""Of a family of linear queries, whose expression is evaluated on the domain."""
JAX_SECONDS: Final = 4.0


def base_seconds(rows: float) -> float:
    """Before and after the work of a mechanism, of a table of so many rows."""
    return BASE_SECONDS + ROW_SECONDS * rows
