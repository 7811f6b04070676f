"""Whole numbers: a tick is the number itself."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")

register(
    *(
        ColumnType(
            name,
            "whole numbers",
            step="1",
            scale=0,
            is_number=True,
            tick_of=int,
            text_of=repr,
            ticks_above="TRY_CAST(x AS BIGINT) - t",
            group_key="x",
            equal_text=TEXT,
            unit_key="x",
            some="0",
        )
        for name in (*_SIGNED, *(f"U{name}" for name in _SIGNED))
    )
)
