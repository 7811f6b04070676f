"""How many bytes sessions keep between messages: statements, parameters, cursors, settings."""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable
from typing import Any, Final

from .failed import Failed

OF_A_SESSION: Final = 16 << 20
OF_A_USER: Final = 64 << 20
_EACH: Final = 1_000
"""Bytes of anything that is kept, beside its texts and values."""


class Holdings:
    """What is kept, of a session or of all sessions of a user.

    Args:
        most: bytes.
        whole: of which this is a part.
    """

    def __init__(self, most: int, whole: Holdings | None = None) -> None:
        self._most, self._whole = most, whole
        self._of: dict[Hashable, int] = {}
        self._sum = 0
        self._lock = threading.Lock()

    def keep(self, key: Hashable, *values: Any) -> None:
        """Note that values are kept, in place of those of the same key.

        Raises:
            Failed: there is no room for them. What was kept before is as it was.
        """
        self.take(key, _EACH + sum(map(bytes_of, values)))

    def take(self, key: Hashable, count: int) -> None:
        """Note that so many bytes are kept; see `keep`."""
        before = self._of.get(key, 0)
        self.note(key, count)
        if self._whole is not None:
            try:
                self._whole.note((id(self), key), count)
            except Failed:
                self.note(key, before)
                raise

    def drop(self, key: Hashable) -> None:
        """Note that the values of a key are kept no longer."""
        self.note(key, 0)
        if self._whole is not None:
            self._whole.note((id(self), key), 0)

    def close(self) -> None:
        """Nothing is kept any more."""
        for key in list(self._of):
            self.drop(key)

    def note(self, key: Hashable, count: int) -> None:
        """Note how many bytes are kept by a key.

        Raises:
            Failed: there is no room for more.
        """
        with self._lock:
            before = self._of.get(key, 0)
            if count > before and self._sum + count - before > self._most:
                whose = "your sessions keep" if self._whole is None else "this session keeps"
                raise Failed(
                    "54000",
                    f"{whose} {self._sum} bytes of statements, parameters, cursors and settings, and {self._most} is "
                    "the most: CLOSE cursors, DEALLOCATE statements, or RESET settings",
                )
            self._sum += count - before
            self._of[key] = count
            if not count:
                del self._of[key]


def bytes_of(value: Any) -> int:
    """The memory of a value that was decoded, with all that is in it.

    >>> bytes_of("a" * 1000) < bytes_of("🙈" * 1000)
    True
    """
    count, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        count += sys.getsizeof(part)
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set):
            waiting += part
    return count
