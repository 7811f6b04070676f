"""What clients say beside SELECT: settings, transactions, prepared statements. Nothing of it reaches DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dpsql.errors import InvalidArgument
from dpsql.service.server_settings import REPORTED, server_settings
from dpsql.service.tokens import tokens

from .failed import ABORTED, Failed
from .served_settings import DEFAULT, REPEATED, ROLES, check, check_role, is_custom, of_startup, seconds, setting_of
from .zones import Zone, of_interval, zone

STATUS: Final = {name: server_settings()[name.lower()].value for name in REPORTED}
"""What the server reports at the login."""
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
"""Of a client's. Names of its own, such as `myapp.user`, are kept, too."""
_IS_ABORTED: Final = "current transaction is aborted, commands ignored until end of transaction block"
_LONGEST_NAME: Final = 63
_LONGEST_VALUE: Final = 200
_DUCKDB_SHOWS: Final = frozenset({"TABLES", "ALL", "DATABASES", ""})


@dataclass(frozen=True)
class Values:
    """What a client had set at some moment.

    Attributes:
        values: of the session, by their names in lower case.
        local: of the transaction alone.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    local: Mapping[str, str] = field(default_factory=dict)


@dataclass
class CommandAnswer:
    """What a command answers.

    Attributes:
        tag: of the command.
        row: its one column and value, if it has one.
        deallocate: which prepared statement ends: a name, or all if it is empty; None for none.
        savepoint: the name of one that is made, released or gone back to.
    """

    tag: str
    row: tuple[str, str] | None = None
    deallocate: str | None = None
    savepoint: str | None = None


@dataclass
class Settings:
    """What a client has set, and whether it believes to be in a transaction.

    Attributes:
        values: by their names in lower case.
        transaction: `I` idle, `T` inside, `E` failed.
        most_seconds: of a statement, which the client may only lower.
        user: who logged in.
    """

    most_seconds: float
    user: str = ""
    transaction: str = "I"
    values: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)
    _before: dict[str, str] = field(default_factory=dict)
    _local: dict[str, str] = field(default_factory=dict)
    _sure: Values = field(default_factory=Values)

    @property
    def seconds(self) -> float:
        """How long a statement may take."""
        wanted = seconds(self._value("statement_timeout", "0"))
        return min(wanted, self.most_seconds) if wanted > 0 else self.most_seconds

    @property
    def notices(self) -> bool:
        """Whether the client is sent notices."""
        return self._value("client_min_messages", "notice").lower() not in ("warning", "error")

    @property
    def zone(self) -> Zone:
        """The time zone."""
        return zone(self._value("timezone", STATUS["TimeZone"]))

    @property
    def reported(self) -> dict[str, str]:
        """What the server reports whenever it changes."""
        return {
            "application_name": self._value("application_name", ""),
            "TimeZone": self._value("timezone", STATUS["TimeZone"]),
        }

    def begin(self, stated: Mapping[str, str]) -> None:
        """Take what the first message of the connection sets, to which RESET returns.

        Raises:
            InvalidArgument: a value is not obeyed.
        """
        for name, value in of_startup(stated).items():
            self._keep(name, value, self.values)
        self._first = dict(self.values)
        self.end()

    def trial(self) -> Settings:
        """A copy, which may obey a command that does not run yet."""
        return replace(self, values=dict(self.values), _local=dict(self._local), _before=dict(self._before))

    def of_now(self) -> Values:
        """What is set now."""
        return Values(dict(self.values), dict(self._local))

    def back_to(self, then: Values) -> None:
        """What is set is as it was."""
        self.values, self._local = dict(then.values), dict(then.local)

    def end(self) -> None:
        """The statements of a message, or those before a Sync, have run: outside of a transaction they were one."""
        if self.transaction == "I":
            self._sure = self.of_now()

    def check_going_on(self) -> None:
        """Refuse what is not the end of a transaction that has failed.

        Raises:
            Failed: it has.
        """
        if self.transaction == "E":
            raise Failed(ABORTED, _IS_ABORTED)

    def fail(self) -> None:
        """A statement failed: its transaction has, or what was set beside it in one message is undone."""
        if self.transaction == "I":
            self.back_to(self._sure)
        else:
            self.transaction = "E"

    def reset(self) -> None:
        """Everything is as it was when the connection began."""
        self.values = dict(self._first)
        self._local.clear()

    def _value(self, name: str, default: str) -> str:
        return self._local.get(name, self.values.get(name, default))

    def run(self, sql: str) -> CommandAnswer | None:
        """Obey a command; None if the statement is none, and DuckDB's to parse."""
        words = [text for kind, text in tokens(sql) if kind != "space"]
        word = words[0].upper() if words else ""
        returns = word == "ROLLBACK" and "TO" in map(str.upper, words)
        if word in (*_TAGS, "SHOW") and word not in _END and not returns:
            self.check_going_on()
        if word == "SHOW" and (words[1:] or [""])[0].upper() not in _DUCKDB_SHOWS:
            return self._show(words[1:])
        if word not in _TAGS:
            return None
        answer = CommandAnswer(_TAGS[word])
        if word in ("SAVEPOINT", "RELEASE") or returns:
            answer.savepoint = _unquoted(words[-1]) if words[-1].startswith('"') else words[-1].lower()
        elif word in _BEGIN:
            if self.transaction == "I":
                self._before = dict(self._sure.values)  # what the message set before belongs to the transaction
            self.transaction = "T"
        elif word in _END:
            answer.tag = "ROLLBACK" if self.transaction == "E" else answer.tag
            if answer.tag == "ROLLBACK":
                self.values = dict(self._sure.values) if self.transaction == "I" else self._before
            self._local.clear()
            self.transaction = "I"
            self.end()
        elif word == "SET":
            self._set(words[1:])
        elif word == "RESET":
            self._reset(words[1:])
        elif word == "DISCARD" and [argument.upper() for argument in words[1:]] != ["ALL"]:
            answer.tag = f"DISCARD {''.join(words[1:]).upper()[:20]}"
        elif word == "DISCARD":
            answer.deallocate = ""
        elif word == "DEALLOCATE":
            name = words[-1].strip('"')
            answer.deallocate = "" if name.upper() == "ALL" else name
        return answer

    def _set(self, words: list[str]) -> None:
        scope = words[0].upper() if words else ""
        if scope in ("SESSION", "LOCAL") and (scope == "LOCAL" or words[1:2] not in (["AUTHORIZATION"],)):
            words = words[1:]
        shouted = [word.upper() for word in words[:2]]
        if shouted[:1] in (["CHARACTERISTICS"], ["TRANSACTION"]):
            return
        if shouted == ["SESSION", "AUTHORIZATION"] or shouted[:1] in (["ROLE"], ["SESSION_AUTHORIZATION"]):
            role = words[-1] if len(words) > 1 else ""
            check_role(shouted[0], _unquoted(role) if role[:1] in ("'", '"') else role.lower(), self.user)
            return
        if len(words) < 2:
            raise Failed("42601", "a setting is set by SET name = value")
        if shouted == ["TIME", "ZONE"]:
            words = ["timezone", "=", *_zone(words[2:])]
        elif shouted[0] == "NAMES":
            words = ["client_encoding", "=", *words[1:]]
        name = _joined(words)
        value_at = next((place for place, word in enumerate(words) if word == "=" or word.upper() == "TO"), 1)
        words = words[value_at + 1 :]
        if [word.lower() for word in words] == [DEFAULT]:
            self._reset([name])
            return
        value = "".join(_unquoted(word) for word in words)
        if name == "timezone" and value.lower() == "local":
            self._reset([name])
        elif scope == "LOCAL" and self.transaction == "I":  # in PostgreSQL, too, it lasts until the statement's end
            check(name, value)
        else:
            self._keep(name, value, self._local if scope == "LOCAL" else self.values)
            if scope != "LOCAL":
                self._local.pop(name, None)

    def _keep(self, name: str, value: str, values: dict[str, str]) -> None:
        if name in ROLES:
            check_role(name, value, self.user)
            return
        check(name, value)
        if len(name) > _LONGEST_NAME:
            raise InvalidArgument(f"the setting {name[:20]!r}… has {len(name)} characters: {_LONGEST_NAME} is the most")
        if name not in values and len(values) >= _MOST_SETTINGS:
            raise InvalidArgument(f"{_MOST_SETTINGS} settings are set, the most that there may be: RESET ALL ends them")
        values[name] = zone(value).shown if name == "timezone" else value[:_LONGEST_VALUE]

    def _reset(self, words: list[str]) -> None:
        shouted = [word.upper() for word in words]
        if not words or shouted == ["ALL"]:
            self.reset()
            return
        if shouted in (["ROLE"], ["SESSION", "AUTHORIZATION"]):
            return
        name = "timezone" if shouted == ["TIME", "ZONE"] else _joined(words)
        if not is_custom(name):
            setting_of(name)
        self._local.pop(name, None)
        if name in self._first:
            self.values[name] = self._first[name]
        else:
            self.values.pop(name, None)

    def _show(self, words: list[str]) -> CommandAnswer | None:
        name = _joined(words) if "." in words else " ".join(words).strip('"').lower()
        name = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}.get(name, name)
        if name in ("session authorization", "session_authorization"):
            return CommandAnswer("SHOW", row=("session_authorization", self.user))
        if name == "role":
            return CommandAnswer("SHOW", row=("role", "none"))
        if is_custom(name) and (name in self.values or name in self._local):
            return CommandAnswer("SHOW", row=(name, self._value(name, "")))
        setting = setting_of(name)
        value = self._value(name, setting.value) if name in REPEATED else setting.value
        return CommandAnswer("SHOW", row=(setting.name, value))


def _joined(words: list[str]) -> str:
    """The name that words begin with: one, or some with points between."""
    count = 1
    while words[count : count + 1] == ["."]:
        count += 2
    return ".".join(_unquoted(word) for word in words[:count:2]).lower()


def _zone(words: list[str]) -> list[str]:
    """What follows TIME ZONE, as one value."""
    if len(words) < 2 or words[0].upper() != "INTERVAL":
        return words
    return [of_interval(_unquoted(words[1]), words[-1] if len(words) > 2 else "")]


def _unquoted(word: str) -> str:
    """A word or text of a statement, without its quotes."""
    for quote in ("'", '"'):
        if word.startswith(quote):
            return word[1:-1].replace(quote * 2, quote)
    return word
