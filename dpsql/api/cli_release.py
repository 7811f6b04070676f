"""The commands `dpsql synthesize` and `dpsql evaluate`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.api.cli_report import said_of
from dpsql.api.database_file import LOAD, open_database
from dpsql.errors import DpsqlError

if TYPE_CHECKING:
    from dpsql.api.forecast import Forecast
    from dpsql.api.release import Release

PLACE: Final = 30


def add_commands(commands: Any) -> None:
    """Add `synthesize` and `evaluate` to the commands of `dpsql`."""
    synthesize = commands.add_parser("synthesize", help="write a synthetic table to a CSV or Parquet file")
    synthesize.add_argument("database", help="the DuckDB file")
    synthesize.add_argument("table", help="the protected table")
    synthesize.add_argument("--epsilon", type=float, required=True, help="what the release costs")
    synthesize.add_argument("--delta", type=float, help="by default the table's")
    synthesize.add_argument("--workload", help="SQL or shorthand; by default all 3-way marginals")
    synthesize.add_argument("--mechanism", help="auto (default), projection, rap, mwem, …: see dpsql docs mechanisms")
    synthesize.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the mechanism; may be repeated"
    )
    synthesize.add_argument("--load", **LOAD)
    synthesize.add_argument("--prior", help="a public table, view or earlier release of the database to lean on")
    synthesize.add_argument("--rows", type=int, help="by default the measured total")
    synthesize.add_argument(
        "--release", default="", help="name of the release; a new name makes (and pays for) a new one"
    )
    synthesize.add_argument("--period", help="whose rows are read, such as 2026-03, where each period has a budget")
    synthesize.add_argument("--assume-rows", type=int, metavar="N", help="about how many rows, for the forecast")
    synthesize.add_argument("--anyway", action="store_true", help="charge even where no pair will be reliable")
    synthesize.add_argument("--linked", action="store_true", help="all linked tables, or units with several rows")
    synthesize.add_argument(
        "--ordered-by", metavar="COLUMN", help="with --linked: the column by which rows of one unit follow each other"
    )
    synthesize.add_argument(
        "--output",
        required=True,
        metavar="FILE",
        help="a .csv or .parquet file to write; with --linked a folder of .parquet files",
    )
    synthesize.add_argument("--csv", action="store_true", help="with --linked: write .csv files in place of .parquet")
    synthesize.set_defaults(run=_synthesize)

    evaluate = commands.add_parser("evaluate", help="how good a synthetic table is: private, for the owner only")
    evaluate.add_argument("database", help="the DuckDB file")
    evaluate.add_argument("--table", required=True, help="the protected table")
    evaluate.add_argument("--release", required=True, help="number, key or name of a release of it, or another table")
    evaluate.add_argument("--target", metavar="COLUMN", help="that models predict; needs dpsql[evaluate]")
    evaluate.add_argument("--workload", help="SQL or shorthand, of which each answer is compared")
    evaluate.add_argument("--groups", metavar="COLUMNS", help="a,b: how alike the rows are within each group of these")
    evaluate.add_argument("--output", choices=["table", "json"], default="table", help="default: table")
    evaluate.set_defaults(run=_evaluate)


def _synthesize(options: argparse.Namespace) -> None:
    from dpsql.api.output import folded
    from dpsql.release.quality import warnings_of

    names = ("delta", "workload", "mechanism", "prior", "rows", "release", "period", "ordered_by")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for option in options.option:
        name, equals, value = option.partition("=")
        if not equals or name in ("table", "epsilon"):
            raise DpsqlError(f"--option is {option!r}: give name=value, such as rounds=5")
        given[name] = value
    if options.csv and not options.linked:
        raise DpsqlError("--csv is of the folder of --linked: give --output a name that ends in .csv")
    if options.linked:
        given["linked"] = True
    elif Path(options.output).suffix not in (".csv", ".parquet"):
        raise DpsqlError(f"--output is {options.output!r}: give a .csv or .parquet file")
    with open_database(options.database, load=options.load) as db:
        _predict(db.forecast(options.table, options.epsilon, assume_rows=options.assume_rows, **given), options)
        release = db.synthesize(options.table, options.epsilon, **given)
        written = _written(release, Path(options.output), "csv" if options.csv else "parquet")
        made = [f"{rows:,} rows of release {release.entry.number} in {path}" for rows, path in written]
        for words in made[:-1]:
            print(folded(words))
        print(folded(f"{made[-1]}: {release.entry.guarantee}"))
        for line in said_of(release):
            print(folded(line))
        for words in warnings_of(release.entry):
            print(folded(f"warning: {words}"))
        print(f"next: dpsql report {options.database} --release {release.entry.number} --output report.html")


def _predict(forecast: Forecast, options: argparse.Namespace) -> None:
    """Say what the plan predicts, before anything is charged.

    Raises:
        DpsqlError: no pair of columns will be reliable; says what would help.
    """
    from dpsql.api.output import folded

    if forecast.is_paid:
        return
    if forecast.is_hopeless and not options.anyway:
        assumed = " (--assume-rows N says how many there are)" if forecast.is_assumed else ""
        helps = " ".join(forecast.advice) or "Ask for more epsilon, fewer columns or coarser bins."
        raise DpsqlError(
            f"at epsilon {options.epsilon:g} none of {forecast.pairs:,} pairs of columns will be reliable, by the plan "
            f"for about {forecast.scenario.rows:,.0f} rows{assumed}. Nothing was charged. {helps} --anyway makes the "
            "table all the same"
        )
    if str(forecast):
        print(folded(str(forecast).replace("assume_rows", "--assume-rows")), flush=True)


def _written(release: Release, output: Path, suffix: str) -> Iterator[tuple[int | None, Path]]:
    """Write the rows of each table of a release; tells how many there are, and where."""
    if not release.tables:
        release.write(output)
        yield release.entry.rows, output
        return
    output.mkdir(parents=True, exist_ok=True)
    for released in release.entry.tables:
        path = output / f"{released.table.replace('/', '_')}.{suffix}"
        release[released.table].write(path)
        yield released.rows, path


def _evaluate(options: argparse.Namespace) -> None:
    with open_database(options.database) as db:
        groups = options.groups.split(",") if options.groups else ()
        given = {"workload": options.workload, "groups": groups}
        evaluation = db.evaluate(options.table, options.release, options.target, **given)
        print(evaluation.to_json() if options.output == "json" else evaluation)
