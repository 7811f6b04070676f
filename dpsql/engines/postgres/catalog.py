"""Tables of Postgres: what a name means there, the columns, and what can tell rows apart. Reads no row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from dpsql.core.names import quote
from dpsql.engines.postgres.dialect import native_of
from dpsql.engines.postgres.failures import ConnectionLost
from dpsql.engines.postgres.session import PostgresSession
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.source import Column
from dpsql.engines.sql.failures import NotCounted
from dpsql.engines.sql.types import Native
from dpsql.errors import UnknownName

OLDEST: Final = 150000
_SERVER: Final = """
    SELECT current_setting('server_version_num')::int4 AS version, current_setting('server_encoding') AS encoding,
           has_database_privilege(current_database(), 'TEMP') AND NOT pg_is_in_recovery()
               AND current_setting('default_transaction_read_only') = 'off' AS makes,
           current_database()::text AS called,
           (SELECT d.oid::int8 FROM pg_database d WHERE d.datname = current_database()) AS number,
           has_function_privilege('pg_control_system()', 'EXECUTE') AS told
"""
_CLUSTER: Final = "SELECT system_identifier::text AS cluster FROM pg_control_system()"
_FAMILY: Final = """
    WITH RECURSIVE below AS (
        SELECT $1::oid AS oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN below b ON i.inhparent = b.oid
    ), above AS (
        SELECT $1::oid AS oid UNION SELECT i.inhparent FROM pg_inherits i JOIN above a ON i.inhrelid = a.oid
    )
    SELECT c.oid::int8 AS oid, true AS inside, c.relkind = 'f' AS elsewhere
    FROM below b JOIN pg_class c ON c.oid = b.oid
    UNION ALL SELECT a.oid::int8, false, false FROM above a WHERE a.oid <> $1::oid
"""
_RELATION: Final = """
    SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, row_security_active(c.oid) AS hidden,
           has_table_privilege(c.oid, 'SELECT') AS whole
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass($1)::oid
"""
_COLUMNS: Final = """
    WITH RECURSIVE plain AS (
        SELECT a.attnum, a.attname::text AS name, a.attnotnull AS filled, a.attgenerated <> '' AS computed,
               a.atttypid AS type, a.atttypmod AS modifier, a.attcollation AS collation
        FROM pg_attribute a
        WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
          AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
      UNION ALL
        SELECT p.attnum, p.name, p.filled OR t.typnotnull, p.computed, t.typbasetype,
               CASE WHEN t.typtypmod = -1 THEN p.modifier ELSE t.typtypmod END, p.collation
        FROM plain p JOIN pg_type t ON t.oid = p.type WHERE t.typtype = 'd'
    )
    SELECT p.name, p.filled, p.computed, p.modifier,
           CASE WHEN t.typtype = 'e' THEN 'enum' WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname::text
                ELSE '' END AS kind,
           coalesce(NOT l.collisdeterministic, false) AS equal,
           array_to_json(ARRAY(
               SELECT e.enumlabel FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder))::text AS members
    FROM plain p JOIN pg_type t ON t.oid = p.type LEFT JOIN pg_collation l ON l.oid = p.collation
    WHERE t.typtype <> 'd' ORDER BY p.attnum
"""
_UNIQUE: Final = """
    SELECT array_to_json(ARRAY(
        SELECT a.attname FROM unnest(i.indkey) WITH ORDINALITY k(number, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
        WHERE k.place <= i.indnkeyatts ORDER BY k.place))::text AS names, i.indisprimary AS is_primary
    FROM pg_index i
    WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indimmediate
      AND i.indpred IS NULL AND i.indexprs IS NULL
    ORDER BY NOT i.indisprimary, i.indexrelid
"""
_TABLES: Final = ("r", "p")
_KINDS: Final = {
    "v": "a view: name the table that it reads, for the budget is the table's",
    "m": "a materialized view: name the table that it reads, for the budget is the table's",
    "f": "a foreign table, whose rows are on another server, or in a file: name the table there, or load the rows into "
    "a table of this server",
}


@dataclass(frozen=True)
class Relation:
    """A table of Postgres.

    Attributes:
        cluster: what tells servers apart, the same on a replica and under every address.
        number: what tells it from all tables of all servers: its cluster, and the object ids of database and table.
        holds: the numbers of all tables whose rows it has: itself, and its partitions and the tables that inherit.
        within: the numbers of the tables that have its rows, too.
        database, schema, name: where it is, as the catalogue spells it.
        columns: those that the user may read, with the types that they have in DuckDB.
        natives: by column, the types in Postgres.
        unique: sets of columns that tell rows apart, the primary key first.
        primary: whether there is one.
        has_temporary: whether the user may make temporary tables.
        whole: whether the user may read all columns.
    """

    cluster: str
    number: str
    holds: tuple[str, ...]
    within: tuple[str, ...]
    database: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    natives: dict[str, Native]
    unique: tuple[tuple[str, ...], ...]
    primary: bool
    has_temporary: bool
    whole: bool

    @property
    def text(self) -> str:
        """Its whole name, as Postgres reads it."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    def table(self) -> exp.Table:
        """It as an expression."""
        return exp.table_(self.name, db=self.schema, quoted=True)


def find_relation(session: PostgresSession, text: str) -> Relation:
    """The table that a name means: `adult` is `public.adult`.

    Raises:
        UnknownName: there is none, or its user may read no column of it.
        NotCounted: it is no table, a policy hides rows of it, or the server is too old or of another encoding.
    """
    version, encoding, has_temporary, database, place, control_values = session.rows(_SERVER)[0]
    if version < OLDEST:
        raise NotCounted(f"this is Postgres {version // 10_000}: dpsql reads tables of Postgres 15 and newer")
    if encoding != "UTF8":
        raise NotCounted(f"the database {database!r} is in {encoding}: dpsql reads databases in UTF8")
    if not control_values:
        raise NotCounted(
            "the user may not call pg_control_system(), which tells servers apart, so that rows have one budget: GRANT "
            "EXECUTE ON FUNCTION pg_control_system() TO that user"
        )
    cluster = str(session.rows(_CLUSTER)[0][0])
    rows = _looked_up(session, text if "." in text else f"public.{text}")
    if not rows:
        raise UnknownName(f"there is no table {text!r} in the database {database!r}: give relation := 'schema.table'")
    oid, schema, name, kind, hidden, whole = rows[0]
    if kind not in _TABLES:
        raise NotCounted(f"{text!r} is {_KINDS.get(kind, 'no table')}")
    if hidden:
        raise NotCounted(f"a row security policy hides rows of {text!r}: use a user who may read all of them")
    columns, natives = _columns_of(session.rows(_COLUMNS, [oid]))
    if not columns:
        raise UnknownName(f"the user may read no column of {text!r}: GRANT SELECT ON {text} TO that user")
    filled = {column.name for column in columns if not column.nullable}
    keys = [(tuple(_listed(listed)), primary) for listed, primary in session.rows(_UNIQUE, [oid])]
    keys = [(names, primary) for names, primary in keys if names and filled.issuperset(names)]
    unique, primary = tuple(names for names, _ in keys), any(primary for _, primary in keys)
    holds, within = _family(session, oid, text, f"postgres {cluster}/{place}")
    number = f"postgres {cluster}/{place}/{oid}"
    return Relation(
        cluster, number, holds, within, database, schema, name, columns, natives, unique, primary, has_temporary, whole
    )


def _family(session: PostgresSession, oid: int, text: str, server: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which tables' rows a table has, itself among them, and which tables have its rows.

    Raises:
        NotCounted: some of its rows are on another server, where they may have a budget of their own.
    """
    rows = session.rows(_FAMILY, [oid])
    if any(elsewhere for _, _, elsewhere in rows):
        raise NotCounted(
            f"a part of {text!r} is a foreign table, whose rows are on another server: name the table there, and name "
            "the other parts one by one"
        )
    holds, within = (
        tuple(sorted(f"{server}/{number}" for number, inside, _ in rows if inside == wanted))
        for wanted in (True, False)
    )
    return holds, within


def _looked_up(session: PostgresSession, text: str) -> list[tuple[Any, ...]]:
    """What a text names; nothing where it is no name."""
    try:
        return session.rows(_RELATION, [text])
    except ConnectionLost:
        raise
    except CountingFailed:
        return []


def _columns_of(rows: Sequence[tuple[Any, ...]]) -> tuple[tuple[Column, ...], dict[str, Native]]:
    columns, natives = [], {}
    for name, filled, computed, modifier, kind, equal_bytes, members in rows:
        native = native_of(kind, modifier, _listed(members))
        natives[name] = native
        columns.append(Column(name, native.in_duckdb, not filled, computed, equal_bytes))
    return tuple(columns), natives


def _listed(text: str) -> list[str]:
    return [str(column) for column in json.loads(text)]
