"""What an owner changes of an account later: raise, reset or retire it, or forgive releases that were stopped."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from dpsql.books.ledger import ledger
from dpsql.books.ledger.accounts import account_now, floor_units
from dpsql.books.ledger.chain import Point
from dpsql.books.ledger.members import members_of
from dpsql.books.ledger.store import Books
from dpsql.core.digits import up
from dpsql.errors import InvalidArgument
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import account_budget

Change = Callable[[Account, Point], tuple[str, Mapping[str, Any]]]
"""What is set, as SQL, and its parameters; from the account as it is, at the newest point of the ledger."""


def raise_account(books: Books, source: str, epsilon: float, reason: str) -> Account:
    """Promise a larger ε at the same δ."""

    def raised(account: Account, _: Point) -> tuple[str, Mapping[str, Any]]:
        if epsilon <= account.epsilon:
            raise InvalidArgument(f"epsilon is {epsilon:g}, but {source!r} promises {up(account.epsilon)}: give more")
        budget = account_budget(epsilon, account.delta_of_sums)
        row = {"epsilon": epsilon, "rho": floor_units(budget.rho), "gdp": floor_units(budget.gdp)}
        return "epsilon = $epsilon, rho_budget = $rho, gdp_budget = $gdp", row

    return _change(books, source, "raise", reason, raised, epsilon=float(epsilon))


def reset_account(books: Books, source: str, reason: str) -> Account:
    """Nothing is spent any more; earlier releases belong to what was before, those that are not published fail."""

    def anew(account: Account, newest: Point) -> tuple[str, Mapping[str, Any]]:
        failed = json.dumps({"failed": "the account was reset"})
        ended = "UPDATE dpsql.release SET state = 'failed', report = $report"
        tables = [source, *(member.source for member in members_of(books, source))]
        sql = f"{ended} WHERE list_contains($tables::VARCHAR[], source) AND state = 'reserved'"
        books.run(sql, {"report": failed, "tables": tables})
        budget = account_budget(account.epsilon, account.delta)
        changed = (
            "rho_spent = 0, gdp_spent = 0, pure_spent = 0, delta_reserved = 0, delta_spent = 0, rho_budget = $rho, "
            "gdp_budget = $gdp, currency = CASE WHEN delta = 0 THEN 'pure' END, releases = 0, "
            "unit_secret = $secret, since = $since"
        )
        exact = {"rho": floor_units(budget.rho), "gdp": floor_units(budget.gdp)}
        return changed, {**exact, "secret": secrets.token_hex(32), "since": newest.link.number + 1}

    return _change(books, source, "reset", reason, anew)


def retire_account(books: Books, source: str, reason: str) -> Account:
    """Nothing more is charged."""
    return _change(books, source, "retire", reason, lambda *_: ("retired = true", {}))


def _change(books: Books, source: str, kind: str, reason: str, how: Change, **content: Any) -> Account:
    """Change an account, and record it with the reason."""

    def work() -> Account:
        newest = ledger.look(books)
        changed, row = how(account_now(books, source), newest)
        books.run(f"UPDATE dpsql.account SET {changed} WHERE source = $source", {**row, "source": source})  # noqa: S608
        ledger.event(books, kind, source, reason=reason, **content)
        return account_now(books, source)

    return ledger.commit(books, work)


def forgive(books: Books, source: str, reason: str) -> Account:
    """Releases that were stopped until now no longer count; what they cost stays spent."""

    def work() -> Account:
        ledger.look(books)
        ledger.event(books, "forgive", source, reason=reason)
        return account_now(books, source)

    return ledger.commit(books, work)
