r"""The course of a ledger: what every event makes of the accounts, recomputed from what the event says.

    follow(state before, event) → state after

An event records the account as it is afterwards. `follow` derives that account by itself, and refuses an event that
records another one, or that the rules do not allow: a charge beyond the budget, a second publication of one release.
So a ledger is believed for what its events prove, and not for what it says is spent.

Three things no rule can derive; they are taken from the account that the event records:

    protect   what the owner states: neighbours, privacy unit, the digest of the unit's secret
    reset     the digest of the new secret
    accept    the whole account, on the owner's word, right after the event with which the chain begins anew

Budgets are converted in floating point, so another machine may find other last digits: a recorded one is taken that is
within a millionth of the derived one. Events of the first format carry no `version`; of them one thing more is taken
from the recorded account: the new ε of a `raise`. After an event with a version there is none without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from dpsql.core.neighbours import Neighbours
from dpsql.errors import BooksError, DpsqlError
from dpsql.privacy.account import Account, sums_delta
from dpsql.privacy.accounting import RHO_UNIT, account_budget, check_epsilon, exact, units

VERSION: Final = 2
"""The format of the events that are written now."""
_ROUNDING: Final = 10**6  # a budget may be off by one part in so many
_IN_UNITS: Final = ("rho_budget", "rho_spent", "gdp_budget", "gdp_spent", "pure_spent")

Facts = Mapping[str, Any]
"""An account as the ledger writes it: names to texts, or None."""


class _Wrong(Exception):
    """Why an event does not follow."""


@dataclass(frozen=True)
class Unfinished:
    """A release that was charged, and neither published nor failed.

    Attributes:
        number: of the event that charged it.
        source: whose.
        paid: a digest of what it was charged for.
        rho, gdp: what was charged, in units.
        answers: a digest of its answers, where it was published and taken back; the same must be published again.
    """

    number: int
    source: str
    paid: str
    rho: int
    gdp: int
    answers: str | None = None

    def covers(self, rho: Fraction, gdp: Fraction) -> bool:
        """Whether no more is spent than was charged."""
        return rho <= self.rho * RHO_UNIT and gdp <= self.gdp * RHO_UNIT


@dataclass(frozen=True)
class State:
    """What a ledger says after an event.

    Attributes:
        accounts: by their source.
        unfinished: releases that may still be measured, by the key of their request.
        published: of each source, how many releases were published since its account was opened or reset.
        charged: the sources that anything was ever charged to.
        failed: of each source, how many releases failed since its account was opened or reset, or its owner forgave.
        forgiven: of each source, the number of the event with which its owner last forgave.
        anchor: the number of the last event with which the chain began anew; 0 where it never did.
        accepting: whether all events since then were the accounts that were accepted with it.
        version: of the newest event.
        key: the fingerprint of the key with which its hash is made, None without one.
    """

    accounts: Mapping[str, Facts] = field(default_factory=dict)
    unfinished: Mapping[str, Unfinished] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    charged: frozenset[str] = frozenset()
    failed: Mapping[str, int] = field(default_factory=dict)
    forgiven: Mapping[str, int] = field(default_factory=dict)
    anchor: int = 0
    accepting: bool = False
    version: int = 1
    key: str | None = None

    def stopped(self, source: str) -> int:
        """How many releases of a source were charged and are not published: under way, stopped or failed.

        Those that the owner forgave do not count.
        """
        since = self.forgiven.get(source, 0)
        begun = sum(one.source == source and one.number > since for one in self.unfinished.values())
        return begun + self.failed.get(source, 0)

    def to_json(self) -> dict[str, Any]:
        """All but the accounts, for JSON."""
        told = {name: value for name, value in asdict(self).items() if name != "accounts"}
        return told | {"charged": sorted(self.charged)}


def state_from(accounts: Mapping[str, Facts], told: Mapping[str, Any]) -> State:
    """The state that `State.to_json` tells, with its accounts.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    return State(
        accounts=accounts,
        unfinished={key: Unfinished(**charged) for key, charged in told["unfinished"].items()},
        published={source: int(count) for source, count in told["published"].items()},
        charged=frozenset(told["charged"]),
        failed={source: int(count) for source, count in told.get("failed", {}).items()},
        forgiven={source: int(number) for source, number in told.get("forgiven", {}).items()},
        anchor=int(told["anchor"]),
        accepting=bool(told["accepting"]),
        version=int(told["version"]),
        key=told["key"],
    )


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
            return _anchored(event)
        version = event.get("version", 1)
        if version > VERSION:
            raise _Wrong("a newer version of dpsql wrote it")
        if version < state.version:
            raise _Wrong("it has no version, but an earlier one has")
        rule = _RULES.get(event["kind"])
        if rule is None:
            raise _Wrong(f"there is no kind {event['kind']!r}")
        after = replace(rule(state, event), version=version)
        if event["kind"] != "accept":
            after = replace(after, accepting=False)
        if "source" in event:
            _compare(after.accounts.get(event["source"]), event.get("account"))
        return after
    except (_Wrong, DpsqlError, ArithmeticError, KeyError, TypeError, ValueError) as error:
        why = str(error) if isinstance(error, _Wrong) else f"it is no event of that kind ({type(error).__name__})"
        number = event.get("number")
        raise BooksError(f"event {number} of the ledger does not follow from those before it: {why}") from None


def _compare(derived: Facts | None, recorded: Facts | None) -> None:
    """Refuse a recorded account that is not the derived one."""
    if derived == recorded:
        return
    if derived is None or recorded is None:
        raise _Wrong("it records an account where there is none, or none where there is one")
    names = sorted({*derived, *recorded})
    other = next(name for name in names if derived.get(name, "") != recorded.get(name, ""))
    raise _Wrong(f"{other} is not what it makes of it")


# --- accounts ---------------------------------------------------------------------------------------------------------


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


def _before(state: State, event: Mapping[str, Any]) -> Facts:
    """The account that an event is about, as it was."""
    if event["source"] not in state.accounts:
        raise _Wrong("it is about a table without an account")
    return state.accounts[event["source"]]


def _with(state: State, source: str, facts: Facts, **changes: Any) -> State:
    return replace(state, accounts={**state.accounts, source: facts}, **changes)


def _budgets(epsilon: float, delta: float, event: Mapping[str, Any]) -> dict[str, str]:
    """The budgets of a promise: those that an event records, if they are as near as another machine's would be."""
    budget = account_budget(epsilon, delta)
    found = {}
    for name, whole in (("rho_budget", budget.rho), ("gdp_budget", budget.gdp)):
        derived, recorded = int(whole / RHO_UNIT), event["account"][name]
        near = abs(int(recorded) - derived) * _ROUNDING <= derived
        found[name] = recorded if near else str(derived)
    return found


def _opened(event: Mapping[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
    """What an account is of which nothing is spent."""
    return {
        **_budgets(epsilon, delta, event),
        "rho_spent": "0",
        "gdp_spent": "0",
        "pure_spent": "0",
        "delta_reserved": "0.0",
        "delta_spent": "0.0",
        "currency": "pure" if delta == 0 else None,
        "releases": "0",
        "since": str(event["number"]),
    }


# --- one rule for each kind of event ----------------------------------------------------------------------------------


def _protect(state: State, event: Mapping[str, Any]) -> State:
    source, stated = event["source"], event["account"]
    if source in state.accounts:
        raise _Wrong("the table has an account already")
    epsilon, delta = float(event["epsilon"]), float(event["delta"])
    facts = {**stated, "source": source, "epsilon": repr(epsilon), "delta": repr(delta), "retired": "False"}
    facts |= _opened(event, epsilon, delta)
    account_from(facts)
    unit = {facts[name] is None for name in ("unit_column", "unit_type", "unit_rows")}
    if len(unit) != 1:
        raise _Wrong("it states half a privacy unit")
    key = event.get("hmac") if event["number"] == 1 else state.key
    return _with(state, source, facts, published={**state.published, source: 0}, key=key)


def _charge(state: State, event: Mapping[str, Any]) -> State:
    before, source, key = _before(state, event), event["source"], event["key"]
    if key in state.unfinished:
        raise _Wrong("the same request was charged before")
    facts = dict(before)
    failure = _failure(event)
    if failure is not None:
        facts |= _reserved(before, failure, event)
    rho, gdp, pure = _whole(event["rho"]), _whole(event["gdp"]), _pure(event)
    spent = facts["pure_spent"]
    facts |= {
        "rho_spent": str(int(facts["rho_spent"]) + rho),
        "gdp_spent": str(int(facts["gdp_spent"]) + gdp),
        "pure_spent": None if spent is None or pure is None else str(int(spent) + pure),
        "currency": facts["currency"] or ("gdp" if gdp == rho else "zcdp"),
        "releases": str(int(facts["releases"]) + 1),
    }
    _check_paid(facts)
    unfinished = {**state.unfinished, key: Unfinished(event["number"], source, event["paid"], rho, gdp)}
    return _with(state, source, facts, unfinished=unfinished, charged=state.charged | {source})


def _check_paid(facts: Facts) -> None:
    """Refuse an account that spent more than it has: the condition of `sql/charge.sql`."""
    if facts["retired"] != "False":
        raise _Wrong("the account is retired")
    if facts["currency"] == "pure":
        spent, whole = facts["pure_spent"], int(exact(float(facts["epsilon"])) / RHO_UNIT)
        enough = spent is not None and int(spent) <= whole
    else:
        sums = "gdp" if facts["currency"] == "gdp" else "rho"
        enough = int(facts[f"{sums}_spent"]) <= int(facts[f"{sums}_budget"])
    if not enough:
        raise _Wrong("it charges more than the budget")


def _whole(amount: str) -> int:
    """An amount of what is charged, which is never negative."""
    found = int(amount)
    if found < 0:
        raise _Wrong("it charges less than nothing")
    return found


def _pure(event: Mapping[str, Any]) -> int | None:
    """The pure ε of a charge, None if it has a δ."""
    derived = units(exact(float(event["epsilon"]))) if float(event["delta"]) == 0 else None
    told = event.get("pure")
    if "version" in event and (None if told is None else int(told)) != derived:
        raise _Wrong("its pure epsilon is not its epsilon")
    return derived


def _failure(event: Mapping[str, Any]) -> float | None:
    """δ′ of a discovery, None of other charges; the first format tells it by the mechanism and δ."""
    if "version" in event:
        told = event.get("failure")
        return None if told is None else float(told)
    mechanism = event.get("mechanism")
    return {"discover (values)": float(event["delta"]) / 2, "discover (bins)": 0.0}.get(str(mechanism))


def _reserved(before: Facts, failure: float, event: Mapping[str, Any]) -> dict[str, str]:
    """What a discovery changes of an account beside its charge; see `Account.reserve`."""
    if not 0 <= failure < 1:
        raise _Wrong("the probability of its failure is none")
    account = account_from(before)
    after = account.reserve(failure)
    changed = {"delta_reserved": repr(after.delta_reserved), "delta_spent": repr(after.delta_spent)}
    if after.delta_reserved != account.delta_reserved:
        changed |= _budgets(after.epsilon, after.delta_of_sums, event)
    return changed


def _raise(state: State, event: Mapping[str, Any]) -> State:
    before = _before(state, event)
    epsilon = float(event["epsilon"] if "version" in event else event["account"]["epsilon"])
    if check_epsilon(epsilon) <= float(before["epsilon"]):
        raise _Wrong("it promises no larger epsilon")
    delta = sums_delta(float(before["delta"]), float(before["delta_reserved"]))
    return _with(state, event["source"], {**before, "epsilon": repr(epsilon), **_budgets(epsilon, delta, event)})


def _reset(state: State, event: Mapping[str, Any]) -> State:
    before, source = _before(state, event), event["source"]
    anew = _opened(event, float(before["epsilon"]), float(before["delta"]))
    facts = {**before, **anew, "unit_choice": event["account"]["unit_choice"]}
    unfinished = {key: charged for key, charged in state.unfinished.items() if charged.source != source}
    none = {**state.published, source: 0}, {**state.failed, source: 0}
    return _with(state, source, facts, unfinished=unfinished, published=none[0], failed=none[1])


def _retire(state: State, event: Mapping[str, Any]) -> State:
    return _with(state, event["source"], {**_before(state, event), "retired": "True"})


def _unprotect(state: State, event: Mapping[str, Any]) -> State:
    source = _before(state, event)["source"]
    if source in state.charged:
        raise _Wrong("something was charged to the account")
    accounts = {name: facts for name, facts in state.accounts.items() if name != source}
    published = {name: count for name, count in state.published.items() if name != source}
    return replace(state, accounts=accounts, published=published)


def _publish(state: State, event: Mapping[str, Any]) -> State:
    charged = state.unfinished.get(event["key"])
    if charged is None or (charged.number, charged.source) != (event["release"], event["source"]):
        raise _Wrong("it publishes a release that was not charged, or ended before")
    if charged.answers is not None and event["answers"] != charged.answers:
        raise _Wrong("it publishes other answers than those that were told before")
    published = {**state.published, charged.source: state.published.get(charged.source, 0) + 1}
    return replace(state, unfinished=_without(state, event["key"]), published=published)


def _withdraw(state: State, event: Mapping[str, Any]) -> State:
    """A publication is taken back, to be made again from the same answers."""
    source, count = _before(state, event)["source"], state.published.get(event["source"], 0)
    if event["key"] in state.unfinished or not count:
        raise _Wrong("it takes back a release that was not published")
    charged = int(event["release"]), source, event["paid"], _whole(event["rho"]), _whole(event["gdp"])
    again = Unfinished(*charged, event["answers"])
    unfinished = {**state.unfinished, event["key"]: again}
    return replace(state, unfinished=unfinished, published={**state.published, source: count - 1})


def _fail(state: State, event: Mapping[str, Any]) -> State:
    charged, source = state.unfinished.get(event["key"]), event["source"]
    counts = charged is not None and charged.number > state.forgiven.get(source, 0)
    failed = {**state.failed, source: state.failed.get(source, 0) + counts}
    return replace(state, unfinished=_without(state, event["key"]), failed=failed)


def _forgive(state: State, event: Mapping[str, Any]) -> State:
    """Releases that were stopped until now no longer count; what they cost stays spent."""
    source = _before(state, event)["source"]
    none = {**state.failed, source: 0}
    return replace(state, failed=none, forgiven={**state.forgiven, source: event["number"]})


def _without(state: State, key: str) -> dict[str, Unfinished]:
    return {other: charged for other, charged in state.unfinished.items() if other != key}


def _retry(state: State, event: Mapping[str, Any]) -> State:
    """Rows are read again for a release that was stopped; that changes no account."""
    charged = state.unfinished.get(event["key"])
    if charged is None or (charged.number, charged.source) != (event["release"], event["source"]):
        raise _Wrong("it goes on with a release that was not charged, or ended before")
    return state


def _settle(state: State, event: Mapping[str, Any]) -> State:
    """What the owner says of other tables changes no account."""
    if "source" in event:
        raise _Wrong("it is about no account")
    return state


def _key(state: State, event: Mapping[str, Any]) -> State:
    if state.key is not None:
        raise _Wrong("the ledger has a key already")
    return replace(state, key=str(event["hmac"]))


def _anchored(event: Mapping[str, Any]) -> State:
    """The state after the owner accepted what was there."""
    if event["kind"] != "accept" or "source" in event:
        raise _Wrong("the chain begins anew with it, and it accepts nothing")
    return State(anchor=event["number"], accepting=True, version=event.get("version", 1), key=event.get("hmac"))


def _accept(state: State, event: Mapping[str, Any]) -> State:
    source, facts = event["source"], event["account"]
    if not state.accepting or source in state.accounts:
        raise _Wrong("nothing was accepted with it")
    account = account_from(facts)
    amounts = (account.rho_spent, account.gdp_spent, account.pure_spent or Fraction(0), Fraction(account.releases))
    if min(amounts) < 0 or account.delta_spent < 0 or facts["source"] != source:
        raise _Wrong("it accepts what is no account")
    facts = {**facts, **_budgets(account.epsilon, account.delta_of_sums, event)}
    published = {**state.published, source: account.releases}  # at most: its releases are not looked at
    return _with(state, source, facts, published=published, charged=state.charged | {source})


_RULES: Final[Mapping[str, Callable[[State, Mapping[str, Any]], State]]] = {
    "protect": _protect,
    "charge": _charge,
    "publish": _publish,
    "withdraw": _withdraw,
    "fail": _fail,
    "forgive": _forgive,
    "retry": _retry,
    "raise": _raise,
    "reset": _reset,
    "retire": _retire,
    "unprotect": _unprotect,
    "accept": _accept,
    "key": _key,
    "settle": _settle,
}
