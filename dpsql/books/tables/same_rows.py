"""Whether rows have a budget already: under another name, by another path, as a copy, a part or the whole of a table.

    new  ∩  held  ≠  ∅      held: what tells the rows of a source from others, of its pin and of all pins before

Pins before count, because their rows were counted: a file that a source no longer reads is not free for another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import duckdb

from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.engines.external import Registered
from dpsql.engines.lake.addresses import is_in_bucket
from dpsql.engines.lake.identity import (
    as_read,
    held_and_near,
    identities_of,
    kept_identities,
    sizes_there,
    unmarked,
    without_empty,
    without_sizes,
)
from dpsql.engines.place import PinnedFile
from dpsql.engines.source import key_of
from dpsql.errors import InvalidArgument


def check_single(books: Books, key: str, registered: Registered, read: Mapping[str, str]) -> None:
    """Refuse rows that are registered under another name, here or in another database that is attached.

    Args:
        books: of the database in which they are to be registered.
        key: their name there.
        registered: what the engine says of them.
        read: see `as_read`, of its files.

    Raises:
        InvalidArgument: they are; rows have one budget.
    """
    files = {**identities_of(registered.files), **without_sizes(read), **sizes_there(registered.files)}
    holds = registered.pin.get("holds", ())
    tables = {f"address {registered.address}", *holds, *registered.within, *held_and_near(holds, registered.files)[1]}
    for catalog in {*catalogs_with_books(books.cursor), books.catalog}:
        other = Books(books.cursor, catalog)
        if not other.has("source"):
            continue
        for source, held in _held(
            other, with_as_read=any(is_in_bucket(file.path) for file in registered.files)
        ).items():
            if (catalog, source) == (books.catalog, key) or not _is_in_use(other, source):
                continue
            shared = {identity: path for identity, path in files.items() if identity in held}
            if not tables & held and not without_empty(books.cursor, shared):
                continue
            raise InvalidArgument(
                f"these rows, or some of them, are registered as {source!r} of {catalog!r} already, and rows have one "
                f"budget: ask about {source!r}; if it was never protected, DROP TABLE {source} frees them. If you know "
                "that no row here is a row there, say other_rows := 'why', which the ledger keeps"
            )


def holds_files(cursor: duckdb.DuckDBPyConnection, paths: Iterable[str] | None) -> bool:
    """Whether one of some files has, or may have, rows of a registered source of any attached database.

    Args:
        cursor: of the instance.
        paths: of the files; None if they are not known.
    """
    held = [held for catalog in catalogs_with_books(cursor) for held in _all_held(Books(cursor, catalog))]
    if not held or paths is None:
        return bool(held)
    files = [PinnedFile(path, 0, "") for path in paths]
    if any(not file.path.startswith("/") for file in files):
        return True
    own = {*identities_of(files), *held_and_near([], files)[1]}
    return any(own & identities for identities in held)


def _all_held(books: Books) -> Iterable[set[str]]:
    return _held(books).values() if books.has("source") else ()


def as_read_before(books: Books, key: str) -> set[str]:
    """What tells the files of a source from copies in a bucket, as far as an earlier dpsql did not write it down."""
    if not books.has("source") or find_account(books, key) is None:
        return set()
    files, _ = unmarked(_past(books).get(key, ()), _files(books, key).get(key, []))
    return set(as_read(books.cursor, files))


def keep_past(books: Books, key: str, before: Iterable[str], now: Iterable[str]) -> None:
    """Inside a transaction: before a pin moves, write down what tells its rows from others.

    Args:
        books: of its database.
        key: the source.
        before: see `as_read_before`.
        now: see `as_read`, of the files of the new pin: they may be in a bucket alone before it moves.
    """
    _keep_before(books, key, before)
    _keep(books, key, now)


def _keep_before(books: Books, key: str, before: Iterable[str]) -> None:
    if find_account(books, key) is None:  # nothing was ever charged for its rows
        books.run("DELETE FROM dpsql.source_past WHERE source = $source", {"source": key})
        return
    files = _files(books, key).get(key, [])
    place = books.run("SELECT address, pin FROM dpsql.source WHERE source = $source", {"source": key})
    for address, pin in place:
        _keep(books, key, {*_of_table(address, pin, files), *kept_identities(files), *before})


def _keep(books: Books, key: str, identities: Iterable[str]) -> None:
    books.run(
        "INSERT INTO dpsql.source_past SELECT $source, unnest($identities::VARCHAR[]) ON CONFLICT DO NOTHING",
        {"source": key, "identities": sorted(set(identities))},
    )


def _past(books: Books) -> dict[str, set[str]]:
    """What was written down of each source of a database."""
    past: dict[str, set[str]] = {}
    if books.has("source_past"):
        for source, identity in books.run("SELECT source, identity FROM dpsql.source_past"):
            past.setdefault(source, set()).add(identity)
    return past


def _held(books: Books, *, with_as_read: bool = False) -> dict[str, set[str]]:
    """For each source of a database, what tells its rows from others: those of now, and those of pins before."""
    files, held = _files(books), _past(books)
    before = {source: frozenset(identities) for source, identities in held.items()}
    for source, address, pin in books.run("SELECT source, address, pin FROM dpsql.source"):
        own = files.get(source, [])
        held.setdefault(source, set()).update(_of_table(address, pin, own), identities_of(own))
        if with_as_read:
            left, unread = unmarked(before.get(source, ()), own)
            held[source].update(unread, as_read(books.cursor, left))
    return held


def _of_table(address: str, pin: str, files: Sequence[PinnedFile]) -> set[str]:
    """What tells a relation as a whole, beside its files."""
    holds = json.loads(pin).get("holds", ())
    return {f"address {address}", *holds, *held_and_near(holds, files)[0]}


def _files(books: Books, key: str | None = None) -> dict[str, list[PinnedFile]]:
    """The files of one source, or of all."""
    where = "" if key is None else " WHERE source = $source"
    rows: Iterable[tuple[str, str, int, str]] = books.run(
        f"SELECT source, path, size, footer FROM dpsql.source_file{where}",  # noqa: S608
        {} if key is None else {"source": key},
    )
    files: dict[str, list[PinnedFile]] = {}
    for source, path, size, footer in rows:
        files.setdefault(source, []).append(PinnedFile(path, size, footer))
    return files


def _is_in_use(books: Books, source: str) -> bool:
    """Whether a registered table is there still, or has an account."""
    tables = books.cursor.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?", [books.catalog]
    ).fetchall()
    return find_account(books, source) is not None or source in {key_of(*parts) for parts in tables}
