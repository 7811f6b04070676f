"""The command `dpsql compare`: mechanisms beside each other on a table, for its owner."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from dpsql.api.database_file import LOAD, open_database

PLACE: Final = 46
_EPILOG: Final = (
    "Each release is made of a copy of the table, in a process of its own, and deleted: nothing is charged. The "
    "figures are computed from the real rows, so they are private. The same command goes on where it was interrupted."
)


def add_commands(commands: Any) -> None:
    """Add `compare` to the commands of `dpsql`."""
    compare = commands.add_parser(
        "compare", help="mechanisms beside each other: private, for the owner only", epilog=_EPILOG
    )
    compare.add_argument("database", help="the DuckDB file")
    compare.add_argument("table", help="the protected table")
    compare.add_argument(
        "--mechanisms",
        nargs="+",
        required=True,
        metavar="NAME",
        help="all, or names such as mwem:rounds=5|10,noise=gaussian",
    )
    compare.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0], metavar="E", help="0.1 1 10")
    compare.add_argument("--runs", type=int, default=3, help="of each; default: 3")
    compare.add_argument("--workload", action="append", help="SQL or shorthand; may be repeated")
    compare.add_argument("--columns", metavar="A,B", help="only these; by default all")
    compare.add_argument("--prior", help="a public table of the database to lean on")
    compare.add_argument("--target", metavar="COLUMN", help="that models predict; needs dpsql[evaluate]")
    compare.add_argument("--groups", metavar="A,B", help="how alike the rows are within each group of these columns")
    compare.add_argument(
        "--vary", metavar="OPTION=A,B", help="an option of all mechanisms, rows, or prior_rows: rounds=5,10,25"
    )
    compare.add_argument("--seconds", type=float, default=600.0, help="after which a run is ended; default: 600")
    compare.add_argument("--delta", type=float, help="of the copy's account; by default the table's")
    compare.add_argument("--load", **LOAD)
    compare.add_argument(
        "--label",
        action="append",
        nargs=2,
        metavar=("NAME", "LABEL"),
        help="what a mechanism is called; may be repeated",
    )
    compare.add_argument(
        "--best-of",
        metavar="FIGURE",
        help="largest, l1 or rmse: of each mechanism the setting with the least, chosen on the real rows",
    )
    compare.add_argument("--output", required=True, metavar="FOLDER", help="for the runs and pictures")
    compare.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    with open_database(options.database, load=options.load) as db:
        comparison = db.compare(
            options.table,
            options.mechanisms,
            folder=options.output,
            epsilons=options.epsilons,
            runs=options.runs,
            workloads=options.workload or [None],
            columns=None if options.columns is None else options.columns.split(","),
            prior=options.prior,
            target=options.target,
            groups=options.groups.split(",") if options.groups else (),
            vary=options.vary,
            seconds=options.seconds,
            delta=options.delta,
            load=options.load or (),
            labels=dict(options.label or ()),
            best_of=options.best_of,
        )
    print(comparison)
    print(f"\n{Path(options.output)}: runs.jsonl, runs/, comparison.csv, .svg, .png, PRIVATE: do not publish them")
    print(f"next: dpsql synthesize {options.database} {options.table} --mechanism NAME --epsilon 1 --output table.csv")
