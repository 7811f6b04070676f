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
        row_number() OVER (ORDER BY number) AS place, max(CASE WHEN basis IS NOT NULL THEN number END) OVER () AS anchor
      FROM dpsql.event
    )
    SELECT max(number), arg_max(hash, number), max(anchor), any_value(basis) FILTER (WHERE number = anchor),
      min(number) FILTER (WHERE number >= coalesce(anchor, 0) AND (number <> place
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


@dataclass(frozen=True)
class Link:
    """The newest event.

    Attributes:
        number: of it; 0 where there is none.
        hash: of it and all before.
    """

    number: int = 0
    hash: str = ""


def append(run: Run, content: Mapping[str, Any], basis: str | None = None) -> Link:
    """Add an event, inside a transaction; a session that adds another one at the same time conflicts with it."""
    rows = run("SELECT number, hash FROM dpsql.event ORDER BY number DESC LIMIT 1")
    number, before = rows[0] if rows else (0, None)
    text = json.dumps({**content, "number": number + 1}, ensure_ascii=False, sort_keys=True)
    digest = _hash(before if basis is None else basis, text)
    row = {"number": number + 1, "content": text, "hash": digest, "basis": basis}
    run("INSERT INTO dpsql.event VALUES ($number, $content, $hash, $basis)", row)
    return Link(number + 1, digest)


def _hash(before: str | None, content: str) -> str:
    return hashlib.sha256((content if before is None else f"{before}\n{content}").encode()).hexdigest()


def everything(run: Run, number: int) -> str:
    """A digest of all events before one, as they are."""
    return str(run(_BASIS, {"number": number})[0][0])


def verify(run: Run, accounts: States) -> Link:
    """The newest event of a chain without a flaw.

    Args:
        run: statements of the books, all of one snapshot.
        accounts: the state of each, as its row says.

    Raises:
        BooksError: an event or an account is not what was recorded; says which.
    """
    number, digest, anchor, basis, broken = run(_CHAIN)[0]
    if broken is not None:
        raise BooksError(f"event {broken} of the ledger is not what was recorded, or one before it is missing")
    if anchor is not None and everything(run, anchor) != basis:
        raise BooksError(f"the events that were accepted as number {anchor} are not what they were then")
    link = Link() if number is None else Link(int(number), str(digest))
    states = _states(run, link)
    for source in sorted({*states, *accounts}):
        if states.get(source) != accounts.get(source):
            raise BooksError(f"the account of {source} is not what the ledger says")
    return link


_known: Final[OrderedDict[str, States]] = OrderedDict()
"""Accounts after the events at which they were last looked for, by hash."""
_KEPT: Final = 64


def _states(run: Run, link: Link) -> States:
    """The accounts after the newest event: by the last events, from one after which they are known, or by all."""
    rows = run("SELECT content, hash FROM dpsql.event ORDER BY number DESC LIMIT 8")
    newer = list(itertools.takewhile(lambda row: row[1] not in _known, rows))
    if len(newer) < len(rows):
        states = dict(_known[rows[len(newer)][1]])
        for content, _ in reversed(newer):
            told = json.loads(content)
            if "account" in told:
                states[told["source"]] = told["account"]
    else:
        states = {source: json.loads(state) for source, state in run(_STATES)}
    _known[link.hash] = states
    while len(_known) > _KEPT:
        _known.popitem(last=False)
    return states


def at(run: Run, number: int) -> Link | None:
    """The event of that number, None if there is none."""
    rows = run("SELECT number, hash FROM dpsql.event WHERE number = $number", {"number": number})
    return Link(*rows[0]) if rows else None
