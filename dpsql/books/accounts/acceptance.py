"""What the owner of a database does to its whole ledger: accept it as it is, or take a key for it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpsql.books.accounts import verification
from dpsql.books.ledger import chain, heads, keys, ledger
from dpsql.books.ledger.accounts import COLUMNS, floor_units, states
from dpsql.books.ledger.chain import Point
from dpsql.books.ledger.migration import make_tables, migrate
from dpsql.books.ledger.periods import list_periods, recorded_periods
from dpsql.books.ledger.store import Books
from dpsql.books.people import limits, people, published_tables
from dpsql.books.tables import links
from dpsql.books.tables.protection import record_periods
from dpsql.core.period import split_key
from dpsql.errors import BooksError, InvalidArgument
from dpsql.privacy.account import sums_delta
from dpsql.privacy.accounting import account_budget


def accept(books: Books, reason: str, flaw: str) -> None:
    """Begin the chain anew from all that is there; see `dpsql.owner.account_changes.accept`."""
    books.check_writable()
    with heads.lock:
        try:
            head = None if books.head_path is None else heads.read_head(books.head_path)
        except BooksError:
            head = None
        books.transaction(lambda: _begin_anew(books, head, reason, flaw))
        verification.check_events(books)
        point = books.snapshot(lambda: chain.everything_follows(books.run, books.key))
        if books.head_path is not None:
            identity = head.books if head else secrets.token_hex(16)
            heads.write_head(books.head_path, ledger.head_at(books, identity, point))


def _begin_anew(books: Books, head: heads.Head | None, reason: str, flaw: str) -> None:
    """Inside a transaction: see `accept`; the head may know more than is left."""
    make_tables(books, some_missing=True)
    recorded = [head.accounts if head else {}, chain.recorded(books.run), states(books)]
    number = 1 + max(chain.newest(books.run).number, head.number if head else 0, _largest_release(books))
    for source in sorted({source for accounts in recorded for source in accounts}):
        _keep_spent(books, source, [accounts[source] for accounts in recorded if source in accounts], number)
    failed = json.dumps({"failed": "it may have been published before the ledger was damaged"})
    sql = "UPDATE dpsql.release SET state = 'failed', report = $report WHERE state <> 'published'"
    books.run(sql, {"report": failed})
    books.run("DELETE FROM dpsql.request")  # what was charged before may be charged again
    basis = chain.everything(books.run, number)
    books.looked = Point()
    ledger.event(books, "accept", basis=basis, number=number, reason=reason, flaw=flaw, hmac=books.fingerprint)
    for source in states(books):
        ledger.event(books, "accept", source, reason=reason)
    _restate_periods(books, head)
    links.restate(books)
    people.restate(books)
    limits.restate(books)
    published_tables.restate(books)


def _restate_periods(books: Books, head: heads.Head | None) -> None:
    """Inside a transaction: record of which tables each period has an account, as the accounts say, too.

    Raises:
        BooksError: it is lost, or not what was recorded. Rows that were paid for would be in periods with a new budget.
    """
    stated, course = list_periods(books), (head.course if head else None) or {}
    recorded = [recorded_periods(books), course.get("periods", {})]
    for table in sorted({table for table, label in map(split_key, states(books)) if label is not None}):
        now = None if table not in stated else stated[table].stated
        if now is None or any(accounts.get(table, now) != now for accounts in recorded):
            raise BooksError(
                f"which periods of {table} have a budget is lost, or not what it was: restore a copy of the database"
            )
    for table, periods in stated.items():
        record_periods(books, table, periods)


def _largest_release(books: Books) -> int:
    return int(books.run("SELECT coalesce(max(number), 0) FROM dpsql.release")[0][0])


def _keep_spent(books: Books, source: str, recorded: Sequence[Mapping[str, Any]], now: int) -> None:
    """Write an account of which several states are recorded: the most that is spent, the least that is promised."""
    strictest = _most_spent(recorded, now)
    row = {name: strictest[name] for name in COLUMNS}
    if source not in states(books):
        values = ", ".join(f"${name}" for name in COLUMNS)
        sql = f"INSERT INTO dpsql.account ({', '.join(COLUMNS)}, unit_secret) VALUES ({values}, $secret)"  # noqa: S608
        books.run(sql, {**row, "secret": secrets.token_hex(32)})
        return
    changed = ", ".join(f"{name} = ${name}" for name in COLUMNS if name != "source")
    books.run(f"UPDATE dpsql.account SET {changed} WHERE source = $source", row)  # noqa: S608


def _most_spent(recorded: Sequence[Mapping[str, Any]], now: int) -> dict[str, Any]:
    """The state of an account that keeps all that several states say of it, at the event `now`."""

    def most(name: str) -> Any:
        return max((Fraction(state[name]) for state in recorded), default=Fraction(0))

    reserved, epsilon = float(most("delta_reserved")), min(float(state["epsilon"]) for state in recorded)
    delta = min(float(state["delta"]) for state in recorded)
    budget = account_budget(epsilon, sums_delta(delta, reserved))
    pure = [state["pure_spent"] for state in recorded]
    newest = recorded[-1]
    return {
        **newest,
        "epsilon": epsilon,
        "delta": delta,
        "delta_reserved": reserved,
        "delta_spent": float(most("delta_spent")),
        "rho_budget": floor_units(budget.rho),
        "rho_spent": int(most("rho_spent")),
        "gdp_budget": floor_units(budget.gdp),
        "gdp_spent": int(most("gdp_spent")),
        "pure_spent": None if None in pure else max(map(int, pure)),
        "currency": "pure"
        if delta == 0
        else next((state["currency"] for state in recorded if state["currency"]), None),
        "releases": int(most("releases")),
        "retired": any(str(state["retired"]) == "True" for state in recorded),
        "since": now if len({state["since"] for state in recorded}) > 1 else int(newest["since"]),
    }


def take_key(books: Books, reason: str) -> str:
    """Make the ledger from now on with the key that is there; returns its fingerprint.

    Raises:
        InvalidArgument: there is no key, or the ledger has it already.
        BooksError: the ledger does not fit together, or is made with another key.
    """
    books.check_writable()
    fingerprint = books.fingerprint
    if fingerprint is None:
        raise InvalidArgument(f"there is no key: set the environment variable {keys.VARIABLE} to it")

    def work() -> None:
        state = ledger.look(books).state
        if state.key is not None:
            keys.check_key(books.key, state.key, books.head_path)
            raise InvalidArgument("the ledger is made with this key already: there is nothing to do")
        ledger.event(books, "key", hmac=fingerprint, reason=reason)

    books.takes_key = True
    try:
        with ledger.advised():
            verification.check_links(books)
        migrate(books)
        ledger.advance(books)
        ledger.commit(books, work)
    finally:
        books.takes_key = False
    return fingerprint
