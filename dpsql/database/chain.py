r"""The ledger as a hash chain: no event can be changed, left out or put in afterwards without being noticed.

    hash_1 = SHA-256(content_1)          hash_n = SHA-256(hash_{n−1} ‖ newline ‖ content_n)

The content of an event is JSON that holds all there is to it: what happened, when, what it cost, and the account as it
was afterwards, so that the account's row can be checked too. Where the owner accepted what could not be verified, the
chain starts anew from a digest of all that was there: hash_n = SHA-256(basis ‖ newline ‖ content_n).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dpsql.errors import BooksError

Run = Callable[..., Sequence[tuple[Any, ...]]]
"""Runs a statement of the books, with parameters; returns its rows."""
States = Mapping[str, Any]
"""Accounts by their source, as JSON objects."""

_CHAIN: Final = """
    WITH events AS (
      SELECT number, content, hash, basis, lag(hash) OVER (ORDER BY number) AS before,
        coalesce(lag(number) OVER (ORDER BY number), 0) AS last,
        max(CASE WHEN basis IS NOT NULL THEN number END) OVER () AS anchor
      FROM dpsql.event
    )
    SELECT max(number), arg_max(hash, number), max(anchor), any_value(basis) FILTER (WHERE number = anchor),
      min(number) FILTER (WHERE number >= coalesce(anchor, 0) AND ((basis IS NULL AND number <> last + 1)
        OR hash <> sha256(coalesce(basis || chr(10), before || chr(10), '') || content)))
    FROM events
"""
_BASIS: Final = """
    SELECT sha256(coalesce(string_agg(number || ' ' || hash || ' ' || content, chr(10) ORDER BY number), ''))
    FROM dpsql.event WHERE number < $number
"""
_STATES: Final = """
    SELECT content->>'$.source', arg_max(content->>'$.account', number) FROM dpsql.event
    WHERE (content->>'$.account') IS NOT NULL
      AND number >= coalesce((SELECT max(number) FROM dpsql.event WHERE basis IS NOT NULL), 0)
    GROUP BY 1
"""
_OF_KIND: Final = """
    SELECT content FROM dpsql.event WHERE (content->>'$.kind') = $kind
      AND ($key = '' OR (content->>'$.key') = $key)
      AND number >= coalesce((SELECT max(number) FROM dpsql.event WHERE basis IS NOT NULL), 0)
    ORDER BY number
"""
_COURSE: Final = """
    SELECT content FROM dpsql.event WHERE (content->>'$.account') IS NOT NULL
      AND number >= coalesce((SELECT max(number) FROM dpsql.event WHERE basis IS NOT NULL), 0)
    ORDER BY number
"""


@dataclass(frozen=True)
class Link:
    """The newest event.

    Attributes:
        number: of it; 0 where there is none.
        hash: of it and all before.
    """

    number: int = 0
    hash: str = ""


def append(
    run: Run, content: Mapping[str, Any], after: Link, basis: str | None = None, number: int | None = None
) -> Link:
    """Add an event, inside a transaction; a session that adds another one at the same time conflicts with it.

    Args:
        run: statements of the books.
        content: of the event.
        after: the newest event, as this transaction sees it.
        basis: where the chain begins anew, a digest of all that is there.
        number: of it then, for numbers of events that were lost are not used again.
    """
    number = after.number + 1 if number is None else number
    text = json.dumps({**content, "number": number}, ensure_ascii=False, sort_keys=True)
    digest = _hash((after.hash or None) if basis is None else basis, text)
    row = {"number": number, "content": text, "hash": digest, "basis": basis}
    run("INSERT INTO dpsql.event VALUES ($number, $content, $hash, $basis)", row)
    states = recall(after.hash)
    if states is not None and basis is None:
        _remember(digest, _after(states, content))
    return Link(number, digest)


def _hash(before: str | None, content: str) -> str:
    return hashlib.sha256((content if before is None else f"{before}\n{content}").encode()).hexdigest()


def everything(run: Run, number: int) -> str:
    """A digest of all events before one, as they are."""
    return str(run(_BASIS, {"number": number})[0][0])


def verify(run: Run, accounts: States, *, whole: bool = True) -> tuple[Link, States]:
    """The newest event of a chain without a flaw, and the accounts after it.

    Args:
        run: statements of the books, all of one snapshot.
        accounts: the state of each, as its row says.
        whole: look at all events; else at those that are newer than one up to which this process looked before.

    Raises:
        BooksError: an event or an account is not what was recorded; says which.
    """
    found = None if whole else _newer(run)
    link, states = found or _all(run)
    for source in sorted({*states, *accounts}):
        if states.get(source) != accounts.get(source):
            raise BooksError(f"the account of {source} is not what the ledger says")
    _remember(link.hash, states)
    return link, states


def told(run: Run, kind: str, key: str = "") -> Sequence[Mapping[str, Any]]:
    """The contents of the events of one kind, of one request or all, from the last that was accepted on."""
    return [json.loads(content) for (content,) in run(_OF_KIND, {"kind": kind, "key": key})]


def check_course(run: Run) -> None:
    """Refuse a ledger in which an account does not follow from its events: only charges add to what is spent.

    Raises:
        BooksError: what is spent changes by another amount, or otherwise than by a reset.
    """
    spent: dict[str, tuple[int, int]] = {}
    for (text,) in run(_COURSE):
        event = json.loads(text)
        source, account = event["source"], event["account"]
        now = int(account["rho_spent"]), int(account["gdp_spent"])
        before = spent.get(source, now if event["kind"] == "accept" else (0, 0))
        if event["kind"] == "charge":
            before = before[0] + int(event["rho"]), before[1] + int(event["gdp"])
        if event["kind"] == "reset":
            before = 0, 0
        if now != before:
            raise BooksError(f"event {event['number']} of the ledger does not follow from those before it")
        spent[source] = now


def recorded(run: Run) -> States:
    """The accounts after the newest event, as far as the ledger tells them."""
    return {source: json.loads(state) for source, state in run(_STATES)}


_known: Final[OrderedDict[str, States]] = OrderedDict()
"""Accounts after the events up to which was looked, by hash: which fixes what all of them say."""
_lock: Final = threading.Lock()
_KEPT: Final = 64


def recall(digest: str) -> States | None:
    """The accounts after the event with that hash, if this process looked at it or recorded it."""
    with _lock:
        return _known.get(digest)


def _remember(digest: str, states: States) -> None:
    with _lock:
        _known[digest] = states
        _known.move_to_end(digest)
        while len(_known) > _KEPT:
            _known.popitem(last=False)


def _after(states: States, content: Mapping[str, Any]) -> States:
    """The accounts after an event."""
    return {**states, content["source"]: content["account"]} if "account" in content else states


def _all(run: Run) -> tuple[Link, States]:
    number, digest, anchor, basis, broken = run(_CHAIN)[0]
    if broken is not None:
        raise BooksError(f"event {broken} of the ledger is not what was recorded, or one before it is missing")
    if anchor is not None and everything(run, anchor) != basis:
        raise BooksError(f"the events that were accepted as number {anchor} are not what they were then")
    if number is None:
        return Link(), {}
    states = recall(digest)
    return Link(int(number), str(digest)), recorded(run) if states is None else states


def newest(run: Run) -> Link:
    """The newest event."""
    number, digest = run("SELECT max(number), arg_max(hash, number) FROM dpsql.event")[0]  # twice as fast as LIMIT 1
    return Link() if number is None else Link(int(number), str(digest))


def _newer(run: Run) -> tuple[Link, States] | None:
    """The same by the last events, from one up to which was looked; None if there is none, or anything is odd."""
    link = newest(run)
    states = recall(link.hash)
    if states is not None:
        return link, states
    rows = run("SELECT number, content, hash, basis FROM dpsql.event ORDER BY number DESC LIMIT 8")
    newer = list(itertools.takewhile(lambda row: recall(row[2]) is None, rows))
    if len(newer) == len(rows):
        return None
    number, _, before, _ = rows[len(newer)]
    states = recall(before)
    if states is None:
        return None
    for place, content, digest, basis in reversed(newer):
        if place != number + 1 or basis is not None or digest != _hash(before, content):
            return None
        states = _after(states, json.loads(content))
        number, before = place, digest
    return Link(int(number), str(before)), states


def at(run: Run, number: int) -> Link | None:
    """The event of that number, None if there is none."""
    rows = run("SELECT number, hash FROM dpsql.event WHERE number = $number", {"number": number})
    return Link(*rows[0]) if rows else None
