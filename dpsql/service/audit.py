"""The audit hook: what the service tells of itself, without private values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from dpsql.errors import DpsqlError

LONG_TEXT: Final = 2_000
"""Characters of a text in a line; a longer one is cut."""
_MOST_ARGUMENTS: Final = 40
_LONG_NAME: Final = 60
_LONG_REASON: Final = 300
_LONG_ARGUMENT: Final = 2000


class Audit(Protocol):
    """Where events go. A call that charges is told before the charge, and is refused if this raises."""

    def __call__(self, event: dict[str, Any]) -> None:
        """Take an event down: texts and numbers, by name; `event` and `user` are always there."""


def unwatched(event: dict[str, Any]) -> None:
    """No audit."""


class NotAudited(DpsqlError):
    """The audit log cannot be written. Nothing was charged."""


def reason(error: BaseException) -> str:
    """Why a statement is refused: one line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:_LONG_REASON]


def stated_call(request: Mapping[str, Any]) -> dict[str, Any]:
    """Of a call of a dp_* function, what the audit says."""
    return {name: request.get(name, "") for name in ("user", "function", "arguments")}


def refused(request: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a call whose arguments nothing has looked at yet: what is long is cut."""
    whole = stated_call(request)
    arguments = whole["arguments"] if isinstance(whole["arguments"], Mapping) else {}
    first = list(arguments.items())[:_MOST_ARGUMENTS]
    cut = {str(name)[:_LONG_NAME]: _cut(value) for name, value in first}
    return {"user": whole["user"], "function": str(whole["function"])[:_LONG_NAME], "arguments": cut}


def _cut(value: object) -> object:
    """An argument as it is where it is short, and else the beginning of it."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= _LONG_ARGUMENT else f"{text[:_LONG_ARGUMENT]}…"
