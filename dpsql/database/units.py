r"""Contribution bounding: of the rows of each privacy unit at most c count, chosen at random inside the engine.

    bounded  =  SELECT … FROM source WHERE unit IS NOT NULL
                QUALIFY row_number() OVER (PARTITION BY unit ORDER BY sha256(secret ‖ '/' ‖ rowid)) <= c

The secret is 256 bits of OS entropy, drawn when the table is protected or its account reset: one choice for all
releases, so that they are about the same rows and can be used together, and for one that is killed and goes on. Which
rows of a unit are chosen does not depend on other units, so adding a unit adds at most c rows to what is counted, and
takes none away. Units are what GROUP BY takes as one; rows without one (NULL) count nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpsql.database.catalog import Source


@dataclass(frozen=True)
class Bound:
    """Which rows of a source count.

    Attributes:
        column: the privacy unit's.
        rows: c, the most rows of one unit.
        secret: what the choice is drawn from; hexadecimal digits.
    """

    column: str
    rows: int
    secret: str

    def apply(self, source: Source, columns: tuple[str, ...]) -> exp.Select:
        """Those columns of the rows that count."""
        unit = exp.column(self.column, quoted=True)
        number = exp.cast(exp.column("rowid"), "VARCHAR", dialect="duckdb")
        salted = exp.DPipe(this=exp.Literal.string(f"{self.secret}/"), expression=number)
        order = exp.Order(expressions=[exp.Ordered(this=exp.Anonymous(this="sha256", expressions=[salted]))])
        place = exp.Window(this=exp.RowNumber(), partition_by=[unit], order=order)
        selected = exp.select(*(exp.column(name, quoted=True) for name in columns)).from_(source.table())
        selected = selected.where(exp.Not(this=exp.Is(this=unit.copy(), expression=exp.null())))
        selected.set("qualify", exp.Qualify(this=exp.LTE(this=place, expression=exp.Literal.number(self.rows))))
        return selected
