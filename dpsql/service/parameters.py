"""Types of a statement's parameters, as DuckDB infers them."""

from __future__ import annotations

import ctypes as C
from typing import Any, Final

from dpsql.udfs.bridge import capi

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


def inferred(connection: Any, sql: str, count: int) -> list[int]:
    """The types of parameters as DuckDB infers them; 0 where it does not, or where the statement cannot be bound."""
    handle = C.c_void_p()
    try:
        if capi.prepare(connection, sql.encode(), C.byref(handle)) != capi.SUCCESS:
            return [0] * count
        kinds = [_BY_ID.get(int(capi.parameter_type(handle, place + 1)), "") for place in range(count)]
        return [pgtypes.OF[kind].oid if kind else 0 for kind in kinds]
    finally:
        if handle:
            capi.destroy_prepare(C.byref(handle))
