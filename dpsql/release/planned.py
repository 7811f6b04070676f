"""What the plans of all kinds of release have in common: the canonical request, and the key that is its digest.

key = SHA-256(canonical request). Equal requests are the same release, so the canonical request holds all that the
answer depends on but the rows: the table and since when it has its account, what is asked, ε and δ.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dpsql.engines.source import Source
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.release.linked import Members


class Facts(Protocol):
    """What a request names, looked up: public facts, and all that a plan depends on."""

    @property
    def source(self) -> Source:
        """The protected table."""

    @property
    def account(self) -> Account:
        """Of the table, at that time."""


RequestT = TypeVar("RequestT")
FactsT = TypeVar("FactsT", bound=Facts)


@dataclass(frozen=True)
class Planned(Generic[RequestT, FactsT]):
    """What a request will be charged for.

    Attributes:
        request: as asked.
        facts: what it names.
        canonical: the canonical request as JSON; holds nothing that depends on rows.
        budget: what it will cost.
    """

    request: RequestT
    facts: FactsT
    canonical: str
    budget: Budget

    @property
    def linked(self) -> Members | None:
        """The tables of a linked release; None of a release of one table."""
        return None

    @property
    def key(self) -> str:
        """SHA-256 of the canonical request."""
        return digest(self.canonical)

    @property
    def source(self) -> Source:
        """The protected table."""
        return self.facts.source

    @property
    def account(self) -> Account:
        """Of the table, at that time."""
        return self.facts.account


def canonical_request(facts: Facts, settings: dict[str, Any], alone: str = "") -> str:
    """A request about a table as JSON; equal texts are the same release.

    Args:
        facts: what it names.
        settings: all else that the answer depends on.
        alone: the user whose release it is alone; empty where it is the owner's, or users share releases.
    """
    whole = {"source": facts.source.key, "since": facts.account.since, **settings}
    if alone:
        whole["for"] = alone
    return json.dumps(whole, ensure_ascii=False, sort_keys=True)


def digest(text: str) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
