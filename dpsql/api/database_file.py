"""The database file that a command names: opened as it is, or made where that is what a command is for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql.errors import DpsqlError

if TYPE_CHECKING:
    from dpsql.api.database import Database

LOAD: Final[dict[str, Any]] = {
    "action": "append",
    "metavar": "FILE",
    "help": "a Python file of mechanisms; may be repeated",
}
"""The option `--load` of a command."""


def open_database(
    path: str, *, owner: bool = True, create: bool = False, load: Sequence[str] | None = None
) -> Database:
    """Open a database file for a command.

    Args:
        path: of the file, or `:memory:`.
        owner: whether the owner's functions can be called.
        create: whether to make the file if it is missing.
        load: files of mechanisms, which come before the rest of dpsql, because SQL learns their options then.

    Raises:
        DpsqlError: there is no such file, see `load_file`, or see `connect`.
    """
    for file in load or ():
        from dpsql.mechanisms.own import load_file

        load_file(file)
    from dpsql.api.database import connect

    if path != ":memory:" and not create:
        check_there(path)
    db = connect(path, owner=owner)
    db.sql("SET python_enable_replacements = false")  # the variables are those of dpsql
    return db


def check_there(path: str, hint: str = "") -> None:
    """Refuse a path that no file has, because DuckDB would make a new file there.

    Args:
        path: of the database.
        hint: what else the person can do.

    Raises:
        DpsqlError: there is no such file; names the nearest one in its folder.
    """
    if Path(path).exists():
        return
    folder = Path(path).parent
    names = [file.name for file in folder.glob("*.d*b")] if folder.is_dir() else []
    near = difflib.get_close_matches(Path(path).name, names, 1, 0.7)
    meant = f" (do you mean {str(folder / near[0])!r}?)" if near else ""
    raise DpsqlError(f"there is no database file {path!r}{meant}{hint}")
