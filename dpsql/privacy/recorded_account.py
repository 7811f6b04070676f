"""Accounts as events record them.

Budgets are converted in floating point, so another machine may find other last digits: a recorded one is taken that is
within a millionth of the derived one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dpsql.core.neighbours import Neighbours
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import RHO_UNIT, account_budget
from dpsql.privacy.ledger_state import Facts

_ROUNDING: Final = 10**6  # a budget may be off by one part in so many
_IN_UNITS: Final = ("rho_budget", "rho_spent", "gdp_budget", "gdp_spent", "pure_spent")


class DoesNotFollow(Exception):
    """Why an event does not follow."""


def account_from(facts: Facts) -> Account:
    """An account from what the ledger writes of it.

    Raises:
        KeyError, TypeError, ValueError, InvalidArgument: it is none.
    """
    rows = facts["unit_rows"]
    amounts = {name: None if facts[name] is None else int(facts[name]) * RHO_UNIT for name in _IN_UNITS}
    return Account(
        source=facts["source"],
        epsilon=float(facts["epsilon"]),
        delta=float(facts["delta"]),
        neighbours=Neighbours(facts["neighbours"], None if rows is None else int(rows)),
        unit_column=facts["unit_column"],
        unit_type=facts["unit_type"],
        delta_reserved=float(facts["delta_reserved"]),
        delta_spent=float(facts["delta_spent"]),
        currency=facts["currency"],
        releases=int(facts["releases"]),
        since=int(facts["since"]),
        retired={"True": True, "False": False}[facts["retired"]],
        **amounts,  # type: ignore[arg-type]
    )


def budgets(epsilon: float, delta: float, event: Mapping[str, Any]) -> dict[str, str]:
    """The budgets of a promise: those that an event records, if they are as near as another machine's would be."""
    budget = account_budget(epsilon, delta)
    recorded_budgets = {}
    for name, whole in (("rho_budget", budget.rho), ("gdp_budget", budget.gdp)):
        derived, recorded = int(whole / RHO_UNIT), event["account"][name]
        near = abs(int(recorded) - derived) * _ROUNDING <= derived
        recorded_budgets[name] = recorded if near else str(derived)
    return recorded_budgets


def opened(event: Mapping[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
    """What an account is of which nothing is spent."""
    return {
        **budgets(epsilon, delta, event),
        "rho_spent": "0",
        "gdp_spent": "0",
        "pure_spent": "0",
        "delta_reserved": "0.0",
        "delta_spent": "0.0",
        "currency": "pure" if delta == 0 else None,
        "releases": "0",
        "since": str(event["number"]),
    }
