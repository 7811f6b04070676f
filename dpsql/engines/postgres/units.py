"""Contribution bounding in Postgres: of the rows of each privacy unit at most c count.

    chosen  =  SELECT …, row_number() OVER (PARTITION BY unit ORDER BY sha256(key ‖ identity)) AS place
               FROM table WHERE unit IS NOT NULL
    bounded =  SELECT … FROM chosen WHERE place <= c

The identity is a primary key, or another set of columns that tells rows apart: it takes the place of the rows' content,
which DuckDB's engine hashes. The key is HMAC-SHA256 of the table's name under the secret in the books, so that the
secret itself does not leave. It is bound as $1, because Postgres logs the texts of statements. Which rows of a unit are
chosen does not depend on other units, whatever the key is, so adding a unit adds at most c rows to what is counted, and
takes none away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.names import fold
from dpsql.engines.postgres.dialect import POSTGRES
from dpsql.engines.sql.types import Native, column_of


@dataclass(frozen=True)
class Bound:
    """Which rows of a table count.

    Attributes:
        unit: the column of the privacy unit.
        native: its type.
        rows: c, the most rows of one unit.
        identity: columns that tell rows apart, none of which is NULL.
        key: what the choice is drawn from.
    """

    unit: str
    native: Native
    rows: int
    identity: tuple[str, ...]
    key: bytes

    def apply(self, table: exp.Expr, columns: Sequence[str], taken: Sequence[str]) -> exp.Select:
        """Those columns of the rows that count; statements that use it bind the key as $1.

        Args:
            table: the rows.
            columns: those to select.
            taken: names that are columns.
        """
        place = unused(taken, "dpsql_place")
        digest = exp.DPipe(this=exp.Parameter(this=exp.Literal.number(1)), expression=_bytes(self.identity))
        hashed = exp.Anonymous(this="sha256", expressions=[digest])
        number = exp.Window(
            this=exp.RowNumber(),
            partition_by=[POSTGRES.column(self.unit, self.native)],
            order=exp.Order(expressions=[exp.Ordered(this=hashed, nulls_first=False)]),
        )
        chosen = exp.select(*map(column_of, columns), exp.alias_(number, place)).from_(table)
        chosen = chosen.where(exp.Not(this=exp.Is(this=column_of(self.unit), expression=exp.null())))
        few = exp.LTE(this=exp.column(place), expression=exp.Literal.number(self.rows))
        return exp.select(*map(column_of, columns)).from_(chosen.subquery("chosen")).where(few)

    def number(self, table: exp.Expr) -> exp.Select:
        """How many rows count, found out without choosing them: what is chosen is checked against it."""
        unit = POSTGRES.column(self.unit, self.native)
        there = exp.Not(this=exp.Is(this=column_of(self.unit), expression=exp.null()))
        held = exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(table).where(there).group_by(unit)
        few = exp.Least(this=exp.column("rows"), expressions=[exp.Literal.number(self.rows)])
        total = exp.Coalesce(this=exp.Sum(this=few), expressions=[exp.Literal.number(0)])
        return exp.select(exp.alias_(total, "n")).from_(held.subquery("units"))


def _bytes(identity: Sequence[str]) -> exp.Expr:
    """The bytes of an identity: of several columns each text goes after its length."""
    texts: list[exp.Expr] = [exp.Anonymous(this="concat", expressions=[column_of(name)]) for name in identity]
    if len(texts) > 1:
        parts: list[exp.Expr] = []
        for text in texts:
            parts += [exp.Anonymous(this="length", expressions=[text.copy()]), exp.Literal.string(":"), text]
        texts = [exp.Anonymous(this="concat", expressions=parts)]
    return exp.Anonymous(this="convert_to", expressions=[texts[0], exp.Literal.string("UTF8")])


def unused(taken: Sequence[str], name: str) -> str:
    """A name that no column has."""
    while name in {fold(column) for column in taken}:
        name = f"_{name}"
    return name
