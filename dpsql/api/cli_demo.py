"""The command `dpsql demo`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from dpsql.api.cli_init import add_nullstr
from dpsql.errors import InvalidArgument

PLACE: Final = 10


def add_commands(commands: Any) -> None:
    """Add `demo` to the commands of `dpsql`."""
    demo = commands.add_parser("demo", help="protect, plan, synthesize and compare a census, in less than a minute")
    demo.add_argument("--database", help="the DuckDB file to make (default: a new one in a temporary folder)")
    demo.add_argument("--input", metavar="FILE", help="a CSV or Parquet file of your own instead")
    demo.add_argument("--epsilon", type=float, default=1.0, help="of the release (default: 1)")
    demo.add_argument("--linked", action="store_true", help="simulated clients, accounts and payments, linked")
    add_nullstr(demo)
    demo.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from dpsql.api import demo_linked
    from dpsql.api.demo import run

    if options.linked and (options.input or options.nullstr):
        raise InvalidArgument("--linked simulates its tables: leave out --input and --nullstr")
    path = options.database or str(Path(tempfile.mkdtemp(prefix="dpsql-")) / "demo.duckdb")
    if options.linked:
        demo_linked.run(path, options.epsilon, print)
        return
    run(path, options.input, options.epsilon, print, options.nullstr)
