"""What sqlglot logs about texts that people wrote is not passed on: it holds those texts, and people get our errors."""

from __future__ import annotations

import inspect
import logging
from types import FrameType
from typing import Final

_PACKAGE: Final = __name__.partition(".")[0]


def keep_quiet() -> None:
    """Let sqlglot log nothing of calls of this package, from wherever in it they come; calls of others as before."""
    logging.getLogger("sqlglot").addFilter(_is_of_others)


def _is_of_others(_: logging.LogRecord) -> bool:
    """Whether no function of this package is under way below the one that logs."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module != __name__ and module.partition(".")[0] == _PACKAGE:
            return False
        frame = frame.f_back
    return True
