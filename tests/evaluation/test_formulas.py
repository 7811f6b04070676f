"""Sums and averages of values that a query cuts, clamps and maps: bounds, noise, equality with DuckDB, and totality."""

from __future__ import annotations

import math
import random
import re

import duckdb
import numpy as np
import pytest
from sqlglot import exp

import dpsql
from dpsql.core.formula import COLUMN, Formula, Spans, values_of
from dpsql.core.neighbours import Neighbours
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.errors import DpsqlError, InvalidQuery
from dpsql.privacy.linear import exact_answers
from dpsql.release.query_answers import QueryRequest, resolve_query
from tests.engines.steps import encode_steps

from ..language.test_query_grammar import without_noise

TABLE = """
    CREATE TABLE t AS SELECT
        CASE WHEN i % 29 <> 3 THEN (i * 7919 % 2000001 - 500000) / 8 END::DOUBLE AS x,
        (i * 104729 % 2000001 - 500000)::INTEGER AS n,
        ((i * 7907 % 2000001 - 500000) / 100)::DECIMAL(12, 2) AS d,
        (i * 7919 % 1000 / 8)::FLOAT AS f,
        (['F', 'M', NULL])[1 + i % 3] AS sex
    FROM range(900) r(i)
"""


@pytest.fixture(scope="module")
def wide():
    """Columns of numbers whose bins hold more values than can be tried."""
    with dpsql.connect() as db:
        db.sql(TABLE)
        db.protect("t", epsilon=1000.0, delta=1e-9)
        db.domain("t", "x", edges=[-62500, -10000, 0, 12500, 50000, 187500])
        db.domain("t", "n", lower=-500000, upper=1500000, bins=20)
        db.domain("t", "d", lower=-5000, upper=15000, bins=20)
        db.domain("t", "f", lower=0, upper=125, bins=5)
        db.domain("t", "sex", values=["F", "M"])
        yield db


def resolved(db, sql, epsilon=1.0):
    with db.instance.cursor() as cursor:
        return resolve_query(cursor, QueryRequest(sql, epsilon), to_charge=False)


def stddev(db, sql, epsilon=1.0):
    return db.plan(sql, epsilon).stddev.iloc[0]


@pytest.mark.parametrize(
    ("narrow", "whole", "times"),
    [
        ("sum(x) FROM t WHERE x >= 0 AND x < 12500", "sum(x) FROM t", 15),
        ("sum(x) FILTER (WHERE x BETWEEN -10 AND 1250) FROM t", "sum(x) FROM t", 150),
        ("sum(n) FROM t WHERE n IN (1, 2, 3)", "sum(n) FROM t", 500_000),
        ("sum(n) FROM t WHERE n > 0 AND n <= 15000 AND sex = 'F'", "sum(n) FROM t", 100),
        ("sum(least(greatest(x, 0), 1875)) FROM t", "sum(x) FROM t", 100),
        ("sum(CASE WHEN x > 1875 THEN 1875 WHEN x < 0 THEN 0 ELSE x END) FROM t", "sum(x) FROM t", 100),
        ("sum(least(d, 0)) FROM t WHERE d >= -150", "sum(d) FROM t", 100),
        ("sum(n / 10) FROM t", "sum(n) FROM t", 10),
        ("sum(CASE WHEN sex = 'F' THEN x END) FROM t", "sum(x) FILTER (WHERE sex = 'F') FROM t", 1),
        ("sum(CASE WHEN sex = 'F' THEN least(greatest(x, 0), 1875) ELSE 0 END) FROM t", "sum(x) FROM t", 100),
        ("sum(CASE WHEN sex = 'F' AND x BETWEEN 0 AND 1250 THEN x END) FROM t", "sum(x) FROM t", 150),
        ("sum(CASE sex WHEN 'F' THEN least(d, 0) WHEN 'M' THEN 150 END) FROM t WHERE d >= -150", "sum(d) FROM t", 100),
    ],
)
def test_conditions_and_clamps_take_the_noise_down(wide, narrow, whole, times):
    """As much as they bound what is summed: the noise used to be that of the column's whole domain."""
    assert stddev(wide, f"SELECT {whole}") / stddev(wide, f"SELECT {narrow}") == pytest.approx(times, rel=0.01)


STATEMENTS = [
    "SELECT sum(x), avg(x), count(x) FROM t WHERE x BETWEEN 0 AND 12345.5",
    "SELECT sex, sum(least(x, 50000)) AS s, avg(abs(x)) AS a FROM t GROUP BY sex",
    "SELECT sum(x / 12), sum(x * 2), sum(-x), avg(coalesce(x, 0)), avg(least(x, 0)) FROM t",
    "SELECT avg(CASE WHEN x < 0 THEN 0 WHEN x > 100 AND x <= 1000 THEN x ELSE NULL END) FROM t",
    "SELECT sum(CASE WHEN x >= 150 THEN x END), sum(if(x IS NULL, 7, 1 + x)), avg(n + 0.5) FROM t",
    "SELECT sum(least(n, 50000)), avg(abs(n)), sum(round(d, 1)), sum(abs(d) + 1), sum(round(x / 1000) * 1000) FROM t",
    "SELECT sum(floor(x / 100)), sum(ceil(x)), avg(greatest(least(d, 100.25), -3)) FROM t WHERE NOT (d > 9000.01)",
    "SELECT avg(f), sum(f) FROM t WHERE f > 0.1 AND f <= 100.1",
    "SELECT sum(CASE WHEN f <= 12.5 THEN f ELSE 0 END), sum(x) FILTER (WHERE x IN (1, 2.5)) FROM t",
    "SELECT sum(CASE WHEN sex = 'F' THEN x END), avg(CASE WHEN sex = 'F' THEN x END) FROM t",
    "SELECT sum(CASE WHEN sex IS NULL THEN 0 ELSE n END), avg(CASE WHEN sex = 'M' THEN d ELSE 0 END) FROM t WHERE n > 7",
    "SELECT sex, sum(CASE WHEN n > 150000 THEN x WHEN n < 0 THEN -x ELSE 1 END) AS s FROM t GROUP BY sex",
    "SELECT sum(CASE WHEN sex = 'F' THEN x WHEN d > 12.5 THEN d ELSE n / 2 END) FROM t WHERE n IS NOT NULL",
    "SELECT sum(CASE WHEN sex = 'F' AND x > 99.5 THEN x ELSE (CASE WHEN n > 0 THEN abs(n) END) END) FROM t",
    "SELECT avg(CASE sex WHEN 'F' THEN least(x, 100) WHEN 'M' THEN 7 END), sum(if(f > 3, x, NULL)) FROM t",
    "SELECT sum(abs(abs(x) - 1000)), avg(CASE x WHEN 3 THEN 4 ELSE 5 END) FROM t WHERE sex = 'F' AND x >= -12.5",
]


def same(found, raw):
    """As far as steps of floats allow, which are 2⁻³⁰ of the bound for each row."""
    for ours, theirs in zip(found, raw, strict=True):
        if isinstance(theirs, str) or theirs is None:
            assert ours == theirs or (theirs is None and ours in (None, 0)), (found, raw)
        else:
            assert ours is not None
            assert float(ours) == pytest.approx(float(theirs), rel=1e-6, abs=0.1), (found, raw)


@pytest.mark.medium
@pytest.mark.parametrize("sql", STATEMENTS)
def test_without_noise_they_are_duckdbs_own(wide, sql):
    found, _ = without_noise(wide, sql)
    rows = {row[0]: row for row in found} if "GROUP BY" in sql else None
    for row in wide.sql(sql).fetchall():
        same(rows[row[0]] if rows else found[0], row)


class Numbers:
    """Random formulas of a column, and conditions on it."""

    def __init__(self, seed, column):
        self._random, self._column = random.Random(seed), column

    def constant(self):
        return self._random.choice(["0", "-7", "100.5", "12500", "-3000", "0.25", "NULL"])

    def number(self, depth=0):
        if depth > 2 or self._random.random() < 0.3:
            return self._column
        a, b, c = self.number(depth + 1), self.number(depth + 1), self.constant()
        mapped = [f"least({a}, {c})", f"greatest({c}, {a})", f"abs({a})", f"round({a}, {self._random.randint(-2, 1)})"]
        mapped += [f"({a} + {b})", f"({a} - 5)", f"({a} / 12)", f"(-{a})", f"coalesce({a}, {c})", f"({a} * 0.5)"]
        mapped += [f"CASE WHEN {self.condition(depth)} THEN {a} ELSE {b} END"]
        mapped += [f"CASE WHEN {self.condition(depth)} THEN {c} END"]
        return self._random.choice(mapped)

    def condition(self, depth=0):
        a, c = self._random.choice([self._column, self.number(depth + 2)]), self.constant()
        choices = [f"{a} {operator} {c}" for operator in ("<", "<=", ">", ">=", "=", "<>")]
        plain = self._random.choice([*choices, f"{a} BETWEEN -100 AND {c}", f"{a} IN (5, {c})", f"{a} IS NULL"])
        if self._random.random() < 0.3:
            return f"({plain} {self._random.choice(['AND', 'OR'])} NOT ({self._column} > {self.constant()}))"
        return plain


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(4))
def test_random_formulas(wide, seed):
    """Each sum is DuckDB's own, within its bounds, or refused; and no row adds more than its sensitivity says."""
    answered = 0
    for number in range(10):
        column = ["x", "n", "d"][number % 3]
        numbers = Numbers(100 * seed + number, column)
        where = (
            f" WHERE {column} {random.Random(number).choice(['> -3000', '<= 100', 'BETWEEN -7 AND 12500', 'IS NULL'])}"
        )
        sql = f"SELECT sum({numbers.number()}) AS s FROM t{where if number % 2 else ''}"
        try:
            found, _ = without_noise(wide, sql)
        except DpsqlError as refused:
            assert isinstance(refused, InvalidQuery)
            continue
        try:
            (true,) = wide.sql(sql).fetchall()
        except duckdb.Error:  # a type that does not fit the rows
            continue
        same(found[0], true)
        answered += 1
    assert answered >= 5


def random_case(draw, depth=0):
    """A CASE whose conditions and values are of several columns."""
    numbers = [Numbers(draw.random(), column) for column in ("x", "n", "d")]
    texts = ["sex = 'F'", "sex IS NULL", "sex <> 'M'", "true"]
    ifs = []
    for _ in range(draw.randint(1, 2)):
        condition = draw.choice([*texts, *(number.condition(depth=2) for number in numbers)])
        ifs.append(f"WHEN {condition} THEN {draw.choice(numbers).number(depth=1)}")
    last = [draw.choice(numbers).number(depth=1), "0", "NULL", "-2.5"]
    if not depth:
        last.append(random_case(draw, 1))
    return f"CASE {' '.join(ifs)} ELSE {draw.choice(last)} END"


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(2))
def test_random_cases_of_several_columns(wide, seed):
    """Each sum is DuckDB's own, or refused; the average too, whose count leaves out what is NULL."""
    answered, draw = 0, random.Random(seed)
    for _ in range(25):
        sql = f"SELECT {draw.choice(['sum', 'avg'])}({random_case(draw)}) AS s FROM t"
        try:
            found, _ = without_noise(wide, sql)
        except DpsqlError as refused:
            assert isinstance(refused, InvalidQuery), sql
            continue
        same(found[0], wide.sql(sql).fetchall()[0])
        answered += 1
    assert answered >= 8


@pytest.mark.medium
def test_what_a_case_adds_is_planned_and_solved_for(wide):
    """The plan's error is the noise that is added, and the least epsilon for an error is that of the FILTER form."""
    case = "SELECT sum(CASE WHEN sex = 'F' THEN x ELSE 0 END) AS s FROM t"
    planned = wide.plan(case, 1.0)
    found = wide.query(case, 1.0)
    assert found.s_stderr[0] == pytest.approx(planned.stddev[0], rel=1e-9)
    epsilons = [
        wide.plan(sql, max_error=1e6).epsilon[0] for sql in (case, "SELECT sum(x) FILTER (WHERE sex = 'F') FROM t")
    ]
    assert epsilons[0] == epsilons[1]
    assert 0.98e6 <= float(wide.plan(case, epsilons[0]).note[0].split("± ")[1]) <= 1e6


@pytest.mark.parametrize("argument", ["CASE WHEN sex = 'F' THEN x * n END", "CASE WHEN x > n THEN x END"])
def test_what_joins_the_values_of_two_columns_is_told_the_filter(wide, argument):
    before = len(wide.ledger())
    with pytest.raises(
        InvalidQuery, match=r'sum one column where a condition holds, as sum\("\w"\) FILTER \(WHERE …\)'
    ):
        wide.query(f"SELECT sum({argument}) FROM t", 1.0)
    assert len(wide.ledger()) == before


@pytest.mark.medium
@pytest.mark.chance(2e-7, "more than 10 of 30 intervals of 95 % miss")
def test_cases_of_the_adult_table(load_adult):
    """Real data, through SQL: the intervals of 30 releases hold the truth, and the noise is that of the FILTER form."""
    with dpsql.connect() as db:
        load_adult(db)
        cases = {
            "sum(CASE WHEN education_num > 12 THEN capital_gain END)": (
                "sum(capital_gain) FILTER (WHERE education_num > 12)"
            ),
            "sum(CASE WHEN sex = 'Female' THEN fnlwgt ELSE 0 END)": "sum(fnlwgt) FILTER (WHERE sex = 'Female')",
            "avg(CASE WHEN sex = 'Female' AND education_num > 9 THEN fnlwgt ELSE 0 END)": None,
        }
        held = asked = 0
        for case, filtered in cases.items():
            if filtered is not None:
                noise = stddev(db, f"SELECT {case} FROM adult", 0.05)
                assert noise == pytest.approx(stddev(db, f"SELECT {filtered} FROM adult", 0.05), rel=1e-9)
            (true,) = db.sql(f"SELECT {case} FROM adult").fetchall()[0]
            assert without_noise(db, f"SELECT {case} FROM adult")[0][0][0] == pytest.approx(float(true), rel=1e-9)
            for again in range(10):
                call = "SELECT * FROM dp_query(?, epsilon := 0.05, release := ?)"
                _, stderr, low, high = db.sql(call, [f"SELECT {case} AS s FROM adult", f"{again}"]).fetchall()[0]
                assert filtered is None or stderr == pytest.approx(noise, rel=1e-9)
                held += low <= true <= high
                asked += 1
        assert held >= asked - 10


HOSTILE = [
    "NULL",
    "NaN",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "5e-324",
    "0",
    "-0.0",
    "9.99",
    "10",
    "10.01",
    "100",
    "100.5",
    "-5",
]
FORMULAS = [
    "x", "least(x, 7)", "abs(x)", "-x * 1e300", "round(x * 1e300, 5)", "x / 1e-300", "CASE WHEN x > 7 THEN x END",
    "coalesce(CASE WHEN x < 50 THEN NULL ELSE 1 END, x * x)", "floor(x) + ceil(x)", "x + coalesce(x, 3)",
]  # fmt: skip


@pytest.mark.medium
@pytest.mark.parametrize("formula", FORMULAS)
def test_whatever_a_row_holds_its_steps_are_within_the_bounds(db, formula):
    """NaN, infinities, values outside the domain, in bins that the condition leaves out: and nothing fails."""
    db.sql("CREATE TABLE t (g TINYINT NOT NULL, x DOUBLE)")
    rows = [[number, value] for number, value in enumerate(HOSTILE)]
    db.connection.executemany("INSERT INTO t VALUES (?, TRY_CAST(? AS DOUBLE))", rows)
    db.protect("t", epsilon=1.0, delta=1e-9)
    db.domain("t", "g", lower=0, upper=len(rows) - 1)
    db.domain("t", "x", edges=[0, 10, 20, 100], nulls=True, other=150)
    for where in ("", " WHERE x >= 10 AND x < 20 OR x IS NULL"):
        try:
            query = resolved(db, f"SELECT g, sum({formula}) FROM t{where} GROUP BY g")
        except InvalidQuery as refused:
            assert "summed" in str(refused) or "not finite" in str(refused)
            continue
        linear = query.evaluated.linear
        for moment in linear.moments.values():
            steps = encode_steps(linear.domain, moment)
            found = [v for (v,) in db.sql(exp.select(steps).from_("t").sql(dialect="duckdb")).fetchall()]
            assert all(moment.low <= v <= moment.high for v in found), (formula, where, found)
        with db.instance.cursor() as cursor:  # each group has one row
            changes = exact_answers(DuckDBCounter(cursor, query.source, linear.domain, once=True), linear)[0][0]
        changes = changes / linear.scales[0]
        assert np.abs(changes).max() <= linear.sensitivity(1, Neighbours("add_remove")) * (1 + 1e-9)
        apart = max(changes.max(), 0) - min(changes.min(), 0)
        assert apart <= linear.sensitivity(1, Neighbours("replace_one")) * (1 + 1e-9)


@pytest.mark.medium
def test_an_average_that_says_nothing_is_null(wide):
    """Its interval is the whole range; the plan says so, and with how much epsilon it says something."""
    sql = "SELECT avg(abs(x)) AS m FROM t WHERE sex = 'F'"
    found = wide.query(sql, 0.01)
    assert math.isnan(found.m[0]) or found.m[0] is None
    assert (found.m_low[0], found.m_high[0]) == (0, 187500)
    assert found.m_stderr.isna()[0]
    planned = wide.plan(sql, 0.01, assume_rows=900)
    assert planned.stddev.isna()[0]
    assert "nothing is known at 900 rows a group; NULL where" in planned.note[0]
    epsilon = wide.plan(sql, max_error=2000, assume_rows=300).epsilon[0]
    found = wide.query(sql, epsilon)
    true = wide.sql(sql).fetchall()[0][0]
    assert abs(found.m[0] - true) < 7 * found.m_stderr[0] < 7 * 2000
    assert wide.plan(sql, epsilon * 0.97, assume_rows=300).note[0].split("± ")[1].split(" ")[0] > "2000"


@pytest.mark.medium
def test_an_average_is_clipped_to_what_is_averaged(db):
    """Not to 0 too: heights between 1.5 and 2 are not 0 on average."""
    db.sql("CREATE TABLE t AS SELECT 1.5 + i % 50 / 100 AS h FROM range(200) r(i)")
    db.sql("ALTER TABLE t ALTER h TYPE DOUBLE")
    db.protect("t", epsilon=10.0, delta=1e-9)
    db.domain("t", "h", lower=1.5, upper=2.0, bins=2, nulls=False)
    releases = [db.query("SELECT avg(h) AS m FROM t WHERE h > 1.75", 0.05, release=str(n)) for n in range(3)]
    widest = min(found.m_low[0] for found in releases), max(found.m_high[0] for found in releases)
    assert widest == pytest.approx((1.75, 2.0), abs=1e-6)  # one alone is narrower once in 200 times


def test_spans_hold_every_value():
    """The bounds that are told hold what the formula is, for random columns in random spans."""
    draw = random.Random(7)
    least = Formula("least", (COLUMN, Formula("constant", (), 3.0)))
    both = Formula("mul", (Formula("sub", (COLUMN, least)), Formula("abs", (COLUMN,))))
    halves = Formula("case", (Formula(">", (COLUMN, Formula("constant", (), 0.0))), both, Formula("round", (COLUMN,))))
    for _ in range(200):
        low = draw.uniform(-10, 10)
        high = low + draw.uniform(0, 10)
        one, no = np.ones(1, bool), np.zeros(1, bool)
        spans = values_of(halves, Spans(np.array([low]), np.array([high]), one, no))
        for value in np.linspace(low, high, 9):
            exact = (
                (value - min(value, 3)) * abs(value)
                if value > 0
                else math.copysign(math.floor(abs(value) + 0.5), value)
            )
            assert spans.low[0] - 1e-9 <= exact <= spans.high[0] + 1e-9


@pytest.mark.medium
def test_clock_parts_of_times(db):
    """hour, minute and second of TIME columns, which no bin can be finer than."""
    db.sql(
        "CREATE TABLE t AS SELECT TIME '00:00:00' + to_microseconds(i * 1234567891 % 86400000000) AS clock FROM range(500) r(i)"
    )
    db.protect("t", epsilon=100.0, delta=1e-9)
    db.domain("t", "clock", lower="00:00:00", upper="23:59:59.999999", bins=5)
    for part in (
        "hour(clock)",
        "minute(clock)",
        "second(clock)",
        "extract(hour FROM clock)",
        "date_part('minute', clock)",
    ):
        sql = f"SELECT {part} AS k, count(*) AS n FROM t GROUP BY k ORDER BY k"
        found, _ = without_noise(db, sql)
        assert [row for row in found if row[1]] == db.sql(sql).fetchall()


@pytest.mark.parametrize(
    "call",
    [
        "dp_query(?, epsilon := 0.1)",
        "dp_plan(?, epsilon := 0.1)",
        "dp_synthesize('t', epsilon := 0.1, workload := ?)",
        "dp_plan('t', epsilon := 0.1, workload := ?)",
    ],
)
@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("SELEC sex, count(*) FROM t GROUP BY sex", '"SELEC"'),
        ("SELECT sex, count(*) FROM t GRUOP BY sex", '"BY"'),
        ("SELECT sex count(*) FROM t", '"("'),
    ],
)
def test_a_misspelt_keyword_gets_duckdbs_message(wide, call, sql, near):
    """With the line and the place, before any charge; the parser alone sees the text."""
    before = len(wide.ledger())
    with pytest.raises(duckdb.Error) as caught:
        wide.sql(f"FROM {call}", [sql])
    assert re.search(f"(query|workload): Parser Error: syntax error at or near {re.escape(near)}", str(caught.value))
    if "workload" in call:
        assert "say 'all 3-way'" in str(caught.value)
    assert f"LINE 1: {sql}" in str(caught.value)
    assert len(wide.ledger()) == before
