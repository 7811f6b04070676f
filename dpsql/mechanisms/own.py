"""Mechanisms from outside the package: of a file, or of an installed package that names its module.

    [project.entry-points."dpsql.mechanisms"]
    independent = "my_package.independent"

Such code runs as the rest of dpsql does. The kernel stops a mechanism that asks for more than its course said. It does
not stop code that reads the database by other ways, so load what you trust.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from dpsql.errors import DpsqlError, InvalidArgument

from .base import find, forget, registering

GROUP: Final = "dpsql.mechanisms"
"""Of entry points; also the package of the mechanisms that come with dpsql."""
_LEARNS: Final = "dpsql.udfs.dp_synthesize"
"""Where SQL learns the options of all mechanisms, once in a process."""


@dataclass(frozen=True)
class Loaded:
    """Where a mechanism from outside comes from.

    Attributes:
        code: tells versions apart: the file's digest, or the package's name and version.
        path: of the file; None of an installed package.
    """

    code: str
    path: Path | None = None


_loaded: dict[str, Loaded] = {}
"""By the names of the mechanisms."""


def load_file(path: str | Path) -> tuple[str, ...]:
    """Run a file that registers mechanisms, once for each of its versions; those of the version before go.

    Load it before `dpsql.connect`, because SQL learns the options of mechanisms there.

    Args:
        path: of the file, as `examples/new_mechanism.py` is one.

    Returns:
        The names of its mechanisms.

    Raises:
        InvalidArgument: there is no such file, it fails, registers nothing, or a name that another mechanism has; or
            it imports what SQL's functions are made from, so that SQL would not know its options.
    """
    file = Path(path).resolve()
    source = Loaded(_digest(path), file)
    old_names = tuple(name for name, entry in _loaded.items() if entry.path == file)
    if old_names and _loaded[old_names[0]] == source:
        return old_names
    module = f"dpsql_own_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"load has {str(path)!r}: give a Python file, whose name ends in .py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made  # where dataclasses look up their annotations
    learnt = _LEARNS in sys.modules
    try:
        with registering(old_names) as names:
            spec.loader.exec_module(made)
            if not learnt and _LEARNS in sys.modules:
                raise InvalidArgument(
                    "it imports connect, Database or what they need, by which SQL learns the options of mechanisms "
                    "before there are those of the file: import them inside a function, and begin a new process"
                )
    except DpsqlError as error:
        raise InvalidArgument(f"load has {str(path)!r}: {error}") from None
    except (Exception, SystemExit) as error:
        raise InvalidArgument(f"load has {str(path)!r}, which fails: {type(error).__name__}: {error}") from error
    if not names:
        raise InvalidArgument(f"load has {str(path)!r}, which registers no mechanism: decorate a class by @register")
    for name in set(old_names) - set(names):
        if find(name).__module__ == module:  # not of a module that the file imports, which does not run again
            forget(name)
            del _loaded[name]
    _loaded.update(dict.fromkeys(names, source))
    return tuple(names)


def check_unchanged(paths: Iterable[str | Path]) -> None:
    """Refuse a file that is no longer as it was when it was loaded.

    Args:
        paths: of files that are loaded.

    Raises:
        InvalidArgument: one has changed, or is gone.
    """
    for path in paths:
        file = Path(path).resolve()
        codes = {entry.code for entry in _loaded.values() if entry.path == file}
        if _digest(path) not in codes:
            raise InvalidArgument(
                f"load has {str(path)!r}, which has changed since it was loaded: its run is not kept; begin again"
            )


def _digest(path: str | Path) -> str:
    """Of a file's text."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InvalidArgument(f"load has {str(path)!r}: {error.strerror}; give a Python file") from None


def load_installed(entries: Iterable[EntryPoint]) -> None:
    """Load the modules that installed packages name; one that fails is left out, with a warning.

    Args:
        entries: of the group `dpsql.mechanisms`.
    """
    for entry in entries:
        try:
            with registering() as names:
                entry.load()
        except (Exception, SystemExit) as error:
            message = f"entry point {entry.name!r} of group {GROUP} is left out: {type(error).__name__}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            continue
        code = entry.value if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
        _loaded.update(dict.fromkeys(names, Loaded(code)))


def loaded_from(name: str) -> Loaded | None:
    """Where the mechanism of that name comes from; None where it comes with dpsql.

    Raises:
        UnknownName: there is none.
        InvalidArgument: it was registered by this process only, so that no other process could make it.
    """
    if find(name).__module__.startswith(f"{GROUP}."):
        return None
    if name not in _loaded:
        raise InvalidArgument(f"mechanism {name!r} is of this process only: name its file, load=['its file.py']")
    return _loaded[name]
