"""64 three-way marginals of raw Adult, repeated: plain GROUP BYs of Postgres, dpsql's engines, and a table end to end.

    python -m tests.benchmarks.postgres --times 20

CPU seconds are those of this process and of the server's processes that have ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from dpsql.books.ledger.store import Books
from dpsql.engines.registry import engine_of, find_source
from dpsql.owner.protect import domain_of
from tests.conftest import DATA, declare_from_data
from tests.engines.postgres_bank import Bank, bank
from tests.engines.postgres_server import remove, server

MARGINALS = 64


def load(found: Bank, times: int) -> int:
    """The table here, and the same one in Postgres under another name; how many rows."""
    db = found.db
    db.sql(f"CREATE TABLE adult AS SELECT a.* FROM '{DATA}/adult.csv.gz' a, range({times})")
    kinds = db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'adult'").fetchall()
    listed = ", ".join(f"{name} {'text' if kind == 'VARCHAR' else 'int4'}" for name, kind in kinds)
    found.sql(f"CREATE TABLE adult ({listed})")
    with tempfile.TemporaryDirectory() as folder:
        db.sql(f"COPY adult TO '{folder}/adult.csv'")
        with psycopg.connect(found.server.words(found.database), autocommit=True) as connection:
            with connection.cursor().copy("COPY adult FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write(Path(folder, "adult.csv").read_bytes())
            connection.execute("VACUUM ANALYZE adult")
    found.source("remote", "public.adult")
    for table in ("adult", "remote"):
        db.protect(table, epsilon=3.0, delta=1e-9)
    declare_from_data(db, "adult")
    for name, kind in kinds:
        if kind == "VARCHAR":
            rows = db.sql(f'SELECT DISTINCT "{name}" FROM adult WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
            db.domain("remote", name, values=[value for (value,) in rows])
        else:
            low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM adult').fetchall()[0]
            db.domain("remote", name, lower=low, upper=high)
    return int(db.sql("SELECT count(*) FROM adult").fetchall()[0][0])


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints a line of the table."""

    def cpu() -> float:
        postmaster = psutil.Process(int((server().data / "postmaster.pid").read_text().split()[0]))
        of_server, own = postmaster.cpu_times(), os.times()
        return float(of_server.children_user + of_server.children_system + own.user + own.system)

    begun, used = time.perf_counter(), cpu()
    yield
    seconds = time.perf_counter() - begun
    time.sleep(0.5)  # until the server has noticed that its processes ended
    print(f"| {what} | {seconds:.1f} | {cpu() - used:.1f} |", flush=True)


def counted(found: Bank, table: str, change: Callable[[Any], None]) -> list[dict[int, int]]:
    """The cells of all marginals."""
    cursor = found.db.connection.cursor()
    source = find_source(cursor, f"bank.main.{table}")
    domain = domain_of(Books(cursor, source.catalog), source)
    cells = []
    with closing(engine_of(cursor, source)) as engine, closing(engine.counter(source, domain)) as counter:
        change(counter)
        for clique in cliques(domain.names):
            marginal = counter.marginal(clique)
            cells.append(dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True)))
    return cells


def cliques(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The same for all."""
    return random.Random(0).sample(list(itertools.combinations(names, 3)), MARGINALS)


def without_cuboid(counter: Any) -> None:
    """As of a user who may make no temporary table."""
    counter._cuboid = False


def ask_peer(found: Bank, python: str, rows: int, names: tuple[str, ...]) -> None:
    """The same marginals by smartnoise-sql, with noise of its own."""
    script = Path(__file__).with_name("smartnoise_sql.py")
    call = [python, str(script), found.server.words(found.database), str(rows), json.dumps(cliques(names))]
    with timed("smartnoise-sql on Postgres, CPU of the server alone"):
        done = subprocess.run(call, check=True, capture_output=True, text=True)
    cells, seconds, used = done.stdout.split()
    print(f"| smartnoise-sql itself, {cells} cells kept | {float(seconds):.1f} | {float(used):.1f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="how often each row of Adult is there")
    parser.add_argument("--peer", help="the Python of an environment that has smartnoise-sql and psycopg2-binary")
    arguments = parser.parse_args()
    times = arguments.times
    with tempfile.TemporaryDirectory() as folder, bank(Path(folder)) as found:
        rows = load(found, times)
        print(f"{rows:,} rows, {MARGINALS} marginals\n\n| way | seconds | CPU seconds |\n| --- | --- | --- |")
        names = tuple(found.db.sql("FROM adult LIMIT 0").columns)
        way = timed("Postgres, plain GROUP BYs of the values")
        with way, psycopg.connect(found.server.words(found.database)) as connection:
            for clique in cliques(names):
                listed = ", ".join(f'"{name}"' for name in clique)
                connection.execute(f"SELECT {listed}, count(*) FROM adult GROUP BY {listed}").fetchall()
        if arguments.peer:
            ask_peer(found, arguments.peer, rows, names)
        with timed("dpsql on Postgres, no temporary table"):
            plain = counted(found, "remote", without_cuboid)
        with timed("dpsql on Postgres"):
            there = counted(found, "remote", lambda counter: None)
        with timed("dpsql on a DuckDB file"):
            here = counted(found, "adult", lambda counter: None)
        assert plain == there == here
        for table in ("remote", "adult"):
            with timed(f"dp_synthesize('{table}', epsilon := 1), whole"):
                made = f"dp_synthesize('{table}', epsilon := 1.0, workload := 'all 2-way')"
                shown = found.db.sql(f"SELECT age, education, sex, income FROM {made} LIMIT 5").fetchall()
        print("\n", *shown, sep="\n")
    remove()


if __name__ == "__main__":
    main()
