"""The settings that PostgreSQL has: who may set each, what it takes, and its value.

The file beside this one was made once from a real PostgreSQL, by `tests.service.postgres_catalogue`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

VERSION: Final = "14.0"
"""Of PostgreSQL, as clients are told: they choose by it how to ask."""
NUMBER: Final = "140000"
OWN: Final = {
    "server_version": f"{VERSION} (dpsql)",
    "server_version_num": NUMBER,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "is_superuser": "off",
    "default_transaction_read_only": "on",
    "in_hot_standby": "off",
    "transaction_isolation": "repeatable read",
    "default_transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
    "search_path": "main",
    "ssl": "on",
    "lc_messages": "C",
    "lc_collate": "C",
    "lc_ctype": "C",
    "jit": "off",
}
"""Values of this server that are others than PostgreSQL's."""
REPORTED: Final = (
    *("server_version", "server_encoding", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone"),
    *("integer_datetimes", "standard_conforming_strings", "is_superuser", "default_transaction_read_only"),
    "in_hot_standby",
)
"""Those that a client is told when it has logged in."""
FILE: Final = Path(__file__).with_name("postgres_settings.txt")


@dataclass(frozen=True)
class ServerSetting:
    """A setting.

    Attributes:
        name: as PostgreSQL spells it.
        context: who may set it, such as `user` or `superuser`.
        kind: `bool`, `integer`, `real`, `enum` or `string`.
        words: those that an enum takes.
        value: the one that it has by itself, as SHOW shows it.
        bare: the same as a view shows it: without its unit.
        unit: of the bare value; empty if it has none.
    """

    name: str
    context: str
    kind: str
    words: tuple[str, ...]
    value: str
    bare: str
    unit: str


@cache
def server_settings() -> dict[str, ServerSetting]:
    """All, by their names in lower case."""
    rows = (line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines())
    listed = {
        name.lower(): ServerSetting(
            name,
            context,
            kind,
            tuple(words.split(",")) if words else (),
            OWN.get(name, value),
            OWN.get(name, bare),
            unit,
        )
        for name, context, kind, words, value, bare, unit in rows
    }
    return {**listed, "is_superuser": ServerSetting("is_superuser", "internal", "bool", (), "off", "off", "")}
