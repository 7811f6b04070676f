"""`Engine`: where the rows of protected tables are. `tests/engines/test_conformance.py` is what every engine must pass.

DuckDB plays two parts, and only the first one can be played by another engine:

    source engine   has the private rows: finds a table and its columns, encodes values, bounds privacy units, counts
    host            has everything else: the SQL functions, the books, the sandbox for people's expressions, public
                    tables, synthetic rows, and the texts in which constants are declared

The texts of declared constants are the host's, because keys of releases hash them: a table whose rows moved to another
engine keeps its releases. An engine compares its values with those texts in its own types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.counter import Counter
from dpsql.core.domain import Domain
from dpsql.core.unit_row import UnitRow
from dpsql.engines.source import Above, Source
from dpsql.errors import DpsqlError


@dataclass(frozen=True)
class UnitBound:
    """Of the rows of each privacy unit at most so many count; a secret chooses them, once for all releases.

    The secret itself is not here, because a text of SQL that held it could be logged: the engine reads it.

    Attributes:
        column: the privacy unit's. A row without a unit, NULL, does not count.
        type: its.
        rows: the most rows of one unit that count.
        catalog: the database in whose books the secret is.
        account: of the account there.
        path: where rows lead to their units by keys, the tables above, the next one first; then `column` and `type` are
            empty, and rows that lead to no unit do not count.
    """

    column: str
    type: str
    rows: int
    catalog: str
    account: str
    path: tuple[Above, ...] = ()


class CountingFailed(DpsqlError):
    """An engine could not count. It says so in these words only, because an engine's own may quote a row."""

    def __init__(self) -> None:
        super().__init__("the engine of the table stopped while it counted, perhaps for lack of memory or disk")


class CountingRefused(CountingFailed):
    """An engine could not count for a reason that no value of a row decides, such as a connection that broke.

    Its text is constant too, says what mends it, and is shown to who asked.
    """

    def __init__(self, text: str) -> None:
        DpsqlError.__init__(self, text)


class TableCounter(Counter, Protocol):
    """A `Counter` that holds something in the engine: codes, a connection, a snapshot.

    Every method raises `Interrupted` if `Engine.interrupt` was called meanwhile, and `CountingFailed` in place of an
    error of the engine. Counts of one counter are all of the same rows, or it refuses to count.
    """

    def close(self) -> None:
        """Give back what it holds; the counters that `among` made too."""


class Engine(Protocol):
    """Where the rows of protected tables are, for the time of one piece of work."""

    def find(self, text: str, search_path: str = "") -> Source:
        """The table that a name means to a caller with that search path. Reads no row.

        Raises:
            UnknownName: there is no such table.
            FoundView: it is a view.
            InvalidArgument: it is in a place where the engine keeps no tables.
        """

    def find_parts(self, parts: Sequence[str], home: tuple[str, str], known_source: Source | None = None) -> Source:
        """The table that the parts of a name mean in a database and schema; `known_source` is not looked up again."""

    def check(self, source: Source) -> None:
        """Refuse a source that is not what was pinned when it was registered, as far as that is known without its rows.

        Raises:
            DpsqlError: it is not; says what the owner does. Names no file, because a name may hold a value.
        """

    def counter(
        self,
        source: Source,
        domain: Domain,
        bound: UnitBound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> TableCounter:
        """Exact counts of a table's rows.

        Args:
            source: the table.
            domain: of the columns that are counted; a value without a code of its own counts as OTHER or OUTSIDE, or
                in no marginal of its column.
            bound: which rows of a privacy unit count; None if all rows do.
            once: a single marginal will be counted, so nothing need be kept for the next.
            before: called once, when rows are about to be read for the first time.
        """

    def unit_counter(
        self,
        sources: Mapping[str, Source],
        unit_row: UnitRow,
        account: tuple[str, str] | None,
        *,
        roles: Mapping[tuple[str, str], Allowed] | None = None,
        before: Callable[[], object] | None = None,
    ) -> TableCounter:
        """Exact counts of units' rows, of which each is of one unit with some of its rows in all tables of a tree.

        Args:
            sources: the tables by what the books call them.
            unit_row: what a unit's row is.
            account: the database and key of the account whose secret chooses rows; None of synthetic tables.
            roles: of each table and each name of a role, the codes of rows that can have it.
            before: see `counter`.

        Raises:
            InvalidArgument: the engine cannot.
        """

    def codes(self, source: Source, domain: Domain, most: int) -> tuple[npt.NDArray[np.int32], int]:
        """The codes of rows themselves, for the owner's `evaluate` only: nothing that is released may call it.

        Args:
            source: the table.
            domain: of the columns; -1 for a value without a code.
            most: of more rows about so many are drawn, never more, the same each time.

        Returns:
            Shape (rows, columns), and how many rows there are in all.

        Raises:
            CountingFailed: in place of an error of the engine.
        """

    def interrupt(self) -> None:
        """End what counters are doing, from any thread."""

    def close(self) -> None:
        """Give back what the engine holds."""
