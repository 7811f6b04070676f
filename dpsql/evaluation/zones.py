"""Time zones: how often clocks of a zone strike together with those of UTC.

Where every offset of a zone is a multiple of s seconds, a period of s seconds of UTC lies within one hour, day or month
of the zone's clocks, unless they are changed inside. Offsets are from 1970 to 2037, as Python's `zoneinfo` has them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from sqlglot import exp

QUARTER: Final = 900
"""Seconds of which offsets have been multiples everywhere since 1972."""
_UTC: Final = "UTC"
_DAY: Final = 86_400
_HOUR: Final = 3600
_YEARS: Final = range(1970, 2038)


def zone_of(node: exp.Expr | None, value: exp.Expr) -> str | None:
    """The zone whose clock `value AT TIME ZONE 'zone'`, or `timezone('zone', value)`, shows; None of anything else.

    `value::TIMESTAMP` shows that of UTC, the time zone of all evaluations.
    """
    if type(node) is exp.Cast and node.to.is_type("TIMESTAMP", "TIMESTAMPNTZ"):
        return _UTC
    if isinstance(node, exp.AtTimeZone) and node.this is value:
        zone = node.args.get("zone")
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "timezone" and len(node.expressions) == 2:
        zone = node.expressions[0] if node.expressions[1] is value else None
    else:
        return None
    return str(zone.name) if isinstance(zone, exp.Literal) and zone.is_string else None


def clock_of(value: exp.Expr) -> tuple[exp.Expr, str]:
    """What shows a value on the clock of a zone, in parentheses or not, and the zone; itself and no zone otherwise."""
    shown, zone = value, ""
    while (outside := shown.parent) is not None:
        if not isinstance(outside, exp.Paren):
            clock = zone_of(outside, shown)
            if zone or clock is None:
                break
            zone = clock
        shown = outside
    return shown, zone


def shows_zones(trees: Iterable[exp.Expr]) -> bool:
    """Whether some expressions show the clock of a zone other than UTC, whose hours begin inside one of UTC."""
    columns = itertools.chain.from_iterable(tree.find_all(exp.Column) for tree in trees)
    return any(zone and step_of(zone) % _HOUR for _, zone in map(clock_of, columns))


@lru_cache(maxsize=64)
def step_of(zone: str) -> int:
    """Seconds of which every offset of a zone is a multiple; a quarter of an hour where Python has no such zone.

    >>> [step_of(zone) for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "no such zone")]
    [86400, 3600, 1800, 900, 900]
    """
    try:
        clock = UTC if zone == _UTC else ZoneInfo(zone)  # a system without zones has this one
    except (KeyError, ValueError, OSError):
        return QUARTER
    noons = (datetime(year, month, 15, 12, tzinfo=UTC) for year in _YEARS for month in range(1, 13))
    offsets = {noon.astimezone(clock).utcoffset() for noon in noons}
    return math.gcd(_DAY, *(int(offset.total_seconds()) for offset in offsets if offset is not None))
