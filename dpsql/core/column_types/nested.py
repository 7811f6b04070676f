"""Nested and binary types: a column of one can have no domain."""

from __future__ import annotations

import re

from dpsql.core.column_types.base import ColumnType, register_family


@register_family(
    r".*\]|(?:STRUCT|TUPLE|MAP|UNION|BLOB|BIT|VARIANT|GEOMETRY|JSON)(?:\(.*)?",
    *(
        "BLOB",
        "BIT",
        "JSON",
        "INTEGER[]",
        "STRUCT(a INTEGER)",
        "MAP(INTEGER, INTEGER)",
        "UNION(a INTEGER)",
    ),
)
def nested(match: re.Match[str]) -> ColumnType:
    """A list, an array, a map, a struct, a union, or bytes."""
    return ColumnType(match[0], "nested and binary", listable=False)
