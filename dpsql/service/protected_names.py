"""The protected tables that a user may ask about: what a catalogue says of them, and what who reads them is told.

A catalogue has an empty table for each, in a schema that no statement may read. Its columns, their types and comments
are what the owner declared. A program that lists tables shows it as a foreign one, which may not be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb

from dpsql.core.names import as_text, quote
from dpsql.errors import DpsqlError

from . import pgtypes

SCHEMA: Final = "dpsql_protected"
"""Of the empty tables."""
Protected = Mapping[str, Sequence[Sequence[str]]]
"""Tables by the name that the books have for them: columns with their types and what is declared of them."""
_MISSING: Final = re.compile(r'Table with name "?(.+?)"? does not exist!')
_SUGGESTED: Final = "\nDid you mean"
_DECIMAL: Final = re.compile(r"DECIMAL\(\d+,\d+\)")


class RowsNotServed(DpsqlError):
    """The table is protected, so nobody is shown its rows."""

    def __init__(self, table: str) -> None:
        quoted = table.replace("'", "''")
        example = f"'SELECT count(*) AS n FROM {quoted}'"  # noqa: S608 - words for people
        super().__init__(
            f"{table} is protected, so its rows are shown to nobody. Ask about them with dp_query: FROM "
            f"dp_query({example}, epsilon => 0.1); or have a synthetic table: FROM dp_synthesize('{quoted}', epsilon "
            f"=> 1.0). FROM dp_domains('{quoted}') lists what may be asked, and FROM dp_budget() what you have left"
        )


def bare(name: str) -> str:
    """A table's own name, of one with its schema before it, in lower case."""
    return name.rpartition(".")[2].strip('"').lower()


def missing_table(error: BaseException) -> str | None:
    """The name of the table that DuckDB says it does not have; None for other errors."""
    match = _MISSING.search(str(error)) if isinstance(error, duckdb.CatalogException) else None
    return None if match is None else match[1]


def without_suggestion(text: str) -> str:
    """An error of DuckDB's without the name that it finds most like, which is often one of its own views."""
    return text.partition(_SUGGESTED)[0]


def statements(protected: Protected, shown: Mapping[str, Any]) -> Iterator[str]:
    """Make the empty tables anew.

    Args:
        protected: the tables.
        shown: released tables by name: one of the same name stands for itself, because it can be read.
    """
    yield f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
    yield f"CREATE SCHEMA {SCHEMA}"
    released = {name.lower() for name in shown}
    for name, columns in protected.items():
        if name.lower() in released or not columns:
            continue
        table = f"{SCHEMA}.{quote(name)}"
        typed = ", ".join(f"{quote(column)} {_plain(kind)}" for column, kind, _ in columns)
        yield f"CREATE TABLE {table} ({typed})"
        yield f"COMMENT ON TABLE {table} IS {as_text(_said_of(name))}"
        for column, _, what in columns:
            yield f"COMMENT ON COLUMN {table}.{quote(column)} IS {as_text(what)}"


def _said_of(name: str) -> str:
    """The comment on a table."""
    called = name.replace("'", "''")
    example = f"'SELECT … FROM {called} …'"  # noqa: S608 - words for people
    return f"protected: ask with dp_query({example}, epsilon => 0.1); dp_domains('{called}') lists what may be asked"


def _plain(kind: str) -> str:
    """A type that a table without the types of the private file may have."""
    return kind if kind in pgtypes.OF or _DECIMAL.fullmatch(kind) else "VARCHAR"
