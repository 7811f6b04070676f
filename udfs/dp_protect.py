"""`dp_protect(table, epsilon := …, delta := …)`: give a table a privacy budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.core.domain import Attribute
from dpsql.engines.registry import find_source
from dpsql.errors import InvalidArgument
from dpsql.owner.protect import protect
from dpsql.owner.sharing import share
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import account_budget

from .bridge.declare import Call, Parameter, Relation
from .extension import SqlFunction
from .relations import Computed

COLUMNS = {
    "source": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "neighbours": "VARCHAR",
    "privacy_unit": "VARCHAR",
    "max_rows": "BIGINT",
    "rho": "DOUBLE",
    "gdp": "DOUBLE",
    "composition": "VARCHAR",
    "enums": "VARCHAR",
    "note": "VARCHAR",
}


COMPOSITION = "Gaussian DP or zCDP, as the first release fixes; sum of pure epsilon while all releases are pure"
PURE_COMPOSITION = "sum of pure epsilon"


class DpProtect(SqlFunction):
    """Protect a table: all its releases together will be (ε, δ)-DP for the chosen neighbours.

    With `privacy_unit`, for tables that differ by all rows of one unit. `note` names tables that seem to be about the
    same people, whose ε adds up. Costs nothing. The budget is set once; the same call again changes nothing.
    """

    name = "dp_protect"
    parameters = (
        Parameter("table", "VARCHAR", positional=True, help="the table to protect"),
        Parameter("epsilon", "DOUBLE", default=None, help="the budget of all releases together"),
        Parameter(
            "delta", "DOUBLE", default=None, help="probability outside the promise; below 1/rows, such as 1e-9, or 0"
        ),
        Parameter(
            "neighbours",
            "VARCHAR",
            default="add_remove",
            help="'add_remove' (one row more or less; their number is private) or 'replace_one' (one row changed)",
        ),
        Parameter("privacy_unit", "VARCHAR", default=None, help="the column that tells whose row it is"),
        Parameter("max_rows", "BIGINT", default=None, help="how many rows of one unit count; noise grows with it"),
        Parameter(
            "enums", "BOOLEAN", default=False, help="the members of its ENUM types are public, whatever the rows"
        ),
        Parameter(
            "account", "VARCHAR", default=None, help="a protected table of the same persons, whose budget it shares"
        ),
        Parameter(
            "period",
            "VARCHAR",
            default=None,
            help="'day', 'week', 'month', 'quarter', 'year': each has that budget, for the rows that lie in it",
        ),
        Parameter(
            "by", "VARCHAR", default=None, help="the DATE or TIMESTAMP column that says in which period a row lies"
        ),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        if call["account"] is not None:
            return self._shared(call)
        for name in ("epsilon", "delta"):
            if call[name] is None:
                raise InvalidArgument(f"{name} is missing: say dp_protect(…, {name} := …)")
        account_budget(call["epsilon"], call["delta"])
        with self._instance.lookup() as cursor:
            source = find_source(cursor, call["table"], call.search_path)

        def record() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor:
                how = call["neighbours"], call["privacy_unit"], call["max_rows"]
                also = {name: call[name] for name in ("enums", "period", "by")}
                account = protect(cursor, source, call["epsilon"], call["delta"], *how, **also)
                word = _word(facts.declared(Books(cursor, source.catalog), source.key).values())
            return [_row(source.key, account, word, account.note or None)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, record))

    def _shared(self, call: Call) -> Relation:
        """A table that shares the account of another one."""
        check_shared(call.arguments)
        with self._instance.lookup() as cursor:
            source, other = (find_source(cursor, call[name], call.search_path) for name in ("table", "account"))

        def record() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor:
                account = share(cursor, source, other, call["privacy_unit"], call["max_rows"])
            return [_row(source.key, account, None, account.note)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, record))


def check_shared(arguments: Mapping[str, Any]) -> None:
    """Refuse a budget beside that of the account that is shared.

    Raises:
        InvalidArgument: one is given.
    """
    for name, default in (
        ("epsilon", None),
        ("delta", None),
        ("neighbours", "add_remove"),
        ("enums", False),
        ("period", None),
        ("by", None),
    ):
        if arguments[name] != default:
            raise InvalidArgument(
                f"{name} is {arguments[name]!r}, but account is given, which says it: leave {name} out"
            )


def _row(source: str, account: Account, word: str | None, note: str | None) -> tuple[object, ...]:
    """What is shown of a protected table."""
    neighbours = account.neighbours
    units = (str(neighbours), account.unit_column, neighbours.unit_rows)
    sums = (float(account.rho_budget), float(account.gdp_budget))
    added = PURE_COMPOSITION if account.pure else COMPOSITION
    return (source, account.epsilon, account.delta, *units, *sums, added, word, note)


def _word(declared: Iterable[Attribute]) -> str | None:
    """What the owner said of ENUM columns; None if nothing."""
    names = [a.name for a in declared if a.origin == "type" and not a.of_type.declares_itself]
    if not names:
        return None
    return f"the owner says that the members of the types of {', '.join(names)} are public, whatever the rows are"
