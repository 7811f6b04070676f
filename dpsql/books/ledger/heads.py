r"""The head of a ledger, in a file outside its database: what must not be forgotten if the database is.

    {"books": id, "number": n, "hash": hash_n, "accounts": {table: what was spent, …}, "course": …, "seal": …}

It is written with fsync after each event is committed and before anything that it paid for is published. A database
that does not contain that event was damaged, or restored from an older copy. A database may be ahead of its head by
what was committed when the machine stopped: nothing of that was published. `course` is what else the ledger says up to
that event (`dpsql.privacy.ledger_state.State`), so that a charge need not read what is older. Where the ledger has a
key, `seal` is an HMAC of the rest, and nobody else can write a head.

By default the file is `<database>.dpsql-head` beside the database; the environment variable `DPSQL_HEADS` names another
folder, best on another disk, where its name holds a digest of the database's path too. Databases in memory have none.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dpsql.errors import BooksError
from dpsql.runtime.progress import unbreakable

SUFFIX: Final = ".dpsql-head"
lock: Final = threading.RLock()
"""Held while a head is compared and written; one process has a database open for writing."""


@dataclass(frozen=True)
class Head:
    """What a head file says.

    Attributes:
        books: the id of the books.
        number, hash: of the newest event that it knows.
        accounts: each table's account at that time.
        course: what else the ledger says then; None of a head of the first format.
        seal: an HMAC of all this, where the ledger has a key.
    """

    books: str
    number: int = 0
    hash: str = ""
    accounts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    course: Mapping[str, Any] | None = None
    seal: str | None = None

    @property
    def sealed(self) -> dict[str, Any]:
        """All but the seal."""
        return {name: value for name, value in vars(self).items() if name != "seal"}


def file_beside(database: Path) -> Path:
    """Where the head of the ledger of a database file is."""
    whole, named = database.resolve(), os.environ.get("DPSQL_HEADS")
    if not named:
        return whole.with_name(whole.name + SUFFIX)
    folder = _folders.setdefault(named, Path(named).resolve())  # where it was when it was first used
    return folder / f"{whole.name}-{hashlib.sha256(str(whole).encode()).hexdigest()[:12]}{SUFFIX}"


_folders: Final[dict[str, Path]] = {}
_read: Final[dict[Path, tuple[tuple[int, int, int], Head]]] = {}


def read_head(path: Path) -> Head | None:
    """The head in a file, None if there is no file.

    Raises:
        BooksError: it cannot be read, or is none.
    """
    try:
        status = path.stat()
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        stored = _read.get(path)
        if stored is not None and stored[0] == version:
            return stored[1]
        data = json.loads(path.read_text(encoding="utf-8"))
        newest = str(data["books"]), int(data["number"]), str(data["hash"]), dict(data["accounts"])
        head = Head(*newest, data.get("course"), data.get("seal"))
        _read[path] = version, head
        return head
    except FileNotFoundError:
        _read.pop(path, None)
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BooksError(f"the head of the ledger in {str(path)!r} cannot be read ({type(error).__name__})") from None


def write_head(path: Path, head: Head) -> None:
    """Write a head durably, whole or not at all.

    Raises:
        BooksError: the disk does not take it.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        _sweep(path)
        with unbreakable:
            with new.open("w", encoding="utf-8") as file:
                json.dump(vars(head), file, ensure_ascii=False, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise BooksError(
            f"the head of the ledger cannot be written to {str(path)!r} ({error.strerror}), so nothing is published; "
            "what was charged is kept: make room or give the right to write there, and the same call goes on"
        ) from None


_swept: Final[set[Path]] = set()


def _sweep(path: Path) -> None:
    """Remove what killed processes left behind, once; only one process has a database open for writing."""
    if path not in _swept:
        for left in path.parent.glob(f"{glob.escape(path.name)}.*.new"):
            with suppress(OSError):
                left.unlink()
        _swept.add(path)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
