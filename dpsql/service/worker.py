"""The process of one user: their sessions, their statements, and a DuckDB with the released tables they are shown.

What the user sends after the login is read, checked and run here and nowhere else: see `workers`. It acts for this
user alone, because it has no other proof of a login.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Any, Final

from dpsql.errors import DpsqlError, InvalidArgument

from . import wire
from .allowlist import AllowList
from .analysis import AS_POSTGRES, Analyses
from .analyst import Analyst, Shared
from .calls import Calls, KeeperLost, Login
from .line import Line
from .lookout import LOOK_SECONDS, RIGHTS_SECONDS, look, that_may_not_stay
from .nursery import again, nurse
from .options import Options
from .pgwire.commands import STATUS
from .pgwire.failed import Failed
from .pgwire.holdings import OF_A_USER, Holdings
from .pgwire.messages import LONGEST, BadMessage, Channel, Closed, text
from .pgwire.session import Session
from .process import limit_memory, most_of_user
from .sqlstate import message, place_of
from .workers import ENDED, LEAVE

MORE, WHOLE, OVER = b"m", b"w", b"Z"
"""Frames of a session's connection: of messages, of messages to the end of one, and that it ends as it should."""
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
        catalogue: the file of it.
    """

    def __init__(self, options: Options, line: socket.socket, catalogue: int) -> None:
        calls = Calls(options.socket)
        self.options, self.calls = options, calls
        self.holdings = Holdings(OF_A_USER)
        self.line = Line(line)
        self.sessions: dict[int, _Client] = {}
        self.shared = Shared(
            Analyses(calls, options, catalogue, AS_POSTGRES), calls, AllowList(titled=True), options, self.line.audit
        )

    def serve(self) -> None:
        """Obey the front until it is gone."""
        again(self._look, LOOK_SECONDS)
        again(self._look_at_rights, RIGHTS_SECONDS)
        self.line.obey(self._begin, self._cancel)

    def _cancel(self, number: int) -> None:
        if number in self.sessions:
            self.sessions[number].cancel()

    def _begin(self, handshake: dict[str, Any], connection: socket.socket) -> None:
        client = _Client(self, handshake, connection)
        self.sessions[handshake["number"]] = client
        try:
            threading.Thread(target=client.run, daemon=True).start()
        except RuntimeError:  # there is too little memory for one more
            client.end()

    def _analysts(self) -> list[tuple[int, Analyst]]:
        """Of the sessions whose tables are here, with their numbers."""
        clients = list(self.sessions.values())
        return [(client.number, client.analyst) for client in clients if client.analyst is not None]

    def _look(self) -> None:
        look(self._analysts(), self.line)

    def _look_at_rights(self) -> None:
        """End the sessions of a user who was revoked, or may do or see else than when they came."""
        for number, analyst in that_may_not_stay(self._analysts(), self.calls):
            analyst.cancel()
            self.line.tell(LEAVE, [number, "57P01", _CHANGED])


class _Client:
    """One session, in a thread of its own.

    Attributes:
        number: of the session.
        analyst: once their tables are here.
    """

    def __init__(self, worker: Worker, handshake: dict[str, Any], connection: socket.socket) -> None:
        self._worker, self._handshake = worker, handshake
        self._channel = _Framed(connection)
        self._channel.longest = LONGEST
        self._cancelled = False
        self.number = int(handshake["number"])
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
        except Failed as error:  # a setting of the first message
            self._say(error.code, str(error))
        except InvalidArgument as error:
            self._say("22023", str(error))
        except DpsqlError as error:  # revoked meanwhile, or no audit
            self._say("58000", str(error))
        except (Closed, OSError):
            pass
        except Exception as error:  # a fault of this package: what is said of a statement is said of its session
            with suppress(DpsqlError):
                self._worker.shared.audit(
                    {"event": "fault", "user": self._handshake["user"], "reason": place_of(error)}
                )
            self._say("XX000", message(error))
        finally:
            self.end()

    def _serve(self) -> None:
        handshake, options, channel = self._handshake, self._worker.options, self._channel
        self.analyst = Analyst(self._worker.shared, Login(handshake["user"], handshake["token"]), channel.notice)
        session = Session(channel, self.analyst, options, self._worker.holdings)
        state = session.state
        try:
            state.settings.begin({**handshake["settings"], "application_name": handshake["application"]})
            channel.send(b"R", struct.pack("!i", 0))
            state.reported_settings = {**STATUS, "session_authorization": handshake["user"], **state.settings.reported}
            for name, value in state.reported_settings.items():
                channel.send(b"S", text(name) + text(value))
            channel.send(b"K", struct.pack("!iI", handshake["number"], handshake["key"]))
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
            self._worker.line.tell(ENDED, self.number)


def _run(options: Options, line: socket.socket, catalogue: int) -> None:
    """Be the process of a user, until the front is gone."""
    limit_memory(most_of_user(options))
    Worker(options, line, catalogue).serve()


if __name__ == "__main__":
    nurse(_run)
