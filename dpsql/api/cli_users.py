"""The command `dpsql user`: who may ask of a database, and for how much."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.errors import InvalidArgument

if TYPE_CHECKING:
    from dpsql.api.database import Database

_TOLD = (
    "dpsql: this is the token of {name}, shown this once: give it to them by a safe way, as the password they log in "
    "with; if it is lost, dpsql user rotate {database} {name} makes another"
)


def add_commands(commands: Any) -> None:
    """Add `user` and its actions to the commands of `dpsql`."""
    user = commands.add_parser("user", help="who may ask of a database through the service, and for how much")
    actions = user.add_subparsers(dest="action", required=True, metavar="action")
    described = {
        "add": "a new user; their token is printed once",
        "rotate": "a new token for a user; the old one ends at once",
        "revoke": "a user may do nothing any more, at once",
        "limit": "what a user may cause of tables' loss, from now on",
        "list": "every user and limit, with what is spent and left",
    }
    for action, what in described.items():
        parser = actions.add_parser(action, help=what)
        parser.add_argument("database", help="the DuckDB file")
        if action != "list":
            parser.add_argument("name", help="of the user")
        if action == "add":
            parser.add_argument("--role", default="analyst", help="analyst (default), or reader of what is published")
            parser.add_argument("--limit", action="append", default=[], metavar="TABLE=EPSILON", help="may be repeated")
        if action == "limit":
            parser.add_argument("limit", nargs="+", metavar="TABLE=EPSILON", help="or TABLE=none to take it back")
        if action in ("add", "limit"):
            parser.add_argument("--per", default="forever", help="forever (default), month or day, in UTC")
            parser.add_argument("--delta", type=float, help="of the limits; by default each table's")


def run(options: argparse.Namespace, opened: Callable[[str], Database]) -> None:
    """Do what the command says.

    Args:
        options: of the command line.
        opened: opens a database file.
    """
    with opened(options.database) as db:
        if options.action == "list":
            print(db.users.list().to_string(index=False, na_rep=""))
        elif options.action == "revoke":
            db.users.revoke(options.name)
            print(f"{options.name}: revoked; what they caused stays theirs")
        elif options.action == "limit":
            for table, epsilon in _limits(options.limit).items():
                db.users.limit(options.name, table, epsilon, per=options.per, delta=options.delta)
                allowed = "none any more" if epsilon is None else f"epsilon {epsilon:g}, {options.per}"
                print(f"{options.name}: {table}: {allowed}")
        else:
            _print_token(db, options)


def _print_token(db: Database, options: argparse.Namespace) -> None:
    """Make a token and print it, alone on standard output, with a sentence on standard error."""
    if options.action == "rotate":
        token = db.users.rotate(options.name)
    else:
        limits = {table: epsilon for table, epsilon in _limits(options.limit).items() if epsilon is not None}
        token = db.users.add(options.name, options.role, limits, options.per, options.delta)
    print(token)
    print(_TOLD.format(name=options.name, database=options.database), file=sys.stderr)


def _limits(texts: Sequence[str]) -> dict[str, float | None]:
    """The limits that are written as table=epsilon."""
    found: dict[str, float | None] = {}
    for text in texts:
        table, equals, epsilon = text.rpartition("=")
        try:
            found[table] = None if epsilon == "none" else float(epsilon)
        except ValueError:
            equals = ""
        if not equals or not table:
            raise InvalidArgument(f"limit is {text!r}: give table=epsilon, such as patients=0.5")
    return found
