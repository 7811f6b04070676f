"""What clients say beside SELECT: settings, transactions, prepared statements. Nothing of it reaches DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dpsql.errors import InvalidArgument
from dpsql.service.catalogue import VERSION
from dpsql.service.tokens import tokens

from .served_settings import DEFAULT, REPEATED, check, of_startup, seconds

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
_MOST_SETTINGS: Final = 100
"""Of a client's. Some set what this server has not, so a name that is unknown is kept."""
_LONGEST_NAME: Final = 63
_LONGEST_VALUE: Final = 200
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
    _first: dict[str, str] = field(default_factory=dict)
    _before: dict[str, str] = field(default_factory=dict)
    _local: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long a statement may take."""
        wanted = seconds(self._value("statement_timeout", "0"))
        return min(wanted, self.most_seconds) if wanted > 0 else self.most_seconds

    def begin(self, stated: Mapping[str, str]) -> None:
        """Take what the first message of the connection sets, to which RESET returns.

        Raises:
            InvalidArgument: a value is not obeyed.
        """
        for name, value in of_startup(stated).items():
            self._keep(name, value, self.values)
        self._first = dict(self.values)

    def reset(self) -> None:
        """Everything is as it was when the connection began."""
        self.values = dict(self._first)
        self._local.clear()

    def _value(self, name: str, default: str) -> str:
        return self._local.get(name, self.values.get(name, default))

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
            if self.transaction == "I":
                self._before = dict(self.values)
            self.transaction = "T"
        elif word in _END:
            said.tag = "ROLLBACK" if self.transaction == "E" else said.tag
            if said.tag == "ROLLBACK" and self.transaction != "I":
                self.values = self._before
            self._local.clear()
            self.transaction = "I"
        elif word == "SET":
            said.reported = self._set(found[1:])
        elif word == "RESET":
            said.reported = self._reset(found[1:])
        elif word == "DISCARD" and [one.upper() for one in found[1:]] != ["ALL"]:
            said.tag = f"DISCARD {''.join(found[1:]).upper()[:20]}"
        elif word == "DISCARD":
            said.deallocate = ""
        elif word == "DEALLOCATE":
            name = found[-1].strip('"')
            said.deallocate = "" if name.upper() == "ALL" else name
        return said

    def _set(self, words: list[str]) -> tuple[str, str] | None:
        scope = words[0].upper() if words else ""
        if scope in ("SESSION", "LOCAL", "GLOBAL"):
            words = words[1:]
        if len(words) < 2 or words[0].upper() in ("CHARACTERISTICS", "TRANSACTION"):
            return None
        if [word.upper() for word in words[:2]] == ["TIME", "ZONE"]:
            words = ["TimeZone", "=", *words[2:]]
        elif words[0].upper() == "NAMES":
            words = ["client_encoding", "=", *words[1:]]
        name = words[0].strip('"').lower()
        if [word.lower() for word in words[2:]] == [DEFAULT]:
            return self._reset([name])
        value = "".join(_unquoted(word) for word in words[2:])
        if scope == "LOCAL" and self.transaction == "I":  # in PostgreSQL, too, it lasts until the statement's end
            check(name, value)
            return None
        self._keep(name, value, self._local if scope == "LOCAL" else self.values)
        if scope != "LOCAL":
            self._local.pop(name, None)
        return ("application_name", value[:_LONGEST_VALUE]) if name == "application_name" else None

    def _keep(self, name: str, value: str, values: dict[str, str]) -> None:
        check(name, value)
        if len(name) > _LONGEST_NAME:
            raise InvalidArgument(f"the setting {name[:20]!r}… has {len(name)} characters: {_LONGEST_NAME} is the most")
        if name not in values and len(values) >= _MOST_SETTINGS:
            raise InvalidArgument(f"{_MOST_SETTINGS} settings are set, the most that there may be: RESET ALL ends them")
        values[name] = value[:_LONGEST_VALUE]

    def _reset(self, words: list[str]) -> tuple[str, str] | None:
        if not words or words[0].upper() == "ALL":
            self.reset()
            return "application_name", self._first.get("application_name", "")
        name = "timezone" if [word.upper() for word in words] == ["TIME", "ZONE"] else words[0].lower()
        self._local.pop(name, None)
        if name in self._first:
            self.values[name] = self._first[name]
        else:
            self.values.pop(name, None)
        return ("application_name", self._first.get(name, "")) if name == "application_name" else None

    def _show(self, words: list[str]) -> Said | None:
        name = " ".join(words).strip('"').lower()
        name = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}.get(name, name)
        known = {key.lower(): (key, value) for key, value in {**STATUS, **_MORE}.items()}
        if name not in known:
            raise InvalidArgument(f"there is no setting {name[:60]!r} to show")
        key, value = known[name]
        return Said("SHOW", row=(key, self._value(name, value) if name in REPEATED else value))


def _unquoted(word: str) -> str:
    """A word or text of a statement, without its quotes."""
    for quote in ("'", '"'):
        if word.startswith(quote):
            return word[1:-1].replace(quote * 2, quote)
    return word
