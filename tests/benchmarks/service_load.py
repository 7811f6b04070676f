"""A service under load: `python -m tests.benchmarks.service_load [--seconds 60] [--clients 100] [--shared FOLDER]`.

Users ask at the same time, each on connections of their own: plain queries on a released table, free repeats of a
question, and on a few of them questions that are charged. All log in first, which is a burst of its own. Then they ask for as many seconds
without a fit, and for as many beside fits, one after the other. Printed are how often each kind was answered in a second
and how long it took (p50, p99) in both phases, which errors came, and whether the books add up to the last digit.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import psycopg

import dpsql
from tests.conftest import declare_from_data

USERS = 10
EPSILON = 1000.0
CHARGED = 20
"""One client of so many asks what is charged, and nothing else, so that the others do not wait in that queue."""
WITHOUT, BESIDE = "without a fit", "beside fits"
"""Phases."""
REPEATED = "SELECT sex, count(*) AS n FROM adult GROUP BY sex"
PLAIN = (
    "SELECT count(*) FROM shown WHERE age > {}",
    "SELECT sex, avg(age), count(*) FROM shown GROUP BY sex ORDER BY 1",
    "SELECT * FROM shown WHERE age = {} LIMIT 100",
)


def made(folder: Path, data: Path) -> tuple[Path, dict[str, str]]:
    """A database with Adult, a released table and users."""
    path = folder / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql(f"CREATE TABLE adult AS FROM '{data}/adult.csv.gz'")
        db.protect("adult", epsilon=EPSILON, delta=1e-9)
        declare_from_data(db, "adult")
        columns = ["sex", "race", "income", "age"]
        release = db.synthesize("adult", 1.0, columns=columns, mechanism="direct", rows=100_000)
        db.publish(release.entry.number, "shown", audience="everyone")
        return path, {f"user{n}": db.users.add(f"user{n}", limits={"adult": EPSILON / USERS / 2}) for n in range(USERS)}


class Load:
    """What the clients do, and what they measured."""

    def __init__(self, port: int, tokens: dict[str, str], seconds: float) -> None:
        self.port, self.tokens = port, tokens
        self.seconds, self.phase, self.ended = seconds, "login", threading.Event()
        self.took: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.begins = threading.Event()
        self.answers: set[str] = set()
        self.numbers = iter(range(10**9))

    def connected(self, user: str) -> psycopg.Connection:
        where = f"host=127.0.0.1 port={self.port} dbname=dpsql user={user} password={self.tokens[user]}"
        return psycopg.connect(f"{where} sslmode=require", autocommit=True)

    def ask(self, connection: psycopg.Connection, kind: str, sql: str) -> list:
        began, phase = time.monotonic(), self.phase
        try:
            return connection.execute(sql).fetchall()
        except psycopg.Error as error:
            self.errors[f"{kind}: {error.sqlstate} {str(error).splitlines()[0][:70]}"] += 1
            return []
        finally:
            self.took[kind, phase].append(time.monotonic() - began)

    def client(self, number: int) -> None:
        draw, user, began = random.Random(number), f"user{number % USERS}", time.monotonic()
        try:
            connection = self.connected(user)
            self.took["login", self.phase].append(time.monotonic() - began)
        except psycopg.Error as error:
            self.errors[f"login: {str(error).strip()[:90]}"] += 1
            return
        with connection:
            self.begins.wait()
            while not self.ended.is_set():
                if number % CHARGED == 0:
                    release = f"{number}-{next(self.numbers)}"
                    asked = f"SELECT * FROM dp_query('{REPEATED}', epsilon => 0.01, release => '{release}')"
                    self.ask(connection, "charged", asked)
                elif draw.random() < 0.85:
                    self.ask(connection, "plain", draw.choice(PLAIN).format(draw.randrange(90)))
                else:
                    asked = f"SELECT * FROM dp_query('{REPEATED}', epsilon => 0.01, release => '{user}')"
                    self.answers.add(f"{user}: {self.ask(connection, 'free repeat', asked)}")
                time.sleep(draw.random() * 0.5)

    def fits(self) -> None:
        with self.connected("user0") as connection:
            number = 0
            while not self.ended.is_set():
                number += 1
                asked = f"SELECT count(*) FROM dp_synthesize('adult', epsilon => 0.5, steps => 100, release => 'fit{number}')"
                self.ask(connection, "fit", asked)

    def run(self, clients: int) -> None:
        """All phases, one after the other, with the same clients."""
        threads = [threading.Thread(target=self.client, args=[n]) for n in range(clients)]
        for thread in threads:
            thread.start()
        while len(self.took["login", "login"]) + self.errors.total() < clients:
            time.sleep(0.1)
        self.phase = WITHOUT
        self.begins.set()
        time.sleep(self.seconds)
        self.phase = BESIDE
        threads.append(threading.Thread(target=self.fits))
        threads[-1].start()
        time.sleep(self.seconds)
        self.phase = "end"
        self.ended.set()
        for thread in threads:
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[3] / "shared")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, tokens = made(Path(folder), options.shared / "data")
        with dpsql.serve(str(path), port=0, connections=options.clients + 10, queue=200, user_queue=50) as service:
            load = Load(service.port, tokens, options.seconds)
            load.run(options.clients)
        print(f"{options.clients} clients, twice {options.seconds:g} s")
        print(f"{'kind':12} {'phase':16} {'times':>7} {'a second':>9} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}")
        for (kind, phase), took in sorted(load.took.items()):
            one = sorted(took)
            p50, p99 = one[len(one) // 2], one[min(len(one) - 1, len(one) * 99 // 100)]
            rate = f"{len(one) / options.seconds:9.1f}" if phase in (WITHOUT, BESIDE) else " " * 9
            print(f"{kind:12} {phase:16} {len(one):7} {rate} {1000 * p50:9.1f} {1000 * p99:9.1f} {1000 * one[-1]:9.1f}")
        print("errors:", dict(load.errors) or "none")
        told = {answer for answer in load.answers if not answer.endswith("[]")}
        print(f"a repeat had one answer for each user: {len(told) <= USERS}")
        with dpsql.connect(path) as db:
            paid = db.ledger().dropna(subset=["release"])["release"].nunique() - 1
            spent = db.budget()[["epsilon_spent", "releases"]].to_dict("records")
        charged = sum(len(took) for (kind, _), took in load.took.items() if kind in ("charged", "fit"))
        asked = charged + len(told) - load.errors.total()
        print(f"asked and answered for a charge: {asked}; charged: {paid}; the books: {spent}")
        verify = [sys.executable, "-m", "dpsql", "ledger", "verify", str(path)]
        print(subprocess.run(verify, capture_output=True, text=True, check=False).stdout.strip())


if __name__ == "__main__":
    main()
