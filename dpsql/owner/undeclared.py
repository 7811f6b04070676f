"""Columns without a public domain, in words: which they are, and the call that declares the first of them."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.books.ledger.store import Books
from dpsql.books.tables.links import path_of
from dpsql.core.column_types import column_type, lists_members
from dpsql.core.names import as_text
from dpsql.engines.source import Column, Source
from dpsql.engines.source_path import reached


def what_is_missing(books: Books, source: Source, missing: Sequence[Column]) -> str:
    """That columns have no domain, and the call that mends it."""
    table, name = _own_name(books, source, missing[0])
    names = ", ".join(column.name for column in missing[:5]) + (", …" if len(missing) > 5 else "")
    first, instead = missing[0], ""
    if lists_members(first.type):
        how, instead = (
            "type := true",
            ' if the members of its ENUM type are public whatever the rows are, else "values" := […]',
        )
    elif column_type(first.type).has_bins:
        how = "lower := …, upper := …, bins := …"
    else:
        how = "\"values\" := ['…', '…']" if column_type(first.type).listable else "exclude := true"
    return (
        f"no public domain is declared for {names} of {source.name!r} (or the type changed since): the owner says "
        f"CALL dp_domain({table.argument}, {as_text(name)}, {how}){instead}, or exclude := true to leave a column NULL"
    )


def _own_name(books: Books, source: Source, column: Column) -> tuple[Source, str]:
    """Which table a column that is read beside one's own is of, and what it is called there."""
    for above in path_of(books, source.key):
        for own in above.source.columns:
            if reached(above.source, own.name) == column.name:
                return above.source, own.name
    return source, column.name
