"""Stubs: empty tables of the host that stand for rows elsewhere, which `dp_source` registered.

A stub has a constraint that no row meets. So INSERT is refused, and the catalogue tells a stub from a table under any
name: the constraint stays through RENAME, ALTER, EXPORT and COPY FROM DATABASE. The row of the books says where the
rows are; see `dpsql.engines.place`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.core.names import as_text, quote
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.place import PinnedFile, Place
from dpsql.engines.source import Column, Source, key_of
from dpsql.errors import DpsqlError, InvalidArgument

MARK: Final = "the rows are elsewhere: see dp_source"
_PLACE: Final = "SELECT engine, said, pin, identity, sample FROM {}.dpsql.source WHERE source = ?"
_FILES: Final = "SELECT path, size, footer, constants FROM {}.dpsql.source_file WHERE source = ? ORDER BY number"


def is_stub(definition: str) -> bool:
    """Whether the definition of a table is that of a stub."""
    return MARK in definition


def place_of(cursor: duckdb.DuckDBPyConnection, catalog: str, schema: str, name: str) -> Place:
    """Where the rows of a stub are, as the books of its database say.

    Raises:
        InvalidArgument: they say nothing of a table of this name.
    """
    try:
        rows = cursor.execute(_PLACE.format(quote(catalog)), [key_of(schema, name)]).fetchall()
    except duckdb.CatalogException:
        rows = []
    if not rows:
        raise InvalidArgument(
            f"table {name!r} stands for rows elsewhere, but the books of {catalog!r} do not say where: it was renamed "
            f"or copied. Rename it back, or say CALL dp_source({as_text(key_of(schema, name))}, …) again"
        )
    ((engine, words, pin, identity, sample),) = rows
    return Place(engine, words, pin, tuple(identity), sample)


def files_of(cursor: duckdb.DuckDBPyConnection, source: Source) -> list[PinnedFile]:
    """The files of a source's snapshot, in order."""
    rows = cursor.execute(_FILES.format(quote(source.catalog)), [source.key]).fetchall()
    return [PinnedFile(*row) for row in rows]


def check_stub(source: Source) -> None:
    """Refuse a stub that somebody altered, as far as its engine pinned the names of its columns.

    Raises:
        DpsqlError: it has other columns than the rows have.
    """
    pinned = None if source.place is None else source.place.pinned.get("columns")
    if pinned is not None and set(pinned) != {column.name for column in source.columns}:
        raise DpsqlError(
            f"the columns of {source.name!r} are not those of its rows: the table was altered here. Say "
            f"CALL dp_source({source.argument}), which gives it the columns of its rows"
        )


def create_stub(parts: tuple[str, str, str], columns: Sequence[Column]) -> str:
    """The statement that creates a stub."""
    never = exp.Is(this=exp.Literal.string(MARK), expression=exp.null())
    table = exp.table_(parts[2], db=parts[1], catalog=parts[0], quoted=True)
    constraint = exp.Constraint(expressions=[exp.CheckColumnConstraint(this=never)])
    schema = exp.Schema(this=table, expressions=[*map(_definition, columns), *constraint.expressions])
    return exp.Create(this=schema, kind="TABLE").sql(dialect="duckdb")


def alter_stub(source: Source, columns: Sequence[Column]) -> list[str]:
    """The statements that give a stub other columns; its comment, and so its mark, stays."""
    table, before = source.table().sql(dialect="duckdb"), {column.name: column for column in source.columns}
    after = {column.name for column in columns}
    changes = []
    for column in columns:
        old, name = before.get(column.name), quote(column.name)
        kind = data_type(column.type).sql(dialect="duckdb")
        if old is None:
            changes.append(f"ADD COLUMN {name} {kind}")
        elif old.type != column.type:
            changes.append(f"ALTER COLUMN {name} TYPE {kind}")
        if (True if old is None else old.nullable) != column.nullable:
            changes.append(f"ALTER COLUMN {name} {'DROP' if column.nullable else 'SET'} NOT NULL")
    changes += [f"DROP COLUMN {quote(name)}" for name in before if name not in after]
    return [f"ALTER TABLE {table} {change}" for change in changes]


def _definition(column: Column) -> exp.ColumnDef:
    constraints = [] if column.nullable else [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())]
    name = exp.to_identifier(column.name, quoted=True)
    return exp.ColumnDef(this=name, kind=data_type(column.type), constraints=constraints)
