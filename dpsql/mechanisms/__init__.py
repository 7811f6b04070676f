"""Mechanisms by name: importing this package registers those of all its files, a folder for each family."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

for _module in sorted(walk_packages(__path__, f"{__name__}."), key=lambda module: module.name):
    import_module(_module.name)
