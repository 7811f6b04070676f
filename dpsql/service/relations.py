"""Every view and table of PostgreSQL's `pg_catalog` and `information_schema`, with its columns and their types.

They were read off a real PostgreSQL by `tests/service/postgres_catalogue.py`, into a file of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from . import pgtypes

FILE: Final = files("dpsql.service").joinpath("postgres_catalogue.txt")
SCHEMAS: Final[Mapping[str, str]] = {"pg_catalog": "pgx", "information_schema": "pgi"}
"""What they are called in DuckDB."""
_NAMED: Final = {
    **{kind.name: pgtypes.DUCKDB[oid] for oid, kind in pgtypes.BY_OID.items() if oid in pgtypes.DUCKDB},
    "numeric": "DECIMAL(38, 10)",
    "oidvector": "BIGINT[]",
    "int2vector": "SMALLINT[]",
    "xid": "BIGINT",
}
"""DuckDB's types by the names of PostgreSQL's; all others are texts, or arrays of texts."""


def duckdb_type(name: str) -> str:
    """The type in DuckDB of one of PostgreSQL's.

    >>> duckdb_type("int4"), duckdb_type("_oid"), duckdb_type("pg_node_tree"), duckdb_type("_aclitem")
    ('INTEGER', 'BIGINT[]', 'VARCHAR', 'VARCHAR[]')
    """
    return _NAMED.get(name, "VARCHAR[]" if name.startswith("_") else "VARCHAR")


@cache
def relations() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The types of columns by schema in DuckDB, relation and column."""
    known: dict[str, dict[str, dict[str, str]]] = {name: {} for name in SCHEMAS.values()}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        schema, relation, *columns = line.split()
        pairs = (column.split(":") for column in columns)
        known[SCHEMAS[schema]][relation] = {name: duckdb_type(kind) for name, kind in pairs}
    return known
