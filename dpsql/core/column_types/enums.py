"""ENUM: its members are listed in its type, and public by the owner's word only."""

from __future__ import annotations

import re
from typing import Final

from dpsql.core.column_types.base import TEXT, ColumnType, register_family

_MEMBER: Final = r"'(?:[^']|'')*'"


@register_family(rf"ENUM\({_MEMBER}(?:, ?{_MEMBER})*\)", "ENUM('a', 'b')")
def enum(match: re.Match[str]) -> ColumnType:
    """The type of a list of members."""
    members = tuple(member[1:-1].replace("''", "'") for member in re.findall(_MEMBER, match[0]))
    return ColumnType(match[0], "members in the type", members=members, equal_text=TEXT)
