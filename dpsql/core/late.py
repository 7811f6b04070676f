"""Modules that are imported when something of them is first used: who opens a database does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def late(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that has the names of another one.

    >>> late("math")("pi")
    3.141592653589793
    """

    def attribute(name: str) -> Any:
        if name.startswith("__"):  # what Python asks of every module, such as its __path__
            raise AttributeError(name)
        return getattr(import_module(module), name)

    return attribute
