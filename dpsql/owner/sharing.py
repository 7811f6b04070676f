"""Tables of the same persons that no keys link: one account, so that what is promised to a person is one number.

    a person's loss  ≤  Σ over all releases of all tables of the account  ≤  (ε, δ)

Each release is about one table, and adding or removing a person changes that table by the rows of their unit there. So
each costs what it costs by itself, and the sum is of the account. That the units of both tables are the same persons is
the owner's word. Where they are not, the promise holds for the units of each table all the same.
"""

from __future__ import annotations

from dataclasses import fields

from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.members import Member, find_member
from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts, links
from dpsql.books.tables.public import check_unclaimed
from dpsql.core.column_types import public_type
from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.registry import check_unit
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.owner.periods import check_whole
from dpsql.owner.protect import Protected, account_of, unit_column_of


def share(cursor: Cursor, source: Source, other: Source, privacy_unit: str | None, max_rows: int | None) -> Protected:
    """Let a table share the account of another one, whose units are the same persons.

    Args:
        cursor: a connection of its own.
        source: the table, which has no budget of its own.
        other: a table of the account.
        privacy_unit: the column of the table that tells whose row it is.
        max_rows: how many rows of one unit count.

    Raises:
        InvalidArgument: says what is not so.
        NotProtected: the other table has no account.
        BooksError: read-only database, or its ledger does not fit together.
    """
    if source.catalog != other.catalog:
        raise InvalidArgument(
            f"account is {other.name!r} of database {other.catalog!r}, and {source.name!r} is in {source.catalog!r}: "
            "tables of one budget are in one database; copy one of them there"
        )
    books = Books(cursor, source.catalog)
    account = account_of(books, other).source
    whole = find_account(books, account)
    if whole is not None and whole.neighbours.total_is_public:
        raise InvalidArgument(
            f"account is {account!r}, which is protected with neighbours 'replace_one', where the number of units is "
            "public; of a table that shares it, it is not: protect it with neighbours := 'add_remove'"
        )
    check_whole(books, other, "tables that share an account share one budget")
    if source.key == account:
        raise InvalidArgument(f"account is {account!r}, the table itself: leave account out")
    if privacy_unit is None:
        raise InvalidArgument(
            f"account is {account!r}: say privacy_unit and max_rows, which column of {source.name!r} tells whose row "
            "it is, and how many rows of one person count"
        )
    unit = unit_column_of(source, privacy_unit, max_rows)
    assert unit is not None
    check_unit(cursor, source, unit.name)
    if find_member(books, source.key) is None:
        links.check_free(books, source.key)
        check_unclaimed(cursor, source)
    member = Member(source.key, account, None, unit.name, public_type(unit.type), max_rows)
    links.record_member(books, member)
    if unit.name not in facts.declared(books, source.key):
        facts.declare(books, source.key, Attribute(unit.name, public_type(unit.type), "excluded"))
    shared = find_account(books, source.key)
    assert shared is not None
    details = {field.name: getattr(shared, field.name) for field in fields(shared)}
    return Protected(**details, note=f"shares the budget of {account!r}")
