"""The process of one user: their sessions, their statements, and a DuckDB with the released tables they are shown.

What the user sends after the login is read, checked and run here and nowhere else: see `workers`. It acts for this
user alone, because it has no other proof of a login.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from queue import SimpleQueue
from typing import Any, Final

from dpsql.errors import DpsqlError
from dpsql.runtime.children import end_first

from . import wire
from .allowlist import AllowList
from .analysis import Analyses
from .analyst import Analyst, Shared
from .calls import Calls, KeeperLost, Login
from .options import Options
from .pgwire.commands import STATUS
from .pgwire.holdings import OF_A_USER, Holdings
from .pgwire.messages import LONGEST, BadMessage, Channel, Closed, text
from .pgwire.session import Session
from .process import limit_memory, most_of_user
from .workers import AUDIT, BEAT, BEAT_SECONDS, CANCEL, ENDED, LATE, LEAVE, NEW, SESSION

MORE, WHOLE, OVER = b"m", b"w", b"Z"
"""Frames of a session's connection: of messages, of messages to the end of one, and that it ends as it should."""
_LOOK_SECONDS: Final = 0.05
_RIGHTS_SECONDS: Final = 1.0
_LARGEST_PART: Final = 1 << 24
_CHANGED: Final = "terminating connection because what you may do or see was changed: connect again"


class _Framed(Channel):
    """A client's connection, which the front passes on: it is told where messages end."""

    def _deliver(self, messages: bytearray) -> None:
        for start in range(0, len(messages), _LARGEST_PART):
            part = messages[start : start + _LARGEST_PART]
            self.socket.sendall(wire.frame(WHOLE if start + len(part) == len(messages) else MORE, part))


class Worker:
    """See the module.

    Args:
        options: of the service.
        line: to the front.
    """

    def __init__(self, options: Options, line: socket.socket) -> None:
        calls = Calls(options.socket)
        self.options, self.calls = options, calls
        self.holdings = Holdings(OF_A_USER)
        self._line, self._lock = line, threading.Lock()
        self._answers: deque[SimpleQueue[str]] = deque()
        self.sessions: dict[int, _Client] = {}
        self.shared = Shared(Analyses(calls, options), calls, AllowList(), options, self.audit)

    def serve(self) -> None:
        """Obey the front until it is gone."""
        for look, seconds in ((self._look, _LOOK_SECONDS), (self._look_at_rights, _RIGHTS_SECONDS)):
            threading.Thread(target=_again, args=[look, seconds], daemon=True).start()
        while True:
            kind, payload, descriptors = wire.receive_passed(self._line)
            value = json.loads(payload)
            if kind == SESSION:
                self._begin(value, socket.socket(fileno=descriptors[0]))
            elif kind == AUDIT:
                self._answers.popleft().put(value)
            elif kind == CANCEL and value in self.sessions:
                self.sessions[value].cancel()

    def audit(self, event: dict[str, Any]) -> None:
        """Have the front write a line of the audit log, and wait until the disk has it.

        Raises:
            DpsqlError: it cannot be written.
        """
        answer: SimpleQueue[str] = SimpleQueue()
        with self._lock:
            self._answers.append(answer)
            wire.send_json(self._line, event, AUDIT)
        words = answer.get()
        if words:
            raise DpsqlError(words)

    def tell(self, kind: bytes, value: Any) -> None:
        """Say something to the front."""
        with self._lock:
            wire.send_json(self._line, value, kind)

    def _begin(self, told: dict[str, Any], connection: socket.socket) -> None:
        client = _Client(self, told, connection)
        self.sessions[told["number"]] = client
        try:
            threading.Thread(target=client.run, daemon=True).start()
        except RuntimeError:  # there is too little memory for one more
            client.end()

    def _look(self) -> None:
        """Interrupt what is cancelled or late; where that does nothing, end this process, and say that it is there."""
        for client in list(self.sessions.values()):
            analyst = client.analyst
            if analyst is not None:
                analyst.look()
                if analyst.is_stuck():
                    self.tell(LATE, client.number)
                    os._exit(1)
        now = time.monotonic()
        if now - self._beat > BEAT_SECONDS:
            self._beat = now
            self.tell(BEAT, "")

    _beat = 0.0

    def _look_at_rights(self) -> None:
        """End the sessions of a user who was revoked, or may do or see else than when they came."""
        clients = [(client.analyst, client) for client in list(self.sessions.values())]
        for login in {analyst.login for analyst, _ in clients if analyst is not None}:
            shown = self.calls.shown_now(login)
            for analyst, client in clients:
                if analyst is not None and analyst.login == login and not analyst.may_stay(shown):
                    analyst.cancel()
                    self.tell(LEAVE, [client.number, "57P01", _CHANGED])


class _Client:
    """One session, in a thread of its own.

    Attributes:
        number: of the session.
        analyst: once their tables are here.
    """

    def __init__(self, worker: Worker, told: dict[str, Any], connection: socket.socket) -> None:
        self._worker, self._told = worker, told
        self._channel = _Framed(connection)
        self._channel.longest = LONGEST
        self._cancelled = False
        self.number = int(told["number"])
        self.analyst: Analyst | None = None

    def run(self) -> None:
        """Serve it to its end; whatever a client sends ends its own session at most."""
        try:
            self._serve()
        except BadMessage as error:
            self._say("08P01", str(error))
        except KeeperLost as error:
            self._say("57P03", str(error))
        except MemoryError:
            self._say("53200", "out of memory: there is no room for what this session keeps; connect again")
        except DpsqlError as error:  # revoked meanwhile, or no audit
            self._say("58000", str(error))
        except (Closed, OSError):
            pass
        finally:
            self.end()

    def _serve(self) -> None:
        told, options, channel = self._told, self._worker.options, self._channel
        self.analyst = Analyst(self._worker.shared, Login(told["user"], told["token"]), channel.notice)
        session = Session(channel, self.analyst, options, self._worker.holdings)
        try:
            channel.send(b"R", struct.pack("!i", 0))
            reported = {**STATUS, "session_authorization": told["user"], "application_name": told["application"]}
            for name, value in reported.items():
                channel.send(b"S", text(name) + text(value))
            channel.send(b"K", struct.pack("!iI", told["number"], told["key"]))
            session.serve()
        finally:
            session.close()

    def cancel(self) -> None:
        """Stop the statement that runs now."""
        if self.analyst is not None:
            self.analyst.cancel()

    def _say(self, code: str, message: str) -> None:
        with suppress(Closed, OSError):
            self._channel.error(code, message, severity="FATAL")
            self._channel.flush()

    def end(self) -> None:
        """It is over, as it should be."""
        self._worker.sessions.pop(self.number, None)
        with suppress(Closed, OSError, MemoryError):
            self._channel.flush()
            self._channel.socket.sendall(wire.frame(OVER))
        self._channel.socket.close()
        with suppress(wire.Lost):
            self._worker.tell(ENDED, self.number)


def _again(work: Callable[[], None], seconds: float) -> None:
    while True:
        time.sleep(seconds)
        with suppress(Exception):  # whatever it was, the next time may go well
            work()


def _run(options: Options, line: socket.socket) -> None:
    """Be the process of a user, until the front is gone."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # who makes it die writes nothing to the disk
    end_first()
    limit_memory(most_of_user(options))
    with suppress(wire.Lost):
        Worker(options, line).serve()


def _do_without_pandas() -> None:
    """PyArrow and DuckDB look for pandas at their first value, which takes seconds, and no session needs it."""
    import numpy as np
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas())
    np.asarray(pa.array(["a"]))


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Say that there is none."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main() -> None:
    """`python -m dpsql.service.worker LINE`: the nursery, whose children are the workers."""
    options = Options.from_json(sys.stdin.readline())
    nursery = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _do_without_pandas()
    gc.freeze()
    while True:
        try:
            kind, _, descriptors = wire.receive_passed(nursery)
        except wire.Lost:
            os._exit(0)
        assert kind == NEW
        line = socket.socket(fileno=descriptors[0])
        process = os.fork()
        if not process:
            nursery.close()
            try:
                _run(options, line)
            finally:
                os._exit(0)
        line.close()
        wire.send_json(nursery, process)


if __name__ == "__main__":
    main()
