"""DECIMAL(p, s): a tick is 10⁻ˢ."""

from __future__ import annotations

import re
from typing import Final

from dpsql.core.column_types.base import TEXT, ColumnType, register_family

_LARGEST_SCALE: Final = 18  # of bins, whose ticks are 64-bit numbers


@register_family(r"DECIMAL\(\d+,\s*(\d+)\)", "DECIMAL(9,2)", "DECIMAL(38,20)")
def decimal(match: re.Match[str]) -> ColumnType:
    """The type of a number of digits after the point. At most 100,000 ticks are above, which a DOUBLE tells apart."""
    name, scale = match[0], int(match[1])
    smallest = f"CAST('0.{'1'.rjust(scale, '0')}' AS DECIMAL({scale + 1}, {scale}))"
    value = f"CAST(CAST(x AS DECIMAL({38 - scale - 1}, 0)) * {smallest} AS {name})"
    return ColumnType(
        name,
        "decimals",
        step="10⁻ˢ" if scale <= _LARGEST_SCALE else "",
        scale=scale,
        is_number=True,
        tick_of=lambda text: int(text.replace(".", "")),
        from_tick=value if scale else None,
        equal_text=TEXT,
        some="0",
        ticks_above=f"TRY_CAST(round(TRY_CAST((x - y) AS DOUBLE) * {10**scale}) AS BIGINT)",
    )
