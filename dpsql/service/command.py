"""`dpsql serve` and `dpsql audit`: the command line of the service."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpsql.api.output import terminal_width
from dpsql.errors import DpsqlError, InvalidArgument

from . import audit_log, audit_table
from .configuration import read_configuration
from .options import address_of

_NEEDED = ("cryptography", "pyarrow")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpsql serve", description="Serve a database to analysts, over PostgreSQL's protocol and TLS."
    )
    parser.add_argument("database", nargs="?", help="the DuckDB file")
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file with these and more options; see dpsql docs serve"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="the same as --host and --port")
    parser.add_argument("--host", help="to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="to listen on (default: 5439); 0: any that is free")
    parser.add_argument("--quack", type=int, metavar="PORT", help="serve DuckDB's own protocol, too, on 127.0.0.1")
    parser.add_argument("--certificate", metavar="FILE", help="of TLS (default: one is made beside the database)")
    parser.add_argument("--key", metavar="FILE", help="of the certificate")
    parser.add_argument(
        "--startup", metavar="FILE", help="SQL that is run first, such as LOAD httpfs and CREATE SECRET"
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", help="where to tell metrics and health, over HTTP")
    parser.add_argument(
        "--only", choices=["keeper", "front"], help="start one of the processes alone: see examples/service"
    )
    return parser


def serve(arguments: list[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit status."""
    return _status(lambda: _serve(_parser().parse_args(arguments)))


def audit(arguments: list[str]) -> int:
    """Show or verify an audit log; returns the exit status, 1 where it is not whole."""
    return _status(lambda: _audit(_audit_parser().parse_args(arguments)))


def _status(work: Callable[[], None]) -> int:
    try:
        work()
    except BrokenPipeError:  # who reads has seen enough
        sys.stderr.close()
    except (DpsqlError, OSError) as error:
        sys.stderr.write(f"dpsql: {error}\n")
        return 1
    return 0


def _audit_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dpsql audit", description="Who asked what of a service, and what it did.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    show = actions.add_parser("show", help="who asked what and when, at which epsilon, and what was decided")
    verify = actions.add_parser("verify", help="whether each line is as it was written and follows the one before")
    for action in (show, verify):
        action.add_argument("database", help="the DuckDB file, or the folder of the log")
    show.add_argument("--user", help="only theirs")
    show.add_argument("--process", help="keeper (calls), front or quack (logins and statements); by default all")
    show.add_argument("--charges", action="store_true", help="only calls that charge, answered or refused")
    show.add_argument("--json", action="store_true", help="every event as it is in the log, one JSON object a line")
    return parser


def _audit(options: argparse.Namespace) -> None:
    if options.action == "show":
        events = audit_log.events(options.database, user=options.user, process=options.process)
        if options.json:
            for event in events:
                sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(f"{audit_table.table(events, charges=options.charges, width=terminal_width())}\n")
            sys.stdout.write(f"next: dpsql audit verify {options.database}\n")
        return
    lines, wrong = audit_log.verify(options.database)
    if wrong:
        raise DpsqlError("\n".join([f"the audit log of {options.database} is not whole", *wrong]))
    sys.stdout.write(
        f"{options.database}: {lines} lines of the audit log, each as it was written after the one before\n"
    )
    for process, (number, digest) in audit_log.heads(options.database).items():
        sys.stdout.write(f"the newest of the {process}: line {number}, hash {digest}\n")
    sys.stdout.write(f"next: dpsql audit show {options.database}\n")


def _warn_of_readers(database: Path) -> None:
    """Say it where other users of the machine may read the private file."""
    if database.exists() and database.stat().st_mode & 0o077 and os.name == "posix":
        sys.stderr.write(f"dpsql: other users of this machine may read {database}: chmod 600 {database} closes it\n")


def _serve(options: argparse.Namespace) -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise DpsqlError(f"the service needs {', '.join(missing)}: pip install 'dpsql[service]'")
    from .supervisor import serve as started

    given: dict[str, Any] = read_configuration(options.config) if options.config else {}
    given |= {
        name: getattr(options, name)
        for name in ("database", "host", "port", "certificate", "key", "startup", "metrics", "quack")
        if getattr(options, name) is not None
    }
    if ("certificate" in given) != ("key" in given):
        raise InvalidArgument("--certificate and --key go together: give both, or none")
    if options.listen:
        host, port = address_of(options.listen)
        given |= {"host": host, "port": port}
    database = given.pop("database", None)
    if database is None:
        raise InvalidArgument(
            "no database: give its file, dpsql serve bank.duckdb, or database = … in the configuration"
        )
    _warn_of_readers(Path(database))
    with started(database, only=options.only, **given) as service:
        if options.only == "keeper":
            sys.stdout.write(f"keeping {database} for a front at {given['socket']}\n")
        else:
            sys.stdout.write(f"serving {database} on port {service.port}; certificate {service.certificate}\n")
        sys.stdout.flush()
        service.wait()
