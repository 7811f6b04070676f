"""The table of clients of the service: read from the marks of the tests that start them, so that no line stands alone."""

from __future__ import annotations

from .chance import marks


def client_rows() -> list[list[str]]:
    """A row for each mark `client`, in the order of the names."""
    rows = [[*map(str, said), f"`{name.removeprefix('tests/')}`"] for name, said in marks("client")]
    return sorted(rows, key=lambda row: row[0].lower())
