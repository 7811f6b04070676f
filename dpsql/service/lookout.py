"""What a user's process looks at again and again: statements that are late, and whether its sessions may go on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from dpsql.errors import DpsqlError

from .analyst import Analyst
from .calls import Calls
from .line import Line
from .workers import LATE

LOOK_SECONDS: Final = 0.05
RIGHTS_SECONDS: Final = 1.0
Session = TypeVar("Session")


def look(analysts: Iterable[tuple[int, Analyst]], line: Line, at_work: Sequence[int] = ()) -> None:
    """Interrupt what is cancelled or late; where that does nothing, end this process, and say that it is there.

    Args:
        analysts: of the sessions, with their numbers.
        line: to who started this process.
        at_work: sessions that a statement is run for, where the door does not see that by itself.
    """
    for number, analyst in analysts:
        analyst.look()
        if analyst.is_stuck():
            line.tell(LATE, number)
            os._exit(1)
    line.beat(at_work)


def that_may_not_stay(sessions: Iterable[tuple[Session, Analyst]], calls: Calls) -> Iterator[tuple[Session, Analyst]]:
    """Sessions of users who were revoked, or may do or see less or else than when they came."""
    pairs = list(sessions)
    for login in {analyst.login for _, analyst in pairs}:
        with suppress(DpsqlError):  # the keeper is starting again: later
            shown = calls.shown_now(login)
            of_login = [pair for pair in pairs if pair[1].login == login]
            yield from [pair for pair in of_login if not pair[1].may_stay(shown)]
