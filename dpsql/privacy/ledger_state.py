"""What a ledger says after an event: accounts, unfinished releases, and what they count towards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpsql.privacy.accounting import RHO_UNIT

Facts = Mapping[str, Any]
"""An account as the ledger writes it: names to texts, or None."""


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
    retried: bool = False

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
        failed: of each source, how many releases ended that were stopped, failed or completed later, since its account
            was opened or reset, or its owner forgave.
        forgiven: of each source, the number of the event with which its owner last forgave.
        anchor: the number of the last event with which the chain began anew; 0 where it never did.
        accepting: whether all events since then were the accounts that were accepted with it.
        version: of the newest event.
        key: the fingerprint of the key with which its hash is made, None without one.
        members: tables that belong to an account beside its own, by their key: whose, and how.
        periods: the tables of which each period has an account of its own, and by which column.
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
    members: Mapping[str, Facts] = field(default_factory=dict)
    periods: Mapping[str, Facts] = field(default_factory=dict)

    def stopped(self, source: str, under_way: Collection[str] = ()) -> int:
        """How many releases of a source were stopped once or more, also those that were completed later.

        Those that the owner forgave do not count, nor do those that are under way, by their keys.
        """
        since = self.forgiven.get(source, 0)
        begun = sum(
            entry.source == source and entry.number > since and (entry.retried or key not in under_way)
            for key, entry in self.unfinished.items()
        )
        return begun + self.failed.get(source, 0)

    def to_json(self) -> dict[str, Any]:
        """All but the accounts, for JSON."""
        later = ("members", "periods")  # heads without them are as they were
        left_out = {"accounts", *(name for name in later if not getattr(self, name))}
        state = asdict(replace(self, accounts={}))  # of a period each there may be many, and each is copied
        content = {name: value for name, value in state.items() if name not in left_out}
        return content | {"charged": sorted(self.charged)}


def state_from(accounts: Mapping[str, Facts], recorded: Mapping[str, Any]) -> State:
    """The state that `State.to_json` wrote, with its accounts.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    return State(
        accounts=accounts,
        unfinished={key: Unfinished(**charged) for key, charged in recorded["unfinished"].items()},
        published={source: int(count) for source, count in recorded["published"].items()},
        charged=frozenset(recorded["charged"]),
        failed={source: int(count) for source, count in recorded["failed"].items()},
        forgiven={source: int(number) for source, number in recorded["forgiven"].items()},
        anchor=int(recorded["anchor"]),
        accepting=bool(recorded["accepting"]),
        version=int(recorded["version"]),
        key=recorded["key"],
        members=recorded.get("members", {}),
        periods=recorded.get("periods", {}),
    )
