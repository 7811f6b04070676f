"""What a table's owner may do later, each with a reason that the ledger keeps: raise, reset or retire its account,
forgive releases that were stopped, or take back a protection that was never charged.

And what the owner of a database does when its ledger does not fit together: look at it, and accept it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.books.accounts import acceptance, changes, verification
from dpsql.books.ledger import ledger, origin
from dpsql.books.ledger.accounts import account_now, list_accounts
from dpsql.books.ledger.members import find_member
from dpsql.books.ledger.periods import opened_periods
from dpsql.books.ledger.store import Books
from dpsql.books.tables import links, protection, write_table_ids
from dpsql.books.tables.public import elsewhere
from dpsql.engines.duckdb.cursors import Cursor, EngineError
from dpsql.engines.source import Source
from dpsql.errors import BooksError, InvalidArgument
from dpsql.owner.periods import check_whole
from dpsql.owner.protect import account_of
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import check_epsilon


def raise_budget(cursor: Cursor, source: Source, epsilon: float, reason: str) -> Account:
    """Promise less: a larger ε of all releases of the table together, at the same δ; what is spent stays spent.

    Where each period has a budget, that of each is raised.

    Raises:
        InvalidArgument: ε is not above the present one, or no reason is given.
        BooksError: the ledger does not fit together, or the database is read-only.
    """
    check_epsilon(epsilon)
    books, key = _account(cursor, source, reason)
    for period in opened_periods(books, key):  # the table's own last, so that the same call goes on if it is stopped
        if account_now(books, period).epsilon < epsilon:
            changes.raise_account(books, period, epsilon, reason)
    return changes.raise_account(books, key, epsilon, reason)


def reset(cursor: Cursor, source: Source, reason: str) -> Account:
    """Begin anew, for rows that are about other people: nothing is spent, and no earlier release is reused or found
    again.

    The promise then holds for the releases before and for those after, each by themselves. To reset the account of rows
    about the same people breaks it.

    Raises:
        InvalidArgument: no reason is given, or each period of the table has a budget, so that a new one begins anew.
        BooksError: the ledger does not fit together, or the database is read-only.
    """
    books, key = _account(cursor, source, reason)
    check_whole(books, source, "reset begins one budget anew, and rows of a new period have a new one anyway")
    return changes.reset_account(books, key, reason)


def retire(cursor: Cursor, source: Source, reason: str) -> Account:
    """Let nothing more be charged; releases that were published stay.

    Raises:
        InvalidArgument: no reason is given.
        BooksError: the ledger does not fit together, or the database is read-only.
    """
    return changes.retire_account(*_account(cursor, source, reason), reason)


def forgive(cursor: Cursor, source: Source, reason: str) -> Account:
    """Let releases of a table be charged again of which too many were stopped; what those cost stays spent.

    Which releases were stopped may tell how many rows there are: the owner says that this is known, or does not matter.

    Raises:
        InvalidArgument: no reason is given.
        BooksError: the ledger does not fit together, or the database is read-only.
    """
    books, key = _account(cursor, source, reason)
    for period in opened_periods(books, key):
        changes.forgive(books, period, reason)
    return changes.forgive(books, key, reason)


def unprotect(cursor: Cursor, source: Source, reason: str) -> None:
    """Take back a protection under which nothing was ever charged; the table is public again, and its owner may protect
    it anew.

    Raises:
        InvalidArgument: something was charged, or no reason is given.
        NotProtected: the table has no account.
        BooksError: the ledger does not fit together, or the database is read-only.
    """
    books = _checked(cursor, source, reason)
    if find_member(books, source.key) is not None:
        links.remove_member(books, source.key, reason)
    else:
        protection.unprotect(books, source.key, reason)


def settle(cursor: Cursor, catalog: str, reason: str, source: Source | None = None) -> None:
    """No protected row is, or will be, in a table that is not protected, on the owner's word.

    Without a table, this is said of all of the database that no account claims, with the rows that they hold now.

    Raises:
        InvalidArgument: no reason is given, or the table is one of an account.
        BooksError: the ledger does not fit together, or the database is read-only.
    """
    _check_reason(reason)
    books = Books(cursor, catalog if source is None else source.catalog)
    verification.check(books)
    if source is not None:
        holder = write_table_ids.holder(books, source)
        if holder is not None:
            raise InvalidArgument(f"table is {source.name!r}, which is protected: {elsewhere(source, holder)}")
    write_table_ids.settle(books, reason, source)


def _checked(cursor: Cursor, source: Source, reason: str) -> Books:
    _check_reason(reason)
    books = Books(cursor, source.catalog)
    account_of(books, source)
    verification.check(books)
    return books


def _account(cursor: Cursor, source: Source, reason: str) -> tuple[Books, str]:
    """The books of a table, and the account that it is charged to: of a linked table that of the table at the top."""
    books = _checked(cursor, source, reason)
    return books, account_of(books, source).source


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise InvalidArgument("reason is empty: say why, for the ledger keeps it")


@dataclass(frozen=True)
class Finding:
    """What a look at the books of a database found.

    Attributes:
        events: how many the ledger has.
        accounts: what is spent, by table.
        flaw: what does not fit together; None if all does.
    """

    events: int
    accounts: dict[str, Account]
    flaw: str | None


def inspect(cursor: Cursor, catalog: str) -> Finding:
    """Look at the books of a database; changes nothing."""
    books = Books(cursor, catalog)
    accounts = {account.source: account for account in list_accounts(books)}
    flaw = None
    try:
        if ledger.events(books):
            verification.verify(books)
        else:
            origin.check_no_others(books)
    except BooksError as error:
        flaw = str(error)
    except EngineError as error:
        flaw = f"a table of the books is missing or was changed ({type(error).__name__})"
    return Finding(ledger.events(books), accounts, flaw)


def take_key(cursor: Cursor, catalog: str, reason: str) -> str:
    """Make the ledger of a database from now on with the key that is there; returns the fingerprint of the key.

    Raises:
        InvalidArgument: there is no key, the ledger has it already, or no reason is given.
        BooksError: there are no books, or they do not fit together.
    """
    _check_reason(reason)
    books = Books(cursor, catalog)
    if not ledger.events(books):
        raise BooksError("the database has no ledger yet: the first dp_protect makes it with the key that is there")
    return acceptance.take_key(books, reason)


def accept(cursor: Cursor, catalog: str, reason: str) -> Finding:
    """Go on with books that do not fit together, as they are, on the owner's word.

    What the head outside the database knows to be spent stays spent, where that is more. Releases that were paid for
    and not published fail: they may have been published before the damage.

    Raises:
        InvalidArgument: no reason is given, or nothing is wrong.
        BooksError: there are no books to accept, or they cannot be written.
    """
    _check_reason(reason)
    finding = inspect(cursor, catalog)
    if finding.flaw is None:
        raise InvalidArgument("the ledger fits together: there is nothing to accept")
    books = Books(cursor, catalog)
    if not ledger.events(books):
        raise BooksError(f"{finding.flaw}: there are no books left to accept; restore a copy of the database")
    acceptance.accept(books, reason, finding.flaw)
    return inspect(cursor, catalog)
