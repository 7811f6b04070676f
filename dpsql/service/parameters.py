"""Types of a statement's parameters, as DuckDB infers them."""

from __future__ import annotations

import ctypes as C
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from dpsql.udfs.bridge import capi
from dpsql.udfs.bridge.connections import Connections

from . import pgtypes
from .tokens import tokens

_BY_ID: Final = {
    1: "BOOLEAN",
    2: "SMALLINT",
    3: "SMALLINT",
    4: "INTEGER",
    5: "BIGINT",
    6: "SMALLINT",
    7: "INTEGER",
    8: "BIGINT",
    10: "FLOAT",
    11: "DOUBLE",
    12: "TIMESTAMP",
    13: "DATE",
    14: "TIME",
    15: "INTERVAL",
    17: "VARCHAR",
    18: "BLOB",
    27: "UUID",
    31: "TIMESTAMP WITH TIME ZONE",
}
"""Types of parameters as DuckDB infers them; of others the value says it."""

_ELEMENTS: Final = {
    **{one.element.name: one.oid for one in pgtypes.ARRAYS.values() if one.element},
    **{one.element.spelled: one.oid for one in pgtypes.ARRAYS.values() if one.element},
    **{name.lower(): pgtypes.ARRAYS[kind.oid].oid for name, kind in pgtypes.OF.items()},
}
"""Types of arrays by the names of their elements' types, Postgres' and DuckDB's."""


class Nobody:
    """A connection of nobody's, so that no dp_* function can be bound on it. A context manager that gives it back."""

    def __init__(self, handle: C.c_void_p, connections: Connections) -> None:
        self._handle, self._connections = handle, connections

    def __enter__(self) -> Self:
        """It is acquired already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._connections.release(self._handle)

    def interrupt(self) -> None:
        """End what it is doing."""
        capi.interrupt(self._handle)

    def inferred(self, sql: str, count: int) -> list[int]:
        """PostgreSQL's types of parameters; 0 where DuckDB infers none, or where the statement cannot be bound."""
        statement = C.c_void_p()
        try:
            if capi.prepare(self._handle, sql.encode(), C.byref(statement)) != capi.SUCCESS:
                return [0] * count
            kinds = [_BY_ID.get(int(capi.parameter_type(statement, place + 1)), "") for place in range(count)]
            return [pgtypes.OF[kind].oid if kind else 0 for kind in kinds]
        finally:
            if statement:
                capi.destroy_prepare(C.byref(statement))


def named(served: Sequence[Mapping[str, Any]], sql: str, count: int) -> list[int]:
    """The types of parameters that are arguments of dp_* functions, as those declare them; 0 of others.

    DuckDB cannot infer them: it would bind the call, whose arguments have no values yet.
    """
    types = {(one["name"], p["name"]): p["type"] for one in served for p in one["parameters"]}
    first = {one["name"]: p["name"] for one in served for p in one["parameters"][:1] if p["positional"]}
    found, function = [0] * count, ""
    words = [text for kind, text in tokens(sql) if kind != "space"]
    for place, word in enumerate(words):
        if word.lower() in first or any(word.lower() == one["name"] for one in served):
            function = word.lower()
        if not word.startswith("$") or not word[1:].isdigit():
            continue
        name = words[place - 2].lower() if words[place - 1] in ("=>", ":=") else ""
        if words[place - 1] == "(" and words[place - 2].lower() == function:
            name = first.get(function, "")
        kind = types.get((function, name))
        if kind is not None and kind != "ANY" and int(word[1:]) <= count:
            found[int(word[1:]) - 1] = pgtypes.pg_type(kind).oid
    return found


def cast_to_arrays(sql: str, oids: Sequence[int]) -> list[int]:
    """The types of parameters, where those that the client left open are cast to arrays, as in `$1::text[]`."""
    found = list(oids)
    words = [text.lower() for kind, text in tokens(sql) if kind != "space"]
    for place, word in enumerate(words):
        after = words[place + 1 : place + 7]
        after = after[:1] + after[3:] if after[1:3] == ["pg_catalog", "."] else after
        if after[:1] == ["::"] and after[2:4] == ["[", "]"] and word[0] == "$" and word[1:].isdigit():
            number = int(word[1:]) - 1
            if number < len(found):
                found[number] = found[number] or _ELEMENTS.get(after[1], 0)
    return found
