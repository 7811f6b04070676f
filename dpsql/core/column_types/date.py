"""DATE: a tick is a day since 1970."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

register(
    ColumnType(
        "DATE",
        "dates",
        step="a day",
        to_tick="CAST(date_diff('day', DATE '1970-01-01', x) AS BIGINT)",
        from_tick="DATE '1970-01-01' + CAST(x AS INTEGER)",
        ticks_above="TRY_CAST(date_diff('day', y, x) AS BIGINT)",
        group_key="x",
        equal_text=TEXT,
        unit_key="x",
        some="1970-01-01",
    )
)
