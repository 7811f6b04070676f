"""Differentially private synthetic tables and queries inside DuckDB, in SQL."""

from __future__ import annotations

from pathlib import Path

# In a checkout `udfs/` and `sql/` are beside this package, in a wheel inside it.
if not (Path(__file__).parent / "udfs").is_dir():
    __path__.append(str(Path(__file__).parents[1]))
