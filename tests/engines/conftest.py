from __future__ import annotations

from . import postgres_server, spark_session


def pytest_sessionfinish() -> None:
    """Stop the Postgres and the Spark of this process, if a test has started one."""
    postgres_server.remove()
    spark_session.remove()
