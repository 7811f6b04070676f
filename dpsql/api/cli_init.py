"""The command `dpsql init`: write a script that protects a table, or links several, and declares their columns."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.errors import InvalidArgument

if TYPE_CHECKING:
    from dpsql.api.proposing.script import Script

PLACE: Final = 15


def add_commands(commands: Any) -> None:
    """Add `init` to the commands of `dpsql`."""
    init = commands.add_parser("init", help="write a script that protects a table and declares its columns")
    init.add_argument(
        "input",
        help="a CSV or Parquet file, or a table of a DuckDB file, such as bank.duckdb:patients; of linked tables a "
        "folder of files, or the DuckDB file",
    )
    init.add_argument("--owner-looks", action="store_true", help="read the rows to propose: the owner's disclosure")
    init.add_argument("--codebook", metavar="FILE", help="a CSV or JSON file that declares columns")
    init.add_argument(
        "--unit",
        metavar="COLUMN",
        help="whose row it is, where one person has several; of linked tables the table whose rows are the units",
    )
    init.add_argument("--max-rows", type=int, help="how many rows of one unit count; with --unit")
    init.add_argument("--epsilon", type=float, default=3.0, help="of the table's budget (default: 3)")
    init.add_argument("--delta", type=float, default=1e-9, help="of the table's budget (default: 1e-9)")
    init.add_argument(
        "--discover", type=float, metavar="EPSILON", help="discover columns that nobody knows, at this price each"
    )
    add_nullstr(init)
    init.add_argument(
        "--rows",
        type=int,
        help="about how many rows there will be, or units with --unit, for the number of cells",
    )
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

    if options.max_rows is not None and options.unit is None:
        raise InvalidArgument(f"max_rows is {options.max_rows}, of which unit? Say --unit COLUMN too")
    if options.rows is not None and options.rows < 1:
        raise InvalidArgument(f"rows is {options.rows}: give about how many rows there will be, such as 10000")
    if options.output not in (None, "-"):
        _check_free(options.output)
    script = _proposed(options)
    if options.output == "-":
        sys.stdout.write(script.text)
        return
    path = options.output or f"{script.table.strip(chr(34))}.sql"
    _check_free(path)
    Path(path).write_text(script.text, encoding="utf-8")
    print(folded(f"{path}: {script.summary}. Read it, then: dpsql sql {script.database} {path}"))
    if script.forecast is not None:
        print(folded(f"{script.forecast}. Then: {script.next_command}"))
    if script.advice:
        print(folded(script.advice))


def _proposed(options: argparse.Namespace) -> Script:
    """The script of one table, or of several."""
    from dpsql.api.proposing.propose import propose
    from dpsql.api.proposing.tables import is_of_tables, propose_tables

    if is_of_tables(options.input):
        _check_of_tables(options)
        return propose_tables(
            options.input,
            epsilon=options.epsilon,
            delta=options.delta,
            unit=options.unit,
            owner_looks=options.owner_looks,
            nullstr=options.nullstr,
            rows=options.rows,
        )
    return propose(
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


def _check_of_tables(options: argparse.Namespace) -> None:
    """Refuse what says something of one table's columns.

    Raises:
        InvalidArgument: such an option is given.
    """
    for name in ("max_rows", "codebook", "discover", "columns"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgument(
                f"{option} is of one table, and {options.input!r} may have several: edit the script, or name one "
                "table, such as bank.duckdb:patients"
            )


def _check_free(path: str) -> None:
    """A script that was edited is not overwritten."""
    if Path(path).exists():
        raise InvalidArgument(f"{path} exists already: remove it, or give another --output")
