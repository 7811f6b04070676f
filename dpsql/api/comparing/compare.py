"""The runs of a comparison, one after the other; those that a folder has already are not made again.

folder/settings.json      what is compared; another comparison is refused there
folder/runs.jsonl         a line a run, written when it has ended
folder/comparison.csv     the same as a table, at the end
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from dpsql.api.comparing.comparison import Comparison
from dpsql.api.comparing.copied import Copied, copy, count_prior
from dpsql.api.comparing.varied import PRIOR_ROWS, Varied, varied_of
from dpsql.books.ledger.store import Books
from dpsql.core.names import shorten
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.language.workloads import parse_workload
from dpsql.mechanisms.base import registered
from dpsql.owner.protect import account_of, domain_of
from dpsql.runtime.progress import Progress

if TYPE_CHECKING:
    from dpsql.engines.duckdb.cursors import Cursor
    from dpsql.engines.source import Source

ALL: Final = "all"
_POLL: Final = 0.1
_DOTS: Final = 120
"""Of the picture, an inch."""


class Compared(TypedDict, total=False):
    """The fields of `Settings` but for the mechanisms, as keywords."""

    epsilons: Sequence[float]
    runs: int
    workloads: Sequence[str | None]
    columns: Sequence[str] | None
    prior: str | None
    target: str | None
    groups: Sequence[str]
    vary: str | None
    seconds: float


@dataclass(frozen=True)
class Settings:
    """What is compared.

    Attributes:
        mechanisms: each a name, or `name:option=value,option=value`; `all` stands for every name.
        epsilons: of the releases.
        runs: of each, with fresh noise.
        workloads: SQL or shorthands, of which each is asked for by itself and compared; None for the default.
        columns: only these; None for all.
        prior: a public table to lean on; None for none.
        target: a column that models predict.
        groups: columns, within whose values the rows are compared.
        vary: an option and its values, such as `rounds=5,10,25`, which every mechanism gets in turn; None for none.
        seconds: after which a run is ended.
    """

    mechanisms: Sequence[str]
    epsilons: Sequence[float] = (0.1, 1.0, 10.0)
    runs: int = 3
    workloads: Sequence[str | None] = (None,)
    columns: Sequence[str] | None = None
    prior: str | None = None
    target: str | None = None
    groups: Sequence[str] = ()
    vary: str | None = None
    seconds: float = 600.0

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            InvalidArgument: names it.
        """
        for name in ("mechanisms", "epsilons", "workloads"):
            if not getattr(self, name):
                raise InvalidArgument(f"{name} is empty: name at least one")
        for epsilon in self.epsilons:
            if not 0 < epsilon < float("inf"):
                raise InvalidArgument(f"epsilons has {epsilon:g}: give positive numbers")
        if self.runs < 1:
            raise InvalidArgument(f"runs is {self.runs}: give 1 or more")
        if not self.seconds > 0:
            raise InvalidArgument(f"seconds is {self.seconds:g}: give a positive number, after which a run is ended")
        name = self.varied.name
        for spec in self.listed:
            if name in arguments_of(spec):
                raise InvalidArgument(f"vary has {name}, which {shorten(spec)!r} has, too: say it once")
        if name == PRIOR_ROWS and self.prior is None:
            raise InvalidArgument(f"vary has {PRIOR_ROWS}, but there is no prior: name the public table")

    @property
    def listed(self) -> list[str]:
        """The mechanisms, `all` written out."""
        found = [tuple(sorted(registered())) if spec == ALL else (spec,) for spec in self.mechanisms]
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    @property
    def varied(self) -> Varied:
        """The option that is varied, and its values."""
        return varied_of(self.vary)


def arguments_of(spec: str) -> dict[str, Any]:
    """The arguments of `Database.synthesize` that `name:option=value,option=value` states.

    Raises:
        InvalidArgument: an option has no value, or is none of a mechanism.

    >>> arguments_of("mwem:rounds=5,noise=gaussian")
    {'rounds': '5', 'noise': 'gaussian', 'mechanism': 'mwem'}
    """
    name, _, rest = spec.partition(":")
    if name != "auto" and name not in registered():
        raise InvalidArgument(f"mechanisms has {shorten(name)!r}: give {', '.join(['auto', *sorted(registered())])}")
    found = {}
    for part in filter(None, rest.split(",")):
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise InvalidArgument(f"mechanisms has {shorten(spec)!r}: write options as {name}:rounds=5,noise=gaussian")
        found[option.strip()] = value.strip()
    return {**found, "mechanism": name}


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
    settings.check()
    marginals = _marginals(cursor, source, settings)
    _check_prior_rows(cursor, settings, search_path)
    runs = list(_runs(settings))
    progress.stage("compare", len(runs))
    with tempfile.TemporaryDirectory(prefix="dpsql-") as scratch:
        copied = copy(cursor, source, Path(scratch), settings.prior, search_path)
        kept = _Kept(folder, _described(source, settings, copied))
        for run in runs:
            if run.key not in kept.found:
                job = _job(copied, settings, run)
                told = _made(job, settings.seconds, progress)
                kept.add({**run.named, "marginals": marginals[run.workload], **told})
            progress.advance(note=f"{run.mechanism}, epsilon {run.epsilon:g}")
    comparison = Comparison(source.key, tuple(kept.found[run.key] for run in runs))
    if folder is not None:
        _write(folder / "comparison.csv", comparison.df.to_csv(index=False))
        drawn = comparison.plot()
        for name in ("comparison.svg", "comparison.png"):
            (folder / name).touch(0o600)
            drawn.savefig(folder / name, dpi=_DOTS)
    return comparison


@dataclass(frozen=True)
class _Run:
    mechanism: str
    epsilon: float
    workload: str | None
    number: int
    option: str = ""
    value: float | None = None

    @property
    def named(self) -> dict[str, Any]:
        named = {"mechanism": self.mechanism, "workload": self.workload or "", "epsilon": self.epsilon}
        varied = {"option": self.option, "value": self.value} if self.option else {}
        return {**named, **varied, "run": self.number}

    @property
    def key(self) -> tuple[Any, ...]:
        return _key(self.named)


def _key(told: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a run from the others."""
    return tuple(told.get(name) for name in ("mechanism", "workload", "epsilon", "option", "value", "run"))


def _runs(settings: Settings) -> Iterator[_Run]:
    """All runs; the first of every mechanism before the second of any, so that something can be seen early."""
    for number in range(1, settings.runs + 1):
        made = itertools.product(settings.varied.values, settings.workloads, settings.epsilons, settings.listed)
        for value, workload, epsilon, mechanism in made:
            yield _Run(mechanism, epsilon, workload, number, settings.varied.name, value)


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
    asked: dict[str, Any] = arguments_of(run.mechanism)
    if run.value is not None and run.option == PRIOR_ROWS:
        copied = dataclasses.replace(copied, prior_rows=int(run.value))
    elif run.value is not None:
        asked[run.option] = f"{run.value:.17g}"
    if "rows" in asked:
        asked["rows"] = int(asked["rows"])
    asked |= {"workload": run.workload, "columns": None if settings.columns is None else list(settings.columns)}
    measured = {"target": settings.target, "groups": list(settings.groups), "workload": run.workload or "all 2-way"}
    described = {"copied": dataclasses.asdict(copied), "epsilon": run.epsilon, "asked": asked, "measured": measured}
    return json.dumps(described)


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


class _Kept:
    """The runs that have ended, in memory and in the folder.

    Attributes:
        found: what each told, by mechanism, workload, ε, the varied option and number.
    """

    def __init__(self, folder: Path | None, described: Mapping[str, Any]) -> None:
        self.found: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._file = None if folder is None else folder / "runs.jsonl"
        if folder is None or self._file is None:
            return
        _prepare(folder, described)
        if self._file.exists():
            for told in map(json.loads, self._file.read_text(encoding="utf-8").splitlines()):
                if "error" not in told:  # else it is tried again
                    self._keep(told)

    def add(self, told: dict[str, Any]) -> None:
        """Keep one more."""
        self._keep(told)
        if self._file is not None:
            self._file.touch(0o600)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(told, ensure_ascii=False) + "\n")

    def _keep(self, told: dict[str, Any]) -> None:
        self.found[_key(told)] = told


def _prepare(folder: Path, described: Mapping[str, Any]) -> None:
    """Make the folder of a comparison, or find it as it was.

    Raises:
        InvalidArgument: it holds something else.
    """
    file = folder / "settings.json"
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        changed = sorted(name for name in described if known.get(name) != described[name])
        if changed:
            raise InvalidArgument(
                f"{folder} holds a comparison with another {changed[0]!r}: give another folder, or the same arguments"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise InvalidArgument(f"{folder} holds other files: give a folder that is empty or that is not there yet")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DpsqlError(f"{folder} cannot be made: {error.strerror}") from None
    _write(file, json.dumps(described, indent=2, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
