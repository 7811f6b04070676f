"""Values to codes and back, for every type: what is decoded has the source's type, lies in its bin, and encodes again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sqlglot import exp

import dpsql
from dpsql.engines.duckdb.catalog import find_source
from dpsql.engines.duckdb.dialect import encode
from dpsql.evaluation.decode import decode
from dpsql.owner.protect import domain_of

BINNED = {
    "TINYINT": ("-128", "127", 5),
    "UTINYINT": ("0", "255", 256),
    "SMALLINT": ("-5", "32767", 7),
    "INTEGER": ("-2147483648", "2147483647", 9),
    "UINTEGER": ("0", "4294967295", 3),
    "BIGINT": ("-1000000000000", "1000000000000", 11),
    "UBIGINT": ("0", "1000000000000000000", 4),
    "HUGEINT": ("-10", "1000000000000000000", 4),
    "DECIMAL(9,2)": ("-1.25", "99.99", 8),
    "DECIMAL(18,6)": ("0", "1", 10),
    "DECIMAL(30,4)": ("0", "123456789012.3456", 10),
    "FLOAT": ("0", "0.3", 7),
    "DOUBLE": ("-1e300", "1e300", 13),
    "DATE": ("1899-12-30", "2100-02-28", 17),
    "TIMESTAMP": ("1969-12-31 23:59:59.5", "2020-01-01 00:00:00.000001", 6),
    "TIMESTAMP_S": ("2020-01-01 00:00:00", "2020-01-01 00:01:40", 4),
    "TIMESTAMP_MS": ("2020-01-01 00:00:00", "2020-01-01 00:00:01", 4),
    "TIMESTAMP_NS": ("2020-01-01 00:00:00", "2020-01-01 00:00:00.000001001", 4),
    "TIMESTAMP WITH TIME ZONE": ("2020-01-01 00:00:00+00", "2021-01-01 00:00:00+00", 12),
    "TIME": ("00:00:00", "23:59:59.999999", 24),
    "TIME_NS": ("00:00:00", "23:59:59.999999999", 24),
}
LISTED = {
    "VARCHAR": ["a", "b c", "it's", 'quo"te', "", "🦆", "NULL", "; DROP TABLE t --"],
    "INTEGER": ["1", "-7", "100"],
    "DOUBLE": ["0.1", "1e20", "-3"],
    "DECIMAL(5,1)": ["0.5", "10"],
    "DATE": ["2020-02-29", "1999-12-31"],
    "TIMESTAMP": ["2020-02-29 12:00:00", "1999-12-31 23:59:59.25"],
    "UUID": ["00000000-0000-0000-0000-000000000001"],
    "BOOLEAN": ["true"],
    "INTERVAL": ["1 day", "2 months"],
    "TIME": ["12:00:00"],
}


def attribute_of(db: dpsql.Database, kind: str, **how):
    db.sql(f"CREATE TABLE t (x {kind}, y BOOLEAN)")
    db.protect("t", epsilon=1, delta=1e-6)
    db.domain("t", "x", **how)
    from dpsql.books.ledger.store import Books

    source = find_source(db.connection, "t")
    return domain_of(Books(db.connection, source.catalog), source).by_name["x"].inner


def decode_all(db: dpsql.Database, attribute, repeats: int = 40) -> None:
    """Table `decoded`: each code and a value of it; half of the draws at the very edges of the bins."""
    codes = np.repeat(np.arange(attribute.size), repeats)
    uniform = np.random.default_rng(0).random(len(codes))
    uniform[::4], uniform[1::4] = 0.0, np.nextafter(1.0, 0.0)
    frame = pd.DataFrame({"c": codes})
    if attribute.kind == "bins":
        frame["t"] = attribute.draw_ticks(codes, uniform)
    db.connection.register("frame", frame)
    value = exp.alias_(decode(attribute, "c", "t"), "x")
    db.sql(f"CREATE TABLE decoded AS {exp.select('c', value).from_('frame').sql(dialect='duckdb')}")


def misfits(db: dpsql.Database, attribute) -> list:
    again = encode(attribute).sql(dialect="duckdb")
    return db.sql(f"SELECT c, x::VARCHAR, {again} AS code FROM decoded WHERE code IS DISTINCT FROM c").fetchall()


@pytest.mark.parametrize("kind", BINNED)
def test_bins_go_round(db, kind):
    low, high, bins = BINNED[kind]
    attribute = attribute_of(db, kind, lower=low, upper=high, bins=bins)
    assert (attribute.regular, attribute.size) == (bins, bins + 1)
    decode_all(db, attribute)
    assert misfits(db, attribute) == []
    assert db.sql("SELECT typeof(x) FROM decoded LIMIT 1").fetchall() == [(kind,)]
    outside = f"SELECT count(*) FROM decoded WHERE x NOT BETWEEN '{low}'::{kind} AND '{high}'::{kind}"
    assert db.sql(outside).fetchall() == [(0,)]
    edges = f"SELECT {encode(attribute).sql(dialect='duckdb')} FROM (VALUES ('{low}'::{kind}), ('{high}'::{kind}), (NULL)) v(x)"
    assert db.sql(edges).fetchall() == [(0,), (bins - 1,), (bins,)]


@pytest.mark.parametrize("kind", LISTED)
def test_values_go_round(db, kind):
    attribute = attribute_of(db, kind, values=LISTED[kind])
    assert attribute.size == len(LISTED[kind]) + 1
    decode_all(db, attribute)
    assert misfits(db, attribute) == []
    assert db.sql("SELECT typeof(x) FROM decoded LIMIT 1").fetchall() == [(kind,)]


def test_integer_bins_of_width_one_are_exact(db):
    attribute = attribute_of(db, "INTEGER", lower=17, upper=90)
    assert attribute.regular == 74
    decode_all(db, attribute)
    assert db.sql("SELECT count(*) FROM decoded WHERE x IS DISTINCT FROM 17 + c AND c < 74").fetchall() == [(0,)]


def test_explicit_edges(db):
    attribute = attribute_of(db, "INTEGER", edges=[0, 18, 65, 100])
    assert attribute.labels() == ["[0, 18)", "[18, 65)", "[65, 99]", "NULL"]
    sql = f"SELECT {encode(attribute).sql(dialect='duckdb')} FROM (VALUES (-1), (0), (17), (18), (99), (100)) v(x)"
    assert db.sql(sql).fetchall() == [(None,), (0,), (0,), (1,), (2,), (None,)]


def test_other_takes_what_is_outside(db):
    attribute = attribute_of(db, "VARCHAR", values=["a", "b"], other="rest")
    sql = f"SELECT {encode(attribute).sql(dialect='duckdb')} FROM (VALUES ('a'), ('zzz'), ('rest'), (NULL)) v(x)"
    assert db.sql(sql).fetchall() == [(0,), (2,), (2,), (3,)]
    decode_all(db, attribute)
    assert db.sql("SELECT DISTINCT x FROM decoded WHERE c = 2").fetchall() == [("rest",)]


def test_other_of_bins(db):
    attribute = attribute_of(db, "INTEGER", lower=0, upper=9, bins=2, other=-1)
    sql = f"SELECT {encode(attribute).sql(dialect='duckdb')} FROM (VALUES (0), (9), (10), (2147483647)) v(x)"
    assert db.sql(sql).fetchall() == [(0,), (1,), (2,), (2,)]
    decode_all(db, attribute)
    assert db.sql("SELECT DISTINCT x FROM decoded WHERE c = 2").fetchall() == [(-1,)]


def test_no_nulls_when_declared_so_or_not_null(db):
    db.sql("CREATE TABLE n (x INTEGER NOT NULL)")
    db.protect("n", epsilon=1, delta=1e-6)
    db.domain("n", "x", lower=0, upper=4)
    assert db.sql("SELECT size, nullable FROM dp_domain('n', 'x', lower := 0, upper := 4)").fetchall() == [(5, False)]
    assert attribute_of(db, "INTEGER", lower=0, upper=4, nulls=False).null_code is None


def test_floats_that_are_no_numbers_are_outside(db):
    attribute = attribute_of(db, "DOUBLE", lower=0, upper=1, bins=4)
    values = "('NaN'::DOUBLE), ('inf'::DOUBLE), ('-inf'::DOUBLE), (0.0), (1.0), (-0.0)"
    sql = f"SELECT {encode(attribute).sql(dialect='duckdb')} FROM (VALUES {values}) v(x)"
    assert db.sql(sql).fetchall() == [(None,), (None,), (None,), (0,), (3,), (0,)]


@pytest.mark.medium
def test_encoding_never_fails_on_a_value(db):
    """Extreme private values give a code or none, never an error that would tell of them."""
    for kind, low, high in (
        ("BIGINT", 0, 10),
        ("HUGEINT", 0, 10),
        ("DATE", "2000-01-01", "2001-01-01"),
        ("TIMESTAMP", "2000-01-01", "2001-01-01"),
        ("DECIMAL(38,18)", "0", "1"),
    ):
        db.sql(f"CREATE OR REPLACE TABLE e AS SELECT * FROM (SELECT NULL::{kind} AS x)")
        column = {"BIGINT": "bigint", "HUGEINT": "hugeint", "DATE": "date", "TIMESTAMP": "timestamp"}.get(kind)
        if column:
            db.sql(f'INSERT INTO e SELECT "{column}" FROM test_all_types()')
        db.sql("CREATE OR REPLACE TABLE t AS FROM e")
        if not db.budget().source.tolist():
            db.protect("t", epsilon=1, delta=1e-6)
        db.domain("t", "x", lower=low, upper=high, **({} if kind in ("BIGINT", "HUGEINT") else {"bins": 2}))
        from dpsql.books.ledger.store import Books

        source = find_source(db.connection, "t")
        attribute = domain_of(Books(db.connection, source.catalog), source).by_name["x"]
        codes = db.sql(f"SELECT DISTINCT {encode(attribute).sql(dialect='duckdb')} FROM t").fetchall()
        assert {code for (code,) in codes} <= set(range(attribute.size))


def test_boolean_declares_itself_and_enum_by_the_owners_word(db):
    db.sql("CREATE TYPE size AS ENUM ('s', 'm', 'it''s')")
    db.sql("CREATE TABLE t (a size, b BOOLEAN NOT NULL)")
    db.protect("t", epsilon=1, delta=1e-6, enums=True)
    from dpsql.books.ledger.store import Books

    source = find_source(db.connection, "t")
    domain = domain_of(Books(db.connection, source.catalog), source)
    assert [attribute.labels() for attribute in domain] == [["s", "m", "it's", "NULL"], ["false", "true"]]
    assert {attribute.origin for attribute in domain} == {"type"}


def test_reference(db):
    db.sql("CREATE TABLE codes AS SELECT * FROM (VALUES ('x'), ('y'), (NULL), ('x')) v(c)")
    attribute = attribute_of(db, "VARCHAR", reference="codes.c")
    assert attribute.values == ("x", "y")
    assert attribute.origin == "reference"
