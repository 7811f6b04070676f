from __future__ import annotations

from collections.abc import Sequence

import pytest

from . import postgres_server, s3_server, spark_cluster, spark_session


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the tests that start a Spark."""
    for item in items:
        if "spark" in item.nodeid.partition("tests/engines")[2]:
            item.add_marker(pytest.mark.spark)


def pytest_sessionfinish() -> None:
    """Stop the Postgres, the bucket, the cluster and the Spark of this process, if a test has started one."""
    postgres_server.remove()
    s3_server.remove()
    spark_cluster.remove()
    spark_session.remove()
