"""Time zones in PostgreSQL's spellings, and what DuckDB calls them.

'Europe/Berlin'   a name, in any case                  '+02:00', 'UTC+2'   POSIX: hours *west* of Greenwich
2, '5.5'          hours east of Greenwich              '<+02>-02'          what PostgreSQL shows of 2

DuckDB reads `UTC+2` the other way round, so it is handed names of its own only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import duckdb

from dpsql.errors import InvalidArgument

_HOURS: Final = re.compile(r"[-+]?(\d{1,4}(\.\d{0,9})?|\.\d{1,9})", re.ASCII)
_POSIX: Final = re.compile(
    r"(?:<[-+:A-Za-z0-9]{3,20}>|[A-Za-z]{3,20})?([-+]?)(\d{1,3})(?::(\d\d))?(?::(\d\d))?", re.ASCII
)
_CLOCK: Final = re.compile(r"([-+]?)(\d{1,3}):(\d\d)(?::(\d\d))?", re.ASCII)
_UNITS: Final = {"hour": 3600, "minute": 60, "second": 1}
_WEST, _EAST = -12, 14
"""Hours for which every version of DuckDB has a zone."""
_DAY: Final = 86_400
_OTHERS: Final = frozenset(
    """
    act aet agt art ast bet bst cat cnt cst ctt eat ect iet ist jst mit net nst plt pnt prt pst sst vst
    canada/east-saskatchewan us/pacific-new
    """.split()  # noqa: SIM905 - easier to read so
)
"""Names that DuckDB has and PostgreSQL has not, beside those of `SystemV`."""


@dataclass(frozen=True)
class Zone:
    """A time zone.

    Attributes:
        shown: as PostgreSQL shows it, without quotation marks.
        engine: as DuckDB takes it, likewise.
    """

    shown: str
    engine: str


UTC: Final = Zone("UTC", "UTC")


@lru_cache(maxsize=256)
def zone(value: str) -> Zone:
    """The time zone that a setting names.

    Raises:
        InvalidArgument: there is none, or it is none that is served.
    """
    if value.upper() == "UTC":
        return UTC
    if _HOURS.fullmatch(value):
        return _east(round(float(value) * 3600), value)
    name = names().get(value.lower())
    if name is not None:
        return Zone(name, name)
    posix = _POSIX.fullmatch(value)
    if posix is None:
        raise _unknown(value)
    sign, *parts = posix.groups()
    return Zone(value, _east((1 if sign == "-" else -1) * _seconds(parts), value).engine)


def of_interval(text: str, unit: str) -> str:
    """The hours of an `INTERVAL '…' HOUR TO MINUTE`, as `zone` takes them.

    Args:
        text: what stands in it.
        unit: the last of its units, such as `minute`; empty for none.
    """
    clock = _CLOCK.fullmatch(text.strip())
    if clock is not None:
        sign, *parts = clock.groups()
        seconds = (-1 if sign == "-" else 1) * _seconds(parts)
    elif _HOURS.fullmatch(text.strip()):
        seconds = round(float(text) * _UNITS.get(unit.lower(), 1))
    else:
        raise _unknown(text)
    return f"{seconds / 3600:.6f}"


def _seconds(parts: list[str | None]) -> int:
    return sum(int(part or 0) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))


def _east(seconds: int, value: str) -> Zone:
    """A zone that is always so many seconds east."""
    hours, minutes = divmod(abs(seconds) // 60, 60)
    if seconds == 0:
        return UTC if _HOURS.fullmatch(value) is None else Zone("<+00>-00", "UTC")
    whole = seconds // 3600
    if seconds % 3600 == 0 and _WEST <= whole <= _EAST:
        engine = f"Etc/GMT{-whole:+d}"
    elif abs(seconds) >= _DAY or seconds % 60 or duckdb.__version__ < "2":
        raise InvalidArgument(
            f'invalid value for parameter "TimeZone": "{value[:40]}". Served are names such as \'Europe/Berlin\', '
            "whole hours from -12 to 14, and with DuckDB 2 any minutes below a day"
        )
    else:
        engine = f"GMT{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}"
    shown = f"{hours:02}" + (f":{minutes:02}" if minutes else "")
    east, west = ("-", "+") if seconds < 0 else ("+", "-")
    return Zone(f"<{east}{shown}>{west}{shown}", engine)


def _unknown(value: str) -> InvalidArgument:
    return InvalidArgument(
        f'invalid value for parameter "TimeZone": "{value[:40]}". Write a name such as \'Europe/Berlin\', or hours '
        "east of Greenwich such as 2; rules of summer time are not served"
    )


@cache
def names() -> dict[str, str]:
    """The zones that both have, by their names in lower case."""
    with duckdb.connect() as connection:
        duckdb_zones = [str(row[0]) for row in connection.execute("SELECT name FROM pg_timezone_names()").fetchall()]
    return {
        name.lower(): name for name in duckdb_zones if not name.startswith("SystemV/") and name.lower() not in _OTHERS
    }
