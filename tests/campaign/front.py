"""Hostile texts at a service's door: `python -m tests.campaign.front [--short] [--texts 50000] [--minutes 60] [--seed 1]`.

Two hostile users send statements, values, cursors, settings and questions that are nested, long, quadratic or recursive:
see `front_texts`. A third user asks all the while. Printed are how many texts ended how, how long the third user waited,
the memory of the processes, and what was charged. Ends with 1 if the front or the keeper ended, the third user had to wait
longer than a statement may take in one of 100 times, memory grew, anything was charged twice, or a text met a fault of
ours. A session that ended without a word is printed alone: a process that ends amid a row can say none.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg

import dpsql
from dpsql.service.allowed import FUNCTIONS
from dpsql.service.options import Options
from dpsql.service.process import most_of_user
from dpsql.service.supervisor import serve
from tests.service.processes import workers_of

from .front_texts import Functions, act

SECONDS = 1.0
"""Of a statement; what cannot be interrupted takes twice that."""
MEMORY = "200MB"
MAPPED_MIB = 150
"""Of files, such as libraries, that a process has beside its own data."""
MOST_MIB = {
    "front": 300,
    "keeper": 1000,
    "process of a user": MAPPED_MIB + most_of_user(Options("", memory=MEMORY)) // (1 << 20),
}
"""The front keeps nothing of what users send."""
LATE = "another user waited longer than a statement may take"
UNANSWERED = "a user has no answer, or another one"
HOSTILE, QUIET = ("mallory", "oscar"), "quinn"
FAULT = "a fault of ours was met"
ENDED = "a session ended that should have gone on"
ENDS = {
    "54001": "ended their own process",
    "57014": "were ended at twice the time",
    "53200": "ended their session: there was no room for what it keeps",
    "08P01": "ended their session: a message was longer than it may be",
    "57P03": "came while the keeper was starting",
}
"""What may end a session, by its code. A connection that ends without a word is in none of them."""
EPSILON = 0.05
ASKED = f"SELECT * FROM dp_query('SELECT count(*) AS n FROM t', epsilon => {EPSILON})"


def functions_served() -> Functions:
    """The functions with one to three arguments."""
    with duckdb.connect() as db:
        rows = db.execute(
            "SELECT DISTINCT lower(function_name), len(parameters) FROM duckdb_functions() WHERE function_type = 'scalar'"
        ).fetchall()
    return sorted(
        (name, count) for name, count in rows if name in FUNCTIONS and name.isidentifier() and 1 <= count <= 3
    )


class Trial:
    """A service, who attacks it, and what was seen."""

    def __init__(self, service: Any, tokens: dict[str, str], texts: int, seed: int, minutes: float) -> None:
        self.until = time.monotonic() + 60 * minutes
        self.service, self.tokens, self.texts, self.seed = service, tokens, texts, seed
        self.outcomes: Counter[str] = Counter()
        self.waited: list[float] = []
        self.answers: set[str] = set()
        self.ended = threading.Event()
        self.largest = dict.fromkeys(MOST_MIB, 0)

    def connected(self, user: str) -> psycopg.Connection[Any]:
        where = f"host=127.0.0.1 port={self.service.port} user={user} password={self.tokens[user]} dbname=dpsql"
        return psycopg.connect(f"{where} sslmode=require", autocommit=True)

    def attack(self, user: str) -> None:
        draw, functions, connection = random.Random(f"{self.seed} {user}"), functions_served(), self.connected(user)
        self.charge(user, connection)
        for _ in range(self.texts // len(HOSTILE)):
            if time.monotonic() > self.until:
                break
            try:
                act(connection, draw, functions)
                self.outcomes["whole"] += 1
            except (psycopg.Error, ValueError, OverflowError) as error:  # some of what is drawn psycopg does not send
                how = ending(connection, error)
                self.outcomes[how] += 1
                if how in (FAULT, ENDED):
                    print(f"{how}: {type(error).__name__}: {error!s:.300}", flush=True)
            connection = self.alive(user, connection)
        self.charge(user, connection)

    def alive(self, user: str, connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        """The connection, or another one in its place."""
        while connection.broken:
            try:
                return self.connected(user)
            except psycopg.OperationalError:
                time.sleep(0.05)  # it came too early
        return connection

    def charge(self, user: str, connection: psycopg.Connection[Any]) -> None:
        """Ask what is charged for, again where it took too long this time, or the session ended meanwhile."""
        while True:
            connection = self.alive(user, connection)
            try:
                connection.execute("ROLLBACK")
                self.answers.add(f"{user}: {connection.execute(ASKED).fetchall()}")
            except psycopg.errors.OutOfMemory:
                connection.close()  # the session's memory is full of what was sent before
                connection = self.connected(user)
                continue
            except psycopg.OperationalError:
                continue
            return

    def ask(self) -> None:
        connection = self.connected(QUIET)
        while not self.ended.is_set():
            began = time.monotonic()
            if len(self.waited) % 20 == 0:
                connection.close()
                connection = self.connected(QUIET)
            try:
                assert connection.execute("SELECT count(*) FROM range(1000)").fetchall() == [(1000,)]
            except psycopg.errors.QueryCanceled:  # it took too long: its time is counted
                connection = self.alive(QUIET, connection)
            self.waited.append(time.monotonic() - began)
            self._weigh()
            time.sleep(0.05)

    def _weigh(self) -> None:
        front, keeper = self.service.process("front"), self.service.process("keeper")
        for name, processes in (("front", [front]), ("keeper", [keeper]), ("process of a user", workers_of(front))):
            self.largest[name] = max([self.largest[name], *map(mebibytes, processes)])

    def run(self) -> None:
        asking = threading.Thread(target=self.ask)
        attacking = [threading.Thread(target=self.attack, args=[user]) for user in HOSTILE]
        for thread in (asking, *attacking):
            thread.start()
        for thread in attacking:
            thread.join()
        self.ended.set()
        asking.join()


def mebibytes(process: int) -> int:
    """Of memory that a process has had at most."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def ending(connection: psycopg.Connection[Any], error: Exception) -> str:
    """How something ended that was not answered."""
    if not connection.broken:
        return FAULT if getattr(error, "sqlstate", None) == "XX000" else "refused"
    return ENDS.get(getattr(error, "sqlstate", None) or "", ENDED)


def tried(texts: int, seed: int, minutes: float, say: Callable[[str], None]) -> Counter[str]:
    """Run it; how many ended how, with what should not be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.duckdb"
        with dpsql.connect(path) as db:
            db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
            db.protect("t", epsilon=3.0, delta=1e-9)
            tokens = {name: db.users.add(name, limits={"t": 1.0}) for name in (*HOSTILE, QUIET)}
        with serve(str(path), port=0, statement_seconds=SECONDS, memory=MEMORY, audit="") as service:
            front, keeper = service.process("front"), service.process("keeper")
            trial = Trial(service, tokens, texts, seed, minutes)
            trial.run()
            lives = (service.process("front"), service.process("keeper")) == (front, keeper)
        with dpsql.connect(path) as db:
            spent = float(db.budget()["epsilon_spent"].iloc[0])
    waited = sorted(trial.waited)
    places = [waited[len(waited) // 2], waited[len(waited) * 99 // 100], waited[-1]]
    say(
        f"DuckDB {duckdb.__version__}, seed {seed}: {trial.outcomes.total():,} of {texts:,} texts of {len(HOSTILE)} users"
    )
    say(f"ended how: {dict(sorted(trial.outcomes.items()))}")
    say(f"the front and the keeper lived throughout: {lives}")
    say(f"another user asked {len(waited)} times: p50, p99 and longest, s: {[round(took, 3) for took in places]}")
    say(f"memory at most, MiB: {trial.largest}")
    say(f"answers of {len(HOSTILE)} users to one question each: {len(trial.answers)}; epsilon spent: {spent:.4f}")
    trial.outcomes["the front or the keeper ended"] += not lives
    trial.outcomes[LATE] += places[1] > SECONDS
    trial.outcomes["memory grew"] += any(trial.largest[name] > most for name, most in MOST_MIB.items())
    trial.outcomes[UNANSWERED] += len(trial.answers) != len(HOSTILE)
    trial.outcomes["charged twice"] += spent > len(HOSTILE) * EPSILON + 1e-9
    return +trial.outcomes


BAD = ("the front or the keeper ended", LATE, "memory grew", UNANSWERED, "charged twice", FAULT)


def texts_at_the_door(times: int) -> Counter[str]:
    """See the module; whatever ends a session, or the sender's own process, is a refusal.

    How long another user waits is not judged, because it is no measure on a machine that does something else besides.
    """
    outcome = tried(times, 1, 15.0, lambda line: None)
    del outcome[LATE]
    bad = Counter({what: outcome[what] for what in BAD})
    whole = outcome["whole"]
    return +(bad + Counter({"whole": whole, "refused": outcome.total() - whole - bad.total()}))


CAMPAIGN = {"hostile texts at a service's door": (texts_at_the_door, 16_000, 200)}


def main() -> int:
    """Print what came out; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description="hostile texts at a service's door")
    parser.add_argument("--short", action="store_true", help="1,000 texts")
    parser.add_argument("--texts", type=int, default=50_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no further text is sent")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = 1_000 if options.short else options.texts
    outcome = tried(texts, options.seed, options.minutes, lambda line: print(line, flush=True))
    wrong = [what for what in BAD if outcome[what]]
    print(f"NOT WELL: {', '.join(wrong)}" if wrong else "well")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
