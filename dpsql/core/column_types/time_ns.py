"""TIME_NS: a tick is a nanosecond since midnight."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

register(
    ColumnType(
        "TIME_NS",
        "times of day",
        step="a nanosecond",
        to_tick="epoch_ns(x)",
        from_tick="CAST(make_timestamp_ns(x) AS TIME_NS)",
        ticks_per_second=1_000_000_000,
        equal_text=TEXT,
        unit_key="x",
        some="00:00:00",
    )
)
