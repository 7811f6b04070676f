"""A place of the conformance suite whose tables are in Postgres, registered by dp_source.

Tables with a privacy unit get a primary key beside their columns, because rows of a unit are chosen by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.external import ExternalEngine
from dpsql.engines.registry import external

from .conformance import Rows
from .held_in_duckdb import WithUnits
from .postgres_bank import Bank, bank
from .spellings import MORE

LONG = 1_000_000
"""Rows."""
TYPES = {"TINYINT": "int2", "DOUBLE": "float8", "FLOAT": "float4", "VARCHAR": "text"}
IDENTITY = "dpsql_id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY"


class InPostgres(WithUnits):
    """Tables of a database of Postgres; the stubs, and the secrets of units, are in a database of DuckDB."""

    marks: ClassVar[frozenset[str]] = frozenset({"NOT NULL"})
    cannot: ClassVar[frozenset[str]] = frozenset({"read_as"})
    more_types = frozenset(MORE)

    def __init__(self, found: Bank) -> None:
        self._bank, self._db, self._cursor = found, found.db, found.db.connection.cursor()

    def open(self) -> ExternalEngine:
        return external(self._cursor, "postgres")

    def stored(self, kind: str) -> str:
        return "SMALLINT" if kind == "TINYINT" else kind

    def table(self, name: str, columns: Mapping[str, str], rows: Rows) -> None:
        listed = [f'"{column}" {self._made(f"{name}_{column}", kind)}' for column, kind in columns.items()]
        if "unit" in columns:
            listed.append(IDENTITY)
        self._bank.sql(f'DROP TABLE IF EXISTS "{name}"', f'CREATE TABLE "{name}" ({", ".join(listed)})')
        self.append(name, rows)
        self._register(name)

    def _made(self, name: str, kind: str) -> str:
        """A type in Postgres, which an ENUM is only by a name."""
        if kind.startswith("ENUM"):
            self._bank.sql(f'DROP TYPE IF EXISTS "{name}" CASCADE', f'CREATE TYPE "{name}" AS {kind}')
            return f'"{name}"'
        first, _, more = kind.partition(" ")
        more = more.replace("NOCASE", "nocase") + (" STORED" if "GENERATED" in more else "")
        return f"{TYPES.get(first, first)} {more}"

    def _register(self, name: str) -> None:
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        self._bank.source(f'"{name}"', f'public."{name}"')

    def append(self, name: str, rows: Rows) -> None:
        if rows:
            found = self._bank.sql(
                f"SELECT attname FROM pg_attribute WHERE attrelid = '\"{name}\"'::regclass AND attnum > 0 "
                "AND attgenerated = '' AND attidentity = '' ORDER BY attnum"
            )
            listed = ", ".join(f'"{column}"' for (column,) in found)
            self._bank.server.fill(self._bank.database, f'"{name}" ({listed})', rows)

    def view(self, name: str, of: str) -> None:
        self._db.sql(f"CREATE VIEW {name} AS FROM {of}")

    def long(self, name: str) -> Domain:
        rows = f"SELECT i % 1000 AS x, i % 777 AS y FROM generate_series(1, {LONG}) i"
        self._bank.sql(f"CREATE TABLE {name} AS {rows}")
        self._register(name)
        return Domain(tuple(Attribute(n, "INTEGER", "bins", (), (0, 500, 1000), ("0", "500", "999")) for n in "xy"))

    def failing(self, name: str, value: str) -> Domain:
        """Of a table whose file is gone. No part may be a file any more, whose text Postgres would quote."""
        self._bank.sql(f"CREATE TABLE {name} (y int4, note text)", f"INSERT INTO {name} VALUES (1, '{value}')")
        self._register(name)
        ((folder,),) = self._bank.sql("SHOW data_directory")
        ((file,),) = self._bank.sql(f"SELECT pg_relation_filepath('{name}')")
        self._bank.sql("CHECKPOINT")
        (Path(folder) / file).unlink()
        return Domain((Attribute("y", "INTEGER", "values", ("1",), nullable=True),))

    def left(self) -> int:
        """Locks of the table, which are given back with the snapshot."""
        held = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'dpsql'"
        return int(self._bank.sql(f"{held} AND l.relation = 'public.t'::regclass")[0][0])


@contextmanager
def postgres_place(folder: Path) -> Iterator[InPostgres]:
    with bank(folder) as found:
        found.sql("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        yield InPostgres(found)
