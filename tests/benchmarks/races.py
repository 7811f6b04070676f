"""16 threads on one budget of which five releases fit, as cursors and as connections; then a second process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb

import dpsql
from dpsql.privacy.accounting import gaussian_gdp, largest_epsilon

FITTING = 5


def race(kind: str) -> None:
    """One race; prints how many were released and refused."""
    path = str(Path(tempfile.mkdtemp()) / "bank.duckdb")
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        epsilon = largest_epsilon(gaussian_gdp(1.0, 1e-6) / FITTING, 1e-6)
        outcomes: list[str] = []
        start = threading.Barrier(16)

        def work(number: int) -> None:
            config = {"allow_unsigned_extensions": "true"}
            con = db.connection.cursor() if kind == "cursors" else duckdb.connect(path, config=config)
            start.wait()
            how = f"relaxed_rows := 4, steps := 2, rows := 3, release := 'r{number}'"
            try:
                con.execute(f"FROM dp_synthesize('t', epsilon := {epsilon!r}, {how})").fetchall()
                outcomes.append("released")
            except duckdb.Error:
                outcomes.append("refused")
            con.close()

        begin = time.monotonic()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent = db.budget().epsilon_spent[0]
        print(
            f"{kind:12} 16 threads, {FITTING} fit: {outcomes.count('released')} released, {outcomes.count('refused')} "
            f"refused, epsilon spent {spent:.6f} of 1 ({time.monotonic() - begin:.1f} s)"
        )
        other = subprocess.run(
            [sys.executable, "-c", f"import dpsql; dpsql.connect({path!r})"],
            capture_output=True,
            text=True,
            check=False,
        )
        if kind == "cursors":
            print(f"second process: {other.stderr.strip().splitlines()[-1][:110]} …")


if __name__ == "__main__":
    race("cursors")
    race("connections")
