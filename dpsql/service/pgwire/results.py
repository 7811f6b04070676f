"""How results are shaped: texts or binary values of the columns, and the lines of COPY."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dpsql.core.names import as_text
from dpsql.errors import InvalidArgument
from dpsql.service import pgtypes
from dpsql.service.directory import Columns

from . import encode
from .copy_options import Options
from .messages import BadMessage, row_description

_CALLED: Final = re.compile(r'pgx\."?(\w+)"?\(.*\)', re.DOTALL)


_USUAL: Final = frozenset({",", ";", "\t", "|"})
"""Delimiters that are in the text of no number, date or UUID."""
_UNQUOTED: Final = frozenset(
    kind.oid
    for kind in (
        pgtypes.BOOL, pgtypes.INT2, pgtypes.INT4, pgtypes.INT8, pgtypes.FLOAT4, pgtypes.FLOAT8, pgtypes.NUMERIC,
        pgtypes.DATE, pgtypes.TIME, pgtypes.TIMETZ, pgtypes.TIMESTAMP, pgtypes.TIMESTAMPTZ, pgtypes.INTERVAL,
        pgtypes.UUID,
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

    def rows(self, batch: Any, columns: Columns, message: bytes = b"D") -> bytes:
        """The messages of a batch; a binary COPY has them under another letter."""
        columns_sent = [
            encode.binary(batch.column(n), kind) if self.of(n, kind) else encode.texts(batch.column(n))
            for n, (_, kind) in enumerate(columns)
        ]
        return encode.data_rows(columns_sent, batch.num_rows, message)


def _title(name: str) -> str:
    """A column that is a call of Postgres' functions has the function's name, as there."""
    match = _CALLED.fullmatch(name)
    return name if match is None else match[1]


def _names(columns: Sequence[Any]) -> str:
    return ", ".join(f"c{number}" for number in range(len(columns)))


def copy_shape(options: Options) -> Callable[[str, Columns], str]:
    """The query of COPY's lines, of one column; before each line is room for the head of its message."""
    between, nothing = as_text(options.delimiter), as_text(options.null)
    usual = options.delimiter in _USUAL and options.null in ("", "\\N") and options.quote == '"'

    def cell(place: int, name: str, kind: str, *, alone: bool) -> str:
        shown = encode.text_of(f"c{place}", kind)
        if options.form == "csv" and (options.force_all or name in options.force):
            shown = _quoted(shown, options)
        elif not usual or pgtypes.pg_type(kind).oid not in _UNQUOTED:
            shown = _of_csv(shown, options, alone=alone) if options.form == "csv" else _of_text(shown, options)
        return f"coalesce({shown}, {nothing})"

    def line(cells: Iterable[str]) -> str:
        return f"SELECT {encode.HEAD} || {f' || {between} || '.join(cells)} || chr(10) AS line"

    def shape(query: str, columns: Columns) -> str:
        strange = options.force - {name for name, _ in columns}
        if strange:
            raise InvalidArgument(f"COPY's force_quote names {min(strange)[:60]!r}, which is no column of the query")
        alone = len(columns) == 1
        cells = (cell(n, name, kind, alone=alone) for n, (name, kind) in enumerate(columns))
        lines = f"{line(cells)} FROM {query} AS q({_names(columns)})"
        if not options.header:
            return lines
        names = (as_text(name) for name, _ in columns)
        titles = (_of_csv(n, options, alone=alone) if options.form == "csv" else _of_text(n, options) for n in names)
        return f"{line(titles)} UNION ALL ({lines})"

    return shape


def _of_csv(shown: str, options: Options, *, alone: bool) -> str:
    """An expression of a cell of csv, quoted where it could be read otherwise."""
    signs = [options.delimiter, options.quote, "\n", "\r"]
    needs = [f"contains({shown}, {as_text(sign)})" for sign in signs] + [f"{shown} = {as_text(options.null)}"]
    if alone:  # a line that would end the data
        needs.append(f"{shown} = '\\.'")
    return f"CASE WHEN {' OR '.join(needs)} THEN {_quoted(shown, options)} ELSE {shown} END"


def _quoted(shown: str, options: Options) -> str:
    quote, escape = as_text(options.quote), as_text(options.escape)
    inner = shown if options.escape == options.quote else f"replace({shown}, {escape}, {escape} || {escape})"
    return f"{quote} || replace({inner}, {quote}, {escape} || {quote}) || {quote}"


def _of_text(shown: str, options: Options) -> str:
    """An expression of a cell of the text format: a backslash before what would be read otherwise."""
    escaped = f"replace({shown}, '\\', '\\\\')"
    for code, letter in ((9, "t"), (10, "n"), (13, "r"), (8, "b"), (12, "f"), (11, "v")):
        escaped = f"replace({escaped}, chr({code}), '\\{letter}')"
    needs = f"regexp_matches({shown}, '[\\x08-\\x0d\\\\]')"
    if options.delimiter != "\t":
        between = as_text(options.delimiter)
        escaped = f"replace({escaped}, {between}, '\\' || {between})"
        needs += f" OR contains({shown}, {between})"
    return f"CASE WHEN {needs} THEN {escaped} ELSE {shown} END"
