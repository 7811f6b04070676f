from __future__ import annotations

from .postgres_server import remove


def pytest_sessionfinish() -> None:
    """Stop the Postgres of this process, if a test has started one."""
    remove()
