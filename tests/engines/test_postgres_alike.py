"""Units and rows that are alike: `count(DISTINCT unit)`, samples and `evaluate` of a table that stays in Postgres."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_query import LinearQuery, Part
from dpsql.engines.checked import WrongCounts, codes_in, presence_of
from dpsql.engines.protocol import UnitBound
from dpsql.engines.registry import engine_of, find_source

from .postgres_bank import Bank, bank

HOSTILE = "it's; DROP TABLE t; -- $1 {} 😀"
UNITS = (HOSTILE, "a", "A", "a ", "ä", "a\u0308", "", "0", "{1,2}", "NULL")


@pytest.fixture(scope="module")
def visits(tmp_path_factory) -> Iterator[Bank]:
    """A table in Postgres, and the same rows in DuckDB, with the same domains; each unit has four rows."""
    draw, units = random.Random(7), [*UNITS, *(f"p{n}" for n in range(140))]
    rows = [(str(i), units[i % 150], draw.choice(["w0", "w1", "w2", "other"]), str(i % 97)) for i in range(600)]
    with bank(tmp_path_factory.mktemp("alike")) as found:
        found.sql('CREATE TABLE visits (id int4 PRIMARY KEY, "who is" text, ward text, age int4)')
        found.server.fill(found.database, "visits", rows)
        found.source("visits")
        found.db.sql('CREATE TABLE here (id INTEGER, "who is" VARCHAR, ward VARCHAR, age INTEGER)')
        found.db.connection.executemany("INSERT INTO here VALUES (?, ?, ?, ?)", rows)
        for table in ("visits", "here"):
            found.db.protect(table, epsilon=1000.0, delta=1e-6, privacy_unit="who is", max_rows=4)
            found.db.domain(table, "ward", values=["w0", "w1", "w2"])
            found.db.domain(table, "age", lower=0, upper=89)
            for name in ("id", "who is"):
                found.db.domain(table, name, exclude=True)
        yield found


@pytest.mark.medium
@pytest.mark.parametrize(
    "query",
    [
        'SELECT count(DISTINCT "who is") FROM {}',
        'SELECT ward, count(DISTINCT "who is"), count(*) FROM {} GROUP BY ward',
        'SELECT age // 30, count(DISTINCT "who is") FILTER (age > 44) FROM {} GROUP BY 1',
        'SELECT ward, age // 45, count(DISTINCT "who is") FROM {} GROUP BY ROLLUP (ward, age // 45)',
    ],
)
def test_units_are_counted_as_duckdb_counts_them(visits, query):
    """With a budget at which the noise is nearly nothing; of each unit all rows count."""
    there, here = (
        visits.db.sql(f"FROM dp_query($${query.format(table)}$$, epsilon := 200)").fetchall()
        for table in ("visits", "here")
    )
    assert len(there) == len(here)
    for row, other in zip(there, here, strict=True):
        assert [x for x in row if isinstance(x, str)] == [x for x in other if isinstance(x, str)]
        numbers = [[x for x in one if isinstance(x, int | float)] for one in (row, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=2)


def answered(found: Bank, query: LinearQuery, most: int) -> np.ndarray:
    """The exact answers of one aggregate of units."""
    source = find_source(found.db.connection.cursor(), "bank.main.visits")
    engine = engine_of(found.db.connection.cursor(), source)
    counter = engine.counter(source, query.domain, UnitBound("who is", "VARCHAR", most, "bank", source.key))
    answers = query.answers(counter.marginal(query.clique), counter.presence(query.clique))
    engine.close()
    return np.concatenate([part[0] for part in answers])


@pytest.mark.medium
@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_unit_less_lowers_each_group_by_one_at_most(visits, most):
    """Of each grouping set at most so many groups as rows of a unit count, whatever the groups are."""
    draw = np.random.default_rng(most)
    ward = Attribute("ward", "VARCHAR", "values", ("w0", "w1", "w2"), nullable=True, other="other")
    age = Attribute("age", "INTEGER", "bins", (), (0, 10, 50, 80), ("0", "10", "50", "79"), nullable=True)
    domain = Domain((ward, age))
    cells = domain.size(("ward", "age"))
    groups, factors = draw.integers(0, (5, 3), (cells, 2)).T, draw.integers(0, 2, (1, cells))
    query = LinearQuery(domain, (Part(("ward", "age"), factors, groups, (5, 3)),), frozenset({0}))
    before = answered(visits, query, most)
    for unit in (HOSTILE, "a\u0308", "p3"):
        kept = visits.sql("SELECT format('(%s, %L, %L, %s)', id, \"who is\", ward, age) FROM visits")
        quoted = unit.replace("'", "''")
        visits.sql(f'DELETE FROM visits WHERE "who is" COLLATE "C" = \'{quoted}\'')
        change = before - answered(visits, query, most)
        visits.sql("TRUNCATE visits", f"INSERT INTO visits VALUES {', '.join(row for (row,) in kept)}")
        assert set(change.tolist()) <= {0, 1}
        assert change[:5].sum() <= most
        assert change[5:].sum() <= most
    assert (answered(visits, query, most) == before).all()


@pytest.mark.medium
def test_a_sample_of_rows_is_drawn(visits, quick):
    """A mechanism plays on it, and asks Postgres once for what it is drawn from. The draw is in no log of Postgres."""
    visits.sql("CREATE TABLE rows AS SELECT id, ward, age FROM visits")
    visits.source("rows")
    visits.db.protect("rows", epsilon=1000.0, delta=1e-6)
    visits.db.domain("rows", "ward", values=["w0", "w1", "w2"])
    for name in ("id", "age"):
        visits.db.domain("rows", name, exclude=True)
    visits.forget_log()
    how = "mechanism := 'dualquery', subsample := true, sample_rows := 100, rounds := 5, samples := 5, eta := 0.01"
    made = visits.db.sql(f"FROM dp_synthesize('rows', epsilon := 900, {how})").fetchall()
    assert made
    log = visits.server.log.read_text()
    assert len(re.findall(r"SELECT COALESCE\(c0, \(-1\)\)[^\n]*ORDER BY 1", log)) == 1
    assert "parameters: $1 = '{" not in log


@pytest.mark.medium
def test_each_row_has_a_place(visits):
    """From 0 on: the rows at all places are the table, those at parts of them add up to it."""
    source = find_source(visits.db.connection.cursor(), "bank.main.visits")
    engine = engine_of(visits.db.connection.cursor(), source)
    ward = Attribute("ward", "VARCHAR", "values", ("w0", "w1", "w2"), nullable=True)
    counter = engine.counter(source, Domain((ward,)))
    whole = counter.marginal(("ward",)).dense()
    for first in (0, 1, 299, 600):
        parts = [counter.among(places) for places in np.split(np.arange(600), [first]) if len(places)]
        assert (sum(part.marginal(("ward",)).dense() for part in parts) == whole).all()
        assert sum(part.marginal(()).counts[0] for part in parts) == 600
        sent = [counter.alike(places) for places in np.split(np.arange(600), [first]) if len(places)]
        codes, counts = (np.concatenate([part[one] for part in sent]) for one in (0, 1))
        assert np.bincount(codes[:, 0] + 1, counts).tolist()[1:] == whole.tolist()[: codes[:, 0].max() + 1]
        assert counts.sum() == 600
    engine.close()


@pytest.mark.medium
def test_every_sample_is_as_likely_as_every_other(visits):
    """The samples at all sets of places are those of all sets of rows, though a row's place depends on others."""
    visits.sql("CREATE TABLE few (id int4, ward text)")
    wards = ["w2", "w0", None, "w1", "w0", "x"]
    visits.server.fill(visits.database, "few", [(str(i), ward) for i, ward in enumerate(wards)])
    visits.source("few")
    source = find_source(visits.db.connection.cursor(), "bank.main.few")
    engine = engine_of(visits.db.connection.cursor(), source)
    counter = engine.counter(
        source, Domain((Attribute("ward", "VARCHAR", "values", ("w0", "w1", "w2"), nullable=True),))
    )
    codes = {"w0": 0, "w1": 1, "w2": 2, None: 3}
    for size in (1, 2, 5):
        seen, expected = [], []
        for places in combinations(range(len(wards)), size):
            seen.append(tuple(counter.among(np.array(places)).marginal(("ward",)).dense().tolist()))
            inside = [codes[wards[place]] for place in places if wards[place] in codes]
            expected.append(tuple(np.bincount(inside, minlength=4).tolist()))
        assert sorted(seen) == sorted(expected)
    engine.close()


@pytest.mark.medium
def test_evaluate_says_of_rows_there_what_it_says_of_the_same_rows_here(visits):
    visits.db.sql("CREATE OR REPLACE TABLE made AS SELECT ward, age FROM here WHERE id % 3 > 0")
    there, here = (visits.db.evaluate(table, "made", workload="all 2-way") for table in ("visits", "here"))
    assert there.answers == here.answers
    assert there.real_rows == here.real_rows == 600


def cells_found(*cells: object, n: list[int]) -> dict[str, pa.ChunkedArray]:
    return {"cells": pa.chunked_array([list(cells)]), "n": pa.chunked_array([n])}


def test_units_alike_as_they_come_back():
    found = presence_of(cells_found([0, 2], [1], n=[3, 4]), ("a",), 3, 10, 2)
    assert (found.units.tolist(), found.cells.tolist(), found.alike.tolist()) == ([0, 0, 1], [0, 2, 1], [3, 4])


@pytest.mark.parametrize(
    "found",
    [
        cells_found([0, 0], n=[1]),
        cells_found([1, 0], n=[1]),
        cells_found([0], [0], n=[1, 1]),
        cells_found([0, 1, 2], n=[1]),
        cells_found([3], n=[1]),
        cells_found([-1], n=[1]),
        cells_found([0], n=[0]),
        cells_found([0], n=[-1]),
        cells_found([0, 1], n=[6]),
        cells_found([0, 1], n=[2**62]),
        cells_found([0, 1], n=[2**63 - 1]),
        cells_found([0.5], n=[1]),
        cells_found([True], n=[1]),
        cells_found([0, None], n=[1]),
        cells_found(["x"], n=[1]),
        cells_found([0], n=["x"]),
        {"n": pa.chunked_array([[1]])},
        {"cells": pa.chunked_array([["x"]]), "n": pa.chunked_array([[1]])},
        {"cells": pa.chunked_array([pa.array([[]], pa.list_(pa.int64()))]), "n": pa.chunked_array([[1]])},
    ],
)
def test_units_that_are_none(found):
    """No unit has two rows in one cell twice, more cells than rows, or a cell that is none."""
    with pytest.raises(WrongCounts):
        presence_of(found, ("a",), 3, 10, 2)


@pytest.mark.parametrize(("codes", "n"), [([3], [5]), ([-2], [5]), ([0], [4]), ([0, 1], [6, -1]), (["x"], [5])])
def test_codes_that_are_none(codes, n):
    with pytest.raises(WrongCounts):
        codes_in({"c0": pa.chunked_array([codes]), "n": pa.chunked_array([n])}, [3], 5)
