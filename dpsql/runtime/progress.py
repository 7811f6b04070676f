"""How far long work is, and whether it should stop.

Long work calls `Progress.advance` at least twice a second; that is where an interrupt is noticed.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tqdm import tqdm

from dpsql.errors import Interrupted
from dpsql.runtime.process_settings import uncollected

__all__ = ["Bar", "Interrupted", "Progress", "Quiet", "breaking", "polling", "should_stop", "unbreakable"]

Stop = Callable[[], bool]
unbreakable: Final = threading.Lock()
"""While a thread holds it, no exception is thrown into any by `breaking`: for what must not be left half done."""


@contextmanager
def polling(is_due: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """While inside, does something quick, twenty times a second, whenever it is due; on another thread."""

    def look() -> None:
        if is_due():
            act()

    with _watched(look):
        yield


@contextmanager
def breaking(progress: Progress) -> Iterator[None]:
    """Work inside that is Python's alone, as to parse a long text is, ends with `Interrupted` when `progress` says so.

    The exception is thrown into this thread from another, wherever it is: so nothing may be inside that must not be
    left half done, and no thread be started there, for until it runs Python takes it for the one that starts it.
    """
    work = _Work(progress)
    with uncollected():  # an exception would be lost in its callbacks
        try:
            with _watched(work.throw):
                yield
        except Exception:  # perhaps what a parser made of it
            if work.thrown > 0:
                raise Interrupted from None
            raise
        if work.thrown > 0:  # and lost, or just too late
            raise Interrupted


@dataclass(eq=False)
class _Work:
    """What a thread does that may be broken off."""

    progress: Progress
    thread: int = field(default_factory=threading.get_ident)
    thrown: float = -math.inf

    def throw(self) -> None:
        """Break it off if it should stop; again where that was lost, but not while it is on its way."""
        if not should_stop(self.progress) or time.monotonic() - self.thrown <= 1:
            return
        if unbreakable.acquire(blocking=False):  # else at the next look
            try:
                self.thrown = time.monotonic()
                throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
                throw(ctypes.c_ulong(self.thread), ctypes.py_object(Interrupted))
            finally:
                unbreakable.release()


@dataclass(eq=False)
class _Look:
    """What the watcher does again and again, until it is over."""

    act: Callable[[], None]
    over: bool = False


class _Watcher:
    """Looks twenty times a second, on one thread that is kept: to start one takes a core's time.

    A thread that still runs when Python exits keeps all modules alive, and every connection that they hold; DuckDB then
    prints dozens of lines about them. So the thread is ended at exit.

    Attributes:
        lock: held while it looks.
    """

    def __init__(self) -> None:
        self.renew()
        atexit.register(self._end)

    def renew(self) -> None:
        """Begin anew, as in a process that was forked, where no thread but one is there."""
        self.lock = threading.Lock()
        self._looks: list[_Look] = []
        self._some, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, look: _Look) -> None:
        """From now on it is done, until it is over; at exit no more."""
        with self.lock:
            self._looks.append(look)
            if not self._ended.is_set() and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._watch, daemon=True, name="dpsql-watcher")
                self._thread.start()
        self._some.set()

    def _end(self) -> None:
        with self.lock:
            self._ended.set()
            self._some.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while self._some.wait() and not self._ended.wait(0.05):
            with self.lock:
                self._looks = [look for look in self._looks if not look.over]
                for look in self._looks:
                    self._look(look)
                if not self._looks and not self._ended.is_set():
                    self._some.clear()

    def _look(self, look: _Look) -> None:
        try:
            look.act()
        except Exception as error:
            look.over = True  # the others go on
            hooked = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
            threading.excepthook(hooked)


_watcher: Final = _Watcher()


def _forget() -> None:
    """In a process that was forked: what other threads of its parent held or watched is not its own."""
    if unbreakable.locked():  # by a thread that is not there
        unbreakable.release()
    _watcher.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def _watched(act: Callable[[], None]) -> Iterator[None]:
    """While inside, the watcher does this; after it no more, also where the work is broken off anywhere."""
    look = _Look(act)
    try:
        _watcher.add(look)
        yield
    finally:
        try:
            look.over = True
        finally:
            look.over = True  # if the first was broken off
            with _watcher.lock:  # until nothing is done that began before
                pass


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

    def rounds(self, name: str, count: int) -> None:
        """So many rounds begin, each of several stages, which are shown as parts of them until the last is done."""

    def round_done(self) -> None:
        """One round is done; raises `Interrupted` when the work should stop."""

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

    def rounds(self, name: str, count: int) -> None:
        """See `Progress.rounds`."""
        self.check()

    def round_done(self) -> None:
        """See `Progress.round_done`."""
        self.check()

    def check(self) -> None:
        """See `Progress.check`."""
        if self._stop():
            raise Interrupted

    def close(self) -> None:
        """See `Progress.close`."""


class Bar(Quiet):
    """Progress as a bar on standard error, one for each stage; it appears after half a second.

    While there are rounds the bar is theirs, with the time that is left, and names the stage inside the round.
    """

    def __init__(self, stop: Stop = lambda: False) -> None:
        super().__init__(stop)
        self._bar: tqdm[Any] | None = None
        self._in_rounds = False

    def rounds(self, name: str, count: int) -> None:
        """See `Progress.rounds`."""
        self._in_rounds = False
        self.stage(name, count)
        self._in_rounds = True

    def round_done(self) -> None:
        """See `Progress.round_done`."""
        if self._bar is not None and self._in_rounds:
            self._bar.update(1)
            if self._bar.n >= (self._bar.total or 0):
                self._in_rounds = False
        self.check()

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        if self._in_rounds and self._bar is not None:
            self._bar.set_postfix_str(name, refresh=False)
            self.check()
            return
        self.close()
        bar_format = None if steps else "{desc}: {elapsed}"
        self._bar = tqdm(total=steps, desc=f"dpsql {name}", leave=False, delay=0.5, bar_format=bar_format)
        self.check()

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        if self._bar is not None and not self._in_rounds:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(steps)
        self.check()

    def close(self) -> None:
        """See `Progress.close`."""
        self._in_rounds = False
        if self._bar is not None:
            self._bar.close()
            self._bar = None
