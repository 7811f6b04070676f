"""What Spark is sent and writes down: no cast of a column, no secret, and of a release one pass over the rows."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.core.domain import Attribute
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.linear_query import Moment
from dpsql.engines.spark.dialect import SPARK, native_of
from dpsql.engines.sql.sums import steps_of

from .spark_bank import Lot, lot

pytestmark = pytest.mark.medium
DOMAINS = {
    "ward": {"values": [f"w{n}" for n in range(6)], "other": "rest"},
    "age": {"lower": 0, "upper": 80, "points": [0]},
    "weight": {"lower": 0, "upper": 250, "bins": 20, "nulls_as": ["nan", -1]},
    "cost": {"lower": 0, "upper": 12, "bins": 5},
    "born": {"lower": "1990-01-01", "upper": "1991-12-31", "bins": 24},
}
QUERIES = (
    "SELECT ward, count(*), sum(age), avg(least(weight, 50) * 2 - 1) FROM people GROUP BY ward",
    "SELECT sum(age * cost), sum(CASE WHEN age > 3 THEN round(cost, 1) + floor(cost) END) FROM people",
)


@pytest.fixture(params=["spark", "spark_sql"])
def people(request, tmp_path) -> Iterator[Lot]:
    """A table with columns of many types, in one way with several rows for each person."""
    with lot(tmp_path) as found:
        found.sql(
            "CREATE TABLE {s}.people USING parquet AS SELECT concat('p', id % 40) AS person, concat('w', id % 7) AS ward, "
            "CAST(id % 90 AS INT) AS age, id / 3.0D AS weight, CAST(id % 50 / 4.0 AS DECIMAL(9,2)) AS cost, "
            "date_add(DATE '1990-01-01', CAST(id AS INT)) AS born FROM range(600)"
        )
        found.source("people", request.param)
        units = {"privacy_unit": "person", "max_rows": 5} if request.param == "spark" else {}
        found.db.protect("people", epsilon=100.0, delta=1e-6, **units)
        for name, how in DOMAINS.items():
            found.db.domain("people", name, **how)
        found.db.domain("people", "person", exclude=True)
        found.way = request.param
        yield found


def everything(db: dpsql.Database, quick: str) -> None:
    """Each kind of question that Spark answers."""
    db.discover("people", "ward", epsilon=20.0)
    db.sql(f"FROM dp_synthesize('people', epsilon := 1, {quick})").fetchall()
    for query in QUERIES:
        db.sql(f"FROM dp_query('{query}', epsilon := 1)").fetchall()


def test_what_spark_is_sent_and_writes_down(people, quick, monkeypatch):
    """Statements cast no column, and the secret of units stands in no plan, statement or event."""
    session, texts = type(people.spark.session), []
    sent = session.sql

    def noted(self, text, *more, **how):
        texts.append(text)
        return sent(self, text, *more, **how)

    monkeypatch.setattr(session, "sql", noted)
    everything(people.db, quick)
    of_rows = [text for text in texts if "dpsql_rows" in text]
    assert bool(of_rows) == (people.way == "spark_sql")
    for text in of_rows:
        tree = sqlglot.parse_one(text, read="spark")
        for cast in tree.find_all(exp.Cast, exp.TryCast):
            assert isinstance(cast.this, exp.Literal | exp.Null), cast.sql("spark")
        assert tree.named_selects in (["m", "cell", "n"], ["value", "n"], ["n"])
    log = people.spark.log()
    assert people.schema in log  # the plans are there
    secrets = people.db.sql("SELECT unit_secret FROM dpsql.account").fetchall()
    for secret in filter(None, (one for (one,) in secrets)):
        for text in (secret, secret[:12], secret.encode().hex(), base64.b64encode(secret.encode()).decode()[:12]):
            assert text not in log
        assert not [text for text in texts if secret[:12] in text]


def test_the_marginals_of_a_release_are_counted_in_one_pass(people, quick, monkeypatch):
    """Beside what says how many rows there are."""
    from dpsql.engines.spark.counting import SparkCounter

    passes = []
    count = SparkCounter._count
    monkeypatch.setattr(SparkCounter, "_count", lambda self, cliques: passes.append(cliques) or count(self, cliques))
    people.db.sql(
        "FROM dp_synthesize('people', epsilon := 1, mechanism := 'direct', workload := 'all 2-way')"
    ).fetchall()
    assert len(passes) == 1
    assert len(passes[0]) == 10


def test_formulas_are_duckdbs(people):
    """On each value, those at which functions of both differ too."""
    if people.way == "spark":
        return
    numbers = (0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 1e300, -1e300, 4.5e15, 0.125, 1e-5, 123.456)
    listed = ", ".join(f"({number!r}D)" for number in numbers)
    people.sql(f"CREATE OR REPLACE TEMP VIEW numbers AS SELECT * FROM VALUES {listed} AS t(x)")
    people.db.sql("CREATE TABLE numbers (x DOUBLE)")
    people.db.connection.executemany("INSERT INTO numbers VALUES (?)", [[number] for number in numbers])
    attribute = Attribute("x", "DOUBLE", "bins", (), (-1e305, 0.0, 1e305), ("-1e305", "0.0", "1e305"), nullable=True)
    from dpsql.core.domain import Domain
    from tests.engines.steps import encode_steps

    domain, one = Domain((attribute,)), Formula("constant", (), 3.0)
    formulas = [
        COLUMN,
        *(Formula(name, (COLUMN,)) for name in ("neg", "abs", "floor", "ceil")),
        *(Formula("round", (COLUMN,), digits) for digits in (0.0, 1.0, 2.0, -1.0)),
        *(Formula(name, (COLUMN, one)) for name in ("add", "sub", "mul", "div", "least", "greatest", "coalesce")),
        Formula("mul", (COLUMN, COLUMN)),
        Formula("floor", (Formula("round", (Formula("div", (COLUMN, one)),), 1.0),)),
        Formula("case", (Formula(">", (COLUMN, one)), Formula("floor", (COLUMN,)), Formula("null"))),
        Formula("case", (Formula("not", (Formula("is null", (COLUMN,)),)), one, COLUMN)),
    ]
    for formula in formulas:
        moment = Moment("x", 8.0, -(2**31), 2**31, outside=7, missing=1, formula=formula)
        there = steps_of(domain, {"x": native_of("double")}, moment, SPARK).sql(dialect="spark")
        here = encode_steps(domain, moment).sql(dialect="duckdb")
        expected = people.db.sql(f"SELECT x, {here} FROM numbers ORDER BY x").fetchall()
        assert people.sql(f"SELECT x, {there} FROM numbers ORDER BY x") == expected, formula
