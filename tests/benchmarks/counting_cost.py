"""What counting 64 three-way marginals takes in each engine, beside what a plan predicts.

    python -m tests.benchmarks.counting_cost --rows 1e6

Rows that repeat are those of Adult, again and again; rows that do not have 15 columns of random values. CPU seconds are
those of this process and of the server's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psutil
import psycopg

from dpsql.books.ledger.store import Books
from dpsql.engines.costs import predict_cost
from dpsql.engines.registry import engine_of, find_source, rates_of
from dpsql.owner.protect import domain_of
from tests.conftest import DATA
from tests.engines.postgres_bank import Bank, bank
from tests.engines.postgres_server import remove, server

MARGINALS = 64
TABLES = {
    "rows that repeat": f"SELECT a.* FROM '{DATA}/adult.csv.gz' a, range({{0}} // 48842) LIMIT {{0}}",
    "rows that do not": "SELECT "
    + ", ".join(f"(hash(i, {n}) % {size})::INTEGER AS c{n}" for n, size in enumerate([2, 5, 9, 16, 42] * 3))
    + " FROM range({0}) r(i)",
}


def spent() -> float:
    """CPU seconds of this process, and of the server's processes that have ended."""
    time.sleep(0.5)  # until the server has noticed that its processes ended
    postmaster = psutil.Process(int((server().data / "postmaster.pid").read_text().split()[0])).cpu_times()
    own = os.times()
    return float(postmaster.children_user + postmaster.children_system + own.user + own.system)


def declare(found: Bank, table: str) -> None:
    """Domains of the values that are there."""
    db = found.db
    db.protect(table, epsilon=3.0, delta=1e-9)
    for name, kind in db.sql(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'here'"
    ).fetchall():
        if kind == "VARCHAR":
            rows = db.sql(f'SELECT DISTINCT "{name}" FROM here WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
            db.domain(table, name, values=[value for (value,) in rows])
        else:
            low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM here').fetchall()[0]
            db.domain(table, name, lower=low, upper=high)


def counted(found: Bank, table: str, rows: int, columns: int, marginals: int) -> tuple[str, int, str]:
    """Count some marginals of so many columns of a table.

    Returns:
        The engine, how many marginals there were, and three columns of a table: CPU seconds, what was predicted, and
        whether they are within three times that.
    """
    cursor = found.db.connection.cursor()
    source = find_source(cursor, f"bank.main.{table}")
    domain = domain_of(Books(cursor, source.catalog), source)
    every = list(itertools.combinations(domain.names, columns))
    cliques = random.Random(0).sample(every, min(marginals, len(every)))
    begun = spent()
    with closing(engine_of(cursor, source)) as engine, closing(engine.counter(source, domain)) as counter:
        for clique in cliques:
            counter.marginal(clique)
    took = spent() - begun
    rates = rates_of(source)
    assert rates is not None
    cost = predict_cost(rates, domain, cliques, rows)
    assert cost.seconds is not None
    low, high = cost.seconds
    fits = "yes" if low / 3 <= took <= 3 * high else "no"
    return source.engine, len(cliques), f"{took:.2f} | {low:.2f} to {high:.2f} | {fits}"


def measure(found: Bank, what: str, table: str, rows: int) -> None:
    """Print a line of the table."""
    engine, _, figures = counted(found, table, rows, 3, MARGINALS)
    print(f"| {engine} | {what} | {figures} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    rows = int(parser.parse_args().rows)
    print(
        f"{rows:,} rows, {MARGINALS} marginals\n\n| engine | table | CPU s | predicted | within 3 |\n| --- |"
        + " --- |" * 4
    )
    for what, query in TABLES.items():
        with tempfile.TemporaryDirectory() as folder, bank(Path(folder)) as found:
            db = found.db
            db.sql(f"CREATE TABLE here AS {query.format(rows)}")
            db.sql(f"COPY here TO '{folder}/here.parquet'")
            db.source("files", files=f"{folder}/here.parquet")
            kinds = db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'here'").fetchall()
            listed = ", ".join(f'"{name}" {"text" if kind == "VARCHAR" else "int4"}' for name, kind in kinds)
            found.sql(f"CREATE TABLE here ({listed})")
            db.sql(f"COPY here TO '{folder}/here.csv'")
            with psycopg.connect(found.server.words(found.database), autocommit=True) as connection:
                with connection.cursor().copy("COPY here FROM STDIN (FORMAT csv, HEADER)") as copy:
                    copy.write(Path(folder, "here.csv").read_bytes())
                connection.execute("VACUUM ANALYZE here")
            found.source("remote", "public.here")
            for table in ("files", "remote"):
                declare(found, table)
                measure(found, what, table, rows)
    remove()


if __name__ == "__main__":
    main()
