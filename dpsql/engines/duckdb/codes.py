"""The codes of rows as SQL that DuckDB runs, wherever the rows are: in a table, in files, or in a task of Spark.

codes   =  SELECT code_1, …, code_k FROM rows              (the smallest integers that hold them)
cell    =  Σ code_i·stride_i, −1 where one is missing
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.domain import Clique, Domain
from dpsql.engines.duckdb.dialect import DuckDB, native_of
from dpsql.engines.duckdb.reading import value
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.duckdb.units import unused
from dpsql.engines.source import Source
from dpsql.engines.sql.codes import encode
from dpsql.engines.sql.counts import Kind, cell_text

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
        self._domain, self._natives = domain, {attribute.name: native_of(attribute) for attribute in domain}
        texts = [attribute.name for attribute in domain if attribute.is_read]
        self._read = {name: exp.column(unused(source, f"dpsql_read_{n}")) for n, name in enumerate(texts)}
        self._dialect = DuckDB(domain, self._read)

    def of(self, rows: exp.Expr) -> exp.Select:
        """The codes of every row; all columns of the rows can be selected beside them."""
        codes = []
        for name, attribute in zip(self.names, self._domain, strict=True):
            kind = next(kind for size, kind in _SIZES if attribute.size <= size)
            code = encode(attribute, self._natives[attribute.name], self._dialect)
            codes.append(exp.Alias(this=exp.Cast(this=code, to=data_type(kind)), alias=exp.to_identifier(name)))
        return exp.Select(expressions=codes).from_(self._with_read(rows), copy=False)

    def adds(self, kind: Kind) -> exp.Expr:
        """What a row adds to a count of a kind, to be selected beside the codes."""
        added = kind.adds(self._domain, self._natives, self._dialect)
        return exp.cast(exp.Literal.number(1), "BIGINT", dialect="duckdb") if added is None else added

    def cell(self, clique: Clique) -> exp.Expr:
        """A cell's index, of codes; −1 where one is missing."""
        return exp.Var(this=self.cell_text(clique))

    def cell_text(self, clique: Clique) -> str:
        """`cell` in DuckDB's words."""
        return cell_text(self._domain, clique, self._dialect)

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
