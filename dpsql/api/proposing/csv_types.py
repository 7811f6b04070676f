"""The types of a CSV file's columns: those that DuckDB finds in all rows, unless the texts say otherwise.

A type says otherwise than the texts where it loses something of them. YES and NO, or a column of nothing but F, are no
BOOLEAN, which would write true and false in their place. Numbers of twenty digits are no DOUBLE, and 1:23:45, without a
zero before it, is how long something took, no time of day. Dates whose years have two digits would be of the first
century.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
from sqlglot import exp

from dpsql.api.proposing.looked_parts import LEAST
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.duckdb.types import filled

MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "?", "-", "--", ".", ".."})
"""Texts that stand for a missing value in any column, in lower case."""
MISSING_NUMBERS: Final = MISSING | {"n", "none", "nil", "missing", "unknown", "x", "*"}
"""Texts that do so where all others are numbers."""
_CHUNK: Final = 1 << 20
_BYTE_ORDER: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_LOST: Final = {
    "BOOLEAN": "bool_or(lower(x) NOT IN ('true', 'false'))",
    "DOUBLE": r"bool_or(regexp_matches(x, '^[+-]?(0\d|\d{16,}$)'))",
    "TIME": r"bool_or(regexp_matches(x, '^\d:'))",
    "DATE": r"bool_or(NOT regexp_matches(x, '\d{4}'))",
    "TIMESTAMP": r"bool_or(NOT regexp_matches(x, '\d{4}'))",
}
"""By type, whether texts `x` lose something by it."""
_PAIRS: Final = (("no", "yes"), ("n", "y"), ("f", "t"))
"""Texts that DuckDB takes for false and true, beside these words themselves."""
_STYLES: Final = (str.lower, str.upper, str.capitalize)
_WHOLE: Final = "bool_or(CAST(TRY_CAST(x AS HUGEINT) AS VARCHAR) <> x)"
_NUMBERS: Final = "bool_and(TRY_CAST(x AS DOUBLE) IS NOT NULL OR lower(x) IN ({0})) AND bool_or(lower(x) IN ({0}))"


@dataclass(frozen=True)
class CsvFile:
    """How a CSV file is to be read.

    Attributes:
        options: of `read_csv`, as SQL.
        missing: for columns of texts that would be numbers without these, the texts that stand for a missing value.
        pairs: for columns of nothing but yes and no, or the like, both words as the column writes them.
    """

    options: str
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pairs: Mapping[str, Sequence[str]] = field(default_factory=dict)


def csv_file(connection: duckdb.DuckDBPyConnection, path: Path, nullstr: Sequence[str]) -> CsvFile:
    """Look at the texts of a file.

    Args:
        connection: of DuckDB.
        path: of the file.
        nullstr: texts that mean NULL.
    """
    named: dict[str, Any] = {"nullstr": ["", *nullstr]} if nullstr else {}
    encoding = _encoding(path)
    named |= {"encoding": encoding} if encoding else {}
    options = [f"{name} = {literal(value)}" for name, value in named.items()]
    options.append("sample_size = -1")
    place = literal(str(path))
    sniffed = _select(["HasHeader", "Delimiter", "Columns"], f"sniff_csv({', '.join([place, *options])})")
    header, delimiter, columns = connection.execute(sniffed.sql(dialect="duckdb")).fetchall()[0]
    types = {column["name"]: column["type"] for column in columns}
    as_texts = [*options, "all_varchar = true", f"header = {literal(header)}", f"delim = {literal(delimiter)}"]
    rows = f"read_csv({', '.join([place, *as_texts])})"
    texts = connection.execute(_select(["*"], rows).limit(0).sql(dialect="duckdb")).description or []
    if not types or [name for name, *_ in texts] != list(types):
        return CsvFile(", ".join(options))
    lost, missing = _questioned(connection, rows, types)
    if lost:
        typed = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in lost)
        options.append(f"types = {{{typed}}}")
    flags = [name for name in lost if types[name] == "BOOLEAN"]
    return CsvFile(", ".join(options), missing, dict(_pairs(connection, rows, flags)))


def _pairs(
    connection: duckdb.DuckDBPyConnection, rows: str, flags: Sequence[str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Of columns that DuckDB takes for flags, the words for no and yes; not of those that have just one of them.

    A column of nothing but F may be of women.
    """
    for name in flags:
        query = _select([_of_texts("list(DISTINCT x)", name)], rows)
        pair = pair_of(connection.execute(query.sql(dialect="duckdb")).fetchall()[0][0] or ())
        if pair is not None:
            yield name, pair


def pair_of(texts: Sequence[str | None]) -> tuple[str, str] | None:
    """The words for no and yes, where these are all texts that there are; None of others, and of one of them.

    Args:
        texts: of a column, each once; None for NULL.

    >>> pair_of(["Yes", None, "No"]), pair_of(["Y", "n"]), pair_of(["F"])
    (('No', 'Yes'), None, None)
    """
    pairs = ((style(no), style(yes)) for no, yes in _PAIRS for style in _STYLES)
    return next((pair for pair in pairs if {*texts} - {None, ""} == {*pair}), None)


def _questioned(
    connection: duckdb.DuckDBPyConnection, rows: str, types: Mapping[str, str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Columns whose texts say otherwise than their types, and the texts for missing values of those like numbers."""
    listed = ", ".join(literal(text) for text in sorted(MISSING_NUMBERS))
    conditions: dict[str, tuple[str, str]] = {}
    for name, kind in types.items():
        condition = (
            _NUMBERS.format(listed) if kind == "VARCHAR" else _LOST.get(kind, _WHOLE if kind.endswith("INT") else "")
        )
        if condition:
            conditions[name] = kind, condition
    if not conditions:
        return [], {}
    selected = _select([_of_texts(condition, name) for name, (_, condition) in conditions.items()], rows)
    answers = connection.execute(selected.sql(dialect="duckdb")).fetchall()[0]
    contradicted = [name for name, answer in zip(conditions, answers, strict=True) if answer]
    lost = [name for name in contradicted if conditions[name][0] != "VARCHAR"]
    missing: dict[str, list[str]] = {}
    for name in (name for name in contradicted if conditions[name][0] == "VARCHAR"):
        query = _select([quote(name)], rows).where(_of_texts(f"lower(x) IN ({listed})", name), dialect="duckdb")
        query = query.group_by(quote(name)).having(f"count(*) >= {LEAST}")
        missing[name] = sorted(text for (text,) in connection.execute(query.sql(dialect="duckdb")).fetchall())
    return lost, missing


def _select(selected: Sequence[str], rows: str) -> exp.Select:
    """A query of a file."""
    return exp.select(*selected, dialect="duckdb").from_(exp.maybe_parse(rows, into=exp.Table, dialect="duckdb"))


def _of_texts(condition: str, name: str) -> str:
    """A condition on the texts of a column."""
    column = exp.func("trim", exp.column(name, quoted=True), dialect="duckdb")
    return filled(condition, x=column).sql(dialect="duckdb")


def _encoding(path: Path) -> str:
    """How the file's letters are encoded, where that is not UTF-8; empty where it is, or is compressed otherwise."""
    if path.suffix.lower() == ".zst":
        return ""
    decoder_of = _pieces(path)
    first = next(decoder_of, b"")
    if first[:2] in _BYTE_ORDER:
        return _BYTE_ORDER[first[:2]]
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(first)
        for piece in decoder_of:
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "latin-1"
    return ""


def _pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece
