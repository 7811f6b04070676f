"""The versions of DuckDB that somebody looked at: their settings, functions, types and views.

A new version may bring a setting that changes a count, or a function that looks around. So nothing is charged with one
that is not in this list, and no private row of DuckDB's is counted.
"""

from __future__ import annotations

import os
from typing import Final

import duckdb

from dpsql.errors import DpsqlError

LOOKED_AT: Final = ("1.5.5", "2.0.0", "2.0.1")
"""All else about versions, in tests and pages, comes from here."""
OVERRIDE: Final = "DPSQL_DUCKDB"
"""The variable by which an owner takes another version, named by its number: the next one is then refused again."""


def is_taken(version: str = duckdb.__version__) -> bool:
    """Whether a version was looked at, or the owner takes it.

    >>> is_taken("1.5.5"), is_taken("99.1.0")
    (True, False)
    """
    return version in LOOKED_AT or os.environ.get(OVERRIDE) == version


def check_version(version: str = duckdb.__version__) -> None:
    """Refuse to charge and to count with a version that nobody looked at.

    Raises:
        DpsqlError: with the versions, and what the owner can say.
    """
    if not is_taken(version):
        raise DpsqlError(
            f"DuckDB {version} may count otherwise than this dpsql expects, because nobody has looked at it yet: "
            f"install duckdb=={LOOKED_AT[-1]} (or {' or '.join(LOOKED_AT[:-1])}), or a newer dpsql; to take the risk, "
            f"the owner sets the variable {OVERRIDE}={version}"
        )
