"""The users that the books know; a call of a release named `held…` goes on when there is a file `go` beside them.

A plan is held while it is looked up. The file `looked-up` has a line for each call that is looked up; there is a file
`held` from when a call has its turn and waits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsql.errors import InvalidQuery
from dpsql.evaluation import sandbox
from dpsql.service import users


@dataclass
class Held:
    bound: Any
    go: Path

    @property
    def columns(self):
        return self.bound.columns

    @property
    def is_stored(self):
        return self.bound.is_stored

    def is_of_now(self):
        return self.bound.is_of_now()

    def rows(self, progress, cancelled):
        self.go.with_name("held").touch()
        while not self.go.exists():
            progress.check()
            time.sleep(0.01)
        return self.bound.rows(progress, cancelled)


class HeldUsers(users.Users):
    def __init__(self, path):
        super().__init__(path)
        self.go = Path(path).with_name("go")

    def bind(self, user, function, arguments):
        with open(self.go.with_name("looked-up"), "a") as file:
            file.write(f"{user} {function}\n")
        held = str(arguments.get("release", "")).startswith("held")
        while held and function == "dp_plan" and not self.go.exists():
            time.sleep(0.01)
        bound = super().bind(user, function, arguments)
        return Held(bound, self.go) if held else bound


def open_held(path):
    return HeldUsers(path)


class BriefUsers(users.Users):
    """A plan named `endless` has a process of expressions for a second, as one that the limit of time ends."""

    def bind(self, user, function, arguments):
        if function == "dp_plan" and arguments.get("release") == "endless":
            with sandbox.empty_database() as empty:
                time.sleep(1)
                assert empty.execute("SELECT 1").fetchall() == [(1,)], "nobody took the process away"
            raise InvalidQuery("query: to try its expressions takes more than a second")
        return super().bind(user, function, arguments)


def open_brief(path):
    return BriefUsers(path)
