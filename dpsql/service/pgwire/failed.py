"""What the protocol itself refuses."""

from __future__ import annotations

from typing import Final

ABORTED: Final = "25P02"
"""The code of whatever comes after a statement that failed, until its transaction ends."""


class Failed(Exception):
    """See the module.

    Attributes:
        code: of PostgreSQL.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
