"""INTERVAL: 1 month, 30 days and 720 hours are one value, as DuckDB's `=` has it.

When it calls two of them equal differs between its versions, so values are compared by itself.
"""

from __future__ import annotations

from typing import Final

from dpsql.core.column_types.base import ColumnType, register

_MICROSECONDS: Final = (
    "(((datepart('year', x) * 12 + datepart('month', x)) * 30 + datepart('day', x)) * 86400000000"
    " + datepart('hour', x) * 3600000000 + datepart('minute', x) * 60000000 + datepart('microsecond', x))"
)
_SPELLINGS: Final = (
    f"to_microseconds({_MICROSECONDS})",
    f"to_days(CAST({_MICROSECONDS} // 86400000000 AS INTEGER)) + to_microseconds({_MICROSECONDS} % 86400000000)",
    f"to_months(CAST({_MICROSECONDS} // 2592000000000 AS INTEGER)) + to_microseconds({_MICROSECONDS} % 2592000000000)",
)

register(
    ColumnType(
        "INTERVAL",
        "intervals",
        respelled=tuple(f"CASE WHEN {spelling} = x THEN {spelling} ELSE x END" for spelling in _SPELLINGS),
        unit_key="x",
        some="00:00:00",
    )
)
