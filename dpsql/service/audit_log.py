"""The audit log: who asked what, when, from where, and what was decided; append-only, each line chained to the last.

    line_n = {"number": n, "time": …, "process": …, event…, "previous": hash_{n-1}, "hash": SHA-256(the rest of line_n)}

Keeper and front write a chain each, into files of their own in one folder, because two processes cannot append to one
chain without waiting for each other. A full file is put aside and the chain goes on in a new one. Whoever changes,
removes or inserts a line breaks the chain from there on. The chain has no key: whoever can write the files can make the
rest of it anew, or cut off its end. To notice that, note the newest hash elsewhere (`heads`), or copy the log as it
grows.

No line has a private value: events are made of what users sent and of what the ledger says.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dpsql.errors import DpsqlError, InvalidArgument

from .audit import LONG_TEXT
from .options import Options, bytes_of

SUFFIX: Final = ".dpsql-audit"
PROCESSES: Final = ("keeper", "front", "quack")
ALWAYS: Final = ("keeper", "front")
"""Processes that every service has."""
FULL: Final = 64 * 2**20
"""Bytes of a file that is put aside."""
_LONGEST: Final = 2**16
"""Bytes of an event at most: of a longer one, who and what is kept."""
_FIRST: Final = "0" * 64


_WARNING: Final = 0.8
"""Of the bytes that the log may have: from there on each process says so, once."""
_LOOK_SECONDS: Final = 5.0
"""After which the other processes' files are looked at again."""


class AuditError(DpsqlError):
    """The audit log cannot be read or written."""


def folder_of(database: str | Path) -> Path:
    """Where the audit log of a database is, unless the service has another folder for it."""
    return Path(f"{database}{SUFFIX}")


class AuditLog:
    """One process' chain, open for appending. Thread-safe; an `Audit`.

    Args:
        folder: of the log; made if it is not there, for its owner alone.
        process: who writes; the name of the files.
        full: bytes after which a file is put aside.
        most: bytes of the whole log, of all processes; 0 for as many as the disk has.

    Raises:
        AuditError: the folder cannot be written, or the last line of the log is not one.
    """

    def __init__(self, folder: Path, process: str, *, full: int = FULL, most: int = 0) -> None:
        self._folder, self._process, self._most = folder, process, most
        self._full = min(full, most // 8) if most else full  # so that there is something to move away
        self._lock = threading.Lock()
        self._bytes, self._looked, self._warned = 0, 0.0, False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = self._opened()
            torn = self._cut_torn_line()
            self._number, self._hash = self._last()
        except OSError as error:
            raise AuditError(f"the audit log in {folder} cannot be written: {error.strerror}") from None
        if torn:
            self({"event": "torn line removed", "user": "", "bytes": torn})

    @property
    def path(self) -> Path:
        """The file that is being written."""
        return self._folder / f"{self._process}.jsonl"

    def __call__(self, event: dict[str, Any]) -> None:
        """Append an event and wait until the disk has it.

        Raises:
            AuditError: it cannot be written; the log is as it was before.
        """
        with self._lock:
            self._write(event)
            if self._most and not self._warned and self._bytes > _WARNING * self._most:
                self._warned = True
                words = f"the audit log in {self._folder} has {self._bytes} of {self._most} bytes: move full files away"
                sys.stderr.write(f"dpsql: {words}\n")
                self._write({"event": "audit log nearly full", "user": "", "bytes": self._bytes, "most": self._most})

    def size(self) -> dict[str, int]:
        """Bytes of the log of all processes, and the most that it may have if that was stated."""
        with self._lock:
            return {"bytes": self._counted(), **({"most": self._most} if self._most else {})}

    def _counted(self) -> int:
        """Bytes of all files, looked at now and then."""
        now = time.monotonic()
        if not self._looked or now - self._looked > _LOOK_SECONDS:
            self._looked, self._bytes = now, 0
            for path in self._folder.glob("*.jsonl"):
                with suppress(OSError):  # it is moved away right now
                    self._bytes += path.stat().st_size
            self._warned = self._warned and self._bytes > _WARNING * self._most
        return self._bytes

    def _write(self, event: dict[str, Any]) -> None:
        short = {name: _short(value) for name, value in event.items() if name != "hash"}
        if len(_canonical(short)) > _LONGEST:
            short = {"event": short.get("event"), "user": short.get("user"), "cut": True}
        content = {
            **short,
            "number": self._number + 1,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "process": self._process,
            "previous": self._hash,
        }
        digest = _digest(content)
        self._append((_canonical({**content, "hash": digest}) + "\n").encode())
        self._number, self._hash = self._number + 1, digest

    def close(self) -> None:
        """Nothing more is written."""
        with self._lock:
            os.close(self._descriptor)

    def _append(self, line: bytes) -> None:
        """Write a line whole, or nothing of it."""
        before = os.fstat(self._descriptor).st_size
        try:
            if self._most and self._counted() + len(line) > self._most:
                raise OSError(0, f"it has the {self._most} bytes that the option audit_bytes allows")
            if before and before + len(line) > self._full:
                self._put_aside()
                before = 0
            written = os.write(self._descriptor, line)
            if written != len(line):
                raise OSError(0, "the disk is full")
            os.fsync(self._descriptor)
            self._bytes += len(line)
        except OSError as error:
            with suppress(OSError):  # what is torn is removed at the next start, too
                os.ftruncate(self._descriptor, before)
            raise AuditError(f"the audit log in {self._folder} cannot be written: {error.strerror}") from None

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def _put_aside(self) -> None:
        self.path.rename(self._folder / f"{self._process}-{self._number:012d}.jsonl")
        old, self._descriptor = self._descriptor, self._opened()
        os.close(old)

    def _cut_torn_line(self) -> int:
        """Remove what follows the last line break: a line whose writing was interrupted. Its bytes."""
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, 2 * _LONGEST, max(0, size - 2 * _LONGEST))
        torn = len(tail) - (tail.rfind(b"\n") + 1)
        if torn:
            os.ftruncate(self._descriptor, size - torn)
        return torn

    def _last(self) -> tuple[int, str]:
        """Number and hash of the newest line, wherever it is."""
        for path in reversed(_files(self._folder, self._process)):
            with path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * _LONGEST))
                lines = file.read().splitlines()
            if lines:
                try:
                    line = json.loads(lines[-1])
                    return int(line["number"]), str(line["hash"])
                except (ValueError, KeyError, TypeError):
                    raise AuditError(
                        f"the last line of {path} is not one of an audit log: move the folder {self._folder} aside, "
                        "and a new log begins"
                    ) from None
        return 0, _FIRST


def open_log(options: Options, process: str) -> AuditLog:
    """The audit log of a service's process."""
    folder = Path(options.audit_folder) if options.audit_folder else folder_of(options.path)
    return AuditLog(folder, process, most=bytes_of(options.audit_bytes, "audit_bytes") if options.audit_bytes else 0)


def events(database: str | Path, *, user: str | None = None, process: str | None = None) -> Iterator[dict[str, Any]]:
    """The events of a database's audit log, each process' in its order.

    Args:
        database: path of the private DuckDB file, or of the folder of the log.
        user: only theirs.
        process: `keeper`, `front` or `quack`; by default all.

    Raises:
        InvalidArgument: there is no such process, or no audit log.
        AuditError: a line cannot be read.
    """
    for chain in _processes(process):
        for path, place, line in _lines(_there(database), chain):
            if line is None:
                raise AuditError(f"line {place} of {path} cannot be read: see `dpsql audit verify`")
            if user is None or line.get("user") == user:
                yield line


def verify(database: str | Path) -> tuple[int, list[str]]:
    """Whether each line of a database's audit log is as it was written, and follows the one before.

    Returns:
        The number of lines, and what is wrong, in words.

    Raises:
        InvalidArgument: there is no audit log.
    """
    lines, wrong = 0, []
    for process in PROCESSES:
        number, previous = 0, _FIRST
        for path, place, line in _lines(_there(database), process):
            lines += 1
            where = f"{path.name}, line {place}"
            if line is None:
                wrong.append(f"{where}: cannot be read")
                continue
            if line.get("number") != number + 1 or line.get("previous") != previous:
                wrong.append(f"{where}: does not follow line number {number}: lines were removed, inserted or changed")
            if line.get("hash") != _digest({name: value for name, value in line.items() if name != "hash"}):
                wrong.append(f"{where}: was changed")
            stated = line.get("number")
            number, previous = stated if isinstance(stated, int) else 0, str(line.get("hash"))
        if process in ALWAYS and not _files(_there(database), process):
            wrong.append(f"{process}.jsonl is not there: it was removed")
    return lines, wrong


def heads(database: str | Path) -> dict[str, tuple[int, str]]:
    """Number and hash of the newest line of each process' chain.

    Whoever can write the files can remove a line and make the rest of the chain anew. Then the newest hash is another:
    note it elsewhere, and compare.

    Raises:
        InvalidArgument: there is no audit log.
    """
    newest_lines = {}
    for process in PROCESSES:
        newest = (0, _FIRST)
        for _, _, line in _lines(_there(database), process):
            if line is not None and isinstance(line.get("number"), int):
                newest = line["number"], str(line.get("hash"))
        if newest[0]:
            newest_lines[process] = newest
    return newest_lines


def _lines(folder: Path, process: str) -> Iterator[tuple[Path, int, dict[str, Any] | None]]:
    """Each line with its file and place, None where it is not written as it would be."""
    for path in _files(folder, process):
        with path.open("rb") as file:
            for place, text in enumerate(file, 1):
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    line = None
                whole = isinstance(line, dict) and text == (_canonical(line) + "\n").encode()
                yield path, place, line if whole else None


def _files(folder: Path, process: str) -> list[Path]:
    """The files of a process, oldest first."""
    return [*sorted(folder.glob(f"{process}-*.jsonl")), *folder.glob(f"{process}.jsonl")]


def _there(database: str | Path) -> Path:
    folder = Path(database) if Path(database).is_dir() else folder_of(database)
    if not folder.is_dir():
        raise InvalidArgument(f"{database} has no audit log: `dpsql serve {database}` begins one in {folder}")
    return folder


def _processes(process: str | None) -> tuple[str, ...]:
    if process is None:
        return PROCESSES
    if process not in PROCESSES:
        raise InvalidArgument(f"process is {process!r}: give one of {', '.join(PROCESSES)}")
    return (process,)


def _short(value: object) -> object:
    """A value that fits into a line: long texts are cut, and say so."""
    if isinstance(value, str):
        if len(value) <= LONG_TEXT:
            return value
        digest = hashlib.sha256(value.encode(errors="replace")).hexdigest()
        beginning = f"{value[: LONG_TEXT // 2]} … {value[-LONG_TEXT // 4 :]}"
        return f"{beginning} (of {len(value)} characters with SHA-256 {digest})"
    if isinstance(value, dict):
        return {str(name): _short(part) for name, part in list(value.items())[:50]}
    if isinstance(value, (list, tuple)):
        return [_short(part) for part in value[:20]]
    return value if value is None or isinstance(value, (bool, int, float)) else _short(str(value))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
