"""Differentially private synthetic tables and queries inside DuckDB, in SQL.

db = dpsql.connect("bank.duckdb")
db.sql("CALL dp_protect('clients', epsilon := 3.0, delta := 1e-9)")
db.sql("FROM dp_synthesize('clients', epsilon := 1.0)").df()
"""

from __future__ import annotations

from pathlib import Path

# In a checkout `udfs/` and `sql/` are beside this package, in a wheel inside it.
if not (Path(__file__).parent / "udfs").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

from dpsql.connection import Database, Release, connect, install
from dpsql.errors import DpsqlError
from dpsql.version import __version__

__all__ = ["Database", "DpsqlError", "Release", "__version__", "connect", "install"]
