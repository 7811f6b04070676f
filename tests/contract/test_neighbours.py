"""No two neighbouring tables differ by more than the noise was made for: random pairs, exact counts, every mechanism.

Each request goes through the public door on a random table. Beside the table lie tables that are its neighbours: a row
more, less or changed; a unit more or less, also one with more rows than count. Whatever the curator is asked it is asked
of all of them too, by DuckDB's own counts and without noise, and the change of the answers is put in relation to the
noise that the release had:

    Gaussian    Σ change²/2(σ² − 1/8) ≤ ρ
    Laplace     Σ |change|/b ≤ ε,  ε = √(2ρ)
    selections  λ·max |change of a score| ≤ √(2ρ)

Rows have NULLs, values outside the declared domains, and units that are NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import dpsql
from dpsql.core.linear_query import Choice
from dpsql.core.neighbours import Neighbours
from dpsql.engines.duckdb import engine
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.units import Bound
from dpsql.mechanisms.base import registered
from dpsql.privacy import asking, distributions, linear
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..counters import Journal
from ..depth import is_deep
from .test_mechanisms import FAST, NAMES

EACH = 20 if is_deep() else 12
"""Neighbours of a table; among fewer, "ratios" of units do not reach `least`."""
BASES = 5
MOST_ROWS = 3
"""Of a unit, that count."""
VALUES = {
    "a": ["true", "false", "NULL"],
    "s": ["'v0'", "'v0'", "'v1'", "'outside'", "NULL"],
    "m": ["'sad'", "'ok'", "NULL"],
    "x": ["0", "3", "3", "7", "9", "-5", "99", "NULL"],
    "d": ["DATE '2024-01-05'", "DATE '2024-02-09'", "DATE '1999-01-01'", "NULL"],
    "w": ["2.5", "100", "-100", "-100", "1e6", "NULL"],
}
HOW = {
    "rows": {},
    "replaced": {"neighbours": "replace_one"},
    "units": {"privacy_unit": "unit", "max_rows": MOST_ROWS},
}
PARTS = [
    pytest.param(range(1), id="a table"),
    pytest.param(range(1, BASES), id="more tables", marks=[pytest.mark.slow, pytest.mark.audit]),
]


def row(generator, unit: str) -> str:
    return f"({', '.join([unit, *(str(generator.choice(values)) for values in VALUES.values())])})"


def rows(generator, unit: str, count: int) -> str:
    """So many rows of a unit; half the time all are alike, which changes one count the most."""
    alike = generator.random() < 0.5
    first = row(generator, unit)
    return ", ".join([first] + [first if alike else row(generator, unit) for _ in range(count - 1)])


def difference(generator, kind: str, table: str, size: int) -> str:
    """A statement that makes a neighbour of a table."""
    place, coin = int(generator.integers(size)), generator.random() < 0.5
    if kind == "replaced":
        values = ", ".join(f"{name} = {generator.choice(choices)}" for name, choices in VALUES.items())
        return f"UPDATE {table} SET {values} WHERE rowid = {place}"
    if kind == "rows":
        return (
            f"INSERT INTO {table} VALUES {row(generator, '1')}"
            if coin
            else f"DELETE FROM {table} WHERE rowid = {place}"
        )
    if coin:
        unit = str(generator.choice(["99", "99", "99", "NULL"]))
        return f"INSERT INTO {table} VALUES {rows(generator, unit, int(generator.integers(1, 2 * MOST_ROWS + 1)))}"
    return f"DELETE FROM {table} WHERE unit = (SELECT unit FROM {table} WHERE rowid = {place})"


class Tables:
    """Protected tables t0, t1, … when they are asked for, and the neighbours t0_0, t0_1, … of each; public tables beside."""

    def __init__(self, db: dpsql.Database, kind: str) -> None:
        self.db, self.kind = db, kind
        self._generator, self._made = np.random.default_rng([7, len(kind)]), 0
        db.sql(
            "CREATE TYPE mood AS ENUM ('sad', 'ok'); "
            "CREATE TABLE kinds AS FROM (VALUES ('v0', 'k'), ('v1', 'l')) v(s, kind)"
        )
        db.sql("CREATE TABLE public_rows AS SELECT i % 2 = 0 AS a, 'v' || i % 2 AS s, i % 10 AS x FROM range(20) r(i)")

    def make(self, bases: range) -> None:
        """Those up to the last, in turn, because each has the next numbers of one generator."""
        for base in range(self._made, bases.stop):
            self._make(base)
        self._made = max(self._made, bases.stop)

    def _make(self, base: int) -> None:
        db, kind, generator = self.db, self.kind, self._generator
        table, size = f"t{base}", int(generator.integers(8, 20))
        units = ["1", "1", "1", "1", "2", "3", "4", "NULL"] if kind == "units" else ["1"]
        listed = ", ".join(row(generator, str(generator.choice(units))) for _ in range(size))
        db.sql(f"CREATE TABLE {table}(unit INTEGER, a BOOLEAN, s VARCHAR, m mood, x INTEGER, d DATE, w DOUBLE)")
        db.sql(f"INSERT INTO {table} VALUES {listed}")
        for other in range(EACH):
            db.sql(f"CREATE TABLE {table}_{other} AS FROM {table}")
            db.sql(difference(generator, kind, f"{table}_{other}", size))
        db.protect(table, epsilon=1000.0, delta=1e-6, **HOW[kind])
        if kind != "units":
            db.domain(table, "unit", exclude=True)
        db.domain(table, "s", values=["v0", "v1"])
        db.domain(table, "m", values=["sad", "ok"])
        db.domain(table, "x", lower=0, upper=9, bins=5)
        db.domain(table, "d", lower="2024-01-01", upper="2024-03-01", bins=3)
        db.domain(table, "w", lower=-100, upper=100, bins=4)
        if base:
            db.constraint(table, "a OR s = 'v0'")


@pytest.fixture(scope="module", params=list(HOW))
def tables(request) -> Iterator[Tables]:
    with dpsql.connect() as db:
        yield Tables(db, request.param)


class Silent:
    """Entropy of a curator that adds no noise, and keeps the scores of what it is asked to choose."""

    def __init__(self) -> None:
        self.scores: list[tuple[np.ndarray, Fraction]] = []


class Compared(DuckDBCounter):
    """Counts a table; beside it are counters of its neighbours, each with a curator that adds no noise."""

    def __init__(self, cursor, source, *given, **how) -> None:
        super().__init__(cursor, source, *given, **how)
        names = [f"{source.name}_{other}" for other in range(EACH)]
        self.all = [self, *(DuckDBCounter(cursor, replace(source, name=name), *given, **how) for name in names)]
        self.curators: list[Curator] = []

    def close(self) -> None:
        super().close()
        for counter in self.all[1:]:
            counter.close()

    def asked(self, curator: Curator, name: str, arguments, how) -> list[tuple[list, list]]:
        """The exact answers, and the scores, of the table and of each neighbour to one question."""
        if not self.curators:
            much = Fraction(10**12)
            self.curators = [
                Curator(counter, curator.domain, curator.neighbours, much, Journal(), Quiet(), Silent(), gdp=much)
                for counter in self.all
            ]
        found = []
        for silent in self.curators:
            silent._entropy.scores.clear()
            answer = ORIGINAL[name](silent, *arguments, **how)
            found.append((answer, list(silent._entropy.scores)))
        return found


ASKED = (
    "total",
    "measure",
    "measure_cells",
    "measure_linear",
    "select_cells",
    "select_marginals",
    "select_source",
    "sample_cells",
)
ORIGINAL = {name: getattr(Curator, name) for name in ASKED}


def used(exact, other, noise: str, variance: Fraction, rho: Fraction) -> float:
    """Which part of its ρ, or of its ε, a change of answers takes of a measurement with that noise."""
    change = (np.asarray(other) - np.asarray(exact)).astype(float)
    if noise == "none":
        return math.inf if change.any() else 0.0
    if noise == "laplace":
        return float(np.abs(change).sum() / math.sqrt(variance / 2) / math.sqrt(2 * rho))
    return float((change**2).sum() / (2 * float(variance - Fraction(1, 8))) / rho)


def measured(name: str, before, after) -> float:
    """Which part of the claim the change of one question's answers takes, at most."""
    before, after = ([answer] if name == "total" else answer for answer in (before, after))
    pairs = list(zip(before, after, strict=True))
    if name == "measure_linear":
        whole = sum(m.rho for m in before)
        parts = [used(m.values, n.values, m.noise, m.variance, whole) for m, n in pairs]
        return sum(parts)
    if name == "measure_cells":
        return max(
            used(exact, other, m.noise, m.variance, m.rho / len(m.cells))
            for m, n in pairs
            for exact, other in zip(m.values, n.values, strict=True)
        )
    return max(used(m.values, n.values, m.noise, m.variance, m.rho) for m, n in pairs)


@dataclass
class Found:
    """What all pairs of a test showed.

    Attributes:
        shares: of the claim that each pair takes of each question.
    """

    shares: list[float]

    def check(self, pairs: int, least: float) -> None:
        """No pair takes more than the claim, and some take nearly all of it, so that the test has power."""
        assert len(self.shares) >= pairs
        assert max(self.shares) <= 1 + 1e-9
        assert max(self.shares) >= least


@pytest.fixture
def found(monkeypatch) -> Found:
    """Compares each question that a curator is asked through the public door."""
    known = Found([])

    def silently(name, quiet):
        holder = asking if hasattr(asking, name) else distributions
        loud = getattr(holder, name)

        def draw(given, *arguments):
            silent = any(isinstance(argument, Silent) for argument in arguments)
            return quiet(given, *arguments) if silent else loud(given, *arguments)

        monkeypatch.setattr(holder, name, draw)

    def choose(scores, rate, count, entropy, *_):
        entropy.scores.append((scores.astype(float), rate))
        return list(range(count))

    silently("discrete_gaussian", lambda variance, count, entropy: np.zeros(count, np.int64))
    silently("discrete_laplace", lambda scale, count, entropy: np.zeros(count, np.int64))
    silently("exponential_mechanism", choose)
    silently("exponential_sample", choose)

    def compared(name):
        def ask(self, *arguments, **how):
            answer = ORIGINAL[name](self, *arguments, **how)
            if isinstance(self._counter, Compared) and not isinstance(self._entropy, Silent):
                (before, scores), *others = self._counter.asked(self, name, arguments, how)
                for after, moved in others:
                    if name.startswith("measure") or name == "total":
                        known.shares.append(measured(name, before, after))
                    each = self._counter.curators[0]._journal.answers[-1]
                    for (score, rate), (other, _) in zip(scores, moved, strict=True):
                        loss = float(rate) * np.abs(score - other).max()
                        known.shares.append(loss / math.sqrt(2 * each.rho / len(each.selection)))
            return answer

        return ask

    for name in ASKED:
        monkeypatch.setattr(Curator, name, compared(name))
    monkeypatch.setattr(engine, "DuckDBCounter", Compared)
    return known


SHAPES = {
    "count": "SELECT count(*) FROM {t}",
    "groups": "SELECT s, count(*) FROM {t} WHERE x > 2 OR x IS NULL GROUP BY s",
    "filters": "SELECT a, count(*) FILTER (WHERE m = 'sad'), count_if(x > 5), count(x) FROM {t} GROUP BY a",
    "sums": "SELECT s, sum(x), sum(CASE WHEN a THEN 3 ELSE -2 END) FROM {t} GROUP BY s",
    "cases": "SELECT s, sum(CASE WHEN a THEN w WHEN m = 'sad' THEN x ELSE -w END) FROM {t} GROUP BY s",
    "averages of cases": "SELECT avg(CASE WHEN a THEN w END), avg(CASE WHEN x > 4 THEN w ELSE 50 END) FROM {t}",
    "averages": "SELECT m, avg(x), count(*) FROM {t} GROUP BY m",
    "cube": "SELECT s, a, count(*), sum(x) FROM {t} GROUP BY CUBE (s, a)",
    "grouping sets": "SELECT s, m, a, count(*) FROM {t} GROUP BY GROUPING SETS ((s), (m, a), ())",
    "join": "SELECT kind, count(*), sum(x) FROM {t} JOIN kinds USING (s) GROUP BY kind",
    "dates": "SELECT date_trunc('month', d) AS month, count(*) FROM {t} GROUP BY month",
    "variances": "SELECT a, stddev(w), var_pop(x) FROM {t} GROUP BY a",
    "correlations": "SELECT corr(x, w), covar_samp(w, x) FILTER (WHERE a) FROM {t}",
    "quantiles": "SELECT a, median(x), quantile_cont(w, 0.9) FROM {t} GROUP BY a",
    "ratios": "SELECT s, sum(x * w) / sum(x), count(*) FILTER (WHERE a) / count(*) FROM {t} GROUP BY s",
    "threshold": "SELECT count(*) FROM {t} WHERE (x >= 4)::INT + a::INT + (s = 'v0')::INT >= 2",
}


def ask(tables, sql: str, bases, name: str, noises: tuple[str, ...] = ("gaussian", "laplace")) -> None:
    tables.make(bases)
    for base in bases:
        noise = noises[base % len(noises)]
        text = sql.format(t=f"t{base}").replace("'", "''")
        asked = f"FROM dp_query('{text}', epsilon := 0.5, mechanism := '{noise}', release := '{name}')"
        tables.db.sql(asked).fetchall()


@pytest.mark.medium
@pytest.mark.parametrize("bases", PARTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_queries_of_neighbours_differ_by_no_more_than_the_noise_was_made_for(tables, found, shape, bases):
    ask(tables, SHAPES[shape], bases, f"{shape} {bases}")
    found.check(EACH * len(bases), 0.0 if (tables.kind, shape) == ("replaced", "count") else 0.2)


LAPLACE = {
    "opposite": "SELECT sum(CASE WHEN a THEN 3 ELSE 2 END), sum(CASE WHEN a THEN 2 ELSE 3 END) FROM {t}",
    "sums": SHAPES["sums"],
    "cube": SHAPES["cube"],
}
"""Of the first no row changes both sums the most, so that what it changes is less by squares than by itself."""


@pytest.mark.medium
@pytest.mark.parametrize("shape", LAPLACE)
def test_laplace_noise_is_made_for_what_a_row_changes(tables, found, shape):
    ask(tables, LAPLACE[shape], range(1), f"laplace {shape}", ("laplace",))
    found.check(EACH, 0.2)


@pytest.mark.medium
@pytest.mark.parametrize("bases", PARTS)
@pytest.mark.parametrize("tables", ["units"], indirect=True)
def test_units_are_counted_by_no_more_than_the_noise_was_made_for(tables, found, bases):
    ask(tables, "SELECT s, count(DISTINCT unit), count(*) FROM {t} GROUP BY s", bases, f"units {bases}")
    found.check(EACH * len(bases), 0.2)


def synthesize(tables, name: str, bases, release: str, **options) -> None:
    prior = {"prior": "public_rows"} if registered()[name].needs_prior else {}
    tables.make(bases)
    for base in bases:
        tables.db.synthesize(
            f"t{base}",
            5.0,
            mechanism=name,
            columns=("a", "s", "x"),
            reuse=False,
            release=release,
            **FAST[name],
            **prior,
            **options,
        )


@pytest.mark.medium
@pytest.mark.parametrize("bases", PARTS)
@pytest.mark.parametrize("name", NAMES)
def test_questions_of_mechanisms_differ_by_no_more_than_the_noise_was_made_for(tables, found, name, bases):
    synthesize(tables, name, bases, f"{name} {bases}")
    found.check(EACH * len(bases), 0.2)


# Broken twins, each of which a pair shows


@pytest.mark.medium
@pytest.mark.parametrize("tables", ["units"], indirect=True)
def test_a_cap_on_rows_that_is_ignored_is_noticed(tables, found, monkeypatch):
    capped = Bound.apply
    monkeypatch.setattr(Bound, "apply", lambda bound, *given: capped(replace(bound, rows=10**5), *given))
    ask(tables, SHAPES["count"], range(1), "no cap")
    with pytest.raises(AssertionError):
        found.check(EACH, 0.0)


@pytest.mark.medium
def test_a_weight_that_is_doubled_is_noticed(tables, found, monkeypatch):
    right = linear.exact_answers
    monkeypatch.setattr(linear, "exact_answers", lambda *given: [2 * part for part in right(*given)])
    ask(tables, SHAPES["groups"], range(1), "doubled")
    with pytest.raises(AssertionError):
        found.check(EACH, 0.0)


@pytest.mark.medium
def test_a_case_of_which_too_small_bounds_are_claimed_is_noticed(tables, found, monkeypatch):
    for end in ("low", "high"):
        monkeypatch.setattr(Choice, end, property(lambda choice, end=end: getattr(choice.moments[0], end) // 4))
    ask(tables, SHAPES["cases"], range(1), "too small")
    with pytest.raises(AssertionError):
        found.check(EACH, 0.0)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("tables", "name"),
    [("replaced", "direct"), ("replaced", "mwem"), ("units", "direct"), ("units", "mwem"), ("units", "fem")],
    indirect=["tables"],
)
def test_a_sensitivity_of_one_row_is_noticed(tables, found, monkeypatch, name):
    for claimed in ("cell", "marginal_l1", "marginal_l2_squared"):
        monkeypatch.setattr(Neighbours, claimed, property(lambda neighbours: 1))
    queries = {"queries": "marginals"} if name == "mwem" else {}
    synthesize(tables, name, range(1), f"one row {name}", **queries)
    with pytest.raises(AssertionError):
        found.check(EACH, 0.0)
