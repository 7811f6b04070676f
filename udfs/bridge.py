"""Table functions of DuckDB written in Python: declare, register, stream.

A function is declared by its name, its parameters and `bind`, which returns a `Relation`:

    class Squares(TableFunction):
        name = "squares"
        parameters = (Parameter("upto", "BIGINT", positional=True),)

        def bind(self, call: Call) -> Relation:
            return Query(f"SELECT i, i * i AS square FROM range({call['upto']:d}) t(i)", cardinality=call["upto"])

    register(handle_of_the_database, [Squares()])

Binding is free: `bind` only tells the schema (the columns of a `SELECT` that is prepared, never executed). `run` of the
relation does the work, once for each scan that DuckDB executes, and returns the `SELECT` whose rows are streamed: its
chunks are handed over by reference, so every type of DuckDB passes through unchanged and only the columns that the
query needs are read.

DuckDB calls back on threads of its own. A callback never raises: a `DpsqlError` becomes DuckDB's error with its text;
any other exception becomes a constant text with the exception's class, for its message could hold a private value.
"""

from __future__ import annotations

import ctypes as C
import itertools
import os
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from dpsql.errors import DpsqlError, InternalError, InvalidArgument
from dpsql.runtime.progress import Interrupted

from . import capi


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a table function.

    Attributes:
        name: as in `name := value`; a positional parameter is named in errors only.
        type: BOOLEAN, BIGINT, DOUBLE, VARCHAR, a list of one of them (`VARCHAR[]`), or ANY, which arrives as the
            literal was written (lists too; dates, timestamps and the like as text).
        positional: given by place, before all named ones; positional parameters have no default.
        default: the value when the parameter is left out; REQUIRED makes leaving it out an error.
        help: one line for documentation.
    """

    name: str
    type: str
    positional: bool = False
    default: Any = REQUIRED
    help: str = ""


@dataclass(frozen=True)
class Call:
    """One call as DuckDB bound it: the arguments by name, and the caller's search path."""

    function: str
    arguments: Mapping[str, Any]
    search_path: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


class Relation(ABC):
    """What a call returns: a schema that costs nothing to know, and rows that `run` may have to work for."""

    schema: str
    """A SELECT with the columns of the result; it is prepared, never executed."""
    cardinality: int | None = None
    """Rows expected, for DuckDB's optimiser; None if unknown."""
    constant: ClassVar[bool] = False
    """Whether `schema` names nothing of the database, so that it cannot change after the call was bound."""

    @abstractmethod
    def run(self) -> str:
        """Do the work and return the SELECT to stream, with the same columns as `schema`."""


@dataclass
class Query(Relation):
    """A relation that is a query: nothing to do but stream it."""

    schema: str
    cardinality: int | None = None

    def run(self) -> str:
        """Return the query itself."""
        return self.schema


class TableFunction(ABC):
    """A table function: subclass, name it, list its parameters, write `bind`."""

    name: ClassVar[str]
    parameters: Sequence[Parameter] = ()

    @abstractmethod
    def bind(self, call: Call) -> Relation:
        """Check the arguments and return the relation; must not change anything or read private rows."""


class Statement:
    """A prepared statement on a C connection: its schema, and once executed its chunks."""

    def __init__(self, connection: C.c_void_p, sql: str) -> None:
        self._handle = C.c_void_p()
        self._result: capi.Result | None = None
        if capi.prepare(connection, sql.encode(), C.byref(self._handle)) != capi.SUCCESS:
            message = (capi.prepare_error(self._handle) or b"").decode()
            self.close()
            raise InternalError(f"a generated statement could not be prepared: {message.splitlines()[0]}")

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(capi.prepared_column_count(self._handle))

    def column(self, index: int) -> tuple[str, C.c_void_p]:
        """Name and logical type of a column; the caller destroys the type."""
        name = capi.take_text(capi.prepared_column_name(self._handle, index))
        return name, C.c_void_p(capi.prepared_column_type(self._handle, index))

    def execute(self, *, stream: bool) -> None:
        """Start executing; rows come from `fetch`. A stream needs its connection for itself until it is closed."""
        result = capi.Result()
        execute = capi.execute_streaming if stream else capi.execute_prepared
        if execute(self._handle, C.byref(result)) != capi.SUCCESS:
            capi.destroy_result(C.byref(result))
            raise InternalError("a stored relation could not be read; it may have been changed meanwhile")
        self._result = result

    def fetch(self) -> C.c_void_p | None:
        """The next chunk, which the caller destroys, or None at the end."""
        assert self._result is not None
        chunk = capi.fetch_chunk(self._result)
        if chunk:
            return C.c_void_p(chunk)
        if capi.result_error(C.byref(self._result)):
            raise InternalError("a stored relation could not be read to its end")
        return None

    def close(self) -> None:
        """Free the result and the statement."""
        if self._result is not None:
            capi.destroy_result(C.byref(self._result))
            self._result = None
        if self._handle:
            capi.destroy_prepare(C.byref(self._handle))


@dataclass
class Binding:
    """Bind data of one call: the relation and the columns that DuckDB was told."""

    registered: _Registered
    relation: Relation
    columns: list[tuple[str, str]] = field(default_factory=list)


class Connections:
    """The C connections to one instance: one for schemas, a few for streams.

    They can only be made while DuckDB loads the extension, so their number is fixed; a scan that finds none free
    materialises its rows on the first one instead. They keep the instance alive until `close`.

    Attributes:
        home: the schema in which a connection to the instance finds a bare name, unless it says otherwise.
    """

    STREAMS: Final = 4

    def __init__(self, database: Any) -> None:
        self.home = ""
        self._all: list[C.c_void_p] = []
        for _ in range(1 + self.STREAMS):
            handle = C.c_void_p()
            if capi.connect(database, C.byref(handle)) != capi.SUCCESS:
                raise InternalError("DuckDB refused a connection to its own instance")
            self._all.append(handle)
        self._free = self._all[1:]
        self._lock = threading.Lock()

    @property
    def first(self) -> C.c_void_p:
        """The connection for schemas and materialised rows."""
        if not self._all:
            raise DpsqlError("dpsql was closed on this database: close all its connections and open it again")
        return self._all[0]

    def run(self, statements: Sequence[str]) -> None:
        """Run statements on every connection, such as those that seal its settings."""
        for handle in self._all:
            for sql in statements:
                statement = Statement(handle, sql)
                try:
                    statement.execute(stream=False)
                finally:
                    statement.close()

    def acquire(self) -> C.c_void_p | None:
        """A connection to stream on, given back by `release`; None if all are in use."""
        with self._lock:
            return self._free.pop() if self._free else None

    def release(self, handle: C.c_void_p) -> None:
        """Give a connection back."""
        with self._lock:
            if self._all:
                self._free.append(handle)
                return
        capi.disconnect(C.byref(handle))

    def close(self) -> None:
        """Close those not in use (the others when they are given back); the instance may then end."""
        with self._lock:
            closing, self._all, self._free = [*self._all[:1], *self._free], [], []
        for handle in closing:
            capi.disconnect(C.byref(handle))


class Scan:
    """One execution of a call: runs the relation, then hands over its chunks."""

    def __init__(self, connections: Connections, binding: Binding, indices: Sequence[int]) -> None:
        self._connections = connections
        self._relation = binding.relation
        self._stream: C.c_void_p | None = None
        self._statement: Statement | None = None
        self.width = len(indices)
        try:
            if not self._relation.constant:  # before any work: the table may have changed
                check_columns(connections.first, self._relation.schema, binding)
            rows = self._relation.run()
            self._stream = connections.acquire()
            connection = self._stream or connections.first
            check_columns(connection, rows, binding)
            self._statement = Statement(connection, project(rows, len(binding.columns), indices))
            self._statement.execute(stream=self._stream is not None)
        except BaseException:
            self.close()
            raise

    def next_chunk(self, output: C.c_void_p) -> None:
        """Reference the next chunk's vectors in `output`; an empty one ends the scan."""
        assert self._statement is not None
        chunk = self._statement.fetch()
        if chunk is None:
            capi.chunk_set_size(output, 0)
            return
        try:
            for column in range(self.width):
                capi.vector_reference(capi.chunk_vector(output, column), capi.chunk_vector(chunk, column))
            capi.chunk_set_size(output, capi.chunk_size(chunk))
        finally:
            capi.destroy_chunk(C.byref(chunk))

    def close(self) -> None:
        """Free what the scan holds."""
        if self._statement is not None:
            self._statement.close()
            self._statement = None
        if self._stream is not None:
            self._connections.release(self._stream)
            self._stream = None


def check_columns(connection: C.c_void_p, rows: str, binding: Binding) -> None:
    """Refuse rows whose columns are not those that DuckDB was told when it bound the call."""
    statement = Statement(connection, rows)
    try:
        if describe(statement) != binding.columns:
            raise DpsqlError(
                "the columns changed between binding and running: run the statement again (prepare it again)"
            )
    finally:
        statement.close()


def project(rows: str, width: int, indices: Sequence[int]) -> str:
    """The columns at `indices` of the query `rows`, by place for names may repeat; none is a constant, to count."""
    columns = ", ".join(f"c{index}" for index in indices) or "true"
    names = ", ".join(f"c{index}" for index in range(width))
    return f"SELECT {columns} FROM ({rows}) AS relation({names})"  # noqa: S608 - numbers, and SQL of our own


def describe(statement: Statement) -> list[tuple[str, str]]:
    """Names and types (as text) of a prepared statement's columns."""
    columns = []
    for index in range(statement.width):
        name, handle = statement.column(index)
        columns.append((name, type_text(handle)))
        capi.destroy_type(C.byref(handle))
    return columns


def type_text(handle: C.c_void_p) -> str:
    """A text that two logical types share only if they are the same, nested types included."""
    kind = int(capi.type_id(handle))
    alias = capi.take_text(capi.type_alias(handle))
    parts = [f"{kind}{alias and ':' + alias}"]
    if kind == capi.TYPE_DECIMAL:
        parts.append(f"{capi.decimal_width(handle)},{capi.decimal_scale(handle)}")
    elif kind == capi.TYPE_ENUM:
        size = capi.enum_size(handle)
        parts.extend(repr(capi.take_text(capi.enum_value(handle, index))) for index in range(size))
    else:
        parts.extend(f"{name!r}={type_text(child)}" for name, child in capi.type_children(handle))
    return "(" + " ".join(parts) + ")"


_numbers = itertools.count(1)
_objects: dict[int, Any] = {}
"""Python objects that DuckDB holds by number: functions for good, bindings and scans until it deletes them."""


def _hold(value: Any) -> int:
    number = next(_numbers)
    _objects[number] = value
    return number


@capi.delete_callback
def _delete(
    number: int, take: Callable[..., Any] = _objects.pop, is_ending: Callable[[], bool] = sys.is_finalizing
) -> None:
    value = take(number, None)
    if not is_ending() and isinstance(value, Scan):
        value.close()


# A connection that nobody closed may end after the modules of Python: DuckDB calls then, too. So the callback is never
# freed, and when Python ends it uses no name of a module.
C.pythonapi.Py_IncRef(C.py_object(_delete))


def held() -> int:
    """How many objects DuckDB holds now; a test that it does not grow finds a leak."""
    return len(_objects)


def _message(error: BaseException, function: str) -> bytes:
    if os.environ.get("DPSQL_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, DpsqlError):
        text = f"{function}: {error}"
    elif isinstance(error, KeyboardInterrupt):
        text = f"{function}: {Interrupted()}"
    elif isinstance(error, MemoryError):
        text = f"{function}: out of memory; what was charged is kept, and the same call goes on from it"
    else:
        text = f"{function}: internal error ({type(error).__name__}); DPSQL_DEBUG=1 prints where, on the owner's side"
    return text.replace("\0", "\\0").encode()


@dataclass(frozen=True)
class _Registered:
    """What the callbacks of one registered function need: itself, and the connections to its instance."""

    function: TableFunction
    connections: Connections


def _arguments(info: C.c_void_p, function: TableFunction) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    places = itertools.count()
    for parameter in function.parameters:
        if parameter.positional:
            handle = capi.bind_parameter(info, next(places))
        else:
            handle = capi.bind_named_parameter(info, parameter.name.encode())
            if not handle:
                if parameter.default is REQUIRED:
                    raise InvalidArgument(f"{parameter.name} is missing: say {function.name}(…, {parameter.name} := …)")
                arguments[parameter.name] = parameter.default
                continue
        value = capi.take_value(handle)
        if value is None:
            raise InvalidArgument(f"{parameter.name} is NULL: give a value, or leave the parameter out if it may be")
        arguments[parameter.name] = value
    return arguments


def _search_path(info: C.c_void_p) -> str:
    context, scope = C.c_void_p(), C.c_int()
    capi.bind_client_context(info, C.byref(context))
    try:
        return str(capi.take_value(capi.context_option(context, b"search_path", C.byref(scope))) or "")
    finally:
        capi.destroy_context(C.byref(context))


@capi.bind_callback
def _bind(raw: int) -> None:
    info = C.c_void_p(raw)
    registered: _Registered | None = _objects.get(capi.bind_extra_info(info))
    if registered is None:
        capi.bind_set_error(info, b"dpsql was closed on this database: open the database again")
        return
    function = registered.function
    try:
        call = Call(function.name, _arguments(info, function), _search_path(info) or registered.connections.home)
        binding = Binding(registered, function.bind(call))
        statement = Statement(registered.connections.first, binding.relation.schema)
        try:
            for index in range(statement.width):
                name, handle = statement.column(index)
                capi.bind_add_column(info, name.encode(), handle)
                capi.destroy_type(C.byref(handle))
            binding.columns = describe(statement)
        finally:
            statement.close()
        if binding.relation.cardinality is not None:
            capi.bind_set_cardinality(info, max(0, int(binding.relation.cardinality)), False)
        capi.bind_set_data(info, _hold(binding), _delete)
    except BaseException as error:
        capi.bind_set_error(info, _message(error, function.name))


@capi.init_callback
def _init(raw: int) -> None:
    info = C.c_void_p(raw)
    binding: Binding = _objects[capi.init_bind_data(info)]
    try:
        indices = [int(capi.init_column_index(info, i)) for i in range(capi.init_column_count(info))]
        indices = [index for index in indices if index < len(binding.columns)]  # a row-id column has no index of ours
        capi.init_set_max_threads(info, 1)
        scan = Scan(binding.registered.connections, binding, indices)
        capi.init_set_data(info, _hold(scan), _delete)
    except BaseException as error:
        capi.init_set_error(info, _message(error, binding.registered.function.name))


@capi.main_callback
def _main(raw: int, output: int) -> None:
    info = C.c_void_p(raw)
    try:
        scan: Scan = _objects[capi.main_init_data(info)]
        scan.next_chunk(C.c_void_p(output))
    except BaseException as error:
        capi.main_set_error(info, _message(error, "dpsql"))


def register(connections: Connections, functions: Sequence[TableFunction]) -> list[int]:
    """Register table functions in the instance of `connections`; returns numbers for `forget`.

    Raises:
        InternalError: DuckDB refused one.
    """
    numbers = []
    for function in functions:
        number = _hold(_Registered(function, connections))
        numbers.append(number)
        handle = C.c_void_p(capi.create_table_function())
        try:
            capi.set_name(handle, function.name.encode())
            for parameter in function.parameters:
                with capi.logical_type(parameter.type) as kind:
                    if parameter.positional:
                        capi.add_parameter(handle, kind)
                    else:
                        capi.add_named_parameter(handle, parameter.name.encode(), kind)
            capi.set_extra_info(handle, number, None)
            capi.set_bind(handle, _bind)
            capi.set_init(handle, _init)
            capi.set_main(handle, _main)
            capi.set_projection_pushdown(handle, True)
            if capi.register_table_function(connections.first, handle) != capi.SUCCESS:
                raise InternalError(f"DuckDB refused the table function {function.name}")
        finally:
            capi.destroy_table_function(C.byref(handle))
    return numbers


def forget(numbers: Sequence[int]) -> None:
    """Drop what `register` held, when the instance has ended."""
    for number in numbers:
        _objects.pop(number, None)
