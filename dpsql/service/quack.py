"""Quack, DuckDB's own protocol, as a second door: a pipe to the same sessions as PostgreSQL's protocol.

The extension's server runs on a DuckDB of its own, in which there is nothing. Its two hooks are ours. One checks the
user and the token. The other is asked for each statement, and answers with the statement that runs instead: it has
the user's statement checked and run as the other door does, puts the rows into a table of a name that nobody can
guess, and answers `FROM` that table. So no text of a user's is ever run on the server's DuckDB.

The server of DuckDB 1.5 speaks HTTP without TLS. So it listens on the loopback address and nowhere else. It reads what
clients send in C++, without a limit of its length before the login. So it has a process of its own, whose end does not
end the sessions of the other door.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling

from dpsql.core.names import quote
from dpsql.errors import DpsqlError, InvalidArgument

from . import arrow
from .allowlist import AllowList
from .analysis import Analyses, lock
from .analyst import Analyst, Execution, Shared
from .calls import Calls, Login, Refused
from .options import Options
from .scram import Client
from .sqlstate import message
from .tokens import first_word

HOST: Final = "127.0.0.1"
_WHEELS: Final = ("httpfs", "quack")  # quack takes its random numbers from httpfs
CHANGED: Final = "what you may do or see was changed: connect again"
_LOOK_SECONDS: Final = 0.05
_RIGHTS_SECONDS: Final = 1.0
_FAILED_SECONDS: Final = 0.5
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
    """Who logged in, and the rows of their last statement."""

    analyst: Analyst
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    table: str = ""
    ended: str = ""


class QuackDoor:
    """See the module."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
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

    def open(self, port: int) -> None:
        """Listen, on the loopback address."""
        token = secrets.token_hex(32)  # of the server's: the hooks do not look at it
        self._connection.execute(f"CALL quack_serve('quack:{HOST}:{port}', token = '{token}')")
        lock(self._connection)
        for work, seconds in (
            (self._look, _LOOK_SECONDS),
            (self._look_at_rights, _RIGHTS_SECONDS),
            (self._sweep, _RIGHTS_SECONDS),
        ):
            threading.Thread(target=_again, args=[work, seconds], daemon=True).start()

    # --- the hooks, which are called in threads of the server's ----------------------------------------------------

    def _login(self, number: str | None, given: str | None, _: str | None) -> bool:
        """Whether `given`, which is `user:token`, may have the session of this number."""
        user, _, token = (given or "").partition(":")
        known = proven(self._shared.calls, user, token)
        if known is None or not number:
            self._shared.audit({"event": "login refused", "user": user[:63], "address": f"quack {HOST}"})
            time.sleep(_FAILED_SECONDS)  # guesses cost time
            return False
        options = self._shared.options
        with self._lock:
            own = sum(session.analyst.login.user == user for session in self._sessions.values())
            if len(self._sessions) >= options.connections or own >= options.user_connections:
                return False
        self._shared.audit({"event": "login", "user": user, "address": f"quack {HOST}"})
        analyst = Analyst(self._shared, Login(user, known), _unheard)
        with self._lock:
            self._sessions[number] = _Session(analyst, time.monotonic())
        return True

    def _answer(self, number: str | None, sql: str | None) -> str | None:
        """The statement that runs in place of one; None refuses without a word.

        Rows that a client sends for a table come here as an INSERT, and the server looks only whether the answer is
        None. So whatever begins with INSERT is answered so.
        """
        session = self._sessions.get(number or "")
        if session is None or sql is None:
            return None
        with session.lock:
            session.used = time.monotonic()
            try:
                if session.ended:
                    raise DpsqlError(session.ended)
                answer = self._of_catalogue(session, sql) or self._run(session, sql)
            except Exception as error:
                answer = f"SELECT error({_literal(message(error))})"
        return None if first_word(sql) == "INSERT" else answer

    def _of_catalogue(self, session: _Session, sql: str) -> str | None:
        """The answer to what clients say when they attach, or around a statement."""
        if len(sql) > _LONGEST:
            return None
        flat = " ".join(sql.split()).rstrip("; ")
        if flat.upper() in _TRANSACTIONS:
            return "SELECT true AS ok"
        if flat == _SCHEMAS:
            return "SELECT 'memory' AS catalog_name, 'main' AS schema_name"
        if flat != _TABLES:
            return None
        rows = [
            f"('main', {_literal(_created(name, told['columns']))}, 'table')"
            for name, told in session.analyst.shown.tables.items()
        ]
        return f"SELECT * FROM (VALUES {', '.join(rows or ['(NULL, NULL, NULL)'])}) t(schema_name, sql, kind) WHERE sql IS NOT NULL"  # noqa: S608, E501

    def _run(self, session: _Session, sql: str) -> str:
        analyst = session.analyst
        analyst.seconds = self._shared.options.statement_seconds
        checked = analyst.check(sql)
        execution = analyst.run(checked, lambda query, columns: arrow.sent(query, columns))
        try:
            table = self._kept(execution)
        finally:
            execution.close()
        self._drop(session)
        session.table = table
        return f"FROM {table}"

    def _kept(self, execution: Execution) -> str:
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
        """Interrupt what is late; where that does nothing, end this process, which the supervisor starts again."""
        for session in list(self._sessions.values()):
            session.analyst.look()
            if session.analyst.is_stuck():
                os._exit(1)

    def _look_at_rights(self) -> None:
        """End the sessions of users who were revoked, or may do or see else than when they came."""
        sessions = [session for session in list(self._sessions.values()) if not session.ended]
        for login in {session.analyst.login for session in sessions}:
            with suppress(DpsqlError):  # the keeper is starting again: later
                shown = self._shared.calls.shown_now(login)
                for session in sessions:
                    if session.analyst.login == login and not session.analyst.may_stay(shown):
                        session.ended = CHANGED
                        session.analyst.cancel()

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


def _again(work: Callable[[], None], seconds: float) -> None:
    while True:
        time.sleep(seconds)
        with suppress(Exception):  # whatever it was, the next time may go well
            work()


def _extension(name: str) -> Path:
    """The file of an extension, in its wheel."""
    found = find_spec(f"duckdb_extension_{name}")
    assert found is not None
    (folder,) = found.submodule_search_locations or [""]
    return next(Path(folder).rglob(f"{name}.duckdb_extension"))


def proven(calls: Calls, user: str, token: str) -> str | None:
    """What proves to the keeper that a user logged in; None where the token is wrong, or there is no such user."""
    client = Client(token)
    try:
        with calls.login(user, client.first) as exchange:
            return exchange.final(client.final(exchange.first))[1]
    except Refused:
        return None


def _created(name: str, columns: Any) -> str:
    shown = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
    return f"CREATE TABLE {quote(name)}({shown});"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\0", "") + "'"


def _unheard(text: str) -> None:
    """Progress, which the protocol has no place for."""


def main() -> None:
    """`python -m dpsql.service.quack`, with the options on standard input; ends when its standard input does."""
    from .process import audit_of, limit_memory, most_of_user, until_told

    options = Options.from_json(sys.stdin.readline())
    limit_memory(most_of_user(options))
    with suppress(OSError):  # where memory ends, Linux ends this process first: a message may be as long as one likes
        Path("/proc/self/oom_score_adj").write_text("1000")
    calls = Calls(options.socket)
    shared = Shared(Analyses(calls, options), calls, AllowList(), options, audit_of(options, "quack"))
    door = QuackDoor(shared)
    try:
        door.open(options.quack)
    except duckdb.Error as error:  # the port is taken
        sys.exit(f"dpsql: Quack cannot be served on port {options.quack}: {str(error).splitlines()[0]}")
    sys.stdout.write(f"ready {options.quack}\n")
    sys.stdout.flush()
    until_told()
    os._exit(0)  # threads may wait in DuckDB or for clients


if __name__ == "__main__":
    main()
