"""Memory: how much work may take, as the user says or as the machine has.

>>> parse_size("1.5GB")
1500000000
"""

from __future__ import annotations

import ctypes
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Final

import psutil

from dpsql.errors import InvalidArgument

_UNITS: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_SHARE: Final = 0.8
_GROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")  # of a container on Linux


def parse_size(text: str) -> int:
    """Bytes of a size as DuckDB writes it: '4GB', '500MB', '1.5GiB'.

    Raises:
        InvalidArgument: not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidArgument(f"memory is {text!r}: give a size such as '4GB' or '500MB'")
    units = _BINARY if match[3] else _UNITS
    return int(Fraction(match[1]) * units[match[2].lower()])


def machine_memory() -> int:
    """Bytes that work may take on this machine: 80 % of what it, or its container, has."""
    total = int(psutil.virtual_memory().total)
    if _GROUP_LIMIT.is_file():
        text = _GROUP_LIMIT.read_text().strip()
        total = min(total, int(text)) if text.isdigit() else total
    return int(total * _SHARE)


def give_back() -> None:
    """Return to the system what was freed: glibc keeps it, a quarter of a gigabyte after JAX has compiled a fit.

    Elsewhere nothing is done. It takes some milliseconds.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def in_words(size: float) -> str:
    """A number of bytes for people.

    >>> in_words(2.5e9), in_words(3e6)
    ('2.5 GB', '3.0 MB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} B"
