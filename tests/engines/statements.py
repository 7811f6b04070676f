"""The texts of all statements that count, of each engine, each type and each kind of domain; no row is needed for them.

A counter is given a session that writes down what it is asked, and says that there are ten rows, all without a cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.codes import Codes
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.dialect import encode as encode_in_duckdb
from dpsql.engines.duckdb.units import Bound as BoundInDuckDB
from dpsql.engines.postgres.catalog import Relation as RelationInPostgres
from dpsql.engines.postgres.counting import PostgresCounter
from dpsql.engines.postgres.dialect import POSTGRES, native_of
from dpsql.engines.postgres.units import Bound as BoundInPostgres
from dpsql.engines.source import Column, Source
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.dialect import native_of as spark_native
from dpsql.engines.spark.in_sql import SparkSqlCounter
from dpsql.engines.spark.statements import counting, summing, values, with_steps
from dpsql.engines.sql.codes import encode
from dpsql.engines.sql.counts import Sums
from dpsql.engines.sql.sums import steps_of
from dpsql.engines.sql.types import Native
from dpsql.errors import DpsqlError
from dpsql.owner.declaration import Declaration

from .conformance import CASES, Case
from .steps import encode_steps

MORE_CASES = {
    "many": Case("INTEGER", {"values": list(range(40, 0, -3))}, ()),
    "few": Case("SMALLINT", {"values": [-3, 2]}, (), other=9, nullable=False),
    "prices": Case("DECIMAL(9,2)", {"values": ["0.50", "10", "-3.25", "7", "8", "9.99"], "nulls_as": ["-1"]}, ()),
    "cents": Case("DECIMAL(5,2)", {"lower": "0.00", "upper": "0.30"}, (), outside=True),
    "days": Case("DATE", {"values": ["2020-02-29", "1999-12-31", "0044-03-15 (BC)", "2001-01-01", "2001-01-02"]}, ()),
    "each_day": Case("DATE", {"lower": "2020-01-01", "upper": "2020-02-09"}, ()),
    "ids": Case("UUID", {"values": [f"{'0' * 8}-0000-0000-0000-{n:012}" for n in range(6)]}, ()),
    "hours": Case("TIME", {"lower": "00:00:00", "upper": "23:59:59.999999", "bins": 24}, ()),
    "at_hours": Case("TIME", {"values": ["12:00:00", "06:30:00.5"]}, (), other="00:00:00"),
    "instants": Case("TIMESTAMP WITH TIME ZONE", {"lower": "2020-01-01", "upper": "2021-01-01", "bins": 12}, ()),
    "listed_at": Case("TIMESTAMP WITH TIME ZONE", {"values": ["2020-01-01 00:00:00+00"]}, (), outside=True),
    "moments": Case("TIMESTAMP", {"values": ["2020-02-29 12:00:00", "1999-12-31 23:59:59.25"]}, ()),
    "months": Case("TIMESTAMP", {"lower": "2015-01-01", "upper": "2020-07-01", "bins": 66}, ()),
    "names": Case("VARCHAR", {"values": ["it's", "a\\b", "x\ny", "😀", "a`b", 'a"b', "${a}", "", "é"]}, ()),
    "floats": Case("DOUBLE", {"values": ["nan", "inf", "-0.0", "1.5", "0.1", "-inf"], "nulls_as": ["-1"]}, ()),
    "halves": Case("FLOAT", {"values": ["0.5", "0.1"]}, (), nullable=False),
    "spans": Case("INTERVAL", {"values": ["1 month", "1 day"]}, ()),
    "huge": Case("HUGEINT", {"lower": -10, "upper": 10**18, "bins": 4}, ()),
    "tiny": Case("UTINYINT", {"lower": 0, "upper": 255}, ()),
}
ALL = CASES | MORE_CASES
IN_POSTGRES = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "UUID": "uuid",
    "VARCHAR": "text",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}
IN_SPARK = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMP": "timestamp_ntz",
    "VARCHAR": "string",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
CLIQUES = ((), ("wide",), ("truth", "told"))
FORMULA = Formula("round", (Formula("mul", (COLUMN, Formula("constant", (), 1.5))),), 1.0)
MOMENT = Moment("wide", 4.0, -50, 400, outside=7, missing=-1)
MOMENTS = {
    "itself": MOMENT,
    "formula": Moment("wide", 1.0, 0, 2**20, formula=FORMULA),
    "product": Product(MOMENT, Moment("weight", 8.0, -100, 100), 0.5, -1000, 1000),
}
COUNTED = ("truth", "wide", "told", "weight")


def attribute_named(name: str, kind: str) -> Attribute:
    """The domain of a column of that type, as its case declares it."""
    case = ALL[name]
    with duckdb.connect() as host:
        found = Declaration(**case.declared, nulls=case.nullable, other=case.other).attribute(
            host, Column(name, kind, nullable=True)
        )
    return found.closed(never_null=False) if case.outside else found


def in_postgres(kind: str) -> Native | None:
    """A type of Postgres like one of DuckDB."""
    if kind.startswith("DECIMAL"):
        precision, scale = map(int, re.findall(r"\d+", kind))
        return native_of("numeric", ((precision << 16) | scale) + 4)
    if kind.startswith("ENUM"):
        return native_of("enum", members=("sad", "ok", "happy"))
    return native_of(IN_POSTGRES[kind]) if kind in IN_POSTGRES else None


def in_spark(kind: str) -> Native | None:
    """A type of Spark like one of DuckDB."""
    if kind.startswith("DECIMAL"):
        return spark_native(kind.lower().replace(" ", ""))
    return spark_native(IN_SPARK[kind]) if kind in IN_SPARK else None


def _domain(natives: dict[str, Any]) -> Domain:
    return Domain(tuple(attribute_named(name, natives[name].in_duckdb) for name in COUNTED))


def _counts_of(counter: Any) -> Iterator[str]:
    """Ask for each kind of count; what each is called."""
    asked = {f"marginal of {clique}": partial(counter.marginal, clique) for clique in CLIQUES}
    asked |= {f"sums of {name}": partial(counter.sums, ("told",), moment) for name, moment in MOMENTS.items()}
    asked |= {f"values of {column}": partial(counter.values, column) for column in ("told", "weight")}
    asked["bins"] = partial(counter.bins, attribute_named("money", "DECIMAL(9,2)"))
    for what, ask in asked.items():
        yield what
        with suppress(DpsqlError):
            ask()


def _written(what: str, counter: Any, texts: list[str]) -> Iterator[str]:
    begun = None
    for step in _counts_of(counter):
        if begun is not None:
            yield from _noted(begun, texts)
        begun = f"{what}: {step}"
    yield from _noted(str(begun), texts)


def _noted(what: str, texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield f"-- {what}\n{text}"
    texts.clear()


def _natives(native_in: Any) -> dict[str, Any]:
    found = {name: native_in(ALL[name].type) for name in ALL if "read_as" not in ALL[name].declared}
    return {name: native for name, native in found.items() if native is not None}


# --- Postgres ---------------------------------------------------------------------------------------------------------


def postgres() -> Iterator[str]:
    natives = _natives(in_postgres)
    for kind in ("bpchar", "varchar", "numeric"):
        natives[kind] = native_of(kind)
    for name, native in natives.items():
        case = "names" if name in ("bpchar", "varchar") else "prices" if name == "numeric" else name
        yield f"-- {name}\n{encode(attribute_named(case, native.in_duckdb), native, POSTGRES).sql(dialect='postgres')}"
    bound = BoundInPostgres("names", natives["names"], 3, ("many", "days"), b"key")
    for what, bounded, once, makes, repeats in (
        ("once", None, True, False, False),
        ("repeated", None, True, False, True),
        ("cuboid", None, False, True, True),
        ("units", bound, True, False, False),
        ("units in a cuboid", bound, False, True, False),
    ):
        texts: list[str] = []
        columns = tuple(Column(name, native.in_duckdb, nullable=True) for name, native in natives.items())
        relation = RelationInPostgres("1", "1", (), (), "bank", "s", 't"1', columns, natives, (), True, makes, True)
        with duckdb.connect() as host:
            session: Any = SimpleNamespace(count=partial(_count_in_postgres, texts, repeats))
            counter = PostgresCounter(session, relation, _domain(natives), bounded, host, once=once)
            yield from _written(what, counter, texts)
            with suppress(DpsqlError):
                counter.alike(np.array([4, 7])) if bounded is None else counter.presence(("truth", "told"))
            yield from _noted(f"{what}: {'rows at two places' if bounded is None else 'presence'}", texts)


def _count_in_postgres(texts: list[str], repeats: bool, query: exp.Expr, parameters: Any = ()) -> dict[str, Any]:
    text = query.sql(dialect="postgres")
    texts.append(f"{text} -- {list(parameters)}" if parameters else text)
    few = repeats and "AS tuples" in text
    return {"cell": pa.array([-1]), "n": pa.array([1 if few else 10]), "value": pa.array(["7"])}


# --- Spark ------------------------------------------------------------------------------------------------------------


def spark_sql() -> Iterator[str]:
    natives = _natives(in_spark)
    natives["collated"] = spark_native("string collate UTF8_LCASE")
    for name, native in natives.items():
        attribute = attribute_named("names" if name == "collated" else name, native.in_duckdb)
        yield f"-- {name}\n{encode(attribute, native, SPARK).sql(dialect='spark')}"
    yield from (
        f"-- steps of {name}\n{steps_of(_domain(natives), natives, m, SPARK).sql(dialect='spark')}"
        for name, m in MOMENTS.items()
    )
    texts: list[str] = []

    def asked(text: str) -> Any:
        texts.append(re.sub(r"dpsql_rows_\d+", "dpsql_rows", text))
        kind = pa.table({"m": [-1], "cell": [-1], "n": [10], "value": [b"7"]})
        return SimpleNamespace(_collect_as_arrow=kind.to_batches, toArrow=lambda: kind)

    session: Any = SimpleNamespace(
        run=lambda work: work(), spark=SimpleNamespace(sql=asked), is_open=False, close=lambda: None
    )
    rows = SimpleNamespace(createOrReplaceTempView=lambda name: None)
    with duckdb.connect() as host:
        counter: Any = SparkSqlCounter(
            session, SimpleNamespace(natives=natives), rows, _domain(natives), lambda: None, None, host
        )
        counter.expect([clique for clique in CLIQUES if clique])
        yield from _written("spark_sql", counter, texts)


# --- DuckDB -----------------------------------------------------------------------------------------------------------


class Noted:
    """A connection that writes down what reads rows."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, texts: list[str]) -> None:
        self._connection, self._texts = connection, texts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *more: Any) -> Any:
        if '"t"' in sql or "dpsql_codes" in sql:
            self._texts.append(re.sub(r"dpsql_codes_\d+", "dpsql_codes", sql))
        return self._connection.execute(sql, *more)


def in_duckdb() -> Iterator[str]:
    for name, case in ALL.items():
        yield f"-- {name}\n{encode_in_duckdb(attribute_named(name, case.type)).sql(dialect='duckdb')}"
    domain = Domain(tuple(attribute_named(name, ALL[name].type) for name in COUNTED))
    for name, moment in MOMENTS.items():
        if isinstance(moment, Moment):
            yield f"-- steps of {name}\n{encode_steps(domain, moment).sql(dialect='duckdb')}"
    columns = tuple(Column(name, case.type, nullable=True) for name, case in ALL.items() if case.type != "INTERVAL")
    source = Source("memory", "main", "t", columns)
    secret = exp.Literal.string("secret")
    for what, bound, once in (
        ("once", None, True),
        ("codes", None, False),
        ("units", BoundInDuckDB("names", "VARCHAR", 3, secret), True),
        ("units, codes", BoundInDuckDB("names", "VARCHAR", 3, secret), False),
    ):
        texts: list[str] = []
        with duckdb.connect() as connection:
            listed = ", ".join(f'"{column.name}" {column.type}' for column in columns)
            connection.execute(f"CREATE TABLE t ({listed})")
            connection.execute("INSERT INTO t (wide, told, names) SELECT i % 2, 'a', 'u' FROM range(20) r(i)")
            noted: Any = Noted(connection, texts)
            counter = DuckDBCounter(noted, source, domain, bound, once=once)
            yield from _written(what, counter, texts)
            if bound is not None:
                counter.presence(("truth", "told"))
                yield from _noted(f"{what}: presence", texts)
            counter.close()


def spark_tasks() -> Iterator[str]:
    domain = Domain(tuple(attribute_named(name, ALL[name].type) for name in (*COUNTED, "share")))
    source = Source("memory", "main", "t", tuple(Column(a.name, a.stored_type, nullable=True) for a in domain))
    codes = Codes(source, domain)
    block = exp.table_("block")
    for what, found in {
        "one marginal": counting(codes, [("wide",)], codes.of(block)),
        "four marginals": counting(codes, [("truth",), ("wide",), ("told",), ("truth", "told")], codes.of(block)),
        **{
            f"sum of {n}": summing(codes, ("told",), with_steps(codes, codes.of(block), Sums(m)))
            for n, m in MOMENTS.items()
        },
    }.items():
        yield from (f"-- {what}\n{text}" for text in (*found.first, *found.each, *found.pack, found.last))
    yield f"-- values\n{values('weight', 'DOUBLE').sql(dialect='duckdb')}"


ENGINES = {"duckdb": in_duckdb, "postgres": postgres, "spark_sql": spark_sql, "spark": spark_tasks}
