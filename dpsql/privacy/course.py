"""The course of a ledger: what every event makes of the accounts, recomputed from what the event says.

    follow(state before, event) → state after

An event records the account as it is afterwards. `follow` derives that account by itself (`dpsql.privacy.rules`), and
refuses an event that records another one, or that the rules do not allow: a charge beyond the budget, a second
publication of one release. So a ledger is believed for what its events prove, and not for what it says is spent.

Events of the first format carry no `version`. After an event with a version there is none without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dpsql.errors import BooksError, DpsqlError
from dpsql.privacy.ledger_state import Facts, State
from dpsql.privacy.recorded_account import DoesNotFollow
from dpsql.privacy.rules import RULES, anchored

VERSION: Final = 2
"""The format of the events that are written now."""


def follow(state: State, event: Mapping[str, Any], *, begins: bool = False) -> State:
    """The state after an event.

    Args:
        state: before it.
        event: its content.
        begins: whether the chain begins anew with it; then nothing before it counts.

    Raises:
        BooksError: the event does not follow; says which, and why.
    """
    try:
        if begins:
            return anchored(event)
        version = event.get("version", 1)
        if version > VERSION:
            raise DoesNotFollow("a newer version of dpsql wrote it")
        if version < state.version:
            raise DoesNotFollow("it has no version, but an earlier one has")
        rule = RULES.get(event["kind"])
        if rule is None:
            raise DoesNotFollow(f"there is no kind {event['kind']!r}")
        after = replace(rule(state, event), version=version)
        if event["kind"] != "accept":
            after = replace(after, accepting=False)
        if "source" in event:
            _compare(after.accounts.get(event["source"]), event.get("account"))
        return after
    except (DoesNotFollow, DpsqlError, ArithmeticError, KeyError, TypeError, ValueError) as error:
        has_reason = isinstance(error, DoesNotFollow)
        why = str(error) if has_reason else f"it is no event of that kind ({type(error).__name__})"
        number = event.get("number")
        raise BooksError(f"event {number} of the ledger does not follow from those before it: {why}") from None


def _compare(derived: Facts | None, recorded: Facts | None) -> None:
    """Refuse a recorded account that is not the derived one."""
    if derived == recorded:
        return
    if derived is None or recorded is None:
        raise DoesNotFollow("it records an account where there is none, or none where there is one")
    names = sorted({*derived, *recorded})
    other = next(name for name in names if derived.get(name, "") != recorded.get(name, ""))
    raise DoesNotFollow(f"{other} is not what it makes of it")
