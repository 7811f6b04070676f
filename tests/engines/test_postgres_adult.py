"""Real tables in Postgres and in DuckDB: equal counts of marginals, sums, listed values and privacy units."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dpsql.books.ledger.store import Books
from dpsql.core.linear_query import Moment
from dpsql.engines.protocol import UnitBound
from dpsql.engines.registry import engine_of, find_source
from dpsql.owner.protect import domain_of

from ..conftest import declare_from_data
from .postgres_bank import Bank, bank

pytestmark = pytest.mark.medium


@contextmanager
def both(folder, data, name: str) -> Iterator[Bank]:
    """A real table as `here` in DuckDB and as `there` in Postgres, with the domains that its values have."""
    with bank(folder) as found:
        db = found.db
        db.sql(f"CREATE TABLE here AS SELECT row_number() OVER () AS id, * FROM '{data}/{name}.csv.gz'")
        kinds = {"VARCHAR": "text", "BIGINT": "int8", "DOUBLE": "float8"}
        columns = db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'here'").fetchall()
        listed = ", ".join(f'"{column}" {kinds.get(kind, kind)}' for column, kind in columns)
        found.sql(f"CREATE TABLE there ({listed}, PRIMARY KEY (id))")
        texts = ", ".join(f'CAST("{column}" AS VARCHAR)' for column, _ in columns)
        found.server.fill(found.database, "there", db.sql(f"SELECT {texts} FROM here").fetchall())
        found.source("there")
        db.protect("here", epsilon=3.0, delta=1e-9)
        declare_from_data(db, "here")
        yield found


def counters(found: Bank, bound: UnitBound | None = None) -> Iterator[object]:
    """Of both tables, by the domain of the one here."""
    cursor = found.db.connection.cursor()
    here = find_source(cursor, "bank.main.here")
    domain = domain_of(Books(cursor, "bank"), here)
    for source in (here, find_source(cursor, "bank.main.there")):
        with closing(engine_of(cursor, source)) as engine, closing(engine.counter(source, domain, bound)) as counter:
            yield domain, counter


def cells(marginal) -> dict[int, int]:
    return dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True))


def test_adult(tmp_path, data):
    with both(tmp_path, data, "adult") as found:
        seen = []
        for domain, counter in counters(found):
            names = [name for name in domain.names if name != "id"]
            cliques = random.Random(1).sample(list(itertools.combinations(names, 3)), 64)
            sums = [Moment("age", 1.0, 0, 60), Moment("capital_gain", 0.5, -3, 2000, outside=7, missing=1)]
            seen.append(
                (
                    [cells(counter.marginal(clique)) for clique in [(), *cliques]],
                    [cells(counter.sums(("sex", "race"), moment)) for moment in sums],
                    {name: tuple(map(tuple, counter.values(name))) for name in names},
                )
            )
        assert seen[0] == seen[1]
        assert len(seen[0][0]) == 65


def test_zip_codes(tmp_path, data):
    """823 values that are listed, and percentages that are texts."""
    with both(tmp_path, data, "loans") as found:
        seen = [[cells(counter.marginal((name,))) for name in domain.names] for domain, counter in counters(found)]
        assert seen[0] == seen[1]
        assert max(map(len, seen[0])) >= 823


def test_units_of_a_real_table(tmp_path, data):
    """The two engines choose other rows, but as many of each unit; with room for all, the same."""
    with both(tmp_path, data, "adult") as found:
        found.db.sql("CREATE TABLE people (who VARCHAR)")
        found.db.protect("people", epsilon=1.0, delta=1e-6, privacy_unit="who", max_rows=1)
        for rows in (1, 100_000):
            bound = UnitBound("native_country", "VARCHAR", rows, "bank", "people")
            totals, marginals = [], []
            for _, counter in counters(found, bound):
                totals.append(counter.marginal(()).counts.tolist())
                marginals.append(cells(counter.marginal(("native_country",))))
                if rows > 1:
                    marginals[-1] |= {-1 - c: n for c, n in cells(counter.marginal(("age", "sex"))).items()}
            assert totals[0] == totals[1]
            assert marginals[0] == marginals[1]
