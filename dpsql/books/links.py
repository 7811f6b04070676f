"""Links: which tables belong to an account, recorded in its ledger, and the tree that they make.

    record_link(books, member)  →  event `link`  →  State.members  →  tree_of(books, any table of the tree)

A link is a fact of the ledger. It is compared with the books at every charge, as accounts are, because on it depends
whose rows a release is about. It can be taken back while nothing was charged to the account.
"""

from __future__ import annotations

import json
from dataclasses import replace

from dpsql.books import ledger
from dpsql.books.accounts import find_account
from dpsql.books.marking import mark_tables
from dpsql.books.marks import Listed, Seen, seen_by
from dpsql.books.members import Member, find_member, list_members, members_of
from dpsql.books.migration import make_tables
from dpsql.books.protection import forget
from dpsql.books.store import Books
from dpsql.core.tree import Link, Tree
from dpsql.errors import InvalidArgument, NotProtected


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
    elif find_account(books, member.source) is not None:
        raise InvalidArgument(
            f"table {member.source!r} has a budget of its own: its releases were promised to other neighbours. Link a "
            "table before it is protected; one to which nothing was charged is set free with dpsql ledger unprotect, "
            "in Python db.unprotect(table, reason)"
        )
    elif find_account(books, member.account) is None:
        raise NotProtected(
            f"table {member.account!r} is not protected: its owner says CALL dp_protect('{member.account}', epsilon := "
            "3.0, delta := 1e-9) first"
        )
    _write(books, member)
    record_event(books, member)
    return member


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
    return f"linked to {link.parent!r} (key {keys[0]}, references {keys[1]}, most {link.most}{bound})"


def remove_member(books: Books, source: str, reason: str) -> None:
    """Take a table out of an account to which nothing was ever charged.

    Raises:
        InvalidArgument: something was charged, or another table is linked to it.
        NotProtected: it is no member.
    """
    books.check_writable()
    for table in ledger.commit(books, lambda: _remove(books, source, reason)):
        (seen_by(books.cursor) or Seen()).held.pop(table.identity, None)
    mark_tables(books)


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
