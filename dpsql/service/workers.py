"""The processes of users, as the front sees them: it starts one for each user who logs in, and ends those that hang.

    front ── line ──▶ nursery       N a new process, whose line is passed along; it answers with the process' number
    front ── line ──▶ worker        S a session, whose connection is passed along; C cancel; A an answer to A
    front ◀─ line ─── worker        A an event for the audit; B a beat; E a session ended; G a session must go; L late

What a user sends is read and run in their own process. What ends that process, or fills its memory, ends sessions of
that user, and nobody else's. A process is forked from the nursery, which has imported everything.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from dpsql.errors import DpsqlError
from dpsql.runtime.children import handed

from . import wire
from .options import Options
from .process import ALLOCATORS
from .served import PULSE

NEW, SESSION, CANCEL, AUDIT, BEAT, ENDED, LEAVE, LATE = b"N", b"S", b"C", b"A", b"B", b"E", b"G", b"L"
LONGEST: Final = 1 << 20
"""Of a frame of a worker's."""
BEAT_SECONDS: Final = 1.0
_LEAST_SILENCE: Final = 15.0
"""Seconds without a beat after which a worker is ended, at least: a small machine may do others' work first."""
_MOST_AT_WORK: Final = 1000
_KEPT_SECONDS: Final = 300.0
"""For which a process is kept that has no session."""
_START_SECONDS: Final = 60.0
_MODULE: Final = "dpsql.service.worker"
_MOST_AUDITS: Final = 100
"""Events of one worker that wait to be written: one for each of its sessions, and some more."""
TOO_LARGE: Final = (
    "54001",
    "terminating connection because a statement of yours was too large or too deep for the process that runs yours, "
    "which ended: connect again and ask for less; what was charged is kept",
)
TOO_LATE: Final = (
    "57014",
    "terminating connection because a statement of yours did not end at twice its time limit, so the process that runs "
    "yours was ended: connect again; what was charged is kept",
)


def silence_of(options: Options) -> float:
    """Seconds after which a process of a user's that says nothing is ended."""
    return max(_LEAST_SILENCE, 2 * options.statement_seconds)


class Crowded(DpsqlError):
    """As many users are connected as there may be."""


@dataclass(eq=False)
class Worker:
    """The process of one user.

    Attributes:
        user: whose it is.
        line: to it; it does not block.
        process: its number in the system.
        sessions: what to call when a session has ended, by the session's number.
        left: when the last session ended, in seconds of a clock.
        beat: when it last said that it is there.
        at_work: the sessions that it said it works for.
        reason: code and words for its sessions when it dies.
        dead: whether it has ended.
    """

    user: str
    line: socket.socket
    process: int
    sessions: dict[int, Callable[[], None]] = field(default_factory=dict)
    left: float = field(default_factory=time.monotonic)
    beat: float = field(default_factory=time.monotonic)
    reason: tuple[str, str] = TOO_LARGE
    dead: bool = False
    audits: int = 0
    at_work: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Hold on to the process: its number may be another's once it has ended."""
        self.line.setblocking(False)
        self.frames = wire.Frames(LONGEST)
        self._lock = threading.Lock()
        self._handle = -1
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._handle = os.pidfd_open(self.process)

    def tell(self, kind: bytes, value: Any, descriptor: int | None = None) -> None:
        """Send it a frame. A worker that takes none is ended.

        Raises:
            Lost: it has ended.
        """
        data = wire.frame(kind, json.dumps(value).encode())
        with self._lock:
            try:
                sent = self.line.send(data) if descriptor is None else socket.send_fds(self.line, [data], [descriptor])
            except OSError:
                sent = 0
        if sent != len(data):
            self.kill()
            raise wire.Lost("the process of this user ended")

    def beats(self, at_work: list[int]) -> None:
        """It said that it is there.

        Raises:
            ValueError: no process of ours says that.
        """
        if not isinstance(at_work, list) or len(at_work) > _MOST_AT_WORK:
            raise ValueError(len(at_work))
        self.beat, self.at_work = time.monotonic(), frozenset(map(int, at_work))

    def kill(self) -> None:
        """End it, whatever it is at."""
        if self.dead:
            return
        with suppress(OSError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.process, signal.SIGKILL)

    def close(self) -> None:
        """It has ended."""
        self.dead = True
        self.line.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class Workers:
    """All of them, one for each user at most.

    Args:
        options: of the service.
        watch: told of each process that was started.
        module: what the nursery runs.

    Attributes:
        deaths: how many ended by themselves while they had sessions.
    """

    def __init__(self, options: Options, watch: Callable[[Worker], None], module: str = _MODULE) -> None:
        self._options, self._watch, self._module = options, watch, module
        self._of: dict[str, Worker] = {}
        self._lock = threading.Lock()
        self._nursery: _Nursery | None = None
        self.deaths = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._of)

    def processes(self) -> list[Worker]:
        """Those that are there now."""
        return list(self._of.values())

    def open(
        self, user: str, handshake: dict[str, Any], connection: socket.socket, ended: Callable[[], None]
    ) -> Worker:
        """Hand a session to the process of its user, which is started for it where there is none.

        Args:
            user: who logged in.
            handshake: of the session; `number` is its number.
            connection: of the session.
            ended: called once, when the session has ended.

        Raises:
            Crowded: as many users are connected as may be.
            Lost: the process cannot be started, or ended just now.
        """
        with self._lock:
            worker = self._of.get(user)
            if worker is None or worker.dead:
                if user != PULSE:  # which is no user's: the front would seem to let nobody in
                    self._make_room()
                worker = self._of[user] = self._started(user)
                self._watch(worker)
            worker.sessions[handshake["number"]] = ended
        try:
            worker.tell(SESSION, handshake, connection.fileno())
        except wire.Lost:
            worker.sessions.pop(handshake["number"], None)
            raise
        return worker

    def died(self, worker: Worker) -> None:
        """A process has ended: so have its sessions."""
        with self._lock:
            if self._of.get(worker.user) is worker:
                del self._of[worker.user]
            self.deaths += bool(worker.sessions)
            ended, worker.sessions = list(worker.sessions.values()), {}
            worker.close()
        for call in ended:
            call()

    def ended(self, worker: Worker, number: int) -> None:
        """A session of a process has ended."""
        with self._lock:
            call = worker.sessions.pop(number, None)
            worker.left = time.monotonic()
        if call is not None:
            call()

    def look(self) -> None:
        """End those that hang, and those that nobody has come back to."""
        now = time.monotonic()
        silence = silence_of(self._options)
        for worker in self.processes():
            if now - worker.beat > silence:
                worker.reason = TOO_LATE
                worker.kill()
            elif not worker.sessions and now - worker.left > _KEPT_SECONDS:
                with self._lock:
                    if not worker.sessions:
                        self._of.pop(worker.user, None)
                        worker.kill()

    def _make_room(self) -> None:
        """End the process that has been without a session for longest, where there are as many as may be."""
        of_users = [worker for worker in self._of.values() if worker.user != PULSE]
        if len(of_users) < self._options.processes:
            return
        idle = [worker for worker in of_users if not worker.sessions]
        if not idle:
            raise Crowded(
                f"{self._options.processes} users are connected already, the most that there may be: the owner may "
                "raise the option processes"
            )
        oldest = min(idle, key=lambda worker: worker.left)
        del self._of[oldest.user]
        oldest.kill()

    def _started(self, user: str) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            for _ in range(2):
                try:
                    if self._nursery is None:
                        self._nursery = _Nursery(self._options, self._module)
                    return Worker(user, ours, self._nursery.start(user, theirs))
                except (OSError, wire.Lost):  # it was killed: another one is there in a second
                    if self._nursery is not None:
                        self._nursery.close()
                    self._nursery = None
        ours.close()
        raise wire.Lost("no process can be started for this user now: try again in a moment")


class _Nursery:
    """The process that workers are forked from; it ends with this one."""

    def __init__(self, options: Options, module: str) -> None:
        self._line, theirs = socket.socketpair()
        self._line.settimeout(_START_SECONDS)
        quiet = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false", **ALLOCATORS}
        with theirs:  # a process that forks has no thread but the one that does
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # the front's is read by the supervisor
                pass_fds=[theirs.fileno()],
                env={**handed("PYTHONPATH"), **quiet},
            )
        assert self._process.stdin is not None
        self._process.stdin.write(options.to_json().encode() + b"\n")
        self._process.stdin.close()

    def start(self, user: str, line: socket.socket) -> int:
        """Fork a process with its end of a line; its number."""
        data = wire.frame(NEW, json.dumps(user).encode())
        socket.send_fds(self._line, [data], [line.fileno()])
        return int(json.loads(wire.receive(self._line)[1]))

    def close(self) -> None:
        """It is of no use any more."""
        self._line.close()
        self._process.kill()
        self._process.wait()


def too_many_audits(worker: Worker) -> bool:
    """Whether a worker sends more events than it has sessions that wait for an answer."""
    return worker.audits > _MOST_AUDITS
