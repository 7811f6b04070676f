"""The command `dpsql report`: a page on a release, or its card, as a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.api.database_file import open_database
from dpsql.api.output import folded
from dpsql.errors import InvalidArgument

if TYPE_CHECKING:
    from dpsql.api.database import Database
    from dpsql.api.release import Release

PLACE: Final = 45
_STATED: Final = ("name", "curator", "curator_type", "description", "intended_use", "region", "sector", "justification")


def add_commands(commands: Any) -> None:
    """Add `report` to the commands of `dpsql`."""
    report = commands.add_parser("report", help="how good a release is: a page to look at, or a card for a registry")
    report.add_argument("database", help="the DuckDB file")
    report.add_argument(
        "--release", help="its number, name or key (default: the newest synthetic table): see dpsql releases"
    )
    report.add_argument("--output", metavar="FILE", help="the .html file to write")
    report.add_argument("--card", metavar="FILE", help="the .json, .yaml or .md file to write the release card to")
    report.add_argument("--private", action="store_true", help="add the truth to the page, for the owner only")
    report.add_argument("--target", metavar="COLUMN", help="of a private page, that models predict")
    stated = report.add_argument_group("what a card states, and only its publisher knows")
    for name in _STATED:
        stated.add_argument(f"--{name.replace('_', '-')}", metavar="TEXT")
    stated.add_argument("--author", action="append", metavar="NAME", help="of the record; may be repeated")
    report.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the page, the card, or both."""
    if options.output is not None and Path(options.output).suffix not in (".html", ".htm"):
        raise InvalidArgument(f"output is {options.output!r}: give an .html file")
    if options.private and options.output is None:
        raise InvalidArgument("private is of the page, and a card holds no truth: give --output r.html")
    from dpsql.report.card import check_path

    if options.card is not None:
        check_path(Path(options.card))
    with open_database(options.database) as db:
        release = db.release(options.release or _newest(db))
        if options.output is not None:
            report = release.report(private=options.private, target=options.target)
            report.save(options.output)
        if options.card is not None:
            given = {name: getattr(options, name) for name in _STATED} | {"authors": options.author}
            release.card(**{name: value for name, value in given.items() if value}).save(options.card)
        newest = "" if options.release else ", the newest synthetic table"
        print(folded(f"release {release.entry.number} of {release.entry.source}{newest}"))
        for line in said_of(release):
            print(folded(line))
        if options.output is None and options.card is None:
            number = release.entry.number
            print(f"next: dpsql report {options.database} --release {number} --output report.html writes the page")
    private = ", PRIVATE: do not publish it" if options.private else ""
    for path, what in ((options.output, f"report{private}"), (options.card, "card")):
        if path is not None:
            print(f"{path}: the {what}, of release {release.entry.number} of {release.entry.source}")


def _newest(db: Database) -> str:
    """The number of the newest synthetic table that is published; answers of queries are none.

    Raises:
        InvalidArgument: there is none.
    """
    from dpsql.report.facts import is_synthetic

    rows = db.sql("SELECT release, rows, request FROM dp_releases() WHERE state = 'published' ORDER BY 1 DESC")
    for number, count, request in rows.fetchall():
        if is_synthetic(count, request):
            return str(number)
    raise InvalidArgument(
        "no synthetic table was released yet: dpsql synthesize FILE TABLE --epsilon 1 --output TABLE.csv makes one"
    )


def said_of(release: Release) -> list[str]:
    """The verdict on a release and the advice, a line each, for whoever made it or asks."""
    verdict = release.verdict
    return [verdict.text, *(f"Advice: {advice}" for advice in verdict.advice)]
