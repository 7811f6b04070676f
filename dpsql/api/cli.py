"""The command line, all but `dpsql serve` and `dpsql audit`, which are above."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import duckdb

from dpsql.api import cli_init, cli_users
from dpsql.errors import DpsqlError, Interrupted

if TYPE_CHECKING:
    from dpsql.api.database import Database


_INTERRUPTED: Final = 130  # the status of a process that Ctrl-C ended, as shells have it
_CHANGES = {
    "raise": "promise a larger epsilon",
    "reset": "begin anew, for rows about other people",
    "retire": "let nothing more be charged",
    "forgive": "let releases be charged again of which too many were stopped",
    "unprotect": "take back a protection that was never charged",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="dpsql", description="Differentially private synthetic tables inside DuckDB, in SQL."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    demo = commands.add_parser(
        "demo", help="protect, plan, synthesise and compare a simulated census, in half a minute"
    )
    demo.add_argument("--database", help="the DuckDB file to make (default: a new one in a temporary folder)")
    demo.add_argument("--input", metavar="FILE", help="a CSV or Parquet file of your own instead")
    demo.add_argument("--epsilon", type=float, default=1.0, help="of the release (default: 1)")
    cli_init.add_nullstr(demo)

    sql = commands.add_parser("sql", help="run SQL on a database file with dpsql in it")
    sql.add_argument("database", help="the DuckDB file, or :memory:")
    sql.add_argument("statement", help="SQL, or - to read it from standard input")
    sql.add_argument("--no-owner", action="store_true", help="refuse dp_protect, dp_domain and dp_constraint")

    synthesize = commands.add_parser("synthesize", help="write a synthetic table to a CSV or Parquet file")
    synthesize.add_argument("database", help="the DuckDB file")
    synthesize.add_argument("table", help="the protected table")
    synthesize.add_argument("--epsilon", type=float, required=True, help="what the release costs")
    synthesize.add_argument("--delta", type=float, help="by default the table's")
    synthesize.add_argument("--workload", help="SQL or shorthand; by default all 3-way marginals")
    synthesize.add_argument("--mechanism", help="auto (default), projection, rap, mwem, …: see the README")
    synthesize.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the mechanism; may be repeated"
    )
    synthesize.add_argument("--prior", help="a public table, view or earlier release of the database to lean on")
    synthesize.add_argument("--rows", type=int, help="by default the measured total")
    synthesize.add_argument("--release", default="", help="a name: another one is a fresh release")
    synthesize.add_argument("--output", required=True, metavar="FILE", help="a .csv or .parquet file to write")

    _add_evaluate(commands.add_parser("evaluate", help="how good a synthetic table is: private, for the owner only"))

    budget = commands.add_parser("budget", help="what is spent and left of each protected table")
    budget.add_argument("database", help="the DuckDB file")

    ledger = commands.add_parser("ledger", help="look at the ledger of a database, or change an account, with a reason")
    _add_ledger(ledger)

    cli_init.add_command(commands)
    cli_users.add_commands(commands)

    commands.add_parser("serve", help="serve a database to analysts over the network: dpsql serve --help")
    commands.add_parser("audit", help="what a service's audit log says, and whether it is whole: dpsql audit --help")
    commands.add_parser("doctor", help="what dpsql runs on: versions, extension, device")
    return parser


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("database", help="the DuckDB file")
    parser.add_argument("--table", required=True, help="the protected table")
    parser.add_argument("--release", required=True, help="number, key or name of a release of it, or another table")
    parser.add_argument("--target", metavar="COLUMN", help="that models foretell; needs dpsql[evaluate]")
    parser.add_argument("--output", choices=["table", "json"], default="table", help="default: table")


def _add_ledger(ledger: argparse.ArgumentParser) -> None:
    actions = ledger.add_subparsers(dest="action", required=True, metavar="action")
    verify = actions.add_parser("verify", help="whether ledger, accounts, answers and head fit together")
    verify.add_argument("database", help="the DuckDB file")
    accept = actions.add_parser("accept", help="go on with a ledger that does not fit together, as it is")
    accept.add_argument("database", help="the DuckDB file")
    key = actions.add_parser("key", help="make the ledger from now on with the key that is there: see DPSQL_LEDGER_KEY")
    key.add_argument("database", help="the DuckDB file")
    settle = actions.add_parser("settle", help="no table but those of the accounts holds private rows")
    settle.add_argument("database", help="the DuckDB file")
    for name, what in _CHANGES.items():
        change = actions.add_parser(name, help=what)
        change.add_argument("database", help="the DuckDB file")
        change.add_argument("table", help="the protected table")
        if name == "raise":
            change.add_argument("--epsilon", type=float, required=True, help="the new one, above the present")
    for action in (accept, key, settle, *(actions.choices[name] for name in _CHANGES)):
        action.add_argument("--reason", required=True, help="why; the ledger keeps it")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status, 1 after an error, which goes to standard error."""
    options = build_parser().parse_args(arguments)
    try:
        _COMMANDS[options.command](options)
    except (DpsqlError, duckdb.Error, OSError) as error:
        print(f"dpsql: {error}", file=sys.stderr)
        return _INTERRUPTED if str(Interrupted()) in str(error) else 1
    except KeyboardInterrupt:
        return _say_interrupted()
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise
        return _say_interrupted()
    return 0


def _say_interrupted() -> int:
    print("dpsql: interrupted; what was charged is kept, the same command goes on from it", file=sys.stderr)
    return _INTERRUPTED


def _open(path: str, *, owner: bool = True) -> Database:
    from dpsql.api.database import connect

    if path != ":memory:":
        _check_there(path)
    db = connect(path, owner=owner)
    db.sql("SET python_enable_replacements = false")  # the variables are those of dpsql
    return db


def _check_there(path: str) -> None:
    """DuckDB would make a new file where there is none."""
    if not Path(path).exists():
        raise DpsqlError(f"there is no database file {path!r}")


def _demo(options: argparse.Namespace) -> None:
    from dpsql.api.demo import run

    path = options.database or str(Path(tempfile.mkdtemp(prefix="dpsql-")) / "demo.duckdb")
    run(path, options.input, options.epsilon, print, options.nullstr)


def _sql(options: argparse.Namespace) -> None:
    statement = sys.stdin.read() if options.statement == "-" else options.statement
    with _open(options.database, owner=not options.no_owner) as db:
        for part in duckdb.extract_statements(statement):
            if part.type in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
                db.connection.sql(_alone(part.query)).show()
            else:
                db.sql(part.query)


def _alone(statement: str) -> str:
    """A statement without the comments of the next one, which follow its semicolon, and without that."""
    lines = statement.rstrip().splitlines()
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("--")):
        lines.pop()
    return "\n".join(lines).rstrip().rstrip(";")


def _synthesize(options: argparse.Namespace) -> None:
    from dpsql.release.quality import warnings_of

    names = ("delta", "workload", "mechanism", "prior", "rows", "release")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for option in options.option:
        name, equals, value = option.partition("=")
        if not equals or name in ("table", "epsilon"):
            raise DpsqlError(f"--option is {option!r}: give name=value, such as rounds=5")
        given[name] = value
    if Path(options.output).suffix not in (".csv", ".parquet"):
        raise DpsqlError(f"--output is {options.output!r}: give a .csv or .parquet file")
    with _open(options.database) as db:
        release = db.synthesize(options.table, options.epsilon, **given)
        release.write(options.output)
        print(f"{release.entry.rows} rows in {options.output}: {release.entry.guarantee}")
        for words in warnings_of(release.entry):
            print(f"dpsql: warning: {words}", file=sys.stderr)


def _evaluate(options: argparse.Namespace) -> None:
    with _open(options.database) as db:
        found = db.evaluate(options.table, options.release, options.target)
        print(found.to_json() if options.output == "json" else found)


def _budget(options: argparse.Namespace) -> None:
    with _open(options.database) as db:
        print(db.budget().to_string(index=False))


def _doctor(options: argparse.Namespace) -> None:
    from dpsql.api.doctor import report

    for name, value in report().items():
        print(f"{name:12} {value}")


def _user(options: argparse.Namespace) -> None:
    cli_users.run(options, _open)


def _ledger(options: argparse.Namespace) -> None:
    if options.action == "verify":
        print(_found(options.database, None))
        return
    if options.action == "accept":
        print(_found(options.database, options.reason))
        return
    if options.action == "key":
        print(_take_key(options.database, options.reason))
        return
    with _open(options.database) as db:
        if options.action == "unprotect":
            db.unprotect(options.table, options.reason)
            print(f"{options.table}: no longer protected")
            return
        if options.action == "settle":
            db.settle(options.reason)
            print(f"{options.database}: every table that is not protected is taken for public")
            return
        if options.action == "raise":
            account = db.raise_budget(options.table, options.epsilon, options.reason)
        else:
            change = {"reset": db.reset, "retire": db.retire, "forgive": db.forgive}[options.action]
            account = change(options.table, options.reason)
        print(f"{account.source}: epsilon {account.epsilon:g}, spent {account.epsilon_spent:.4g}")


def _take_key(path: str, reason: str) -> str:
    """Make a database's ledger with the key that is there."""
    from dpsql.owner import account_changes

    _check_there(path)
    with duckdb.connect(path) as connection:
        catalog = connection.execute("SELECT current_database()").fetchall()[0][0]
        fingerprint = account_changes.take_key(connection, catalog, reason)
    return f"{path}: from now on the ledger is made with the key of fingerprint {fingerprint}"


def _found(path: str, reason: str | None) -> str:
    """What a look at a database's books found, after they were accepted if there is a reason."""
    from dpsql.owner import account_changes

    _check_there(path)
    with duckdb.connect(path, read_only=reason is None) as connection:
        catalog = connection.execute("SELECT current_database()").fetchall()[0][0]
        if reason is None:
            found = account_changes.inspect(connection, catalog)
        else:
            found = account_changes.accept(connection, catalog, reason)
    if found.flaw is not None:
        raise DpsqlError(f"{path}: {found.flaw}")
    lines = [f"{path}: {found.events} events, all as recorded"]
    for account in found.accounts.values():
        spent = f"{account.epsilon_spent:.4g} of {account.epsilon:g} is spent in {account.releases} releases"
        lines.append(f"  {account.source}: epsilon {spent}")
    return "\n".join(lines)


def _served(options: argparse.Namespace) -> None:
    raise DpsqlError(f"{options.command} is a command only: run dpsql {options.command} bank.duckdb")


_COMMANDS = {
    "serve": _served,
    "audit": _served,
    "demo": _demo,
    "init": cli_init.run,
    "sql": _sql,
    "synthesize": _synthesize,
    "evaluate": _evaluate,
    "budget": _budget,
    "doctor": _doctor,
    "ledger": _ledger,
    "user": _user,
    "publish": _user,
    "releases": _user,
    "unpublish": _user,
}


def command() -> NoReturn:
    """Run a command and end the process.

    One that was interrupted ends at once: its database is closed, and Python would wait for a compilation by JAX.
    """
    status = main()
    if status == _INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command()
