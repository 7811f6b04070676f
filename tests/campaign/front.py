"""Hostile texts at a service's door: `python -m tests.campaign.front [--short] [--texts 50000] [--minutes 60] [--seed 1]`.

Two hostile users send statements that are nested, long, quadratic or recursive, or values of such kinds to any function
that is served. A third user asks all the while. Printed are how many texts ended how, how long the third user waited,
the memory of the front and of the largest process of a user, and what was charged. Ends with 1 if the front ended, the
third user had to wait longer than a statement may take in one of 100 times, the front's memory grew, or anything was charged twice.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import psycopg

import dpsql
from dpsql.service.allowed import FUNCTIONS
from dpsql.service.supervisor import serve
from tests.service.processes import workers_of

SECONDS = 0.5
"""Of a statement; what cannot be interrupted takes twice that."""
MOST_MIB = 300
"""Of the front, which keeps nothing of what users send."""
HOSTILE, QUIET = ("mallory", "oscar"), "quinn"
EPSILON = 0.05
ASKED = f"SELECT * FROM dp_query('SELECT count(*) AS n FROM t', epsilon => {EPSILON})"
OPENING = [
    *(("(", ")"), ("[", "]"), ("{'a': ", "}"), ("(SELECT ", ")"), ("coalesce(", ", 1)"), ("list_value(", ")")),
    *(("CASE WHEN true THEN ", " END"), ("NOT ", ""), ("- ", ""), ("CAST(", " AS VARCHAR)"), ("abs(", ")")),
    *(
        ("1 + ", ""),
        ("", " || 'a'"),
        ("", "::JSON"),
        ("", "::VARIANT"),
        ("[x FOR x IN [", "]]"),
        ("1 BETWEEN 0 AND ", ""),
    ),
    *(("(WITH c AS (SELECT ", ") SELECT 1)"), ("EXISTS (SELECT ", ")"), ("", " UNION ALL SELECT 1"), ("$1 + ", "")),
    *(("list_transform([1], lambda x: ", ")"), ("struct_pack(a := ", ")"), ("/* ", " */ 1"), ("", "[1]"), ("", ".a")),
    *(("DECLARE c CURSOR FOR SELECT ", ""), ("IF(true, ", ", 2)"), ("(VALUES (", "))"), ("array_value(", ")")),
]
BUILT = {
    "nested": "(SELECT string_agg('[', '') || string_agg(']', '') AS s FROM range({n})) t",
    "objects": "(SELECT string_agg('{{\"a\":', '') || '1' || string_agg('}}', '') AS s FROM range({n})) t",
    "long": "(SELECT string_agg('ab', '') AS s FROM range({n})) t",
    "marks": "(SELECT string_agg(chr(769), '') || string_agg(chr(790), '') AS s FROM range({n})) t",
    "keys": "(SELECT '{{' || string_agg('\"k' || i || '\":' || i, ',') || '}}' AS s FROM range({n}) r(i)) t",
    "numbers": "(SELECT list(i) AS s FROM range({n}) r(i)) t",
}
CASTS = ["s", "s", "s", "s::JSON", "s::JSON::VARIANT", "s::BLOB", "string_split(s, 'a')", "s::VARCHAR"]
RECURSIVE = [
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT max(a) FROM r",
    "WITH RECURSIVE r AS (SELECT '[' AS a UNION ALL SELECT a || a FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a FROM r, range({n})) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT [1] AS a UNION ALL SELECT list_concat(a, a) FROM r) SELECT count(*) FROM r",
]


def statement(draw: random.Random, functions: list[tuple[str, int]]) -> str:
    """One text; most are cheap, a few end the process that reads them."""
    kind = draw.random()
    depth = int(10 ** draw.uniform(0, 4.5 if draw.random() < 0.01 else 2.2))
    if kind < 0.80:
        opening, closing = draw.choice(OPENING)
        other, ending = draw.choice(OPENING)
        depth = min(depth, 99_000 // (len(opening + closing + other + ending) + 1))
        closed = depth if draw.random() < 0.8 else draw.randrange(depth + 1)
        return f"SELECT {(opening + other) * depth}1{(ending + closing) * closed}"
    if kind < 0.997:
        name, count = draw.choice(functions)
        built = BUILT[draw.choice(list(BUILT))].format(n=depth * draw.choices((1, 100, 3000), (0.98, 0.01, 0.01))[0])
        called = f"{name}({', '.join(draw.choice(CASTS) for _ in range(count))})"
        return f"SELECT {draw.choice(('length', 'typeof', 'json_valid', 'hash'))}({called}::VARCHAR) FROM {built}"
    return draw.choice(RECURSIVE).format(n=depth)


def functions_served() -> list[tuple[str, int]]:
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
        self.largest = {"front": 0, "process of a user": 0}

    def connected(self, user: str) -> psycopg.Connection[Any]:
        where = f"host=127.0.0.1 port={self.service.port} user={user} password={self.tokens[user]} dbname=dpsql"
        return psycopg.connect(f"{where} sslmode=require", autocommit=True)

    def texts_of(self, user: str) -> Iterator[str]:
        draw, functions = random.Random(f"{self.seed} {user}"), functions_served()
        return (statement(draw, functions) for _ in range(self.texts // len(HOSTILE)))

    def attack(self, user: str) -> None:
        connection = self.connected(user)
        for number, text in enumerate(self.texts_of(user)):
            if time.monotonic() > self.until:
                return
            self.outcomes["texts"] += 1
            try:
                connection.execute(text.encode()).fetchall()
                self.outcomes["answered"] += 1
            except psycopg.Error as error:
                self.outcomes["refused" if error.sqlstate else "ended without a word"] += error.sqlstate != "54001"
                self.outcomes["ended their own process"] += error.sqlstate == "54001" and connection.broken
                self.outcomes["were ended at twice the time"] += error.sqlstate == "57014" and connection.broken
            while connection.broken:
                try:
                    connection = self.connected(user)
                except psycopg.OperationalError:
                    self.outcomes["logins that came too early"] += 1
                    time.sleep(0.05)
            if number % 500 == 0:
                with suppress(psycopg.Error):  # it took too long this time
                    self.answers.add(f"{user}: {connection.execute(ASKED).fetchall()}")

    def ask(self) -> None:
        connection = self.connected(QUIET)
        while not self.ended.is_set():
            began = time.monotonic()
            if len(self.waited) % 20 == 0:
                connection.close()
                connection = self.connected(QUIET)
            with suppress(psycopg.errors.QueryCanceled):  # it took too long: its time is told below
                assert connection.execute("SELECT count(*) FROM range(1000)").fetchall() == [(1000,)]
            self.waited.append(time.monotonic() - began)
            self._weigh()
            time.sleep(0.05)

    def _weigh(self) -> None:
        front = self.service.process("front")
        for name, processes in (("front", [front]), ("process of a user", workers_of(front))):
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
    """Of memory that a process has."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)


def tried(texts: int, seed: int, minutes: float, say: Callable[[str], None]) -> bool:
    """Run it; whether all went well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.duckdb"
        with dpsql.connect(path) as db:
            db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
            db.protect("t", epsilon=3.0, delta=1e-9)
            tokens = {name: db.users.add(name, limits={"t": 1.0}) for name in (*HOSTILE, QUIET)}
        with serve(str(path), port=0, statement_seconds=SECONDS, memory="200MB", audit="") as service:
            front, keeper = service.process("front"), service.process("keeper")
            trial = Trial(service, tokens, texts, seed, minutes)
            trial.run()
            lives = (service.process("front"), service.process("keeper")) == (front, keeper)
        with dpsql.connect(path) as db:
            spent = float(db.budget()["epsilon_spent"].iloc[0])
    waited = sorted(trial.waited)
    count = trial.outcomes.pop("texts")
    say(f"DuckDB {duckdb.__version__}, seed {seed}: {count:,} of {texts:,} texts of {len(HOSTILE)} users")
    say(f"ended how: {dict(sorted(trial.outcomes.items()))}")
    say(f"the front and the keeper lived throughout: {lives}")
    places = [waited[len(waited) // 2], waited[len(waited) * 99 // 100], waited[-1]]
    say(f"another user asked {len(waited)} times: p50, p99 and longest, s: {[round(one, 3) for one in places]}")
    say(f"memory at most, MiB: {trial.largest}")
    say(f"answers of {len(HOSTILE)} users to one question each: {len(trial.answers)}; epsilon spent: {spent:.4f}")
    well = lives and trial.largest["front"] < MOST_MIB and waited[len(waited) * 99 // 100] < SECONDS
    return well and len(trial.answers) == len(HOSTILE) and spent <= len(HOSTILE) * EPSILON


def main() -> int:
    """Print what came out; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description="hostile texts at a service's door")
    parser.add_argument("--short", action="store_true", help="1,000 texts")
    parser.add_argument("--texts", type=int, default=50_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no further text is sent")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = 1_000 if options.short else options.texts
    well = tried(texts, options.seed, options.minutes, lambda line: print(line, flush=True))
    print("well" if well else "NOT WELL")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
