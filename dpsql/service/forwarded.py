"""The dp_* functions in the front's DuckDB: bound by the keeper for the user whose connection binds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from dpsql.errors import DpsqlError
from dpsql.udfs.bridge.declare import REQUIRED, Call, Parameter, Relation, TableFunction

from . import arrow
from .directory import Columns


@dataclass(frozen=True)
class StatementCall:
    """A call as a statement made it.

    Attributes:
        function: its name.
        arguments: those that were given.
        key: a text that the same call has again.
    """

    function: str
    arguments: Mapping[str, object] = field(hash=False, compare=False)
    key: str

    @classmethod
    def of(cls, call: Call) -> StatementCall:
        """Of a call that DuckDB bound."""
        given = {name: _plain(value) for name, value in call.arguments.items() if value is not None}
        return cls(call.function, given, json.dumps([call.function, given], sort_keys=True, default=str))


def _plain(value: Any) -> object:
    return float(value) if isinstance(value, Decimal) else value


class Caller(Protocol):
    """A session, for the calls of the statement that it runs now."""

    def columns_of(self, call: StatementCall) -> Columns:
        """The columns of a call; the keeper says them."""

    def table_of(self, call: StatementCall) -> str:
        """The front's table with the rows of a call, which were fetched before the statement ran."""


class Callers:
    """Which session a DuckDB connection is of."""

    def __init__(self) -> None:
        self._of: dict[int, Caller] = {}

    def add(self, connection: int, caller: Caller) -> None:
        """From now on calls of the connection are the caller's."""
        self._of[connection] = caller

    def remove(self, connection: int) -> None:
        """The connection ended."""
        self._of.pop(connection, None)

    def of(self, connection: int) -> Caller:
        """Whose connection it is.

        Raises:
            DpsqlError: nobody's, who logged in.
        """
        caller = self._of.get(connection)
        if caller is None:
            raise DpsqlError("this connection has not logged in")
        return caller


class WhoAmI(TableFunction):
    """`dpsql_connection()`: DuckDB's number of the connection that binds it. The allow-list lets nobody call it."""

    name = "dpsql_connection"

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        return _Rows("SELECT 0::BIGINT AS number", f"SELECT {call.connection:d}::BIGINT AS number")


@dataclass
class _Rows(Relation):
    schema: str
    rows: str
    constant = True

    def run(self) -> str:
        """See `Relation.run`."""
        return self.rows


class Forwarded(TableFunction):
    """A function of the keeper's, called in the front."""

    name: str  # type: ignore[misc]

    def __init__(self, callers: Callers, signature: Mapping[str, Any]) -> None:
        self._callers = callers
        self.name = signature["name"]
        self.parameters = tuple(
            Parameter(p["name"], p["type"], p["positional"], REQUIRED if p["required"] else None)
            for p in signature["parameters"]
        )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        caller, statement_call = self._callers.of(call.connection), StatementCall.of(call)
        return _Call(caller, statement_call, caller.columns_of(statement_call))


@dataclass
class _Call(Relation):
    caller: Caller
    call: StatementCall
    columns: Columns
    constant = True
    schema: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive the schema."""
        self.schema = arrow.empty(self.columns)

    def run(self) -> str:
        """See `Relation.run`."""
        return f"SELECT * FROM {self.caller.table_of(self.call)}"  # noqa: S608 - a name of our own
