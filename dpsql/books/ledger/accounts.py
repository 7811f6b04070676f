"""The accounts of a database, as rows of `dpsql.account` and as the ledger states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import duckdb

from dpsql.books.ledger.members import find_member, stated_way, unit_name
from dpsql.books.ledger.periods import find_periods
from dpsql.books.ledger.store import Books
from dpsql.core.neighbours import Neighbours
from dpsql.core.period import split_key
from dpsql.engines.protocol import UnitBound
from dpsql.errors import BooksError, NotProtected
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import RHO_UNIT

COLUMNS: Final = (
    *(
        "source",
        "epsilon",
        "delta",
        "neighbours",
        "unit_column",
        "unit_type",
        "unit_rows",
        "delta_reserved",
        "delta_spent",
    ),
    *("rho_budget", "rho_spent", "gdp_budget", "gdp_spent", "currency", "pure_spent", "releases", "since", "retired"),
)
"""The columns of an account, without the secret."""
STATED: Final = f"{', '.join(COLUMNS)}, sha256(unit_secret)"
"""What the ledger and its head tell of an account: of the secret a digest."""
_IN_UNITS: Final = ("rho_budget", "rho_spent", "gdp_budget", "gdp_spent", "pure_spent")


def find_account(books: Books, source: str) -> Account | None:
    """The account that the releases of a table are charged to, with the table's own bound; None if it has none.

    Of a member, `Account.source` is that of another table: see `dpsql.books.ledger.members`. The account of a period
    that nothing was charged to yet is as that of its table.
    """
    accounts = {account.source: account for account in list_accounts(books)}
    table, label = split_key(source)
    if label is not None:
        return _of_period(books, source, accounts, table, label)
    if source in accounts or not accounts:
        return accounts.get(source)
    member = find_member(books, source)
    if member is None:
        return None
    unit = {"unit_column": unit_name(books, member), "unit_type": member.unit_type}
    relation = Neighbours("add_remove", member.unit_rows)
    return replace(accounts[member.account], neighbours=relation, way=stated_way(books, member), **unit)  # type: ignore[arg-type]


def _of_period(books: Books, source: str, accounts: Mapping[str, Account], table: str, label: str) -> Account | None:
    """The account of a period, open or not; of a table that is retired its periods are, too."""
    periods, whole = find_periods(books, table), accounts.get(table)
    if periods is None or whole is None:
        return accounts.get(source)
    periods.period(label)
    own = accounts.get(source) or replace(whole, source=source)
    return replace(own, retired=own.retired or whole.retired)


def account_key(books: Books, source: str) -> str:
    """What the ledger calls the account that the releases of a table are charged to."""
    member = find_member(books, source)
    return source if member is None else member.account


def list_accounts(books: Books) -> list[Account]:
    """All accounts."""
    try:
        rows = books.run(f"SELECT {', '.join(COLUMNS)} FROM dpsql.account")  # noqa: S608
    except duckdb.CatalogException:  # no books yet; to ask the catalogue first would take longer than the rest
        return []
    except duckdb.BinderException:
        raise BooksError(
            f"the books of database {books.catalog!r} were written by another version of dpsql: open it with that one"
        ) from None
    return sorted(map(account_of_row, rows), key=lambda account: account.source)


def account_now(books: Books, source: str) -> Account:
    """The account of a source that had one.

    Raises:
        NotProtected: its owner took it back meanwhile.
    """
    account = find_account(books, source)
    if account is None:
        raise NotProtected(f"the protection of {source!r} was taken back: its owner says dp_protect again")
    return account


def bound(books: Books, source: str) -> UnitBound | None:
    """Which rows of a source count; None if all do."""
    account = account_now(books, source)
    if account.unit_column is None:
        return None
    assert account.unit_type is not None
    assert account.neighbours.unit_rows is not None
    return UnitBound(
        account.unit_column, account.unit_type, account.neighbours.unit_rows, books.catalog, account.source
    )


def account_of_row(row: Sequence[Any]) -> Account:
    """The account that a row of `COLUMNS` is."""
    fields = dict(zip(COLUMNS, row, strict=True))
    neighbours = Neighbours(fields.pop("neighbours"), fields.pop("unit_rows"))
    for name in _IN_UNITS:
        fields[name] = None if fields[name] is None else fields[name] * RHO_UNIT
    return Account(neighbours=neighbours, **fields)


def floor_units(rho: Fraction) -> int:
    """Whole units of ρ, in which the books count, rounded down."""
    return int(rho / RHO_UNIT)


def states(books: Books) -> dict[str, dict[str, Any]]:
    """Every account as its row says, for the ledger and its head."""
    return states_of_rows(books.run(f"SELECT {STATED} FROM dpsql.account"))  # noqa: S608


def states_of_rows(rows: Sequence[Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Accounts, by their source, from rows of `STATED`: numbers as text, exact."""
    names = (*COLUMNS, "unit_choice")
    states = [dict(zip(names, (None if v is None else str(v) for v in row), strict=True)) for row in rows]
    return {str(state["source"]): state for state in states}
