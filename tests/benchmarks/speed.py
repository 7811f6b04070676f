"""Seconds of the parts: loading, noise, counting, streaming, a query, interrupting; ours and the plain way in one run."""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.engines.duckdb.catalog import find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.owner.protect import domain_of
from dpsql.privacy.noise import discrete_gaussian, discrete_laplace

DATA = Path(__file__).parents[3] / "shared" / "data"


def seconds(work: Callable[[], object]) -> float:
    """The best of three."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


FIRST_ANSWER = """
import dpsql
with dpsql.connect() as db:
    db.sql("CREATE TABLE t AS SELECT i % 3 AS a FROM range(1000) r(i)")
    db.sql("CALL dp_protect('t', epsilon := 1.0, delta := 1e-9)")
    db.sql("CALL dp_domain('t', 'a', lower := 0, upper := 3, bins := 3)")
    db.sql("FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := 0.1)").fetchall()
"""


def loading() -> None:
    """CPU seconds of fresh processes, the least of three."""
    commands = {
        "import dpsql": ["-c", "import dpsql"],
        "import dpsql and what connect needs": ["-c", "from dpsql import connect"],
        "dpsql --help": ["-m", "dpsql", "--help"],
        "connect, protect and the first dp_query": ["-c", FIRST_ANSWER],
    }
    for name, arguments in commands.items():
        used = []
        for _ in range(3):
            before = os.times()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            spent = (after.children_user - before.children_user) + (after.children_system - before.children_system)
            used.append(spent)
        print(f"{name:42} {min(used):5.2f} CPU seconds")


def noise() -> None:
    """Million draws a second, beside numpy's inexact floats."""
    count = 1_000_000
    floats = seconds(lambda: np.random.default_rng().normal(size=count))
    for name, work in (
        ("discrete Gaussian, sigma 5", lambda: discrete_gaussian(Fraction(25), count)),
        ("discrete Gaussian, sigma 1400", lambda: discrete_gaussian(Fraction(1400**2), count)),
        ("discrete Gaussian, sigma 1e6", lambda: discrete_gaussian(Fraction(10**12), count)),
        ("discrete Laplace, b 50", lambda: discrete_laplace(Fraction(50), count)),
    ):
        took = seconds(work)
        print(f"{name:34} {count / took / 1e6:6.1f} million/s   {took / floats:5.1f} x numpy's float normal")


def counting(db: dpsql.Database) -> None:
    """64 three-way marginals of 500,000 rows, beside plain GROUP BYs and numpy's bincount."""
    db.sql(
        "CREATE TABLE big AS SELECT "
        + ", ".join(f"(hash(i, {k}) % {3 + 2 * k})::INTEGER AS c{k}" for k in range(10))
        + " FROM range(500000) r(i)"
    )
    db.protect("big", epsilon=1, delta=1e-9)
    for k in range(10):
        db.domain("big", f"c{k}", lower=0, upper=2 + 2 * k, nulls=False)
    source = find_source(db.connection, "big")
    domain = domain_of(Books(db.connection, source.catalog), source)
    cliques = list(itertools.combinations(domain.names, 3))[:64]

    def ours() -> None:
        with db.instance.cursor() as cursor:
            counter = DuckDBCounter(cursor, source, domain)
            for clique in cliques:
                counter.marginal(clique)
            counter.close()

    def plain() -> None:
        for clique in cliques:
            names = ", ".join(clique)
            db.sql(f"SELECT {names}, count(*) FROM big GROUP BY {names}").fetchnumpy()

    columns = {name: db.sql(f"SELECT {name} FROM big").fetchnumpy()[name] for name in domain.names}

    def numpy() -> None:
        for clique in cliques:
            packed = np.ravel_multi_index(tuple(columns[name] for name in clique), domain.shape(clique))
            np.bincount(packed, minlength=domain.size(clique))

    times = {
        "ours, encoding included": seconds(ours),
        "plain GROUP BY each": seconds(plain),
        "numpy bincount": seconds(numpy),
    }
    for name, took in times.items():
        print(
            f"64 marginals of 500,000 rows: {name:26} {took:6.2f} s   {took / times['ours, encoding included']:5.1f} x ours"
        )


def streaming(db: dpsql.Database) -> None:
    """A released table of a million rows, beside a plain table."""
    db.sql("CREATE TABLE small AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(1000) r(i)")
    db.protect("small", epsilon=1, delta=1e-9)
    call = "dp_synthesize('small', epsilon := 1.0, rows := 1000000, steps := 10, relaxed_rows := 64)"
    db.sql(f"CREATE TABLE copy AS FROM {call}")
    ours = seconds(lambda: db.sql(f"SELECT count(*), sum(a::INT + b::INT) FROM {call}").fetchall())
    plain = seconds(lambda: db.sql("SELECT count(*), sum(a::INT + b::INT) FROM copy").fetchall())
    print(f"a stored release of 1,000,000 rows scanned  {ours:6.3f} s   plain table {plain:.3f} s")


def querying(path: str) -> None:
    """Noisy answers of a 2-way marginal of Adult after the first calls, beside the same GROUP BY, in turns."""
    query = "SELECT education, sex, count(*) AS n FROM adult GROUP BY ALL"
    with dpsql.connect(path) as db:
        db.sql(f"CREATE TABLE adult AS FROM '{DATA}/adult.csv.gz'")
        db.protect("adult", epsilon=1000, delta=1e-9)
        for name in ("education", "sex"):
            listed = f"SELECT DISTINCT {name} FROM adult ORDER BY 1"
            db.domain("adult", name, values=[value for (value,) in db.sql(listed).fetchall()])
        plain, ours = [], []
        for number in range(70):
            call = f"FROM dp_query('{query}', epsilon := 0.1, release := 'call {number}')"
            for taken, statement in ((plain, query), (ours, call)):
                begin = time.perf_counter()
                db.sql(statement).fetchall()
                taken.append(1000 * (time.perf_counter() - begin))
    medians = [statistics.median(taken[10:]) for taken in (plain, ours)]
    print(
        f"dp_query of a 2-way marginal, {path:12} plain {medians[0]:5.1f} ms   ours {medians[1]:5.1f} ms   "
        f"overhead {medians[1] - medians[0]:5.1f} ms"
    )


def interrupting(db: dpsql.Database) -> None:
    """From Database.interrupt() in another thread to the statement's error."""
    db.sql(
        "CREATE TABLE long AS SELECT " + ", ".join(f"i % {3 + k} AS c{k}" for k in range(8)) + " FROM range(1000) r(i)"
    )
    db.protect("long", epsilon=1, delta=1e-9)
    for k in range(8):
        db.domain("long", f"c{k}", lower=0, upper=2 + k)
    pressed: list[float] = []

    def press() -> None:
        time.sleep(6)
        pressed.append(time.perf_counter())
        db.interrupt()

    threading.Thread(target=press).start()
    try:
        db.sql("FROM dp_synthesize('long', epsilon := 0.5, steps := 100000)").fetchall()
    except Exception as error:
        print(f"interrupted after {time.perf_counter() - pressed[0]:.2f} s: {str(error).splitlines()[0][:80]} …")


if __name__ == "__main__":
    loading()
    noise()
    with dpsql.connect() as database:
        counting(database)
        streaming(database)
        interrupting(database)
    querying(":memory:")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        querying("adult.duckdb")
