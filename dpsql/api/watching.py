"""Tables that a statement makes from public rows alone are listed as public; others are left for their owner's word.

Only statements of `Database.sql` and `execute` are seen, and those of the command line. A table that came otherwise, or
inside a transaction, is a suspect until its owner says what it holds: see `dpsql.books.public_list`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.books import marking
from dpsql.books.marks import Listed, list_tables, seen_by
from dpsql.books.public import is_protected
from dpsql.books.reads import Unclear, check_calls
from dpsql.books.store import Books, catalogs_with_books
from dpsql.core.names import fold
from dpsql.engines.duckdb.names import current_schema
from dpsql.engines.registry import find_parts
from dpsql.errors import DpsqlError, UnknownName
from dpsql.udfs.extension import Instance

_CREATE: Final = re.compile(r"\bcreate\b", re.IGNORECASE)
_TABLE: Final = re.compile(r"\btable\b", re.IGNORECASE)
_READERS: Final = frozenset(
    "read_csv read_csv_auto read_parquet parquet_scan read_json read_json_auto read_ndjson read_ndjson_auto".split()  # noqa: SIM905
)
"""Functions that read files, whose rows are the owner's to answer for."""
_DRAWN: Final = frozenset("random uuid uuidv4 uuidv7 gen_random_uuid now today".split())  # noqa: SIM905
_FILE: Final = re.compile(r".+\.(csv|tsv|parquet|json|ndjson)(\.(gz|zst))?", re.IGNORECASE)
_FRAMES: Final = frozenset({"pandas", "polars", "pyarrow", "numpy"})
_MACROS: Final = (
    "SELECT DISTINCT function_name FROM duckdb_functions() WHERE macro_definition IS NOT NULL AND NOT internal"
)
_OWN: Final = """
    SELECT table_name FROM duckdb_tables() WHERE temporary
    UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal
"""
"""What only the connection itself sees, and finds first."""


def _makes(text: str) -> bool:
    """Whether a text may make a table. Two searches, for one with both words takes the square of a long text's time."""
    create = _CREATE.search(text)
    return create is not None and _TABLE.search(text, create.end()) is not None


def steps(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The statements of a text that makes tables, which are looked at one by one; else the text as it is."""
    if not _makes(text):
        return [text]
    with suppress(duckdb.Error):
        return [statement.query for statement in connection.extract_statements(text)] or [text]
    return [text]


@contextmanager
def watched(
    instance: Instance,
    connection: duckdb.DuckDBPyConnection,
    frame: FrameType,
    text: str,
    search_path: Callable[[], str],
) -> Iterator[None]:
    """Look at a statement that makes a table, before it runs and after.

    Args:
        instance: of the connection.
        connection: the caller's.
        frame: the caller's, whose variables a statement can name.
        text: one statement.
        search_path: gives that of the connection.
    """
    if not _makes(text):
        yield
        return
    with instance.cursor() as cursor:
        made = _made_by(text) if catalogs_with_books(cursor) else None
        if made is None:
            yield
            return
        path, before = search_path(), {table.identity for table in list_tables(cursor)}
        public = _is_public(cursor, connection, frame, made, text, path)
        yield
        table = _table(cursor, made, path)
        if table is None or table.identity in before:
            return
        seen = seen_by(cursor)
        if public:
            marking.list_table(Books(cursor, table.catalog), table)
        elif seen is not None:
            seen.copies.add(table.identity)


def _made_by(text: str) -> exp.Create | None:
    """A statement that makes a table which stays."""
    with suppress(SqlglotError, RecursionError):
        tree = sqlglot.parse_one(text, read="duckdb")
        if isinstance(tree, exp.Create) and tree.kind == "TABLE" and not tree.find(exp.TemporaryProperty):
            return tree
    return None


def _is_public(
    cursor: duckdb.DuckDBPyConnection,
    connection: duckdb.DuckDBPyConnection,
    frame: FrameType,
    made: exp.Create,
    text: str,
    path: str,
) -> bool:
    """Whether all that a statement reads is public; if in doubt not."""
    query = made.expression
    if query is None:
        return True
    words = set(re.findall(r"\w+", fold(text)))
    try:
        check_calls(cursor, text, beside=_READERS | _DRAWN | {word for word in words if word.startswith("dp_")})
        own = {fold(name) for (name,) in connection.execute(_OWN).fetchall()}
        macros = {fold(name) for (name,) in cursor.execute(_MACROS).fetchall()}
        if macros & words:
            return False
        home = current_schema(cursor, path)
        names = [table for table in query.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
        return all(_is_public_name(cursor, table, home, own, frame) for table in names)
    except (Unclear, DpsqlError, duckdb.Error):
        return False


def _is_public_name(
    cursor: duckdb.DuckDBPyConnection, table: exp.Table, home: tuple[str, str], own: set[str], frame: FrameType
) -> bool:
    """Whether a name in FROM is a public table, a file, or rows of Python. A name of WITH is looked up, too."""
    parts = [part.name for part in table.parts]
    if fold(parts[-1]) in own:
        return False
    try:
        return not is_protected(cursor, find_parts(cursor, parts, home))
    except UnknownName:
        named_by_with = fold(parts[-1]) in _names_of_with(table)
        return len(parts) == 1 and (named_by_with or bool(_FILE.fullmatch(parts[0])) or _is_frame(frame, parts[0]))


def _names_of_with(table: exp.Table) -> set[str]:
    return {fold(cte.alias) for cte in table.root().find_all(exp.CTE)}


def _is_frame(frame: FrameType, name: str) -> bool:
    """Whether a variable holds rows of its own, unlike a relation, which reads tables."""
    spaces: Sequence[Mapping[str, object]] = (frame.f_locals, frame.f_globals)
    value = next((space[name] for space in spaces if name in space), None)
    return type(value).__module__.partition(".")[0] in _FRAMES


def _table(cursor: duckdb.DuckDBPyConnection, made: exp.Create, path: str) -> Listed | None:
    """The table that was made, as it is listed; None inside a transaction."""
    target = made.this.this if isinstance(made.this, exp.Schema) else made.this
    try:
        source = find_parts(cursor, [part.name for part in target.parts], current_schema(cursor, path))
    except DpsqlError:
        return None
    return next((table for table in list_tables(cursor) if table.identity == source.identity), None)
