"""How long a charge takes in a ledger of 10 to 10⁶ events: made in seconds, opened, and charged.

    python tests/benchmarks/ledger.py [--most 1000000] [--write]

A charge is what `charging.charge` does: from the look at the ledger to the commit of the transaction and the write of the
head, with both fsyncs. Beside it how long `dpsql.connect` and `dpsql ledger verify` take. The median of 15 charges each, in one process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import dpsql
from dpsql.books.accounts import charging
from dpsql.books.accounts.charging import Charge
from dpsql.books.ledger import accounts
from dpsql.books.ledger.store import Books
from dpsql.core.domain import Domain
from dpsql.owner.account_changes import inspect
from dpsql.privacy.accounting import make_budget

sys.path.insert(0, str(Path(__file__).parents[1]))
import ledgers

CHARGES = 15


def measure(folder: Path, events: int, most_verified: int) -> list[str]:
    """One line of the table: a ledger of so many events."""
    path = folder / f"{events}.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(10) r(i)")
        db.protect("t", epsilon=500.0, delta=1e-6)
        db.query("SELECT count(*) AS n FROM t", epsilon=0.01)
    start = time.perf_counter()
    with duckdb.connect(str(path)) as con:
        number, digest, account = ledgers.extend(con, "t", max(0, events - 3))
    ledgers.forge_head(path, number, digest, {"t": account}, published={"t": number // 2})
    made = time.perf_counter() - start
    start = time.perf_counter()
    with dpsql.connect(path) as db:
        opened = time.perf_counter() - start
        taken = [charge(db, str(events), number) for number in range(CHARGES)]
    verified = float("nan")
    if events <= most_verified:
        start = time.perf_counter()
        with duckdb.connect(str(path), read_only=True) as con:
            found = inspect(con, str(events))
        verified = time.perf_counter() - start
        assert "release" in str(found.flaw)  # those that were made up have no answers; the ledger itself is right
    wall = statistics.median(wall for wall, _ in taken)
    cpu = statistics.median(cpu for _, cpu in taken)
    shown = [
        f"{events:,}",
        f"{1000 * wall:.1f}",
        f"{1000 * cpu:.1f}",
        f"{opened:.2f}",
        f"{verified:.1f}",
        f"{made:.1f}",
    ]
    print("  ".join(shown), flush=True)
    return shown


def charge(db: dpsql.Database, catalog: str, number: int) -> tuple[float, float]:
    """Wall and CPU seconds of one charge."""
    budget = make_budget(0.01, 1e-6, "gdp")
    with db.instance.cursor() as cursor:
        books = Books(cursor, catalog)
        since = accounts.account_now(books, "t").since
        asked = Charge(f"{number:064}", "t", since, '{"reuse": true}', Domain(()), "query (gaussian)", "none", budget)
        wall, cpu = time.perf_counter(), time.process_time()
        charging.charge(books, asked)
        return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Measure every length, print it, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="events of the longest ledger")
    parser.add_argument("--verify", type=int, default=1_000_000, help="events of the longest that is verified whole")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    heading = ["events", "charge, ms", "CPU ms", "connect, s", "verify, s", "made in, s"]
    print("  ".join(heading))
    lengths = [length for length in (10, 10**3, 10**4, 10**5, 10**6) if length <= options.most]
    with tempfile.TemporaryDirectory() as folder:
        lines = [measure(Path(folder), length, options.verify) for length in lengths]
    if options.write:
        import results

        results.write("Ledger", results.table(heading, lines))


if __name__ == "__main__":
    main()
