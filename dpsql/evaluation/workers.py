"""Processes in which people's expressions are tried, so that an expression that ends a process ends one of these.

The first is started when it is needed. It stays, since to start one takes a third of a second; after a death the next
use starts another. Each thread that tries expressions has one to itself. There are never more than `_MOST`: who finds
them all busy waits.
"""

from __future__ import annotations

import atexit
import multiprocessing.spawn
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import duckdb

from dpsql.errors import DpsqlError
from dpsql.evaluation.messages import MOST_OF_ROWS, Ended, Head, Numbers, read, receive, rows_of, send
from dpsql.runtime.children import handed
from dpsql.runtime.progress import Progress, unbreakable

_MOST: Final = 8
_IDLE: Final = 2
_MODULE: Final = "dpsql.evaluation.worker"


class Died(duckdb.Error):
    """The process ended while it tried an expression; what else it held is lost."""

    def __init__(self) -> None:
        super().__init__("an expression is too large, or too deep inside another, to be tried on the declared domain")


class Worker:
    """One process, used by one thread at a time."""

    def __init__(self) -> None:
        self._process = _started()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._alive, self._is_ready, self._opened = True, False, 0

    def is_running(self) -> bool:
        """Whether it can be asked."""
        return self._alive and self._process.poll() is None

    def _get_ready(self) -> None:
        """Wait until it runs.

        Raises:
            DpsqlError: it does not.
        """
        try:
            version = receive(self._from)[0].get("duckdb")
        except Ended:
            version = None
        if version != duckdb.__version__:
            killed = not self._alive
            self.kill()
            if killed:  # while it started
                raise Died
            raise DpsqlError(
                f"the process in which expressions are tried does not start: run {_python()!r} -m {_MODULE} by hand, "
                "which says why; it needs the same DuckDB as this one"
            )
        self._is_ready = True

    def ask(self, head: Head, numbers: Sequence[Numbers] = ()) -> tuple[Head, list[Numbers]]:
        """Have something done.

        Raises:
            Died: it ended, now or before.
            duckdb.Error: DuckDB's error.
        """
        if not self._alive:
            raise Died
        try:
            if not self._is_ready:
                self._get_ready()
            send(self._to, head, numbers)
            reply, columns = receive(self._from, *([MOST_OF_ROWS] if head["do"] == "rows" else []))
            error = reply.get("error")
        except (Ended, OSError):
            self.kill()
            raise Died from None
        except BaseException:  # an answer may be on its way, which would be taken for that of the next question
            self.kill()
            raise
        if error is not None:
            raise _error_of(error)
        return reply, columns

    def open(self) -> Empty:
        """A new empty database in it."""
        self._opened += 1
        self.ask({"do": "open", "on": self._opened})
        return Empty(self, self._opened)

    def kill(self) -> None:
        """End it; any thread may do so, and then whoever waits for it gets `Died`."""
        self._alive = False
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it and forget it, after which nobody may use it."""
        self.kill()
        with suppress(OSError, subprocess.TimeoutExpired):
            self._process.wait(5)
        self.forget()

    def forget(self) -> None:
        """Close this process's ends of its pipes."""
        self._alive = False
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        if self._process.returncode is None:
            self._process.returncode = 0  # of a parent's, which a forked process cannot wait for


def _started() -> subprocess.Popen[bytes]:
    """The process: with this one's modules, and without its files, variables or keys that interrupt it."""
    variables = handed() | {
        "PYTHONPATH": os.pathsep.join(_modules()),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    try:
        return subprocess.Popen(
            [_python(), "-P", "-s", "-m", _MODULE],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
            cwd=None if _has_directory() else os.sep,
            **options,
        )
    except OSError as error:
        raise DpsqlError(
            f"the process in which expressions are tried cannot be started: {_python()!r}: {error.strerror}; name "
            "Python's program by multiprocessing.set_executable"
        ) from None


def _has_directory() -> bool:
    """Whether the current directory is there: Python does not start in one that was deleted."""
    try:
        return bool(os.getcwd())  # noqa: PTH109
    except OSError:
        return False


def _modules() -> list[str]:
    """Where this process looks for modules, from any current directory; one that was deleted has none."""
    places = list[str]()
    for place in sys.path:
        with suppress(OSError, ValueError):
            places += [os.path.abspath(place)] if isinstance(place, str) else []  # noqa: PTH100
    return places


def _python() -> str:
    executable = multiprocessing.spawn.get_executable()
    return os.fsdecode(executable) if executable else "python3"


def _error_of(error: Any) -> duckdb.Error:
    """An error of DuckDB's from its name and its text."""
    if not isinstance(error, list) or len(error) != 2 or not all(isinstance(part, str) for part in error):
        return Died()
    kind: Any = getattr(duckdb, error[0], None)
    made: duckdb.Error = (kind if isinstance(kind, type) and issubclass(kind, duckdb.Error) else duckdb.Error)(error[1])
    return made


class Empty:
    """An empty database in the other process: as much of a connection of DuckDB's as is used of it.

    Attributes:
        worker: the process.
    """

    def __init__(self, worker: Worker, number: int) -> None:
        self.worker, self._number = worker, number

    def execute(self, query: str, parameters: Any = None) -> Empty:
        """Run a statement."""
        self._ask("execute", sql=query, parameters=parameters)
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows of the last statement: numbers, texts and NULL."""
        with self._checked():
            return rows_of(self._ask("rows")[0])

    def fetchnumpy(self) -> dict[str, Any]:
        """The columns of the last statement: numbers and texts."""
        with self._checked():
            return read(*self._ask("numbers"))

    def register(self, view_name: str, python_object: Any) -> Empty:
        """Columns of numbers as a table."""
        self._ask("register", list(python_object.values()), name=view_name, names=list(python_object))
        return self

    def unregister(self, view_name: str) -> Empty:
        """The table is no more; nothing where the process died."""
        with suppress(Died):
            self._ask("unregister", name=view_name)
        return self

    def parse(self, sql: str) -> None:
        """Whether DuckDB can parse a text.

        Raises:
            duckdb.Error: it cannot.
        """
        self._ask("parse", sql=sql)

    def close(self) -> None:
        """Forget it."""
        with suppress(duckdb.Error):
            self._ask("close")

    def _ask(self, do: str, numbers: Sequence[Numbers] = (), **more: Any) -> tuple[Head, list[Numbers]]:
        return self.worker.ask({"do": do, "on": self._number, **more}, numbers)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """What is not well formed ends the process: something has taken it over."""
        try:
            yield
        except Ended:
            self.worker.kill()
            raise Died from None


class _Ticket:
    """A thread that waits for a process."""


class _Pool:
    """The processes of this one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[Worker] = []
        self.busy: weakref.WeakSet[Worker] = weakref.WeakSet()  # what an exception leaves behind counts no more
        self.waiting: weakref.WeakKeyDictionary[_Ticket, None] = weakref.WeakKeyDictionary()  # in their order

    def take(self, progress: Progress | None) -> None:
        """Lend this thread a process, started where none is idle; waits while too many are busy, in order of coming.

        Raises:
            Interrupted: at the user's wish.
        """
        ticket = _Ticket()
        with unbreakable, self.lock:
            self.waiting[ticket] = None
        try:
            while not self._lends(ticket):
                time.sleep(0.02)
                if progress is not None:
                    progress.check()
        finally:
            with unbreakable, self.lock:
                self.waiting.pop(ticket, None)

    def _lends(self, ticket: _Ticket) -> bool:
        with unbreakable, self.lock:
            if next(iter(self.waiting), ticket) is not ticket:
                return False
            worker = None
            while self.idle and worker is None:
                worker = self.idle.pop()
                if not worker.is_running():
                    worker.close()
                    worker = None
            if worker is None and len(self.busy) >= _MOST:
                return False
            worker = worker or Worker()
            self.busy.add(worker)
            _thread.worker = worker
            self.waiting.pop(ticket, None)
            return True

    def give_back(self) -> None:
        """This thread's process is for the next, if it is alive."""
        with unbreakable, self.lock:
            worker: Worker | None = getattr(_thread, "worker", None)
            _thread.worker = None
            if worker is None:
                return
            self.busy.discard(worker)
            if worker.is_running() and len(self.idle) < _IDLE:
                self.idle.append(worker)
                return
        worker.close()

    def all(self) -> list[Worker]:
        """Those that are idle, and those that are busy."""
        return [*self.idle, *self.busy]


_thread: Final = threading.local()
_pool = _Pool()


@contextmanager
def worker_of_thread(progress: Progress | None) -> Iterator[Worker]:
    """This thread's process: inside another call of this that which it has, else one that nobody uses.

    Raises:
        Interrupted: at the user's wish, while it waits for one.
    """
    worker: Worker | None = getattr(_thread, "worker", None)
    if worker is not None:
        yield worker
        return
    try:
        _pool.take(progress)
        yield _thread.worker
    finally:
        _pool.give_back()


def _forget_all() -> None:
    """In a process that was forked: those of its parent are not its own."""
    global _pool
    inherited, _pool = _pool.all(), _Pool()
    _thread.worker = None
    for worker in inherited:
        worker.forget()


def _end_all() -> None:
    for worker in list(_pool.busy):
        worker.kill()  # a thread that still runs reads from it, so its pipes stay open
    for worker in _pool.idle:
        worker.close()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
