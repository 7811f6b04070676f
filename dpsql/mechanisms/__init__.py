"""Mechanisms by name: importing this package registers those of all its files."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(iter_modules(__path__), key=lambda module: module.name):
    import_module(f"{__name__}.{_module.name}")
