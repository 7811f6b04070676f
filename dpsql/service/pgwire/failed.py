"""What the protocol itself refuses."""

from __future__ import annotations


class Failed(Exception):
    """See the module.

    Attributes:
        code: of PostgreSQL.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
