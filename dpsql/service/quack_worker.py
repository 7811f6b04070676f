"""The process of one user of Quack, DuckDB's own protocol: a pipe to the same sessions as PostgreSQL's protocol.

The extension's server runs on a DuckDB of its own, in which there is nothing. Its two hooks are ours. One checks who
logs in. The other is asked for each statement, and answers with the statement that runs instead: it has
the user's statement checked and run as the other door does, puts the rows into a table of a name that nobody can
guess, and answers `FROM` that table. So no text of a user's is ever run on the server's DuckDB.

The server of DuckDB 1.5 speaks HTTP without TLS. So it listens on the loopback address and nowhere else. It reads
in C++ what clients send. So each user has a process of their own, in which such a server is for them alone. It takes no
password: `quack` has checked it, and hands over a ticket for one login. The process has a network of its own where the
system allows it (see `nursery`). So requests come over connections that the door hands over.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling

from dpsql.core.names import as_text, quote
from dpsql.errors import DpsqlError, InvalidArgument

from . import arrow
from .allowlist import AllowList
from .analysis import Analyses, lock
from .analyst import Analyst, Execution, Shared
from .calls import Calls, Login, own_name
from .line import Line
from .lookout import LOOK_SECONDS, RIGHTS_SECONDS, look, that_may_not_stay
from .nursery import again, nurse
from .options import Options
from .process import limit_memory, mapped, most_of_user
from .quack_messages import NotQuack, Request
from .sqlstate import is_unexpected, message, place_of
from .tokens import first_word
from .workers import ENDED

HOST: Final = "127.0.0.1"
_WHEELS: Final = ("httpfs", "quack")  # quack takes its random numbers from httpfs
CHANGED: Final = "what you may do or see was changed: connect again"
_BEGIN_SECONDS: Final = 30.0
_PIECE: Final = 1 << 17
_STACK_BYTES: Final = 512 << 10
"""Of a thread that passes on one request."""
_PORTS: Final = 20
"""That are tried: another process may take one that was free."""
_NEW_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 3600.0
_TRANSACTIONS: Final = frozenset({"BEGIN TRANSACTION", "COMMIT", "ROLLBACK"})
_SCHEMAS: Final = (
    "SELECT catalog_name, schema_name FROM information_schema.schemata WHERE catalog_name NOT IN ('system', 'temp') "
    "ORDER BY ALL"
)
_TABLES: Final = (
    "SELECT schema_name, sql, 'table' FROM duckdb_tables() UNION ALL SELECT schema_name, view_name, 'view' "
    "FROM duckdb_views()"
)
"""What a client asks when it attaches, word for word: answered from what the user is shown."""
_LONGEST: Final = 1000
"""Of these."""


def needed() -> None:
    """Refuse where the extension is not there, or is one that was not tried.

    Raises:
        InvalidArgument: with what to install.
    """
    missing = [f"duckdb-extension-{name}" for name in _WHEELS if find_spec(f"duckdb_extension_{name}") is None]
    if not duckdb.__version__.startswith("1.5."):
        raise InvalidArgument(
            f"quack is served with DuckDB 1.5, this is {duckdb.__version__}: leave the option out, or install "
            "duckdb==1.5.5 duckdb-extension-quack==1.5.5 duckdb-extension-httpfs==1.5.5"
        )
    if missing:
        wanted = " ".join(f"{name}=={duckdb.__version__}" for name in missing)
        raise InvalidArgument(f"quack needs DuckDB's extension: pip install {wanted}")


@dataclass
class _Session:
    """Who logged in, the statements that are run for them, and the rows of the last one."""

    number: int
    analyst: Analyst
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    working: set[object] = field(default_factory=set)
    table: str = ""
    ended: str = ""


class QuackServer:
    """See the module.

    Args:
        shared: what all sessions have.
        line: to who started this process.

    Attributes:
        port: that it listens on, of the loopback address.
    """

    def __init__(self, shared: Shared, line: Line) -> None:
        self._shared, self._line = shared, line
        self._tickets: dict[str, tuple[int, Login]] = {}
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.RLock()
        options = shared.options
        config: dict[str, Any] = {"threads": str(options.threads), "memory_limit": options.memory}
        self._connection = duckdb.connect(config=config)
        for name in _WHEELS:
            self._connection.execute(f"LOAD '{_extension(name)}'")
        texts: list[Any] = [duckdb.sqltype("VARCHAR")] * 3
        self._connection.create_function(
            "dpsql_login",
            self._login,
            texts,
            duckdb.sqltype("BOOLEAN"),
            side_effects=True,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        self._connection.create_function(
            "dpsql_answer",
            self._answer,
            texts[:2],
            texts[0],
            side_effects=True,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        self._connection.execute("SET GLOBAL quack_authentication_function = 'dpsql_login'")
        self._connection.execute("SET GLOBAL quack_authorization_function = 'dpsql_answer'")
        self._connection.execute("CREATE SCHEMA results")

        self.port = self._open()
        lock(self._connection)
        again(self._look, LOOK_SECONDS)
        again(self._look_at_rights, RIGHTS_SECONDS)
        again(self._sweep, RIGHTS_SECONDS)

    def _open(self) -> int:
        """Listen on a port of the loopback address that is free; which it is."""
        token = secrets.token_hex(32)  # of the server's: the hooks do not look at it
        for _ in range(_PORTS):
            with socket.create_server((HOST, 0)) as free:
                port = int(free.getsockname()[1])
            with suppress(duckdb.Error):  # it is another's meanwhile
                self._connection.execute(f"CALL quack_serve('quack:{HOST}:{port}', token = '{token}')")
                _await_answer(port)
                return port
        raise DpsqlError("no port is free")

    def begin(self, handshake: dict[str, Any], connection: socket.socket) -> None:
        """Answer one request, which comes over a connection; a login comes with what it is told, and with a ticket."""
        ticket = str(handshake.get("ticket", ""))
        if ticket:
            self._tickets[ticket] = handshake["number"], Login(handshake["user"], handshake["token"])
        try:
            threading.Thread(target=self._pass_on, args=[connection, ticket], daemon=True).start()
        except RuntimeError:  # there is too little memory for one more
            connection.close()

    def _pass_on(self, connection: socket.socket, ticket: str) -> None:
        """To the server, and back. It has a port where nobody else of the machine comes, if the system allows that."""
        with connection, suppress(OSError, NotQuack):
            request = Request.of(connection)
            if request is not None:
                with socket.create_connection((HOST, self.port), timeout=_BEGIN_SECONDS) as server:
                    server.settimeout(None)  # the door ends what takes too long
                    server.sendall(Request.written(request.body))
                    while piece := server.recv(_PIECE):
                        connection.sendall(piece)
        self._tickets.pop(ticket, None)

    # --- the hooks, which are called in threads of the server's ----------------------------------------------------

    def _login(self, number: str | None, given: str | None, _: str | None) -> bool:
        """Whether `given`, which is a ticket, may have the session of this number."""
        name, login = self._tickets.pop(given or "", (0, None))
        if login is None or not number:
            return False
        analyst = Analyst(self._shared, login, _unheard)
        with self._lock:
            self._sessions[number] = _Session(name, analyst, time.monotonic())
        return True

    def _answer(self, number: str | None, sql: str | None) -> str | None:
        """The statement that runs in place of one; None refuses without a word.

        Rows that a client sends for a table come here as an INSERT, and the server looks only whether the answer is
        None. So whatever begins with INSERT is answered so.
        """
        session = self._sessions.get(number or "")
        if session is None or sql is None:
            return None
        work = object()
        session.working.add(work)  # also while it waits for another statement of the session
        try:
            answer = self._answered(session, sql)
        finally:
            session.working.discard(work)
        return None if first_word(sql) == "INSERT" else answer

    def _answered(self, session: _Session, sql: str) -> str:
        with session.lock:
            session.used = time.monotonic()
            try:
                if session.ended:
                    raise DpsqlError(session.ended)
                return self._of_catalogue(session, sql) or self._run(session, sql)
            except Exception as error:
                if is_unexpected(error):
                    with suppress(DpsqlError):  # nothing was charged that has to be in the log
                        session.analyst.note({"event": "fault", "statement": sql, "reason": place_of(error)})
                return f"SELECT error({_literal(message(error))})"

    def _of_catalogue(self, session: _Session, sql: str) -> str | None:
        """The answer to what clients say when they attach, or around a statement."""
        if len(sql) > _LONGEST:
            return None
        flat = " ".join(sql.split()).rstrip("; ")
        if flat.upper() in _TRANSACTIONS:
            return "SELECT true AS ok"
        if flat == _SCHEMAS:
            schemas = {"main", *(table["schema"] for table in session.analyst.shown.tables.values() if table["schema"])}
            return f"SELECT 'memory' AS catalog_name, unnest({sorted(schemas)}) AS schema_name"
        if flat != _TABLES:
            return None
        rows = [
            f"({_literal(table['schema'] or 'main')}, {_literal(_created(name, table))}, 'table')"
            for name, table in session.analyst.shown.tables.items()
        ]
        return f"SELECT * FROM (VALUES {', '.join(rows or ['(NULL, NULL, NULL)'])}) t(schema_name, sql, kind) WHERE sql IS NOT NULL"  # noqa: S608, E501

    def _run(self, session: _Session, sql: str) -> str:
        analyst = session.analyst
        analyst.seconds = self._shared.options.statement_seconds
        checked = analyst.check(sql)
        execution = analyst.run(checked, lambda query, columns: arrow.sent(query, columns))
        try:
            table = self._stored(execution)
        finally:
            execution.close()
        self._drop(session)
        session.table = table
        return f"FROM {table}"

    def _stored(self, execution: Execution) -> str:
        """The name of a new table of the rows."""
        name, view = f"results.r{secrets.token_hex(16)}", f"received_{secrets.token_hex(8)}"
        batches = _Batches(execution, self._shared.options.most_rows)
        rows = batches.reader()
        with self._lock:
            cursor = self._connection.cursor()
        try:
            if rows is None:
                cursor.execute(f"CREATE TABLE {name} AS {arrow.empty(arrow.unique(execution.columns))}")
            else:
                cursor.register(view, rows)
                cursor.execute(f"CREATE TABLE {name} AS {arrow.received(view, execution.columns)}")
        except duckdb.Error as error:
            raise batches.failure or error from None
        finally:
            cursor.close()
        return name

    def _drop(self, session: _Session) -> None:
        if session.table:
            with self._lock, suppress(duckdb.Error):
                self._connection.execute(f"DROP TABLE IF EXISTS {session.table}")
            session.table = ""

    # --- again and again ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        sessions = list(self._sessions.values())
        at_work = [session.number for session in sessions if session.working]
        look([(session.number, session.analyst) for session in sessions], self._line, at_work)

    def _look_at_rights(self) -> None:
        """End the sessions of users who were revoked, or may do or see else than when they came."""
        sessions = [(running, running.analyst) for running in list(self._sessions.values()) if not running.ended]
        for session, analyst in that_may_not_stay(sessions, self._shared.calls):
            session.ended = CHANGED
            analyst.cancel()

    def _sweep(self) -> None:
        """Forget the sessions whose clients have gone, or say nothing any more: not all say goodbye."""
        with self._lock:
            rows = self._connection.execute("SELECT connection_id FROM quack_active_connections()").fetchall()
        open_now = {row[0] for row in rows}
        for number, session in list(self._sessions.items()):
            idle = time.monotonic() - session.used
            if idle > _IDLE_SECONDS or (number not in open_now and idle > _NEW_SECONDS):
                session.analyst.cancel()
                with session.lock:
                    self._sessions.pop(number)
                    self._drop(session)
                    session.analyst.close()
                self._line.tell(ENDED, session.number)


class _Batches:
    """The batches of an execution, for Arrow.

    Attributes:
        failure: what ended them early; DuckDB, which reads them, would hide it.
    """

    def __init__(self, execution: Execution, most_rows: int) -> None:
        self._execution, self._most_rows = execution, most_rows
        self.failure: BaseException | None = None

    def reader(self) -> Any:
        """A `pyarrow.RecordBatchReader`, or None if there are no rows."""
        first = self._execution.next()
        return None if first is None else pa.RecordBatchReader.from_batches(first.schema, self._all(first))

    def _all(self, first: Any) -> Iterator[Any]:
        batch, count = first, 0
        try:
            while batch is not None:
                count += batch.num_rows
                if count > self._most_rows:
                    raise DpsqlError(f"the statement has more than {self._most_rows} rows: ask for fewer with LIMIT")
                yield batch
                batch = self._execution.next()
        except Exception as error:
            self.failure = error
            raise


def _extension(name: str) -> Path:
    """The file of an extension, in its wheel."""
    spec = find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    (folder,) = spec.submodule_search_locations or [""]
    return next(Path(folder).rglob(f"{name}.duckdb_extension"))


def _created(name: str, released: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{quote(column)} {kind}" for column, kind in released["columns"])
    schema = released["schema"]
    table = ".".join(map(quote, filter(None, [schema, own_name(name, schema)])))
    return f"CREATE TABLE {table}({shown});"


def _await_answer(port: int) -> None:
    """Wait until the server answers anything: its threads are there then, so what they map can be told.

    Raises:
        DpsqlError: it does not.
    """
    asking = HTTPConnection(HOST, port, timeout=_BEGIN_SECONDS)
    try:
        asking.request("GET", "/")
        asking.getresponse().read()
    except (OSError, HTTPException):
        raise DpsqlError("Quack's server does not answer") from None
    finally:
        asking.close()


def _literal(text: str) -> str:
    return as_text(text.replace("\0", ""))


def _unheard(text: str) -> None:
    """Progress, which the protocol has no place for."""


def _run(options: Options, connection: socket.socket, catalogue: int) -> None:
    """Be the process of a user, until who started it is gone."""
    line, calls = Line(connection), Calls(options.socket)
    server = QuackServer(Shared(Analyses(calls, options, catalogue), calls, AllowList(), options, line.audit), line)
    limit_memory(mapped() + most_of_user(options))  # what is mapped by now is the stacks of the server's 128 threads
    threading.stack_size(_STACK_BYTES)
    line.obey(server.begin, lambda number: None)


if __name__ == "__main__":
    nurse(_run)
