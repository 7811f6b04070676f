"""Load the native extension into a DuckDB instance and keep track of the instances that have it.

An instance must end when its user closes the last connection, so that the file is free again. Our C connections would
keep it alive; they are closed when every connection that dpsql was installed on is closed. DuckDB does not tell, but it
drops the Python functions that were created on a connection then, and one of them is our guard. The guard is created in
a transaction that is rolled back: so no catalog lists it and no statement can call it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import duckdb

from dpsql.books.ledger.table_ids import Seen, share
from dpsql.core.names import quote
from dpsql.engines.duckdb.names import SEAL, current_schema
from dpsql.engines.duckdb.settings import owned, pin, remember, script, seal
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument, NotOwner

from .bridge import callbacks
from .bridge.connections import Connections
from .bridge.declare import Call, Query, Relation, TableFunction
from .bridge.library import PATH, load, lock

Rows = Sequence[Sequence[Any]]
_GUARD: Final = "dpsql_guard"
_CLOSED = (
    "the connection that dpsql was installed on was closed while others stayed open, and it cannot be loaded twice: "
    "close all connections to this database and open it again"
)
_BUSY: Final = (
    "a transaction is open on this connection: COMMIT it or ROLLBACK, then call dpsql.install(connection) again"
)


class InstanceNumber(TableFunction):
    """`dpsql_instance()`: which `Instance` of this process a connection belongs to."""

    name = "dpsql_instance"

    def __init__(self, number: int) -> None:
        self._number = number

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        return Query(f"SELECT {self._number:d}::BIGINT AS number")


class _Guard:
    """A function that a connection holds until it is closed, and that nobody calls."""

    def __call__(self) -> int:
        return 0


class Instance:
    """One DuckDB instance (an open database) with our functions in it."""

    def __init__(self, make_functions: Callable[[Instance], Sequence[TableFunction]]) -> None:
        self._make_functions = make_functions
        self._users: list[weakref.ref[duckdb.DuckDBPyConnection]] = []
        self._guards = 0
        self._guarding = threading.Lock()
        self._drops = 0
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._numbers: list[int] = []
        self._seen = Seen()
        self._owned: dict[str, str] = {}
        self.interrupts = 0
        self.owner = True
        self._vouched = threading.local()
        self.connections: Connections | None = None

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Run LOAD, which calls back with the instance's handle, and register the functions."""

        def register(handle: Any) -> None:
            self.connections = Connections(handle)
            functions = [*self._make_functions(self), InstanceNumber(id(self))]
            self._numbers = callbacks.register(self.connections, functions)

        load(connection, register)
        assert self.connections is not None
        with connection.cursor() as cursor:
            self.connections.home = ".".join(map(quote, current_schema(cursor, "")))
            self.connections.run(script())
            pin(cursor)
            self._owned = owned(cursor)

    def use(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let `connection` keep the instance: until it is closed, our connections stay open."""
        if any(user() is connection for user in self._users):
            return
        guard = _Guard()
        _check_not_busy(connection)
        with self._guarding:  # two connections that make a function of one name at once conflict
            connection.begin()
            try:
                connection.create_function(_GUARD, guard, [], "BIGINT")
            finally:
                connection.rollback()
        weakref.finalize(guard, self._dropped)
        self._guards += 1
        self._users.append(weakref.ref(connection))

    def _dropped(self) -> None:
        self._drops += 1
        self._close_idle()  # one may be of the connection that was closed
        self._guards -= 1
        if self._guards == 0 and self in _instances and self.connections is not None:
            _instances.remove(self)
            self.connections.close()
            callbacks.forget(self._numbers)

    def _close_idle(self) -> None:
        with suppress(IndexError):  # another thread was faster
            while self._idle:
                self._idle.pop().close()

    @property
    def home(self) -> str:
        """The schema in which a connection finds a bare name, unless it says otherwise."""
        return "" if self.connections is None else self.connections.home

    def allow_owner(self, *, owner: bool | None) -> None:
        """Switch the owner's functions off, for good; None leaves them as they are.

        Raises:
            InvalidArgument: they are off, and asked for.
        """
        if owner and not self.owner:
            raise InvalidArgument(
                "owner is True, but dpsql was installed in this database with owner=False, which holds for all its "
                "connections: close all of them, and open it again with dpsql.connect(path)"
            )
        self.owner = self.owner if owner is None else owner

    @contextmanager
    def as_owner(self) -> Iterator[None]:
        """What this thread calls inside is the owner's, whatever `owner` says: who calls has checked that it is."""
        before, self._vouched.owner = getattr(self._vouched, "owner", False), True
        try:
            yield
        finally:
            self._vouched.owner = before

    def check_owner(self, name: str) -> None:
        """Refuse a call of the owner's where those are switched off.

        Raises:
            NotOwner: they are.
        """
        if not self.owner and not getattr(self._vouched, "owner", False):
            raise NotOwner(
                f"{name} is for the owner of the tables, and dpsql was installed here with owner=False: the owner "
                "calls it from a process of their own, with dpsql.connect(path), while no other has the database open"
            )

    def for_owner(self, name: str, compute: Callable[[], Rows]) -> Callable[[], Rows]:
        """What a function of the owner's computes; refused when it is bound, and when it runs, which may be later."""
        self.check_owner(name)

        def checked() -> Rows:
            self.check_owner(name)
            return compute()

        return checked

    def interrupt(self) -> None:
        """Stop the work of every table function that runs now on this instance, within a second."""
        self.interrupts += 1

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own to the instance, for the work of one call."""
        cursor = self._open_cursor()
        try:
            remember(cursor, self._owned)
            yield cursor
        finally:
            cursor.close()

    @contextmanager
    def lookup(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to look names up with, and to change no setting of: kept for the next, for to open one takes
        as long as to use it.
        """
        drops, is_reusable = self._drops, False
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self._open_cursor()
        try:
            yield cursor
            is_reusable = True
        except Interrupted:  # perhaps in the middle of one
            raise
        except DpsqlError:  # which leaves no transaction open
            is_reusable = True
            raise
        finally:
            if is_reusable and len(self._idle) < _MOST_IDLE:
                self._idle.append(cursor)
            else:
                cursor.close()
            if drops != self._drops:  # meanwhile, perhaps of the last user: looked at when it can no longer be missed
                self._close_idle()

    def _open_cursor(self) -> duckdb.DuckDBPyConnection:
        for reference in list(self._users):
            user = reference()
            if user is not None:
                try:
                    cursor = user.cursor()
                except duckdb.ConnectionException:
                    pass
                else:
                    cursor.execute(SEAL)
                    seal(cursor)
                    share(cursor, self._seen)
                    return cursor
            with suppress(ValueError):  # another thread was faster
                self._users.remove(reference)
        raise DpsqlError(_CLOSED)


class SqlFunction(TableFunction):
    """A table function of an instance. A file `dp_<name>.py` defines one, and is found there by itself."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance


_MOST_IDLE: Final = 16
_instances: list[Instance] = []


def install(
    connection: duckdb.DuckDBPyConnection,
    make_functions: Callable[[Instance], Sequence[TableFunction]],
    *,
    owner: bool | None = None,
) -> Instance:
    """Load the extension into the instance of `connection`, once, and let the connection use it.

    Raises:
        InvalidArgument: see `Instance.allow_owner`.
        DpsqlError: the connection was opened without `allow_unsigned_extensions`, or the extension was not built.
    """
    with lock:
        instance = _find(connection)
        if instance is None:
            _check(connection)
            _check_not_busy(connection)
            instance = Instance(make_functions)
            instance.load(connection)
            _instances.append(instance)
        instance.use(connection)
        instance.allow_owner(owner=owner)
        return instance


def _find(connection: duckdb.DuckDBPyConnection) -> Instance | None:
    """The instance of `connection` among those that have the extension, told by its own `dpsql_instance()`.

    Asked on a connection of its own, because a statement that fails ends an open transaction. A list of all functions
    would say the same and take 10 milliseconds.
    """
    with connection.cursor() as probe:
        try:
            number = probe.execute("SELECT number FROM dpsql_instance()").fetchall()[0][0]
        except duckdb.CatalogException:
            return None
        except duckdb.Error:
            raise DpsqlError(_CLOSED) from None
    return next(instance for instance in _instances if id(instance) == number)


def _check_not_busy(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a connection with an open transaction, before anything is loaded that only its close would end."""
    try:
        connection.begin()
    except duckdb.TransactionException:
        raise DpsqlError(_BUSY) from None
    connection.rollback()


def _check(connection: duckdb.DuckDBPyConnection) -> None:
    if not PATH.exists():
        raise DpsqlError(f"the native extension {PATH.name} was not built: install the package with pip install .")
    allowed = connection.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall()[0][0]
    if not allowed:
        raise DpsqlError(
            "this connection does not allow unsigned extensions: open it with dpsql.connect(path), or with "
            "duckdb.connect(path, config={'allow_unsigned_extensions': 'true'}), then dpsql.install(connection)"
        )
