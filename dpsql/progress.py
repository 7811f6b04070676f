"""How far long work is, and whether it should stop.

Long work calls `Progress.advance` at least twice a second; that is where an interrupt is noticed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tqdm import tqdm

from dpsql.errors import Interrupted

__all__ = ["Bar", "Interrupted", "Progress", "Quiet", "automatic", "polling", "should_stop"]

Stop = Callable[[], bool]


@contextmanager
def polling(is_due: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """While inside, does something ten times a second whenever it is due; on a thread of its own."""
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(0.1):
            if is_due():
                act()

    watcher = threading.Thread(target=watch, daemon=True, name="dpsql-polling")
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def should_stop(progress: Progress) -> bool:
    """Whether the work was interrupted."""
    try:
        progress.check()
    except Interrupted:
        return True
    return False


class Progress(Protocol):
    """Where work reports, and is told to stop."""

    def stage(self, name: str, steps: int | None = None) -> None:
        """A new stage begins, of `steps` steps if that is known."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Some steps of the stage are done; raises `Interrupted` when the work should stop."""

    def check(self) -> None:
        """Raises `Interrupted` when the work should stop; any thread may ask."""

    def close(self) -> None:
        """The work has ended."""


class Quiet:
    """Progress that shows nothing.

    Attributes:
        stop: returns true when the work should stop.
    """

    def __init__(self, stop: Stop = lambda: False) -> None:
        self._stop = stop

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        self.check()

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        self.check()

    def check(self) -> None:
        """See `Progress.check`."""
        if self._stop():
            raise Interrupted

    def close(self) -> None:
        """See `Progress.close`."""


class Bar(Quiet):
    """Progress as a bar on standard error, one for each stage; it appears after half a second."""

    def __init__(self, stop: Stop = lambda: False) -> None:
        super().__init__(stop)
        self._bar: tqdm[Any] | None = None

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        self.close()
        bar_format = None if steps else "{desc}: {elapsed}"
        self._bar = tqdm(total=steps, desc=f"dpsql {name}", leave=False, delay=0.5, bar_format=bar_format)
        self.check()

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(steps)
        self.check()

    def close(self) -> None:
        """See `Progress.close`."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def automatic(stop: Stop = lambda: False) -> Progress:
    """A bar where a person watches standard error (or DPSQL_PROGRESS is 1), else nothing."""
    wanted = os.environ.get("DPSQL_PROGRESS")
    shown = sys.stderr.isatty() if wanted is None else wanted == "1"
    return Bar(stop) if shown else Quiet(stop)
