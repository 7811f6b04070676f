"""Types of a statement's parameters, as DuckDB infers them."""

from __future__ import annotations

import ctypes as C
from typing import Final, Self

from dpsql.udfs.bridge import capi
from dpsql.udfs.bridge.connections import Connections

from . import pgtypes

_BY_ID: Final = {
    1: "BOOLEAN",
    2: "SMALLINT",
    3: "SMALLINT",
    4: "INTEGER",
    5: "BIGINT",
    6: "SMALLINT",
    7: "INTEGER",
    8: "BIGINT",
    10: "FLOAT",
    11: "DOUBLE",
    12: "TIMESTAMP",
    13: "DATE",
    14: "TIME",
    15: "INTERVAL",
    17: "VARCHAR",
    18: "BLOB",
    27: "UUID",
    31: "TIMESTAMP WITH TIME ZONE",
}
"""Types of parameters as DuckDB infers them; of others the value says it."""


class Nobody:
    """A connection of nobody's, so that no dp_* function can be bound on it. A context manager that gives it back."""

    def __init__(self, handle: C.c_void_p, connections: Connections) -> None:
        self._handle, self._connections = handle, connections

    def __enter__(self) -> Self:
        """It is acquired already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._connections.release(self._handle)

    def interrupt(self) -> None:
        """End what it is doing."""
        capi.interrupt(self._handle)

    def inferred(self, sql: str, count: int) -> list[int]:
        """PostgreSQL's types of parameters; 0 where DuckDB infers none, or where the statement cannot be bound."""
        statement = C.c_void_p()
        try:
            if capi.prepare(self._handle, sql.encode(), C.byref(statement)) != capi.SUCCESS:
                return [0] * count
            kinds = [_BY_ID.get(int(capi.parameter_type(statement, place + 1)), "") for place in range(count)]
            return [pgtypes.OF[kind].oid if kind else 0 for kind in kinds]
        finally:
            if statement:
                capi.destroy_prepare(C.byref(statement))
