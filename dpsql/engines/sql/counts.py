"""The statements that count: what is read of rows, and all that is.

    M_S     SELECT COALESCE(Σ code_i·stride_i, −1) AS cell, n AS n FROM (SELECT code_1, … FROM rows) GROUP BY 1
    values  SELECT x AS value, COUNT(*) AS n FROM rows WHERE x IS NOT NULL GROUP BY x HAVING COUNT(*) >= 2
    units   SELECT cells, COUNT(*) AS n FROM (SELECT ARRAY_AGG(DISTINCT cell) AS cells FROM … GROUP BY unit) GROUP BY 1
    codes   SELECT c0, c1, …, COUNT(*) AS n FROM (SELECT code_1, … FROM rows) GROUP BY 1, 2, …

A kind of count says what a row adds to the n of its cell: 1, or the steps of a sum. Everything else, from the choice of
the rows to what is checked of the answer, is the same for each kind, and a new one is a class here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from sqlglot import exp

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.checked import Counts, counts_of
from dpsql.engines.sql.codes import encode
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.sums import columns_of, steps_of
from dpsql.engines.sql.types import Native

STEPS: Final = "dpsql_steps"
"""What a row adds, beside its codes."""
UNIT: Final = "dpsql_unit"
"""A row's privacy unit, beside its codes."""
PLACE: Final = "dpsql_place"
"""A row's number in the order of codes."""


class Kind(Protocol):
    """A kind of count."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it is of, beside those of the cells."""

    def adds(self, domain: Domain, natives: Mapping[str, Native], dialect: Dialect) -> exp.Expr | None:
        """What a row adds to the n of its cell, a whole number of 64 bits; None for 1."""

    def checked(self, cells: Counts, counts: Counts, rows: int) -> tuple[Counts, Counts]:
        """The cells with their n, without those of rows that have no cell.

        Raises:
            WrongCounts: they cannot be of that many rows.
        """


@dataclass(frozen=True)
class _Rows:
    columns: Sequence[str] = ()

    def adds(self, domain: Domain, natives: Mapping[str, Native], dialect: Dialect) -> None:
        """See `Kind.adds`."""

    def checked(self, cells: Counts, counts: Counts, rows: int) -> tuple[Counts, Counts]:
        """See `Kind.checked`: each row is in one cell, or in none."""
        return counts_of(cells, counts, rows)


ROWS: Final = _Rows()
"""How many rows each cell has."""


@dataclass(frozen=True)
class Sums:
    """What the steps of the rows of each cell add up to.

    Attributes:
        moment: what a row adds.
    """

    moment: Moment | Product

    @property
    def columns(self) -> Sequence[str]:
        """See `Kind.columns`."""
        return columns_of(self.moment)

    def adds(self, domain: Domain, natives: Mapping[str, Native], dialect: Dialect) -> exp.Expr:
        """See `Kind.adds`."""
        return steps_of(domain, natives, self.moment, dialect)

    def checked(self, cells: Counts, counts: Counts, rows: int) -> tuple[Counts, Counts]:
        """See `Kind.checked`: a sum may be any number."""
        return cells[cells >= 0], counts[cells >= 0]


def cell_of(domain: Domain, clique: Clique, dialect: Dialect) -> exp.Expr:
    """A cell's index, of the codes of a domain's columns; −1 where one is missing."""
    return exp.Var(this=cell_text(domain, clique, dialect))


def cell_text(domain: Domain, clique: Clique, dialect: Dialect) -> str:
    """`cell_of` as text: an expression takes longer to build and to print than a marginal to count."""
    sizes = dict(zip(clique, domain.shape(clique), strict=True))
    key, none, *written = (dialect.whole(number).sql(dialect=dialect.sqlglot) for number in (0, -1, *sizes.values()))
    for name, size in zip(clique, written, strict=True):
        key = f"({key}) * {size} + c{domain.names.index(name)}"
    return f"COALESCE({key}, {none})"


def codes_of(
    domain: Domain, natives: Mapping[str, Native], dialect: Dialect, rows: exp.Expr, *more: exp.Expr
) -> exp.Select:
    """The codes of a domain's columns, as c0, c1, …, of each row, and more beside them."""
    codes = [
        exp.alias_(exp.Var(this=_code_text(attribute, natives[attribute.name], dialect)), f"c{place}")
        for place, attribute in enumerate(domain)
    ]
    return exp.select(*codes, *more).from_(rows)


@lru_cache(maxsize=256)
def _code_text(attribute: Attribute, native: Native, dialect: Dialect) -> str:
    """A column's code as text, written once for all marginals: of many values it takes longer to write than to run."""
    return encode(attribute, native, dialect).sql(dialect=dialect.sqlglot)


def grouped(cell: exp.Expr, n: exp.Expr, rows: exp.Expr) -> exp.Select:
    """Each cell with its n."""
    query = exp.select(exp.alias_(cell, "cell", quoted=True), named_n(n)).from_(rows)
    return query.group_by(exp.Literal.number(1))


def every_row(rows: exp.Expr) -> exp.Select:
    """How many rows there are."""
    return exp.select(named_n(exp.Count(this=exp.Star()))).from_(rows)


def listed_values(
    column: str, natives: Mapping[str, Native], dialect: Dialect, rows: exp.Expr, unit: str | None = None
) -> exp.Select:
    """The values of a column that two rows have or more, or two units, with how many have each."""
    native = natives[column]
    number = exp.Count(
        this=exp.Star() if unit is None else exp.Distinct(expressions=[dialect.column(unit, natives[unit])])
    )
    there = exp.Not(this=exp.Is(this=dialect.column(column, native), expression=exp.null()))
    listed = exp.select(exp.alias_(dialect.shown(column, native), "value", quoted=True), named_n(number))
    many = exp.GTE(this=number.copy(), expression=exp.Literal.number(2))
    return listed.from_(rows).where(there).group_by(exp.Literal.number(1)).having(many)


def alike_units(cell: exp.Expr, codes: exp.Expr) -> exp.Select:
    """Sets of cells, each in order, with how many units have rows in just those: a unit more adds 1 to one of them.

    Args:
        cell: of a row, of its codes.
        codes: of rows, with their unit as `UNIT`.
    """
    rows = exp.select(exp.alias_(exp.column(UNIT), UNIT), exp.alias_(cell, "cell")).from_(codes)
    inside = exp.GTE(this=exp.column("cell"), expression=exp.Literal.number(0))
    pairs = exp.select(UNIT, "cell").from_(rows.subquery("cells")).where(inside).distinct().subquery("pairs")
    order = exp.Order(this=exp.column("cell"), expressions=[exp.Ordered(this=exp.column("cell"), nulls_first=False)])
    held = exp.select(exp.alias_(exp.ArrayAgg(this=order), "cells")).from_(pairs).group_by(UNIT).subquery("held")
    return exp.select("cells", named_n(exp.Count(this=exp.Star()))).from_(held).group_by("cells")


def alike_rows(names: Sequence[str], codes: exp.Expr, places: exp.Expr | None = None) -> exp.Select:
    """Tuples of codes, −1 for none, with how many rows have each, in order.

    Rows stand in the order of their codes. Where that is open, rows are alike: it does not matter which is drawn.

    Args:
        names: of the codes.
        codes: of rows.
        places: of those to count, as an array, from 1 on; None of all.
    """
    if places is not None:
        order = exp.Order(expressions=[exp.Ordered(this=exp.column(name), nulls_first=False) for name in names])
        number = exp.alias_(exp.Window(this=exp.RowNumber(), order=order), PLACE)
        placed = exp.select(*names, number).from_(codes).subquery("placed")
        drawn = exp.EQ(this=exp.column(PLACE), expression=exp.Any(this=exp.Paren(this=places)))
        codes = exp.select(*names).from_(placed).where(drawn).subquery("drawn")
    none = exp.Paren(this=exp.Neg(this=exp.Literal.number(1)))
    filled = [exp.alias_(exp.Coalesce(this=exp.column(name), expressions=[none.copy()]), name) for name in names]
    query = exp.select(*filled, named_n(exp.Count(this=exp.Star()))).from_(codes)
    numbers = [exp.Literal.number(place) for place in range(1, len(names) + 1)]
    return query.group_by(*numbers).order_by(*(number.copy() for number in numbers)) if names else query


def named_n(number: exp.Expr) -> exp.Expr:
    """A number of an answer."""
    return exp.alias_(number, "n", quoted=True)
