"""Charge a release: account, event and release in one transaction, after a look at the newest events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from dpsql.books.ledger import ledger, origin
from dpsql.books.ledger.accounts import STATED, account_now, floor_units, states_of_rows
from dpsql.books.ledger.chain import Point
from dpsql.books.ledger.migration import migrate
from dpsql.books.ledger.statements import read
from dpsql.books.ledger.store import Books
from dpsql.books.people import limits, people, visible_names
from dpsql.books.releases.releases import Entry, find_release, has_published, neighbours_of, with_looked
from dpsql.books.tables.links import tree_of
from dpsql.books.tables.protection import open_period
from dpsql.core.domain import Domain
from dpsql.core.period import table_of
from dpsql.core.tree import Tree
from dpsql.engines.duckdb.settings import check_owned
from dpsql.errors import BooksError, DpsqlError, InsufficientBudget
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import RHO_UNIT, Budget, exact, units
from dpsql.privacy.ledger_state import State
from dpsql.privacy.promised import BESIDE

MOST_STOPPED: Final = 32
"""How many releases of a table may be stopped before no more is charged, also if they are completed later.

Whether a release is stopped may depend on the rows, and its charge, however small, does not pay for that.
"""


class _TooDear(Exception):
    """The account cannot pay."""


@dataclass(frozen=True)
class Charge:
    """What a release is to be charged, and for what.

    Attributes:
        key: SHA-256 of the request.
        source: the table's key.
        since: the number of the event that opened or reset the account, as it was when the request was looked up.
        request: canonical JSON.
        domain: of its columns.
        mechanism: its name.
        guarantee: in the words that the books record.
        budget: what it costs.
        failure: of a discovery: what it adds to the δ of its noise (see `Account.reserve`).
        under_way: keys of releases that this process works on now, which were not stopped so far.
        by: the user who asks; empty for the owner.
        links: of each table that is read, see `Account.way`, when it was looked up; and the tree of a linked release.
    """

    key: str
    source: str
    since: int
    request: str
    domain: Domain
    mechanism: str
    guarantee: str
    budget: Budget
    failure: float | None = None
    under_way: frozenset[str] = frozenset()
    by: str = ""
    links: tuple[Mapping[str, str], Tree | None] = (MappingProxyType({}), None)


def charge(books: Books, due: Charge) -> Entry:
    """Charge a new release; one of that key that is there already is returned as it is, free.

    The newest events are looked at before. What is older was looked at before that, by this process or by the one that
    wrote the head.

    Raises:
        InsufficientBudget: the account has less than the budget left, or of δ, or a limit of the user's has; nothing
            was changed.
        NotAllowed: the user is not known, was revoked, or is no analyst.
        BooksError: the database is read-only, or the ledger, an account and the head do not fit together.
        DpsqlError: a setting that is the owner's is not what it was, see `dpsql.engines.duckdb.settings`; too many
            releases of the source were stopped; or its account was opened anew.
    """
    check_owned(books.cursor)
    books.check_writable()
    origin.check_place(books)
    with ledger.advised():
        migrate(books)
        ledger.advance(books)
    try:
        return ledger.commit(books, lambda: _charge(books, due))
    except _TooDear:
        account = account_now(books, due.source)
        if due.by:
            limits.require_allowed(books, due.by, account, due.budget)
        account.require(due.budget)
        raise InsufficientBudget(f"the budget of {due.source} was spent meanwhile") from None


def _charge(books: Books, due: Charge) -> Entry:
    """Inside a transaction: see `charge`."""
    with ledger.advised():
        before = ledger.look(books)
    promised = account_now(books, due.source)
    _require_same_sharing(books, due)
    earlier = find_release(books, due.key)
    if earlier is not None:
        return earlier
    _refuse_lost(books, due.key, before.state.anchor)
    if promised.since != due.since:  # what was looked up was of another account: neighbours, δ, domains
        raise DpsqlError(f"the account of {due.source!r} was opened anew since the request was made: run it again")
    _require_same_links(books, due)
    _refuse_stopped(due, promised.source, before.state)
    if due.by:
        limits.require_allowed(books, due.by, promised, due.budget)
    if promised.retired:
        raise _TooDear
    open_period(books, promised)
    if due.failure is not None:
        _reserve(books, promised.source, due.failure)
    after = _pay(books, due, promised)
    entry = _entry(books, due, before, promised)
    number = _record(books, due, entry, promised.source, after)
    entry = replace(entry, number=number)
    books.run("INSERT INTO dpsql.request VALUES ($key, $number)", {"key": entry.key, "number": number})
    _insert(books, entry)
    if due.by:
        limits.record_payer(books, due.by, entry.key, number, promised.source, due.budget)
    return entry


# --- refuse -----------------------------------------------------------------------------------------------------------


def _require_same_sharing(books: Books, due: Charge) -> None:
    """Refuse a user who may not ask, as this transaction sees them, and a request that is no longer theirs alone.

    Raises:
        NotAllowed: see `people.require_person`.
        DpsqlError: the owner decided meanwhile whether releases are shared.
    """
    if not due.by:
        return
    people.require_person(books, due.by, role="analyst")
    alone = json.loads(due.request).get("for", "")
    if alone != visible_names.alone_for(books, due.by):
        raise DpsqlError("the owner decided meanwhile whether users share releases: run it again")


def _require_same_links(books: Books, due: Charge) -> None:
    """Refuse what was looked up before a table was linked otherwise: its rows were of other units, or of another bound.

    Raises:
        DpsqlError: it was.
    """
    ways, tree = due.links
    same = all(account_now(books, table).way == way for table, way in ways.items())
    if not same or (tree is not None and tree_of(books, due.source) != tree):
        raise DpsqlError(f"the links of {due.source!r} changed since the request was made: run it again")


def _refuse_lost(books: Books, key: str, anchor: int) -> None:
    """Refuse to charge again what was charged since the ledger was last accepted, and whose record is gone.

    Raises:
        BooksError: it was.
    """
    lost = books.run("SELECT number FROM dpsql.request WHERE key = $key", {"key": key})
    if lost and lost[0][0] > anchor:
        raise BooksError(
            f"this request was charged before, as release {lost[0][0]}, whose record is lost; {ledger.ADVICE}"
        )


def _refuse_stopped(due: Charge, source: str, state: State) -> None:
    """Refuse to charge where many releases were stopped.

    Raises:
        DpsqlError: as many as may be.
    """
    if state.stopped(source, due.under_way) < MOST_STOPPED:
        return
    if due.by:  # how many others stopped is not told
        raise DpsqlError(f"too many releases of {source!r} were stopped: nothing more is charged until its owner looks")
    raise DpsqlError(
        f"{MOST_STOPPED} releases of {source!r} were stopped before they were published. What stops a release may "
        "depend on the rows, so nothing more is charged. Those that can be completed are completed as they were "
        "asked for, free (FROM dp_releases() WHERE state <> 'published'). For new ones the owner says dpsql ledger "
        f"forgive <file> {table_of(source)} --reason '…', in Python db.forgive('{table_of(source)}', reason)"
    )


# --- pay and record ---------------------------------------------------------------------------------------------------


def _reserve(books: Books, source: str, failure: float) -> None:
    """Take δ′ off what an account keeps for it."""
    after = account_now(books, source).reserve(failure)
    books.run(
        "UPDATE dpsql.account SET delta_reserved = $reserved, delta_spent = $spent, rho_budget = $rho, "
        "gdp_budget = $gdp WHERE source = $source",
        {
            "reserved": after.delta_reserved,
            "spent": after.delta_spent,
            "rho": floor_units(after.rho_budget),
            "gdp": floor_units(after.gdp_budget),
            "source": source,
        },
    )


def _pay(books: Books, due: Charge, promised: Account) -> Sequence[Any]:
    """Take the budget off the account; returns its row then, of `STATED`.

    Raises:
        _TooDear: less is left.
    """
    budget = due.budget
    charged = books.run(
        f"{read('charge')[0]} RETURNING {STATED}",
        {
            "rho": units(budget.rho),
            "gdp": units(budget.gdp),
            "pure": units(budget.exact_epsilon) if budget.pure else None,
            "pure_budget": floor_units(exact(promised.epsilon)),
            "currency": budget.currency,
            "source": promised.source,
        },
    )
    if not charged:
        raise _TooDear
    return charged[0]


def _entry(books: Books, due: Charge, before: Point, account: Account) -> Entry:
    """The release that is charged, without its number."""
    request = json.loads(due.request)
    # a number stands for all that were published up to it, so that the request does not grow with them
    has_earlier = before.state.published.get(account.source) and has_published(
        books, due.source, request.get("for", "")
    )
    earlier = before.link.number if request.get("reuse") and has_earlier else 0
    recorded = json.dumps({**request, "earlier": earlier}, ensure_ascii=False, sort_keys=True)
    promise = due.guarantee + (BESIDE if earlier and request.get("reuse") else "")
    rho, gdp = (floor_units(spent) * RHO_UNIT for spent in (due.budget.rho, due.budget.gdp))
    neighbours = neighbours_of(due.request, account.neighbours)
    charged_for = (due.domain, due.mechanism, rho, gdp, neighbours, promise)
    promised = (due.budget.epsilon, due.budget.delta, due.failure or 0.0)
    entry = Entry(due.key, 0, due.source, recorded, *charged_for, "reserved", None, {}, *promised)
    return with_looked(books, [entry])[0]


def _record(books: Books, due: Charge, entry: Entry, account: str, after: Sequence[Any]) -> int:
    """Record the charge in the ledger, with the account as its row is afterwards; returns the event's number."""
    budget = due.budget
    return ledger.event(
        books,
        "charge",
        account,
        accounts=states_of_rows([after]),
        table=None if account == due.source else due.source,
        key=due.key,
        paid=entry.paid,
        mechanism=due.mechanism,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=str(units(budget.rho)),
        gdp=str(units(budget.gdp)),
        pure=str(units(budget.exact_epsilon)) if budget.pure else None,
        failure=due.failure,
        looked=list(entry.looked) or None,
        looked_facts=list(entry.looked_facts) or None,
        by=due.by or None,
    )


def pure_charged(books: Books, entry: Entry) -> Fraction | None:
    """The pure ε that a release was charged, as its event says; None of a charge that promised none.

    The request may offer more than was charged, and its questions may share it otherwise by now.
    """
    rows = books.run(
        "SELECT content->>'$.pure' FROM dpsql.event WHERE number = $number AND (content->>'$.kind') = 'charge'",
        {"number": entry.number},
    )
    return int(rows[0][0]) * RHO_UNIT if rows and rows[0][0] is not None else None


def _insert(books: Books, entry: Entry) -> None:
    """Record the release."""
    books.run(
        "INSERT INTO dpsql.release VALUES ($key, $number, $source, $request, $domain, $mechanism, $rho, $gdp, "
        "$neighbours, $unit_rows, $guarantee, 'reserved', NULL, NULL, NULL)",
        {
            "key": entry.key,
            "number": entry.number,
            "source": entry.source,
            "request": entry.request,
            "domain": entry.domain.to_json(),
            "mechanism": entry.mechanism,
            "rho": floor_units(entry.rho),
            "gdp": floor_units(entry.gdp),
            "neighbours": str(entry.neighbours),
            "unit_rows": entry.neighbours.unit_rows,
            "guarantee": entry.recorded,
        },
    )
