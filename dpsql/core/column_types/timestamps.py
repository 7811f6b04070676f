"""Timestamps: a tick is the type's own precision, since 1970."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

_FAMILY = "timestamps"

register(
    ColumnType(
        "TIMESTAMP",
        _FAMILY,
        step="a microsecond",
        to_tick="epoch_us(x)",
        from_tick="make_timestamp(x)",
        equal_text=TEXT,
        some="1970-01-01 00:00:00",
        ticks_per_second=1_000_000,
        unit_key="x",
    ),
    ColumnType(
        "TIMESTAMP_S",
        _FAMILY,
        step="a second",
        to_tick="epoch_us(x) // 1000000",
        from_tick="CAST(make_timestamp(x * 1000000) AS TIMESTAMP_S)",
        equal_text=TEXT,
        some="1970-01-01 00:00:00",
        ticks_per_second=1,
    ),
    ColumnType(
        "TIMESTAMP_MS",
        _FAMILY,
        step="a millisecond",
        to_tick="epoch_us(x) // 1000",
        from_tick="CAST(make_timestamp(x * 1000) AS TIMESTAMP_MS)",
        equal_text=TEXT,
        some="1970-01-01 00:00:00",
        ticks_per_second=1000,
    ),
    ColumnType(
        "TIMESTAMP_NS",
        _FAMILY,
        step="a nanosecond",
        to_tick="epoch_ns(x)",
        from_tick="make_timestamp_ns(x)",
        equal_text=TEXT,
        some="1970-01-01 00:00:00",
        ticks_per_second=1_000_000_000,
    ),
    ColumnType(
        "TIMESTAMP WITH TIME ZONE",
        _FAMILY,
        step="a microsecond",
        to_tick="epoch_us(x)",
        from_tick="make_timestamp(x) AT TIME ZONE 'UTC'",
        equal_text=TEXT,
        some="1970-01-01 00:00:00+00",
        ticks_per_second=1_000_000,
        unit_key="x",
        depends_on_session=True,
    ),
)
