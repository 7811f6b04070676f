"""The statements that count in a warehouse: what is read of rows, and all that is.

    M_S     SELECT COALESCE(Σ code_i·stride_i, −1) AS cell, COUNT(*) AS n FROM (SELECT code_1, … FROM table) GROUP BY 1
    values  SELECT x AS value, COUNT(*) AS n FROM table WHERE x IS NOT NULL GROUP BY x HAVING COUNT(*) >= 2
    rows    SELECT COUNT(*) AS n FROM table

The table is as it was at one snapshot, so that all counts of a release are of the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.domain import Clique, Domain
from dpsql.engines.warehouse.dialect import Dialect
from dpsql.engines.warehouse.encode import encode
from dpsql.engines.warehouse.types import Native
from dpsql.engines.warehouse.written import whole


@dataclass(frozen=True)
class Relation:
    """A table of a warehouse.

    Attributes:
        dialect: of the warehouse.
        parts: of its whole name, as the catalogue has them; the last is the table's own.
        natives: the types of its columns, by name.
    """

    dialect: Dialect
    parts: tuple[str, ...]
    natives: Mapping[str, Native]

    @property
    def text(self) -> str:
        """Its whole name, as the warehouse reads it."""
        return self.table().sql(dialect=self.dialect.sqlglot)

    def table(self) -> exp.Table:
        """It as an expression."""
        above = [exp.to_identifier(part, quoted=True) for part in self.parts]
        name, schema, database = above.pop(), above.pop(), above.pop() if above else None
        return exp.Table(this=name, db=schema, catalog=database)

    def at(self, snapshot: str) -> exp.Expr:
        """It as it was at a snapshot."""
        return self.dialect.at(self.table(), snapshot)


def counted_rows(relation: Relation, snapshot: str) -> exp.Select:
    """How many rows there are."""
    return exp.select(exp.alias_(exp.Count(this=exp.Star()), "n", quoted=True)).from_(relation.at(snapshot))


def counted_cells(relation: Relation, snapshot: str, domain: Domain, clique: Clique) -> exp.Select:
    """Each cell of a marginal with its rows; −1 for those without a cell."""
    return grouped_cells(relation, relation.at(snapshot), domain, clique)


def grouped_cells(relation: Relation, rows: exp.Expr, domain: Domain, clique: Clique) -> exp.Select:
    """The same of any rows with those columns."""
    names = [f"c{place}" for place in range(len(clique))]
    codes = [
        exp.alias_(encode(domain.by_name[name], relation.natives[name], relation.dialect), alias)
        for name, alias in zip(clique, names, strict=True)
    ]
    key: exp.Expr = whole(0)
    for alias, size in zip(names, domain.shape(clique), strict=True):
        key = exp.Add(this=exp.Mul(this=exp.paren(key), expression=whole(size)), expression=exp.column(alias))
    cell = exp.Coalesce(this=key, expressions=[whole(-1)])
    number = exp.alias_(exp.Count(this=exp.Star()), "n", quoted=True)
    inner = exp.select(*codes).from_(rows).subquery("codes")
    return exp.select(exp.alias_(cell, "cell", quoted=True), number).from_(inner).group_by(exp.Literal.number(1))


def listed_values(relation: Relation, snapshot: str, column: str) -> exp.Select:
    """The values of a column that two rows have or more, with how many have each."""
    value, number = relation.dialect.column(column, relation.natives[column]), exp.Count(this=exp.Star())
    there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    listed = exp.select(exp.alias_(value, "value", quoted=True), exp.alias_(number, "n", quoted=True))
    many = exp.GTE(this=number.copy(), expression=exp.Literal.number(2))
    return listed.from_(relation.at(snapshot)).where(there).group_by(exp.Literal.number(1)).having(many)
