"""What proposals from rows share: how many rows make a value worth naming, and columns that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dpsql.api.proposing.proposal import Ground, Proposal, with_later
from dpsql.core.column_types import kind_of
from dpsql.engines.source import Column

LEAST: Final = 10
"""Rows that a value must have to be named."""
_NUMBERED: Final = ("INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", "UHUGEINT", "VARCHAR", "UUID")


def disclosed(proposal: Proposal, unseen: Proposal) -> Proposal:
    """A proposal that was chosen by a look at the rows: what it declares is marked for the books.

    Args:
        proposal: what was chosen.
        unseen: what is proposed without a look; the same statement tells nothing of the rows.
    """
    same = proposal.how == unseen.how and proposal.load is None and proposal.ground is not Ground.LOOKED
    if proposal.how is None or same:
        return proposal
    how, plain = (None if one is None else {**one, "looked": True} for one in (proposal.how, proposal.plain))
    return replace(proposal, ground=Ground.LOOKED, how=how, plain=plain)


def keyed(column: Column, because: str) -> Proposal:
    """A column that tells rows apart: left out, with ids of their own for synthetic rows."""
    how, plain = with_later({"exclude": True}, ids=column.type in _NUMBERED)
    return Proposal(column.name, kind_of(column.type), Ground.LOOKED, because, how, plain)


def left_out(column: Column, because: str, options: Sequence[str] = ()) -> Proposal:
    """A column that nobody would keep."""
    return Proposal(
        column.name, kind_of(column.type), Ground.LOOKED, because, {"exclude": True}, options=tuple(options)
    )
