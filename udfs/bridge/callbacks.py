"""What DuckDB calls: functions are registered, calls are bound, scans begin, go on and end.

DuckDB calls back on threads of its own. A callback never raises: a `DpsqlError` becomes DuckDB's error with its text;
any other exception becomes a constant text with the exception's class, for its message could hold a private value.
"""

from __future__ import annotations

import ctypes as C
import itertools
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from dpsql.errors import DpsqlError, InternalError, InvalidArgument
from dpsql.runtime.progress import Interrupted

from . import capi
from .connections import Connections
from .declare import REQUIRED, Call, TableFunction
from .rebound import relation_of
from .scans import Binding, Registered, Scan
from .statements import Statement, describe

_numbers = itertools.count(1)
_objects: dict[int, Any] = {}
"""Python objects that DuckDB holds by number: functions for good, bindings and scans until it deletes them."""
_latest = deque([0], maxlen=1)
_failures: deque[tuple[str, type[DpsqlError]]] = deque(maxlen=64)


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


def latest_call() -> int:
    """The number of the call that was bound last: another than before says that a statement calls dpsql."""
    return _latest[0]


def kind_of(text: str) -> type[DpsqlError]:
    """The class of the error of dpsql that became DuckDB's error of that text; `DpsqlError` for one of DuckDB's own."""
    return next((kind for words, kind in reversed(_failures.copy()) if words in text), DpsqlError)


def _message(error: BaseException, function: str) -> bytes:
    if os.environ.get("DPSQL_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted()
    if isinstance(error, DpsqlError):
        text = f"{function}: {error}"
        _failures.append((text, type(error)))
    elif isinstance(error, MemoryError):
        text = f"{function}: out of memory; what was charged is kept, and the same call goes on from it"
    else:
        text = f"{function}: internal error ({type(error).__name__}); DPSQL_DEBUG=1 prints where, on the owner's side"
    return text.replace("\0", "\\0").encode()


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
        value = capi.take_value(handle, names=parameter.type == "STRUCT")
        if value is None:
            raise InvalidArgument(f"{parameter.name} is NULL: give a value, or leave the parameter out if it may be")
        arguments[parameter.name] = value
    return arguments


def _caller(info: C.c_void_p) -> tuple[str, int]:
    """The search path of the connection that binds, and its number."""
    context, scope = C.c_void_p(), C.c_int()
    capi.bind_client_context(info, C.byref(context))
    try:
        path = str(capi.take_value(capi.context_option(context, b"search_path", C.byref(scope))) or "")
        return path, int(capi.context_connection(context))
    finally:
        capi.destroy_context(C.byref(context))


@capi.bind_callback
def _bind(raw: int) -> None:
    info = C.c_void_p(raw)
    registered: Registered | None = _objects.get(capi.bind_extra_info(info))
    if registered is None:
        capi.bind_set_error(info, b"dpsql was closed on this database: open the database again")
        return
    function = registered.function
    try:
        path, connection = _caller(info)
        call = Call(
            function.name, _arguments(info, function), path or registered.connections.home, connection=connection
        )
        binding = Binding(registered, relation_of(call, function.bind))
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
        number = _hold(binding)
        _latest.append(number)
        capi.bind_set_data(info, number, _delete)
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
        number = _hold(Registered(function, connections))
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
