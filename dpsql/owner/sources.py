"""`dp_source`: a table whose rows stay where they are, in files or in another engine, as an owner registers it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.store import Books
from dpsql.books.tables import sources
from dpsql.books.tables.sources import Registration
from dpsql.core.names import shorten
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.names import current_schema, split_name
from dpsql.engines.external import ExternalEngine
from dpsql.engines.registry import external, find_source
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument, UnknownName

USUAL: Final = "parquet"
_SAMPLED: Final = frozenset({"sample", "rows"})
_WORD: Final = "other_rows"
_MOST: Final = 2**53
"""Rows, of which a DOUBLE counts every one."""


@dataclass(frozen=True)
class RegisteredSource:
    """What `dp_source` made.

    Attributes:
        source: what the books call the table.
        engine: which one has its rows.
        pin: which snapshot of them counts, in words.
        files: how many it has; None of an engine without files.
        columns: the names of the table's columns.
        share: of the rows that are in the sample; 1 without one.
    """

    source: str
    engine: str
    pin: str
    files: int | None
    columns: tuple[str, ...]
    share: float = 1.0


def register(cursor: Cursor, name: str, engine: str | None, search_path: str = "", **given: Any) -> RegisteredSource:
    """Register rows that stay where they are under a name; or, of one that is registered, pin the rows of now.

    The rows are not read, but for a sample. Nothing is released, so nothing is charged.

    Args:
        cursor: a connection of its own.
        name: of the table, which becomes an empty stub.
        engine: a key of `registry.EXTERNAL`; None for what it is, or `parquet`.
        search_path: where the name is looked up.
        given: the arguments of `dp_source`; None for those that were left out.

    Raises:
        InvalidArgument: an argument is missing, wrong, or of another engine; or there is a table with rows.
        DpsqlError: the relation is not there, or does not answer.
        BooksError: the database is read-only, or the ledger does not fit together.
    """
    options = {argument: value for argument, value in given.items() if value is not None}
    before = _stub(cursor, name, search_path)
    place = None if before is None else before.place
    if engine is None:
        engine = USUAL if place is None else place.engine
    with closing(external(cursor, engine)) as opened:
        _check_taken(opened, engine, options)
        if place is not None and place.engine == engine:
            drawn = place.drawn if _may_sample(cursor, before) else {}
            options = _merged(place.relation, options, drawn, place.identity)
        elif not options:
            raise InvalidArgument(f"dp_source needs to know where the rows are: {_usage(engine, opened)}")
        share, word = _share(options), _word(options)
        origin = opened.register({argument: value for argument, value in options.items() if argument not in _SAMPLED})
        parts = _parts(cursor, name, search_path) if before is None else before.parts
        registration = Registration(parts, before, engine, origin, share, word)
        by = origin.identity[0] if origin.identity else None

        def draw(source: Source, target: str, secret: str) -> None:
            assert share is not None
            opened.draw(source, target, share, secret, by)

        sources.register(Books(cursor, parts[0]), registration, draw)
    names = tuple(column.name for column in origin.columns)
    files = len(origin.files) or None
    return RegisteredSource(registration.key, engine, origin.public, files, names, 1.0 if share is None else share)


def _stub(cursor: Cursor, name: str, search_path: str) -> Source | None:
    """The stub of that name; None if there is none.

    Raises:
        InvalidArgument: there is a table with rows of its own, or a view.
    """
    try:
        source = find_source(cursor, name, search_path)
    except UnknownName:
        return None
    if source.place is None:
        raise InvalidArgument(
            f"there is a table {name!r} already, whose rows are in this database: give the source another name"
        )
    return source


def _parts(cursor: Cursor, name: str, search_path: str) -> tuple[str, str, str]:
    """Database, schema and name of a new stub."""
    parts = split_name(name) or ()
    home = current_schema(cursor, search_path)
    if not parts or "dpsql" in parts[:-1]:
        raise InvalidArgument(f"the name of the source is {shorten(name)!r}: give it as in CREATE TABLE")
    if len(parts) == 2:
        catalogs = cursor.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
        return (parts[0], "main", parts[1]) if (parts[0],) in catalogs else (home[0], *parts)
    return (*home, parts[0]) if len(parts) == 1 else (parts[0], parts[1], parts[2])


def _check_taken(engine: ExternalEngine, name: str, options: Mapping[str, Any]) -> None:
    """Refuse arguments that an engine does not understand."""
    for argument, value in options.items():
        if argument not in engine.takes | {_WORD}:
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            raise InvalidArgument(
                f"{argument} is {shorten(shown)!r}, but engine {name!r} does not know it: leave it out, or say "
                f"engine := '…'; it knows {', '.join(sorted(engine.takes))}"
            )


def _may_sample(cursor: Cursor, source: Source | None) -> bool:
    """Whether a sample goes on when the pin moves: not of a table whose number of rows is public."""
    account = None if source is None else find_account(Books(cursor, source.catalog), source.key)
    return account is None or not account.neighbours.total_is_public


def _usage(name: str, engine: ExternalEngine) -> str:
    """What says where the rows of an engine are; of several arguments some only go with others."""
    arguments = [f"{argument} := …" for argument in sorted(engine.takes - _SAMPLED - {"identity"})]
    return f"say {arguments[0]}" if len(arguments) == 1 else f"engine {name!r} takes {', '.join(arguments)}"


def _merged(
    stored: Mapping[str, Any], options: Mapping[str, Any], drawn: Mapping[str, Any], identity: tuple[str, ...]
) -> dict[str, Any]:
    """What was said before, under what is said now; a snapshot that was named is not named again by itself."""
    base = {argument: value for argument, value in stored.items() if argument != "snapshot"}
    if options.keys() & stored.keys() - {_WORD}:  # of another relation the owner's word is another one
        base.pop(_WORD, None)
    if drawn and not options.keys() & _SAMPLED:
        base["share"] = drawn["share"]
    if identity:
        base["identity"] = list(identity)
    return {**base, **options}


def _word(options: dict[str, Any]) -> str | None:
    """Why no row is one of another source's, as the owner says; None without a word. Takes it out of what was said."""
    word: str | None = options.pop(_WORD, None)
    if word is not None and not word.strip():
        raise InvalidArgument(f"{_WORD} is empty: say why no row of these is a row of another source, for the ledger")
    return word


def _share(options: dict[str, Any]) -> float | None:
    """Which share of the rows the sample is; None without one. Takes it out of what was said.

    Raises:
        InvalidArgument: sample and rows do not go together, or are no numbers of rows.
    """
    share: float | None = options.pop("share", None)
    sample, rows = options.get("sample"), options.get("rows")
    if sample is None and rows is None:
        return share
    if sample is None or rows is None:
        raise InvalidArgument(
            f"sample is {sample} and rows is {rows}: give both. rows is about how many there are, a public number that "
            "you state: it is not counted, because a share of the exact number would tell how many rows there are"
        )
    for argument, value in (("sample", sample), ("rows", rows)):
        if not 1 <= value <= _MOST:
            raise InvalidArgument(f"{argument} is {value}: give 1 to 2^53")
    if sample >= rows:
        raise InvalidArgument(f"sample is {sample} of about {rows} rows, which is all: leave sample and rows out")
    return float(sample) / float(rows)
