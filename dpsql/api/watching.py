"""What statements do to public tables: those that read public rows alone leave their tables public, others do not.

A statement is judged before it runs, by what its text names (see `dpsql.api.wording`), and names are looked up where it
runs: on the caller's own connection, in its transaction. Tables are followed by their object ids there, so renames and
swaps lead to the same tables. What is doubtful is never public:

    before    a table that may get protected rows leaves the list, durably; so does the owner's word if it surely will
    after     tables that were made or changed from public rows are listed as they are now; in a transaction at its end

A process that dies in between leaves a table with other rows than it is listed with, which is a suspect. Statements on
a DuckDB connection of one's own are not seen, so what they make or change is one, too: see
`dpsql.books.tables.public_list`.
"""

from __future__ import annotations

import atexit
import re
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from types import FrameType
from typing import Any, Final, cast

import duckdb

from dpsql.api.caller import Named
from dpsql.api.statement_values import READERS, Ask, check_values
from dpsql.api.wording import Name, Wording, wording_of
from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.books.ledger.table_ids import Identity, Listed, list_tables, seen_by
from dpsql.books.reading.reads import Unclear
from dpsql.books.tables import write_table_ids
from dpsql.books.tables.public import is_protected
from dpsql.books.tables.same_rows import holds_files
from dpsql.core.names import fold
from dpsql.engines.registry import find_parts
from dpsql.errors import DpsqlError
from dpsql.udfs.extension import Instance

_CHANGES: Final = re.compile(
    r"\b(create|insert|update|delete|merge|copy|alter|truncate|replace|prepare|execute|commit|end|rollback|abort)\b",
    re.IGNORECASE,
)
_ENDS: Final = frozenset({"commit", "end", "rollback", "abort"})
_AT_ONCE: Final = 2.0
"""Seconds of listing before statements that come quickly are listed together."""
_FILE: Final = re.compile(r".+\.(csv|tsv|parquet|json|ndjson)(\.(gz|zst))?", re.IGNORECASE)
_FRAMES: Final = frozenset({"pandas", "polars", "pyarrow", "numpy"})
_VISIBLE: Final = """
    SELECT database_name, schema_name, table_name, database_oid, table_oid, temporary FROM duckdb_tables()
    UNION ALL SELECT database_name, schema_name, view_name, NULL, NULL, temporary FROM duckdb_views()
"""
_HOME: Final = "SELECT system.main.current_database(), system.main.current_schema(), system.main.txid_current()"


class Verdict(IntEnum):
    """On the rows that a statement reads."""

    PUBLIC = 0
    DOUBTFUL = 1
    PROTECTED = 2


@dataclass(eq=False)
class Changes:
    """What the statements of one connection did that the list does not say yet, and what they prepared.

    Attributes:
        instance: of the connection.
        made: the object ids of tables made from public rows.
        changed: tables that public rows changed, each as it was before.
        prepared: the texts of prepared statements.
        since: when the connection was opened, in seconds.
        left: names under which tables with rows of a protected one left the list, by object ids.
        spent: seconds of this process that listing took.
    """

    instance: Instance
    made: set[Identity] = field(default_factory=set)
    changed: dict[Identity, Listed] = field(default_factory=dict)
    prepared: dict[str, str] = field(default_factory=dict)
    left: dict[Identity, str] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    spent: float = 0.0

    def __post_init__(self) -> None:
        _open.add(self)

    @property
    def can_wait(self) -> bool:
        """Whether listing has taken so long that a load of many small statements should come first."""
        return self.spent > _AT_ONCE + (time.monotonic() - self.since) / 2


def steps(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The statements of a text that changes tables, which are looked at one by one; else the text as it is."""
    if _CHANGES.search(text):
        with suppress(duckdb.Error):
            parts = [statement.query for statement in connection.extract_statements(text)]
            if all(part.strip() for part in parts):
                return parts or [text]
            return _parts(text) or [text]  # DuckDB 1.5 makes several of a PIVOT, without texts
    return [text]


def _parts(text: str) -> list[str]:
    """A text between its semicolons, as DuckDB finds them; without what holds comments alone."""
    data, parts, words, begin = text.encode(), list[str](), 0, 0  # in whose bytes DuckDB counts
    for at, kind in [*duckdb.tokenize(text), (len(data), None)]:
        if kind is None or data[at : at + 1] == b";":
            parts += [data[begin:at].decode()] if words else []
            words, begin = 0, at + 1
        elif kind is not duckdb.token_type.comment:
            words += 1
    return parts


@contextmanager
def watched(changes: Changes, ask: Ask, frame: FrameType, text: str) -> Iterator[None]:
    """Look at a statement that may change a table, before it runs and after.

    Args:
        changes: of the connection.
        ask: runs a query on the caller's connection.
        frame: the caller's, whose variables a statement can name.
        text: one statement.
    """
    if not _CHANGES.search(text):
        yield
        return
    with changes.instance.cursor() as cursor:
        watch = _watch(cursor, ask, frame, text, changes) if catalogs_with_books(cursor) else None
        if watch is None:
            yield
            return
        watch.before()
        yield
        watch.after()


def settle_changes(changes: Changes) -> None:
    """List what was made and changed, as it is now: at the end of a transaction, or of the connection."""
    if changes.made or changes.changed:
        with changes.instance.cursor() as cursor:
            _settle(cursor, changes)


_open: Final[weakref.WeakSet[Changes]] = weakref.WeakSet()


@atexit.register
def _settle_all() -> None:
    """At the end of a script that closes nothing."""
    for changes in list(_open):
        with suppress(DpsqlError, duckdb.Error):
            settle_changes(changes)


def _watch(cursor: duckdb.DuckDBPyConnection, ask: Ask, frame: FrameType, text: str, changes: Changes) -> _Watch | None:
    wording = wording_of(text)
    if wording.first == "prepare":
        changes.prepared[wording.second] = text
    if wording.first == "execute":
        text = changes.prepared.get(wording.second, text)
        wording = wording_of(text)
    if wording.targets or wording.first in _ENDS:
        return _Watch(cursor, ask, frame, text, wording, changes)
    return None


@dataclass
class _Watch:
    """One statement."""

    cursor: duckdb.DuckDBPyConnection
    ask: Ask
    frame: FrameType
    text: str
    wording: Wording
    changes: Changes
    listed: Mapping[Identity, Listed] = field(default_factory=dict)
    visible: Sequence[tuple[Any, ...]] = ()
    home: tuple[str, ...] = ()
    verdict: Verdict = Verdict.PUBLIC
    ends: bool = False

    def before(self) -> None:
        """Judge what the statement reads, and take the tables off the list that may get protected rows."""
        self.ends = self.wording.first in _ENDS
        if self.ends:
            return
        self._look()
        self.listed = {table.identity: table for table in list_tables(self.cursor)}
        self.verdict = self._judge()
        self._end_words()
        for identity in () if self.wording.makes and len(self.wording.targets) == 1 else self._targets():
            table = self.listed.get(identity)
            if self.verdict is not Verdict.PUBLIC:
                self._let_leave(identity, table)
            elif table is not None and identity not in self.changes.made | self.changes.changed.keys():
                write_table_ids.begin_change(Books(self.cursor, table.catalog), table)
                self.changes.changed[identity] = table

    def _let_leave(self, identity: Identity, table: Listed | None) -> None:
        self.changes.made.discard(identity)
        if table is not None:
            write_table_ids.leave(Books(self.cursor, table.catalog), table, surely=self.verdict is Verdict.PROTECTED)
        elif (seen := seen_by(self.cursor)) is not None:
            seen.doubt(identity, surely=self.verdict is Verdict.PROTECTED)

    def _end_words(self) -> None:
        """End the owner's word about names under which rows of a protected table come, before they are there.

        A statement that makes a table anew has its name; one that renames such a table may name any.
        """
        seen = seen_by(self.cursor)
        renames = self.wording.first == "alter" and seen is not None and bool(seen.surely & self._targets())
        if not renames and not (self.verdict is Verdict.PROTECTED and self.wording.makes):
            return
        names = {name[-1] for name in (*self.wording.targets, *(self.wording.names if renames else ()))}
        for catalog in {str(row[0]) for row in self.visible if fold(row[2]) in names} | {self.home[0]}:
            if catalog in catalogs_with_books(self.cursor):
                write_table_ids.end_words(Books(self.cursor, catalog), names)

    def after(self) -> None:
        """Note what the statement made; outside of a transaction, list it and what it changed."""
        if self.ends:
            _settle(self.cursor, self.changes)
            return
        earlier = {row[3:5] for row in self.visible}
        transaction = self._look()
        if self.wording.makes:
            listed = {table.identity: table for table in list_tables(self.cursor)}
            for identity in self._targets():
                if identity not in earlier and self.verdict is Verdict.PUBLIC:
                    self.changes.made.add(identity)
                elif identity not in earlier:
                    self._let_leave(identity, listed.get(identity))
        if transaction != int(self.ask(_HOME)[0][2]):
            _let_leave_by_name(self.cursor, self.changes)
            if not self.changes.can_wait:
                _settle(self.cursor, self.changes)

    def _look(self) -> int:
        """See the tables that the caller sees; returns the number of the transaction."""
        *home, transaction = self.ask(_HOME)[0]
        self.visible, self.home = self.ask(_VISIBLE), tuple(home)
        return int(transaction)

    def _targets(self) -> set[Identity]:
        return {
            cast("Identity", row[3:5])
            for target in self.wording.targets
            for row in self._named(target)
            if row[4] is not None and not row[5]
        }

    def _named(self, name: Name) -> list[tuple[Any, ...]]:
        """The tables and views that a name can mean here; those of other schemas only if none of this one has it."""
        *above, last = name
        rows = [row for row in self.visible if fold(row[2]) == last]
        if above:
            return [row for row in rows if above[-1] in (fold(row[0]), fold(row[1]))]
        near = [row for row in rows if row[5] or row[:2] == self.home]
        return near if any(not row[5] for row in near) else rows

    def _judge(self) -> Verdict:
        """What a statement reads, as its text says; in doubt it is not public."""
        try:
            check_values(self.ask, self.text, self.wording)
            if not self.wording.reads:
                return Verdict.PUBLIC
            if self._reads_files() and holds_files(self.cursor, self._files()):
                return Verdict.PROTECTED
            rows = {row for name in self.wording.names for row in self._named(name)}
            verdicts = [self._of_row(row) for row in rows]
            names = {name[0] for name in self.wording.names if len(name) == 1}
            return max([*verdicts, self._of_variables(names)], default=Verdict.PUBLIC)
        except (Unclear, DpsqlError, duckdb.Error, OSError):
            return Verdict.DOUBTFUL

    def _of_row(self, row: tuple[Any, ...]) -> Verdict:
        """Of a table or view that the caller sees."""
        identity = row[3:5]
        if row[4] is None or row[5]:
            return Verdict.DOUBTFUL
        if identity in self.changes.made:
            return Verdict.PUBLIC
        table = self.listed.get(identity)
        if table is None:
            return Verdict.DOUBTFUL
        place = (table.catalog, table.schema)
        source = find_parts(self.cursor, (*place, table.name), place)
        return Verdict.PROTECTED if is_protected(self.cursor, source) else Verdict.PUBLIC

    def _of_variables(self, names: set[str]) -> Verdict:
        """Of the caller's variables: one that holds rows of its own is public, a relation reads tables."""
        spaces: Sequence[Mapping[str, object]] = (self.frame.f_locals, self.frame.f_globals)
        values = [value for space in spaces for name, value in space.items() if fold(name) in names]
        return Verdict.DOUBTFUL if any(map(_reads_tables, values)) else Verdict.PUBLIC

    def _reads_files(self) -> bool:
        copies = self.wording.is_copy and bool(self.wording.paths)
        return bool(copies or self.wording.calls & READERS or any(map(_FILE.fullmatch, self.wording.paths)))

    def _files(self) -> list[str] | None:
        """The files whose paths the text has; None if it does not tell them."""
        paths = [
            path for path in self.wording.paths if "/" in path or "." in path or "*" in path or self.wording.is_copy
        ]
        files = [self.cursor.execute("SELECT file FROM glob(?)", [path]).fetchall() for path in paths]
        likely = [rows for path, rows in zip(paths, files, strict=True) if rows or not self.wording.is_copy]
        return [path for rows in likely for (path,) in rows] if likely and all(likely) else None


def _reads_tables(value: object) -> bool:
    """Whether DuckDB can read a variable that holds no rows of its own."""
    if type(value).__module__.partition(".")[0] in _FRAMES:
        return False
    return isinstance(value, Named | duckdb.DuckDBPyRelation) or hasattr(value, "__arrow_c_stream__")


def _let_leave_by_name(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> None:
    """Take the names that tables with rows of a protected one have now off the list, after renames and swaps too."""
    seen = seen_by(cursor)
    if seen is None or not seen.surely:
        return
    for table in list_tables(cursor):
        if table.identity in seen.surely and changes.left.get(table.identity) != table.key:
            write_table_ids.leave(Books(cursor, table.catalog), table, surely=True)
            changes.left[table.identity] = table.key


def _settle(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> None:
    """List what was made and changed, and is there."""
    _let_leave_by_name(cursor, changes)
    begin = time.thread_time()
    made, changed = set(changes.made), dict(changes.changed)
    changes.made.clear()
    changes.changed.clear()
    listed = {table.identity: table for table in list_tables(cursor)}
    for catalog in {table.catalog for identity, table in listed.items() if identity in made or identity in changed}:
        write_table_ids.end_changes(
            Books(cursor, catalog),
            [table for identity, table in listed.items() if identity in made and table.catalog == catalog],
            [
                (table, fold(changed[identity].key))
                for identity, table in listed.items()
                if identity in changed and table.catalog == catalog
            ],
        )
    changes.spent += time.thread_time() - begin
