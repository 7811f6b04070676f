"""BOOLEAN: both its values are public, whatever the rows are, so it declares itself."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

register(
    ColumnType(
        "BOOLEAN",
        "true or false",
        members=("false", "true"),
        declares_itself=True,
        scale=0,
        group_key="x",
        equal_text=TEXT,
        unit_key="x",
    )
)
