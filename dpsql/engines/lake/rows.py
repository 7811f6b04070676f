"""The rows of a snapshot as a temporary view of a connection, which the counting SQL reads as it reads a table.

    SELECT p.a, p.b, c.day
    FROM read_parquet(getvariable('files'), …) AS p  JOIN  constants AS c ON p.filename = c.path

No name of a file and no value of a partition stands in a text of SQL, because DuckDB may log texts: the list of files
is a variable of the connection, filled from the books, and so is the table of constants. No column is cast.

Where a table deletes rows beside its files, they are left out here, so nothing that reads the view sees them. Each file
has a bit for each row. A join with the deleted rows would leave the order of the rows to chance.

    … WHERE c.deleted IS NULL OR TRY(get_bit(c.deleted, p.file_row_number)) = 0
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import duckdb

from dpsql.core.names import fold, quote
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.external import check_case
from dpsql.engines.lake.refusals import refusal_of
from dpsql.engines.source import Column, Source
from dpsql.errors import DpsqlError, InvalidArgument

DELETED: Final = "deleted rows"
"""Beside the constants of a file, the rows that do not count; see `dpsql.engines.lake.vectors`."""
_PLACES: Final = frozenset({"filename", "file_row_number"})
"""What DuckDB calls the place of a row, unless a file has a column of that name."""
_numbers: Final = itertools.count(1)


@dataclass(frozen=True)
class Reading:
    """How the files of a snapshot are read.

    Attributes:
        columns: of the source, with their types; those of `constants` are not in the files.
        constants: names of columns whose value is the same in all rows of a file.
        ids: the field id of each column, where columns are found by it; else they are found by name.
        names: of a column what the files call it, where that is another name.
        union: whether some files lack columns of others.
        empty: whether there are no files.
        deleted: whether some files have rows that do not count, which `DELETED` of their constants lists.
    """

    columns: tuple[Column, ...]
    constants: tuple[str, ...] = ()
    ids: dict[str, int] = field(default_factory=dict)
    union: bool = False
    empty: bool = False
    deleted: bool = False
    names: dict[str, str] = field(default_factory=dict)

    def pinned(self) -> dict[str, Any]:
        """As JSON of a pin."""
        pin = {"constants": list(self.constants), "ids": self.ids, "union": self.union, "empty": self.empty}
        return pin | ({"deleted": True} if self.deleted else {}) | ({"names": self.names} if self.names else {})


def reading_of(source: Source) -> Reading:
    """How the files of a registered source are read."""
    assert source.place is not None
    how = source.place.pinned
    flags = {name: bool(how.get(name)) for name in ("union", "empty", "deleted")}
    return Reading(source.columns, tuple(how["constants"]), dict(how["ids"]), names=how.get("names", {}), **flags)


@contextmanager
def rows_of(cursor: duckdb.DuckDBPyConnection, source: Source) -> Iterator[Source]:
    """A source of the connection's own that has the rows of a snapshot's files, while inside; see `open_rows`."""
    view = open_rows(cursor, source)
    try:
        yield view
    finally:
        close_rows(cursor, view)


def open_rows(cursor: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Create the view; the source that it is."""
    name = f"dpsql_rows_{next(_numbers)}"
    of_source = f"FROM {quote(source.catalog)}.dpsql.source_file WHERE source = ?"
    how, catalog = reading_of(source), "temp"
    listed = f"SET VARIABLE {name} = (SELECT list(path ORDER BY number) {of_source})"
    cursor.execute(listed, [source.key])
    if how.constants or how.deleted:
        typed = "".join(
            f", TRY_CAST(constants ->> ? AS {_kind(source.column(column))}) AS v{place}"
            for place, column in enumerate(how.constants)
        )
        bits, paths = "", list(map(_json_path, how.constants))
        if how.deleted:
            bits, paths = ", from_base64(constants ->> ?)::BIT AS deleted", [*paths, _json_path(DELETED)]
        made = f"CREATE TEMP TABLE {name}_constants AS SELECT path{typed}{bits} {of_source}"
        cursor.execute(made, [*paths, source.key])
    cursor.execute(f"CREATE TEMP VIEW {name} AS {_select(name, how)}")
    return replace(source, catalog=catalog, schema="main", name=name, place=None)


def close_rows(cursor: duckdb.DuckDBPyConnection, view: Source) -> None:
    """Drop the view and what it reads."""
    cursor.execute(f"DROP VIEW IF EXISTS temp.main.{view.name}; DROP TABLE IF EXISTS temp.main.{view.name}_constants")
    cursor.execute(f"RESET VARIABLE {view.name}")


def _select(name: str, how: Reading) -> str:
    """The query of the view."""
    if how.empty:
        nothing = [f"NULL::{_kind(column)} AS {quote(column.name)}" for column in how.columns]
        return f"SELECT {', '.join(nothing)} WHERE false"
    constants = {column: f"c.v{place} AS {quote(column)}" for place, column in enumerate(how.constants)}
    shown = ", ".join(constants.get(c.name) or _read(c, how) for c in how.columns)
    options = ["hive_partitioning := false"]
    if how.ids:
        fields = (
            f"{how.ids[c.name]}: {{name: {literal(c.name)}, type: {literal(_kind(c))}, default_value: NULL}}"
            for c in how.columns
            if c.name not in constants
        )
        options.append(f"schema := MAP {{{', '.join(fields)}}}")
    elif how.union:
        options.append("union_by_name := true")
    read = f"read_parquet(getvariable('{name}'), {', '.join(options)}) AS p"
    joined = f"JOIN temp.main.{name}_constants AS c ON p.filename = c.path"
    rest = f" LEFT {joined}" if constants else ""
    if how.deleted:  # a row that has no bit, or no file in the list, is left out
        rest = f" {joined} WHERE c.deleted IS NULL OR TRY(get_bit(c.deleted, p.file_row_number::INTEGER)) = 0"
    return f"SELECT {shown} FROM {read}{rest}"  # noqa: S608


def _read(column: Column, how: Reading) -> str:
    """A column of the files as the view shows it.

    A number that can be NaN goes through TRY, which changes nothing but hides the file's statistics from DuckDB: other
    writers leave NaN out of a row group's largest value, and DuckDB would take `x <= 5` as true for all rows because
    the largest is 3. Then NaN would be in a bin, or not, by what the other rows are, and one row could move many.
    """
    read = f"p.{quote(how.names.get(column.name, column.name))}"
    shown = f"TRY({read})" if column.type in ("FLOAT", "DOUBLE") else read
    return f"{shown} AS {quote(column.name)}"


def _kind(column: Column) -> str:
    return data_type(column.type).sql(dialect="duckdb")


def _json_path(column: str) -> str:
    return '$."' + column.replace('"', '\\"') + '"'


def check_places(columns: Iterable[str]) -> None:
    """Refuse files whose columns hide where a row is, which decides its constants and whether it counts.

    Raises:
        InvalidArgument: says which column.
    """
    for name in columns:
        if fold(name) in _PLACES:
            raise InvalidArgument(
                f"column {name!r} is in the files, and DuckDB calls the place of a row so: rename it, and write the "
                "files anew"
            )


def columns_of(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str], *, union: bool) -> list[Column]:
    """The columns that DuckDB reads in files, without those of their folders.

    Raises:
        DpsqlError: it cannot read them.
    """
    option = ", union_by_name := true" if union else ""
    sql = f"DESCRIBE FROM read_parquet(?, hive_partitioning := false{option})"
    try:
        rows = cursor.execute(sql, [list(paths)]).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise refusal_of(error, paths) or DpsqlError(
            "DuckDB cannot read the files: they are encrypted, cut off, or of another format"
        ) from None
    check_case([row[0] for row in rows], DpsqlError, " of the files")
    return [Column(name, kind, nullable=True) for name, kind, *_ in rows]
