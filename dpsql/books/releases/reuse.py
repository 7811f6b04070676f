"""What earlier releases measured that a later one may use."""

from __future__ import annotations

import json
from typing import Final

from dpsql.books.ledger.accounts import account_key
from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal
from dpsql.books.releases.releases import Entry, list_releases
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement

_MOST_CELLS: Final = 5_000_000  # of earlier releases that one reads
_MOST_RELEASES: Final = 1000  # the newest
_WITHDRAWN: Final = """
    SELECT content->>'$.key' FROM dpsql.event
    WHERE number > $known AND (content->>'$.kind') = 'withdraw' AND CAST(content->>'$.told' AS BIGINT) <= $known
"""
"""The releases that had been published at an event and were taken back later; their answers stay the same."""


def measurements_for(books: Books, entry: Entry) -> list[Measurement]:
    """What earlier releases measured that a release may use: whole marginals of the same columns and domains.

    Which releases those are was fixed when it was charged, so that a release that is resumed asks the same again. Of
    those of one user alone only that user's releases, because what they use tells that they are there.
    """
    earlier: list[Measurement] = []
    for other in list_releases(books, _earlier(books, entry)):
        if sum(len(measured.values) for measured in earlier) > _MOST_CELLS:
            break
        if other.neighbours != entry.neighbours:  # it counted units, and this one counts rows
            continue
        for answer in journal.answers(books, other.key):
            measured = answer.measurement
            if measured is None or measured.cells is not None or measured.variance == 0 or not answer.question.of_cells:
                continue
            if all(_counted(other.domain, name) == _counted(entry.domain, name) for name in measured.clique):
                earlier.append(measured)
    return earlier


def _counted(domain: Domain, name: str) -> Attribute | None:
    attribute = domain.by_name.get(name)
    return None if attribute is None else attribute.counted


def _earlier(books: Books, entry: Entry) -> list[str]:
    """The keys of the releases that one may use, newer ones first; the request says up to which event."""
    request = json.loads(entry.request)
    newest, alone = request.get("earlier") or 0, request.get("for", "")
    if isinstance(newest, list):  # as the first format has them
        return newest[::-1][:_MOST_RELEASES]
    sql = f"""
        SELECT r.key FROM dpsql.release AS r JOIN dpsql.account AS a ON a.source = $account
        WHERE r.source = $source AND r.number > a.since
          AND coalesce(json_extract_string(r.request, '$.for'), '') = $alone
          AND ((r.state = 'published' AND r.told <= $known) OR r.key IN ({_WITHDRAWN}))
        ORDER BY r.number DESC LIMIT $most
    """  # noqa: S608
    row = {
        "source": entry.source,
        "account": account_key(books, entry.source),
        "known": newest,
        "alone": alone,
        "most": _MOST_RELEASES,
    }
    return [key for (key,) in books.run(sql, row)]
