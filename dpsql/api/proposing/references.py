"""Tables of the same database that may list the values of a column: by a foreign key, or by a key of the same name."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.names import key_like
from dpsql.books.reading.reads import is_public
from dpsql.core.names import quote
from dpsql.engines.registry import find_source
from dpsql.errors import DpsqlError

_KEYS: Final = """
    SELECT schema_name, table_name, constraint_column_names[1] AS name
    FROM duckdb_constraints()
    WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND len(constraint_column_names) = 1 AND schema_name <> 'dpsql'
    ORDER BY ALL
"""


def references_of(source: Input) -> dict[str, tuple[str, ...]]:
    """For each column of a table the keys of other tables that bear its name; protected tables are no references.

    Catalogue only: no row is read. A key that names persons is none, because its values are no public list.
    """
    references: dict[str, tuple[str, ...]] = {}
    names = {column.name for column in source.columns}
    for schema, table, name in source.cursor.execute(_KEYS).fetchall():
        if name not in names or key_like(name):
            continue
        with suppress(DpsqlError):
            other = find_source(source.cursor, f"{quote(schema)}.{quote(table)}")
            if other.key != source.table and is_public(source.cursor, other):
                prefix = "" if schema == "main" else f"{quote(schema)}."
                references[name] = (*references.get(name, ()), f"{prefix}{quote(table)}.{quote(name)}")
    return references
