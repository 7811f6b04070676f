"""A session of Spark: one of this process, or one that the words of an environment variable lead to.

    environment := 'BANK_SPARK'    with  BANK_SPARK=sc://host:15002  (Spark Connect)  or  spark://host:7077, local[4], …
    nothing                        the session that runs in this process

All that asks Spark goes through `Session.run`: it is tagged, so that it can be stopped. No text of Spark leaves.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from dpsql.engines.external import driver, words_in
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.spark.client import add_tag, interrupt_tag, loggers, remove_tag
from dpsql.engines.spark.executors import is_in_cluster, lacks_executors
from dpsql.engines.spark.failures import CannotStart, NoExecutors, SessionLost
from dpsql.engines.sql.failures import TableChanged
from dpsql.errors import Interrupted, InvalidArgument

_numbers: Final = itertools.count(1)
_starting: Final = threading.Lock()
_own: Final = threading.local()
_remote: Final[dict[str, Any]] = {}
_REMOTE: Final = "sc://"
_LOCAL: Final = "local"
_OWN: Final = {
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
"""Of a session that dpsql starts: Spark's log would quote rows on the owner's screen. Old dates as Spark 4 has them."""

T = TypeVar("T")


def named_in(given: Mapping[str, Any]) -> str:
    """Where the words are, as errors say it.

    >>> named_in({"environment": "BANK_SPARK"})
    "environment := 'BANK_SPARK'"
    """
    return f"environment := {given['environment']!r}" if given.get("environment") else "what runs in this process"


class Session:
    """A session of Spark and what runs in it for one counter.

    Args:
        given: the arguments of `dp_source`.

    Raises:
        InvalidArgument: there is no such variable, or neither a variable nor a session.
        CannotStart: the session does not start.
        DpsqlError: pyspark is not installed.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._tag = f"dpsql-{os.getpid()}-{next(_numbers)}"
        self._stopped, self._closed = False, False
        words = _words_of(given)
        with _quiet():
            driver("pyspark.sql", "spark", "spark")
            _silence()
            try:
                with _starting:
                    running = _session(words)
            except InvalidArgument:
                raise
            except Exception:
                raise CannotStart(named_in(given)) from None
        if running is None:
            raise InvalidArgument(
                "no session of Spark runs in this process: start a SparkSession first, or give environment := '…', the "
                "name of a variable that holds sc://host:port, spark://host:port or local[4]"
            )
        self.spark: Final = running
        self.is_here: Final = not words.startswith(_REMOTE) and hasattr(running, "sparkContext")
        """Whether the driver is on this machine, so that its files are those of this machine."""
        self._in_cluster: Final = self.is_here and is_in_cluster(running)

    def run(self, work: Callable[[], T]) -> T:
        """What some work with the session returns.

        Raises:
            Interrupted: `interrupt` was called meanwhile.
            NoExecutors: the cluster had none for too long.
            CountingFailed: in place of an error of Spark.
        """
        self._stopped = False
        with _quiet(), self._watched() as starved:
            try:
                add_tag(self.spark, self._tag)
                try:
                    answer = work()
                finally:
                    with suppress(Exception):
                        remove_tag(self.spark, self._tag)
            except CountingFailed:
                raise
            except Exception as error:
                if self._stopped:
                    raise Interrupted from None
                if starved.is_set():
                    raise NoExecutors from None
                raise self._failure(error) from None
        if self._stopped:
            raise Interrupted
        return answer

    def interrupt(self) -> None:
        """End what runs, from any thread."""
        self._stopped = True
        with suppress(Exception), _quiet():
            interrupt_tag(self.spark, self._tag)

    def release(self, frame: Any) -> None:
        """Give back a DataFrame that is kept."""
        with suppress(Exception), _quiet():
            frame.unpersist()

    def drop(self, view: str) -> None:
        """Drop a temporary view."""
        with suppress(Exception), _quiet():
            self.spark.catalog.dropTempView(view)

    @property
    def is_open(self) -> bool:
        """Whether `close` was not called."""
        return not self._closed

    def close(self) -> None:
        """Give the session back; it goes on, because it is the owner's."""
        self._closed = True

    @contextmanager
    def _watched(self) -> Iterator[threading.Event]:
        """Inside, what waits too long for executors of a cluster is ended; set if it was."""
        ended, starved = threading.Event(), threading.Event()
        if not self._in_cluster:
            yield starved
            return

        def watch() -> None:
            if lacks_executors(self.spark, ended):
                starved.set()
                with suppress(Exception):
                    interrupt_tag(self.spark, self._tag)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield starved
        finally:
            ended.set()
            watching.join()  # so it ends no job of a later call

    def _failure(self, error: Exception) -> CountingFailed:
        """What is said of an error; its text is not looked at."""
        from pyspark.errors import AnalysisException

        if self._is_lost():
            return SessionLost()
        return TableChanged("Spark") if isinstance(error, AnalysisException) else CountingFailed()

    def _is_lost(self) -> bool:
        try:
            if self._in_cluster:  # a job would wait where no executor is
                return bool(self.spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - of Java's
            self.spark.sql("SELECT 1 AS one").collect()
        except Exception:
            return True
        return False


def _words_of(given: Mapping[str, Any]) -> str:
    """What leads to a session; empty for the one of this process."""
    name = given.get("environment")
    return words_in(name, "leads to Spark, such as sc://host:15002") if name else ""


def _session(words: str) -> Any:
    """The session; None without words where none runs."""
    from pyspark.sql import SparkSession

    if words.startswith(_REMOTE):
        return _remote_session(words)
    running = SparkSession.getActiveSession() or _running()
    if running is not None and words and _master_of(running) != words:
        raise InvalidArgument(
            "another session of Spark runs in this process, and a process has one: stop it, or leave environment out "
            "to count in that one"
        )
    if running is not None or not words:
        return running
    builder = SparkSession.builder.master(words).appName("dpsql")
    for key, value in _OWN.items():
        builder = builder.config(key, value)
    if words.startswith(_LOCAL):  # the workers are beside this process, so its Python has what they need
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
    return builder.getOrCreate()


def _remote_session(words: str) -> Any:
    """The session of Spark Connect that some words lead to; `getOrCreate` would return that of other words, too."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    session = _remote.get(words)
    if session is None or session.is_stopped:
        session = _remote[words] = RemoteSession.builder.remote(words).create()
    return session


def _master_of(session: Any) -> str | None:
    """What a session of this process was started with; None of a remote one."""
    return str(session.sparkContext.master) if hasattr(session, "sparkContext") else None


def _running() -> Any:
    """The session that another thread of this process started; None if there is none."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - `getOrCreate` would start one
        return SparkSession.builder.getOrCreate()
    if "pyspark.sql.connect.session" in sys.modules:
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        # calls of SQL run in threads of DuckDB, in which no session is active
        running = RemoteSession.getActiveSession() or RemoteSession._default_session  # noqa: SLF001
        of_variable = any(running is remote for remote in _remote.values())  # which dpsql opened, and not this process
        return None if of_variable else running
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside, pyspark neither logs errors, which quote rows, nor warns of the version of pandas, which is not used."""
    before, _own.works = getattr(_own, "works", False), True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        _own.works = before


class _NotOurs(logging.Filter):
    """Lets through what is logged outside `_quiet`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        return not getattr(_own, "works", False)


_not_ours: Final = _NotOurs()


def _silence() -> None:
    """Keep errors of what dpsql asks out of pyspark's own log, which is the standard error of this process."""
    for logger in loggers():
        logger.addFilter(_not_ours)  # again, nothing
