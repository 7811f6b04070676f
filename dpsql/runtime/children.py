"""What is the same for all processes in which people's texts are run: they may see and take little."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_HANDED: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PYTHONHOME", "LANG", "TZ", "HOME")
"""Variables that such a process may see: no key, password or token is among them."""


def handed(*more: str) -> dict[str, str]:
    """Those variables as they are now, and `more`."""
    names = {*_HANDED, *more}
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")}


def end_first() -> None:
    """Where memory ends, Linux ends this process before all others."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
