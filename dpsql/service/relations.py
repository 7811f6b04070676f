"""Every view and table of PostgreSQL's `pg_catalog` and `information_schema`, with its columns and their types.

They were read off a real PostgreSQL by `tests/service/postgres_catalogue.py`, into a file of this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    **{name: f"{pgtypes.DUCKDB[kind.element.oid]}[]" for name, kind in pgtypes.VECTORS.items() if kind.element},
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
    types: dict[str, dict[str, dict[str, str]]] = {name: {} for name in SCHEMAS.values()}
    for schema, relation, columns in _listed():
        types[SCHEMAS[schema]][relation] = {name: duckdb_type(kind) for name, kind in columns}
    return types


@cache
def vectors() -> Mapping[str, str]:
    """The columns whose types are `pgtypes.VECTORS`, with the names of these."""
    return {name: kind for _, _, columns in _listed() for name, kind in columns if kind in pgtypes.VECTORS}


def _listed() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    for line in FILE.read_text(encoding="utf-8").splitlines():
        schema, relation, *columns = line.split()
        pairs = (column.split(":") for column in columns)
        yield schema, relation, [(name, kind) for name, kind in pairs]
