"""Work that cannot be broken off, as a compilation by JAX is, on a thread of its own: nobody has to wait for it.

The thread is no daemon, because Python ends a daemon inside C++ at exit, which aborts the process. So Python waits at
exit for a thread that was left. A process of our own, a command that was interrupted, ends without that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from dpsql.errors import Interrupted
from dpsql.runtime.progress import Progress

Result = TypeVar("Result")
_POLL_SECONDS: Final = 0.05


def in_background(progress: Progress, work: Callable[[Progress], Result]) -> Result:
    """The result of work on another thread; whatever ends the wait for it leaves it to end by itself.

    Args:
        progress: asked twenty times a second; `Interrupted`, which it raises, leaves the work.
        work: is given a progress of its own, which also ends it once it was left. It must change nothing that others
            see, because it may go on for a while after the caller has returned.

    >>> from dpsql.runtime.progress import Quiet
    >>> in_background(Quiet(), lambda progress: 6 * 7)
    42
    """
    task = _Task(progress, work)
    thread = threading.Thread(
        target=task.run, name="dpsql-background", daemon=False
    )  # on DuckDB's threads it would be one
    thread.start()
    try:
        while not task.ended.wait(_POLL_SECONDS):
            progress.check()
    finally:
        task.is_left = True
    return task.result()


class _Task(Generic[Result]):
    """Work with its outcome, and the progress that it is given.

    Attributes:
        ended: set when there is an outcome.
        is_left: whether nobody waits for it any more.
    """

    def __init__(self, progress: Progress, work: Callable[[Progress], Result]) -> None:
        self._progress, self._work = progress, work
        self._outcome: list[Result] = []
        self._error: BaseException | None = None
        self.ended, self.is_left = threading.Event(), False

    def run(self) -> None:
        """Do the work, and keep what comes of it."""
        try:
            self._outcome.append(self._work(self))
        except BaseException as error:
            self._error = error
        self.ended.set()

    def result(self) -> Result:
        """What came of it, also where that is an exception."""
        error, self._error = self._error, None  # which else would hold this, and itself
        if error is not None:
            raise error
        return self._outcome[0]

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        self._check_left()
        self._progress.stage(name, steps)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        self._check_left()
        self._progress.advance(steps, note)

    def rounds(self, name: str, count: int) -> None:
        """See `Progress.rounds`."""
        self._check_left()
        self._progress.rounds(name, count)

    def round_done(self) -> None:
        """See `Progress.round_done`."""
        self._check_left()
        self._progress.round_done()

    def check(self) -> None:
        """See `Progress.check`."""
        self._check_left()
        self._progress.check()

    def close(self) -> None:
        """See `Progress.close`; the caller closes its own."""

    def _check_left(self) -> None:
        if self.is_left:
            raise Interrupted
