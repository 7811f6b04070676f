"""What a warm query costs: `python -m tests.benchmarks.sandbox_cost [--times 40]`, of which the sandbox's process is a part.

It runs on earlier commits too, where expressions were tried in this process, so that the two can be compared in the same
minutes. Every query is another one, so that nothing is remembered. CPU seconds are those of this process and of its own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import duckdb

import dpsql

QUERIES = {
    "one count": "SELECT count(*) AS n FROM t WHERE a > {}",
    "groups": "SELECT s, count(*) AS n, avg(a) AS m FROM t WHERE a <> {} GROUP BY s",
}


def cpu_seconds() -> float:
    """Of this process, and of those in which expressions are tried."""
    try:
        from dpsql.evaluation import workers
    except ImportError:  # an earlier commit
        return time.process_time()
    ticks = 0
    for worker in workers._pool.all():
        fields = Path(f"/proc/{worker._process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / 100


def main() -> None:
    """Print a line for each query and function."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=40)
    times = parser.parse_args().times
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT (i % 100)::INTEGER AS a, (i % 3)::VARCHAR AS s FROM range(1000) r(i)")
        db.protect("t", epsilon=1000.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=99)
        db.domain("t", "s", values=["0", "1", "2"])
        for name, query in QUERIES.items():
            for function in ("dp_plan", "dp_query"):
                took, used = [], 0.0
                for number in range(times + 5):
                    if number == 5:  # warm
                        used = cpu_seconds()
                    began = time.perf_counter()
                    db.sql(f"FROM {function}('{query.format(number)}', epsilon := 0.1)").fetchall()
                    took.append(time.perf_counter() - began)
                wall, cpu = 1000 * statistics.median(took[5:]), 1000 * (cpu_seconds() - used) / times
                print(f"duckdb {duckdb.__version__} | {name} | {function} | {wall:.1f} ms | {cpu:.1f} CPU ms")


if __name__ == "__main__":
    main()
