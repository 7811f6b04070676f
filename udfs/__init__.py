"""What is registered into DuckDB: the native bridge, and one file `dp_<name>.py` for each SQL function."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bridge.declare import TableFunction
    from .extension import Instance, SqlFunction

    FUNCTIONS: tuple[type[SqlFunction], ...]
    """Every SQL function: its file registers it, and nothing else names it."""


@cache
def _functions() -> tuple[type[SqlFunction], ...]:
    """The SQL functions of the files `dp_*.py` beside this one, by name."""
    from .extension import SqlFunction

    names = sorted(module.name for module in iter_modules(__path__) if module.name.startswith("dp_"))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, SqlFunction) and value.__module__ == module.__name__
    )


def __getattr__(name: str) -> Any:
    """`FUNCTIONS` on first use: who needs the bridge alone, as a process without private rows does, loads no fits."""
    if name != "FUNCTIONS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _functions()


def functions(instance: Instance) -> list[TableFunction]:
    """One of each for an instance."""
    return [function(instance) for function in _functions()]
