"""DuckDB's errors as children of `DpsqlError`, so that one `except` holds for all that a `Database` does."""

from __future__ import annotations

import importlib.util
import re
from contextlib import ContextDecorator
from typing import Any, Final

import duckdb

from dpsql.errors import DpsqlError
from dpsql.udfs.bridge.callbacks import kind_of

_PLACE: Final = re.compile(r"\nLINE (\d+): ([^\n]*)\n( +\^+)\s*$")
_NEAR: Final = 30  # characters of a statement that say where in it an error is
_classes: Final[dict[tuple[type[DpsqlError], type[duckdb.Error]], type[DpsqlError]]] = {}


def joined(kind: type[DpsqlError], other: type[duckdb.Error]) -> type[DpsqlError]:
    """The class of errors that are of both kinds: whoever catches one of them by either name catches these.

    Of dpsql's classes only those of `dpsql.errors`: others are for dpsql itself, and hold more than a text.
    """
    public = next(base for base in kind.__mro__ if base.__module__ == DpsqlError.__module__)
    if (public, other) not in _classes:
        name = other.__name__ if public is DpsqlError else public.__name__
        members = {"__module__": __name__, "__doc__": public.__doc__, "__reduce__": _reduce}
        _classes[public, other] = type(name, (public, other), members)
    return _classes[public, other]


def _reduce(error: DpsqlError) -> tuple[Any, ...]:
    """How it is sent to another process: the class is made there again, because no module holds it by name."""
    kind, other = type(error).__bases__
    return _remade, (kind, other, error.args)


def _remade(kind: type[DpsqlError], other: type[duckdb.Error], arguments: tuple[Any, ...]) -> DpsqlError:
    return joined(kind, other)(*arguments)


class OwnErrors(ContextDecorator):
    """Errors of DuckDB leave as errors of dpsql too: with the same text, caret and DuckDB's class.

    One that a function of dpsql raised within SQL is also of the class that it raised: `InsufficientBudget`, ….
    """

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, _: object, error: BaseException | None, where: object) -> None:
        """Raise the error anew, where it is DuckDB's alone."""
        if isinstance(error, duckdb.Error) and not isinstance(error, DpsqlError):
            own = joined(kind_of(str(error)), type(error))(*error.args)
            own.__dict__.update(vars(error))  # such as the status of an HTTPException
            raise own from None


own_errors: Final = OwnErrors()


def needs(package: str, method: str) -> None:
    """Refuse a method whose package is not installed, before anything runs.

    Raises:
        DpsqlError: it is not.
    """
    if importlib.util.find_spec(package) is None:
        raise DpsqlError(f"{method}() needs {package}, which is not installed: run pip install {package}, or use df()")


def has_place(error: duckdb.Error) -> bool:
    """Whether an error says where in the statement it is."""
    return _PLACE.search(str(error)) is not None


def one_line(text: str, line: int = 1) -> str:
    r"""The text of an error in one line: words say where DuckDB's caret is.

    Args:
        text: of the error.
        line: at which the statement begins.

    >>> one_line("Parser Error: syntax error\n\nLINE 2: FORM t\n        ^", line=5)
    "Parser Error: syntax error (line 6, at 'FORM t')"
    """
    match = _PLACE.search(text)
    if match is not None:
        begin = len(match[3].rstrip("^")) - len(f"LINE {match[1]}: ")
        near = match[2][max(begin, 0) :].rstrip()
        near = near if len(near) <= _NEAR else f"{near[: _NEAR - 1]}…"
        text = f"{text[: match.start()]} (line {int(match[1]) + line - 1}, at {near!r})"
    return " ".join(text.split())


def one_line_up(text: str) -> str:
    """The text of an error whose place is in a statement with a line of dpsql's above it."""

    def up(match: re.Match[str]) -> str:
        line = str(int(match[1]) - 1)
        return f"\nLINE {line}: {match[2]}\n{match[3][len(match[1]) - len(line) :]}"

    return _PLACE.sub(up, text)
