"""A bank that is attacked: children that ask and are killed, and a parent that compares what was told with the books.

Each answer that a child gets it writes, with fsync, to a file outside the database before it asks on: what is there was
told. Afterwards it must hold, whatever happened, that the books are refused, or

    nothing told is lost      the same request gives the same answer again, free
    nothing is told twice     no request ever had two answers
    nothing is overspent      each request told is charged once, and the charges are within the budget
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

import dpsql
from dpsql.errors import BooksError

EPSILON = 0.05
QUERY = (
    "SELECT a, n FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := {epsilon}, release := '{name}')"
)
TABLE = (
    "SELECT count(*), sum(b::INT) FROM dp_synthesize('t', epsilon := {epsilon}, release := '{name}', "
    "mechanism := 'direct', relaxed_rows := 4, steps := 3)"
)


@dataclass(frozen=True)
class Bank:
    """A database file and what was told of it.

    Attributes:
        folder: of both.
    """

    folder: Path

    @property
    def path(self) -> Path:
        """The database."""
        return self.folder / "bank.duckdb"

    @property
    def told_file(self) -> Path:
        """One line of JSON for each answer."""
        return self.folder / "told"

    def open_(self) -> dpsql.Database:
        """The database, with dpsql in it."""
        return dpsql.connect(self.path, config={"threads": "1"})

    def prepare(self) -> Bank:
        """Make the table, and protect it."""
        with self.open_() as db:
            db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(1000) r(i)")
            db.protect("t", epsilon=3.0, delta=1e-6)
        self.told_file.touch()
        return self

    def ask(self, db: dpsql.Database, name: str, template: str = QUERY) -> None:
        """Ask, and write down what was told."""
        answer = db.sql(template.format(epsilon=EPSILON, name=name)).fetchall()
        with self.told_file.open("a") as file:
            file.write(json.dumps([name, template, answer]) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def told(self) -> dict[tuple[str, str], list[list[object]]]:
        """The answers of each request, those that differ."""
        found: dict[tuple[str, str], list[list[object]]] = {}
        for line in self.told_file.read_text().splitlines():
            name, template, answer = json.loads(line)
            answers = found.setdefault((name, template), [])
            if answer not in answers:
                answers.append(answer)
        return found

    def verdict(self) -> str:
        """`whole`, `refused`, or what is wrong."""
        told = self.told()
        if any(len(answers) > 1 for answers in told.values()):
            return "told twice"
        try:
            db = self.open_()
        except (BooksError, duckdb.Error):
            return "refused"
        with db:
            if not told:
                return "nothing told"
            releases = db.sql("SELECT count(*) FROM dp_releases()").fetchall()[0][0]
            if releases < len(told):
                return "overspent"
            spent, budget = db.sql(
                "SELECT (SELECT sum((content->>'$.gdp')::HUGEINT) FROM dpsql.event), gdp_budget FROM dpsql.account"
            ).fetchall()[0]
            if spent > budget:
                return "overspent"
            for (name, template), (answer,) in told.items():
                again = db.sql(template.format(epsilon=EPSILON, name=name)).fetchall()
                if json.loads(json.dumps(again)) != answer:
                    return "lost"
            if db.sql("SELECT count(*) FROM dp_releases()").fetchall()[0][0] != releases:
                return "lost"
        return "whole"


_LONGEST: Final = 600  # seconds of a child


def child(work: Callable[[], None]) -> int:
    """Run in a process of its own, forked: nothing of DuckDB or JAX is open in this one. Returns its number.

    One that hangs is killed after ten minutes.
    """
    number = os.fork()
    if number:
        return number
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LONGEST)
    try:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        work()
    except BaseException:
        if os.environ.get("CAMPAIGN_DEBUG"):
            traceback.print_exc(file=sys.__stderr__)
        os._exit(1)
    os._exit(0)


def wait(number: int) -> int:
    """How a child ended: its status, or minus its signal."""
    _, status = os.waitpid(number, 0)
    return os.waitstatus_to_exitcode(status)


def running(number: int) -> bool:
    """Whether a child has not ended; `wait` can be asked about it afterwards."""
    return os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def kill(number: int) -> None:
    """Kill −9."""
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)
