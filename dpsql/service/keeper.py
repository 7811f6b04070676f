"""The keeper: the process that opens the private file, and answers calls of the front."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import secrets
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpsql.api import owner_door
from dpsql.books.people.credentials import new_token
from dpsql.core.roles import CHARGING, ROLES, SERVED
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument
from dpsql.runtime.progress import Quiet
from dpsql.udfs.interrupts import reporting

from . import startup, wire
from .audit import Audit, NotAudited, refused, stated_call
from .directory import Bound, Credential, Directory, KnownUser
from .options import Options
from .scram import Server, WrongProof
from .served import PULSE, checked_arguments, functions_served
from .turns import Lookups, Shares, Turns

_NICE, _NICE_FIT = 5, 15
"""Of the system's priorities: the keeper takes what plain queries in the front leave, a fit what queries leave."""
_OWNER_SECONDS = 60.0
_FREE_CALLS = 2
"""Of one user at once that wait for no turn: fewer than there are processes in which expressions are tried."""
_LOOKUPS, _LOOKUP_SECONDS = 8, 10.0
"""Calls of one user that were looked up for their columns, and wait for the front to ask for their rows."""
_REQUEST_SECONDS = 30.0
"""In which the front sends a request, and its client the proof of a password."""


class Forbidden(DpsqlError):
    """The user's role does not allow it."""


class WrongPassword(DpsqlError):
    """A login failed."""


class Late(DpsqlError):
    """The call took longer than it may. What was charged is kept: the same call goes on from it."""


class _SentProgress(Quiet):
    """Progress that is sent to the front, a few times a second at most."""

    def __init__(self, stop: Callable[[], bool], send: Callable[[str], None]) -> None:
        super().__init__(stop)
        self._send, self._stage, self._done, self._steps, self._last = send, "", 0, None, 0.0

    _steps: int | None

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        self._stage, self._steps, self._done = name, steps, 0
        self._send(name)
        super().stage(name, steps)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        self._done += steps
        now = time.monotonic()
        if now - self._last > 1:
            self._last = now
            self._send(f"{self._stage} {self._done}" + (f" of {self._steps}" if self._steps else ""))
        super().advance(steps, note)


class Call:
    """One connection of the front: one request and its answer."""

    def __init__(self, keeper: Keeper, connection: socket.socket) -> None:
        self.keeper, self.connection = keeper, connection
        self._gone = threading.Event()
        self._ends = float("inf")
        self._call = ""
        self._request: dict[str, Any] = {}
        """Once it is certain whose it is: whoever opens the socket may write what they like."""

    def cancelled(self) -> bool:
        """Whether the front has closed the connection, or the time is over."""
        if self._gone.is_set() or time.monotonic() > self._ends:
            return True
        try:
            if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                self._gone.set()
        except BlockingIOError:
            return False
        except OSError:
            self._gone.set()
        return self._gone.is_set()

    def serve(self) -> None:
        """Answer it; errors go to the front as texts of dpsql, or as their class alone."""
        try:
            self.connection.settimeout(_REQUEST_SECONDS)
            kind, payload = wire.receive(self.connection, wire.REQUEST)
            request = json.loads(payload)
            if kind != b"J" or not isinstance(request, dict):
                raise InvalidArgument("the front asked for what the keeper does not know")
            if request.get("call") != "login":
                self.connection.settimeout(None)
            handler = getattr(self, f"answer_{request.get('call')}", None)
            if handler is None:
                raise InvalidArgument("the front asked for what the keeper does not know")
            handler(request)
            wire.send(self.connection, b"Z")
        except (wire.Lost, TimeoutError):
            pass
        except BaseException as error:
            self._refuse(error)
        finally:
            self.connection.close()

    def _refuse(self, error: BaseException) -> None:
        if isinstance(error, Interrupted) and time.monotonic() > self._ends:
            seconds = self.keeper.options.call_seconds
            error = Late(f"the call took more than {seconds:g} seconds; what was charged is kept, the same goes on")
        self._note_refusal(error)
        if isinstance(error, DpsqlError):
            refusal = {"class": type(error).__name__, "message": str(error)}
        else:  # its text could hold a private value
            if os.environ.get("DPSQL_DEBUG"):
                traceback.print_exception(error)
            refusal = {"class": "InternalError", "message": f"internal error ({type(error).__name__})"}
        with suppress(wire.Lost):
            wire.send_json(self.connection, refusal, b"E")

    def _note_refusal(self, error: BaseException) -> None:
        """In the audit, of a call of a dp_* function: why there was no answer."""
        if "function" not in self._request:
            return
        is_sayable = isinstance(error, DpsqlError) and str(error)  # of others the text could hold a private value
        reason = str(error).splitlines()[0][:300] if is_sayable else type(error).__name__
        with suppress(Exception):  # the log is full: what charges is refused before anything else
            about = {"call": self._call} if self._call else {}
            self.keeper.audit({"event": "refused", **refused(self._request), **about, "reason": reason})

    # --- what the front may ask -------------------------------------------------------------------------------------

    def answer_hello(self, request: dict[str, Any]) -> None:
        """Which functions there are."""
        wire.send_json(self.connection, {"functions": functions_served(), "process": os.getpid()})

    def answer_status(self, request: dict[str, Any]) -> None:
        """For the metrics: who waits, and what is left of each table's budget."""
        waiting = {function: len(turns) for function, turns in self.keeper.turns.items()}
        wire.send_json(self.connection, {"waiting": waiting, "budgets": self.keeper.directory.budgets()})

    def answer_login(self, request: dict[str, Any]) -> None:
        """Check a password's proof, which is here and not in the front, so that a front cannot act for whom it likes.

        Raises:
            WrongPassword: in the same words and steps for a user who is not there.
        """
        user, directory = str(request["user"]), self.keeper.directory
        person = self._user_of(user)
        server = Server(directory.nobody(user) if person is None else person.credential)
        try:
            wire.send_json(self.connection, server.first(str(request["first"])))
            proof = server.final(str(json.loads(wire.receive(self.connection, wire.REQUEST)[1])))
        except WrongProof:
            proof = ""
        if not proof or person is None or person.role not in ROLES:
            raise WrongPassword("the password is wrong, or there is no such user")
        wire.send_json(self.connection, {"proof": proof, "token": _of_token(person.credential)})

    def answer_pulse(self, request: dict[str, Any]) -> None:
        """The password of the heartbeat."""
        wire.send_json(self.connection, self.keeper.pulse)

    def answer_published(self, request: dict[str, Any]) -> None:
        """The released tables that a user is shown, the protected ones that they may ask about, and their role."""
        user = str(request["user"])
        role = self._role(request, sees_nothing=user == PULSE)
        published_tables = [] if user == PULSE else self.keeper.directory.published(user)
        sent = ("name", "columns", "comment", "version", "audience", "schema", "keys", "required")
        tables = [{key: getattr(published, key) for key in sent} for published in published_tables]
        protected = {} if user == PULSE else self.keeper.directory.askable(user)
        wire.send_json(self.connection, {"role": role, "tables": tables, "protected": protected})

    def answer_read(self, request: dict[str, Any]) -> None:
        """The rows of a released table."""
        self._role(request)
        for published in self.keeper.directory.published(str(request["user"])):
            if published.name == request["name"] and published.version == request["version"]:
                self._send_rows(published.read())
                return
        raise InvalidArgument("the table is published no longer")

    def answer_bind(self, request: dict[str, Any]) -> None:
        """The columns of a call: free."""
        wire.send_json(self.connection, self._bind(request).columns)

    def answer_rows(self, request: dict[str, Any]) -> None:
        """The rows of a call, which may be charged for: its turn, the audit, the work.

        Who asks again for what was published waits for nobody, because that takes milliseconds.
        """
        user, function = str(request["user"]), str(request["function"])
        began = time.monotonic()
        bound = self._bind(request)
        if function in CHARGING and not bound.is_stored:
            if function == "dp_synthesize":
                _yield_to_others()
            turns = self.keeper.turns[function]  # one fit at a time; a query does not wait for fits
            with turns.turn(user, self.cancelled, lambda n: self._tell(f"waiting for {n} other calls")):
                self._run(bound, request)
        else:
            with self.keeper.shares.share(user, self.cancelled):
                self._run(bound, request)
        about = {"user": user, "function": function, "call": self._call}
        self.keeper.audit({"event": "answered", **about, "seconds": time.monotonic() - began})

    def _run(self, bound: Bound, request: dict[str, Any]) -> None:
        """Run a call in its turn. Who was revoked while it waited, or may do less now, is refused when it runs."""
        self._ends = time.monotonic() + self.keeper.options.call_seconds
        call = f"{self.keeper.name}-{next(self.keeper.numbers)}"
        try:
            self.keeper.audit({"event": "call", **stated_call(request), "call": call, "stored": bound.is_stored})
            self._call = call
        except Exception:
            raise NotAudited("the audit log cannot be written, so nothing is charged: tell the owner") from None
        wire.send_json(self.connection, bound.columns)
        self._send_rows(bound.rows(_SentProgress(self.cancelled, self._tell), self.cancelled))

    def _bind(self, request: dict[str, Any]) -> Bound:
        """The call, looked up once for a statement's columns and its rows, unless the ledger has gone on since."""
        user, function = str(request["user"]), str(request["function"])
        role = self._role(request)
        if function not in SERVED:
            raise Forbidden(f"{function} is not served to {user}")
        if function not in ROLES[role]:
            raise Forbidden(f"{function} is not for the role {role}: ask the owner for the role analyst")
        call, arguments = _call_of(request), checked_arguments(function, request["arguments"])
        with self.keeper.shares.share(user, self.cancelled), reporting(Quiet(self.cancelled)):
            lookups, describes = self.keeper.lookups, request["call"] == "bind"
            bound = lookups.get(user, call) if describes else lookups.take(user, call)
            if bound is not None and bound.is_of_now():
                return bound
            bound = self.keeper.directory.bind(user, function, arguments)
        if describes:
            lookups.keep(user, call, bound)
        return bound

    def _user_of(self, user: str) -> KnownUser | None:
        return self.keeper.heart if user == PULSE else self.keeper.directory.find(user)

    def _role(self, request: dict[str, Any], *, sees_nothing: bool = False) -> str:
        """The role now of the user of a request, who logged in with the token that they have now.

        Args:
            request: with the user.
            sees_nothing: that the request is one by which nothing is seen, so that the heartbeat's user may make it.

        Raises:
            Forbidden: there is no such user, they were revoked, or have another token.
        """
        user = str(request["user"])
        person = self._user_of(user)
        if person is None or person.role not in ROLES or (user == PULSE and not sees_nothing):
            raise Forbidden(f"there is no user {user}, or they were revoked")
        if not hmac.compare_digest(_of_token(person.credential), str(request.get("token"))):
            raise Forbidden(f"user {user} has another token now: log in again")
        self._request = request
        return person.role

    def _tell(self, text: str) -> None:
        with suppress(wire.Lost):
            wire.send_json(self.connection, text, b"P")

    def _send_rows(self, rows: Any) -> None:
        sink = pa.PythonFile(wire.Sender(self.connection), mode="w")
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            for batch in rows:
                if self.cancelled():
                    raise Interrupted
                writer.write_batch(batch)


def _yield_to_others() -> None:
    """Let this thread, and those that it starts, take what others leave: who asks a query waits for no fit."""
    with suppress(OSError, AttributeError):  # a thread has a priority of its own on Linux only
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE_FIT)


def _call_of(request: dict[str, Any]) -> str:
    """A text that the same call of the same login has again."""
    return json.dumps([request[name] for name in ("user", "token", "function", "arguments")], sort_keys=True)


def _of_token(credential: Credential) -> str:
    """What tells whether a token was replaced since a session began, and nothing of the token."""
    return hashlib.sha256(b"session" + credential.salt + credential.stored_key).hexdigest()


class Keeper:
    """Listens on the Unix socket; one thread for each call."""

    def __init__(self, options: Options, directory: Directory, audit: Audit) -> None:
        self.options, self.directory, self.audit = options, directory, audit
        self.pulse, credential = new_token()
        self.heart = KnownUser(
            "reader", Credential(credential.salt, credential.iterations, credential.stored_key, credential.server_key)
        )
        self.turns = {function: Turns(options.queue, options.user_queue) for function in CHARGING}
        self.shares = Shares(_FREE_CALLS)
        self.name = secrets.token_hex(6)  # a process's number comes again, and the log of before is still there
        self.numbers = itertools.count(1)
        self.lookups: Lookups[Bound] = Lookups(_LOOKUPS, _LOOKUP_SECONDS)

    def listen(self, path: Path, group: str = "") -> socket.socket:
        """A Unix socket that only this user may open, or a group of the system's too."""
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        if group:
            shutil.chown(path, group=group)
            path.chmod(0o660)
        listening.listen(128)
        return listening

    def serve(self, listening: socket.socket) -> None:
        """Answer the front until the process ends."""
        while True:
            connection, _ = wire.accepted(listening)
            try:
                threading.Thread(target=Call(self, connection).serve, daemon=True).start()
            except (RuntimeError, MemoryError):  # the system has no thread for it: those that come later may have one
                connection.close()

    def serve_owner(self, listening: socket.socket) -> None:
        """Answer the owner's commands, one after the other."""
        while True:
            connection, _ = wire.accepted(listening)
            with connection, suppress(OSError):
                connection.settimeout(_OWNER_SECONDS)
                line = owner_door.read_line(connection)
                if line:
                    connection.sendall(self._answer_owner(line))

    def _answer_owner(self, line: bytes) -> bytes:
        try:
            self.audit({"event": "owner", "user": "", "request": line.decode(errors="replace").strip()})
        except Exception as error:
            return json.dumps({"error": "DpsqlError", "message": str(error)}).encode() + b"\n"
        return self.directory.owner(line)


def main() -> None:
    """`python -m dpsql.service.keeper`, with the options on standard input; ends when its standard input does."""
    from .process import audit_of, loaded, until_told

    options = Options.from_json(sys.stdin.readline())
    os.nice(_NICE)
    try:
        directory: Directory = loaded(options.directory)(options.path)
        if options.startup:
            startup.run(directory, options.startup)
    except DpsqlError as error:
        sys.exit(f"dpsql: {error}")
    keeper = Keeper(options, directory, audit_of(options, "keeper"))
    socket_path = Path(options.socket)
    owners = socket_path.with_name("owner.sock")
    for serve, path, group in ((keeper.serve, socket_path, options.socket_group), (keeper.serve_owner, owners, "")):
        threading.Thread(target=serve, args=[keeper.listen(path, group)], daemon=True).start()
    announced = owner_door.announce(options.path, owners)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    until_told()
    announced.unlink(missing_ok=True)
    with suppress(Exception):  # DuckDB 2.0 refuses to close a connection that a call uses now
        directory.close()
    os._exit(0)  # calls may be at work still: what was charged is kept


if __name__ == "__main__":
    main()
