"""The conformance suite on every engine, and broken twins that fail it.

A later engine joins by one line of `PLACES`: a context that yields a `Place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Marginal
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.registry import ENGINES
from dpsql.engines.source import HOST, FoundView, Source
from dpsql.errors import UnknownName

from .conformance import CASES, PROPERTIES, Place, Rows, Table, known_cases, marginals_of
from .held_in_duckdb import WithUnits, fill
from .lakes import (
    InBucket,
    InBucketDelta,
    InBucketIceberg,
    InDelta,
    InDeltaWithVectors,
    InIceberg,
    InIcebergWithDeletes,
    InLake,
    InMappedDelta,
    lake_place,
)
from .postgres_place import postgres_place
from .s3_server import httpfs
from .spark_place import InSpark, InSparkIceberg, InSparkIcebergSql, InSparkSql, spark_place
from .spark_session import iceberg_jar
from .spellings import MORE, ONLY_DUCKDB
from .warehouse_place import warehouse_place

DOCUMENT = Path(__file__).parents[2] / "docs" / "developers" / "engines.md"
LONG = 3_000_000
"""Rows."""


class InDuckDB(WithUnits):
    """Tables of a DuckDB database; the secrets are those of two accounts that are opened there."""

    marks = frozenset({"NOT NULL", "GENERATED", "COLLATE"})
    cannot: frozenset[str] = frozenset()
    more_types = frozenset(MORE | ONLY_DUCKDB)

    def __init__(self, db: dpsql.Database) -> None:
        self._db, self._cursor, self.engine = db, db.connection.cursor(), DuckDBEngine

    def open(self) -> DuckDBEngine:
        return self.engine(self._cursor)

    def stored(self, kind: str) -> str:
        return kind

    def table(self, name: str, columns: Mapping[str, str], rows: Rows) -> None:
        listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        self._db.sql(f'CREATE OR REPLACE TABLE "{name}" ({listed})')
        self.append(name, rows)

    def append(self, name: str, rows: Rows) -> None:
        fill(self._db, name, rows)

    def view(self, name: str, of: str) -> None:
        self._db.sql(f"CREATE VIEW {name} AS FROM {of}")

    def long(self, name: str) -> Domain:
        self._db.sql(f"CREATE TABLE {name} AS SELECT i % 1000 AS x, i % 777 AS y FROM range({LONG}) r(i)")
        return Domain(tuple(Attribute(n, "BIGINT", "bins", (), (0, 500, 1000), ("0", "500", "999")) for n in "xy"))

    def failing(self, name: str, value: str) -> Domain:
        computed = "VARCHAR GENERATED ALWAYS AS (CAST(CAST(x AS INTEGER) AS VARCHAR))"
        self.table(name, {"x": "VARCHAR", "y": computed}, [])
        self._db.sql(f"INSERT INTO {name} VALUES ('1')")
        self._db.sql(f"UPDATE {name} SET x = ?", [value])  # INSERT would compute it
        with pytest.raises(duckdb.Error, match=value):  # DuckDB's own words
            self._db.sql(f"SELECT y FROM {name}").fetchall()
        return Domain((Attribute("y", "VARCHAR", "values", ("1",), nullable=True),))

    def left(self) -> int:
        return self._cursor.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall()[0][0]


@contextmanager
def duckdb_place(folder: Path, *, threads: int, in_file: bool) -> Iterator[InDuckDB]:
    path = folder / "bank.duckdb" if in_file else ":memory:"
    with dpsql.connect(path, config={"threads": threads}) as db:
        yield InDuckDB(db)


PLACES: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    f"{HOST}, in memory, 1 thread": partial(duckdb_place, threads=1, in_file=False),
    f"{HOST}, in a file, 2 threads": partial(duckdb_place, threads=2, in_file=True),
    f"{HOST}, in memory, 8 threads": partial(duckdb_place, threads=8, in_file=False),
    "parquet, 2 threads": partial(lake_place, kind=InLake, threads=2),
    "delta, 2 threads": partial(lake_place, kind=InDelta, threads=2),
    "delta, with vectors": partial(lake_place, kind=InDeltaWithVectors, threads=2),
    "delta, mapped": partial(lake_place, kind=InMappedDelta, threads=2),
    "iceberg, 2 threads": partial(lake_place, kind=InIceberg, threads=2),
    "iceberg, with deletes": partial(lake_place, kind=InIcebergWithDeletes, threads=2),
    "postgres": postgres_place,
    "snowflake, its SQL in DuckDB": partial(warehouse_place, name="snowflake"),
    "bigquery, its SQL in DuckDB": partial(warehouse_place, name="bigquery"),
    "spark": partial(spark_place, kind=InSpark),
    "spark_sql": partial(spark_place, kind=InSparkSql),
}
"""For each engine, by its name first, where its tables can be."""
if httpfs():
    in_bucket = {"parquet": InBucket, "delta": InBucketDelta, "iceberg": InBucketIceberg}
    PLACES |= {
        f"{engine}, in a bucket": partial(lake_place, kind=kind, threads=2) for engine, kind in in_bucket.items()
    }
if iceberg_jar():
    PLACES |= {
        "spark, Iceberg": partial(spark_place, kind=InSparkIceberg),
        "spark_sql, Iceberg": partial(spark_place, kind=InSparkIcebergSql),
    }


ONCE = ("bigquery",)
"""Those that CI runs with one version of DuckDB: the statements of the other warehouse are nearly theirs."""
EACH = [pytest.param(where, marks=[pytest.mark.slow] * where.startswith(ONCE)) for where in PLACES]


@pytest.mark.medium
@pytest.mark.parametrize("where", EACH)
@pytest.mark.parametrize("claim", PROPERTIES)
def test_an_engine_conforms(claim, where, tmp_path):
    with PLACES[where](tmp_path) as place:
        PROPERTIES[claim](place)


def test_every_engine_is_tested():
    assert {where.split(",")[0] for where in PLACES} == set(ENGINES)


@pytest.mark.medium
@pytest.mark.parametrize("where", EACH)
def test_counts_of_any_table_are_the_references(where, tmp_path):
    """Of any columns, values and order of rows."""
    with PLACES[where](tmp_path) as place:
        names = st.lists(st.sampled_from(sorted(known_cases(place))), min_size=1, max_size=3, unique=True)

        @settings(
            max_examples=2 if where.startswith("spark") else 5 if "bucket" in where else 25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(names, st.data())
        def right(names: list[str], data: st.DataObject) -> None:
            value = [st.sampled_from((None, *CASES[name].pool)) for name in names]
            rows = data.draw(st.lists(st.tuples(*value, st.sampled_from([None, "u", "v"])), max_size=30))
            marginals_of(Table(place, place.open(), tuple(names), rows))

        right()


# --- broken twins -----------------------------------------------------------------------------------------------------


class Wrapped(DuckDBCounter):
    """A counter of which one thing is wrong."""

    def among(self, places):
        sample = super().among(places)
        sample.__class__ = type(self)
        return sample


class Twin(DuckDBEngine):
    """An engine of which one thing is wrong."""

    counts: type[DuckDBCounter] = DuckDBCounter

    def counter(self, source, domain, bound=None, *, once=False, before=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dpsql.engines.duckdb.engine.DuckDBCounter", self.counts)
            return super().counter(source, domain, bound, once=once, before=before)


def counting(**methods) -> type[Twin]:
    return type("Twin", (Twin,), {"counts": type("Broken", (Wrapped,), methods)})


def finding(find) -> type[Twin]:
    return type("Twin", (Twin,), {"find": find})


def bounding(change) -> type[Twin]:
    """An engine that bounds units otherwise."""

    def counter(self, source, domain, bound=None, **how):
        return Twin.counter(self, source, domain, None if bound is None else change(bound), **how)

    return type("Twin", (Twin,), {"counter": counter})


def exactly(self, text, search_path=""):
    source = DuckDBEngine.find(self, text, search_path)
    if source.name not in text:
        raise UnknownName(text)
    return source


def plain_columns(self, text, search_path=""):
    source = DuckDBEngine.find(self, text, search_path)
    return replace(source, columns=tuple(replace(column, generated=False) for column in source.columns))


def views_are_tables(self, text, search_path=""):
    try:
        return DuckDBEngine.find(self, text, search_path)
    except FoundView as view:
        return Source(*view.parts, ())


def marginal_changed(change):
    def marginal(self, clique):
        found = DuckDBCounter.marginal(self, clique)
        return change(found) if clique else found

    return marginal


def moved(found: Marginal) -> Marginal:
    return replace(found, counts=np.roll(found.counts, 1))


def first_is_missing(found: Marginal) -> Marginal:
    return replace(found, cells=found.cells[1:], counts=found.counts[1:])


def with_zeros(found: Marginal) -> Marginal:
    return Marginal(found.clique, found.size, np.arange(found.size), found.dense())


def one_row_more(self, clique):
    found = DuckDBCounter.marginal(self, clique)
    return found if clique else replace(found, counts=found.counts + 1)


def pairs_twice(self, clique):
    found = DuckDBCounter.presence(self, clique)
    return replace(found, units=np.repeat(found.units, 2), cells=np.repeat(found.cells, 2))


def a_unit_more_of_each(self, clique):
    found = DuckDBCounter.presence(self, clique)
    return replace(found, alike=found.alike + 1)


def unclamped(self, clique, moment):
    return DuckDBCounter.sums(self, clique, replace(moment, low=-(2**32), high=2**32))


def outside_adds_nothing(self, clique, moment):
    return DuckDBCounter.sums(self, clique, replace(moment, outside=0))


def bins_moved(self, attribute):
    return moved(DuckDBCounter.bins(self, attribute))


def rare_ones_too(self, column):
    texts, counts = DuckDBCounter.values(self, column)
    return [*texts, "zzz"], np.append(counts, 1)


def values_by_rows(self, column):
    self._bound = None
    return DuckDBCounter.values(self, column)


def the_first_places(self, places):
    return Wrapped.among(self, np.arange(len(places)))


def the_first_rows(self, source, domain, most):
    codes, total = DuckDBEngine.codes(self, source, domain, 10**6)
    return codes[:most], total


def each_time(self):
    if self._before is not None:
        self._before()


def own_words(self, clique):
    self._cursor.execute(self._encoded().sql(dialect="duckdb")).fetchall()
    return DuckDBCounter.marginal(self, clique)


def counts_anew(self, clique):
    self.close()
    return DuckDBCounter.marginal(self, clique)


def forgets_nulls_as(self, clique):
    domain = Domain(tuple(replace(attribute, nulls_as=()) for attribute in self._domain))
    return DuckDBCounter.marginal(DuckDBCounter(self._cursor, self._source, domain, self._bound), clique)


def texts_alone(self, clique):
    """Of floats, values that are written as one of the domain's texts only, as if each text were a value."""
    column = exp.column(self._domain.names[0], quoted=True)
    texts = exp.func("coalesce", exp.cast(column, "VARCHAR"), exp.Literal.string("0.0"))
    written = self._source.table().sql(), texts.sql(dialect="duckdb"), column.sql(dialect="duckdb")
    rows = "CREATE OR REPLACE TEMP TABLE texts AS SELECT * EXCLUDE ({2}), CASE WHEN {1} <> '-0.0' THEN {2} END AS {2} FROM {0}"
    self._cursor.execute(rows.format(*written))
    source = replace(self._source, catalog="temp", schema="main", name="texts")
    return DuckDBCounter.marginal(DuckDBCounter(self._cursor, source, self._domain, once=True), clique)


turns = iter(range(10**6))
TWINS: dict[str, tuple[str, type[Twin]]] = {
    "names in their own case": ("find: a name", finding(exactly)),
    "generated columns are stored": ("find: columns", finding(plain_columns)),
    "views are tables": ("find: what is not there", finding(views_are_tables)),
    "counts of other cells": ("marginal: counts of every type", counting(marginal=marginal_changed(moved))),
    "a cell is missing": ("marginal: counts of every type", counting(marginal=marginal_changed(first_is_missing))),
    "cells of no rows": ("marginal: the empty clique", counting(marginal=marginal_changed(with_zeros))),
    "no value stands for NULL": ("marginal: counts of every type", counting(marginal=forgets_nulls_as)),
    "one row more": ("marginal: the empty clique", counting(marginal=one_row_more)),
    "one row of nothing": ("an empty table", counting(marginal=one_row_more)),
    "units are not bounded": ("units: of each unit", bounding(lambda bound: None)),
    "a row more of each unit": ("units: of each unit", bounding(lambda bound: replace(bound, rows=bound.rows + 1))),
    "another choice each time": (
        "units: the same rows",
        bounding(lambda b: replace(b, account=("one_secret", "other_secret")[next(turns) % 2])),
    ),
    "one choice for all secrets": ("units: the same rows", bounding(lambda b: replace(b, account="one_secret"))),
    "all rows of a new unit": ("units: a unit that is added", bounding(lambda b: replace(b, rows=9))),
    "pairs twice": ("presence: each pair", counting(presence=pairs_twice)),
    "one unit more of those that are alike": ("presence: each pair", counting(presence=a_unit_more_of_each)),
    "no clamp": ("sums: steps", counting(sums=unclamped)),
    "products are not clamped": ("sums: of products", counting(sums=unclamped)),
    "outside adds nothing": ("sums: steps", counting(sums=outside_adds_nothing)),
    "other bins": ("bins: counts", counting(bins=bins_moved)),
    "-0.0 is another value than 0.0": ("equal: rows", counting(marginal=texts_alone)),
    "a value of one unit": ("values: those", counting(values=rare_ones_too)),
    "values of one unit's rows": ("values: those", counting(values=values_by_rows)),
    "the first rows for any places": ("among: a sample", counting(among=the_first_places)),
    "the first rows for a sample": ("codes: each", type("Twin", (Twin,), {"codes": the_first_rows})),
    "before each statement": ("before: called once", counting(_about_to_read=each_time)),
    "not to be interrupted": ("interrupt: ends", type("Twin", (Twin,), {"interrupt": lambda self: None})),
    "counts what is there now": ("a table that changes", counting(marginal=counts_anew)),
    "DuckDB's own words": ("errors: an engine's", counting(marginal=own_words)),
    "nothing is dropped": ("close: counters", counting(_drop=lambda self: None)),
}
"""For each broken engine, how the property begins that it breaks."""


@pytest.mark.parametrize("name", TWINS)
def test_a_broken_twin_fails(name, tmp_path):
    begins, engine = TWINS[name]
    (check,) = [check for says, check in PROPERTIES.items() if says.startswith(begins)]
    with duckdb_place(tmp_path, threads=1, in_file=False) as place:
        place.engine = engine
        with pytest.raises((AssertionError, pytest.fail.Exception, UnknownName, duckdb.Error)):
            check(place)


def test_each_property_has_a_twin_that_breaks_it():
    assert [says for says in PROPERTIES if not any(says.startswith(begins) for begins, _ in TWINS.values())] == []


def test_the_document_lists_what_the_suite_covers():
    _, _, covers = DOCUMENT.read_text(encoding="utf-8").partition("## What the suite covers")
    listed = [line[2:] for line in covers.splitlines() if line.startswith("- ")]
    assert listed == list(PROPERTIES)
