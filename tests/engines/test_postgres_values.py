"""Types and values that Postgres has and DuckDB writes otherwise, counted alike by both engines."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import duckdb
import pytest

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment
from dpsql.core.names import quote
from dpsql.engines.postgres.dialect import POSTGRES
from dpsql.engines.protocol import UnitBound
from dpsql.engines.registry import engine_of, find_source
from dpsql.engines.sql.types import Native
from dpsql.owner.declaration import Declaration

from .postgres_bank import Bank, bank

pytestmark = pytest.mark.medium

# type in Postgres, type in DuckDB, how its domain is declared, values as Postgres reads them, more that DuckDB has not
CASES: dict[str, tuple[str, str, dict[str, Any], list[str], list[str]]] = {
    "padded": ("char(3)", "VARCHAR", {"values": ["a", "abc", ""]}, ["a", "abc", "b", ""], []),
    "short": ("varchar(5)", "VARCHAR", {"values": ["a", "A", "a "]}, ["a", "A", "a ", "ab"], []),
    "called": ("name", "VARCHAR", {"values": ["a", "b"], "other": "c"}, ["a", "b", "B"], []),
    "nocase": ("text COLLATE nocase", "VARCHAR", {"values": ["é", "É", "e"]}, ["é", "É", "e", "E"], []),
    "slashes": ("text", "VARCHAR", {"values": ["a\\b", "it's", "$1", "--", "\n", "😀"]}, ["a\\b", "a", "it's", "$1", "--", "\n", "😀"], []),
    "zips": ("text", "VARCHAR", {"values": [f"{n:03}xx" for n in range(823)]}, ["000xx", "822xx", "823xx", "411xx", "0"], []),
    "free": ("numeric", "DOUBLE", {"lower": -2, "upper": 1e20, "bins": 9}, ["0.1", "-2", "1e20", "NaN", "Infinity", "-Infinity", "1e-300"], ["1e400", "-1e400", "1e-400"]),
    "exact": ("numeric(20,3)", "DECIMAL(20,3)", {"values": ["0.100", "-7", "12345678901234567.891"]}, ["0.1", "-7", "12345678901234567.891", "0.101"], []),
    "wide": ("numeric(40,2)", "DOUBLE", {"lower": 0, "upper": 10, "bins": 4}, ["1.5", "10", "11"], []),
    "zeros": ("float8", "DOUBLE", {"values": [0.0, 1.5]}, ["0", "-0", "1.5", "NaN"], []),
    "minus": ("float4", "FLOAT", {"values": [-0.0, 0.1]}, ["0", "-0", "0.1", "0.10000001"], []),
    "always": ("date", "DATE", {"lower": "2000-01-01", "upper": "2000-12-31", "bins": 12}, ["infinity", "-infinity", "2000-02-29", "0044-03-15 BC"], []),
    "days": ("date", "DATE", {"values": ["2000-02-29", "infinity", "0044-03-15 (BC)"]}, ["infinity", "-infinity", "2000-02-29", "0044-03-15 BC"], []),
    "zoned": ("timestamptz", "TIMESTAMP WITH TIME ZONE", {"lower": "2020-03-29 00:00:00+00", "upper": "2020-03-29 03:00:00+00", "bins": 3}, ["2020-03-29 02:30:00+02", "2020-03-29 01:00:00+00", "2020-03-28 20:00:00-05"], []),
    "clock": ("time", "TIME", {"lower": "00:00:00", "upper": "23:59:59.999999", "bins": 24}, ["00:00:00", "12:59:59.999999", "23:59:59.999999"], []),
    "uid": ("uuid", "UUID", {"values": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"]}, ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"], []),
    "aged": ("small_age", "SMALLINT", {"lower": 0, "upper": 90, "nulls_as": [99]}, ["0", "99", "90", "-1", "91"], []),
    "spiky": ("float8", "DOUBLE", {"lower": 0, "upper": 1, "bins": 2, "points": [0, 0.75], "nulls_as": ["nan", -1]}, ["0", "-0", "5e-324", "0.75", "NaN", "-1", "Infinity"], []),
}  # fmt: skip
VALUES = [(name, value) for name, (*_, values, more) in CASES.items() for value in (*values, *more)]


def fill(found: Bank) -> None:
    """Each value in a row of its own."""
    found.sql(
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE DOMAIN small_age AS int2 CHECK (VALUE > -100)",
        f"CREATE TABLE t (id int8 GENERATED ALWAYS AS IDENTITY, {', '.join(f'{n} {c[0]}' for n, c in CASES.items())})",
    )
    rows = [tuple(value if name == column else None for column in CASES) for name, value in VALUES]
    found.server.fill(found.database, f"t ({', '.join(CASES)})", rows)
    found.source("t")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same values in both engines."""
    with bank(tmp_path_factory.mktemp("values")) as found:
        fill(found)
        found.db.sql(f"CREATE TABLE u ({', '.join(f'{n} {c[1]}' for n, c in CASES.items())})")
        for name, (_, kind, _, values, _) in CASES.items():
            for value in values:
                text = value.replace(" BC", " (BC)") if kind == "DATE" else value
                text = text.rstrip(" ") if name == "padded" else text
                found.db.sql(f"INSERT INTO u ({name}) VALUES (CAST($1 AS {kind}))", params=[text])
        yield found


def domain_of(found: Bank, table: str, name: str) -> Domain:
    cursor = found.db.connection.cursor()
    source = find_source(cursor, f"bank.main.{table}")
    attribute = Declaration(**CASES[name][2], nulls=True).attribute(cursor, source.column(name))
    return Domain((attribute.closed(never_null=False),))


def counts(found: Bank, table: str, name: str, domain: Domain, *, once: bool) -> dict[int, int]:
    cursor = found.db.connection.cursor()
    source = find_source(cursor, f"bank.main.{table}")
    engine = engine_of(cursor, source)
    counter = engine.counter(source, domain, once=once)
    marginal = counter.marginal((name,))
    counter.close()
    engine.close()
    return dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_both_engines_count_alike(both, name):
    domain = domain_of(both, "t", name)
    assert domain.attributes[0] == domain_of(both, "u", name).attributes[0]
    expected = counts(both, "u", name, domain, once=True)
    attribute, more = domain.attributes[0], len(CASES[name][4])
    if more:  # beyond what DuckDB's type holds, so outside the bins, but for a number next to 0
        expected[attribute.outside_code] += more - 1
        zero = next(code for code in range(attribute.regular) if attribute.ticks[code] <= 0 < attribute.ticks[code + 1])
        expected[zero] = expected.get(zero, 0) + 1
    expected[attribute.null_code] = expected.get(attribute.null_code, 0) + len(VALUES) - sum(expected.values())
    for once in (True, False):
        assert counts(both, "t", name, domain, once=once) == expected


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case[4] and name != "wide"])
def test_both_engines_list_the_same_values(both, name):
    """Those that are there twice."""
    found = {}
    for table in ("t", "u"):
        cursor = both.db.connection.cursor()
        rows = f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL"
        if table == "t":
            both.sql("DROP TABLE IF EXISTS twice", f"CREATE TABLE twice AS {rows} UNION ALL {rows}")
            both.db.sql("DROP TABLE IF EXISTS twice")
            both.source("twice")
        else:
            both.db.sql(f"CREATE OR REPLACE TABLE double AS {rows} UNION ALL {rows}")
        source = find_source(cursor, "bank.main.twice" if table == "t" else "bank.main.double")
        engine = engine_of(cursor, source)
        counter = engine.counter(source, Domain(()))
        texts, numbers = counter.values(name)
        counter.close()
        engine.close()
        found[table] = dict(zip(texts, numbers.tolist(), strict=True))
    assert found["t"] == found["u"]
    assert found["t"]


@pytest.mark.parametrize("kind", ["text", "member", "identifier", "date", "timestamp", "instant"])
def test_only_a_date_is_before_christ(kind):
    """A member of an ENUM and a text may end with the same letters."""
    read = POSTGRES.read("Vancouver BC", Native(kind, "VARCHAR", kind, ("Vancouver BC",)))
    assert read == ("Vancouver (BC)" if kind in ("date", "timestamp", "instant") else "Vancouver BC")


def test_what_has_no_type_here_can_be_left_out(tmp_path):
    """Its column is there, without a domain."""
    with bank(tmp_path) as found:
        found.sql(
            "CREATE TABLE t (x int4, data jsonb, tags text[], span int4range, raw bytea)", "INSERT INTO t VALUES (1)"
        )
        found.source("t")
        assert [row[1] for row in found.db.sql("DESCRIBE t").fetchall()] == ["INTEGER", *["BLOB"] * 4]
        found.db.protect("t", epsilon=1.0, delta=1e-6)
        with pytest.raises((ValueError, duckdb.Error)):
            found.db.domain("t", "data", values=["{}"])


def test_names_that_statements_use_themselves(tmp_path):
    """And names that would end an identifier."""
    names = ["c0", "c1", "n", "cell", "steps", "dpsql_rows", "dpsql_place", "value", 'we"ird; --', "é"]
    with bank(tmp_path) as found:
        listed = ", ".join(f"{quote(name)} int4" for name in names)
        found.sql(
            f"CREATE TABLE {quote('my t')} ({listed}, id int4 PRIMARY KEY)",
            f"INSERT INTO {quote('my t')} SELECT {', '.join(f'i % {n + 2}' for n in range(len(names)))}, i "
            "FROM generate_series(1, 3000) i",
        )
        found.source("t", 'public."my t"', identity="id")
        cursor = found.db.connection.cursor()
        source = find_source(cursor, "bank.main.t")
        declared = Declaration(lower=0, upper=11)
        domain = Domain(tuple(declared.attribute(cursor, source.column(name)) for name in names))
        found.db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="n", max_rows=2000)
        for bound, once in ((None, True), (UnitBound("n", "INTEGER", 2000, "bank", "t"), False)):
            with closing(engine_of(cursor, source)) as engine:
                counter = engine.counter(source, domain, bound, once=once)
                for number, name in enumerate(names):
                    assert len(counter.marginal((name,)).cells) == number + 2
                assert counter.marginal((names[0], names[-2])).counts.sum() == 3000
                assert counter.sums((names[0],), Moment("c1", 1.0, 0, 5)).counts.sum() == 3000
                assert len(counter.values(names[-2])[0]) == 10
