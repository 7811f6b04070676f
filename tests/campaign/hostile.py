"""Hostile input: statements made of pieces of statements, names that are no names, and requests that would take for ever."""

from __future__ import annotations

import logging
import multiprocessing
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import dpsql
from dpsql.errors import DpsqlError
from dpsql.language.parse import parse_query
from dpsql.language.scope import Scope, Unlinked
from dpsql.release.query_answers import QueryRequest, resolve_query

FIXTURES = Path(__file__).parents[1] / "fixtures" / "workload"
CANARY = "canary-4711"
ODD = [
    *("'", '"', ";", "--", "/*", "*/", "$$", "\\", "\0", "(", ")", "((((", "))))", ",", ".", "::", "?", "$1", "%", "*"),
    *("NULL", "SELECT", "FROM", "WHERE", "GROUP BY", "UNION ALL", "OVER ()", "DISTINCT", "LATERAL", "WITH", "AS", "🙈"),
    *(
        "9" * 400,
        "1e999",
        "-0.0",
        "'a' || 'b'",
        "x'00'",
        "[1, 2]",
        "{'a': 1}",
        "lambda x: x",
        "CASE",
        "END",
        "INTERVAL 1",
    ),
    *(
        "count(*)",
        "sum(age)",
        "avg(",
        "error('x')",
        "random()",
        "getenv('HOME')",
        "read_csv('/etc/passwd')",
        "dpsql.account",
    ),
]


class _Known(Unlinked):
    """One protected table `people`, without a database."""

    columns = ("age", "sex", "mood", "sick", "hours", "city", "born", "seen", "wage", "height", "grade", "grade_points")

    def find(self, table: Any) -> Scope:
        """Whatever it is called."""
        from sqlglot import exp

        if table.name not in ("people", "renamed", "sick_people"):
            raise DpsqlError("there is no such table")
        return Scope(None, {name: exp.column(name, quoted=True) for name in self.columns})

    def public(self, table: Any) -> Any:
        """None is."""
        raise DpsqlError("there is no such table")

    def is_public(self, table: Any) -> bool:
        """None is."""
        return False

    def aggregates(self) -> frozenset[str]:
        """Those that DuckDB has beside the ones that are counted."""
        return frozenset({"histogram", "entropy"})


def corpus() -> list[str]:
    """All statements of the golden suites."""
    lines: list[str] = []
    for path in sorted(FIXTURES.glob("*.sql")):
        lines += [line.split(" -> ")[0] for line in path.read_text(encoding="utf-8").splitlines() if line]
    return lines


class Mutant:
    """Statements that were made of others: tokens left out, doubled, swapped, replaced, or two halves put together."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._known = [re.findall(r"\w+|\s+|[^\w\s]", line) for line in corpus()]

    def statement(self) -> str:
        """One."""
        chance = self._chance
        tokens = list(chance.choice(self._known))
        for _ in range(chance.choice((1, 1, 2, 3, 8))):
            place, how = chance.randrange(len(tokens) + 1), chance.randrange(6)
            if how == 0:
                del tokens[place : place + chance.randrange(1, 4)]
            elif how == 1:
                tokens[place:place] = tokens[max(0, place - chance.randrange(1, 9)) : place]
            elif how == 2 and tokens:
                other = chance.randrange(len(tokens))
                tokens[place % len(tokens)], tokens[other] = tokens[other], tokens[place % len(tokens)]
            elif how == 3:
                tokens[place:place] = [" ", chance.choice(ODD), " "]
            elif how == 4:
                found = chance.choice(self._known)
                tokens = tokens[:place] + found[chance.randrange(len(found)) :]
            else:
                tokens[place:place] = ["("] * chance.choice((1, 3, 60))
        return "".join(tokens)[:20_000]


def _judge(outcome: Counter[str], statement: str, work: Callable[[], object]) -> None:
    """Count what becomes of a statement; print what crashed."""
    try:
        work()
    except DpsqlError as error:
        outcome["refused" if CANARY not in str(error) else "lost"] += 1
    except Exception as error:  # what the campaign is for
        outcome["crashed"] += 1
        print(f"{type(error).__name__} {error!s:.200}: {statement[:500]!r}", flush=True)
    else:
        outcome["whole"] += 1


def _parse_many(job: tuple[int, int]) -> Counter[str]:
    seed, count = job
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    mutant, outcome, catalog = Mutant(seed), Counter[str](), _Known()
    for _ in range(count):
        statement = mutant.statement()
        _judge(outcome, statement, partial(parse_query, statement, catalog))
    return outcome


def parsed(times: int) -> Counter[str]:
    """Parsed and taken apart, never run: an analysis or a refusal, on all cores."""
    each = 2_000
    jobs = [(seed, min(each, times - seed * each)) for seed in range(-(-times // each))]
    with multiprocessing.get_context("spawn").Pool() as pool:
        return sum(pool.imap_unordered(_parse_many, jobs), Counter())


def _tables(db: dpsql.Database) -> None:
    db.sql(
        f"CREATE TABLE people AS SELECT '{CANARY}' AS city, 'F' AS sex, i AS age, i % 2 = 0 AS sick FROM range(99) r(i)"
    )
    db.protect("people", epsilon=3.0, delta=1e-6, enums=True)
    db.domain("people", "age", lower=0, upper=98)
    db.domain("people", "sex", values=["F", "M"])
    db.domain("people", "city", values=["Rome", "Paris"])


def resolved(times: int) -> Counter[str]:
    """Resolved on a database whose rows hold a canary: no crash, nothing charged, no canary in an error."""
    mutant, outcome = Mutant(99), Counter[str]()
    with dpsql.connect() as db, db.instance.cursor() as cursor:
        _tables(db)
        for _ in range(times):
            statement = mutant.statement()
            _judge(outcome, statement, partial(resolve_query, cursor, QueryRequest(statement, 0.1), to_charge=False))
        outcome["overspent"] += db.budget().releases[0] > 0
    return +outcome


def names(times: int) -> Counter[str]:
    """Names of tables and columns of any characters: protected, declared, asked and made, and told as they are."""
    outcome, chance = Counter[str](), random.Random(3)
    letters = [*"aZ \"';-./%$\\`[]{}()äß漢🙈\t\n", "--", "/*", "SELECT", "dpsql", "rowid"]
    for number in range(times):
        table, column = ("".join(chance.choices(letters, k=chance.randrange(1, 9))).strip() or "x" for _ in range(2))
        quoted, named = ('"' + name.replace('"', '""') + '"' for name in (table, column))
        with dpsql.connect() as db:
            try:
                db.sql(f"CREATE TABLE {quoted} AS SELECT i % 2 = 0 AS {named} FROM range(50) r(i)")
            except duckdb.Error:
                continue
            try:
                db.protect(quoted, epsilon=3.0, delta=1e-6)
                query = f"SELECT {named}, count(*) AS n FROM {quoted} GROUP BY {named}"
                shown = db.connection.execute("FROM dp_query(?, epsilon := 0.5)", [query]).description[0][0]
                if number % 10 == 0:
                    made = db.connection.execute(
                        "FROM dp_synthesize(?, epsilon := 0.5, relaxed_rows := 4, steps := 2)", [quoted]
                    ).description[0][0]
                    shown = shown if made == shown else made
                outcome["whole" if shown == column else "lost"] += 1
            except (DpsqlError, duckdb.Error) as error:
                outcome["refused"] += 1
                if "internal error" in str(error):
                    outcome["crashed"] += 1
                    print(f"{table!r} {column!r}: {error}", flush=True)
    return outcome


BOMBS = {
    "12 columns of 50 values, whole": (
        "FROM dp_synthesize('wide', epsilon := 0.1, mechanism := 'mwem', workload := '{all}')",
        "3.91e+20 cells",
    ),
    "as a barak": ("FROM dp_synthesize('wide', epsilon := 0.1, mechanism := 'barak')", "3.91e+20 records"),
    "as a plan": ("FROM dp_plan('wide', epsilon := 0.1, workload := '{all}')", "3.91e+20 cells"),
    "as a query": (
        "FROM dp_query('SELECT {columns}, count(*) FROM wide GROUP BY ALL', epsilon := 0.1)",
        "3.1e+20 groups",
    ),
    "an expression of all": (
        "FROM dp_query('SELECT count(*) FROM wide WHERE {sum} > 3', epsilon := 0.1)",
        "3.1e+20 combinations",
    ),
    "2^12 grouping sets": (
        "FROM dp_query('SELECT count(*) FROM wide GROUP BY CUBE ({columns})', epsilon := 0.1)",
        "more than 1024 grouping sets",
    ),
    "ten million rows of output": (
        "FROM dp_synthesize('wide', epsilon := 0.1, rows := 10000000000)",
        "rows is 10000000000",
    ),
    "many rounds": (
        "FROM dp_synthesize('wide', epsilon := 0.1, mechanism := 'mwem', rounds := 100000000)",
        "rounds is 1e+08",
    ),
    "a million bins": (
        "FROM dp_domain('wide', 'c0', lower := 0, upper := 1e9::BIGINT, bins := 100000000)",
        "bins is 100000000",
    ),
    "a fact of all": ("FROM dp_constraint('wide', '{sum} > 3')", "390877006486250192896 tuples"),
    "a release that is none": ("FROM dp_measurements('{long}')", "no release is called"),
    "a table that is none": ("FROM dp_protect('{long}', epsilon := 1.0, delta := 1e-6)", "longer than 4096"),
    "a plan of what is none": ("FROM dp_plan('{long}', epsilon := 0.1)", "longer than 4096"),
    "texts of any width": (
        "FROM dp_plan('SELECT count(*) FROM wide WHERE length(printf(''%2000000000d'', c0)) > 3', epsilon := 1)",
        "printf(…) cannot be used",
    ),
    "texts of a value's width": (
        "FROM dp_query('SELECT count(*) FROM wide WHERE lpad(''x'', c0 * 20000000) > ''a''', epsilon := 1)",
        "can be of any length",
    ),
    "texts that are compared": (
        "FROM dp_plan('SELECT count(*) FROM wide WHERE levenshtein(lpad(''x'', 9000, ''y''), lpad(''x'', 9000, ''z'')) "
        "> 3', epsilon := 1)",
        "compares texts that are too long",
    ),
    "texts in texts": (
        "FROM dp_plan('SELECT count(*) FROM wide WHERE {replaced} > ''a''', epsilon := 0.1)",
        "could be texts of",
    ),
    "a list of lists": (
        "FROM dp_plan('SELECT count(*) FROM wide WHERE len(list_resize([1], 1000000000)) > c0', epsilon := 1)",
        "list_resize(…) cannot be used",
    ),
    "20,000 conditions": (
        "FROM dp_query('SELECT count(*) FROM wide WHERE {or}', epsilon := 0.1)",
        "more than 12000 times AND or OR",
    ),
    "all marginals of 6": (
        "FROM dp_synthesize('wide', epsilon := 0.1, workload := 'all 6-way', mechanism := 'rap')",
        "1.83e+13 cells",
    ),
}
"""What asks for too much, and a part of why it is refused."""


def _told(db: dpsql.Database, call: str, times: int) -> tuple[str | None, float]:
    """What a call is refused with, None if it is not, and the median of the seconds that it takes."""
    took, told = [], None
    for _ in range(max(5, times)):
        began = time.perf_counter()
        try:
            db.execute(call).fetchall()  # `sql` would prepare it once more, to say where in the text it is wrong
            told = None
        except duckdb.Error as error:
            told = str(error)
        took.append(time.perf_counter() - began)
    return told, sorted(took)[len(took) // 2]


def bombs(times: int) -> Counter[str]:
    """On every function: refused before a charge for what it asks, by the median of five calls in under 10 ms (else it
    is late).
    """
    outcome = Counter[str]()
    columns = [f"c{n}" for n in range(12)]
    words = {
        "columns": ", ".join(columns),
        "all": f"SELECT count(*) FROM wide GROUP BY {', '.join(columns)}",
        "sum": " + ".join(columns),
        "long": "x" * 100_000,
        "replaced": "replace(" * 12 + "''x''" + ", ''x'', ''xxxxxxxxxx'')" * 12,
        "or": " OR ".join(["c0=1"] * 20_000),
    }
    with dpsql.connect() as db:
        db.sql(f"CREATE TABLE wide AS SELECT {', '.join(f'i % 50 AS {name}' for name in columns)} FROM range(100) r(i)")
        db.protect("wide", epsilon=3.0, delta=1e-6)
        for name in columns:
            db.domain("wide", name, lower=0, upper=49)
        for what, (call, reason) in BOMBS.items():
            told, took = _told(db, call.format(**words), times)
            refused = told is not None and reason in told
            outcome["wrong" if not refused else "late" if took > 0.010 else "refused"] += 1
            if not refused or took > 0.010:
                print(f"{what}: in {took * 1000:.1f} ms {'answered' if told is None else told[:200]}", flush=True)
        _, took = _told(db, f"FROM no_such_function('{words['or']}')", times)
        print(f"a text of {len(words['or'])} characters: refused by DuckDB itself in {took * 1000:.1f} ms", flush=True)
        outcome["overspent"] += db.budget().releases[0] > 0
    return +outcome


CAMPAIGN: dict[str, tuple[Callable[[int], Counter[str]], int, int]] = {
    "fuzz: statements parsed": (parsed, 1_000_000, 10_000),
    "fuzz: statements resolved": (resolved, 10_000, 200),
    "fuzz: names of tables and columns": (names, 500, 20),
    "requests that would take for ever": (bombs, 5, 5),
}
"""What is done, how often in the campaign, and how often in its short form."""
