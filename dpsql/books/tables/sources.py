"""Sources: where the rows of stubs are, and which snapshot is pinned; one transaction writes the stub and its place.

The ledger records each pin of a table that has an account: an event of kind `source`. Before `dp_protect` there is no
ledger yet, so the first event is written with the account.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.books.ledger import ledger
from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.migration import make_tables
from dpsql.books.ledger.statements import SCHEMA
from dpsql.books.ledger.store import Books
from dpsql.books.tables.same_rows import as_read_before, check_single, keep_past
from dpsql.books.tables.write_table_ids import mark_tables
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.duckdb.stubs import alter_stub, create_stub
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.external import Registered
from dpsql.engines.lake.identity import as_read
from dpsql.engines.place import Place
from dpsql.engines.source import Source, key_of
from dpsql.errors import InvalidArgument


@dataclass(frozen=True)
class Registration:
    """What `dp_source` writes down.

    Attributes:
        parts: database, schema and name of the stub.
        before: the stub, if it is there already.
        engine: a name of the register of engines.
        relation: what the engine made of the owner's arguments.
        share: of the rows in the sample; None without one.
        other_rows: the owner's word, and why, that no row is one of another source's; None without it.
    """

    parts: tuple[str, str, str]
    before: Source | None
    engine: str
    relation: Registered
    share: float | None = None
    other_rows: str | None = None

    @property
    def key(self) -> str:
        """What the books call the stub."""
        return key_of(*self.parts[1:])

    @property
    def public(self) -> str:
        """The pin in words, with what the owner said of it."""
        words = "" if self.other_rows is None else f"; no row of another source, the owner says: {self.other_rows}"
        return self.relation.public + words

    def source(self) -> Source:
        """The stub, as it will be found."""
        registered = self.relation
        word = {} if self.other_rows is None else {"other_rows": self.other_rows}
        relation, pin = (
            json.dumps(values, sort_keys=True) for values in ({**registered.relation, **word}, registered.pin)
        )
        return Source(*self.parts, registered.columns, place=Place(self.engine, relation, pin, registered.identity))


Draw = Callable[[Source, str, str], None]
"""Fills a table with the sample of a source: the source, the table and what the choice is keyed by, both as SQL."""


def register(books: Books, registration: Registration, draw: Draw) -> None:
    """Write a stub and where its rows are, all or nothing.

    Args:
        books: of the stub's database, with a connection of its own.
        registration: what to write.
        draw: draws the sample, if there is to be one; called inside the transaction.

    Raises:
        BooksError: the database is read-only.
        InvalidArgument: the relation is registered under another name.
    """
    books.check_writable()
    now = as_read(books.cursor, registration.relation.files)
    if not registration.other_rows:
        check_single(books, registration.key, registration.relation, now)
    _check_sample(books, registration)
    before = as_read_before(books, registration.key)
    ledger.commit(books, lambda: _register(books, registration, draw, before, now))
    mark_tables(books)


def _register(books: Books, registration: Registration, draw: Draw, before: Iterable[str], now: Iterable[str]) -> None:
    """Inside a transaction: write all of it; see `keep_past` for what was and is read."""
    make_tables(books)
    registered, key, source = registration.relation, registration.key, registration.source()
    assert source.place is not None
    if registration.before is None:
        books.cursor.execute(create_stub(registration.parts, registered.columns))
    else:
        for statement in alter_stub(registration.before, registered.columns):
            books.cursor.execute(statement)
    row = {
        "source": key,
        "engine": registration.engine,
        "address": registered.address,
        "said": source.place.words,
        "pin": source.place.pin,
        "identity": list(registered.identity),
        "public": registration.public,
    }
    keep_past(books, key, before, now)
    rows = books.run("SELECT secret, sample FROM dpsql.source WHERE source = $source", {"source": key})
    for table in ("source", "source_file"):
        books.run(f"DELETE FROM dpsql.{table} WHERE source = $source", {"source": key})  # noqa: S608
    secret = rows[0][0] if rows else secrets.token_hex(32)  # so that a new snapshot keeps the rows that were drawn
    books.run(
        "INSERT INTO dpsql.source VALUES ($source, $engine, $address, $said, $pin, $identity, '', $secret, $public)",
        {**row, "secret": secret},
    )
    _write_files(books, registration)
    _write_sample(books, registration, rows[0][1] if rows else "", draw)
    if find_account(books, key) is not None:
        record_pin(books, key)


def _write_files(books: Books, registration: Registration) -> None:
    """Inside a transaction: the files of the snapshot, as one list, so that no name of a file stands in SQL."""
    files = registration.relation.files
    if files:
        books.run(
            "INSERT INTO dpsql.source_file SELECT $source, unnest(range(len($paths))), unnest($paths::VARCHAR[]), "
            "unnest($sizes::BIGINT[]), unnest($footers::VARCHAR[]), unnest($constants::VARCHAR[])",
            {
                "source": registration.key,
                "paths": [file.path for file in files],
                "sizes": [file.size for file in files],
                "footers": [file.footer for file in files],
                "constants": [file.constants for file in files],
            },
        )


def _write_sample(books: Books, registration: Registration, before: str, draw: Draw) -> None:
    """Inside a transaction: a sample in place of an earlier one, or none."""
    if before:
        books.run(f"DROP TABLE IF EXISTS dpsql.{quote(json.loads(before)['table'])}")
    if registration.share is None:
        return
    name, source = f"sample_{secrets.token_hex(4)}", registration.source()
    table = Source(source.catalog, SCHEMA, name, source.columns).table()
    listed = ", ".join(f"{quote(c.name)} {data_type(c.type).sql(dialect='duckdb')}" for c in source.columns)
    books.cursor.execute(f"CREATE TABLE {table.sql(dialect='duckdb')} ({listed})")
    secret = f"(SELECT secret FROM {quote(books.catalog)}.dpsql.source WHERE source = {literal(source.key)})"  # noqa: S608
    draw(source, table.sql(dialect="duckdb"), secret)
    by = registration.relation.identity
    sample = json.dumps({"table": name, "share": registration.share, "by": by[0] if by else None}, sort_keys=True)
    books.run(
        "UPDATE dpsql.source SET sample = $sample WHERE source = $source", {"sample": sample, "source": source.key}
    )


def record_pin(books: Books, source: str) -> None:
    """Inside a transaction: let the ledger know which snapshot of a table counts from now on, if it is a source."""
    place = registered(books, source)
    if place is None:
        return
    ledger.look(books)
    # keyed, because releases show the head of the ledger, and who knows all rows but one could try what is hashed
    ((secret,),) = books.run("SELECT secret FROM dpsql.source WHERE source = $source", {"source": source})
    pin = hmac.new(bytes.fromhex(secret), json.dumps(place, sort_keys=True).encode(), "sha256").hexdigest()
    words = place["public"] + (", a sample" if place["sample"] else "")
    ledger.event(books, "source", table=source, reason=words, pin=pin)


def registered(books: Books, source: str) -> Mapping[str, Any] | None:
    """What is registered of a table, without the secret; None if it is no source."""
    if not books.has("source"):
        return None
    names = ("engine", "address", "said", "pin", "identity", "sample", "public")
    rows = books.run(f"SELECT {', '.join(names)} FROM dpsql.source WHERE source = $source", {"source": source})  # noqa: S608
    return dict(zip(names, rows[0], strict=True)) if rows else None


def _check_sample(books: Books, registration: Registration) -> None:
    """Refuse to begin or end to sample once something was released: earlier counts would be of other rows than later.

    Raises:
        InvalidArgument: it was, or rows of a privacy unit would not be drawn together.
    """
    account, before = find_account(books, registration.key), registered(books, registration.key)
    if account is None or before is None:
        return
    if account.neighbours.total_is_public:  # of a sample of an earlier dpsql, its end is what mends it
        if registration.share is not None:
            raise InvalidArgument(
                f"sample: {registration.key!r} is protected with neighbours 'replace_one', where the number of rows is "
                "public, but how many rows a sample has is private: leave sample and rows out, so that all rows count"
            )
        return
    drawn = json.loads(before["sample"] or "{}")
    by = next(iter(registration.relation.identity), None)
    if account.releases and (drawn.get("share"), drawn.get("by")) != (
        registration.share,
        by if registration.share is not None else None,
    ):
        raise InvalidArgument(
            f"sample is {'another' if drawn else 'new'}, but releases of {registration.key!r} were charged, and their "
            "counts are of the rows as they were drawn then: leave sample, rows and identity out"
        )
    if registration.share is not None and account.unit_column is not None and by != account.unit_column:
        raise InvalidArgument(
            f"identity is {by!r}, but the table protects units of {account.unit_column!r}, whose rows are drawn "
            f"together: say identity := {account.unit_column!r}"
        )
