"""The statements that tasks run, written as DuckDB's own engine writes them: see `dpsql.engines.duckdb.codes`.

    codes     =  SELECT code_1, …, code_k, count(*) AS w FROM block GROUP BY ALL
    cells    +=  SELECT m, Σ code_i·stride_i AS cell, sum(w) AS n FROM codes GROUP BY cell       (for each marginal m)

Few rows of a block are grouped first only where many marginals are counted of them. The row of the marginal −1 says how
many rows were seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Clique
from dpsql.engines.duckdb.codes import Codes, sum_of
from dpsql.engines.duckdb.types import column_of, equal_text
from dpsql.engines.duckdb.units import Bound, content_of
from dpsql.engines.source import Source
from dpsql.engines.spark.checked import WHOLE
from dpsql.engines.spark.tasks import Statements
from dpsql.engines.sql.counts import STEPS, Kind

COUNTED: Final = "m int, cell bigint, n bigint"
"""The columns of counts, as Spark writes them."""
LISTED: Final = "value binary, n bigint"
_FIRST: Final = ("CREATE TEMP TABLE cells (m INTEGER, cell BIGINT, n BIGINT)",)
_LAST: Final = "SELECT m, cell, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
_PACK: Final = (
    f"CREATE OR REPLACE TEMP TABLE packed AS {_LAST}",
    "CREATE OR REPLACE TEMP TABLE cells AS FROM packed",
)
_MANY: Final = 4
"""Marginals that are worth grouping for."""
BLOCK: Final = exp.table_("block")
UNIT, DIGEST, VALUE, WEIGHT = "dpsql_unit", "dpsql_digest", "value", "dpsql_weight"


def key_of_tasks() -> exp.Expr:
    """What a choice of rows is drawn from, as tasks read it."""
    return exp.Anonymous(this="getvariable", expressions=[exp.Literal.string("dpsql_key")])


def counting(codes: Codes, cliques: Sequence[Clique], rows: exp.Select) -> Statements:
    """Counts marginals, numbered in order, of rows that are codes already, or are written as codes by `rows`."""
    is_grouped = len(cliques) >= _MANY
    weight = exp.alias_(exp.Count(this=exp.Star()) if is_grouped else _bigint_1(), WEIGHT)
    coded = exp.select(*codes.names, weight).from_(rows.subquery("rows"))
    if is_grouped:
        coded = coded.group_by(*codes.names)
    each = [f"CREATE OR REPLACE TEMP TABLE codes AS {_sql(coded)}", _added(WHOLE, exp.Literal.number(-1), WEIGHT)]
    each += [_added(number, codes.cell(clique), WEIGHT) for number, clique in enumerate(cliques)]
    return Statements(each, _FIRST, _PACK, _LAST)


def summing(codes: Codes, clique: Clique, rows: exp.Select) -> Statements:
    """Sums the steps beside codes, for each cell of a marginal, which is number 0."""
    coded = exp.select("*", exp.alias_(_bigint_1(), WEIGHT)).from_(rows.subquery("rows"))
    each = [f"CREATE OR REPLACE TEMP TABLE codes AS {_sql(coded)}"]
    each += [_added(WHOLE, exp.Literal.number(-1), WEIGHT), _added(0, codes.cell(clique), STEPS)]
    return Statements(each, _FIRST, _PACK, _LAST)


def listing(column: str, kind: str) -> Statements:
    """The texts of a column with how many rows have each."""
    text = "SELECT value, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
    counted = values(column, kind).select(exp.alias_(exp.Count(this=exp.Star()), "n"))
    pack = (f"CREATE OR REPLACE TEMP TABLE packed AS {text}", _PACK[1])
    each = [f"INSERT INTO cells {_sql(counted.where(_there(column)).group_by(exp.Literal.number(1)))}"]
    return Statements(each, ("CREATE TEMP TABLE cells (value BLOB, n BIGINT)",), pack, text)


def choosing(source: Source, bound: Bound, shown: exp.Select) -> Statements:
    """What a choice of rows is made by, beside what is `shown` of them: the unit and a digest of the row's content.

    Rows of a unit with equal digests are alike in all columns, so that it does not matter which of them count.
    """
    there = exp.Not(this=exp.Is(this=bound.key(), expression=exp.null()))
    unit, digest = exp.alias_(_blob(bound.key()), UNIT), exp.alias_(content_of(source, bound.secret), DIGEST)
    return Statements(shown=_sql(shown.copy().select(unit, digest).where(there)))


def stored(codes: Codes) -> exp.Select:
    """The codes of a block in a type that Spark has, too."""
    written = codes.of(BLOCK)
    expressions = [
        exp.alias_(exp.cast(written_code.this, "INTEGER", dialect="duckdb"), written_code.alias)
        for written_code in written.expressions
    ]
    written.set("expressions", expressions)
    return written


def with_steps(codes: Codes, rows: exp.Select, kind: Kind) -> exp.Select:
    """Codes, and what a row adds to a count beside them."""
    return rows.select(exp.alias_(codes.adds(kind), STEPS))


def values(column: str, kind: str) -> exp.Select:
    """The values of a column as DuckDB writes them, in bytes."""
    return exp.select(exp.alias_(_bytes(column, kind), VALUE)).from_(BLOCK)


def _added(number: int, cell: exp.Expr, weight: str) -> str:
    """The statement that adds the counts of a block to those of a marginal."""
    marginal, n = exp.alias_(exp.Literal.number(number), "m"), exp.alias_(sum_of(weight), "n")
    query = exp.select(marginal, exp.alias_(cell, "cell"), n).from_("codes").group_by(exp.Literal.number(2))
    return f"INSERT INTO cells {_sql(query)}"


def _bytes(column: str, kind: str) -> exp.Expr:
    """The text of a value in UTF-8, which equal values of the type share: no collation."""
    return _blob(equal_text(column_of(column), kind))


def _blob(value: exp.Expr) -> exp.Expr:
    return exp.func("encode", exp.cast(value, "VARCHAR", dialect="duckdb"), dialect="duckdb")


def _there(column: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=column_of(column), expression=exp.null()))


def _bigint_1() -> exp.Expr:
    return exp.cast(exp.Literal.number(1), "BIGINT", dialect="duckdb")


def _sql(query: exp.Expr) -> str:
    return query.sql(dialect="duckdb")
