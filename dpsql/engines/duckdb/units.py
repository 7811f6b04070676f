r"""Contribution bounding: of the rows of each privacy unit at most c count, chosen at random inside the engine.

    known    =  SELECT …, unit, md5(secret ‖ all stored columns) AS content FROM source WHERE unit IS NOT NULL
    placed   =  SELECT *, row_number() OVER (PARTITION BY unit, content) AS place FROM known
    bounded  =  SELECT … FROM placed QUALIFY row_number() OVER (PARTITION BY unit ORDER BY md5(content ‖ place)) <= c

The secret is 256 bits of OS entropy, drawn when the table is protected or its account reset: one choice for all
releases, so that they are about the same rows and can be used together, and for one that is killed and goes on. The
choice goes by what the rows of a unit hold, not by where they are stored: DELETE, CHECKPOINT or a copy changes nothing
for a unit whose rows stay, because alike rows are told apart by a running number only, and it does not matter which of
them count. A unit is chosen from anew when its own rows change, or the columns of the table. Which rows of a unit are
chosen does not depend on other units, whatever the digest is, so adding a unit adds at most c rows to what is counted,
and takes none away. The digest is keyed by the secret, so nobody can make rows that share one.

Units are told apart by their bytes, whatever the collation: settings of a session, an instance or a column decide
nothing. Of FLOAT and DOUBLE the zeros are one unit, and so is what is no number. Intervals that DuckDB calls equal are
one unit too, as those of 1 month and of 30 days. Of other types the bytes are those of the text. Rows without a unit
(NULL) count nowhere.

No text of SQL holds the secret, because DuckDB can log texts and show plans: it is read from the books by the statement
that uses it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.core.names import fold
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.types import filled
from dpsql.engines.protocol import UnitBound
from dpsql.engines.source import Source


def unused(source: Source, name: str) -> str:
    """A name that no column of the table has."""
    while name in {fold(column.name) for column in source.columns}:
        name = f"_{name}"
    return name


def secret_of(catalog: str, source: str) -> exp.Expr:
    """What the choice of a source's rows is drawn from, as an expression that reads it from the books of a database."""
    account = exp.table_("account", db="dpsql", catalog=catalog, quoted=True)
    of_source = exp.EQ(this=exp.column("source"), expression=exp.Literal.string(source))
    return exp.select("unit_secret").from_(account).where(of_source).subquery()


def key_of(cursor: Cursor, bound: UnitBound, relation: str) -> bytes:
    """What the choice of a relation's rows is drawn from elsewhere, so that the secret itself does not leave."""
    sql = exp.select(secret_of(bound.catalog, bound.account)).sql(dialect="duckdb")
    secret: str = cursor.execute(sql).fetchall()[0][0]
    return hmac.digest(secret.encode(), relation.encode(), "sha256")


_MANY: Final = 1_000_000
"""Rows of a unit, from which on DuckDB 1.5 would refuse the aggregate that it makes of row_number() <= c."""


@dataclass(frozen=True)
class Bound:
    """Which rows of a source count.

    Attributes:
        column: the privacy unit's.
        type: its.
        rows: c, the most rows of one unit.
        secret: what the choice is drawn from; an expression, see `secret_of`.
    """

    column: str
    type: str
    rows: int
    secret: exp.Expr

    def key(self) -> exp.Expr:
        """What tells units apart, of the column: its value, or the bytes of its text."""
        return filled(column_type(self.type).unit_key, x=exp.column(self.column, quoted=True))

    def apply(self, source: Source, columns: tuple[str, ...]) -> exp.Select:
        """Those columns of the rows that count."""
        unit, content, place = (unused(source, name) for name in ("dpsql_unit", "dpsql_content", "dpsql_place"))
        with_units = self.columns_of(source, columns, unit, content)
        alike = exp.Window(this=exp.RowNumber(), partition_by=[exp.column(unit), exp.column(content)])
        placed = exp.select("*", exp.alias_(alike, place)).from_(with_units.subquery("known"))
        salted = _joined(exp.column(content), exp.Literal.string("/"), _text(exp.column(place)))
        order = exp.Order(expressions=[exp.Ordered(this=exp.func("md5", salted, dialect="duckdb"))])
        number = exp.Window(this=exp.RowNumber(), partition_by=[exp.column(unit)], order=order)
        bounded = exp.select(*(exp.column(name, quoted=True) for name in columns)).from_(placed.subquery("placed"))
        bounded.set("qualify", exp.Qualify(this=self._counts(number)))
        return bounded

    def _counts(self, number: exp.Expr) -> exp.Expr:
        """Whether a row of that number, of its unit, counts."""
        most = exp.Literal.number(self.rows)
        if self.rows < _MANY:
            return exp.LTE(this=number, expression=most)
        return exp.Between(this=number, low=exp.Literal.number(1), high=most)

    def columns_of(self, source: Source, columns: tuple[str, ...], unit: str, content: str) -> exp.Select:
        """Those columns of the rows that have a unit, with what tells the unit and what the row holds."""
        with_units = exp.select(
            *(exp.column(name, quoted=True) for name in columns),
            exp.alias_(self.key(), unit),
            exp.alias_(content_of(source, self.secret), content),
        ).from_(source.table())
        return with_units.where(exp.Not(this=exp.Is(this=self.key(), expression=exp.null())))


def content_of(source: Source, secret: exp.Expr) -> exp.Expr:
    """A digest of all stored columns of a row, keyed by the secret; each text goes after its length."""
    parts: list[exp.Expr] = []
    for column in source.columns:
        if not column.generated:
            text = _text(exp.column(column.name, quoted=True))
            length = _text(exp.func("strlen", text.copy(), dialect="duckdb"))
            lengthened = _joined(length, exp.Literal.string(":"), text)
            parts.append(exp.func("coalesce", lengthened, exp.Literal.string("-"), dialect="duckdb"))
    return exp.func("md5", _joined(secret.copy(), exp.Literal.string("/"), *parts), dialect="duckdb")


def bound_by_secret(bound: UnitBound) -> Bound:
    """A bound whose secret the statement reads where it is."""
    return Bound(bound.column, bound.type, bound.rows, secret_of(bound.catalog, bound.account))


def _text(column: exp.Expr) -> exp.Expr:
    """A value as text; nothing to fail."""
    return exp.TryCast(this=column, to=exp.DataType.build("VARCHAR", dialect="duckdb"))


def _joined(*texts: exp.Expr) -> exp.Expr:
    """Texts one after the other, as a balanced tree: thousands of columns would nest too deep."""
    if len(texts) == 1:
        return texts[0]
    middle = len(texts) // 2
    return exp.DPipe(this=exp.paren(_joined(*texts[:middle])), expression=exp.paren(_joined(*texts[middle:])))
