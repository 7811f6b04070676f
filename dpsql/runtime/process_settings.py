"""Settings of the whole process that some work needs otherwise: the first thread changes one, the last restores it."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

_LIMIT: Final = 50_000
_MUCH: Final = 500_000  # objects, of some 100 bytes
_Act = Callable[[], object]


class _Shared:
    """One setting, changed while any thread is inside.

    Args:
        undo: what puts it back as it is now; no function in Python, at whose start an exception thrown here could come.
        change: does so.

    Attributes:
        inside: so many threads.
    """

    def __init__(self, undo: Callable[[], _Act], change: _Act) -> None:
        self._undo, self._change, self._lock = undo, change, threading.Lock()
        self.inside = 0
        self._restore: _Act

    @contextmanager
    def changed(self) -> Iterator[None]:
        """For this thread's work, which may be broken off anywhere."""
        entered = False
        try:
            with self._lock:
                if not self.inside:
                    self._restore = self._undo()
                self.inside += 1
                entered = True
                self._change()
            yield
        finally:
            if entered:
                with self._lock:
                    self.inside -= 1
                    if not self.inside:
                        self._restore()


def _deepen() -> None:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _LIMIT))


_deep: Final = _Shared(lambda: partial(sys.setrecursionlimit, sys.getrecursionlimit()), _deepen)
_uncollected: Final = _Shared(lambda: gc.enable if gc.isenabled() else gc.disable, gc.disable)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for expressions inside one another: calls may go 50,000 deep, Python's own, which take no C stack.

    >>> before = sys.getrecursionlimit()
    >>> with deep_recursion(), deep_recursion():
    ...     sys.getrecursionlimit() >= 50_000
    True
    >>> sys.getrecursionlimit() == before
    True
    """
    with _deep.changed():
        yield


@contextmanager
def uncollected() -> Iterator[None]:
    """While any thread is inside, Python's garbage collector does not run by itself.

    Where threads come and go so that always some are inside, those that leave see to the garbage.
    """
    try:
        with _uncollected.changed():
            yield
    finally:
        if _uncollected.inside and gc.get_count()[0] > _MUCH:
            gc.collect()
