"""The command `dpsql init`: write a script that protects a table and declares its columns."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from dpsql.errors import InvalidArgument

PLACE: Final = 15


def add_commands(commands: Any) -> None:
    """Add `init` to the commands of `dpsql`."""
    init = commands.add_parser("init", help="write a script that protects a table and declares its columns")
    init.add_argument("input", help="a CSV or Parquet file, or a table of a DuckDB file, such as bank.duckdb:patients")
    init.add_argument("--owner-looks", action="store_true", help="read the rows to propose: the owner's disclosure")
    init.add_argument("--codebook", metavar="FILE", help="a CSV or JSON file that declares columns")
    init.add_argument("--unit", metavar="COLUMN", help="whose row it is, where one person has several")
    init.add_argument("--max-rows", type=int, help="how many rows of one unit count; with --unit")
    init.add_argument("--epsilon", type=float, default=3.0, help="of the table's budget (default: 3)")
    init.add_argument("--delta", type=float, default=1e-9, help="of the table's budget (default: 1e-9)")
    init.add_argument(
        "--discover", type=float, metavar="EPSILON", help="discover columns that nobody knows, at this price each"
    )
    add_nullstr(init)
    init.add_argument("--rows", type=int, help="about how many rows there will be, for the number of cells")
    init.add_argument("--columns", metavar="A,B,…", default="", help="keep only these columns")
    init.add_argument("--output", metavar="FILE", help="the script (default: TABLE.sql); - for standard output")
    init.set_defaults(run=run)


def add_nullstr(parser: argparse.ArgumentParser) -> None:
    """Add the texts of a CSV file that mean NULL."""
    parser.add_argument(
        "--nullstr",
        action="append",
        default=[],
        metavar="TEXT",
        help="a text of a CSV file that means NULL, such as NA",
    )


def run(options: argparse.Namespace) -> None:
    """Write the script."""
    from dpsql.api.output import folded
    from dpsql.api.proposing.propose import propose

    if options.max_rows is not None and options.unit is None:
        raise InvalidArgument(f"max_rows is {options.max_rows}, of which unit? Say --unit COLUMN too")
    if options.rows is not None and options.rows < 1:
        raise InvalidArgument(f"rows is {options.rows}: give about how many rows there will be, such as 10000")
    if options.output not in (None, "-"):
        _check_free(options.output)
    script = propose(
        options.input,
        epsilon=options.epsilon,
        delta=options.delta,
        unit=options.unit,
        max_rows=options.max_rows,
        codebook=options.codebook,
        owner_looks=options.owner_looks,
        discover=options.discover,
        nullstr=options.nullstr,
        rows=options.rows,
        columns=[name.strip() for name in options.columns.split(",") if name.strip()],
    )
    if options.output == "-":
        sys.stdout.write(script.text)
        return
    path = options.output or f"{script.table.strip(chr(34))}.sql"
    _check_free(path)
    Path(path).write_text(script.text, encoding="utf-8")
    print(folded(f"{path}: {script.summary}. Read it, then: dpsql sql bank.duckdb {path}"))
    if script.forecast is not None:
        print(folded(f"{script.forecast}. Then: {script.next_command}"))
    if script.advice:
        print(folded(script.advice))


def _check_free(path: str) -> None:
    """A script that was edited is not overwritten."""
    if Path(path).exists():
        raise InvalidArgument(f"{path} exists already: remove it, or give another --output")
