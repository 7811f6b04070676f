"""Starts keeper, front, and Quack's process if it is wanted, and starts again whichever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.runtime.children import handed

from .certificate import certificate_beside, check_certificate
from .heartbeat import BEAT
from .options import Options

PROCESSES: Final = ("keeper", "front")
_DOORS: Final = ("front", "quack")
"""In this order they are started, and looked at: the front says how each of them does."""
_FOR_DOORS: Final = ("PYTHONPATH", "TMPDIR")
"""Variables that a door sees beside those of `handed`. Words that lead to rows elsewhere are for the keeper alone."""
_PATIENCE: Final = 120.0
"""Seconds that a process has to start: it may be one of many on a small machine."""
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)
_STOP_SECONDS: Final = 10.0
_SILENCES: Final = 1.5
"""Of the option: a beat may take as long as the option says, before it fails."""


class NotStarted(DpsqlError):
    """A process of the service did not start."""


class Service:
    """A service that runs: a context manager, whose end is its graceful stop.

    Args:
        options: of both processes.
        names: of the processes that it starts: both, or one where they run as two users of the system.

    Attributes:
        port: that the front listens on.
        certificate: path of the certificate, for clients that verify it.
    """

    def __init__(self, options: Options, names: Sequence[str] = PROCESSES) -> None:
        self._names = names
        if "keeper" in names and not Path(options.path).exists():
            raise InvalidArgument(f"there is no database file {options.path!r}: make it with dpsql.connect(path) first")
        if len(names) == 1:
            _check_apart(names[0], options)
        if options.quack:
            from .quack_worker import needed

            needed()
            self._names = (*names, "quack") if "front" in names else names
        self._folder = tempfile.mkdtemp(prefix="dpsql-")  # for this user alone
        certificate, key = options.certificate, options.key
        if not certificate and "front" in names:
            certificate, key = certificate_beside(options.path)
        if "front" in names:
            check_certificate(certificate, key)
        socket = options.socket or str(Path(self._folder) / "keeper.sock")
        self._options = replace(options, socket=socket, certificate=certificate, key=key)
        self.port, self.certificate = options.port, certificate
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._beats: dict[str, float] = {}
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Start them."""
        try:
            for name in self._names:
                self._start(name)
        except BaseException:
            self.stop()
            raise
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop them."""
        self.stop()

    def process(self, name: str) -> int:
        """The system's number of `keeper`, `front` or `quack`."""
        return self._processes[name].pid

    def wait(self) -> None:
        """Until SIGTERM or Ctrl-C."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ending.set())
        if "front" in self._names:
            signal.signal(signal.SIGHUP, lambda *_: os.kill(self.process("front"), signal.SIGHUP))
        while not self._ending.wait(1.0):
            pass

    def stop(self) -> None:
        """Stop the doors, then the keeper."""
        self._ending.set()
        if self._watcher.is_alive():
            self._watcher.join()
        for name in ("quack", *reversed(PROCESSES)):
            process = self._processes.pop(name, None)
            if process is not None:
                process.terminate()
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                _close(process)
        for path in Path(self._folder).glob("*"):
            path.unlink()
        Path(self._folder).rmdir()

    def _start(self, name: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", f"dpsql.service.{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=None if name == "keeper" else handed(*_FOR_DOORS),
        )
        self._processes[name] = process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(self._options.to_json() + "\n")
            process.stdin.flush()
        killer = threading.Timer(_PATIENCE, process.kill)
        killer.start()
        try:
            words = process.stdout.readline().split()
        finally:
            killer.cancel()
        if words[:1] != ["ready"]:
            process.kill()
            process.wait()
            raise NotStarted(f"the service's {name} did not start: what it says stands above")
        if name == "front":
            self.port = int(words[1])
            self._options = replace(self._options, port=self.port)
            self._beats = {}  # of Quack it hears by the front
            threading.Thread(target=self._hear, args=[process], daemon=True).start()

        self._beats |= dict.fromkeys(_DOORS, time.monotonic())

    def _hear(self, process: subprocess.Popen[str]) -> None:
        """Note each beat of the doors, which the front says, until it ends."""
        assert process.stdout is not None
        with suppress(ValueError):  # it was closed
            for line in process.stdout:
                beat, _, door = line.strip().partition(" ")
                if beat == BEAT and self._processes.get("front") is process:
                    self._beats[door] = time.monotonic()

    def _end_silent(self) -> None:
        """End a door at which no login goes through: it is started again."""
        for name in _DOORS:
            door = self._processes.get(name)
            if door is not None and time.monotonic() - self._beats[name] > _SILENCES * self._options.silence_seconds:
                sys.stderr.write(f"dpsql: no login goes through at the {name}, which is started again\n")
                door.kill()
                door.wait()
                return  # where it was the front, nobody said how the other one does

    def _watch(self) -> None:
        """Start again what died, with growing pauses."""
        failures = 0
        looked = time.monotonic()
        while not self._ending.wait(pause := _PAUSES[min(failures, len(_PAUSES) - 1)]):
            late = time.monotonic() - looked - pause  # while this process was stopped it could hear no beat
            self._beats = {door: min(time.monotonic(), beat + late) for door, beat in self._beats.items()}
            self._end_silent()
            dead = [name for name, process in self._processes.items() if process.poll() is not None]
            if not dead:
                failures = 0
            for name in dead:
                _close(self._processes[name])
                failures += 1
                try:
                    self._start(name)
                except NotStarted:
                    time.sleep(_PAUSES[0])
            looked = time.monotonic()


def _check_apart(name: str, options: Options) -> None:
    """Refuse one process alone where it would not find the other.

    Raises:
        InvalidArgument: with what is missing.
    """
    wanted = {"keeper": ("socket",), "front": ("socket", "certificate", "key", "audit_folder")}[name]
    missing = [option for option in wanted if not getattr(options, option)]
    if missing:
        raise InvalidArgument(f"the {name} alone needs {', '.join(missing)} in the configuration")


def _close(process: subprocess.Popen[Any]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def serve(path: str, *, only: str | None = None, **options: Any) -> Service:
    """A service of a database, for analysts who come over the network.

    Args:
        path: of the DuckDB file.
        only: `keeper` or `front`, to start that process alone; by default both.
        options: see `Options`.

    Returns:
        A context manager; inside it the service runs.

    Raises:
        InvalidArgument: an option is unknown or wrong.
    """
    names = set(Options.__dataclass_fields__) - {"path"}
    unknown = set(options) - names
    if unknown:
        raise InvalidArgument(f"serve has no option {min(unknown)!r}: it has {', '.join(sorted(names))}")
    if only is not None and only not in PROCESSES:
        raise InvalidArgument(f"only is {only!r}: give {' or '.join(PROCESSES)}")
    return Service(Options(path, **options), PROCESSES if only is None else (only,))
