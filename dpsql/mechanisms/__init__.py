"""Mechanisms by name: importing this package registers those of all its files, a folder for each family.

Those of installed packages come after them, see `dpsql.mechanisms.own`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import walk_packages

from dpsql.mechanisms.own import GROUP, load_installed

for _module in sorted(walk_packages(__path__, f"{__name__}."), key=lambda module: module.name):
    import_module(_module.name)
load_installed(entry_points(group=GROUP))
