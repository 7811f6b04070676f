"""How a table comes under protection, and how that is taken back while nothing was charged."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from dpsql.books.ledger import heads, ledger, origin
from dpsql.books.ledger.accounts import account_key, find_account, floor_units, list_accounts
from dpsql.books.ledger.members import find_member, members_of
from dpsql.books.ledger.migration import make_tables
from dpsql.books.ledger.periods import find_periods
from dpsql.books.ledger.store import Books
from dpsql.books.ledger.table_ids import Listed, Seen, remove_marks, seen_by
from dpsql.books.tables import sources
from dpsql.books.tables.facts import record_domain
from dpsql.books.tables.write_table_ids import list_all, mark_tables, standing
from dpsql.core.digits import up
from dpsql.core.domain import Attribute
from dpsql.core.neighbours import Neighbours
from dpsql.core.period import Periods, split_key, table_of
from dpsql.errors import BooksError, InvalidArgument, NotProtected
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget, account_budget


def open_account(
    books: Books,
    source: str,
    budget: Budget,
    neighbours: Neighbours,
    unit: Attribute | None = None,
    periods: Periods | None = None,
) -> Account:
    """Create the books if need be, and the account if there is none.

    Args:
        books: of the source's database.
        source: its key.
        budget: of all releases together.
        neighbours: of the promise.
        unit: the privacy unit's column, excluded; it stays so until its domain is declared.
        periods: of which each has a budget of its own; None where the table has one.

    Raises:
        BooksError: the table has another budget, other neighbours or other periods already.
    """
    books.check_writable()
    origin.check_place(books)
    with heads.lock:  # two first accounts at once would each take the head of the other for one of books that are lost
        opened, is_first = ledger.commit(books, lambda: _open(books, source, budget, neighbours, unit, periods))
    if is_first:
        origin.remember_home(books)
    mark_tables(books)
    stated = (opened.epsilon, opened.delta, opened.neighbours, opened.unit_column)
    before = find_periods(books, source)
    if stated != (budget.epsilon, budget.delta, neighbours, None if unit is None else unit.name) or before != periods:
        shown = f", privacy_unit {opened.unit_column!r}, max_rows {opened.neighbours.unit_rows}"
        of_periods = "" if before is None else f", period {before.every!r}, by {before.column!r}"
        raise BooksError(
            f"{source} is protected already, with epsilon {up(opened.epsilon)}, delta {up(opened.delta)}, "
            f"neighbours {opened.neighbours}{shown if opened.unit_column else ''}{of_periods}: a budget is set once"
        )
    return opened


def _open(
    books: Books,
    source: str,
    budget: Budget,
    neighbours: Neighbours,
    unit: Attribute | None,
    periods: Periods | None,
) -> tuple[Account, bool]:
    """Inside a transaction: the account, and whether it is the first one, with which the books were opened."""
    make_tables(books)
    if find_member(books, source) is not None:
        raise InvalidArgument(
            f"table {source!r} belongs to the account of {account_key(books, source)!r}, so it has no budget of its own"
        )
    account = find_account(books, source)
    if account is not None:
        return account, False
    since = ledger.look(books).link.number + 1
    is_first = since == 1
    identity = origin.new_identity(books) if is_first else None
    is_only = not list_accounts(books)
    _insert(books, source, budget, neighbours, unit, since)
    if is_only:
        list_all(books)
    if unit is not None:
        record_domain(books, source, unit)
    hmac = books.fingerprint if is_first else None
    budgeted: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": "0", "gdp": "0"}
    ledger.event(books, "protect", source, **budgeted, books=identity, hmac=hmac)
    if periods is not None:
        row = {"source": source, "stated": json.dumps(periods.stated)}
        books.run("INSERT INTO dpsql.period VALUES ($source, $stated)", row)
        record_periods(books, source, periods)
    sources.record_pin(books, source)
    opened = find_account(books, source)
    assert opened is not None
    return opened, is_first


def record_periods(books: Books, source: str, periods: Periods) -> None:
    """Inside a transaction: let the ledger say that each period of a table has an account of its own."""
    ledger.event(books, "period", table=source, period=periods.stated)


def open_period(books: Books, account: Account) -> None:
    """Inside a transaction, right before its first charge: the account of a period, which promises what its table does.

    Args:
        books: of the table.
        account: see `find_account`; nothing is done for one that is there, or that is of a whole table.
    """
    if split_key(account.source)[1] is None or account.source in {opened.source for opened in list_accounts(books)}:
        return
    budget = account_budget(account.epsilon, account.delta)
    _insert(books, account.source, budget, account.neighbours, None, account.since)
    budgeted: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": "0", "gdp": "0"}
    ledger.event(books, "protect", account.source, **budgeted)


def _insert(
    books: Books, source: str, budget: Budget, neighbours: Neighbours, unit: Attribute | None, since: int
) -> None:
    """Inside a transaction: the row of a new account."""
    books.run(
        "INSERT INTO dpsql.account VALUES ($source, $epsilon, $delta, $neighbours, $unit_column, $unit_type, "
        "$unit_rows, $unit_secret, 0, 0, $rho, 0, $gdp, 0, $currency, 0, 0, $since, false)",
        {
            "source": source,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "neighbours": str(neighbours),
            "unit_column": None if unit is None else unit.name,
            "unit_type": None if unit is None else unit.type,
            "unit_rows": neighbours.unit_rows,
            "unit_secret": secrets.token_hex(32),
            "rho": floor_units(budget.rho),
            "gdp": floor_units(budget.gdp),
            "currency": "pure" if budget.pure else None,
            "since": since,
        },
    )


def unprotect(books: Books, source: str, reason: str) -> None:
    """Take back the protection of a table to which nothing was ever charged: its account, domains and constraints.

    Raises:
        InvalidArgument: something was charged.
        NotProtected: it has no account.
    """
    free(books, lambda: _unprotect(books, source, reason))


def free(books: Books, take_back: Callable[[], list[Listed]]) -> None:
    """Let go of the tables that a transaction takes out of an account.

    Args:
        books: of the tables.
        take_back: inside a transaction; returns the tables that are free then.
    """
    books.check_writable()
    for table in ledger.commit(books, take_back):
        (seen_by(books.cursor) or Seen()).held.pop(table.identity, None)
    mark_tables(books)


def _unprotect(books: Books, source: str, reason: str) -> list[Listed]:
    """Inside a transaction: see `unprotect`; returns the tables that are free now."""
    state = ledger.look(books).state
    if source not in state.accounts:
        raise NotProtected(f"table {source!r} is not protected: there is nothing to take back")
    if source in {table_of(charged) for charged in state.charged}:
        raise InvalidArgument(
            f"releases of {source!r} were charged, or its account was accepted, so its protection stays: let "
            "nothing more be charged with dpsql ledger retire, or db.retire(table, reason)"
        )
    members = ", ".join(member.source for member in members_of(books, source))
    if members:
        raise InvalidArgument(f"{members} belongs to the account of {source!r}: take that back first")
    held = forget(books, source, "account")
    ledger.event(books, "unprotect", source, reason=reason)
    return held


def forget(books: Books, source: str, listed: str) -> list[Listed]:
    """Inside a transaction: take a table off a list of the books, with its marks, domains and constraints."""
    held = [table for table, owner in standing(books).held.items() if owner == source]
    for mine in held:
        if mine.tokens:
            remove_marks(books.cursor, mine)
    books.run("DELETE FROM dpsql.known_table WHERE name = $name AND token IS NOT NULL", {"name": source})
    also = [table for table in ("looked_fact", "period") if books.has(table)]
    for table in (listed, "domain", "constraint", *also):
        books.run(f"DELETE FROM dpsql.{table} WHERE source = $source", {"source": source})  # noqa: S608
    return held
