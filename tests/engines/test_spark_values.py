"""Types and values that Spark has, counted alike by DuckDB: in its own table, in the tasks of Spark and by Spark's SQL."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import duckdb
import pytest

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment
from dpsql.engines.protocol import UnitBound
from dpsql.engines.registry import engine_of, find_source
from dpsql.owner.declaration import Declaration

from .spark_bank import WAYS, Lot, lot

pytestmark = pytest.mark.medium

# type in Spark, type in DuckDB, how its domain is declared, values as both read them
CASES: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "short": ("STRING", "VARCHAR", {"values": ["a", "A", "a "]}, ["a", "A", "a ", "ab"]),
    "nocase": ("STRING COLLATE UTF8_LCASE", "VARCHAR", {"values": ["é", "É", "e"], "nulls_as": ["x"]}, ["é", "É", "e", "E", "x", "X"]),
    "slashes": ("STRING", "VARCHAR", {"values": ["a\\b", "it's", "$1", "--", "\n", "😀", "${x}"]}, ["a\\b", "a", "it's", "$1", "--", "\n", "😀", "${x}"]),
    "zips": ("STRING", "VARCHAR", {"values": [f"n{n:03}xx" for n in range(823)]}, ["n000xx", "n822xx", "n823xx", "n411xx", "0"]),
    "exact": ("DECIMAL(20,3)", "DECIMAL(20,3)", {"values": ["0.100", "-7", "12345678901234567.891"]}, ["0.1", "-7", "12345678901234567.891", "0.101"]),
    "money": ("DECIMAL(38,10)", "DECIMAL(38,10)", {"lower": 0, "upper": 1, "bins": 4}, ["0.25", "0.2499999999", "1", "-0.0000000001", "9999999999999999999999999999.9"]),
    "zeros": ("DOUBLE", "DOUBLE", {"values": [0.0, 1.5]}, ["0", "-0.0", "1.5", "NaN"]),
    "minus": ("FLOAT", "FLOAT", {"values": [-0.0, 0.1]}, ["0", "-0.0", "0.1", "0.10000001"]),
    "spiky": ("DOUBLE", "DOUBLE", {"lower": 0, "upper": 1, "bins": 2, "points": [0, 0.75], "nulls_as": ["nan", -1]}, ["0", "-0.0", "5e-324", "0.75", "NaN", "-1", "Infinity", "-Infinity"]),
    "always": ("DATE", "DATE", {"lower": "2000-01-01", "upper": "2000-12-31", "bins": 12}, ["2000-02-29", "1582-10-10", "0001-01-01", "9999-12-31"]),
    "days": ("DATE", "DATE", {"values": ["2000-02-29", "0044-03-15 (BC)"]}, ["2000-02-29", "0044-03-15 (BC)", "1582-10-04"]),
    "zoned": ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", {"lower": "2020-03-29 00:00:00+00", "upper": "2020-03-29 03:00:00+00", "bins": 3}, ["2020-03-29 02:30:00+02:00", "2020-03-29 01:00:00+00:00", "2020-03-28 20:00:00-05:00"]),
    "local": ("TIMESTAMP_NTZ", "TIMESTAMP", {"lower": "2020-03-29", "upper": "2020-03-30", "bins": 24}, ["2020-03-29 02:30:00", "2020-03-29 23:59:59.999999", "2020-03-30 00:00:01"]),
    "large": ("BIGINT", "BIGINT", {"lower": -(2**60), "upper": 2**60, "bins": 3}, ["-9223372036854775808", "9223372036854775807", "0"]),
    "aged": ("SMALLINT", "SMALLINT", {"lower": 0, "upper": 90, "nulls_as": [99]}, ["0", "99", "90", "-1", "91"]),
}  # fmt: skip
VALUES = [(name, value) for name, (*_, values) in CASES.items() for value in values]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same values in all three; the session of Spark is in a zone with half hours."""
    with lot(tmp_path_factory.mktemp("values")) as found:
        kinds = ", ".join(f"{name} {case[1]}" for name, case in CASES.items())
        found.db.sql(f"CREATE TABLE u ({kinds})")
        for name, value in VALUES:
            found.db.sql(f"INSERT INTO u ({name}) VALUES (CAST($1 AS {CASES[name][1]}))", params=[value])
        folder = found.spark.folder / "values"
        folder.mkdir()
        found.db.sql(f"COPY u TO '{folder}/u.parquet'")
        kinds = ", ".join(f"{name} {case[0]}" for name, case in CASES.items())
        found.sql(f"CREATE TABLE {{s}}.t ({kinds}) USING parquet LOCATION '{folder}'")
        found.source("t")
        with lot(tmp_path_factory.mktemp("sql")) as other:  # rows have one budget, so one name in each database
            other.schema = found.schema
            other.source("t", "spark_sql")
            yield {"u": found, "spark": found, "spark_sql": other}


def counter_of(both, way: str, domain: Domain):
    found: Lot = both[way]
    cursor = found.db.connection.cursor()
    source = find_source(cursor, "u" if way == "u" else "t")
    engine = engine_of(cursor, source)
    return closing(engine), engine.counter(source, domain)


def domain_of(both, table: str) -> Domain:
    cursor = both["u"].db.connection.cursor()
    source = find_source(cursor, table)
    found = (Declaration(**case[2], nulls=True).attribute(cursor, source.column(n)) for n, case in CASES.items())
    return Domain(tuple(attribute.closed(never_null=False) for attribute in found))


def cells(marginal) -> dict[int, int]:
    return dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True))


def test_all_count_alike(both):
    """Each column, pairs of them, and what is listed of them twice or more."""
    domain = domain_of(both, "t")
    assert domain == domain_of(both, "u")
    asked = [*((name,) for name in domain.names), ("zeros", "zoned"), ("zips", "nocase", "days")]
    found = {}
    for way in ("u", *WAYS):
        engine, counter = counter_of(both, way, domain)
        with engine, closing(counter):
            if way != "u":
                counter.expect(asked)
            found[way] = [cells(counter.marginal(clique)) for clique in asked]
    assert all(sum(marginal.values()) == len(VALUES) for marginal in found["u"])
    for way in WAYS:
        for name, expected, counts in zip(asked, found["u"], found[way], strict=True):
            assert counts == expected, (way, name)


@pytest.mark.parametrize("way", WAYS)
def test_values_are_listed_as_duckdb_writes_them(both, way):
    found: Lot = both[way]
    found.sql("CREATE OR REPLACE TEMP VIEW twice AS SELECT * FROM {s}.t UNION ALL SELECT * FROM {s}.t")
    found.sql(
        f"DROP TABLE IF EXISTS {{s}}.{way}_twice",
        f"CREATE TABLE {{s}}.{way}_twice USING parquet AS SELECT * FROM twice",
    )
    found.source("twice", way, f"{way}_twice")
    cursor = found.db.connection.cursor()
    source = find_source(cursor, "twice")
    host = both["u"].db.connection
    with closing(engine_of(cursor, source)) as engine, closing(engine.counter(source, Domain(()))) as counter:
        for name in ("nocase", "slashes", "exact", "zeros", "days", "zoned", "local"):
            texts, numbers = counter.values(name)
            value = "zeros + 0.0" if name == "zeros" else name  # both zeros are one value
            held = f"SELECT CAST({value} AS VARCHAR) AS v, 2 * count(*) FROM u WHERE {name} IS NOT NULL GROUP BY v"
            assert dict(zip(texts, numbers.tolist(), strict=True)) == dict(host.execute(held).fetchall()), name


def test_what_has_no_type_here_can_be_left_out(tmp_path):
    """Its column is there, without a domain; rows of units are chosen by the others."""
    with lot(tmp_path) as found:
        found.sql(
            "CREATE TABLE {s}.t (x INT, data MAP<STRING, INT>, tags ARRAY<STRING>, raw BINARY) USING parquet",
            "INSERT INTO {s}.t SELECT id % 5, map('a', 1), array('b'), X'00' FROM range(100)",
        )
        found.source("t")
        assert [row[1] for row in found.db.sql("DESCRIBE t").fetchall()] == ["INTEGER", *["BLOB"] * 3]
        found.db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="x", max_rows=7)
        cursor = found.db.connection.cursor()
        source = find_source(cursor, "t")
        domain = Domain((Declaration(lower=0, upper=9).attribute(cursor, source.column("x")),))
        with closing(engine_of(cursor, source)) as engine:
            counter = engine.counter(source, domain, UnitBound("x", "INTEGER", 7, "bank", "t"))
            assert counter.marginal(("x",)).counts.tolist() == [7] * 5
        with pytest.raises((ValueError, duckdb.Error)):
            found.db.domain("t", "data", values=["{}"])


@pytest.mark.parametrize("way", WAYS)
def test_names_that_statements_use_themselves(tmp_path, way):
    """And names that would end an identifier."""
    names = [
        "c0",
        "c1",
        "n",
        "cell",
        "m",
        "steps",
        "dpsql_weight",
        "dpsql_unit",
        "value",
        "block",
        "x0",
        'we`ird"; --',
        "é.f",
    ]
    with lot(tmp_path) as found:
        listed = ", ".join(f"id % {n + 2} AS `{name.replace('`', '``')}`" for n, name in enumerate(names))
        found.sql(f"CREATE TABLE {{s}}.t USING parquet AS SELECT {listed} FROM range(3000)")
        found.source("t", way)
        cursor = found.db.connection.cursor()
        source = find_source(cursor, "t")
        assert [column.name for column in source.columns] == names
        declared = Declaration(lower=0, upper=14)
        domain = Domain(tuple(declared.attribute(cursor, source.column(name)) for name in names))
        bounds = [None]
        if way == "spark":
            found.db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="n", max_rows=2000)
            bounds.append(UnitBound("n", "BIGINT", 2000, "bank", "t"))
        for bound in bounds:
            with closing(engine_of(cursor, source)) as engine:
                counter = engine.counter(source, domain, bound)
                counter.expect([(name,) for name in names])
                for number, name in enumerate(names):
                    assert len(counter.marginal((name,)).cells) == number + 2
                assert counter.marginal((names[0], names[-2])).counts.sum() == 3000
                assert counter.sums((names[0],), Moment("c1", 1.0, 0, 5)).counts.sum() == 3000
                assert len(counter.values(names[-2])[0]) == len(names)
