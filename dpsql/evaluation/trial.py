"""Expressions tried at points: one statement of DuckDB's, in an empty database, on public values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import duckdb
from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute
from dpsql.core.names import fold
from dpsql.engines.duckdb.types import data_type, filled
from dpsql.engines.source import Source
from dpsql.evaluation.decode import decode
from dpsql.evaluation.moments import unit_of
from dpsql.evaluation.points import Points
from dpsql.evaluation.refused import refused
from dpsql.evaluation.wording import check_written, different_words
from dpsql.evaluation.workers import Empty
from dpsql.language.expressions import sql_of


@dataclass(frozen=True)
class Expressions:
    """What is evaluated of one part.

    Attributes:
        keys: of groups.
        filters: which rows count.
        weights: for each its argument, None for 1, and filters of its own.
        written: parts that are written out otherwise than people wrote them, with their words.
    """

    keys: list[exp.Expr]
    filters: list[exp.Expr]
    weights: list[tuple[exp.Expr | None, list[exp.Expr]]]
    written: list[tuple[exp.Expr, str]] = field(init=False)

    def __post_init__(self) -> None:
        """Remember what people wrote, also of arguments that are read as formulas later."""
        object.__setattr__(self, "written", different_words(self.trees))

    @property
    def trees(self) -> list[exp.Expr]:
        """All expressions that are evaluated."""
        arguments = [tree for argument, filters in self.weights for tree in (argument, *filters) if tree is not None]
        return [*self.keys, *self.filters, *arguments]


def prefix_for(source: Source) -> str:
    """What the names of columns of ours begin with, and no name of a column of the source."""
    prefix = "dpsql_"
    while any(fold(column.name).startswith(prefix) for column in source.columns):
        prefix = "_" + prefix
    return prefix


def values_at(
    points: Points, expressions: Expressions, empty: Empty, source: Source
) -> tuple[dict[str, Any], dict[str, Fraction | None]]:
    """The values of expressions at all points, in the order of the points, and the step of each weight's type.

    Key number i has its rank `k<i>` and its text `v<i>`, filter number i is `f<i>`, the argument of weight number i
    `w<i>`, and its filters are `g<i>_0`, `g<i>_1`, ….

    Args:
        points: where.
        expressions: what.
        empty: a database that holds the rows of the joined tables, and nothing else.
        source: whose columns' types the expressions are written for.

    Raises:
        InvalidQuery: DuckDB refuses or fails.
    """
    prefix = prefix_for(source)
    point = f"{prefix}point"
    wanted = _wanted(expressions)
    listed = [exp.alias_(tree, name) for name, tree in wanted.items()]
    evaluated = exp.select(point, *listed).from_(_decoded(points.attributes, source, prefix))
    empty.register("dpsql_points", points.frame)
    try:
        check_written(empty, expressions.written, _decoded(points.attributes, source, prefix))
        kinds = {row[0]: row[1] for row in empty.execute(f"DESCRIBE {sql_of(evaluated)}").fetchall()}
        units = {name: unit_of(kinds[name]) for name in wanted if name.startswith("w")}
        columns = [_whole_number(name, kinds[name]) if name in units else exp.column(name) for name in wanted]
        final = exp.select(point, *columns).from_(evaluated.subquery("dpsql_values")).order_by(point)
        return dict(empty.execute(sql_of(final)).fetchnumpy()), units
    except duckdb.Error as error:  # of public values only, so its text may be shown
        raise refused(error) from None
    finally:
        empty.unregister("dpsql_points")


def _decoded(attributes: Sequence[Attribute], source: Source, prefix: str) -> exp.Subquery:
    """The points as values of the source's columns."""
    types = {column.name: column.type for column in source.columns}
    values: list[exp.Expr] = [exp.column(f"{prefix}point")]
    for number, attribute in enumerate(attributes):
        value = decode(attribute, f"{prefix}c{number}", f"{prefix}t{number}")
        if attribute.kind == "values":
            value = _respelled(attribute, value, f"{prefix}t{number}")
        typed = exp.cast(value, data_type(types[attribute.name]))
        values.append(exp.alias_(typed, attribute.name, quoted=True))
    return exp.select(*values).from_("dpsql_points").subquery("dpsql_decoded")


def _respelled(attribute: Attribute, value: exp.Expr, spelling: str) -> exp.Expr:
    """A listed value in the spelling whose number a column of the points holds."""
    ifs = [
        exp.If(this=exp.column(spelling).eq(number), true=filled(template, x=value))
        for number, template in enumerate(attribute.of_type.respelled, start=1)
    ]
    return exp.Case(ifs=ifs, default=value) if ifs else value


def _wanted(expressions: Expressions) -> dict[str, exp.Expr]:
    """What is asked of DuckDB, by the names of `values_at`."""
    wanted: dict[str, exp.Expr] = {}
    for number, tree in enumerate(expressions.keys):
        order = exp.Order(expressions=[exp.Paren(this=tree.copy())])
        rank = exp.Window(this=exp.DenseRank(), order=order)
        wanted[f"k{number}"] = exp.Sub(this=rank, expression=exp.Literal.number(1))
        wanted[f"v{number}"] = exp.cast(exp.Paren(this=tree.copy()), "VARCHAR", dialect="duckdb")
    wanted |= {f"f{number}": _holds(tree) for number, tree in enumerate(expressions.filters)}
    for number, (argument, filters) in enumerate(expressions.weights):
        if argument is not None:
            wanted[f"w{number}"] = exp.Paren(this=argument.copy())
        wanted |= {f"g{number}_{place}": _holds(tree) for place, tree in enumerate(filters)}
    return wanted


def _holds(tree: exp.Expr) -> exp.Expr:
    """Whether a condition holds: NULL does not."""
    truth = exp.cast(exp.Paren(this=tree.copy()), "BOOLEAN", dialect="duckdb")
    return exp.Coalesce(this=truth, expressions=[exp.false()])


def _whole_number(name: str, kind: str) -> exp.Expr:
    """A weight as a DOUBLE: of a DECIMAL in its steps, which stay exact up to 2^53."""
    value: exp.Expr = exp.column(name)
    if column_type(kind).scale:
        text = exp.cast(value, "VARCHAR", dialect="duckdb")
        value = exp.func("replace", text, exp.Literal.string("."), exp.Literal.string(""), dialect="duckdb")
    return exp.alias_(exp.cast(value, "DOUBLE", dialect="duckdb"), name)
