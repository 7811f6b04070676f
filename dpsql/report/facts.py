"""All that a report says of a release, collected once: from the books and from the synthetic rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from dpsql.books.ledger.accounts import account_now
from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry
from dpsql.books.tables.facts import constraints, rules
from dpsql.books.tables.owner_facts import fact_of, listed_roles, tables_of
from dpsql.core.domain import Attribute
from dpsql.core.neighbours import Neighbours
from dpsql.core.unit_words import column_of_table
from dpsql.errors import InvalidArgument
from dpsql.privacy.account import Account
from dpsql.release.column_words import Words, words_of_columns
from dpsql.release.judged_tree import JudgedTree, judged_tree
from dpsql.release.judgement import Judgement
from dpsql.release.quality import measurements, warnings_of
from dpsql.release.verdict import Verdict, verdict_of
from dpsql.version import __version__


@dataclass(frozen=True)
class Facts:
    """What is known of a release.

    Attributes:
        entry: what the books say of it.
        judgement, verdict: how good it is.
        account: of its table, as it is now.
        at: when it was charged (UTC).
        marginals: how many marginals of so many columns were measured whole.
        cells: how many noisy counts there are.
        noise: the names of their distributions.
        constraints: what every synthetic row satisfies, as it is declared now.
        version: of dpsql.
    """

    entry: Entry
    judgement: Judgement
    verdict: Verdict
    account: Account
    at: datetime
    marginals: Mapping[int, int]
    cells: int
    noise: tuple[str, ...]
    constraints: tuple[str, ...]
    version: str = __version__

    @property
    def epsilon(self) -> float:
        """Of the promise."""
        return self.entry.epsilon

    @property
    def delta(self) -> float:
        """Of the promise."""
        return self.entry.delta

    @property
    def request(self) -> Mapping[str, Any]:
        """The canonical request."""
        request: Mapping[str, Any] = json.loads(self.entry.request)
        return request

    @property
    def warnings(self) -> list[str]:
        """Of the release; see `dpsql.release.quality.warnings_of`."""
        return warnings_of(self.entry)

    @property
    def outside(self) -> Mapping[str, float]:
        """For each column with values outside its domain, about which part of the rows has one."""
        return dict(self.entry.report.get("outside", {}))

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The columns that have a domain."""
        return self.entry.domain.attributes

    @cached_property
    def words(self) -> Words:
        """What each column is called."""
        return words_of_columns(self.entry)

    @property
    def rows(self) -> Mapping[str, int]:
        """How many synthetic rows there are, by table."""
        tables = {table.table: table.rows for table in self.entry.tables}
        return tables or {self.entry.source: self.entry.rows or 0}

    @cached_property
    def tree(self) -> JudgedTree | None:
        """A linked release by table and by link; None of a release of one table."""
        return None if self.entry.unit_row is None else judged_tree(self.entry.unit_row, self.judgement)

    @property
    def excluded(self) -> list[str]:
        """The columns that have no domain and are not computed."""
        return [name for name, formula in self._unmeasured if not formula]

    @property
    def computed(self) -> list[str]:
        """The columns that were not measured but computed, each with its expression."""
        return [f"{name} = {formula}" for name, formula in self._unmeasured if formula]

    @property
    def _unmeasured(self) -> list[tuple[str, str]]:
        """What the columns without a domain are called, each with the expression that computes it, or none."""
        if (linked := self.entry.linked) is not None:
            parts = ((table, column) for table, columns in linked["excluded"].items() for column in columns)
            return [(column_of_table(column[0], table), column[3]) for table, column in parts]
        return [(attribute.name, attribute.computed_as) for attribute in self.entry.domain.excluded]

    @property
    def imposed(self) -> list[str]:
        """What roles impose on the synthetic rows of a linked release, a clause each."""
        return [
            f"each row of {parent} has {'exactly' if role.always else 'at most'} one row of {child} where {role.where}"
            for child, parent, role in listed_roles(self.entry.linked)
        ]


def is_synthetic(rows: int | None, request: str) -> bool:
    """Whether a release is a synthetic table: a discovery has no rows, and a query's rows are answers."""
    return rows is not None and "query" not in json.loads(request)


def check_synthetic(entry: Entry) -> None:
    """Refuse a release that has no synthetic rows to report on.

    Raises:
        InvalidArgument: it is not published, or of a query or a discovery.
    """
    if entry.state != "published":
        raise InvalidArgument(
            f"{entry.called} is {entry.state}, not published: the call that paid for it completes it, free"
        )
    if not is_synthetic(entry.rows, entry.request):
        raise InvalidArgument(
            f"{entry.called} is no synthetic table: a report is of one of dp_synthesize, see FROM dp_releases()"
        )


def collect(books: Books, entry: Entry, judgement: Judgement) -> Facts:
    """Look everything up.

    Args:
        books: of the release.
        entry: of a published synthetic table.
        judgement: of it.
    """
    check_synthetic(entry)
    answers, account = measurements(books, entry), account_now(books, entry.source)
    sql = "SELECT CAST(content->>'$.at' AS TIMESTAMP) FROM dpsql.event WHERE number = $number"
    ((at,),) = books.run(sql, {"number": entry.number})
    return Facts(
        entry=entry,
        judgement=judgement,
        verdict=verdict_of(entry, judgement, account.epsilon_left),
        account=account,
        at=at,
        marginals=dict(sorted(Counter(len(m.clique) for m in answers if m.cells is None and m.clique).items())),
        cells=sum(len(m.values) for m in answers),
        noise=tuple(sorted({m.noise for m in answers if m.variance > 0})),
        constraints=tuple(_constraints(books, entry)),
    )


def counted_rows(neighbours: Neighbours) -> str:
    """What counts of a privacy unit, in words.

    >>> counted_rows(Neighbours("add_remove", 8)), counted_rows(Neighbours.UNITS)
    ('at most 8 rows count', 'the number of rows counts, and what two of them hold')
    """
    if neighbours.whole:
        return "the number of rows counts, and what two of them hold"
    return f"at most {neighbours.unit_rows} rows count"


def _constraints(books: Books, entry: Entry) -> list[str]:
    if (linked := entry.linked) is None:
        return [constraint.predicate for constraint in constraints(books, entry.source)]
    stated = ((table, [*constraints(books, table), *rules(books, table)]) for table in tables_of(linked))
    return [fact_of(table, constraint.predicate) for table, listed in stated for constraint in listed]
