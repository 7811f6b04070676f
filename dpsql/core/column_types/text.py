"""VARCHAR: grouped by its bytes, because a column may have a collation."""

from __future__ import annotations

from dpsql.core.column_types.base import ColumnType, register

register(ColumnType("VARCHAR", "text", group_key="encode(x)"))
