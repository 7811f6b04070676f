"""Types of a statement's parameters, as DuckDB infers them."""

from __future__ import annotations

import ctypes as C
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from dpsql.udfs.bridge import capi
from dpsql.udfs.bridge.connections import Connections

from . import pgtypes
from .tokens import tokens, word_places

_BY_ID: Final = {
    1: "BOOLEAN",
    2: "SMALLINT",
    3: "SMALLINT",
    4: "INTEGER",
    5: "BIGINT",
    6: "SMALLINT",
    7: "INTEGER",
    8: "BIGINT",
    9: "UBIGINT",
    10: "FLOAT",
    11: "DOUBLE",
    12: "TIMESTAMP",
    13: "DATE",
    14: "TIME",
    15: "INTERVAL",
    16: "HUGEINT",
    17: "VARCHAR",
    18: "BLOB",
    19: "DECIMAL(18,3)",
    27: "UUID",
    30: "TIME WITH TIME ZONE",
    31: "TIMESTAMP WITH TIME ZONE",
    32: "UHUGEINT",
}
"""Types of parameters as DuckDB infers them; of others the value says it."""

_ELEMENTS: Final = {
    **{array.element.name: array.oid for array in pgtypes.ARRAYS.values() if array.element},
    **{array.element.spelled: array.oid for array in pgtypes.ARRAYS.values() if array.element},
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
            return [pgtypes.pg_type(kind).oid if kind else 0 for kind in kinds]
        finally:
            if statement:
                capi.destroy_prepare(C.byref(statement))


def named(served: Sequence[Mapping[str, Any]], sql: str, count: int) -> list[int]:
    """The types of parameters that are arguments of dp_* functions, as those declare them; 0 of others.

    DuckDB cannot infer them: it would bind the call, whose arguments have no values yet.
    """
    types = {
        (served_function["name"], p["name"]): p["type"]
        for served_function in served
        for p in served_function["parameters"]
    }
    first = {
        served_function["name"]: p["name"]
        for served_function in served
        for p in served_function["parameters"][:1]
        if p["positional"]
    }
    oids, function = [0] * count, ""
    words = [text for kind, text in tokens(sql) if kind != "space"]
    for place, word in enumerate(words):
        if word.lower() in first or any(word.lower() == served_function["name"] for served_function in served):
            function = word.lower()
        if not word.startswith("$") or not word[1:].isdigit():
            continue
        name = words[place - 2].lower() if words[place - 1] in ("=>", ":=") else ""
        if words[place - 1] == "(" and words[place - 2].lower() == function:
            name = first.get(function, "")
        kind = types.get((function, name))
        if kind is not None and kind != "ANY" and int(word[1:]) <= count:
            oids[int(word[1:]) - 1] = pgtypes.pg_type(kind).oid
    return oids


def cast_to_arrays(sql: str, oids: Sequence[int]) -> list[int]:
    """The types of parameters, where those that the client left open are cast to arrays, as in `$1::text[]`."""
    types = list(oids)
    words = [text.lower() for kind, text in tokens(sql) if kind != "space"]
    for place, word in enumerate(words):
        if word[0] != "$" or not word[1:].isdigit():
            continue
        standard = words[max(place - 2, 0) : place] == ["cast", "("] and words[place + 1 : place + 2] == ["as"]
        if standard or words[place + 1 : place + 2] == ["::"]:
            number = int(word[1:]) - 1
            if number < len(types):
                types[number] = types[number] or _array_named(words[place + 2 : place + 14])
    return types


def of_any(sql: str) -> tuple[str, list[int]]:
    """The statement with `x = ($1)` for `x = ANY($1)`, of the type of an element, and which parameters these are."""
    words = list(tokens(sql))
    places = word_places(words)
    numbers = []
    for word, *rest in zip(places, places[1:], places[2:], places[3:], strict=False):
        opens, parameter, closes = (words[place] for place in rest)
        called = words[word][0] == "word" and words[word][1].lower() in ("any", "all", "some")
        if called and opens[1] == "(" and parameter[0] == "parameter" and closes[1] == ")":
            words[word] = ("space", "")
            numbers.append(int(parameter[1][1:]))
    return "".join(text for _, text in words), numbers


def array_of(oid: int) -> int:
    """The type of an array by that of its elements; of texts where there is none."""
    return pgtypes.ARRAYS.get(oid, pgtypes.ARRAYS[pgtypes.TEXT.oid]).oid


def _array_named(words: Sequence[str]) -> int:
    """The type of an array that some words begin with, such as `numeric(9, 2)[]`; 0 where they name none."""
    name = [*words[2:]] if words[:2] == ["pg_catalog", "."] else [*words]
    bracket = name.index("[") if "[" in name else len(name)
    if name[bracket + 1 : bracket + 2] != ["]"]:
        return 0
    element = name[:bracket]
    if "(" in element and ")" in element:
        element = element[: element.index("(")] + element[element.index(")") + 1 :]
    return _ELEMENTS.get(" ".join(element), 0)
