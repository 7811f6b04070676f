"""VARCHAR: grouped by its bytes; a column with a collation, by which other bytes are equal, has no domain of values."""

from __future__ import annotations

from dpsql.core.column_types.base import TEXT, ColumnType, register

register(ColumnType("VARCHAR", "text", group_key="encode(x)", equal_text=TEXT, some=""))
