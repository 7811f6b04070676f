"""DuckDB's types as PostgreSQL numbers them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class PgType:
    """A type of PostgreSQL.

    Attributes:
        oid: its number.
        name: in `pg_type`.
        length: in bytes, -1 if it varies.
        spelled: as `format_type` writes it.
        category: its letter in `pg_type`.
        element: of an array, the type of its elements.
    """

    oid: int
    name: str
    length: int
    spelled: str
    category: str
    element: PgType | None = None


BOOL = PgType(16, "bool", 1, "boolean", "B")
BYTEA = PgType(17, "bytea", -1, "bytea", "U")
INT8 = PgType(20, "int8", 8, "bigint", "N")
INT2 = PgType(21, "int2", 2, "smallint", "N")
INT4 = PgType(23, "int4", 4, "integer", "N")
TEXT = PgType(25, "text", -1, "text", "S")
FLOAT4 = PgType(700, "float4", 4, "real", "N")
FLOAT8 = PgType(701, "float8", 8, "double precision", "N")
VARCHAR = PgType(1043, "varchar", -1, "character varying", "S")
DATE = PgType(1082, "date", 4, "date", "D")
TIME = PgType(1083, "time", 8, "time without time zone", "D")
TIMESTAMP = PgType(1114, "timestamp", 8, "timestamp without time zone", "D")
TIMESTAMPTZ = PgType(1184, "timestamptz", 8, "timestamp with time zone", "D")
TIMETZ = PgType(1266, "timetz", 12, "time with time zone", "D")
INTERVAL = PgType(1186, "interval", 16, "interval", "T")
NUMERIC = PgType(1700, "numeric", -1, "numeric", "N")
JSON = PgType(114, "json", -1, "json", "U")
UUID = PgType(2950, "uuid", 16, "uuid", "U")
OID = PgType(26, "oid", 4, "oid", "N")
INT2VECTOR = PgType(22, "int2vector", -1, "int2vector", "A", INT2)
OIDVECTOR = PgType(30, "oidvector", -1, "oidvector", "A", OID)
VECTORS: Final[Mapping[str, PgType]] = {vector.name: vector for vector in (INT2VECTOR, OIDVECTOR)}
"""Arrays of the catalogue, whose texts are `1 2`. DuckDB has them as lists: `titles` says where one is shown."""
OTHERS: Final = (
    *VECTORS.values(),
    PgType(18, "char", 1, '"char"', "S"),
    PgType(19, "name", 64, "name", "S"),
    OID,
    PgType(705, "unknown", -2, "unknown", "X"),
    PgType(1042, "bpchar", -1, "character", "S"),
    PgType(2249, "record", -1, "record", "P"),
    PgType(2278, "void", 4, "void", "P"),
)
OF: Final[Mapping[str, PgType]] = {
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "SMALLINT": INT2,
    "INTEGER": INT4,
    "BIGINT": INT8,
    "UTINYINT": INT2,
    "USMALLINT": INT4,
    "UINTEGER": INT8,
    "UBIGINT": NUMERIC,
    "HUGEINT": NUMERIC,
    "UHUGEINT": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "VARCHAR": TEXT,
    "BLOB": BYTEA,
    "DATE": DATE,
    "TIME": TIME,
    "TIME WITH TIME ZONE": TIMETZ,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "UUID": UUID,
    "JSON": JSON,
}
_ARRAY_OIDS: Final = {
    16: 1000,
    17: 1001,
    20: 1016,
    21: 1005,
    23: 1007,
    25: 1009,
    26: 1028,
    114: 199,
    700: 1021,
    701: 1022,
    1043: 1015,
    1082: 1182,
    1083: 1183,
    1114: 1115,
    1184: 1185,
    1186: 1187,
    1266: 1270,
    1700: 1231,
    2950: 2951,
}
_SCALARS: Final = {scalar.oid: scalar for scalar in (*OF.values(), VARCHAR, OID)}
ARRAYS: Final[Mapping[int, PgType]] = {
    oid: PgType(_ARRAY_OIDS[oid], f"_{scalar.name}", -1, f"{scalar.spelled}[]", "A", scalar)
    for oid, scalar in _SCALARS.items()
}
"""Types of arrays, by the oid of their elements' type."""
BY_OID: Final = {
    **_SCALARS,
    **{other.oid: other for other in OTHERS},
    **{array.oid: array for array in ARRAYS.values()},
}
_DUCKDB: Final = {
    16: "BOOLEAN",
    17: "BLOB",
    18: "VARCHAR",
    19: "VARCHAR",
    20: "BIGINT",
    21: "SMALLINT",
    23: "INTEGER",
    25: "VARCHAR",
    26: "BIGINT",
    700: "FLOAT",
    701: "DOUBLE",
    1042: "VARCHAR",
    1043: "VARCHAR",
    1082: "DATE",
    1083: "TIME",
    1114: "TIMESTAMP",
    1184: "TIMESTAMP WITH TIME ZONE",
    1186: "INTERVAL",
    1266: "TIME WITH TIME ZONE",
    2950: "UUID",
}
DUCKDB: Final[Mapping[int, str]] = {
    **_DUCKDB,
    **{ARRAYS[oid].oid: f"{kind}[]" for oid, kind in _DUCKDB.items() if oid in ARRAYS},
}
"""Types of parameters as clients declare them. A numeric has no scale of its own, so its parameter is left as it is."""
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)(\[\d*\])?")
_LIST: Final = re.compile(r"(.*[^\]])\[\d*\]", re.DOTALL)


def element_of(kind: str) -> str | None:
    """The type of a list's elements. None for what is no list, or a list of lists.

    The inner lists of DuckDB may have different lengths, those of PostgreSQL may not.
    """
    match = _LIST.fullmatch(kind)
    return None if match is None else match[1]


def pg_type(kind: str) -> PgType:
    """The type of a column; what PostgreSQL does not have is text."""
    if kind in VECTORS:
        return VECTORS[kind]
    element = element_of(kind)
    if element is not None:
        return ARRAYS[element_type(element).oid]
    return NUMERIC if kind.startswith("DECIMAL(") and kind.endswith(")") else OF.get(kind, TEXT)


def element_type(kind: str) -> PgType:
    """The type of a list's elements: UINTEGER is `oid` there, an array that clients know without asking for it."""
    return OID if kind == "UINTEGER" else pg_type(kind)


def is_fraction(kind: str) -> bool:
    """Whether a decimal has no digits before its point."""
    match = _DECIMAL.fullmatch(kind)
    return match is not None and match[1] == match[2]


def modifier(kind: str) -> int:
    """PostgreSQL's modifier of a type: precision and scale of a decimal."""
    match = _DECIMAL.fullmatch(kind)
    return -1 if match is None else (int(match[1]) << 16 | int(match[2])) + 4
