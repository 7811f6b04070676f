r"""The ledger as a hash chain: no event can be changed, left out or put in afterwards without being noticed.

    hash_1 = SHA-256(content_1)          hash_n = SHA-256(hash_{n−1} ‖ newline ‖ content_n)

With a key (`dpsql.books.ledger.keys`) it is an HMAC. The content of an event is JSON that holds all there is to it:
what happened, when, what it cost, and the account as it was afterwards, which must follow from the event
(`dpsql.privacy.course`). Where the owner accepted what could not be verified, the chain starts anew from a digest of
all that was there: hash_n = SHA-256(basis ‖ newline ‖ content_n).

What was verified once is remembered, by the process and by the head outside the database, as a point: an event, and
what the ledger says after it. A charge reads the events that are newer than such a point, and a few before it, however
long the ledger is. All events are read by `everything_follows`.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dpsql.books.ledger.keys import KeyMissing, LedgerKey, link_hash
from dpsql.errors import BooksError
from dpsql.privacy.course import follow
from dpsql.privacy.ledger_state import State

Run = Callable[..., Sequence[tuple[Any, ...]]]
"""Runs a statement of the books, with parameters; returns its rows."""
States = Mapping[str, Any]
"""Accounts by their source, as JSON objects."""
Row = tuple[Any, ...]
"""An event: its number, content, hash and basis."""

_ANCHOR: Final = "SELECT coalesce(max(number), 0) FROM dpsql.event WHERE basis IS NOT NULL"
_NEWEST: Final = "SELECT max(number), arg_max(hash, number) FROM dpsql.event WHERE number >= $number"
_AFTER: Final = "SELECT number, content, hash, basis FROM dpsql.event WHERE number > $after ORDER BY number"
_BETWEEN: Final = (
    "SELECT number, content, hash, basis FROM dpsql.event WHERE number > $after AND number <= $last ORDER BY number"
)
_BASIS: Final = """
    SELECT sha256(coalesce(string_agg(number || ' ' || hash || ' ' || content, chr(10) ORDER BY number), ''))
    FROM dpsql.event WHERE number < $number
"""
_STATES: Final = """
    SELECT content->>'$.source', arg_max(content->>'$.account', number), arg_max(content->>'$.kind', number)
    FROM dpsql.event
    WHERE (content->>'$.source') IS NOT NULL AND number >= ($anchor)
    GROUP BY 1
""".replace("$anchor", _ANCHOR)
_OF_KIND: Final = """
    SELECT content FROM dpsql.event WHERE (content->>'$.kind') = $kind
      AND ($key = '' OR (content->>'$.key') = $key)
      AND number >= ($anchor)
    ORDER BY number
""".replace("$anchor", _ANCHOR)
_OF_REQUEST: Final = """
    SELECT content FROM dpsql.event WHERE (content->>'$.key') = $key ORDER BY number
"""
"""Those before the owner accepted what was there, too."""
_RECENT: Final = 32
"""So many events before a remembered one are looked at again, each time."""
_BATCH: Final = 4096
_MOST_ON_OPEN: Final = 50_000


@dataclass(frozen=True)
class Link:
    """The newest event.

    Attributes:
        number: of it; 0 where there is none.
        hash: of it and all before.
    """

    number: int = 0
    hash: str = ""


@dataclass(frozen=True)
class Point:
    """A place in a ledger up to which it was verified.

    Attributes:
        link: the event there.
        state: what the ledger says after it.
    """

    link: Link = field(default_factory=Link)
    state: State = field(default_factory=State)


def append(
    run: Run,
    content: Mapping[str, Any],
    after: Point,
    key: LedgerKey | None = None,
    basis: str | None = None,
    number: int | None = None,
) -> Point:
    """Add an event, inside a transaction; a session that adds another one at the same time conflicts with it.

    Args:
        run: statements of the books.
        content: of the event.
        after: the newest event, as this transaction sees it.
        key: with which the ledger is made, from this event on at the latest.
        basis: where the chain begins anew, a digest of all that is there.
        number: of it then, for numbers of events that were lost are not used again.

    Raises:
        BooksError: the account that it records does not follow from it.
    """
    number = after.link.number + 1 if number is None else number
    event = {**content, "number": number}
    state = follow(after.state, event, begins=basis is not None)
    text = json.dumps(event, ensure_ascii=False, sort_keys=True)
    before = (after.link.hash or None) if basis is None else basis
    digest = link_hash(before, text, key if state.key else None)
    row = {"number": number, "content": text, "hash": digest, "basis": basis}
    run("INSERT INTO dpsql.event VALUES ($number, $content, $hash, $basis)", row)
    return Point(Link(number, digest), state)


def everything(run: Run, number: int) -> str:
    """A digest of all events before one, as they are."""
    return str(run(_BASIS, {"number": number})[0][0])


# --- verification -----------------------------------------------------------------------------------------------------


def _walk(run: Run, point: Point, rows: Iterable[Row], key: LedgerKey | None) -> Point:
    """The point after some more events.

    Raises:
        BooksError: an event is not what was recorded, or does not follow.
        KeyMissing: it is made with a key that is not there.
    """
    for number, content, digest, basis in rows:
        try:
            event = json.loads(content)
            made_with = event.get("hmac") if basis is not None else event.get("hmac", point.state.key)
            signed = None if made_with is None else _right(key, made_with)
            before = (point.link.hash or None) if basis is None else basis
            follows = basis is not None or number == point.link.number + 1
            if not follows or event["number"] != number or digest != link_hash(before, content, signed):
                raise ValueError
        except (ValueError, TypeError, AttributeError, KeyError):
            raise _changed(number) from None
        if basis is not None and everything(run, number) != basis:
            raise BooksError(f"the events that were accepted as number {number} are not what they were then")
        state = follow(point.state, event, begins=basis is not None)
        if state.key != made_with:
            raise _changed(number)
        point = Point(Link(int(number), str(digest)), state)
    return point


def _changed(number: int) -> BooksError:
    return BooksError(f"event {number} of the ledger is not what was recorded, or one before it is missing")


def _right(key: LedgerKey | None, wanted: str) -> LedgerKey:
    """The key with which an event is made; `ledger.naming_key` says what to do where that is another one."""
    if key is None or key.fingerprint != wanted:
        raise WrongKey(wanted)
    return key


class WrongKey(KeyMissing):
    """An event is made with a key that is not there.

    Attributes:
        wanted: its fingerprint.
    """

    def __init__(self, wanted: str) -> None:
        super().__init__(f"the ledger is made with another key (fingerprint {wanted})")
        self.wanted = wanted


def _batches(run: Run, after: int, last: int) -> Iterator[Row]:
    """The events between two numbers, read a few thousand at a time."""
    while after < last:
        upto = min(last, after + _BATCH)
        yield from run(_BETWEEN, {"after": after, "last": upto})
        after = upto


def everything_follows(run: Run, key: LedgerKey | None) -> Point:
    """The newest point, from all events since the last with which the chain began anew.

    Raises:
        BooksError: an event is not what was recorded, or does not follow; says which.
    """
    anchor = int(run(_ANCHOR)[0][0])
    return _walk(run, Point(), _batches(run, max(0, anchor - 1), newest(run).number), key)


def look(run: Run, ledger: str, key: LedgerKey | None, outside_point: Point | None) -> Point:
    """The newest point, from the last one that is remembered; of all events, if none is, or anything is odd.

    Args:
        run: statements of the books, all of one snapshot.
        ledger: which one, to the memory of the process.
        key: with which it is made, if there is one.
        outside_point: a point from outside the database.

    Raises:
        BooksError: an event is not what was recorded, or does not follow; says which.
    """
    remembered = _recall(ledger)
    if outside_point is not None:
        remembered.setdefault(outside_point.link.hash, outside_point)
    after = max(0, max((point.link.number for point in remembered.values()), default=0) - _RECENT)
    rows = run(_AFTER, {"after": after}) if remembered else ()
    place = next((place for place in reversed(range(len(rows))) if rows[place][2] in remembered), None)
    start = None if place is None else remembered[rows[place][2]]
    if place is None or start is None or not _linked(rows[: place + 1], after, start.state, key):
        point = everything_follows(run, key)
    else:
        point = _walk(run, start, rows[place + 1 :], key)
    remember(ledger, point)
    return point


def _linked(rows: Sequence[Row], after: int, state: State, key: LedgerKey | None) -> bool:
    """Whether the events after one, up to a state, are all there and have the hashes that they make.

    The hash of the last is known to be right, so one of an earlier event may be made with the key or without.
    """
    if not rows or (rows[0][0] != after + 1 and state.anchor <= after + 1):
        return False
    signing = None if state.key is None else key
    before: Row | None = None
    for row in rows:
        number, content, digest, basis = row
        if basis is None and number > 1 and before is None:
            before = row
            continue
        if basis is None and before is not None and number != before[0] + 1:
            return False
        text = basis if basis is not None else None if before is None else before[2]
        if digest != link_hash(text, content, None) and (
            signing is None or digest != link_hash(text, content, signing)
        ):
            return False
        before = row
    return True


def check_links(run: Run, upto: Point, key: LedgerKey | None) -> None:
    """Refuse a ledger of whose newest 50,000 events one is not what was recorded.

    Raises:
        BooksError: says which.
    """
    anchor, last = upto.state.anchor, upto.link.number
    after = max(anchor - 1, last - _MOST_ON_OPEN, 0)
    before: list[Row] = []
    for row in _batches(run, after, last):
        if not _linked([*before, row], before[0][0] - 1 if before else after, upto.state, key):
            raise _changed(row[0])
        before = [row]
    if anchor and anchor <= _MOST_ON_OPEN:
        basis = run("SELECT basis FROM dpsql.event WHERE number = $number", {"number": anchor})
        if not basis or everything(run, anchor) != basis[0][0]:
            raise BooksError(f"the events that were accepted as number {anchor} are not what they were then")


def check_accounts(state: State, accounts: States) -> None:
    """Refuse accounts that are not what the ledger says.

    Raises:
        BooksError: says whose.
    """
    _check_same(state.accounts, accounts, "the account of {}")


def check_members(state: State, members: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse tables that belong to other accounts, or otherwise, than the ledger says.

    Raises:
        BooksError: says which.
    """
    _check_same(state.members, members, "how {} belongs to an account")


def check_periods(state: State, periods: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse tables whose periods have budgets of their own, otherwise than the ledger says.

    Raises:
        BooksError: says which.
    """
    _check_same(state.periods, periods, "which periods of {} have a budget")


def _check_same(recorded: Mapping[str, Any], rows: Mapping[str, Any], what: str) -> None:
    for source in sorted({*recorded, *rows}):
        if recorded.get(source) != rows.get(source):
            raise BooksError(f"{what.format(source)} is not what the ledger says")


def check_withdrawn(run: Run) -> None:
    """Refuse a ledger that takes back a publication and tells other answers of it than the publication did.

    Raises:
        BooksError: says which event.
    """
    for again in events_of(run, "withdraw"):
        events = [json.loads(content) for (content,) in run(_OF_REQUEST, {"key": again["key"]})]
        before = [event for event in events if event["kind"] == "publish" and event["number"] < again["number"]]
        names = ("paid", "rho", "gdp")
        charged = [[event[name] for name in names] for event in events if event["kind"] == "charge"]
        if not before or before[-1]["answers"] != again["answers"] or [again[name] for name in names] not in charged:
            raise BooksError(
                f"event {again['number']} of the ledger does not follow from those before it: it takes back what was "
                "not published"
            )


# --- the memory of the process ----------------------------------------------------------------------------------------

_points: Final[OrderedDict[str, OrderedDict[str, Point]]] = OrderedDict()
"""By ledger and hash, which fixes what all events up to it say."""
_lock: Final = threading.Lock()
_KEPT_POINTS: Final = 16
_KEPT_LEDGERS: Final = 256


def _recall(ledger: str) -> dict[str, Point]:
    with _lock:
        return dict(_points.get(ledger, {}))


def remember(ledger: str, point: Point) -> None:
    """Keep a point that was verified."""
    with _lock:
        points = _points.setdefault(ledger, OrderedDict())
        _points.move_to_end(ledger)
        points[point.link.hash] = point
        points.move_to_end(point.link.hash)
        while len(points) > _KEPT_POINTS:
            points.popitem(last=False)
        while len(_points) > _KEPT_LEDGERS:
            _points.popitem(last=False)


# --- single events ----------------------------------------------------------------------------------------------------


def events_of(run: Run, kind: str, key: str = "") -> Sequence[Mapping[str, Any]]:
    """The contents of the events of one kind, of one request or all, from the last that was accepted on."""
    return [json.loads(content) for (content,) in run(_OF_KIND, {"kind": kind, "key": key})]


def recorded(run: Run) -> States:
    """The accounts after the newest event, as far as the ledger tells them, whether that is right or not."""
    return {source: json.loads(state) for source, state, kind in run(_STATES) if state and kind != "unprotect"}


def newest(run: Run, hint: int = 0) -> Link:
    """The newest event.

    Args:
        run: statements of the books.
        hint: the number of one that was there, so that those before it are not read.
    """
    row = run(_NEWEST, {"number": hint})[0]
    if row[0] is None and hint:  # that one is gone
        row = run(_NEWEST, {"number": 0})[0]
    return Link() if row[0] is None else Link(*row)


def at(run: Run, number: int) -> Link | None:
    """The event of that number, None if there is none."""
    rows = run("SELECT number, hash FROM dpsql.event WHERE number = $number", {"number": number})
    return Link(*rows[0]) if rows else None
