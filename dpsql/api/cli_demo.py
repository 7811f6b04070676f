"""The command `dpsql demo`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from dpsql.api.cli_init import add_nullstr

PLACE: Final = 10


def add_commands(commands: Any) -> None:
    """Add `demo` to the commands of `dpsql`."""
    demo = commands.add_parser("demo", help="protect, plan, synthesize and compare a census, in half a minute")
    demo.add_argument("--database", help="the DuckDB file to make (default: a new one in a temporary folder)")
    demo.add_argument("--input", metavar="FILE", help="a CSV or Parquet file of your own instead")
    demo.add_argument("--epsilon", type=float, default=1.0, help="of the release (default: 1)")
    add_nullstr(demo)
    demo.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from dpsql.api.demo import run

    path = options.database or str(Path(tempfile.mkdtemp(prefix="dpsql-")) / "demo.duckdb")
    run(path, options.input, options.epsilon, print, options.nullstr)
