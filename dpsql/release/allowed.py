"""Whether who asks can pay for a planned release: the owner by the table's account, a user by their limits too."""

from __future__ import annotations

from typing import Protocol

from dpsql.books.ledger.store import Books
from dpsql.books.people import limits
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.source import Source
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.pricing import Questions


class Planned(Protocol):
    """A plan of a release."""

    @property
    def source(self) -> Source:
        """The table."""

    @property
    def account(self) -> Account:
        """Of the table."""

    @property
    def budget(self) -> Budget:
        """What it costs."""

    @property
    def questions(self) -> Questions:
        """What it asks."""

    @property
    def by(self) -> str:
        """The user who asks; empty for the owner."""


def require_affordable(books: Books, planned: Planned) -> None:
    """Refuse what could not be charged now; the charge tests it again in its own transaction.

    Raises:
        InsufficientBudget: says what is left.
    """
    conversion = planned.questions.conversion
    if planned.by:
        limits.require_allowed(books, planned.by, planned.account, planned.budget, conversion)
    planned.account.require(planned.budget, conversion)


def allowed_after(cursor: Cursor, planned: Planned, after: Account, charged: Budget | None = None) -> float:
    """The largest ε that who asks could ask for once the table's account is as after the release.

    Args:
        cursor: a connection of its own.
        planned: the release.
        after: the account.
        charged: what it costs; None for all of its budget.
    """
    if not planned.by:
        return after.epsilon_left
    spends = after.releases > planned.account.releases
    books, budget = Books(cursor, planned.source.catalog), charged or planned.budget
    return limits.left(books, planned.by, planned.account, budget=budget if spends else None)
