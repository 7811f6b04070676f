"""What clients say beside SELECT: settings, transactions, prepared statements. Nothing of it reaches DuckDB."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from dpsql.errors import InvalidArgument
from dpsql.service.catalogue import VERSION
from dpsql.service.tokens import tokens

STATUS: Final = {
    "server_version": f"{VERSION} (dpsql)",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "default_transaction_read_only": "on",
    "in_hot_standby": "off",
}
"""What the server reports at the login."""
_MORE: Final = {
    "transaction_isolation": "repeatable read",
    "default_transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
    "search_path": "main",
    "statement_timeout": "0",
    "application_name": "",
    "extra_float_digits": "1",
    "max_identifier_length": "63",
    "bytea_output": "hex",
    "server_version_num": "140000",
    "ssl": "on",
    "lc_messages": "C",
    "lc_collate": "C",
    "lc_ctype": "C",
    "jit": "off",
}
_TAGS: Final = {
    "SET": "SET",
    "RESET": "RESET",
    "DISCARD": "DISCARD ALL",
    "UNLISTEN": "UNLISTEN",
    "LISTEN": "LISTEN",
    "CLOSE": "CLOSE CURSOR",
    "SAVEPOINT": "SAVEPOINT",
    "RELEASE": "RELEASE",
    "BEGIN": "BEGIN",
    "START": "START TRANSACTION",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK",
    "DEALLOCATE": "DEALLOCATE",
}
_BEGIN, _END = ("BEGIN", "START"), ("COMMIT", "END", "ROLLBACK", "ABORT")
_UNITS: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "us": 1e-6, "d": 86400.0}
_MOST_SETTINGS: Final = 100
"""Of a client's. Some set what this server has not, so a name that is unknown is kept."""
_LONGEST_NAME: Final = 63
_LONGEST_VALUE: Final = 200
_LENGTH: Final = re.compile(r"(\d+)\s*(us|ms|s|min|h|d)?")
_DUCKDB_SHOWS: Final = frozenset({"TABLES", "ALL", "DATABASES", ""})


@dataclass
class Said:
    """What a command answers.

    Attributes:
        tag: of the command.
        row: its one column and value, if it has one.
        deallocate: which prepared statement ends: a name, or all if it is empty; None for none.
        reported: a setting that the server reports when it changes.
        savepoint: the name of one that is made, released or gone back to.
    """

    tag: str
    row: tuple[str, str] | None = None
    deallocate: str | None = None
    reported: tuple[str, str] | None = None
    savepoint: str | None = None


@dataclass
class Settings:
    """What a client has set, and whether it believes to be in a transaction.

    Attributes:
        values: by their names in lower case.
        transaction: `I` idle, `T` inside, `E` failed.
        most_seconds: of a statement, which the client may only lower.
    """

    most_seconds: float
    transaction: str = "I"
    values: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long a statement may take."""
        found = _LENGTH.fullmatch(self.values.get("statement_timeout", "0").strip())
        wanted = 0.0 if found is None else int(found[1]) * _UNITS[found[2] or ""]
        return min(wanted, self.most_seconds) if wanted > 0 else self.most_seconds

    def run(self, sql: str) -> Said | None:
        """Obey a command; None if the statement is none, and DuckDB's to parse."""
        found = [text for kind, text in tokens(sql) if kind != "space"]
        word = found[0].upper() if found else ""
        if word == "SHOW" and (found[1:] or [""])[0].upper() not in _DUCKDB_SHOWS:
            return self._show(found[1:])
        if word not in _TAGS:
            return None
        said = Said(_TAGS[word])
        if word in ("SAVEPOINT", "RELEASE") or (word == "ROLLBACK" and "TO" in map(str.upper, found)):
            said.savepoint = _unquoted(found[-1]) if found[-1].startswith('"') else found[-1].lower()
        elif word in _BEGIN:
            self.transaction = "T"
        elif word in _END:
            said.tag = "ROLLBACK" if self.transaction == "E" else said.tag
            self.transaction = "I"
        elif word == "SET":
            said.reported = self._set(found[1:])
        elif word == "RESET":
            self._reset(found[1:])
        elif word == "DISCARD" and [one.upper() for one in found[1:]] != ["ALL"]:
            said.tag = f"DISCARD {''.join(found[1:]).upper()[:20]}"
        elif word == "DISCARD":
            said.deallocate = ""
        elif word == "DEALLOCATE":
            name = found[-1].strip('"')
            said.deallocate = "" if name.upper() == "ALL" else name
        return said

    def _set(self, words: list[str]) -> tuple[str, str] | None:
        while words and words[0].upper() in ("SESSION", "LOCAL", "GLOBAL"):
            words = words[1:]
        if len(words) < 2 or words[0].upper() in ("CHARACTERISTICS", "TRANSACTION"):
            return None
        if [word.upper() for word in words[:2]] == ["TIME", "ZONE"]:
            words = ["TimeZone", "=", *words[2:]]
        name = words[0].strip('"')
        value = "".join(_unquoted(word) for word in words[2:])
        if name.lower() == "client_encoding" and value.upper().replace("-", "") not in ("UTF8", "UNICODE", "DEFAULT"):
            raise InvalidArgument(f"client_encoding is {value!r}: only UTF8 is served")
        if name.lower() == "timezone" and value.upper() not in ("UTC", "GMT", "DEFAULT", "ETC/UTC", "Z"):
            raise InvalidArgument(f"TimeZone is {value[:40]!r}: only UTC is served, use timezone(…) in the statement")
        if len(name) > _LONGEST_NAME:
            raise InvalidArgument(f"the setting {name[:20]!r}… has {len(name)} characters: {_LONGEST_NAME} is the most")
        if name.lower() not in self.values and len(self.values) >= _MOST_SETTINGS:
            raise InvalidArgument(f"{_MOST_SETTINGS} settings are set, the most that there may be: RESET ALL ends them")
        self.values[name.lower()] = value[:_LONGEST_VALUE]
        return ("application_name", value[:_LONGEST_VALUE]) if name.lower() == "application_name" else None

    def _reset(self, words: list[str]) -> None:
        if not words or words[0].upper() == "ALL":
            self.values.clear()
        else:
            self.values.pop(words[0].lower(), None)

    def _show(self, words: list[str]) -> Said | None:
        name = " ".join(words).strip('"').lower()
        name = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}.get(name, name)
        known = {key.lower(): (key, value) for key, value in {**STATUS, **_MORE}.items()}
        if name not in known:
            raise InvalidArgument(f"there is no setting {name[:60]!r} to show")
        key, value = known[name]
        return Said("SHOW", row=(key, self.values.get(name, value)))


def _unquoted(word: str) -> str:
    """A word or text of a statement, without its quotes."""
    for quote in ("'", '"'):
        if word.startswith(quote):
            return word[1:-1].replace(quote * 2, quote)
    return word
