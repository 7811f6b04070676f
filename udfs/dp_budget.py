"""`dp_budget()`: what is spent and left of each protected table."""

from __future__ import annotations

from functools import partial

from dpsql.books.ledger.accounts import list_accounts
from dpsql.books.ledger.members import members_of
from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.privacy.account import Account

from .bridge.declare import Call, Relation
from .extension import SqlFunction
from .of_users import BUDGET_COLUMNS, budget_rows
from .relations import Computed, prefix

COLUMNS = {
    "source": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "epsilon_spent": "DOUBLE",
    "epsilon_left": "DOUBLE",
    "epsilon_pure": "DOUBLE",
    "releases": "BIGINT",
    "privacy_unit": "VARCHAR",
    "max_rows": "BIGINT",
    "tables": "VARCHAR[]",
}


class DpBudget(SqlFunction):
    """One row for each protected table; `epsilon_left` is the largest ε that one more release may ask for.

    `tables` lists the linked tables, and those of the same persons, that share the budget.
    """

    name = "dp_budget"

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        if call.by:
            return Computed(BUDGET_COLUMNS, partial(budget_rows, self._instance, call.by))
        return Computed(COLUMNS, self._rows)

    def _rows(self) -> list[tuple[object, ...]]:
        with self._instance.cursor() as cursor:
            return [
                (prefix(cursor, catalog) + a.source, *_row(a), [m.source for m in members_of(books, a.source)])
                for catalog in catalogs_with_books(cursor)
                for books in [Books(cursor, catalog)]
                for a in list_accounts(books)
            ]


def _row(account: Account) -> tuple[object, ...]:
    pure = None if account.pure_spent is None else float(account.pure_spent)
    spent = (account.epsilon_spent, account.epsilon_left, pure, account.releases)
    return (account.epsilon, account.delta, *spent, account.unit_column, account.neighbours.unit_rows)
