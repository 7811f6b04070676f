"""The configuration of a service: one TOML file, whose keys are the options of `dpsql.serve`.

database = "bank.duckdb"   # relative to the folder of this file, as all paths in it
port = 5439
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dpsql.errors import InvalidArgument

KINDS: Final[Mapping[str, type]] = {
    "database": Path,
    "host": str,
    "port": int,
    "socket": Path,
    "socket_group": str,
    "audit_folder": Path,
    "metrics": str,
    "certificate": Path,
    "key": Path,
    "startup": Path,
    "connections": int,
    "statement_seconds": float,
    "call_seconds": float,
    "queue": int,
    "user_connections": int,
    "user_queue": int,
    "login_seconds": float,
    "most_rows": int,
    "memory": str,
    "threads": int,
    "processes": int,
    "silence_seconds": float,
    "audit_bytes": str,
    "quack": int,
}
"""What each key is; `Options` says what it means."""


def read_configuration(path: str | Path) -> dict[str, Any]:
    """The options that a TOML file states, by name; `database` is one of them.

    Args:
        path: of the file.

    Raises:
        InvalidArgument: the file cannot be read, is not TOML, or has a key or value that is not one of a service.
    """
    file = Path(path)
    try:
        stated = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"the configuration {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the configuration {path} is not TOML: {error}") from None
    return {name: _value(file, name, value) for name, value in stated.items()}


def _value(file: Path, name: str, value: object) -> Any:
    """A value of the kind that its key has."""
    if name not in KINDS:
        raise InvalidArgument(f"{file} has {name!r}, which is no option of a service: it has {', '.join(KINDS)}")
    kind = KINDS[name]
    if kind is Path and isinstance(value, str) and value:
        return str(file.parent / value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is not Path and type(value) is kind:
        return value
    wanted = {Path: "a path in quotes", str: "a text in quotes", int: "a whole number", float: "a number"}[kind]
    raise InvalidArgument(f"{name} is {value!r} in {file}: give {wanted}")
