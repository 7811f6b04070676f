"""What proposals from rows share: how many rows make a value worth naming, and columns that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dpsql.api.proposing.proposal import Ground, Proposal
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

    def marked(proposal: Proposal, unseen: Proposal) -> Proposal:
        same = proposal.how == unseen.how and proposal.load is None and proposal.ground is not Ground.LOOKED
        if proposal.how is None or same:
            return proposal
        return replace(proposal, ground=Ground.LOOKED, how={**proposal.how, "looked": True})

    coarser = (marked(each, unseen.at(level)) for level, each in enumerate(proposal.coarser, 1))
    finer = (marked(each, unseen) for each in proposal.finer)
    return replace(marked(proposal, unseen), coarser=tuple(coarser), finer=tuple(finer))


def keyed(column: Column, because: str) -> Proposal:
    """A column that tells rows apart: left out, with ids of their own for synthetic rows."""
    how = {"exclude": True} | ({"ids": True} if column.type in _NUMBERED else {})
    return Proposal(column.name, kind_of(column.type), Ground.LOOKED, because, how)


def left_out(column: Column, because: str, options: Sequence[str] = ()) -> Proposal:
    """A column that nobody would keep."""
    return Proposal(column.name, kind_of(column.type), Ground.LOOKED, because, {"exclude": True}, tuple(options))
