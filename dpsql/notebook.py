"""Magics for notebooks, which `%load_ext dpsql` loads.

    %dp_connect bank.duckdb        open a database file; the variable `db` holds it
    %%dp [name]                    a cell of SQL: shows its last rows, or assigns them to a variable
    %dp FROM dp_budget()           one line of SQL, as a value

SQL finds data frames, relations and releases by the names of the notebook's variables. An error is shown without a
traceback. Who interrupts the kernel reads what was charged; the same cell goes on from it, free.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any, Final, NoReturn

import duckdb

from dpsql.api import output
from dpsql.api.database import Database, connect
from dpsql.api.database_file import check_there
from dpsql.api.relation import Relation
from dpsql.core.digits import up
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument

_OPEN: Final = "('reserved', 'measured')"  # states of releases that were charged and not published


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of a cell."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and how the magic is used."""
        raise InvalidArgument(f"{message}\n{self.format_usage().strip()}")


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a shell of IPython: `%load_ext dpsql` calls it."""
    magics = Magics(shell)
    shell.register_magic_function(magics.connect, "line", "dp_connect")
    shell.register_magic_function(magics.run, "line_cell", "dp")


class Magics:
    """What `%dp_connect`, `%dp` and `%%dp` do in one shell.

    Attributes:
        db: the database of the cells; None before `%dp_connect`.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.db: Database | None = None
        self._parser = _Parser(prog="%dp_connect", description=Magics.connect.__doc__, add_help=False)
        self._parser.add_argument("database", nargs="?", default=":memory:")
        self._parser.add_argument("--name", default="db")
        self._parser.add_argument("--create", action="store_true")
        self._parser.add_argument("--read-only", action="store_true")
        self._parser.add_argument("--no-owner", action="store_true")

    def connect(self, line: str) -> None:
        """Open a database for the cells: `%dp_connect [FILE] [--name db] [--create] [--read-only] [--no-owner]`.

        FILE is the path of a DuckDB file, or the name of a variable that holds an open database; without it the
        database is in memory. A file that is missing is made with `--create` only. `--name` is the variable that holds
        the connection, `db` by default.
        """
        with _Shown(self):
            options = self._parser.parse_args(shlex.split(line))
            held = self._shell.user_ns.get(options.database)
            self.db = held if isinstance(held, Database) else self._opened(options)
            self._shell.user_ns[options.name] = self.db
            lines = [
                f"{source}: epsilon {up(round(spent, 12))} of {up(epsilon)} is spent"
                for source, epsilon, spent in self.db.sql(
                    "SELECT source, epsilon, epsilon_spent FROM dp_budget() ORDER BY source"
                ).fetchall()
            ]
            print("\n".join([f"{options.name} = {options.database}", *lines]))

    def _opened(self, options: argparse.Namespace) -> Database:
        path = options.database if options.database == ":memory:" else str(Path(options.database).expanduser())
        if path != ":memory:" and not options.create:
            check_there(path, "; %dp_connect --create makes one")
        if self.db is not None:
            self.db.close()
        db = connect(path, read_only=options.read_only, owner=False if options.no_owner else None)
        db.sql("SET enable_progress_bar = false")  # dpsql shows its own
        return db

    def run(self, line: str, cell: str | None = None) -> Relation | None:
        """Run SQL: `%%dp` shows the last statement's rows, `%%dp name` assigns them, `%dp SELECT …` is one line."""
        with _Shown(self):
            if self.db is None:
                raise InvalidArgument("no database is open: %dp_connect bank.duckdb opens one")
            name = "" if cell is None else line.strip().removesuffix("<<").strip()
            if name and not name.isidentifier():
                raise InvalidArgument(f"%%dp is followed by {name!r}: give the name of a variable, or nothing")
            relation = self._last_rows(line if cell is None else cell)
            if name:
                self._shell.user_ns[name] = relation
                return None
            return relation
        return None

    def _last_rows(self, text: str) -> Relation | None:
        """The rows of the last statement of a text, in which the notebook's variables have their names."""
        assert self.db is not None
        statements = duckdb.extract_statements(text)
        if not statements:
            return None
        last = statements[-1]
        names = {"_dpsql_sql": self.db.sql, "_dpsql_text": text}
        rows: Relation | None = eval("_dpsql_sql(_dpsql_text)", {**self._shell.user_ns}, names)
        if rows is None or not output.has_rows(last):
            return None
        if last.type == duckdb.StatementType.EXPLAIN:
            print("\n".join(plan.rstrip() for _, plan in rows.fetchall()))
            return None
        return rows

    def charged(self) -> str:
        """What was charged of releases that are not published yet, in words."""
        try:
            assert self.db is not None
            releases = self.db.sql(
                f"SELECT release, source, epsilon FROM dp_releases() WHERE state IN {_OPEN} ORDER BY 1"  # noqa: S608 - ours
            ).fetchall()
        except Exception:  # the interrupt is what matters
            return ""
        return "".join(
            f"; release {release} of {source} is charged with epsilon {up(epsilon)}"
            for release, source, epsilon in releases
        )


class _Shown:
    """Errors inside are shown in their own words, without a traceback; an interrupt is a KeyboardInterrupt."""

    def __init__(self, magics: Magics) -> None:
        self._magics = magics

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, _: object, error: BaseException | None, where: object) -> None:
        """Let the shell show it as it should."""
        if isinstance(error, KeyboardInterrupt) or (error is not None and _is_interrupt(error)):
            note = f"interrupted{self._magics.charged()}; what was charged is kept, the same cell goes on from it, free"
            raise _without_traceback(KeyboardInterrupt(note), note) from None
        if isinstance(error, (DpsqlError, duckdb.Error)):
            _without_traceback(error, f"{type(error).__name__}: {error}")


def _is_interrupt(error: BaseException) -> bool:
    return str(Interrupted()) in str(error) or str(error) == "Query interrupted"


def _without_traceback(error: BaseException, text: str) -> BaseException:
    """The error, which a shell of IPython then shows as this text."""
    error._render_traceback_ = lambda: text.splitlines()  # type: ignore[attr-defined]
    return error
