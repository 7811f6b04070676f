"""The audit hook: what the service tells of itself, without private values."""

from __future__ import annotations

from typing import Any, Protocol

from dpsql.errors import DpsqlError


class Audit(Protocol):
    """Where events go. A call that charges is told before the charge, and is refused if this raises."""

    def __call__(self, event: dict[str, Any]) -> None:
        """Take an event down: texts and numbers, by name; `event` and `user` are always there."""


def unwatched(event: dict[str, Any]) -> None:
    """No audit."""


class NotAudited(DpsqlError):
    """The audit log cannot be written. Nothing was charged."""
