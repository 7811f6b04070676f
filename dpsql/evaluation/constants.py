"""The constants that a column is compared with, as ticks of its type."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import duckdb
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.ticks import tick
from dpsql.errors import DpsqlError, InvalidQuery
from dpsql.evaluation.bins import all_tried
from dpsql.evaluation.constancy import operands_of
from dpsql.evaluation.workers import Empty
from dpsql.evaluation.zones import clock_of
from dpsql.language.expressions import sql_of


def constants_of(empty: Empty, trees: Sequence[exp.Expr], attribute: Attribute) -> Iterator[int | float]:
    """The ticks of the constants in some expressions that are of the attribute's type."""
    if attribute.kind != "bins" or all_tried(attribute):
        return
    columns = itertools.chain.from_iterable(tree.find_all(exp.Column) for tree in trees)
    compared = [column for column in columns if column.name == attribute.name and not column.table]
    constants = itertools.chain.from_iterable(_constants(column) for column in compared)
    operands = {sql_of(other): other for other in constants if not isinstance(other, exp.Null)}
    for text, operand in operands.items():
        yield from _around(empty, text, operand, attribute)


def _constants(column: exp.Column) -> Iterator[exp.Expr]:
    """What a column, or the clock of a zone that it is shown on, is compared with, as values of the column."""
    yield from operands_of(column) or ()
    value, zone = clock_of(column)
    for clock in (operands_of(value) or ()) if zone else ():
        time = exp.cast(exp.Paren(this=clock.copy()), "TIMESTAMP", dialect="duckdb")
        yield exp.AtTimeZone(this=time, zone=exp.Literal.string(zone))


def _around(empty: Empty, text: str, operand: exp.Expr, attribute: Attribute) -> Iterator[int | float]:
    """The ticks next to a constant that the attribute is compared with, whatever type the constant has."""
    number = attribute.of_type.is_exact
    kind = "DOUBLE" if number or attribute.is_float else attribute.type
    try:
        query = exp.select(exp.cast(exp.cast(exp.Paren(this=operand.copy()), kind, dialect="duckdb"), "VARCHAR"))
        value = empty.execute(query.sql(dialect="duckdb")).fetchall()[0][0]
        if value is None:
            return
        if number:
            steps = float(value) * 10 ** (attribute.of_type.scale or 0)
            yield from (math.floor(steps), math.ceil(steps))
        else:
            yield tick(empty, value, attribute.type, "constant")
    except (DpsqlError, ValueError, OverflowError, duckdb.Error):
        raise InvalidQuery(
            f"query: {attribute.name!r} is compared with {text}, which is no constant of its type"
        ) from None
