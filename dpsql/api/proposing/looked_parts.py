"""What proposals from rows share: how many rows make a value worth naming, and columns that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpsql.api.proposing.proposal import Ground, Proposal, with_later
from dpsql.core.column_types import kind_of
from dpsql.engines.source import Column

LEAST: Final = 10
"""Rows that a value must have to be named."""
_NUMBERED: Final = ("INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", "UHUGEINT", "VARCHAR", "UUID")


def keyed(column: Column, because: str) -> Proposal:
    """A column that tells rows apart: left out, with ids of their own for synthetic rows."""
    how, plain = with_later({"exclude": True}, ids=column.type in _NUMBERED)
    return Proposal(column.name, kind_of(column.type), Ground.LOOKED, because, how, plain)


def left_out(column: Column, because: str, options: Sequence[str] = ()) -> Proposal:
    """A column that nobody would keep."""
    return Proposal(
        column.name, kind_of(column.type), Ground.LOOKED, because, {"exclude": True}, options=tuple(options)
    )
