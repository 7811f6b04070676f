"""What each DuckDB type is to a domain: one file a type or family, found here by itself.

A file calls `register` for types by name, or decorates a function with `register_family` for those with parameters.
A further type needs no other file. What holds for single types, as months for dates, stands where it is used.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from dpsql.core.column_types.base import (
    TEXT,
    ColumnType,
    column_type,
    kind_of,
    lists_members,
    public_type,
    register,
    register_family,
    registered,
)

__all__ = [
    "TEXT",
    "ColumnType",
    "column_type",
    "kind_of",
    "lists_members",
    "public_type",
    "register",
    "register_family",
    "registered",
]

for _module in sorted(iter_modules(__path__), key=lambda module: module.name):
    import_module(f"{__name__}.{_module.name}")
