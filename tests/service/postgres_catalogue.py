"""Make two files of the package from a real PostgreSQL.

    python -m tests.service.postgres_catalogue

`postgres_catalogue.txt` has a line for each view and table of its own two schemas: schema, name, columns with types.
`postgres_settings.txt` has one for each setting: name, who may set it, type, the words that it takes, and its value.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from dpsql.service.relations import FILE
from dpsql.service.server_settings import FILE as SETTINGS
from tests.engines import postgres_server

_COLUMNS = """
    SELECT n.nspname, c.relname, string_agg(a.attname || ':' || CASE WHEN t.typtype = 'd'
      THEN (SELECT b.typname FROM pg_type b WHERE b.oid = t.typbasetype) ELSE t.typname END, ' ' ORDER BY a.attnum)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
      JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') AND a.attnum > 0
      AND NOT a.attisdropped
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    GROUP BY 1, 2 ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
"""


def lines() -> list[str]:
    """What the installed PostgreSQL has."""
    with psycopg.connect(postgres_server.server().words(), autocommit=True) as connection:
        found = connection.execute(_COLUMNS).fetchall()
    return [f"{schema} {name} {columns}" for schema, name, columns in found]


_SETTINGS = """
    SELECT name, context, vartype, coalesce(array_to_string(enumvals, ','), ''), coalesce(boot_val, ''), coalesce(unit, '')
    FROM pg_settings WHERE name NOT LIKE '%.%' ORDER BY lower(name) COLLATE "C"
"""
_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20}


def setting_lines() -> list[str]:
    """The settings that the installed PostgreSQL is compiled with; paths are those of a machine, and left out."""
    with psycopg.connect(postgres_server.server().words(), autocommit=True) as connection:
        found = connection.execute(_SETTINGS).fetchall()
    lines = []
    for name, context, kind, words, value, unit in found:
        shown = "" if "/" in value else _with_unit(value, unit)
        bare = (value, unit) if shown and unit else (shown, "")
        lines.append("\t".join((name, context, kind, words, shown, *bare)))
    return lines


def _with_unit(value: str, unit: str) -> str:
    """A number as SHOW shows it: 4096 kB are 4MB."""
    if unit in _BYTES and value.isdigit() and value != "0":
        count = int(value) * _BYTES[unit]
        for name in ("GB", "MB", "kB"):
            size = {"GB": 1 << 30, "MB": 1 << 20, "kB": 1 << 10}[name]
            if count % size == 0:
                return f"{count // size}{name}"
    return value if unit in _BYTES or value in ("0", "-1") else f"{value}{unit}"


if __name__ == "__main__":
    try:
        Path(FILE).write_text("\n".join(lines()) + "\n", encoding="utf-8")
        Path(SETTINGS).write_text("\n".join(setting_lines()) + "\n", encoding="utf-8")
    finally:
        postgres_server.remove()
