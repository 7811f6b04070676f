"""What owners say of one row: an SQL expression of its columns, checked, and rows of codes as a table to try it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.domain import Attribute
from dpsql.core.names import fold, shorten
from dpsql.engines.duckdb.frames import length
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument, InvalidQuery
from dpsql.evaluation.decode import decode
from dpsql.evaluation.sandbox import foreign_word
from dpsql.language.size_bounds import check_sizes
from dpsql.language.syntax import check_depth
from dpsql.language.value_types import check_nesting
from dpsql.runtime.process_settings import deep_recursion

_LONGEST: Final = 100_000
_NOT_IN_A_ROW: Final = (
    exp.Query,
    exp.AggFunc,
    exp.Window,
    exp.Placeholder,
    exp.Parameter,
    exp.SessionParameter,
    exp.Star,
)


def columns_of_row(source: Source, text: str, argument: str, example: str) -> tuple[str, ...]:
    """The columns that an expression of one row names, in the source's order.

    Args:
        source: whose row it is of.
        text: of the expression.
        argument: what it is called in errors.
        example: of what may be said.

    Raises:
        InvalidArgument: not SQL, named with AS, a query inside, a function that is not plain and built in, or no column
            named.
        UnknownName: a column that the source does not have.
    """
    shown, columns = shorten(text.strip()), set()
    for column in row_expression(text, argument, example).find_all(exp.Column):
        if column.table and (column.args.get("db") or fold(column.table) != fold(source.name)):
            raise InvalidArgument(f"{argument}: name a column of {source.name!r} alone, not {column.sql('duckdb')}")
        columns.add(source.column(column.name).name)
    if not columns:
        raise InvalidArgument(f"{argument} is {shown!r}, which names no column of {source.name!r}")
    return tuple(column.name for column in source.columns if column.name in columns)


def row_expression(text: str, argument: str, example: str) -> exp.Expr:
    """An expression that DuckDB's own plain functions make of one row; see `columns_of_row`.

    Raises:
        InvalidArgument: not SQL, named with AS, a query inside, or a function that is not plain and built in.
    """
    text = text.strip()
    shown = shorten(text)
    if len(text) > _LONGEST:
        raise InvalidArgument(f"{argument} has {len(text)} characters, more than {_LONGEST}")
    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
        check_nesting(tokens)
        with deep_recursion():
            tree = sqlglot.parse_one(f"SELECT {text}", read="duckdb")
        check_depth(tree)
    except (SqlglotError, RecursionError):
        raise InvalidArgument(
            f"{argument} is {shown!r}, which is not an SQL expression: say for example {example}"
        ) from None
    except InvalidQuery as deep:
        raise _of_argument(deep, argument) from None
    alone = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    if not alone or {key for key, value in tree.args.items() if value} != {"expressions"}:
        raise InvalidArgument(f"{argument} is {shown!r}: say one expression, without SELECT or WHERE")
    expression: exp.Expr = tree.expressions[0]
    if any(not isinstance(named.parent, exp.Func) for named in expression.find_all(exp.Alias, exp.Aliases)):
        raise InvalidArgument(f"{argument} is {shown!r}: say the expression alone, and give it no name")
    refused = next(expression.find_all(*_NOT_IN_A_ROW), None)
    if refused is not None:
        _refuse(refused.sql(dialect="duckdb"), argument)
    foreign = foreign_word(tokens)
    if foreign is not None:
        _refuse(foreign, argument)
    try:
        check_sizes([expression])
    except InvalidQuery as large:
        raise _of_argument(large, argument) from None
    return expression


def _of_argument(refusal: InvalidQuery, argument: str) -> InvalidArgument:
    return InvalidArgument(str(refusal).replace("query:", f"{argument}:", 1))


def _refuse(what: str, argument: str) -> None:
    raise InvalidArgument(
        f"{argument}: {what} is not about one row alone: use its columns, constants and DuckDB's own plain functions"
    )


@dataclass(frozen=True)
class Frame:
    """Rows of codes as a table of an empty database, whose names are none of the source's columns.

    Attributes:
        prefix: of its names.
        columns: codes `c<i>`, ticks `t<i>`, and the number of the row.
    """

    prefix: str
    columns: Mapping[str, npt.NDArray[Any]]

    @staticmethod
    def of(source: Source, columns: Mapping[str, npt.NDArray[Any]]) -> Frame:
        """Of codes as `c<i>` and, for bins, ticks as `t<i>`; at least one column."""
        prefix = "dpsql_"
        while any(fold(column.name).startswith(prefix) for column in source.columns):
            prefix = "_" + prefix
        numbered = {prefix + name: values for name, values in columns.items()}
        return Frame(prefix, numbered | {prefix + "row": np.arange(length(columns))})

    @property
    def name(self) -> str:
        """Of the table."""
        return self.prefix + "frame"

    @property
    def row(self) -> str:
        """The column with the number of the row."""
        return self.prefix + "row"

    @property
    def rows(self) -> int:
        """How many there are."""
        return length(self.columns)

    def decoded(self, source: Source, attributes: Sequence[Attribute]) -> exp.Subquery:
        """The rows with their numbers and their values, in the types as which expressions read them.

        Args:
            source: which gives them their name.
            attributes: of the columns, in the order of the codes.
        """
        values: list[exp.Expr] = [exp.column(self.row)]
        for number, attribute in enumerate(attributes):
            value = decode(attribute, f"{self.prefix}c{number}", f"{self.prefix}t{number}")
            typed = exp.cast(value, exp.DataType.build(attribute.released_type, dialect="duckdb"))
            values.append(exp.alias_(typed, attribute.name, quoted=True))
        return exp.select(*values).from_(exp.to_table(self.name)).subquery(exp.to_identifier(source.name, quoted=True))
