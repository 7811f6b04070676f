"""The commands `dpsql user`, `publish` and `unpublish`: who may ask of a database, how much, and what they read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from dpsql.api import output
from dpsql.api.database_file import open_database
from dpsql.core.digits import up
from dpsql.errors import InvalidArgument

PLACE: Final = 60
_TOLD = (
    "dpsql: this is the token of {name}, shown this once: give it to them by a safe way, as the password they log in "
    "with; if it is lost, dpsql user rotate {database} {name} makes another\n"
    "next: dpsql user list {database}; dpsql serve {database}"
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
            default = "forever" if action == "add" else None
            parser.add_argument("--per", default=default, help="forever (default), month or day, in UTC")
            parser.add_argument("--delta", type=float, help="of the limits; by default each table's")
    share = actions.add_parser("share", help="whether users get again, free, what any of them asked; off by default")
    share.add_argument("database", help="the DuckDB file")
    share.add_argument("releases", choices=["on", "off"], help="on tells each user that another asked the same")

    publish = commands.add_parser(
        "publish", help="show a release to users of the service, as a table; a linked one as a schema"
    )
    publish.add_argument("database", help="the DuckDB file")
    publish.add_argument("release", help="its number, name or key: see dp_releases()")
    publish.add_argument("name", help="of the table, for users; of a linked release the schema of its tables")
    publish.add_argument("--audience", nargs="+", default=["analysts"], help="analysts, everyone, or names of users")
    publish.add_argument("--comment", default="", help="what users are told of it")
    releases = commands.add_parser("releases", help="what was released, and to whom: numbers and names to publish")
    releases.add_argument("database", help="the DuckDB file")
    unpublish = commands.add_parser("unpublish", help="stop showing a table, or all tables of a schema, to users")
    unpublish.add_argument("database", help="the DuckDB file")
    unpublish.add_argument("name", help="of the table, for users")
    for command in (user, publish, releases, unpublish):
        command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    """Do what the command says, in the service that has the database open or else in the file."""
    from dpsql.api import owner_door

    ask = partial(owner_door.ask, options.database, open_database)
    name = getattr(options, "name", "")
    if options.command == "publish":
        audience = options.audience[0] if options.audience in (["analysts"], ["everyone"]) else options.audience
        ask("publish", {"release": options.release, "name": name, "audience": audience, "comment": options.comment})
        print(f"{name}: release {options.release}, published to {', '.join(options.audience)}")
        print(f"next: dpsql serve {options.database}; dpsql unpublish {options.database} {name} takes it back")
    elif options.command == "releases":
        then = "dpsql report {0} --release NUMBER; dpsql publish {0} NUMBER NAME"
        output.say_list(ask("releases", {}), then.format(options.database))
    elif options.command == "unpublish":
        ask("unpublish", {"name": name})
        print(f"{name}: published no longer")
        print(f"next: dpsql releases {options.database}")
    elif options.action == "list":
        then = "dpsql user limit {0} NAME TABLE=EPSILON; dpsql budget {0}"
        output.say_list(ask("list", {}), then.format(options.database))
    elif options.action == "share":
        ask("share_releases", {"shared": options.releases == "on"})
        print(f"users share releases: {options.releases}")
        print(f"next: dpsql user list {options.database}")
    elif options.action == "revoke":
        ask("revoke", {"name": name})
        print(f"{name}: revoked; what they caused stays theirs")
        print(f"next: dpsql user list {options.database}")
    elif options.action == "limit":
        for table, epsilon in _limits(options.limit).items():
            given = {"name": name, "table": table, "epsilon": epsilon, "per": options.per, "delta": options.delta}
            ask("limit", given)
            allowed = (
                "no such limit any more" if epsilon is None else f"epsilon {up(epsilon)}, {options.per or 'forever'}"
            )
            print(f"{name}: {table}: {allowed}")
        print(f"next: dpsql user list {options.database}")
    else:
        _print_token(ask, options)


def _print_token(ask: Callable[[str, dict[str, Any]], Any], options: argparse.Namespace) -> None:
    """Make a token and print it, alone on standard output; a person at a terminal reads a sentence of it, too."""
    given: dict[str, Any] = {"name": options.name}
    if options.action == "add":
        limits = {table: epsilon for table, epsilon in _limits(options.limit).items() if epsilon is not None}
        given |= {"role": options.role, "limits": limits, "per": options.per, "delta": options.delta}
    print(ask(options.action, given))
    if sys.stderr.isatty():
        print(_TOLD.format(name=options.name, database=options.database), file=sys.stderr)


def _limits(texts: Sequence[str]) -> dict[str, float | None]:
    """The limits that are written as table=epsilon."""
    limits: dict[str, float | None] = {}
    for text in texts:
        table, equals, epsilon = text.rpartition("=")
        try:
            limits[table] = None if epsilon == "none" else float(epsilon)
        except ValueError:
            equals = ""
        if not equals or not table:
            raise InvalidArgument(f"limit is {text!r}: give table=epsilon, such as patients=0.5")
    return limits
