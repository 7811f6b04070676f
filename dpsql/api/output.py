"""Rows as a command prints or writes them: a table that fits the terminal, CSV, JSON or Parquet."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.core.names import as_text
from dpsql.errors import InvalidArgument

if TYPE_CHECKING:
    import duckdb

    from dpsql.api.database import Database

_FORMATS: Final = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "parquet": "FORMAT parquet",
}
_NARROWEST: Final = 80  # table that DuckDB makes
_UNBOUNDED: Final = 1_000_000  # characters of a line that no terminal shows
_CALL: Final = re.compile(r"\A((?:\s|--[^\n]*\n|/\*.*?\*/)*)CALL\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Form:
    """How rows leave a command.

    Attributes:
        kind: `table`, `csv`, `json` or `parquet`.
        file: to write; standard output if None.
        width: of a table, in characters.
        rows: of a table, at most; DuckDB's own limit if None.
    """

    kind: str
    file: str | None
    width: int
    rows: int | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--output`, `--to`, `--width` and `--rows` to a command."""
    kinds = ["table", *_FORMATS]
    parser.add_argument("--output", choices=kinds, help="how rows are written (default: table, or as FILE is called)")
    parser.add_argument("--to", metavar="FILE", help="the file to write; one that exists is written anew")
    parser.add_argument("--width", type=int, help="of a table, in characters (default: the terminal's; 0: any)")
    parser.add_argument("--rows", type=int, help="of a table, at most (default: 20; 0: all)")


def form_of(options: argparse.Namespace) -> Form:
    """What the options say.

    Raises:
        InvalidArgument: they do not fit together; nothing was run.
    """
    suffix = "" if options.to is None else Path(options.to).suffix.removeprefix(".").casefold()
    kind = options.output or (suffix if suffix in _FORMATS else "table")
    if options.to is not None and options.output is None and suffix not in (*_FORMATS, "txt"):
        raise InvalidArgument(f"--to is {options.to!r}: give a .csv, .json or .parquet file, or say --output too")
    if options.to is not None and not Path(options.to).parent.is_dir():
        raise InvalidArgument(f"--to is {options.to!r}: there is no folder {str(Path(options.to).parent)!r}")
    if kind == "parquet" and options.to is None and sys.stdout.isatty():
        raise InvalidArgument("--output is parquet, which no terminal shows: give --to FILE too")
    if options.rows is not None and options.rows < 0:
        raise InvalidArgument(f"--rows is {options.rows}: give a number from 0")
    if options.width is not None and options.width != 0 and options.width < _NARROWEST:
        raise InvalidArgument(f"--width is {options.width}: give a number from {_NARROWEST}, or 0 for any")
    return Form(kind, options.to, _width(options), _UNBOUNDED if options.rows == 0 else options.rows)


def _width(options: argparse.Namespace) -> int:
    """Of the terminal; whatever a table needs where no person looks at it."""
    if options.width is not None:
        return options.width or _UNBOUNDED
    return _UNBOUNDED if options.to is not None else terminal_width() or _UNBOUNDED


def terminal_width() -> int | None:
    """Of the terminal that a person looks at; None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def folded(text: str, indent: str = "") -> str:
    """Sentences in lines that fit the terminal, broken between words; one line where the output goes elsewhere."""
    width = terminal_width()
    if width is None:
        return indent + text
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def say_list(listed: Mapping[str, Any], then: str) -> None:
    """Print a list, and below it the commands that go on; an empty one names the command that begins it.

    Args:
        listed: the answer of the owner's door.
        then: the commands.
    """
    print(listed["text"])
    if not listed["empty"]:
        print(f"next: {then}")


def show(db: Database, query: str, form: Form) -> None:
    """Run a query once, and print or write its rows.

    Args:
        db: to run it on.
        query: one statement that returns rows.
        form: how.
    """
    if form.kind != "table":
        _copy(db, query, form)
    elif form.file is None:
        _print(db, query, form)
    else:
        with Path(form.file).open("w", encoding="utf-8") as file, redirect_stdout(file):
            _print(db, query, form)
        print(f"a table in {form.file}")


def _print(db: Database, query: str, form: Form) -> None:
    if query.lstrip()[:7].casefold() == "explain":
        for _, plan in db.connection.execute(query).fetchall():
            print(plan.rstrip())
        return
    rows = db.sql(called(query))
    if rows is not None and rows.columns == ["chart"]:  # of dp_plan: lines of a text, all of them
        print(*(line for (line,) in rows.fetchall()), sep="\n")
    elif rows is not None:
        rows.show(max_width=form.width, max_rows=form.rows)


def has_rows(statement: duckdb.Statement) -> bool:
    """Whether the rows of a statement are shown."""
    return statement.type.name in ("SELECT", "EXPLAIN", "CALL", "PRAGMA", "EXECUTE", "MULTI")


def called(query: str) -> str:
    """A query whose rows can be read further: `CALL f()` is `FROM f()`."""
    return _CALL.sub(r"\1FROM", query)


def copy_of(query: str, file: str, kind: str) -> str:
    """The statement that writes a query's rows to a file.

    Raises:
        InvalidArgument: the statement is none whose rows can be written, such as EXPLAIN.
    """
    import duckdb

    for inner in (called(query), f"FROM ({query}\n)"):  # DuckDB 1.5 copies no DESCRIBE
        made = f"COPY ({inner}\n) TO {as_text(file)} ({_FORMATS[kind]})"
        try:
            duckdb.extract_statements(made)
        except duckdb.ParserException:
            continue
        return made
    begin = " ".join(query.split()[:2])
    raise InvalidArgument(f"{begin} …: --output {kind} takes the rows of SELECT, FROM, CALL, DESCRIBE or SHOW")


def _copy(db: Database, query: str, form: Form) -> None:
    if form.file is not None:
        ((rows,),) = db.connection.execute(copy_of(query, form.file, form.kind)).fetchall()
        print(f"{rows} rows in {form.file}")
        return
    with tempfile.TemporaryDirectory(prefix="dpsql-") as folder:
        file = Path(folder) / "rows"
        db.connection.execute(copy_of(query, str(file), form.kind))
        _pour(file)


def _pour(file: Path) -> None:
    """Write a file to standard output."""
    sys.stdout.flush()
    raw: Any = getattr(sys.stdout, "buffer", None)
    with file.open("rb") as source:
        if raw is None:  # a text stream in place of the process's own
            sys.stdout.write(source.read().decode())
        else:
            shutil.copyfileobj(source, raw)
            raw.flush()
