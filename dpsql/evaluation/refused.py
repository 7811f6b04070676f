"""What DuckDB says of expressions that fail, as a refusal in the words of whoever wrote them.

Nothing private is where expressions are tried, so DuckDB's text may be shown. It may name what dpsql put beside them.
"""

from __future__ import annotations

import re
from typing import Final

import duckdb

from dpsql.errors import InvalidQuery

_BOUNDS: Final = (duckdb.OutOfMemoryException, duckdb.InternalException, duckdb.FatalException)
_OURS: Final = {
    r'"?\bdpsql_groups\b"?': "the groups",
    r'"?\bdpsql_joined_\d+\b"?': "the public table",
    r'"?\bdpsql_d\d+\b"?': "its column",
    r'"?\b_*dpsql_\w+"?': "the rows",
}


def refused(error: duckdb.Error) -> InvalidQuery:
    """The refusal of a query whose expressions DuckDB does not bind, or evaluate."""
    return InvalidQuery(f"query: {words_of_duckdb(error)}")


def words_of_duckdb(error: duckdb.Error) -> str:
    """The first line of an error, without names that no user gave.

    >>> words_of_duckdb(duckdb.BinderException('Binder Error: Table "dpsql_groups" does not have a column named "x"'))
    'Binder Error: Table the groups does not have a column named "x"'
    >>> words_of_duckdb(duckdb.OutOfMemoryException("Out of Memory Error: Failed to allocate block of 16384 bytes"))
    'what it says takes more memory than it may: say less, or declare coarser domains'
    """
    if isinstance(error, _BOUNDS):
        return "what it says takes more memory than it may: say less, or declare coarser domains"
    line = str(error).splitlines()[0]
    for name, words in _OURS.items():
        line = re.sub(name, words, line, flags=re.IGNORECASE)
    return line
