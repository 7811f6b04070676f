"""How results are shaped: texts or binary values of the columns, and the lines of COPY."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dpsql.service import pgtypes
from dpsql.service.directory import Columns

from . import encode
from .messages import BadMessage, row_description

_CALLED: Final = re.compile(r'pgx\."?(\w+)"?\(.*\)', re.DOTALL)


_USUAL: Final = frozenset({",", ";", "\t", "|"})
"""Delimiters that are in the text of no number, date or UUID."""
_UNQUOTED: Final = frozenset(
    kind.oid
    for kind in (
        pgtypes.BOOL, pgtypes.INT2, pgtypes.INT4, pgtypes.INT8, pgtypes.FLOAT4, pgtypes.FLOAT8, pgtypes.NUMERIC,
        pgtypes.DATE, pgtypes.TIME, pgtypes.TIMESTAMP, pgtypes.TIMESTAMPTZ, pgtypes.INTERVAL, pgtypes.UUID,
    )
)  # fmt: skip
"""Types whose texts COPY writes as they are."""


@dataclass(frozen=True)
class Formats:
    """Which columns are asked for in binary: none, all, or by place."""

    codes: tuple[int, ...] = ()

    def of(self, place: int, kind: str) -> int:
        """0 for text, 1 for binary.

        Raises:
            BadMessage: it is something else, or for other columns than there are.
        """
        code = self.codes[0] if len(self.codes) == 1 else self.codes[place] if place < len(self.codes) else 0
        if code not in (0, 1):
            raise BadMessage(f"a format is {code}: 0 is text, 1 is binary")
        return code

    def shape(self, query: str, columns: Columns) -> str:
        """The query of what is sent."""
        shown = (
            f"{encode.binary_of(f'c{n}', kind) if self.of(n, kind) else encode.text_of(f'c{n}', kind)} AS c{n}"
            for n, (_, kind) in enumerate(columns)
        )
        return f"SELECT {', '.join(shown)} FROM {query} AS q({_names(columns)})"  # noqa: S608 - checked before

    def description(self, columns: Columns) -> bytes:
        """The message that describes the columns."""
        return row_description(
            [
                (_title(name), kind.oid, kind.length, pgtypes.modifier(duckdb_type), self.of(place, duckdb_type))
                for place, (name, duckdb_type) in enumerate(columns)
                for kind in [pgtypes.pg_type(duckdb_type)]
            ]
        )

    def rows(self, batch: Any, columns: Columns) -> bytes:
        """The messages of a batch."""
        found = [
            encode.binary(batch.column(n), kind) if self.of(n, kind) else encode.texts(batch.column(n))
            for n, (_, kind) in enumerate(columns)
        ]
        return encode.data_rows(found, batch.num_rows)


def _title(name: str) -> str:
    """A column that is a call of Postgres' functions has the function's name, as there."""
    found = _CALLED.fullmatch(name)
    return name if found is None else found[1]


def _names(columns: Sequence[Any]) -> str:
    return ", ".join(f"c{number}" for number in range(len(columns)))


def copy_shape(*, csv: bool, delimiter: str, null: str, header: bool) -> Callable[[str, Columns], str]:
    """The query of COPY's lines, of one column; before each line is room for the head of its message."""
    between, nothing = _literal(delimiter), _literal(null)
    usual = delimiter in _USUAL and null in ("", "\\N")

    def cell(place: int, kind: str) -> str:
        text = encode.text_of(f"c{place}", kind)
        if usual and pgtypes.pg_type(kind).oid in _UNQUOTED:
            shown = text
        elif csv:
            needs = (
                f"contains({text}, '\"') OR contains({text}, {between}) OR contains({text}, chr(10)) "
                f"OR contains({text}, chr(13)) OR {text} = {nothing}"
            )
            shown = f"CASE WHEN {needs} THEN '\"' || replace({text}, '\"', '\"\"') || '\"' ELSE {text} END"
        else:
            escaped = f"replace({text}, '\\', '\\\\')"
            for code, letter in ((9, "t"), (10, "n"), (13, "r"), (8, "b"), (12, "f"), (11, "v")):
                escaped = f"replace({escaped}, chr({code}), '\\{letter}')"
            needs = f"regexp_matches({text}, '[\\x08-\\x0d\\\\]')"
            if delimiter != "\t":
                escaped = f"replace({escaped}, {between}, '\\' || {between})"
                needs += f" OR contains({text}, {between})"
            shown = f"CASE WHEN {needs} THEN {escaped} ELSE {text} END"
        return f"coalesce({shown}, {nothing})"

    def shape(query: str, columns: Columns) -> str:
        line = f" || {between} || ".join(cell(n, kind) for n, (_, kind) in enumerate(columns))
        lines = f"SELECT {encode.HEAD} || {line} || chr(10) AS line FROM {query} AS q({_names(columns)})"  # noqa: S608
        if header:
            first = _literal(delimiter.join(name.replace('"', '""') for name, _ in columns))
            return f"SELECT {encode.HEAD} || {first} || chr(10) AS line UNION ALL ({lines})"
        return lines

    return shape


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
