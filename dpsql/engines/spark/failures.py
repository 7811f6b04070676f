"""What is said where Spark fails: constant texts by what failed, because Spark's own may quote a row."""

from __future__ import annotations

from dpsql.engines.protocol import CountingRefused


class SessionFailed(CountingRefused):
    """Nothing counts until somebody mends the session."""


class SessionLost(SessionFailed):
    """The session stopped."""

    def __init__(self) -> None:
        super().__init__(
            "the session of Spark stopped while it counted; what was charged is kept: start one that leads to the same "
            "table, and the same call goes on"
        )


class NoExecutors(SessionFailed):
    """A cluster had no executor for so long that the job was given up."""

    def __init__(self) -> None:
        super().__init__(
            "Spark has had no executor for minutes, so nothing counts: see that its workers run, and that they have "
            "cores and memory to spare; what was charged is kept, and the same call goes on"
        )


class CannotStart(CountingRefused):
    """There is no session, and none can be started. Nothing was read."""

    def __init__(self, named: str) -> None:
        super().__init__(
            f"no session of Spark with {named}: see that it runs and that pyspark connects to it, or start a "
            "SparkSession in this process first; then make the same call. What was charged before is kept"
        )


class NoWorkers(CountingRefused):
    """Tasks cannot run Python with DuckDB in it. Nothing was read."""

    def __init__(self) -> None:
        super().__init__(
            "the tasks of Spark cannot run DuckDB: install duckdb and pyarrow in the Python of its workers, of the "
            "same version as here, and see that PYSPARK_PYTHON names it; where no Python may run there, register "
            "the table with engine := 'spark_sql'. What was charged before is kept"
        )
