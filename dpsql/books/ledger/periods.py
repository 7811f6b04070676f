"""Tables of which each period has a budget of its own, as rows of `dpsql.period`.

Nothing is charged to the account of such a table: it says what each of its periods may spend. The account of a period
is opened by its first charge. Until then it is what that of the table says.
"""

from __future__ import annotations

import json
from typing import Final

from dpsql.books.ledger.store import Books
from dpsql.core.period import Periods, periods_from, split_key

TABLE: Final = "period"


def list_periods(books: Books) -> dict[str, Periods]:
    """The tables with periods, by their keys."""
    if not books.has(TABLE):  # books of an earlier version, or none
        return {}
    rows = books.run("SELECT source, stated FROM dpsql.period")
    return {source: periods_from(json.loads(stated)) for source, stated in rows}


def find_periods(books: Books, source: str) -> Periods | None:
    """The periods of a table; None where it has one budget."""
    return list_periods(books).get(source)


def stated_periods(books: Books) -> dict[str, dict[str, str]]:
    """Every table with periods as its row says, to be compared with what the ledger says."""
    return {source: periods.stated for source, periods in list_periods(books).items()}


def recorded_periods(books: Books) -> dict[str, dict[str, str]]:
    """Each table's periods as the newest event about them says, whether that is right or not."""
    rows = books.run(
        "SELECT content->>'$.table', content->>'$.period' FROM dpsql.event "
        "WHERE (content->>'$.kind') = 'period' ORDER BY number"
    )
    return {source: json.loads(stated) for source, stated in rows}


def opened_periods(books: Books, table: str) -> list[str]:
    """The keys of the periods of a table to which something was charged, in order."""
    sources = (source for (source,) in books.run("SELECT source FROM dpsql.account"))
    return [source for source in sorted(sources) if source != table and split_key(source)[0] == table]
