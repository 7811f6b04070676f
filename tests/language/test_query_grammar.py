"""Random statements: each is answered as DuckDB answers it on the raw rows, or refused; none ends in anything else.

60 by default; in the slow run 2,000, or as many as DPSQL_STATEMENTS says, in blocks: 10,000 take a quarter of an hour.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.books.releases.publication import typed_answers
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.frames import shown_as
from dpsql.errors import DpsqlError
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.linear import exact_answers
from dpsql.release.answers_frame import answers_frame
from dpsql.release.intervals import Noisy
from dpsql.release.query_answers import QueryRequest, resolve_query

from ..release.test_query import TABLES, plain

NUMBERS = ["age", "hours", "wage"]
TEXTS = ["sex", "city", "grade"]
PLAIN = [*NUMBERS, *TEXTS, "mood", "sick", "born"]


class Grammar:
    """Writes statements that are mostly right."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _one(self, *choices):
        return self._random.choice(choices)

    def number(self, depth=0) -> str:
        if depth > 2 or self._random.random() < 0.5:
            return self._one(*NUMBERS, str(self._random.randint(-3, 90)), "2.5")
        a, b = self.number(depth + 1), self.number(depth + 1)
        return self._one(
            f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"({a} // 10)", f"({a} % 7)", f"abs({a})", f"-({a})",
            f"coalesce({a}, {b})", f"greatest({a}, {b})", f"CASE WHEN {self.condition(depth + 1)} THEN {a} ELSE {b} END",
            f"length({self.text(depth + 1)})", "year(born)", "month(born)", f"({self.condition(depth + 1)})::INT",
            f"floor({a} / 3)", f"round({a}, 1)",
        )  # fmt: skip

    def text(self, depth=0) -> str:
        if depth > 2 or self._random.random() < 0.6:
            return self._one(*TEXTS, "'F'", "'Berlin'", "mood::VARCHAR", "''")
        a = self.text(depth + 1)
        return self._one(
            f"upper({a})", f"substr({a}, 1, 2)", f"({a} || 'x')", f"coalesce({a}, '?')", f"nullif({a}, 'F')",
            f"CASE WHEN {self.condition(depth + 1)} THEN {a} ELSE 'else' END", "strftime(born, '%Y')",
        )  # fmt: skip

    def condition(self, depth=0) -> str:
        if depth < 3 and self._random.random() < 0.4:
            a, b = self.condition(depth + 1), self.condition(depth + 1)
            return self._one(f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})", f"(({a})::INT + ({b})::INT >= 1)")
        n, t = self.number(depth + 1), self.text(depth + 1)
        return self._one(
            f"{n} {self._one('<', '<=', '>', '>=', '=', '<>')} {self.number(depth + 1)}", f"{n} BETWEEN 10 AND 50",
            f"{n} IN (20, 30, 33)", f"{t} = {self.text(depth + 1)}", f"{t} LIKE '{self._one('B%', '%n', '_', '%')}'",
            f"{t} IS NULL", f"{t} IS NOT NULL", f"{n} IS NULL", f"{t} IS DISTINCT FROM 'F'", "sick", "mood = 'ok'",
            "born < DATE '1980-01-01'", "sick IS TRUE", "(age, sex) = (30, 'F')", "true",
        )  # fmt: skip

    def key(self) -> str:
        return self._one(*PLAIN, self.number(), self.text(), self.condition())

    def aggregate(self) -> str:
        n = self.number()
        plain = self._one(
            "count(*)", f"count({self.key()})", f"sum({n})", f"avg({n})", f"count_if({self.condition()})",
            f"sum(CASE WHEN {self.condition()} THEN 1 ELSE 0 END)", f"min({n})", f"sum(DISTINCT {n})",
        )  # fmt: skip
        return f"{plain} FILTER (WHERE {self.condition()})" if self._random.random() < 0.2 else plain

    def statement(self) -> str:
        keys = [self.key() for _ in range(self._random.randint(0, 2))]
        outputs = [f"{key} AS g{n}" for n, key in enumerate(keys)]
        outputs += [f"{self.aggregate()} AS v{n}" for n in range(self._random.randint(1, 2))]
        source = self._one(
            "people", "people", "people AS p", "(SELECT * FROM people)", f"(FROM people WHERE {self.condition()})"
        )
        where = f" WHERE {self.condition()}" if self._random.random() < 0.5 else ""
        listed = ", ".join(f"g{n}" for n in range(len(keys)))
        group = self._one("ALL", listed, f"CUBE ({listed})", f"ROLLUP ({listed})", ", ".join(keys)) if keys else ""
        text = f"SELECT {', '.join(outputs)} FROM {source}{where}" + (f" GROUP BY {group}" if group else "")
        if self._random.random() < 0.05:
            words = text.split(" ")
            words[self._random.randrange(len(words))] = self._one("", "(", ")", ",", "SELECT", "*", "NULL", ";", "'")
            text = " ".join(words)
        return text


@pytest.fixture(scope="module")
def tables():
    with dpsql.connect() as db:
        db.sql(TABLES)
        db.protect("people", epsilon=1000.0, delta=1e-9, enums=True)
        db.domain("people", "age", lower=18, upper=77, bins=60)
        db.domain("people", "sex", values=["F", "M", "X"])
        db.domain("people", "hours", lower=0, upper=79, bins=8)
        db.domain("people", "city", values=["Berlin", "Bern", "Lisbon", "Paris", "Rome"])
        db.domain("people", "born", lower="1970-01-01", upper="1990-12-31", bins=21)
        db.domain("people", "wage", lower=0, upper=40, bins=4)
        db.domain("people", "grade", values=["a", "b", "c"])
        yield db


def without_noise(db, sql: str) -> list[tuple]:
    """What dp_query would show if its noise were 0, without the books."""
    with db.instance.cursor() as cursor:
        resolved = resolve_query(cursor, QueryRequest(sql, 1.0), to_charge=False)
        linear = resolved.evaluated.linear
        needed = type(linear.domain)(tuple(a for a in linear.domain if a.name in linear.clique))
        exact = exact_answers(DuckDBCounter(cursor, resolved.source, needed, once=True), linear)
        noisy = [Noisy(np.concatenate([part[a] for part in exact]), 0.0, GAUSSIAN) for a in range(linear.aggregates)]
        frame = answers_frame(resolved, noisy)
        stored = typed_answers(resolved.result.stored).from_("found").subquery("stored")
        with shown_as(cursor, "found", frame):
            rows = cursor.execute(resolved.result.select(stored).sql(dialect="duckdb")).fetchall()
    own, place = [], 0
    for number in resolved.query.noisy:
        own.append(place)
        place += 1 if number is None else 4
    return [tuple(row[n] for n in own) for row in rows], [n is not None for n in resolved.query.noisy]


def check(db, sql: str) -> str:
    """`same` or why not; anything but an equal answer or a refusal fails."""
    try:
        found, noisy = without_noise(db, sql)
    except DpsqlError as refused:
        assert "defect" not in str(refused)
        return type(refused).__name__
    try:
        raw = db.connection.execute(sql).fetchall()
    except duckdb.Error:
        return "DuckDB fails on the rows"  # such as an overflow that the domain does not have

    def comparable(row):
        return tuple(
            (0 if v is None else round(float(v), 3)) if counts else plain(v)
            for v, counts in zip((plain(v) for v in row), noisy, strict=True)
        )

    ours, theirs = Counter(map(comparable, found)), Counter(map(comparable, raw))
    assert not theirs - ours, (sql, theirs - ours)
    for row in ours - theirs:
        assert all(v == 0 for v, counts in zip(row, noisy, strict=True) if counts), (sql, row)
    return "same"


@pytest.mark.medium
@pytest.mark.parametrize("seed", [1])
def test_some_random_statements(tables, seed):
    outcomes = Counter(check(tables, Grammar(seed * 1_000_000 + n).statement()) for n in range(20))
    assert outcomes["same"] > 4
    assert set(outcomes) - {"same", "DuckDB fails on the rows"} <= {"InvalidQuery", "UnknownName", "DomainTooLarge"}


BLOCK = 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(n, marks=[pytest.mark.audit] if n else [])
        for n in range(int(os.environ.get("DPSQL_STATEMENTS", "2000")) // BLOCK)
    ],
)
def test_thousands_of_random_statements(tables, block):
    outcomes = Counter(check(tables, Grammar(block * BLOCK + n).statement()) for n in range(BLOCK))
    print(outcomes)
    assert outcomes["same"] > BLOCK / 4
