"""The process in which people's expressions are tried: an empty DuckDB that may die alone.

`python -m dpsql.evaluation.worker` reads requests from its standard input and answers on its standard output. It opens
no file, and is given public values only. It bounds its memory, its time and its stack. Whatever happens to it, the
process that started it reads an end of file, and starts another.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import duckdb

from dpsql.evaluation.messages import MOST_OF_ROWS, Ended, Head, Numbers, receive, send, written
from dpsql.runtime.children import end_first

try:
    import resource
    import signal
except ImportError:  # Windows: whoever started it ends it in time, and DuckDB bounds its own memory
    resource = None  # type: ignore[assignment]

LONGEST: Final = 45  # seconds of one request: more than those after which whoever asked kills it
_THREADS: Final = min(4, os.cpu_count() or 1)
_GIB: Final = 1 << 30
_STACK: Final = 32 << 20
_MOST_FILES: Final = 64
_ROWS: Final = 64  # that are looked at together
_TOO_LARGE: Final = f"the result is larger than {MOST_OF_ROWS >> 20} MiB: say less in each row, or show fewer rows"


def memory() -> int:
    """Bytes that DuckDB may take: half of the machine's, and 8 GiB at most."""
    with suppress(AttributeError, ValueError, OSError):
        return max(_GIB, min(8 * _GIB, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2))
    return 2 * _GIB


def bound() -> None:
    """Bound what this process may take; what a system does not know is left out."""
    end_first()
    if resource is None:
        return
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _MOST_FILES,
        resource.RLIMIT_STACK: _STACK,
        resource.RLIMIT_AS: memory() + 2 * _GIB,
    }
    for limit, most in limits.items():
        soft, hard = resource.getrlimit(limit)
        least = min((value for value in (most, soft, hard) if value != resource.RLIM_INFINITY), default=most)
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (least, hard))


@contextmanager
def timed() -> Iterator[None]:
    """What is inside ends this process if it takes too long, even where nothing of Python runs any more."""
    if resource is None:
        yield
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = int(used.ru_utime + used.ru_stime) + LONGEST * _THREADS + 1
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)


def _opened() -> duckdb.DuckDBPyConnection:
    config: dict[str, Any] = {
        "enable_external_access": "false",
        "memory_limit": f"{memory()}B",
        "temp_directory": "",
        "threads": str(_THREADS),
    }
    connection = duckdb.connect(":memory:", config=config)
    with suppress(duckdb.Error):  # a DuckDB without ICU, which has no functions of zoned times either
        connection.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL Calendar = 'gregorian'")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection


class Served:
    """Answers requests, each on an empty database of its own."""

    def __init__(self) -> None:
        self._databases: dict[int, duckdb.DuckDBPyConnection] = {}
        self._next: duckdb.DuckDBPyConnection | None = _opened()
        self._doing: dict[str, Callable[[Head, list[Numbers]], tuple[Head, list[Numbers]]]] = {
            "open": self._open,
            "close": self._close,
            "execute": self._execute,
            "rows": self._rows,
            "numbers": self._numbers,
            "register": self._register,
            "unregister": self._unregister,
            "parse": self._parse,
        }

    def answer(self, head: Head, numbers: list[Numbers]) -> tuple[Head, list[Numbers]]:
        """What is said to a request; errors of DuckDB by name and text."""
        try:
            return self._doing[head["do"]](head, numbers)
        except duckdb.Error as error:
            return {"error": [type(error).__name__, str(error)]}, []
        except (TypeError, UnicodeError):
            return {"error": ["NotImplementedException", "a result of a type that is not supported here"]}, []
        except (MemoryError, RecursionError):
            return {"error": ["OutOfMemoryException", "not enough memory"]}, []

    def get_ready(self) -> None:
        """Open the next database while nobody waits: it takes ten milliseconds."""
        if self._next is None:
            self._next = _opened()

    def _open(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        self.get_ready()
        assert self._next is not None
        self._databases[head["on"]], self._next = self._next, None
        return {}, []

    def _close(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        self._databases.pop(head["on"]).close()
        return {}, []

    def _execute(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        self._databases[head["on"]].execute(head["sql"], head["parameters"])
        return {}, []

    def _rows(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        rows, size = list[tuple[Any, ...]](), 0
        while some := self._databases[head["on"]].fetchmany(_ROWS):
            rows.extend(some)
            size += len(json.dumps(some))
            if size > MOST_OF_ROWS - 1000:  # and what is around them
                return {"error": ["InvalidInputException", _TOO_LARGE]}, []
        plain = all(value is None or isinstance(value, str | int | float) for row in rows for value in row)
        if not plain:
            raise TypeError
        return {"rows": rows}, []

    def _numbers(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        return written(self._databases[head["on"]].fetchnumpy())

    def _register(self, head: Head, numbers: list[Numbers]) -> tuple[Head, list[Numbers]]:
        table: Any = dict(zip(head["names"], numbers, strict=True))
        self._databases[head["on"]].register(head["name"], table)
        return {}, []

    def _unregister(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        self._databases[head["on"]].unregister(head["name"])
        return {}, []

    def _parse(self, head: Head, _: list[Numbers]) -> tuple[Head, list[Numbers]]:
        self._databases[head["on"]].extract_statements(head["sql"])
        return {}, []


def _read_all(file: int, requests: queue.SimpleQueue[tuple[Head, list[Numbers]]]) -> None:
    """Requests as they come, beside what is running. At the end of file whoever started this is gone: it ends."""
    try:
        while True:
            requests.put(receive(file))
    except (Ended, OSError):
        os._exit(0)


def serve() -> None:
    """Answer until the end of the input."""
    requests_from, answers_to = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # so that nothing that a library prints is taken for an answer
    if resource is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this decides
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    bound()
    served = Served()
    requests: queue.SimpleQueue[tuple[Head, list[Numbers]]] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(requests_from, requests), daemon=True).start()
    send(answers_to, {"duckdb": duckdb.__version__})
    while True:
        head, numbers = requests.get()
        with timed():
            reply, columns = served.answer(head, numbers)
            send(answers_to, reply, columns)
            if head["do"] == "close":
                served.get_ready()


if __name__ == "__main__":
    try:
        serve()
    except BaseException:  # nobody reads a traceback of it
        sys.exit(1)
