"""The command `dpsql sql`: statements and scripts on a database file with dpsql in it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.api import output
from dpsql.api.database_file import LOAD, check_there, open_database
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument

if TYPE_CHECKING:
    import duckdb

    from dpsql.api.database import Database

PLACE: Final = 20
_DECLARES: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*CALL\s+dp_(?:domain|constraint|protect|link)\b", re.IGNORECASE | re.DOTALL
)
_EPILOG: Final = (
    "Statements run in order, on one connection; the first error ends the command. As a table every result is shown, "
    "of several statements those of dp_protect, dp_link, dp_domain and dp_constraint in a line or two; "
    "as csv, json or parquet the last one. A missing file is made if a statement creates something, or with --create."
)


def add_commands(commands: Any) -> None:
    """Add `sql` to the commands of `dpsql`."""
    sql = commands.add_parser("sql", help="run SQL on a database file with dpsql in it", epilog=_EPILOG)
    sql.add_argument("database", help="the DuckDB file, or :memory:")
    sql.add_argument(
        "statement", nargs="*", help="SQL, the path of a .sql file, or - for standard input; default: what is piped in"
    )
    output.add_options(sql)
    sql.add_argument("--create", action="store_true", help="make the database file if it is missing")
    sql.add_argument("--no-owner", action="store_true", help="refuse dp_protect, dp_domain and dp_constraint")
    sql.add_argument("--load", **LOAD)
    sql.set_defaults(run=_run)


@dataclass(frozen=True)
class _Statement:
    """One statement.

    Attributes:
        text: of it alone.
        parsed: by DuckDB.
        script: the file that it stands in; empty for one of the command line.
        line: of the script, or of its text, at which it begins.
    """

    text: str
    parsed: duckdb.Statement
    script: str
    line: int

    @property
    def has_rows(self) -> bool:
        """Whether its rows are shown."""
        return output.has_rows(self.parsed)

    @property
    def declares(self) -> bool:
        """Whether it protects a table, or declares a column or a constraint: of many a line says enough."""
        return _DECLARES.match(self.text) is not None

    @property
    def creates(self) -> bool:
        """Whether it makes something in the database, so that it may make the file."""
        return self.parsed.type.name == "CREATE" or self.text.lstrip()[:6].casefold() == "import"


def _run(options: argparse.Namespace) -> None:
    form = output.form_of(options)
    statements = list(_statements(options.statement))
    with_rows = [statement for statement in statements if statement.has_rows]
    if form.kind != "table" and with_rows:
        output.copy_of(with_rows[-1].text, "", form.kind)  # refused before anything runs
    path = options.database
    is_new = path != ":memory:" and not Path(path).exists()
    if is_new and not options.create and not any(statement.creates for statement in statements):
        check_there(path, "; a statement that creates something makes one, and so does --create")
    shown = with_rows if form.kind == "table" else with_rows[-1:]
    with open_database(path, owner=not options.no_owner, create=True, load=options.load) as db:
        if is_new and form.kind == "table" and form.file is None:
            print(f"{path}: a new database file")
        declared = _Declared()
        try:
            for statement in statements:
                is_short = len(statements) > 1 and statement.declares and form.kind == "table" and form.file is None
                if not is_short:
                    declared.tell()
                _run_statement(db, statement, form if statement in shown else None, declared if is_short else None)
            declared.tell()
        except BaseException:
            declared.tell()
            is_new = is_new and not db.sql("FROM duckdb_tables()").fetchall()
            if is_new:
                db.close()
                _remove(path)
            raise


class _Declared:
    """What consecutive declarations of a script say of themselves, in a line for each kind."""

    def __init__(self) -> None:
        self._measured: list[str] = []
        self._others: dict[str, list[str]] = {}
        self._constraints: list[str] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """The row of one declaration."""
        if "composition" in row:
            print(output.folded(_protected(row)))
        elif "parent" in row:
            self.tell()
            print(output.folded(_linked(row)))
        elif "predicate" in row:
            self._constraints.append(" and ".join(row["columns"]))
        elif row["kind"] in ("excluded", "computed"):
            self._others.setdefault(row["kind"], []).append(" ".join(row["column"].split()))
        else:
            looked = ", looked" if row["origin"] == "looked" else ""
            self._measured.append(f"{' '.join(row['column'].split())} ({row['size']:,}{looked})")

    def tell(self) -> None:
        """Print it, and begin anew."""
        if self._measured:
            names = ", ".join(self._measured)
            if all(row.endswith(", looked)") for row in self._measured):
                names = names.replace(", looked)", ")") + "; all read off the rows"
            print(output.folded(f"{_counted(self._measured, 'column')} and their cells: {names}"))
        words = {"computed": "computed in synthetic rows", "excluded": "left out"}
        for kind, columns in self._others.items():
            print(output.folded(f"{_counted(columns, 'column')} {words[kind]}: {', '.join(columns)}"))
        if self._constraints:
            listed = ", ".join(self._constraints)
            print(output.folded(f"{_counted(self._constraints, 'constraint')} on synthetic rows: {listed}"))
        self._measured, self._others, self._constraints = [], {}, []


def _protected(row: Mapping[str, Any]) -> str:
    """What dp_protect says."""
    promise = f"all releases together will be ({row['epsilon']:g}, {row['delta']:g})-DP"
    unit = "" if row["privacy_unit"] is None else f", privacy unit {row['privacy_unit']} of {row['max_rows']} rows"
    notes = "".join(f"; {row[name]}" for name in ("enums", "note") if row[name])
    return f"{row['source']}: protected; {promise}, neighbours {row['neighbours']}{unit}{notes}"


def _linked(row: Mapping[str, Any]) -> str:
    """What dp_link says."""
    bound = "" if row["max_rows"] is None else f", max_rows {row['max_rows']}"
    note = f"; {row['note']}" if row["note"] else ""
    return f"{row['source']}: linked to {row['parent']} by {', '.join(row['key'])}{bound}{note}"


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _remove(path: str) -> None:
    """Take back a file that was made for nothing."""
    for name in (path, f"{path}.wal"):
        Path(name).unlink(missing_ok=True)


def _run_statement(db: Database, statement: _Statement, form: output.Form | None, declared: _Declared | None) -> None:
    """Run a statement; where an error is says the place in the script."""
    import duckdb

    from dpsql.api.errors import one_line

    try:
        if declared is not None:
            cursor = db.connection.execute(output.called(statement.text))
            names = [column[0] for column in cursor.description or []]
            declared.add(dict(zip(names, cursor.fetchall()[0], strict=True)))
        elif form is not None:
            output.show(db, statement.text, form)
        elif statement.has_rows:
            db.connection.execute(output.called(statement.text)).fetchall()
        else:
            rows = db.sql(statement.text)
            if rows is not None and "RETURNING" in statement.text.upper():
                print(rows)
    except (DpsqlError, duckdb.Error) as error:
        if str(Interrupted()) in str(error) or not statement.script:
            raise
        line = one_line(str(error), statement.line)
        raise DpsqlError(f"{statement.script}, statement at line {statement.line}: {line}") from None


def _statements(given: Sequence[str]) -> Iterator[_Statement]:
    """The statements of all arguments, in order."""
    import duckdb

    if not given and sys.stdin.isatty():
        raise InvalidArgument("no statement: give SQL, the path of a .sql file, or - for standard input")
    for argument in given or ["-"]:
        script, text = _text(argument)
        try:
            parsed = duckdb.extract_statements(text)
        except duckdb.Error as error:
            if not script:
                raise
            from dpsql.api.errors import one_line

            raise DpsqlError(f"{script}: {one_line(str(error))}") from None
        if not all(statement.query.strip() for statement in parsed):  # DuckDB 1.5 makes several of a PIVOT
            yield _Statement(_alone(text), parsed[-1], script, 1)
            continue
        end = 0
        for statement in parsed:
            alone = _alone(statement.query)
            begin = max(text.find(alone, end), end)
            end = begin + len(alone)
            yield _Statement(alone, statement, script, text.count("\n", 0, begin) + 1)


def _text(argument: str) -> tuple[str, str]:
    """The script's name and the SQL of an argument."""
    if argument == "-":
        return "", sys.stdin.read()
    if not argument.endswith(".sql") or ";" in argument or "\n" in argument:
        return "", argument
    path = Path(argument)
    if not path.is_file():
        raise InvalidArgument(f"statement is {argument!r}: there is no such file")
    return argument, path.read_text(encoding="utf-8")


def _alone(statement: str) -> str:
    """A statement without comments and lines before it, and without the semicolon and whatever is behind it."""
    import duckdb

    data = statement.encode()  # in whose bytes DuckDB counts
    places = [at for at, kind in duckdb.tokenize(statement) if kind is not duckdb.token_type.comment]
    if places and data[places[-1] :][:1] == b";":
        statement = data[: places[-1]].decode()
    lines = statement.strip().splitlines()
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("--")):
        lines.pop()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("--")):
        lines.pop(0)
    return "\n".join(lines).rstrip().rstrip(";")
