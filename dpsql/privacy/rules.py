"""One rule for each kind of event: what it makes of the accounts, or why it does not follow.

Three things no rule can derive; they are taken from the account that the event records:

    protect   what the owner states: neighbours, privacy unit, the digest of the unit's secret
    reset     the digest of the new secret
    accept    the whole account, on the owner's word, right after the event with which the chain begins anew

Of events of the first format, which carry no `version`, one thing more is taken from the recorded account: the new ε of
a `raise`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from dpsql.core.period import periods_from, split_key, table_of
from dpsql.privacy.account import sums_delta
from dpsql.privacy.accounting import RHO_UNIT, check_epsilon, exact, units
from dpsql.privacy.ledger_state import Facts, State, Unfinished
from dpsql.privacy.recorded_account import DoesNotFollow, account_from, budgets, opened


def _before(state: State, event: Mapping[str, Any]) -> Facts:
    """The account that an event is about, as it was."""
    if event["source"] not in state.accounts:
        raise DoesNotFollow("it is about a table without an account")
    return state.accounts[event["source"]]


def _with(state: State, source: str, facts: Facts, **changes: Any) -> State:
    return replace(state, accounts={**state.accounts, source: facts}, **changes)


def _protect(state: State, event: Mapping[str, Any]) -> State:
    source, stated = event["source"], event["account"]
    if source in state.accounts:
        raise DoesNotFollow("the table has an account already")
    if source in state.members:
        raise DoesNotFollow("the table belongs to an account already")
    epsilon, delta = float(event["epsilon"]), float(event["delta"])
    facts = {**stated, "source": source, "epsilon": repr(epsilon), "delta": repr(delta), "retired": "False"}
    facts |= opened(event, epsilon, delta) | _of_period(state, facts)
    account_from(facts)
    unit = {facts[name] is None for name in ("unit_column", "unit_type", "unit_rows")}
    if len(unit) != 1:
        raise DoesNotFollow("it states half a privacy unit")
    key = event.get("hmac") if event["number"] == 1 else state.key
    return _with(state, source, facts, published={**state.published, source: 0}, key=key)


_LIKE_THE_TABLE: Final = ("epsilon", "delta", "neighbours", "unit_column", "unit_type", "unit_rows")
"""What the account of a period promises as that of its table does."""


def _of_period(state: State, facts: Facts) -> dict[str, Any]:
    """What follows for the account of a period from that of its table; nothing for the account of a table."""
    table, label = split_key(facts["source"])
    if label is None:
        return {}
    whole, stated = state.accounts.get(table), state.periods.get(table)
    if whole is None or stated is None:
        raise DoesNotFollow("it opens the account of a period, and the table has one budget")
    periods_from(stated).period(label)
    if any(facts[name] != whole[name] for name in _LIKE_THE_TABLE):
        raise DoesNotFollow("the account of a period promises something else than its table")
    return {"since": whole["since"]}


def _period(state: State, event: Mapping[str, Any]) -> State:
    """Each period of a table has an account of its own from now on; the table's own only says what they promise."""
    table, stated = event["table"], event["period"]
    whole = state.accounts.get(table)
    if "source" in event or whole is None or split_key(table)[1] is not None or table in state.periods:
        raise DoesNotFollow("it is about no table with one budget")
    if whole["neighbours"] != "add_remove" or whole["unit_column"] is not None:
        raise DoesNotFollow("periods are of tables whose neighbours differ by one row more or less")
    if whole["releases"] != "0" or any(facts["account"] == table for facts in state.members.values()):
        raise DoesNotFollow("something was charged to the account, or it has other tables")
    periods_from(stated)
    return replace(state, periods={**state.periods, table: stated})


def _check_chargeable(state: State, source: str) -> None:
    """Refuse to charge a table of which each period has an account, and a period of a table that is retired."""
    table, label = split_key(source)
    if label is None and source in state.periods:
        raise DoesNotFollow("each period of the table has an account of its own")
    if label is not None and (table not in state.periods or state.accounts[table]["retired"] != "False"):
        raise DoesNotFollow("the table of the period is retired, or has one budget")


def _charge(state: State, event: Mapping[str, Any]) -> State:
    before, source, key = _before(state, event), event["source"], event["key"]
    if key in state.unfinished:
        raise DoesNotFollow("the same request was charged before")
    _check_chargeable(state, source)
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
        raise DoesNotFollow("the account is retired")
    spent, whole = facts["pure_spent"], int(exact(float(facts["epsilon"])) / RHO_UNIT)
    enough = spent is not None and int(spent) <= whole
    if not enough and facts["currency"] != "pure":
        sums = "gdp" if facts["currency"] == "gdp" else "rho"
        enough = int(facts[f"{sums}_spent"]) <= int(facts[f"{sums}_budget"])
    if not enough:
        raise DoesNotFollow("it charges more than the budget")


def _whole(amount: str) -> int:
    """An amount of what is charged, which is never negative."""
    units = int(amount)
    if units < 0:
        raise DoesNotFollow("it charges less than nothing")
    return units


def _pure(event: Mapping[str, Any]) -> int | None:
    """The pure ε of a charge, None if it has a δ."""
    derived = units(exact(float(event["epsilon"]))) if float(event["delta"]) == 0 else None
    recorded = event.get("pure")
    if "version" in event and (None if recorded is None else int(recorded)) != derived:
        raise DoesNotFollow("its pure epsilon is not its epsilon")
    return derived


def _failure(event: Mapping[str, Any]) -> float | None:
    """δ′ of a discovery, None of other charges; the first format tells it by the mechanism and δ."""
    if "version" in event:
        recorded = event.get("failure")
        return None if recorded is None else float(recorded)
    mechanism = event.get("mechanism")
    return {"discover (values)": float(event["delta"]) / 2, "discover (bins)": 0.0}.get(str(mechanism))


def _reserved(before: Facts, failure: float, event: Mapping[str, Any]) -> dict[str, str]:
    """What a discovery changes of an account beside its charge; see `Account.reserve`."""
    if not 0 <= failure < 1:
        raise DoesNotFollow("the probability of its failure is none")
    account = account_from(before)
    after = account.reserve(failure)
    changed = {"delta_reserved": repr(after.delta_reserved), "delta_spent": repr(after.delta_spent)}
    if after.delta_reserved != account.delta_reserved:
        changed |= budgets(after.epsilon, after.delta_of_sums, event)
    return changed


def _raise(state: State, event: Mapping[str, Any]) -> State:
    before = _before(state, event)
    epsilon = float(event["epsilon"] if "version" in event else event["account"]["epsilon"])
    if check_epsilon(epsilon) <= float(before["epsilon"]):
        raise DoesNotFollow("it promises no larger epsilon")
    delta = sums_delta(float(before["delta"]), float(before["delta_reserved"]))
    return _with(state, event["source"], {**before, "epsilon": repr(epsilon), **budgets(epsilon, delta, event)})


def _reset(state: State, event: Mapping[str, Any]) -> State:
    before, source = _before(state, event), event["source"]
    if table_of(source) in state.periods:
        raise DoesNotFollow("no budget of a period begins anew")
    anew = opened(event, float(before["epsilon"]), float(before["delta"]))
    facts = {**before, **anew, "unit_choice": event["account"]["unit_choice"]}
    unfinished = {key: charged for key, charged in state.unfinished.items() if charged.source != source}
    none = {**state.published, source: 0}, {**state.failed, source: 0}
    return _with(state, source, facts, unfinished=unfinished, published=none[0], failed=none[1])


def _retire(state: State, event: Mapping[str, Any]) -> State:
    return _with(state, event["source"], {**_before(state, event), "retired": "True"})


def _unprotect(state: State, event: Mapping[str, Any]) -> State:
    source = _before(state, event)["source"]
    if source in state.charged:
        raise DoesNotFollow("something was charged to the account")
    if any(facts["account"] == source for facts in state.members.values()):
        raise DoesNotFollow("other tables belong to the account")
    if any(other != source and table_of(other) == source for other in state.accounts):
        raise DoesNotFollow("something was charged to a period of the table")
    accounts = {name: facts for name, facts in state.accounts.items() if name != source}
    published = {name: count for name, count in state.published.items() if name != source}
    periods = {name: stated for name, stated in state.periods.items() if name != source}
    return replace(state, accounts=accounts, published=published, periods=periods)


def _publish(state: State, event: Mapping[str, Any]) -> State:
    charged = state.unfinished.get(event["key"])
    if charged is None or (charged.number, charged.source) != (event["release"], event["source"]):
        raise DoesNotFollow("it publishes a release that was not charged, or ended before")
    if charged.answers is not None and event["answers"] != charged.answers:
        raise DoesNotFollow("it publishes other answers than those that were published before")
    published = {**state.published, charged.source: state.published.get(charged.source, 0) + 1}
    ended = _ended(state, charged) if charged.retried else state.failed
    return replace(state, unfinished=_without(state, event["key"]), published=published, failed=ended)


def _withdraw(state: State, event: Mapping[str, Any]) -> State:
    """A publication is taken back, to be made again from the same answers."""
    source, count = _before(state, event)["source"], state.published.get(event["source"], 0)
    if event["key"] in state.unfinished or not count:
        raise DoesNotFollow("it takes back a release that was not published")
    charged = int(event["release"]), source, event["paid"], _whole(event["rho"]), _whole(event["gdp"])
    again = Unfinished(*charged, event["answers"])
    unfinished = {**state.unfinished, event["key"]: again}
    return replace(state, unfinished=unfinished, published={**state.published, source: count - 1})


def _fail(state: State, event: Mapping[str, Any]) -> State:
    charged = state.unfinished.get(event["key"])
    if charged is None:  # its account was reset while it was under way
        return state
    if (charged.number, charged.source) != (event["release"], event["source"]):
        raise DoesNotFollow("it ends another release than was charged")
    ended = _ended(state, charged) if charged.retried or event.get("stopped", True) else state.failed
    return replace(state, unfinished=_without(state, event["key"]), failed=ended)


def _ended(state: State, charged: Unfinished) -> dict[str, int]:
    """The counts of releases that ended and had been stopped, with one more unless the owner forgave it."""
    counts = charged.number > state.forgiven.get(charged.source, 0)
    return {**state.failed, charged.source: state.failed.get(charged.source, 0) + counts}


def _forgive(state: State, event: Mapping[str, Any]) -> State:
    """Releases that were stopped until now no longer count; what they cost stays spent."""
    source = _before(state, event)["source"]
    none = {**state.failed, source: 0}
    return replace(state, failed=none, forgiven={**state.forgiven, source: event["number"]})


def _without(state: State, key: str) -> dict[str, Unfinished]:
    return {other: charged for other, charged in state.unfinished.items() if other != key}


def _retry(state: State, event: Mapping[str, Any]) -> State:
    """Rows are read again for a release that was stopped: it counts as stopped, also once it is published."""
    charged = state.unfinished.get(event["key"])
    if charged is None or (charged.number, charged.source) != (event["release"], event["source"]):
        raise DoesNotFollow("it goes on with a release that was not charged, or ended before")
    return replace(state, unfinished={**state.unfinished, event["key"]: replace(charged, retried=True)})


def _settle(state: State, event: Mapping[str, Any]) -> State:
    """What the owner says of other tables, of users and of what they are shown changes no account."""
    if "source" in event:
        raise DoesNotFollow("it is about no account")
    return state


def _link(state: State, event: Mapping[str, Any]) -> State:
    """A table belongs to an account from now on: by keys that lead to a row of it, or by a unit of its own."""
    table, stated = event["table"], event["member"]
    account = state.accounts.get(stated["account"])
    if "source" in event or account is None or table in state.accounts:
        raise DoesNotFollow("it links a table that has an account, or to one that is none")
    if stated["account"] in state.periods or split_key(stated["account"])[1] is not None:
        raise DoesNotFollow("each period of the account's table has an account of its own")
    if account["neighbours"] != "add_remove":
        raise DoesNotFollow("the account's neighbours are not add_remove, so its units have no other rows")
    before = state.members.get(table)
    if before is not None and ({**before, "unit_rows": stated["unit_rows"]} != stated or before["unit_rows"]):
        raise DoesNotFollow("the table belongs to an account already")
    if stated["unit_rows"] is not None and int(stated["unit_rows"]) < 1:
        raise DoesNotFollow("it lets no row count")
    if "parent" in stated:
        _check_parent(state, account, stated)
    elif stated["unit_column"] is None or stated["unit_type"] is None or stated["unit_rows"] is None:
        raise DoesNotFollow("it names no unit")
    return replace(state, members={**state.members, table: stated})


def _check_parent(state: State, account: Facts, stated: Mapping[str, Any]) -> None:
    """Refuse a parent that is not in the account's tree, and keys that are none."""
    parent = stated["parent"]
    above = state.members.get(parent, {})
    if parent != stated["account"] and (above.get("account") != stated["account"] or "parent" not in above):
        raise DoesNotFollow("the parent is no table of the account's tree")
    if account["unit_column"] is not None:
        raise DoesNotFollow("the units of the account are no rows")
    if not stated["key"] or len(stated["key"]) != len(stated["references"]) or int(stated["most"]) < 1:
        raise DoesNotFollow("its keys are none")


def _unlink(state: State, event: Mapping[str, Any]) -> State:
    """A table belongs to no account any more, to which nothing was ever charged."""
    table = event["table"]
    if "source" in event or table not in state.members:
        raise DoesNotFollow("it takes back what is no member")
    if state.members[table]["account"] in state.charged:
        raise DoesNotFollow("something was charged to the account")
    members = {name: facts for name, facts in state.members.items() if name != table}
    if any(facts.get("parent") == table for facts in members.values()):
        raise DoesNotFollow("another table is linked to it")
    return replace(state, members=members)


def _key(state: State, event: Mapping[str, Any]) -> State:
    if state.key is not None:
        raise DoesNotFollow("the ledger has a key already")
    return replace(state, key=str(event["hmac"]))


def anchored(event: Mapping[str, Any]) -> State:
    """The state after the owner accepted what was there."""
    if event["kind"] != "accept" or "source" in event:
        raise DoesNotFollow("the chain begins anew with it, and it accepts nothing")
    return State(anchor=event["number"], accepting=True, version=event.get("version", 1), key=event.get("hmac"))


def _accept(state: State, event: Mapping[str, Any]) -> State:
    source, facts = event["source"], event["account"]
    if not state.accepting or source in state.accounts:
        raise DoesNotFollow("nothing was accepted with it")
    account = account_from(facts)
    amounts = (account.rho_spent, account.gdp_spent, account.pure_spent or Fraction(0), Fraction(account.releases))
    if min(amounts) < 0 or account.delta_spent < 0 or facts["source"] != source:
        raise DoesNotFollow("it accepts what is no account")
    facts = {**facts, **budgets(account.epsilon, account.delta_of_sums, event)}
    published = {**state.published, source: account.releases}  # at most: its releases are not looked at
    return _with(state, source, facts, published=published, charged=state.charged | {source})


RULES: Final[Mapping[str, Callable[[State, Mapping[str, Any]], State]]] = {
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
    "period": _period,
    "link": _link,
    "unlink": _unlink,
    "accept": _accept,
    "key": _key,
    "settle": _settle,
    "source": _settle,
    "user": _settle,
    "decide": _settle,
    "show": _settle,
    "hide": _settle,
}
