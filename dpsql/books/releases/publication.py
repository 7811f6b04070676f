"""Publish a release: write its rows, read back what was committed, and record the digests of all that is published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
from sqlglot import exp

from dpsql.books.ledger import chain, ledger
from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal, releases
from dpsql.books.releases.releases import Entry, rows_table
from dpsql.books.tables import facts
from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute, Domain, fields_of
from dpsql.engines.duckdb.frames import Columns, from_rows, length, shown_as
from dpsql.engines.duckdb.ticks import from_tick
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.source import Source
from dpsql.errors import BooksError
from dpsql.evaluation.decode import released_columns, stood_in, stored

_NOT_READ_BACK: Final = (
    "the {0} of {1} could not be read back as they were written, so it is not published; nothing is lost: the "
    "same call goes on from what was measured, free"
)


@dataclass(frozen=True)
class Rows:
    """The rows of a table, encoded.

    Attributes:
        drawn: its columns, made of those of `frame`.
        filled: the names of those that are not NULL throughout.
        schema: a SELECT without rows whose columns have the types of the table's; None for those of `drawn`.
        name: of `frame` in `drawn`.
        frame: see above.
    """

    drawn: exp.Select
    filled: Sequence[str]
    schema: exp.Select | None
    name: str
    frame: Columns


def publish(
    books: Books,
    entry: Entry,
    source: Source,
    columns: Sequence[str],
    frame: Columns,
    report: Mapping[str, Any],
) -> Entry:
    """Store the synthetic rows, decoded into the source's types; returns the release, published.

    Args:
        books: of the source's database.
        entry: the release.
        source: whose column types the rows get, as far as those are public.
        columns: of the synthetic table, in order.
        frame: for attribute number i, its codes as `c<i>` and for bins ticks as `t<i>`; see `stood_in` for others.
        report: what the fit says of itself; from released values only.
    """
    return store_tables(books, entry, [rows_of(entry.domain, source, columns, frame)], report)


def rows_of(
    domain: Domain, source: Source, columns: Sequence[str], frame: Columns, keys: Mapping[str, exp.Expr] | None = None
) -> Rows:
    """Synthetic rows, decoded into a source's types.

    Args:
        domain: of the columns.
        source: see `publish`.
        columns: see `publish`.
        frame: see `publish`.
        keys: the values of further columns, made of those of `frame`.
    """
    attributes = {a.name: (f"c{i}", f"t{i}", a) for i, a in enumerate(domain)}
    schema = released_columns(source, columns, (*domain, *domain.excluded))
    values, others = [], {**stood_in(domain), **(keys or {})}
    for name in columns:
        value = stored(attributes[name][2], *attributes[name][:2]) if name in attributes else others.get(name)
        values.append(exp.alias_(exp.null() if value is None else value, name, quoted=True))
    filled = [name for name in columns if name in attributes or name in others]
    return Rows(exp.select(*values), filled, schema, "dpsql_codes", frame)


def publish_answers(
    books: Books, entry: Entry, frame: Columns, types: Mapping[str, str], report: Mapping[str, Any]
) -> Entry:
    """Store the answers of a query; returns the release, published.

    Args:
        books: of the table's database.
        entry: the release.
        frame: keys as text, whole steps of a DECIMAL as integers.
        types: of the columns, which `frame` has too.
        report: what the answers say of themselves; from released values only.
    """
    rows = Rows(typed_answers(types), tuple(types), None, "dpsql_answers", frame)
    return store_tables(books, entry, [rows], report)


def publish_domain(books: Books, entry: Entry, attribute: Attribute, report: Mapping[str, Any]) -> Entry:
    """Record a discovered domain, and mark its release as published; returns the release."""

    def work() -> None:
        accounts = ledger.look(books).state.accounts
        facts.record_domain(books, entry.source, attribute)
        end(books, entry, accounts, {**report, "domain": fields_of(attribute)})

    ledger.commit(books, work)
    published = releases.find_release(books, entry.key)
    assert published is not None
    return published


def store_tables(books: Books, entry: Entry, parts: Sequence[Rows], report: Mapping[str, Any]) -> Entry:
    """Write the rows of all tables of a release, read back what was committed, and publish them together.

    Raises:
        BooksError: what was read back is not what was written; nothing is lost, the same call goes on.
    """
    written = [_write(books, entry, place, part) for place, part in enumerate(parts)]
    rows = length(parts[0].frame)

    def work() -> None:
        accounts = ledger.look(books).state.accounts
        for place, (part, before) in enumerate(zip(parts, written, strict=True)):
            table = rows_table(books.catalog, entry, place)
            if fingerprint(books.cursor, table, part.drawn.named_selects, part.filled) != before:
                raise BooksError(_NOT_READ_BACK.format("rows", entry.called))
        end(books, entry, accounts, report, rows)

    ledger.commit(books, work)
    return replace(entry, state="published", rows=rows, report=dict(report))


def _write(books: Books, entry: Entry, place: int, part: Rows) -> tuple[Any, ...]:
    """Write the rows of one table; returns what they say together."""
    drawn = part.drawn.from_(part.name)
    with shown_as(books.cursor, part.name, part.frame):
        written = fingerprint(books.cursor, drawn.subquery("dpsql_drawn"), drawn.named_selects, part.filled)
        write_rows(books, entry, drawn, part.schema, place)
    return written


def write_rows(books: Books, entry: Entry, drawn: exp.Select, schema: exp.Select | None, place: int = 0) -> None:
    """Make the table of a release, in place of what a run that was killed may have left there.

    Each statement commits by itself, because DuckDB 2.0.0 loses an INSERT of 122,880 rows or more that follows one
    of no rows (as CREATE TABLE … AS SELECT … LIMIT 0 is) in the same transaction.
    """
    target = rows_table(books.catalog, entry, place)
    create = exp.Create(this=target, kind="TABLE", replace=True, expression=schema or drawn)
    books.cursor.execute(create.sql(dialect="duckdb"))
    if schema is not None:
        books.cursor.execute(exp.insert(drawn, target).sql(dialect="duckdb"))


def end(books: Books, entry: Entry, accounts: chain.States, report: Mapping[str, Any], rows: int | None = None) -> None:
    """Inside a transaction: mark a release as published, with digests in the ledger.

    So what is published cannot be lost or changed unnoticed.
    """
    _, digests = journal.written(books, entry.key)
    answers = journal.digest_of(digests)
    if journal.digest_of_answers(books, entry.key) != answers:
        raise BooksError(_NOT_READ_BACK.format("answers", entry.called))
    written = json.dumps(report)
    digest = releases.digest_of_published(
        json.loads(written), releases.digest_of_rows(books, replace(entry, rows=rows, report=json.loads(written)))
    )
    number = releases.event_of(books, "publish", entry, accounts, answers=answers, told=digest)
    books.run(
        "UPDATE dpsql.release SET state = 'published', rows = $rows, report = $report, told = $told WHERE key = $key",
        {"rows": rows, "report": written, "told": number, "key": entry.key},
    )


# --- rows -------------------------------------------------------------------------------------------------------------


def fingerprint(
    cursor: duckdb.DuckDBPyConnection, rows: exp.Expr, names: Sequence[str], filled: Sequence[str]
) -> tuple[Any, ...]:
    """What all rows of a table or query say together, in whatever order; reads every value.

    Args:
        cursor: a connection of its own.
        rows: the table or query.
        names: of its columns.
        filled: those that are not NULL throughout; the hash of a NULL depends on its type.

    Returns:
        The number of rows, of the values of each column that are not NULL, and the sum of the rows' hashes.
    """
    counts = [exp.Count(this=_quoted(name)) for name in names]
    hashed = exp.Anonymous(this="hash", expressions=[_quoted(name) for name in filled])
    total = exp.Sum(this=exp.cast(hashed, "HUGEINT", dialect="duckdb"))
    query = exp.select(exp.Count(this=exp.Star()), *counts, total).from_(rows)
    return tuple(cursor.execute(query.sql(dialect="duckdb")).fetchall()[0])


def _quoted(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def typed_answers(types: Mapping[str, str]) -> exp.Select:
    """The columns of the answers of a query in their types, from keys as text and whole steps of a DECIMAL as integers.

    Args:
        types: of the columns k0, … and a0, …
    """
    values = []
    for name, kind in types.items():
        scale = column_type(kind).scale if name.startswith("a") else None
        value = from_tick(exp.column(name), kind) if scale else exp.column(name)
        values.append(exp.alias_(exp.cast(value, data_type(kind)), name))
    return exp.select(*values)


def stored_as_text(cursor: duckdb.DuckDBPyConnection, table: exp.Table, names: Sequence[str]) -> Columns:
    """The stored answers of a query as text, None for NULL."""
    texts = [exp.alias_(exp.cast(exp.column(name), "VARCHAR", dialect="duckdb"), name) for name in names]
    rows = cursor.execute(exp.select(*texts).from_(table).sql(dialect="duckdb")).fetchall()
    return from_rows(rows, names)
