"""TIME: a tick is a microsecond since midnight."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

register(
    ColumnType(
        "TIME",
        "times of day",
        step="a microsecond",
        to_tick="epoch_us(x)",
        from_tick="CASE WHEN x >= 86400000000 THEN TIME '24:00:00' ELSE TIME '00:00:00' + to_microseconds(x) END",
        ticks_per_second=1_000_000,
        equal_text=TEXT,
        unit_key="x",
        some="00:00:00",
    )
)
