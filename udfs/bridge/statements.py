"""Statements prepared and executed through the C API, and the texts of their columns' types."""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence

from dpsql.errors import InternalError

from . import capi


def run(connection: C.c_void_p, script: str) -> None:
    """Run statements, parted by semicolons, that have no rows to read.

    Raises:
        InternalError: one of them failed; those before it ran.
    """
    result = capi.Result()
    try:
        if capi.query(connection, script.encode(), C.byref(result)) != capi.SUCCESS:
            message = (capi.result_error(C.byref(result)) or b"").decode()
            raise InternalError(f"a generated statement failed: {message.splitlines()[0]}")
    finally:
        capi.destroy_result(C.byref(result))


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
