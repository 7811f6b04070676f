"""Types of which each value is written in one way, and which have no bins."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

register(
    ColumnType("UUID", "identifiers", equal_text=TEXT, some="00000000-0000-0000-0000-000000000000"),
    ColumnType("BIGNUM", "whole numbers of any size", equal_text=TEXT, some="0"),
    ColumnType("TIME WITH TIME ZONE", "times of day with an offset", equal_text=TEXT, some="00:00:00+00"),
)
