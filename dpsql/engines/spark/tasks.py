"""What runs in the tasks of Spark: statements of DuckDB on the rows of a partition, block by block.

    for each block of rows      each statement of `each`, on the table `block`; what `shown` selects leaves the task
    after a few blocks          each statement of `pack`, which keeps what was found small
    at the end                  what `last` selects leaves the task

The function is sent to the workers whole, because dpsql is not there: they need duckdb and pyarrow. What goes wrong in
a task is said in constant words, because Spark logs what a task says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Task = Callable[[Iterator[Any]], Iterator[Any]]
"""From the batches of a partition to those of a result."""


@dataclass(frozen=True)
class Statements:
    """What a task does, as SQL of DuckDB.

    Attributes:
        each: for each block.
        first: before the first block.
        pack: after a few blocks.
        last: what leaves at the end; empty for nothing.
        shown: what leaves of each block; empty for nothing.
    """

    each: Sequence[str] = ()
    first: Sequence[str] = ()
    pack: Sequence[str] = ()
    last: str = ""
    shown: str = ""


def in_task(statements: Statements, key: str = "", names: Sequence[str] | None = None) -> Task:
    """The function for `DataFrame.mapInArrow`.

    Args:
        statements: to run.
        key: what a choice of rows is drawn from; the statements read it as the variable dpsql_key.
        names: of the columns in the statements, where batches have others, because pyspark reads a dot in a name.
    """
    each, first, pack = tuple(statements.each), tuple(statements.first), tuple(statements.pack)
    last, shown, called = statements.last, statements.shown, None if names is None else list(names)
    block_rows, block_bytes, blocks_between = 500_000, 2**27, 8

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from contextlib import suppress

        import duckdb
        import pyarrow as pa

        def batches_of(connection: Any, sql: str) -> Iterator[Any]:
            return iter(connection.sql(sql).to_arrow_table().to_batches())

        def blocks() -> Iterator[Any]:
            held: list[Any] = []
            for batch in batches:
                held.append(batch)
                if sum(b.num_rows for b in held) >= block_rows or sum(b.nbytes for b in held) >= block_bytes:
                    yield pa.Table.from_batches(held)
                    held = []
            if held:
                yield pa.Table.from_batches(held)

        def run() -> Iterator[Any]:
            # no spilling: what a block needs is small, and rows are written nowhere that Spark does not clean up
            connection = duckdb.connect(config={"threads": 1, "temp_directory": ""})
            with suppress(duckdb.Error):  # where DuckDB knows no zones, times are in UTC
                connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET VARIABLE dpsql_key = $1", [key])
            for sql in first:
                connection.execute(sql)
            for number, block in enumerate(blocks(), 1):
                connection.register("block", block if called is None else block.rename_columns(called))
                for sql in each:
                    connection.execute(sql)
                if shown:
                    yield from batches_of(connection, shown)
                connection.unregister("block")
                if number % blocks_between == 0:
                    for sql in pack:
                        connection.execute(sql)
            if last:
                yield from batches_of(connection, last)
            connection.close()

        try:
            yield from run()
        except Exception:
            raise RuntimeError("dpsql: DuckDB could not count the rows of a task") from None

    return task
