"""Links: which tables belong to an account, recorded in its ledger, and the tree that they make.

    record_link(books, member)  →  event `link`  →  State.members  →  tree_of(books, any table of the tree)

A link is a fact of the ledger. It is compared with the books at every charge, as accounts are, because on it depends
whose rows a release is about. It can be taken back while nothing was charged to the account.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dpsql.books.ledger import ledger
from dpsql.books.ledger.accounts import bound, find_account
from dpsql.books.ledger.members import Member, find_member, list_members, members_of, stated_way
from dpsql.books.ledger.migration import make_tables
from dpsql.books.ledger.periods import find_periods
from dpsql.books.ledger.store import Books
from dpsql.books.ledger.table_ids import Listed
from dpsql.books.tables import facts
from dpsql.books.tables.protection import forget, free
from dpsql.books.tables.write_table_ids import holder, mark_tables
from dpsql.core.column_types import public_type
from dpsql.core.domain import Attribute
from dpsql.core.names import as_text, fold
from dpsql.core.of_unit import OfUnit
from dpsql.core.tree import Link, Tree
from dpsql.engines.duckdb.declare import automatic
from dpsql.engines.duckdb.names import split_name
from dpsql.engines.protocol import UnitBound
from dpsql.engines.registry import find_parts
from dpsql.engines.source import Above, PerUnit, Source, written_alike
from dpsql.engines.source_path import reached, with_per_unit, with_reached
from dpsql.errors import InvalidArgument, NotProtected, UnknownName

_MOST_NUMBER: Final = 1000
_INTEGERS: Final = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}


def tree_of(books: Books, source: str) -> Tree | None:
    """The tree that a table is in, as its root or below; None where no link leads to it or from it.

    Args:
        books: of the database.
        source: the key of any table of the tree.
    """
    member = find_member(books, source)
    root = source if member is None else member.account
    if member is not None and member.link is None:
        return None
    links = tuple(other.link for other in members_of(books, root) if other.link is not None)
    return Tree(root, links) if links else None


def rows_bound(books: Books, source: str) -> int | None:
    """How many rows of one unit count of a member where rows are counted; None where its owner did not say."""
    member = find_member(books, source)
    return None if member is None else member.unit_rows


def link_of(books: Books, source: str) -> Link | None:
    """How the rows of a table lead to another one."""
    member = find_member(books, source)
    return None if member is None else member.link


def path_of(books: Books, source: str) -> tuple[Above, ...]:
    """The tables above one whose rows its rows lead to, the next one first, as they are now.

    Raises:
        DpsqlError: one is not there, or not what it was when it was linked.
    """
    member = find_member(books, source)
    if member is None or member.link is None:
        return ()
    link, below = member.link, table_of(books, source)
    above = table_of(books, link.parent)
    check_keys(below, link.key, above, link.references)
    return (Above(above, link.key, link.references), *path_of(books, link.parent))


def table_of(books: Books, key: str) -> Source:
    """The table that the books call by a key.

    Raises:
        UnknownName: it is not there.
        InvalidArgument: it is another one, or its rows are elsewhere.
    """
    parts = split_name(key) or ()
    names = (books.catalog, *(("main",) if len(parts) == 1 else ()), *parts)
    try:
        source = find_parts(books.cursor, names, (books.catalog, "main"))
    except UnknownName:
        raise UnknownName(f"table {key!r} {_gone(books, key)}") from None
    check_place(source)
    if holder(books, source) != key:
        raise InvalidArgument(f"table {key!r} is another one than the one that was linked: rename it back")
    return source


def _gone(books: Books, key: str) -> str:
    """That a table of a tree is not there, and what mends it, in words that follow its name."""
    member = find_member(books, key)
    whose = "whose rows are units" if member is None else described(member)
    return (
        f"({whose}) is not there. What needs it goes on once it is: rename it back, ALTER TABLE … RENAME TO {key}, or "
        f"make it anew with its columns, CREATE TABLE {key} (…). Where nothing was charged to the account, "
        f"db.unprotect({key!r}, reason) then takes it out"
    )


def check_place(source: Source) -> None:
    """Refuse to link rows that are not in DuckDB, or that DuckDB cannot tell apart.

    Raises:
        InvalidArgument: they are elsewhere, or a column hides their numbers.
    """
    if any(fold(column.name) == "rowid" for column in source.columns):
        raise InvalidArgument(
            f"table {source.name!r} has a column 'rowid', which hides how DuckDB tells rows apart: ALTER TABLE "
            f"{source.identifier} RENAME rowid TO …"
        )
    if source.place is not None:
        raise InvalidArgument(
            f"the rows of {source.name!r} are in engine {source.place.engine!r}, and tables are linked where "
            "their rows are in DuckDB: copy the tables into one DuckDB database"
        )


def check_keys(below: Source, key: Sequence[str], above: Source, references: Sequence[str]) -> None:
    """Refuse keys that cannot be compared by what tells their values apart.

    Raises:
        InvalidArgument: a column is generated, has a collation, or the types differ.
        UnknownName: no such column.
    """
    for name, other in zip(key, references, strict=True):
        columns = below.column(name), above.column(other)
        for source, column in zip((below, above), columns, strict=True):
            if column.generated:
                raise InvalidArgument(f"key: {column.name!r} of {source.name!r} is generated: name a stored column")
            if column.collated:
                raise InvalidArgument(
                    f"key: {column.name!r} of {source.name!r} has a collation, but keys are compared by their bytes: "
                    f"write each in one way first, as in {written_alike(source, column.name)}"
                )
        types = {public_type(column.type) for column in columns}
        if len(types) > 1 and not types <= _INTEGERS:
            raise InvalidArgument(
                f"key: {name!r} of {below.name!r} is of type {columns[0].type}, and {other!r} of {above.name!r} of "
                f"type {columns[1].type}: ALTER one of them to the type of the other"
            )


def beside(books: Books, source: Source) -> Source:
    """A table with the columns of the rows that its rows lead to."""
    return with_reached(source, path_of(books, source.key))


def per_unit(books: Books, source: Source, questions: Sequence[OfUnit]) -> Source:
    """The units of a linked table, with what their rows of it are asked for."""
    path, member = path_of(books, source.key), find_member(books, source.key)
    assert member is not None
    assert member.link is not None
    names = {reached(above.source, column.name) for above in path for column in above.source.columns}
    plain = replace(source, columns=tuple(column for column in source.columns if column.name not in names))
    most, way = min(member.link.most_rows, _MOST_NUMBER), stated_way(books, member)
    return with_per_unit(
        path[-1].source,
        [PerUnit(plain, path, min(most, question.most or most), question, way) for question in questions],
    )


def per_unit_now(books: Books, question: PerUnit) -> PerUnit:
    """The same question, of the tables and links as they are now."""
    return per_unit(books, table_of(books, question.table.key), [question.question]).per_unit[0]


def declared_beside(books: Books, source: Source) -> dict[str, Attribute]:
    """The recorded domains of a table's columns, and of those that its rows lead to."""
    domains = facts.declared_beside(books, source.key, path_of(books, source.key))
    for derived in source.per_unit:
        if derived.question.value:
            if (attribute := _attribute_of_value(books, derived)) is not None:
                domains[derived.name] = attribute
        else:
            domains[derived.name] = Attribute(
                derived.name, "BIGINT", "values", tuple(map(str, range(derived.most + 1)))
            )
    return domains


def _attribute_of_value(books: Books, question: PerUnit) -> Attribute | None:
    """The domain of a value of a unit's rows, which is NULL where it has none; None where its column has none."""
    column = question.question.value
    attribute = facts.declared_beside(books, question.table.key, question.path).get(column)
    attribute = attribute or automatic(with_reached(question.table, question.path).column(column))
    return None if attribute is None else replace(attribute, name=question.name, nullable=True)


def unit_columns(books: Books, source: Source) -> frozenset[str]:
    """The columns, of a table and of those above it, of which each value stands for one unit of a linked table."""
    path = path_of(books, source.key)
    if not path or len(path[-1].references) > 1:
        return frozenset()
    (reference,) = path[-1].references
    return frozenset(name for name, column in columns_of_unit(path).items() if column == reference)


def columns_of_unit(path: Sequence[Above]) -> dict[str, str]:
    """The columns beside those of a linked table that have the values of a column of its unit, and which."""
    if not path:
        return {}
    top, below = path[-1], path[-2].source if len(path) > 1 else None
    names = {reached(top.source, column.name): column.name for column in top.source.columns}
    keys = top.key if below is None else [reached(below, name) for name in top.key]
    return names | dict(zip(keys, top.references, strict=True))


def bound_of(books: Books, source: str) -> UnitBound | None:
    """Which rows of a table count; None if all do."""
    member = find_member(books, source)
    if member is None or member.link is None:
        return bound(books, source)
    assert member.unit_rows is not None  # else nothing is charged, see `dpsql.owner.protect.chargeable`
    return UnitBound("", "", member.unit_rows, books.catalog, member.account, path_of(books, source))


def record_member(books: Books, member: Member) -> Member:
    """Let a table belong to an account; the same again is harmless, and `unit_rows` can be said later.

    Args:
        books: of the database.
        member: the table, its account and its link or unit, which the caller has checked against the catalogue.

    Raises:
        InvalidArgument: it has an account, or is a member otherwise.
        NotProtected: there is no such account.
        BooksError: read-only database, or its ledger does not fit together.
    """
    books.check_writable()
    recorded = ledger.commit(books, lambda: _record(books, member))
    mark_tables(books)
    return recorded


def _record(books: Books, member: Member) -> Member:
    """Inside a transaction: see `record_member`."""
    make_tables(books)
    ledger.look(books)
    before = find_member(books, member.source)
    if before is not None:
        if member.unit_rows is None:
            member = replace(member, unit_rows=before.unit_rows)
        if member == before:
            return before
        if before.unit_rows is not None or replace(before, unit_rows=member.unit_rows) != member:
            raise InvalidArgument(f"{before.source!r} is {described(before)} already, and that is said once")
    else:
        check_free(books, member.source)
    if find_account(books, member.account) is None:
        raise NotProtected(
            f"table {member.account!r} is not protected: its owner says CALL dp_protect({as_text(member.account)}, "
            "epsilon := 3.0, delta := 1e-9) first"
        )
    if find_periods(books, member.account) is not None:
        raise InvalidArgument(f"each period of {member.account!r} has a budget, so no other table has a part in one")
    _write(books, member)
    record_event(books, member)
    return member


def check_free(books: Books, source: str) -> None:
    """Refuse a table that has an account, to belong to another one.

    Raises:
        InvalidArgument: it has.
    """
    if find_account(books, source) is not None:
        raise InvalidArgument(
            f"table {source!r} has a budget of its own: its releases were promised to other neighbours. Link a table "
            "before it is protected; one to which nothing was charged is set free with dpsql ledger unprotect, in "
            "Python db.unprotect(table, reason)"
        )


def _write(books: Books, member: Member) -> None:
    row = {"source": member.source, "stated": json.dumps(member.stated)}
    books.run(
        "INSERT INTO dpsql.member SELECT $source, coalesce(max(number), 0) + 1, $stated FROM dpsql.member "
        "ON CONFLICT (source) DO UPDATE SET stated = excluded.stated",
        row,
    )


def record_event(books: Books, member: Member) -> None:
    """Inside a transaction: let the ledger say that a table is a member."""
    ledger.event(books, "link", table=member.source, member=member.stated)


def described(member: Member) -> str:
    """What a member is, in words that follow `is`."""
    bound = "" if member.unit_rows is None else f", max_rows {member.unit_rows}"
    if member.link is None:
        return f"a table of the account of {member.account!r} (privacy_unit {member.unit_column!r}{bound})"
    link = member.link
    keys = ", ".join(link.key), ", ".join(link.references)
    roles = "".join(f", {role}" for role in link.roles)
    order = f", ordered_by {link.ordered_by}" if link.ordered_by else ""
    return f"linked to {link.parent!r} (key {keys[0]}, references {keys[1]}, most {link.most}{order}{roles}{bound})"


def remove_member(books: Books, source: str, reason: str) -> None:
    """Take a table out of an account to which nothing was ever charged.

    Raises:
        InvalidArgument: something was charged, or another table is linked to it.
        NotProtected: it is no member.
    """
    free(books, lambda: _remove(books, source, reason))


def _remove(books: Books, source: str, reason: str) -> list[Listed]:
    """Inside a transaction: see `remove_member`; returns the tables that are free now."""
    state = ledger.look(books).state
    member = find_member(books, source)
    if member is None:
        raise NotProtected(f"table {source!r} belongs to no account: there is nothing to take back")
    if member.account in state.charged:
        raise InvalidArgument(
            f"releases of {member.account!r} were charged, or its account was accepted, so {source!r} stays a table of "
            "its account"
        )
    below = [other.source for other in list_members(books) if other.link is not None and other.link.parent == source]
    if below:
        raise InvalidArgument(f"{', '.join(below)} is linked to {source!r}: take that link back first")
    held = forget(books, source, "member")
    ledger.event(books, "unlink", table=source, reason=reason)
    return held


def restate(books: Books) -> None:
    """Inside a transaction, after the chain began anew: record members as they are."""
    for member in list_members(books):
        record_event(books, member)
