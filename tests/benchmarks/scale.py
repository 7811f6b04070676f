"""Counting at scale: 64 three-way marginals of many rows × 15 columns, under a memory limit, beside plain SQL and numpy.

`random` rows hardly repeat, so grouping them first would only cost time; `repeated` ones are 50,000 distinct tuples.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.engines.duckdb.catalog import find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.owner.protect import domain_of

COLUMNS = 15


def prepare(db: dpsql.Database, rows: int, kind: str) -> None:
    """The table, protected and declared."""
    value = "i" if kind == "random" else "i % 50000"
    columns = ", ".join(f"(hash({value}, {k}) % {3 + k})::INTEGER AS c{k}" for k in range(COLUMNS))
    db.sql(f"CREATE TABLE t AS SELECT {columns} FROM range({rows}) r(i)")
    db.protect("t", epsilon=10, delta=1e-12)
    for k in range(COLUMNS):
        db.domain("t", f"c{k}", lower=0, upper=2 + k, nulls=False)


def timed(work) -> float:
    """Seconds of one run."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Print one line for each way of counting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=5e6)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    lines: list[list[str]] = []
    for kind in ("random", "repeated"):
        folder = Path(tempfile.mkdtemp())
        limits = {"memory_limit": options.memory, "temp_directory": str(folder / "spill")}
        with dpsql.connect(folder / "scale.duckdb", config=limits) as db:
            prepare(db, int(options.rows), kind)
            lines += report(db, kind, int(options.rows), options.memory)
        for file in folder.iterdir():
            if file.is_file():
                file.unlink()
    if options.write:
        import results

        results.write("Counting at scale", results.table(["rows", "what", "seconds"], lines))


def report(db: dpsql.Database, kind: str, rows: int, memory: str) -> list[list[str]]:
    """Time the ways on one table; returns the lines."""
    source = find_source(db.connection, "t")
    domain = domain_of(Books(db.connection, source.catalog), source)
    every = list(itertools.combinations(domain.names, 3))
    chosen = np.random.default_rng(0).choice(len(every), 64, replace=False)
    cliques = [every[i] for i in chosen]
    names = ", ".join(domain.names)

    def ours() -> None:
        with db.instance.cursor() as cursor:
            counter = DuckDBCounter(cursor, source, domain)
            for clique in cliques:
                counter.marginal(clique)
            counter.close()

    def plain() -> None:
        for clique in cliques:
            db.sql(f"SELECT {', '.join(clique)}, count(*) FROM t GROUP BY ALL").fetchnumpy()

    def bincount() -> None:
        columns = {name: db.sql(f"SELECT {name} FROM t").fetchnumpy()[name] for name in domain.names}
        for clique in cliques:
            packed = np.ravel_multi_index(tuple(columns[name] for name in clique), domain.shape(clique))
            np.bincount(packed, minlength=domain.size(clique))

    ways = {
        "one GROUP BY of all columns": lambda: db.sql(
            f"SELECT count(*) FROM (SELECT {names}, count(*) FROM t GROUP BY ALL)"
        ).fetchall(),
        "64 plain GROUP BYs": plain,
        "64 marginals, ours, encoding included": ours,
    }
    if rows <= 20_000_000:
        ways["64 numpy bincounts, fetching included"] = bincount
    print(f"{kind}, {rows:,} rows x {COLUMNS} columns, memory limit {memory}")
    lines = []
    for name, work in ways.items():
        seconds = timed(work)
        lines.append([f"{rows:,} {kind}", name, f"{seconds:.2f}"])
        print(f"  {name:40} {seconds:7.2f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  peak memory of the process {peak:.2f} GiB")
    return [*lines, [f"{rows:,} {kind}", f"peak memory of the process, limit of DuckDB {memory}", f"{peak:.2f} GiB"]]


if __name__ == "__main__":
    main()
