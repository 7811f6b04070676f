"""Members: the tables of an account beside the one that it was opened for, as rows of `dpsql.member`.

A member has no budget: its releases are charged to its account. Its rows belong to the account's units in one of two
ways. By a link, its keys lead to a row of another table of the account. Or it names a privacy unit of its own, and the
owner says that the persons are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.books.ledger.store import Books
from dpsql.core.tree import Link, Role

TABLE: Final = "member"


@dataclass(frozen=True)
class Member:
    """A table of an account.

    Attributes:
        source: its key in the books.
        account: the account's.
        link: how its rows lead to rows of another table of the account; None where they name their unit.
        unit_column, unit_type: the column that names it, where no link leads to it.
        unit_rows: how many of its rows count of one unit, where rows are counted; None until the owner says so.
    """

    source: str
    account: str
    link: Link | None = None
    unit_column: str | None = None
    unit_type: str | None = None
    unit_rows: int | None = None

    @property
    def stated(self) -> dict[str, Any]:
        """What the ledger has of it, as JSON."""
        facts: dict[str, Any] = {"account": self.account, "unit_rows": self.unit_rows}
        if self.link is None:
            return facts | {"unit_column": self.unit_column, "unit_type": self.unit_type}
        link = self.link
        keys = {"key": list(link.key), "references": list(link.references)}
        roles = [[role.name, role.where, role.always] for role in link.roles]
        order = {"ordered_by": link.ordered_by} if link.ordered_by else {}
        return facts | {"parent": link.parent, **keys, "most": link.most} | ({"roles": roles} if roles else {}) | order


def member_from(source: str, stated: Mapping[str, Any]) -> Member:
    """The member that the ledger states."""
    link = None
    if "parent" in stated:
        keys = tuple(stated["key"]), tuple(stated["references"])
        roles = tuple(Role(*role) for role in stated.get("roles", ()))
        link = Link(source, stated["parent"], *keys, stated["most"], roles, stated.get("ordered_by", ""))
    unit = stated.get("unit_column"), stated.get("unit_type")
    return Member(source, stated["account"], link, *unit, stated["unit_rows"])


def list_members(books: Books) -> list[Member]:
    """All members, in the order in which they came."""
    if not books.has(TABLE):  # books of an earlier version, or none
        return []
    # sorted here: ORDER BY takes longer than the rest
    rows = sorted(books.run("SELECT number, source, stated FROM dpsql.member"))
    return [member_from(source, json.loads(stated)) for _, source, stated in rows]


def find_member(books: Books, source: str) -> Member | None:
    """What a table is a member as, None if it is none."""
    return next((member for member in list_members(books) if member.source == source), None)


def members_of(books: Books, account: str) -> list[Member]:
    """The members of an account, a parent before its children."""
    return [member for member in list_members(books) if member.account == account]


def unit_name(books: Books, member: Member) -> str | None:
    """What tells whose row a member's is: its own column, or the columns at the top that its keys lead to."""
    while member.link is not None and member.link.parent != member.account:
        above = find_member(books, member.link.parent)
        assert above is not None
        member = above
    if member.link is None:
        return member.unit_column
    return ", ".join(f"{member.account}.{name}" for name in member.link.references)


def stated_way(books: Books, member: Member) -> str:
    """How the rows of a member lead to the units of its account, as the ledger states it; equal texts are one way."""
    steps = [[member.source, member.stated]]
    while member.link is not None and member.link.parent != member.account:
        above = find_member(books, member.link.parent)
        assert above is not None
        member = above
        steps.append([member.source, member.stated])
    return json.dumps(steps, sort_keys=True)


def stated_members(books: Books) -> dict[str, dict[str, Any]]:
    """Every member as its row says, to be compared with what the ledger says."""
    return {member.source: member.stated for member in list_members(books)}
