"""A statement that reads a protected table as if it were there: what the user asks in its place."""

from __future__ import annotations

import re
from typing import Final

import duckdb

from dpsql.errors import DpsqlError

_MISSING: Final = re.compile(r'Table with name "?(.+?)"? does not exist!')
_SUGGESTED: Final = "\nDid you mean"


class RowsNotServed(DpsqlError):
    """The table is protected, so nobody is shown its rows."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"{table} is protected, so its rows are shown to nobody. Ask about them with dp_query: FROM dp_query('…', "
            f"epsilon => 0.1); or have a synthetic table: FROM dp_synthesize('{table}', epsilon => 1.0). dp_budget() "
            "says what you have left"
        )


def missing_table(error: BaseException) -> str | None:
    """The name of the table that DuckDB says it does not have; None for other errors."""
    found = _MISSING.search(str(error)) if isinstance(error, duckdb.CatalogException) else None
    return None if found is None else found[1].rpartition(".")[2].strip('"')


def without_suggestion(text: str) -> str:
    """An error of DuckDB's without the name that it finds most like, which is often one of its own views."""
    return text.partition(_SUGGESTED)[0]
