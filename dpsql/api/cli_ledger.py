"""The commands `dpsql budget` and `dpsql ledger`: what was spent, and what an owner does about it."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, Final

from dpsql.api import output
from dpsql.api.database_file import check_there, open_database
from dpsql.core.digits import up
from dpsql.errors import DpsqlError

PLACE: Final = 40
_CHANGES: Final = {
    "raise": "promise a larger epsilon",
    "reset": "begin anew, for rows about other people",
    "retire": "let nothing more be charged",
    "forgive": "let releases be charged again of which too many were stopped",
    "unprotect": "take back a protection that was never charged",
}


def add_commands(commands: Any) -> None:
    """Add `budget` and `ledger` to the commands of `dpsql`."""
    budget = commands.add_parser("budget", help="what is spent and left of each protected table")
    budget.add_argument("database", help="the DuckDB file")
    output.add_options(budget)
    budget.set_defaults(run=_budget)
    ledger = commands.add_parser("ledger", help="look at the ledger of a database, or change an account, with a reason")
    _add_ledger(ledger)
    ledger.set_defaults(run=_ledger)


def _add_ledger(ledger: argparse.ArgumentParser) -> None:
    actions = ledger.add_subparsers(dest="action", required=True, metavar="action")
    verify = actions.add_parser("verify", help="whether ledger, accounts, answers and head fit together")
    verify.add_argument("database", help="the DuckDB file")
    accept = actions.add_parser("accept", help="go on with a ledger that does not fit together, as it is")
    accept.add_argument("database", help="the DuckDB file")
    key = actions.add_parser("key", help="make the ledger from now on with the key that is there: see DPSQL_LEDGER_KEY")
    key.add_argument("database", help="the DuckDB file")
    settle = actions.add_parser("settle", help="confirm that no unprotected table holds private rows")
    settle.add_argument("database", help="the DuckDB file")
    settle.add_argument("--table", help="this one alone, whatever rows come under its name later")
    for name, what in _CHANGES.items():
        change = actions.add_parser(name, help=what)
        change.add_argument("database", help="the DuckDB file")
        change.add_argument("table", help="the protected table")
        if name == "raise":
            change.add_argument("--epsilon", type=float, required=True, help="the new one, above the present")
    for action in (accept, key, settle, *(actions.choices[name] for name in _CHANGES)):
        action.add_argument("--reason", required=True, help="why; the ledger keeps it")


def _budget(options: argparse.Namespace) -> None:
    from dpsql.api import owner_door

    form = output.form_of(options)
    if form.kind == "table" and form.file is None:
        listed = owner_door.ask(options.database, open_database, "budget", {})
        output.say_list(listed, f"dpsql releases {options.database}; dpsql user list {options.database}")
        return
    with open_database(options.database) as db:
        output.show(db, "FROM dp_budget()", form)


def _ledger(options: argparse.Namespace) -> None:
    print(_done(options))
    print(f"next: dpsql budget {options.database}; dpsql releases {options.database}")


def _done(options: argparse.Namespace) -> str:
    """Do the action; what it did or saw, in words."""
    if options.action == "verify":
        return _findings(options.database, None)
    if options.action == "accept":
        return _findings(options.database, options.reason)
    if options.action == "key":
        return _take_key(options.database, options.reason)
    from dpsql.api import owner_door

    ask = partial(owner_door.ask, options.database, open_database)
    if options.action == "settle":
        ask("settle", {"reason": options.reason} | ({"table": options.table} if options.table else {}))
        what = f"{options.table} is" if options.table else "all tables that are not protected are"
        return f"{options.database}: {what} public from now on"
    given = {"action": options.action, "table": options.table, "reason": options.reason}
    if options.action == "raise":
        given["epsilon"] = options.epsilon
    return str(ask("change", given))


def _take_key(path: str, reason: str) -> str:
    """Make a database's ledger with the key that is there."""
    import duckdb

    from dpsql.owner import account_changes

    check_there(path)
    with duckdb.connect(path) as connection:
        catalog = connection.execute("SELECT current_database()").fetchall()[0][0]
        fingerprint = account_changes.take_key(connection, catalog, reason)
    return f"{path}: from now on the ledger is made with the key of fingerprint {fingerprint}"


def _findings(path: str, reason: str | None) -> str:
    """What a look at a database's books found, after they were accepted if there is a reason."""
    import duckdb

    from dpsql.owner import account_changes

    check_there(path)
    with duckdb.connect(path, read_only=reason is None) as connection:
        catalog = connection.execute("SELECT current_database()").fetchall()[0][0]
        if reason is None:
            findings = account_changes.inspect(connection, catalog)
        else:
            findings = account_changes.accept(connection, catalog, reason)
    if findings.flaw is not None:
        raise DpsqlError(f"{path}: {findings.flaw}")
    lines = [f"{path}: {findings.events} events, all as recorded"]
    for account in findings.accounts.values():
        spent = f"{account.spent_words} of {up(account.epsilon)} is spent in {account.releases} releases"
        lines.append(f"  {account.source}: epsilon {spent}")
    return "\n".join(lines)
