"""The folder of a comparison: what is compared, a line and a file for each run.

folder/settings.json      what is compared; another comparison is refused there
folder/runs.jsonl         a line a run, written when it has ended
folder/runs/*.json        a file a run: its report, its options, the errors of each answer
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dpsql.errors import DpsqlError, InvalidArgument

_PRIVATE: Final = "Private: computed from the real rows. Do not publish these figures."
_SLUG: Final = re.compile(r"[^A-Za-z0-9.=]+")
_LONGEST: Final = 60


class Folder:
    """The runs that have ended, in memory and on disk.

    Attributes:
        runs: what each has, by `key_of`.
    """

    def __init__(self, path: Path | None, described: Mapping[str, Any]) -> None:
        self.runs: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        self._path = path
        if path is None:
            return
        _prepare(path, described)
        lines = path / "runs.jsonl"
        if lines.exists():
            for run in map(json.loads, lines.read_text(encoding="utf-8").splitlines()):
                if "error" not in run:  # else it is tried again
                    self.runs[key_of(run)] = run

    def add(self, run: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> None:
        """Keep one more.

        Args:
            run: what tells it from others, and its figures or its error.
            details: what else its file has; None where it has none.
        """
        self.runs[key_of(run)] = run
        if self._path is None:
            return
        if details is not None:
            (self._path / "runs").mkdir(mode=0o700, exist_ok=True)
            whole = json.dumps({"warning": _PRIVATE, **run, **details}, indent=1, ensure_ascii=False)
            write(self._path / "runs" / _file_of(run), whole + "\n")
        lines = self._path / "runs.jsonl"
        lines.touch(0o600)
        with lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run, ensure_ascii=False) + "\n")


def key_of(run: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a run from the others."""
    return tuple(run.get(name) for name in ("mechanism", "code", "workload", "epsilon", "option", "value", "run"))


def _file_of(run: Mapping[str, Any]) -> str:
    """The name of a run's file: what a person reads of it, and a digest of the rest."""
    digest = hashlib.sha256(json.dumps(key_of(run)).encode()).hexdigest()[:10]
    varied = f"-{run['option']}={run['value']:g}" if run.get("option") else ""
    slug = _SLUG.sub("-", f"{run['mechanism']}{varied}")[:_LONGEST]
    return f"{slug}-epsilon={run['epsilon']:g}-run={run['run']}-{digest}.json"


def _prepare(folder: Path, described: Mapping[str, Any]) -> None:
    """Make the folder of a comparison, or find it as it was.

    Raises:
        InvalidArgument: it holds something else.
    """
    file = folder / "settings.json"
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        changed = sorted(name for name in described if before.get(name) != described[name])
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
    write(file, json.dumps(described, indent=2, ensure_ascii=False) + "\n")


def write(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
