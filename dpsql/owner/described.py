"""A declared domain as the arguments that declare it exactly as it is, and as the statement with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.calls import call_of
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.ticks import edge_texts
from dpsql.engines.source import Column, Source
from dpsql.errors import DpsqlError
from dpsql.owner.declarations import Arguments
from dpsql.owner.protect import declaration

_EXACT_DIGITS: Final = 15  # of a decimal number, which a float tells apart whatever reads it


def arguments_of(
    cursor: Cursor, source: Source, column: Column, attribute: Attribute, arguments: Arguments
) -> dict[str, Any] | None:
    """The arguments of `dp_domain` that make this domain of the column; None if none do.

    A discovered or referenced domain becomes one that is declared: its values, or edges, are known by now.

    Args:
        cursor: of the owner.
        source: the protected table.
        column: of it.
        attribute: its domain.
        arguments: that `dp_domain` takes.
    """
    for candidate in (_shortest, _edges):
        with suppress(DpsqlError):  # as of a last edge beyond what the type can hold
            how = {**candidate(cursor, attribute), **_further(cursor, column, attribute, arguments)}
            made = declaration(cursor, source, column.name, **how)
            if replace(made, origin=attribute.origin, looked=attribute.looked) == attribute:
                return how
    return None


def _shortest(cursor: Cursor, attribute: Attribute) -> dict[str, Any]:
    """What declares the values, the members of the type, or bins of equal width."""
    if attribute.computed_as:
        return {"computed_as": attribute.computed_as}
    if attribute.kind == "excluded":
        return {"exclude": True}
    if attribute.origin == "type":
        return {"type": True}
    if attribute.kind == "values":
        return {"values": [_plain(attribute, text) for text in attribute.values]}
    bounds = (attribute.edges[0], attribute.edges[-1])
    lower, upper = (_plain(attribute, text) for text in bounds)
    return {"lower": lower, "upper": upper, "bins": attribute.regular}


def _edges(cursor: Cursor, attribute: Attribute) -> dict[str, Any]:
    """All edges; the last one, which is exclusive but of floats, is the tick after the largest value."""
    return {"edges": _texts(cursor, attribute, attribute.ticks)}


def _texts(cursor: Cursor, attribute: Attribute, ticks: Sequence[int | float]) -> list[Any]:
    """Values of ticks."""
    if attribute.is_float:
        return [_plain(attribute, repr(tick)) for tick in ticks]
    if not ticks:
        return []
    following = (*ticks, int(ticks[-1]) + 1)  # of the last one `edge_texts` gives the value before
    return [_plain(attribute, text) for text in edge_texts(cursor, following, attribute.type)[:-1]]


def _further(cursor: Cursor, column: Column, attribute: Attribute, arguments: Arguments) -> dict[str, Any]:
    """The arguments that go with every kind: NULL, the rest, and whatever else a declaration knows of."""
    options: dict[str, Any] = {}
    if attribute.kind != "excluded":
        if attribute.nullable != column.nullable:
            options["nulls"] = attribute.nullable
        if attribute.other is not None:
            options["other"] = _plain(attribute, attribute.other)
    later = vars(attribute)
    for name in ("nulls_as", "ids", "fake"):
        if later.get(name) and arguments.find(name):
            options[name] = list(later[name]) if isinstance(later[name], tuple) else later[name]
    if later.get("step") and arguments.find("step"):
        options["step"] = int(later["step"]) if later["step"].isdigit() else float(later["step"])
    if later.get("points") and arguments.find("points"):
        options["points"] = _texts(cursor, attribute, later["points"])
    if attribute.looked:
        options["looked"] = True
    if attribute.is_read and arguments.find("read_as"):
        options["read_as"] = attribute.reading or f"{attribute.type}{attribute.suffix}"
    return options


def _plain(attribute: Attribute, text: str) -> Any:
    """A value as Python and JSON write it best: whole numbers and floats as numbers, all else as text."""
    sql_type = attribute.of_type
    if sql_type.float_type is not None:
        return float(str(sql_type.float_type(text)))  # as short as tells it apart in its own type
    return int(text) if sql_type.is_number and sql_type.scale == 0 else text


def statement_of(table: str, column: str, how: Mapping[str, Any]) -> str:
    """The statement that declares a domain.

    >>> statement_of("t", "age", {"lower": 0, "upper": 119, "bins": 24})
    "CALL dp_domain('t', 'age', lower := 0, upper := 119, bins := 24);"
    """
    return call_of("dp_domain", [table, column], {name: _written(value) for name, value in how.items()})


def _written(value: Any) -> Any:
    """A value for SQL, where DuckDB reads a number with a point as a decimal: a float of many digits is a text."""
    if isinstance(value, list | tuple):
        floats = any(isinstance(element, float) and not _is_short(element) for element in value)
        return [repr(element) for element in value] if floats else list(value)
    return repr(value) if isinstance(value, float) and not _is_short(value) else value


def _is_short(value: float) -> bool:
    return len(repr(value).partition("e")[0].strip("-0").replace(".", "")) <= _EXACT_DIGITS and "e" not in repr(value)
