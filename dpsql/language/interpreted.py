"""sqlglot's parser of DuckDB's SQL as a class that can be extended, even where sqlglot is compiled.

`pip install 'sqlglot[c]'` compiles sqlglot with mypyc, and no class can inherit from a compiled one. So the parser is
loaded from its Python source, which such an installation has, too. The trees that it makes are the compiled ones.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from sqlglot.dialects.duckdb import DuckDB


@lru_cache(maxsize=1)
def duckdb_parser() -> type[Any]:
    """The class of DuckDB's parser: sqlglot's own, or the same one from its source."""
    own: type[Any] = DuckDB.Parser
    if not _is_compiled(own.__module__):
        return own
    interpreted: dict[str, ModuleType] = {}
    for name in ("sqlglot.parser", own.__module__):  # the second one extends the first
        interpreted[name] = _from_source(name, dict(interpreted))
    parser: type[Any] = getattr(interpreted[own.__module__], own.__name__)
    return parser


def _is_compiled(name: str) -> bool:
    return isinstance(getattr(sys.modules[name].__spec__, "loader", None), ExtensionFileLoader)


def _from_source(name: str, instead: dict[str, ModuleType]) -> ModuleType:
    """A module from its Python source, beside the compiled one.

    Args:
        name: of the module.
        instead: modules that it imports in place of the compiled ones of their names.
    """
    compiled = sys.modules[name].__file__ or ""
    source = Path(compiled).with_name(f"{name.rpartition('.')[2]}.py")
    loader = SourceFileLoader(name, str(source))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": _importing(instead)}
    loader.exec_module(module)
    return module


def _importing(instead: dict[str, ModuleType]) -> Any:
    """`import` that gives other modules in place of some."""

    def import_module(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name in instead:
            return instead[name]
        module = builtins.__import__(name, globals, locals, fromlist, level)
        taken = {inner: instead[f"{name}.{inner}"] for inner in fromlist or () if f"{name}.{inner}" in instead}
        return SimpleNamespace(**{**vars(module), **taken}) if taken else module

    return import_module
