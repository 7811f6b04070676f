"""A cursor on a DuckDB instance and its errors, for floors that do not import duckdb themselves."""

from __future__ import annotations

from duckdb import DuckDBPyConnection as Cursor
from duckdb import Error as EngineError
from duckdb import InterruptException as EngineInterrupted

__all__ = ["Cursor", "EngineError", "EngineInterrupted"]
