"""The commands `dpsql serve` and `dpsql audit`, as far as help names them: `dpsql.service.command` runs them."""

from __future__ import annotations

import argparse
from typing import Any, Final

from dpsql.errors import DpsqlError

PLACE: Final = 70


def add_commands(commands: Any) -> None:
    """Add their names to the commands of `dpsql`."""
    described = {
        "serve": "serve a database to analysts over the network: dpsql serve --help",
        "audit": "what a service's audit log says, and whether it is whole: dpsql audit --help",
    }
    for name, what in described.items():
        commands.add_parser(name, help=what).set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    raise DpsqlError(f"{options.command} is a command only: run dpsql {options.command} bank.duckdb")
