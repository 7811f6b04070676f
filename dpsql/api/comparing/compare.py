"""The runs of a comparison, one after the other; those that a folder has already are not made again.

folder/comparison.csv     the runs as a table, at the end; `dpsql.api.comparing.folder` has the rest
folder/comparison.svg     the picture, at the end; .png is the same
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.api.comparing.comparison import Comparison
from dpsql.api.comparing.copied import Copied, copy, count_prior
from dpsql.api.comparing.folder import Folder, key_of, write
from dpsql.api.comparing.settings import Settings, arguments_of
from dpsql.api.comparing.varied import PRIOR_ROWS
from dpsql.books.ledger.store import Books
from dpsql.errors import InvalidArgument
from dpsql.language.workloads import parse_workload
from dpsql.mechanisms.own import check_unchanged, load_file, loaded_from
from dpsql.owner.protect import account_of, domain_of
from dpsql.runtime.progress import Progress

if TYPE_CHECKING:
    from dpsql.engines.duckdb.cursors import Cursor
    from dpsql.engines.source import Source

_POLL: Final = 0.1
_DOTS: Final = 300
"""Of the picture, an inch."""


def compare(
    cursor: Cursor, source: Source, settings: Settings, folder: Path | None, progress: Progress, search_path: str = ""
) -> Comparison:
    """Make all runs, and measure each.

    Args:
        cursor: of the owner.
        source: the protected table.
        settings: what is compared.
        folder: where what is found is kept, made if need be; None for nowhere.
        progress: told of every run; may interrupt.
        search_path: where the public table is looked up.

    Raises:
        DpsqlError: a child says what is wrong.
        Interrupted: by `progress`; the folder has the runs that had ended.
    """
    for path in settings.load:
        load_file(path)
    settings.check()
    marginals = _marginals(cursor, source, settings)
    _check_prior_rows(cursor, settings, search_path)
    runs = list(_runs(settings))
    progress.stage("compare", len(runs))
    with tempfile.TemporaryDirectory(prefix="dpsql-") as scratch:
        copied = copy(cursor, source, Path(scratch), settings.prior, search_path)
        if settings.delta is not None:
            copied = dataclasses.replace(copied, delta=settings.delta)
        place = Folder(folder, _described(source, settings, copied))
        for run in runs:
            if run.key not in place.runs:
                made = _made(_job(copied, settings, run), settings.seconds, progress)
                check_unchanged(settings.load)  # else the run may be of another code than its line says
                details = made.pop("details", None)
                place.add({**run.named, "marginals": marginals[run.workload], **made}, details)
            progress.advance(note=f"{run.mechanism}, epsilon {run.epsilon:g}")
    runs_made = tuple(place.runs[run.key] for run in runs)
    comparison = Comparison(source.key, runs_made, dict(settings.labels), settings.best_of)
    if folder is not None:
        write(folder / "comparison.csv", comparison.df.assign(warning=comparison.warning).to_csv(index=False))
        drawn = comparison.plot()
        for name in ("comparison.svg", "comparison.png"):
            (folder / name).touch(0o600)
            drawn.savefig(folder / name, dpi=_DOTS, metadata={"Description": comparison.warning})
    return comparison


@dataclass(frozen=True)
class _Run:
    mechanism: str
    epsilon: float
    workload: str | None
    number: int
    option: str = ""
    value: float | None = None
    code: str | None = None

    @property
    def named(self) -> dict[str, Any]:
        named: dict[str, Any] = {"mechanism": self.mechanism}
        code = {} if self.code is None else {"code": self.code}
        varied = {"option": self.option, "value": self.value} if self.option else {}
        return {**named, **code, "workload": self.workload or "", "epsilon": self.epsilon, **varied, "run": self.number}

    @property
    def key(self) -> tuple[Any, ...]:
        return key_of(self.named)


def _runs(settings: Settings) -> Iterator[_Run]:
    """All runs; the first of every mechanism before the second of any, so that something can be seen early."""
    codes = {spec: _code(str(arguments_of(spec)["mechanism"])) for spec in settings.listed}
    for number in range(1, settings.runs + 1):
        made = itertools.product(settings.varied.values, settings.workloads, settings.epsilons, settings.listed)
        for value, workload, epsilon, mechanism in made:
            yield _Run(mechanism, epsilon, workload, number, settings.varied.name, value, codes[mechanism])


def _code(mechanism: str) -> str | None:
    """Of a mechanism from outside, what tells its versions apart; None for those of dpsql."""
    source = None if mechanism == "auto" else loaded_from(mechanism)
    return None if source is None else source.code


def _marginals(cursor: Cursor, source: Source, settings: Settings) -> dict[str | None, int]:
    """How many marginals and thresholds each workload asks for; a wrong one is refused here, before any run."""
    books = Books(cursor, source.catalog)
    account_of(books, source)
    domain = domain_of(books, source, settings.columns)
    for name in (*settings.groups, *filter(None, [settings.target])):
        domain.find(name)
    return {text: len(parse_workload(text, source.parts, domain)) for text in settings.workloads}


def _check_prior_rows(cursor: Cursor, settings: Settings, search_path: str) -> None:
    """Refuse more public rows than there are: their place in the picture would be wrong."""
    if settings.prior is not None and settings.varied.name == PRIOR_ROWS:
        most = max(filter(None, settings.varied.values))
        there = count_prior(cursor, settings.prior, search_path)
        if most > there:
            raise InvalidArgument(
                f"vary has {PRIOR_ROWS} {most:g}, but {settings.prior!r} has {there:,} rows: give at most that"
            )


def _job(copied: Copied, settings: Settings, run: _Run) -> str:
    arguments: dict[str, Any] = arguments_of(run.mechanism)
    if run.value is not None and run.option == PRIOR_ROWS:
        copied = dataclasses.replace(copied, prior_rows=int(run.value))
    elif run.value is not None:
        arguments[run.option] = f"{run.value:.17g}"
    if "rows" in arguments:
        arguments["rows"] = int(arguments["rows"])
    arguments |= {"workload": run.workload, "columns": None if settings.columns is None else list(settings.columns)}
    measured = {"target": settings.target, "groups": list(settings.groups), "workload": run.workload or "all 2-way"}
    load = [str(Path(path).resolve()) for path in settings.load]
    described = {"copied": dataclasses.asdict(copied), "epsilon": run.epsilon, "asked": arguments, "measured": measured}
    return json.dumps({**described, "load": load})


def _made(job: str, seconds: float, progress: Progress) -> dict[str, Any]:
    """Make one run in a process of its own; what it tells, or why there is nothing."""
    command = [sys.executable, "-m", "dpsql.api.comparing.one"]
    quiet = {**os.environ, "DPSQL_PROGRESS": "0"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given, tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        given.write(job)
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=subprocess.DEVNULL, env=quiet)
        try:
            until = time.monotonic() + seconds
            while process.poll() is None:
                if time.monotonic() > until:
                    return {"error": f"not done in {seconds:g} s"}
                progress.check()
                time.sleep(_POLL)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        lines = out.read().splitlines()
    if process.returncode == 0 and lines:
        return dict(json.loads(lines[-1]))
    return {"error": f"its process ended with status {process.returncode}: perhaps the memory was not enough"}


def _described(source: Source, settings: Settings, copied: Copied) -> dict[str, Any]:
    """What must be the same for runs to stand beside each other."""
    rows, *prior_rows = copied.digests
    private = f"Private: figures computed from the real rows of {source.key!r}. Do not publish them."
    described = {
        "warning": private,
        "table": source.key,
        "rows": rows,
        "domain": copied.attributes,
        "constraints": copied.constraints,
        "delta": copied.delta,
        "neighbours": [copied.neighbours, copied.unit, copied.unit_rows],
        **{name: getattr(settings, name) for name in ("columns", "prior", "target", "groups")},
        "prior_rows": prior_rows,
        "vary": settings.varied.name or None,
        "version": {name: version(name) for name in ("dpsql", "duckdb", "jax")},
    }
    return dict(json.loads(json.dumps(described)))  # as it is read back
