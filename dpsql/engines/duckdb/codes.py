"""The codes of rows as SQL that DuckDB runs, wherever the rows are: in a table, in files, or in a task of Spark.

codes   =  SELECT code_1, …, code_k FROM rows              (the smallest integers that hold them)
cell    =  Σ code_i·stride_i, which is NULL where a code is
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.encode import encode
from dpsql.engines.duckdb.reading import value
from dpsql.engines.duckdb.steps import steps_of
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.duckdb.units import unused
from dpsql.engines.source import Source

_SIZES: Final = ((2**8, "UTINYINT"), (2**16, "USMALLINT"), (2**31, "INTEGER"))


class Codes:
    """Writes the codes of a domain's columns.

    Attributes:
        names: of the columns of codes, one for each column of the domain.

    Args:
        source: the table; says which names are taken.
        domain: of its columns.
    """

    def __init__(self, source: Source, domain: Domain) -> None:
        self.names: Final = [f"c{place}" for place in range(len(domain))]
        self._domain = domain
        texts = [attribute.name for attribute in domain if attribute.text]
        self._read = {name: exp.column(unused(source, f"dpsql_read_{n}")) for n, name in enumerate(texts)}

    def of(self, rows: exp.Expr) -> exp.Select:
        """The codes of every row; all columns of the rows can be selected beside them."""
        codes = []
        for name, attribute in zip(self.names, self._domain, strict=True):
            kind = next(kind for size, kind in _SIZES if attribute.size <= size)
            code = exp.Cast(this=encode(attribute, self._read.get(attribute.name)), to=data_type(kind))
            codes.append(exp.Alias(this=code, alias=exp.to_identifier(name)))
        return exp.Select(expressions=codes).from_(self._with_read(rows), copy=False)

    def steps(self, moment: Moment | Product) -> exp.Expr:
        """What a row adds to a sum, to be selected beside the codes."""
        return steps_of(self._domain, moment, self._read.get)

    def key(self, clique: Clique) -> tuple[exp.Expr, list[exp.Expr]]:
        """A cell's index, of codes; and which rows have one."""
        columns = [exp.column(self.names[self._domain.names.index(name)]) for name in clique]
        codes = [exp.cast(column, "BIGINT", dialect="duckdb") for column in columns]
        key: exp.Expr = codes[0] if codes else exp.cast(exp.Literal.number(0), "BIGINT", dialect="duckdb")
        for code, size in zip(codes[1:], self._domain.shape(clique)[1:], strict=True):
            key = exp.Add(this=exp.Mul(this=exp.paren(key), expression=exp.Literal.number(size)), expression=code)
        return key, [exp.Not(this=exp.Is(this=column.copy(), expression=exp.null())) for column in columns]

    def cell(self, clique: Clique) -> exp.Expr:
        """A cell's index, of codes; −1 where one is missing."""
        return exp.Coalesce(this=self.key(clique)[0], expressions=[exp.Literal.number(-1)])

    def cell_text(self, clique: Clique) -> str:
        """`cell` in DuckDB's words. The expression takes longer to build and to print than a marginal to count."""
        codes = [f"CAST({self.names[self._domain.names.index(name)]} AS BIGINT)" for name in clique]
        key = codes[0]
        for code, size in zip(codes[1:], self._domain.shape(clique)[1:], strict=True):
            key = f"({key}) * {size} + {code}"
        return f"COALESCE({key}, -1)"

    def _with_read(self, rows: exp.Expr) -> exp.Expr:
        """Rows with the numbers of columns of texts beside them: the search for a bin would read each many times."""
        if not self._read:
            return rows
        by_name = self._domain.by_name
        values = [exp.alias_(value(by_name[name]), column.name) for name, column in self._read.items()]
        return exp.select("*", *values).from_(rows).subquery("read")


def sum_of(column: str) -> exp.Expr:
    """The sum of a column of whole numbers, in 64 bits."""
    return exp.cast(exp.Sum(this=exp.column(column)), "BIGINT", dialect="duckdb")


def columns_of(moment: Moment | Product) -> Sequence[str]:
    """The columns that a row's steps are of."""
    parts = (moment,) if isinstance(moment, Moment) else (moment.first, moment.second)
    return [part.column for part in parts]
