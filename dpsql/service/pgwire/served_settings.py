"""Which values of PostgreSQL's settings are obeyed: a client is refused whatever would change answers and is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dpsql.errors import InvalidArgument
from dpsql.service.server_settings import ServerSetting, server_settings

from .failed import Failed
from .zones import zone

DEFAULT: Final = "default"
_UNITS: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "us": 1e-6, "d": 86400.0}
_LENGTH: Final = re.compile(r"(\d+)\s*(us|ms|s|min|h|d)?")
_ON: Final = frozenset({"on", "true", "tru", "tr", "t", "yes", "ye", "y", "1"})
_OFF: Final = frozenset({"off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0"})
_NUMBER: Final = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?\s*(B|kB|MB|GB|TB|us|ms|s|min|h|d)?", re.ASCII)
_FIXED: Final = {
    "intervalstyle": {"postgres"},
    "bytea_output": {"hex"},
    "standard_conforming_strings": _ON,
    "array_nulls": _ON,
    "transform_null_equals": _OFF,
    "quote_all_identifiers": _OFF,
    "exit_on_error": _OFF,
    "timezone_abbreviations": {"default"},
    "client_encoding": {"utf8", "unicode"},
    "datestyle": {"iso", "mdy", "dmy", "ymd", "us", "european", "noneuropean", "noneuro", "euro"},
    "search_path": {"", "main", "public", "pg_catalog", "information_schema", "$user", "pg_temp"},
    "extra_float_digits": {"1", "2", "3"},
}
"""Settings that would change answers: names in lower case, and the words that a value may consist of."""
ROLES: Final = frozenset({"role", "session_authorization"})
_SERVERS: Final = frozenset({"is_superuser", "server_version", "server_version_num", "session_authorization"})
"""Nobody changes them, whatever PostgreSQL's own list says of them."""
_NEVER: Final = frozenset({"idle_in_transaction_session_timeout", "idle_session_timeout"})
"""Times after which PostgreSQL ends a session that says nothing: this server ends none then, so they are 0."""
REPEATED: Final = frozenset(
    {"statement_timeout", "application_name", "extra_float_digits", "timezone", "client_min_messages"}
)
"""What SHOW says is the client's own value of these, and the server's of all others."""


def is_custom(name: str) -> bool:
    """Whether it is a name of a client's own, as `myapp.user`, which PostgreSQL keeps and shows."""
    return "." in name.strip(".")


def changes_nothing(name: str) -> bool:
    """Whether a client may set it to any value, because no answer depends on it."""
    setting = server_settings().get(name)
    obeyed = name in _FIXED or name in _SERVERS or name in REPEATED or name in _NEVER
    return setting is not None and setting.context == "user" and not obeyed


def setting_of(name: str) -> ServerSetting:
    """The setting of PostgreSQL's of a name in lower case.

    Raises:
        Failed: it has none.
    """
    setting = server_settings().get(name)
    if setting is None:
        raise Failed("42704", f'unrecognized configuration parameter "{name[:60]}"')
    return setting


def check(name: str, value: str) -> None:
    """Refuse a value that the server does not obey; a setting that changes no answer may have any that is one.

    Args:
        name: in lower case.
        value: without quotation marks; several words are parted by commas.

    Raises:
        InvalidArgument: it is not obeyed, or no value of the setting.
        Failed: there is no setting of the name, or a client may not set it.
    """
    if is_custom(name):
        return
    setting = setting_of(name)
    if name in _SERVERS or setting.context not in ("user", "superuser"):
        raise Failed("55P02", f'parameter "{setting.name}" cannot be changed: it is the server\'s own')
    if setting.context == "superuser":
        raise Failed("42501", f'permission denied to set parameter "{setting.name}"')
    if name == "timezone":
        zone(value)
        return
    if name == "statement_timeout" and _LENGTH.fullmatch(value.strip()) is None:
        raise InvalidArgument(f"statement_timeout is {value[:40]!r}: write milliseconds, or '7s', '2min', '1h'")
    if name in _NEVER and (_LENGTH.fullmatch(value.strip()) is None or seconds(value) > 0):
        raise InvalidArgument(f"{name} is {value[:40]!r}: served is 0, because no session ends for being idle")
    words = {word.strip().strip('"').lower() for word in value.split(",")}
    if name == "client_encoding":  # only letters and digits count there: 'UTF-8' is one name
        words = {"".join(sign for sign in value.lower() if sign.isalnum())}
    if name not in _FIXED:
        _check_kind(setting, value.strip())
        return
    allowed = _FIXED[name]
    if not words <= allowed:
        raise InvalidArgument(f"{name} is {value[:40]!r}: served is {', '.join(sorted(allowed - {''}))}")


def _check_kind(setting: ServerSetting, value: str) -> None:
    """Whether it is a value of the setting's type."""
    fits = {
        "bool": value.lower() in _ON | _OFF,
        "enum": value.lower() in {*setting.words, *_ON, *_OFF},
        "integer": _NUMBER.fullmatch(value) is not None,
        "real": _NUMBER.fullmatch(value) is not None,
    }
    if not fits.get(setting.kind, True):
        takes = {"bool": "on or off", "enum": ", ".join(setting.words)}.get(setting.kind, "a number")
        raise InvalidArgument(f'invalid value for parameter "{setting.name}": "{value[:40]}". It takes {takes}')


def check_role(setting: str, role: str, user: str) -> None:
    """Refuse to be somebody else: `SET ROLE` and `SET SESSION AUTHORIZATION` take oneself.

    Args:
        setting: which of the two begins so.
        role: what it is set to.
        user: who logged in.

    Raises:
        Failed: it is another.
    """
    if role not in (user, "none", DEFAULT):
        what = "role" if setting.lower() == "role" else "session authorization"
        raise Failed("42501", f'permission denied to set {what} "{role[:60]}": you are "{user}", and stay so')


def seconds(value: str) -> float:
    """How long a statement may take; 0 for any time."""
    length = _LENGTH.fullmatch(value.strip())
    return 0.0 if length is None else int(length[1]) * _UNITS[length[2] or ""]


def of_startup(stated: Mapping[str, str]) -> dict[str, str]:
    """Settings of the first message of a connection: its own, and those of `options`, as `-c statement_timeout=7s`.

    Raises:
        InvalidArgument: an option is no setting.
    """
    settings = {name.lower(): value for name, value in stated.items() if name.lower() != "options"}
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
