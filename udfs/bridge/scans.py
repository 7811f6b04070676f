"""Calls as DuckDB bound them, and their executions: run the relation, then hand over its chunks."""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpsql.errors import DpsqlError

from . import capi
from .connections import Connections
from .declare import Relation, TableFunction
from .statements import Statement, describe, project


@dataclass(frozen=True)
class Registered:
    """What the callbacks of one registered function need: itself, and the connections to its instance."""

    function: TableFunction
    connections: Connections


@dataclass
class Binding:
    """Bind data of one call: the relation and the columns that DuckDB was told."""

    registered: Registered
    relation: Relation
    columns: list[tuple[str, str]] = field(default_factory=list)


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
