"""Declarations from the rows of a codebook: one row for a column, or one for each value of a column.

    column   lower  upper  bins  values          exclude          column  value  label
    age      0      119    24                                     sex     1      male
    sex                          ["F", "M"]                       sex     2      female
    name                                         true

A cell that is NULL or empty says nothing. A list is a list, a JSON list in a text, or texts with `|` between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from dpsql.core.names import fold, pick
from dpsql.errors import InvalidArgument
from dpsql.owner.declarations import Arguments, Declarations

NAMES: Final = ("column", "name", "variable", "field")
"""The column of a codebook that names the columns of the table is called one of these."""
_VALUE: Final = ("value", "code")
_IGNORED: Final = frozenset(
    {"label", "labels", "description", "comment", "comments", "note", "notes", "unit", "title", "meaning", "question"}
)
"""What people write beside: it declares nothing."""
_SWITCHES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def declarations_of(rows: Sequence[Mapping[str, Any]], arguments: Arguments) -> dict[str, dict[str, Any]]:
    """For each column that a codebook names, the arguments of its declaration.

    Raises:
        InvalidArgument: a codebook without names, with a column that means nothing, or with a cell of the wrong kind.

    >>> rows = [{"column": "sex", "value": "F"}, {"column": "sex", "value": "M"}, {"column": "age", "lower": "0"}]
    >>> declarations_of(rows, Arguments({"lower": "ANY", "values": "ANY"}))
    {'sex': {'values': ['F', 'M']}, 'age': {'lower': '0'}}
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    named = next((header for name in NAMES if (header := pick(name, columns))), None)
    if named is None:
        raise InvalidArgument(
            f"the codebook has no column {NAMES[0]!r} that names the columns of the table; it has {_listed(columns)}"
        )
    value = next((header for name in _VALUE if (header := pick(name, columns))), None)
    meanings = {column: arguments.find(column) for column in columns if column not in (named, value)}
    meanings = {column: meaning for column, meaning in meanings.items() if fold(column) not in _IGNORED}
    unknown = [column for column, meaning in meanings.items() if meaning is None]
    if unknown:
        raise InvalidArgument(
            f"the codebook's columns {_listed(unknown)} mean nothing here: rename them to one of "
            f"value, {arguments}, or to label, description or comment, which declare nothing"
        )
    declarations: dict[str, dict[str, Any]] = {}
    for row in rows:
        if _says(row.get(named)):
            _add(declarations.setdefault(str(row[named]), {}), row, meanings, value, arguments)
    return declarations


def _add(
    entries: dict[str, Any],
    row: Mapping[str, Any],
    meanings: Mapping[str, str | None],
    value: str | None,
    arguments: Arguments,
) -> None:
    """What one more row says of a column."""
    for column, name in meanings.items():
        if name is None or not _says(row.get(column)):
            continue
        cell = _cell(arguments, name, row[column], str(column))
        if cell is False and name != "nulls":
            continue  # a codebook writes false where it means nothing
        if entries.get(name, cell) != cell:
            raise InvalidArgument(f"the codebook gives {name} twice for one column, {entries[name]!r} and {cell!r}")
        entries[name] = cell
    if value is not None and _says(row.get(value)):
        entries.setdefault("values", []).append(row[value])


def _says(cell: Any) -> bool:
    """Whether a cell says anything."""
    return cell is not None and cell != "" and cell == cell


def _cell(arguments: Arguments, name: str, cell: Any, column: str) -> Any:
    """A cell as the argument that it is."""
    if arguments.is_switch(name) and not isinstance(cell, bool):
        switch = _SWITCHES.get(str(cell).strip().lower())
        if switch is None:
            raise InvalidArgument(f"the codebook's {column!r} is {cell!r}: give true or false, or rename that column")
        return switch
    if arguments.is_list(name) and isinstance(cell, str):
        return _split(cell)
    if arguments.types[name] == "BIGINT" and not isinstance(cell, int):
        with suppress(ValueError):
            return int(str(cell))
        raise InvalidArgument(f"the codebook's {column!r} is {cell!r}: give a whole number")
    return cell


def _split(text: str) -> list[Any]:
    """A list that is written as a text."""
    if text.lstrip().startswith("["):
        with suppress(ValueError):
            return list(json.loads(text))
    return [part.strip() for part in text.strip().removeprefix("[").removesuffix("]").split("|")]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def from_json(text: str, arguments: Arguments) -> Declarations:
    """Declarations from JSON: an object that has the arguments of each column, or a list of rows as a codebook's.

    Raises:
        InvalidArgument: it is no such thing.

    >>> from_json('{"age": {"lower": 0, "upper": 119}}', Arguments({}))
    {'age': {'lower': 0, 'upper': 119}}
    """
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise InvalidArgument(f"from_json is no JSON: {error}") from None
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        return declarations_of(data, arguments)
    if not isinstance(data, dict):
        raise InvalidArgument('from_json is no object of columns: give {"age": {"lower": 0, "upper": 119}, …}')
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are each given once, for JSON itself keeps the last one silently."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name in members if sum(name == other for other, _ in pairs) > 1)
        raise InvalidArgument(f"from_json names {twice!r} twice: name it once")
    return members
