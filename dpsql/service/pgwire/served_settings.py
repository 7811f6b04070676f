"""Which values of PostgreSQL's settings are obeyed: a client is refused whatever would change answers and is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dpsql.errors import InvalidArgument

DEFAULT: Final = "default"
_UNITS: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "us": 1e-6, "d": 86400.0}
_LENGTH: Final = re.compile(r"(\d+)\s*(us|ms|s|min|h|d)?")
_NO_OFFSET: Final = re.compile(r"(<[-+]?\w{1,5}>)?[-+]?0{1,2}(:?00){0,2}(\.0+)?")
_UTC: Final = frozenset({"utc", "gmt", "uct", "universal", "zulu", "z", "greenwich", "gmt0", "gmt+0", "gmt-0", "local"})
_INTERVAL: Final = re.compile(r"interval(.*?)(hourtominute|hour|minute)?")
_FIXED: Final = {
    "intervalstyle": {"postgres"},
    "bytea_output": {"hex"},
    "standard_conforming_strings": {"on", "true", "yes", "1"},
    "client_encoding": {"utf8", "unicode"},
    "datestyle": {"iso", "mdy", "dmy", "ymd", "us", "european", "noneuropean", "noneuro", "euro"},
    "search_path": {"", "main", "public", "pg_catalog", "information_schema", "$user", "pg_temp"},
    "extra_float_digits": {"1", "2", "3"},
}
"""Names in lower case, and the words that a value may consist of."""
_SERVERS: Final = frozenset(
    [
        *("server_version", "server_version_num", "server_encoding", "is_superuser", "in_hot_standby", "ssl"),
        *("integer_datetimes", "max_identifier_length", "lc_collate", "lc_ctype", "session_authorization"),
    ]
)
"""Nobody changes them, in PostgreSQL neither."""
REPEATED: Final = frozenset({"statement_timeout", "application_name", "extra_float_digits"})
"""What SHOW says is the client's own value of these, and the server's of all others."""


def check(name: str, value: str) -> None:
    """Refuse a value that the server does not obey; a setting that changes no answer may have any.

    Args:
        name: in lower case.
        value: without quotation marks; several words are parted by commas.

    Raises:
        InvalidArgument: it is not obeyed.
    """
    if name in _SERVERS:
        raise InvalidArgument(f"{name} cannot be changed: it is the server's own")
    if name == "timezone" and not is_utc(value):
        raise InvalidArgument(
            f"TimeZone is {value[:40]!r}: only UTC is served. Write timezone('Europe/Berlin', moment) in the statement"
        )
    if name == "statement_timeout" and _LENGTH.fullmatch(value.strip()) is None:
        raise InvalidArgument(f"statement_timeout is {value[:40]!r}: write milliseconds, or '7s', '2min', '1h'")
    words = {word.strip().strip('"').lower() for word in value.split(",")}
    if name == "client_encoding":  # only letters and digits count there: 'UTF-8' is one name
        words = {"".join(sign for sign in value.lower() if sign.isalnum())}
    allowed = _FIXED.get(name, words)
    if not words <= allowed:
        raise InvalidArgument(f"{name} is {value[:40]!r}: served is {', '.join(sorted(allowed - {''}))}")


def is_utc(value: str) -> bool:
    """Whether a time zone is UTC, in any spelling of PostgreSQL's: a name, a number, an interval."""
    zone = value.strip().lower().removeprefix("etc/")
    interval = _INTERVAL.fullmatch(zone.replace(" ", ""))
    return zone in _UTC or _NO_OFFSET.fullmatch(interval[1] if interval else zone) is not None


def seconds(value: str) -> float:
    """How long a statement may take; 0 for any time."""
    length = _LENGTH.fullmatch(value.strip())
    return 0.0 if length is None else int(length[1]) * _UNITS[length[2] or ""]


def of_startup(stated: Mapping[str, str]) -> dict[str, str]:
    """Settings of the first message of a connection: its own, and those of `options`, as `-c statement_timeout=7s`.

    A time zone that the message itself names is left out. Drivers send that of their machine unasked, and the server
    tells them at once that it is UTC.

    Raises:
        InvalidArgument: an option is no setting.
    """
    settings = {name.lower(): value for name, value in stated.items() if name.lower() not in ("options", "timezone")}
    words = [word.replace("\0", " ") for word in stated.get("options", "").replace("\\ ", "\0").split()]
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word += words.pop(0)
        name, is_set, value = word[2:].partition("=")
        if word[:2] not in ("-c", "--") or not is_set:
            raise InvalidArgument(f"the option {word[:40]!r} is not served: write options='-c name=value'")
        settings[name.strip().lower().replace("-", "_")] = value
    return settings
