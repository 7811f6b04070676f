"""Adult in Spark and in DuckDB: equal counts of 64 marginals, of sums and of listed values, both ways."""

from __future__ import annotations

import itertools
import random
from contextlib import closing

import pytest

from dpsql.books.ledger.store import Books
from dpsql.core.counter import CountsTogether
from dpsql.core.linear_query import Moment
from dpsql.engines.registry import engine_of, find_source
from dpsql.owner.protect import domain_of

from ..conftest import declare_from_data
from .spark_bank import WAYS, lot

pytestmark = pytest.mark.medium


def cells(marginal) -> dict[int, int]:
    return dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True))


def test_adult(tmp_path, data):
    seen = []
    for way in WAYS:
        with lot(tmp_path / way) as found:
            db = found.db
            db.sql(f"CREATE TABLE here AS FROM '{data}/adult.csv.gz'")
            db.sql(f"COPY here TO '{tmp_path}/{way}/adult.parquet'")
            db.source("there", engine=way, files=f"{tmp_path}/{way}/adult.parquet")
            db.protect("here", epsilon=3.0, delta=1e-9)
            declare_from_data(db, "here")
            cursor = db.connection.cursor()
            here = find_source(cursor, "here")
            domain = domain_of(Books(cursor, "bank"), here)
            cliques = random.Random(1).sample(list(itertools.combinations(domain.names, 3)), 64)
            sums = [Moment("age", 1.0, 0, 60), Moment("capital_gain", 0.5, -3, 2000, outside=7, missing=1)]
            if way == "spark_sql":  # which the tests' Spark runs without compiling it
                cliques, sums = cliques[:4], sums[:1]
            for source in (here, find_source(cursor, "there"))[way != WAYS[0] :]:
                with closing(engine_of(cursor, source)) as engine:
                    counter = engine.counter(source, domain)
                    if isinstance(counter, CountsTogether):
                        counter.expect(cliques)
                    counts = [cells(counter.marginal(clique)) for clique in [(), *cliques]]
                    added = [cells(counter.sums(("sex", "race"), moment)) for moment in sums]
                    values = {name: tuple(map(tuple, counter.values(name))) for name in ("age", "education")}
                    seen.append((counts, added, values))
    assert seen[0] == seen[1]
    counts, added, values = seen[2]
    assert (counts, added, values) == (seen[0][0][: len(counts)], seen[0][1][:1], seen[0][2])
