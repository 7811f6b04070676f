"""Whether anything but releases went on in a ledger, so that what was looked up in the books before still holds."""

from __future__ import annotations

from typing import Final

from dpsql.books.ledger import chain
from dpsql.books.ledger.chain import Link
from dpsql.books.ledger.store import Books

_RELEASES: Final = "'charge', 'publish', 'fail', 'retry'"
"""Kinds of events that change nothing of who may ask what. What they change is looked at in the charge itself."""
_SINCE: Final = f"""
    SELECT max(number), arg_max(hash, number), bool_or(number = $number AND hash = $hash),
      coalesce(bool_or(number > $number AND (content->>'$.kind') NOT IN ({_RELEASES})), false)
    FROM dpsql.event WHERE number >= $number
"""  # noqa: S608


def point(books: Books) -> Link:
    """The newest event: what is looked up after this holds as long as `still` says so."""
    return chain.newest(books.run)


def still(books: Books, before: Link) -> Link | None:
    """The newest event, if since an earlier point only releases went on; None if users, limits or tables may differ.

    Domains are no events of the ledger. Who charges compares them by itself.
    """
    number, digest, same, other = books.run(_SINCE, {"number": before.number, "hash": before.hash})[0]
    return Link(number, digest) if same and not other else None
