"""Make `dpsql/service/postgres_catalogue.txt`: every view and table of PostgreSQL's own two schemas, from a real one.

    python -m tests.service.postgres_catalogue

A line for each: its schema, its name, and its columns with their types.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from dpsql.service.relations import FILE
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


if __name__ == "__main__":
    try:
        Path(FILE).write_text("\n".join(lines()) + "\n", encoding="utf-8")
    finally:
        postgres_server.remove()
