"""Nested, long, quadratic and recursive texts, at the place where people's expressions are tried.

Most go through `dp_plan`, which is free, as a user of the service would send them; the others straight to the process in
which expressions are tried, where nothing was refused before. All are sent by a process that stands for the keeper. It
must live, answer a plain question between any two hundred of them, keep its memory, and charge nothing.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb

import dpsql
from dpsql.errors import DpsqlError
from dpsql.evaluation import sandbox

_EVERY = 200
_LATE = 10.0  # seconds that a plain question may take, on a machine that does other things too
_MOST_MEMORY = 1 << 30  # bytes that the keeper may grow by
_LONGEST = 2.0  # seconds in place of thirty, so that the campaign ends
NAMES = [
    *sorted(sandbox.plain_functions()),
    *["from_json", "json_pretty", "json_transform", "list_transform", "list_reduce", "printf", "format"],
]
TYPES = [
    "JSON",
    "VARIANT",
    "VARCHAR",
    "VARCHAR[]",
    "INTEGER[][]",
    "STRUCT(a JSON)",
    "MAP(VARCHAR, JSON)",
    "BLOB",
    "BIT",
    "UNION(a INTEGER, b VARCHAR)",
    "VARIANT[]",
    "DOUBLE",
    "DATE",
    "INTERVAL",
    "UUID",
    "STRUCT(a VARIANT)",
    "GEOMETRY",
]
SLOW = [
    "levenshtein",
    "damerau_levenshtein",
    "jaro_similarity",
    "jaro_winkler_similarity",
    "jaccard",
    "hamming",
    "editdist3",
    "json_pretty",
    "json_structure",
    "json_contains",
    "json_merge_patch",
    "list_distinct",
    "regexp_replace",
    "replace",
    "regexp_extract_all",
    "string_split",
    "translate",
    "strip_accents",
    "reverse",
    "md5",
    "list_sort",
    "contains",
]
AROUND = [
    *[("(", ")"), ("[", "]"), ("{'a': ", "}"), ("CASE WHEN ", " THEN 1 END"), ("NOT ", ""), ("- ", ""), ("(a + ", ")")],
    *[("CAST(", " AS VARCHAR)"), ("coalesce(s, ", ")"), ("[s, ", "]"), ("x -> ", ""), ("(SELECT ", ")"), ("~", "")],
    *[("", "::VARCHAR"), ("", "[1]"), ("", "->'$.a'"), ("a = ", ""), ("s || ", ""), ("a BETWEEN 1 AND ", "")],
]
PAIRS = [("[", "]"), ('{"a":', "}"), ("(", ")"), ("<", ">"), ("{'a': ", "}"), ('["', '"]'), ("[[", "]]"), ("\\", "/")]


def _deep_text(draw: random.Random) -> str:
    """A constant, or a call, that is a text of brackets."""
    opening, closing = draw.choice(PAIRS)
    times = int(10 ** draw.uniform(0.5, 4.69))
    left, right = opening.replace("'", "''"), closing.replace("'", "''")
    if draw.random() < 0.2:
        return f"'{left * min(times, 3000)}1{right * min(times, 3000)}'"
    if draw.random() < 0.5:
        return f"(repeat('{left}', {times}) || '1' || repeat('{right}', {times}))"
    return f"(rpad('{left}', {times}, '{left}') || lpad('{right}', {times}, '{right}'))"


def _value(draw: random.Random) -> str:
    return draw.choice([_deep_text(draw), "s", "a", "1", "'x'", "NULL", "'$[0]'", "'$.a'", "s || s", "a::VARCHAR"])


def recursive(draw: random.Random) -> str:
    """Casts and functions that go down a nested value."""
    value = _deep_text(draw)
    for _ in range(draw.randint(1, 4)):
        if draw.random() < 0.6:
            value = f"CAST({value} AS {draw.choice(TYPES)})"
        else:
            more = [_value(draw) for _ in range(draw.randint(0, 2))]
            places = [value, *more]
            draw.shuffle(places)
            value = f"{draw.choice(NAMES)}({', '.join(places)})"
    return f"({value}) IS NULL"


def nested(draw: random.Random) -> str:
    """Expressions inside one another."""
    times = int(10 ** draw.uniform(0.5, 3.5))
    name = draw.choice(NAMES)
    opening, closing = draw.choice([(f"{name}(", ")"), *AROUND])
    return f"{opening * times}{draw.choice(['a', 's', '1'])}{closing * times} IS NULL"


def long(draw: random.Random) -> str:
    """Long texts and lists."""
    times = int(10 ** draw.uniform(2, 3.3))
    return draw.choice(
        [
            f"s = '{'x' * times}'",
            f"s IN ({', '.join(map(repr, range(times)))})",
            " OR ".join(["a = 1"] * min(times, 5000)),
            f"length([{', '.join(['a'] * times)}]) > 1",
            f"concat({', '.join(['s'] * times)}) = s",
            f"a = 1{'0' * times}",
            f"CASE {'WHEN a = 1 THEN 2 ' * min(times, 3000)} END = 2",
            f"{'x' * times} = 1",
            f"s LIKE '{'%_' * times}'",
            f"regexp_matches(s, '{'(a|b)*' * min(times, 2000)}')",
            f"greatest({', '.join(['a'] * times)}) > 1",
        ]
    )


def quadratic(draw: random.Random) -> str:
    """Functions that take long of long texts."""
    times = int(10 ** draw.uniform(1, 4.9))
    text = draw.choice(
        [f"lpad(s, {times}, 'ab')", f"repeat('ab', {times})", f"'{'ab' * min(times, 2000)}'", _deep_text(draw)]
    )
    name = draw.choice(SLOW)
    if name.startswith("list"):
        text = f"string_split({text}, 'a')"
    more = [] if name in ("json_pretty", "json_structure", "reverse", "md5", "strip_accents") else [text]
    more += ["'x'"] if name in ("regexp_replace", "replace", "translate") else []
    return f"{name}({', '.join([text, *more])}) IS NULL"


KINDS: list[Callable[[random.Random], str]] = [*[recursive] * 8, *[nested] * 5, *[quadratic] * 6, long]


def _one(db: Any, text: str, draw: random.Random) -> str:
    """What comes of a text: refused, or whole."""
    try:
        if draw.random() < 0.08:  # nothing is looked at before
            with sandbox.empty_database() as empty:
                values = "(SELECT range::INTEGER AS a, range::VARCHAR AS s FROM range(20)) t"
                empty.execute(f"SELECT count(*) FROM {values} WHERE {text}").fetchall()
        elif draw.random() < 0.1:
            sandbox.check_syntax(f"SELECT {text}")
        else:
            quoted = text.replace("'", "''")
            where = draw.choice(
                [
                    "SELECT count(*) AS n FROM t WHERE {}",
                    "SELECT {} AS k, count(*) AS n FROM t GROUP BY k",
                    "SELECT {} AS k, n FROM (SELECT a, s, count(*) AS n FROM t GROUP BY a, s)",
                    "SELECT max(k) AS k FROM (SELECT {} AS k FROM (SELECT a, s, count(*) AS n FROM t GROUP BY a, s) AS a)",
                ]
            )
            db.connection.execute(f"FROM dp_plan('{where.format(quoted)}', epsilon := 0.1)").fetchall()
    except (duckdb.Error, DpsqlError):
        return "refused"
    return "whole"


def _memory() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _keeper(seed: int, times: int, told: Any) -> None:
    """Sends texts; tells what came of each `_EVERY`."""
    sandbox._LONGEST = _LONGEST
    draw = random.Random(seed)
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT (i % 20)::INTEGER AS a, (i % 3)::VARCHAR AS s FROM range(1000) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=19)
        db.domain("t", "s", values=["0", "1", "2"])
        before = _memory()
        for began in range(0, times, _EVERY):
            outcome = Counter(_one(db, draw.choice(KINDS)(draw), draw) for _ in range(min(_EVERY, times - began)))
            asked = time.monotonic()
            answer = db.sql(
                f"FROM dp_plan('SELECT count(*) AS n FROM t WHERE a > {began % 19}', epsilon := 0.1)"
            ).fetchall()
            outcome["late"] += time.monotonic() - asked > _LATE or not answer
            outcome["too much memory"] += _memory() - before > _MOST_MEMORY
            outcome["charged"] += db.budget().releases[0] != 0
            told.send({what: count for what, count in outcome.items() if count})


def nested_texts(times: int, seed: int = 0) -> Counter[str]:
    """Send so many texts, a process after another where one dies."""
    outcome: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    while (done := outcome["whole"] + outcome["refused"] + outcome["died"]) < times:
        ours, theirs = context.Pipe(duplex=False)
        keeper = context.Process(target=_keeper, args=(seed + done, times - done, theirs))
        keeper.start()
        theirs.close()
        try:
            while True:
                outcome.update(ours.recv())
        except EOFError:
            pass
        keeper.join()
        if keeper.exitcode:
            outcome["died"] += 1
        if not keeper.exitcode:
            break
    return outcome


CAMPAIGN = {"texts that are nested, long, quadratic, recursive": (nested_texts, 50_000, 400)}

if __name__ == "__main__":  # python -m tests.campaign.nested 50000 1
    began, counted = time.monotonic(), Counter[str]()
    for part in range(0, int(sys.argv[1]), 2_000):
        counted += nested_texts(2_000, 1_000_000 * int(sys.argv[2]) + part)
        print(duckdb.__version__, dict(counted), f"{time.monotonic() - began:.0f} s", flush=True)
