"""Adult as it is, in a lake: every count of an owner's questions is that of DuckDB on the same rows in a table."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment
from dpsql.engines.duckdb.declare import declare_bins
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.owner.declaration import Declaration

from ..conftest import DATA
from .lakes import InDelta, InIceberg, InLake, lake_place

pytestmark = pytest.mark.skipif(not (DATA / "adult.csv.gz").exists(), reason="the table adult is not in ../shared/data")
ROWS = f"""
    SELECT *, CASE WHEN fnlwgt % 7 = 0 THEN 'NaN'::DOUBLE WHEN fnlwgt % 11 = 0 THEN '-inf'::DOUBLE
      WHEN fnlwgt % 13 = 0 THEN -0.0 ELSE fnlwgt / 1e4 END AS weight,
      (capital_gain / 8)::DECIMAL(9, 3) AS gain, DATE '2000-01-01' - age::INTEGER AS born,
      make_timestamptz(fnlwgt * 1000000) AS seen, nullif(occupation, 'Sales') || ' 😀ß' AS work, fnlwgt % 9000 AS person
    FROM read_csv('{DATA}/adult.csv.gz')
"""
LISTED = ("workclass", "education", "race", "sex", "work")
BINS = {
    "age": (17, 90, 20),
    "weight": (0.0, 40.0, 8),
    "gain": (0, 12500, 10),
    "born": ("1999-10-01", "1999-12-15", 6),
    "seen": ("1970-01-01", "1970-01-20", 19),
    "hours_per_week": (1, 99, 12),
}


@pytest.mark.medium
@pytest.mark.parametrize("kind", [InLake, InDelta, InIceberg])
def test_counts_of_adult_are_those_of_duckdb(kind, tmp_path):
    """64 marginals, a sum, what discoveries count, and all of these of bounded units."""
    with lake_place(tmp_path, kind, threads=2) as place:
        db = place._db
        db.sql(f"CREATE TABLE raw.adult AS {ROWS}")
        place._write("adult", "FROM raw.adult")
        there, here = place.open(), DuckDBEngine(place._cursor)
        sources = {there: there.find("adult"), here: here.find("raw.adult")}
        domain = domain_of(db, sources[here])
        assert [(c.name, c.type) for c in sources[there].columns] == [(c.name, c.type) for c in sources[here].columns]
        cliques = list(itertools.combinations(domain.names, 3))
        random.Random(0).shuffle(cliques)
        for bound in (None, place.bound("person", "BIGINT", 3)):
            found = [list(answers(engine, source, domain, bound, cliques[:64])) for engine, source in sources.items()]
            for number, (left, right) in enumerate(zip(*found, strict=True)):
                assert len(left) == len(right), number
                assert all(np.array_equal(one, other) for one, other in zip(left, right, strict=True)), number


def domain_of(db, source):
    """The columns of texts by their values, others in bins."""
    listed = []
    for name in LISTED:
        values = db.sql(f'SELECT DISTINCT "{name}" FROM raw.adult WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
        declared = Declaration(values=[value for (value,) in values[1:]], nulls=True)  # one is outside
        listed.append(declared.attribute(db.connection.cursor(), source.column(name)))
    cursor = db.connection.cursor()
    bins = [
        declare_bins(cursor, source.column(name), None, low, high, count, nullable=True, other=None)
        for name, (low, high, count) in BINS.items()
    ]
    return Domain((*listed, *bins))


def answers(engine, source, domain, bound, cliques):
    """What an engine counts, as arrays in an order of their own."""
    counter = engine.counter(source, domain, bound)
    for clique in cliques:
        marginal = counter.marginal(clique)
        order = np.argsort(marginal.cells)
        yield marginal.cells[order], marginal.counts[order]
    total = counter.sums(("sex",), Moment("age", 1.0, 17, 90))
    order = np.argsort(total.cells)
    yield total.cells[order], total.counts[order]
    if bound is not None:
        yield (np.sort(np.bincount(counter.presence(("sex", "race")).units)),)
    texts, counts = counter.values("work")
    yield np.array(texts), counts
    edges = counter.bins(domain.by_name["age"])
    order = np.argsort(edges.cells)
    yield edges.cells[order], edges.counts[order]
    counter.close()
