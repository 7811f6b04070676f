"""Where rows come from: a CSV or Parquet file, or a table of a DuckDB file. Types are known without reading rows.

But for a CSV file: it has no types, and they are found in its rows, in all of them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.api.proposing.csv_types import CsvFile, csv_file
from dpsql.core.names import fold, quote
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.registry import find_source
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument

_READERS: Final = {".csv": "read_csv", ".tsv": "read_csv", ".txt": "read_csv", ".parquet": "read_parquet"}
_PACKED: Final = (".gz", ".zst")
_ROWS: Final = "dpsql_rows"
_TABLES: Final = """
    SELECT schema_name, table_name FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT internal AND NOT temporary AND schema_name <> 'dpsql'
    ORDER BY table_oid
"""


@dataclass(frozen=True)
class Input:
    """A table to propose domains for.

    Attributes:
        given: what the person named.
        schema, name: of the table that the script protects.
        columns: of it.
        file_call: SQL that reads the file, in the script's CREATE TABLE; None for a table of a database.
        is_typed: whether the types are known without the rows.
        cursor: in which `rows` are.
        rows: SQL of the table to read from.
        missing: of a CSV file, for columns that would be numbers but for them, the texts for missing values.
        pairs: of a CSV file, for columns of yes and no, both words as it writes them.
    """

    given: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    file_call: str | None
    is_typed: bool
    cursor: duckdb.DuckDBPyConnection = field(repr=False)
    rows: str = _ROWS
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pairs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """What the script calls the table, as `dp_protect` reads it."""
        parts = [self.name] if self.schema == "main" else [self.schema, self.name]
        return ".".join(part if re.fullmatch(r"\w+", part) else quote(part) for part in parts)

    @property
    def sql_name(self) -> str:
        """The same for CREATE TABLE, in quotes because any word could be a keyword."""
        return f"{quote(self.schema)}.{quote(self.name)}" if self.schema != "main" else quote(self.name)

    def ask(
        self, values: Mapping[str, str], *selected: str, where: str = "", group: bool = False, most: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Rows of a query over the table, whose rows it reads.

        Args:
            values: expressions of its columns, by the names that the query has for them.
            *selected: expressions of those.
            where: a condition on those.
            group: whether rows are grouped by what is selected and no aggregate, the largest groups first.
            most: rows that are returned.
        """
        named = [exp.alias_(exp.maybe_parse(sql, dialect="duckdb"), name, copy=False) for name, sql in values.items()]
        rows = exp.maybe_parse(self.rows, into=exp.Table, dialect="duckdb")
        inner = exp.select(*named, copy=False).from_(rows, copy=False)  # copies would take longer than most queries
        query = exp.select(*selected, dialect="duckdb", copy=False).from_(inner.subquery("r", copy=False), copy=False)
        query = query.where(where, dialect="duckdb", copy=False) if where else query
        query = query.group_by("ALL", copy=False).order_by("count(*) DESC", "1", copy=False) if group else query
        query = query if most is None else query.limit(most, copy=False)
        return self.cursor.execute(query.sql(dialect="duckdb", copy=False)).fetchall()

    def sample(self, selected: Mapping[str, str], rows: int) -> dict[str, Any]:
        """Some rows, the same at each call.

        Args:
            selected: SQL of what is read, by the names that it gets.
            rows: how many.

        Returns:
            Masked arrays, by those names.
        """
        if not selected:
            return {}
        listed = ", ".join(f"{sql} AS {name}" for name, sql in selected.items())
        sampled = f"USING SAMPLE reservoir({rows} ROWS) REPEATABLE (7)"
        return dict(self.cursor.execute(" ".join(("SELECT", listed, "FROM", self.rows, sampled))).fetchnumpy())

    def sampled_numbers(self, selected: Mapping[str, str], rows: int) -> dict[str, npt.NDArray[np.float64]]:
        """See `sample`; as floats, NaN for NULL."""
        samples = self.sample(selected, rows)
        return {name: np.ma.filled(np.ma.asarray(values, np.float64), np.nan) for name, values in samples.items()}

    @property
    def is_file(self) -> bool:
        """Whether the script has to load it."""
        return self.file_call is not None


@dataclass(frozen=True)
class Tables:
    """Several tables.

    Attributes:
        sources: the tables.
        left_out: names of files in the folder that are none.
    """

    sources: tuple[Input, ...]
    left_out: tuple[str, ...]


@contextmanager
def opened(given: str, nullstr: Sequence[str] = (), *, read: bool = False) -> Iterator[Input]:
    """A file, or a table of a database, ready to be asked for its columns; with `read` also for its rows.

    Raises:
        InvalidArgument: there is no such file, or it is of another kind.
        UnknownName: the database has no such table.
    """
    path = Path(given)
    reader = reader_of(path)
    if path.is_file() and reader is not None:
        with duckdb.connect() as connection:
            yield open_file(connection, path, reader, nullstr, read=read)
        return
    database, _, table = given.rpartition(":")
    if not Path(database).is_file() or not table:
        raise InvalidArgument(
            f"input is {given!r}: give an existing .csv, .csv.gz, .tsv or .parquet file, or a table of a DuckDB file, "
            "such as bank.duckdb:patients"
        )
    if nullstr:
        raise InvalidArgument("nullstr is for CSV files: a table has its NULLs already")
    with duckdb.connect(database, read_only=True) as connection:
        yield open_table(connection, given, table, read=read)


def open_table(connection: duckdb.DuckDBPyConnection, given: str, table: str, *, read: bool) -> Input:
    """A table of a database that is open.

    Raises:
        InvalidArgument: its rows are elsewhere, and are to be read.
        UnknownName: there is no such table.
    """
    source = find_source(connection, table)
    if read and source.place is not None:
        raise InvalidArgument(f"the rows of {table!r} are elsewhere: name the file, such as visits.parquet")
    rows = exp.table_(source.name, db=source.schema, catalog=source.catalog, quoted=True).sql(dialect="duckdb")
    return Input(given, source.schema, source.name, source.columns, None, True, connection, rows)


@contextmanager
def opened_tables(given: str, nullstr: Sequence[str] = (), *, read: bool = False) -> Iterator[Tables]:
    """The files of a folder, or the tables of a DuckDB file, all in one connection.

    Raises:
        InvalidArgument: there is none, two files would be one table, or a file cannot be read.
    """
    path = Path(given)
    if path.is_dir():
        with duckdb.connect() as connection:
            yield _folder(connection, path, nullstr, read=read)
        return
    if nullstr:
        raise InvalidArgument("nullstr is for CSV files: a table has its NULLs already")
    with duckdb.connect(given, read_only=True) as connection:
        names = [f"{quote(schema)}.{quote(table)}" for schema, table in connection.execute(_TABLES).fetchall()]
        if not names:
            raise InvalidArgument(f"input is {given!r}, a database without tables: name one that has some")
        yield Tables(tuple(open_table(connection, given, name, read=read) for name in names), ())


def _folder(connection: duckdb.DuckDBPyConnection, folder: Path, nullstr: Sequence[str], *, read: bool) -> Tables:
    files: dict[str, Path] = {}
    skipped = []
    for path in sorted(folder.iterdir()):
        reader = reader_of(path)
        if path.name.startswith(".") or not path.is_file() or path.suffix.lower() == ".txt" or reader is None:
            skipped += [] if path.name.startswith(".") else [path.name]
        elif path.stat().st_size == 0:
            skipped.append(f"{path.name} (empty)")
        else:
            other = files.setdefault(fold(table_name(path)), path)
            if other != path:
                raise InvalidArgument(
                    f"{other.name!r} and {path.name!r} of {str(folder)!r} would both be table {table_name(path)!r}: "
                    "rename one, or move it elsewhere"
                )
    if not files:
        raise InvalidArgument(f"input is {str(folder)!r}: there is no .csv, .tsv or .parquet file in that folder")
    sources = []
    for number, path in enumerate(files.values()):
        reader = reader_of(path) or ""
        missing = nullstr if reader == "read_csv" else ()
        sources.append(open_file(connection, path, reader, missing, read=read, rows=f"{_ROWS}_{number}"))
    return Tables(tuple(sources), tuple(skipped))


def reader_of(path: Path) -> str | None:
    """The function that reads a file, by how its name ends."""
    suffixes = [suffix for suffix in path.suffixes if suffix.lower() not in _PACKED]
    return _READERS.get(suffixes[-1].lower()) if suffixes else None


def table_name(path: Path) -> str:
    """What the table of a file is called."""
    return re.sub(r"\W+", "_", path.name.split(".")[0]).strip("_") or "input"


def open_file(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    reader: str,
    nullstr: Sequence[str],
    *,
    read: bool,
    rows: str = _ROWS,
) -> Input:
    """A file, ready to be asked.

    Args:
        connection: in which it is read.
        path: of the file.
        reader: the function of DuckDB that reads it.
        nullstr: texts of a CSV file that mean NULL.
        read: whether its rows will be read.
        rows: what it is called in the connection.
    """
    if nullstr and reader != "read_csv":
        raise InvalidArgument(f"nullstr is for CSV files, and {str(path)!r} is none: its NULLs are NULL already")
    csv = _csv(connection, path, nullstr) if reader == "read_csv" else CsvFile("")
    call = f"{reader}({', '.join([literal(str(path)), *([csv.options] if csv.options else [])])})"
    made = exp.maybe_parse(f"FROM {call}", into=exp.Select, dialect="duckdb")
    kind = "TABLE" if read else "VIEW"
    create = exp.Create(this=exp.to_table(rows), kind=kind, expression=made)
    connection.execute(create.sql(dialect="duckdb"))
    listed = connection.execute("SELECT name, type FROM pragma_table_info($rows)", {"rows": rows}).fetchall()
    columns = tuple(Column(name, kind, nullable=True) for name, kind in listed)
    is_typed = reader != "read_csv"
    return Input(str(path), "main", table_name(path), columns, call, is_typed, connection, rows, csv.missing, csv.pairs)


def _csv(connection: duckdb.DuckDBPyConnection, path: Path, nullstr: Sequence[str]) -> CsvFile:
    """How a CSV file is read.

    Raises:
        InvalidArgument: DuckDB cannot read it; not a word of the file is in the error.
    """
    try:
        return csv_file(connection, path, nullstr)
    except (duckdb.Error, EOFError, OSError, zlib.error):  # the last three of a file that is packed, but not whole
        raise InvalidArgument(
            f"{str(path)!r} cannot be read as CSV: try read_csv of DuckDB on it, with delim, quote or strict_mode = "
            "false, write what it gives to a Parquet file, and name that"
        ) from None
