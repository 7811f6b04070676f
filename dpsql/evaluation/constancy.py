"""Whether an expression is the same in all of a bin, where only some of its values are tried.

Its ends and the values around its constants tell all that a comparison or a monotone function can do inside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.names import as_text, quote
from dpsql.errors import InvalidQuery
from dpsql.evaluation.bins import PERIODS
from dpsql.evaluation.zones import step_of, zone_of
from dpsql.language.expressions import columns_read, sql_of

_COMPARES: Final = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
    exp.In,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
_MONOTONE: Final = (
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Trunc,
    exp.IntDiv,
    exp.Year,
    exp.DateTrunc,
    exp.TimestampTrunc,
    exp.TsOrDsToDate,
)
_ORDERED: Final = (
    *exp.DataType.NUMERIC_TYPES,
    exp.DataType.Type.DATE,
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMP_S,
    exp.DataType.Type.TIMESTAMP_MS,
)
_ORDERS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
WRITTEN: Final = "dpsql_written"  # of an expression of ours: the user's
_CLOCK_PARTS: Final = {"hour": 3600, "minute": 60, "second": 1}
_FORMATS: Final = dict.fromkeys("aAwudbBmyYGVUWjxDFe", 86_400) | {"H": 3600, "I": 3600, "p": 3600, "M": 60, "S": 1}
_DATE_PARTS: Final = frozenset(
    {
        "year",
        "quarter",
        "millennium",
        "month",
        "monthname",
        "week",
        "weekofyear",
        "yearweek",
        "isoyear",
        "day",
        "dayofmonth",
        "dow",
    }
    | {"dayofweek", "dayofweekiso", "isodow", "weekday", "dayname", "dayofyear", "doy", "decade", "century"}
)


class VariesInBin(InvalidQuery):
    """A query whose expressions are evaluated as they were written, and are not the same in all of a bin."""


class Varies(Exception):
    """An expression is not the same in all of a bin."""

    def __init__(self, tree: exp.Expr, attributes: Sequence[Attribute], cell: int | None, *, summed: bool) -> None:
        self._tree, self._attributes, self._cell = tree.meta.get(WRITTEN, tree), attributes, cell
        self._sums_several = summed and len(columns_read(self._tree)) > 1

    def refusal(self) -> InvalidQuery:
        """What to tell."""
        shape = [attribute.size for attribute in self._attributes]
        codes = np.unravel_index(self._cell, shape) if self._cell is not None else None
        wide = [
            (attribute, None if codes is None else int(codes[place]))
            for place, attribute in enumerate(self._attributes)
            if attribute.kind == "bins" and not attribute.has_single_values
        ]
        if not wide:
            return self._of_spellings()
        attribute, code = wide[0]
        where = f"in the bin {attribute.labels()[code]} of" if code is not None else "in every bin of"
        of_one = f"sum one column where a condition holds, as sum({quote(attribute.name)}) FILTER (WHERE …); or "
        edges = f"{', '.join(attribute.edges[:12])}{', …' if len(attribute.edges) > 12 else ''}"
        return VariesInBin(
            f"query: {sql_of(self._tree)} is not known to be the same {where} {attribute.name!r}: "
            f"{of_one if self._sums_several else ''}use the edges of its bins ({edges}), or the owner declares edges "
            f"where it changes with dp_domain(…, {as_text(attribute.name)}, edges := […])"
        )

    def _of_spellings(self) -> InvalidQuery:
        """What to tell where listed values alone are read."""
        names = ", ".join(repr(a.name) for a in self._attributes if a.kind == "values" and a.of_type.respelled)
        return InvalidQuery(
            f"query: {sql_of(self._tree)} tells values of {names} apart that are equal and counted as one, such as 0.0 "
            "and -0.0, or 1 month and 30 days: compare the column with constants instead"
        )


def known_from_ends(tree: exp.Expr, attribute: Attribute) -> bool:
    """Whether an expression changes inside a bin only around constants, or not at all if its ends agree.

    That is so if the column stands by itself in comparisons with constants, or the whole is one monotone function of
    it, as floor(x / 10), or asks for the hour, the month, … of a bin that lies within one.
    """
    for column in tree.find_all(exp.Column):
        if column.name == attribute.name and not column.table:
            is_simple = operands_of(column) is not None or _in_monotone(column, tree) or _in_calendar(column, attribute)
            if not is_simple:
                return False
    return True


def _in_calendar(column: exp.Column, attribute: Attribute) -> bool:
    """Whether a column stands in a function of its date or its clock, and each bin lies within a day, an hour, …."""
    second = attribute.of_type.ticks_per_second
    period = _period_of(column)
    if not second or not period:
        return False
    ticks = np.array(attribute.ticks, np.int64)
    return bool((ticks[:-1] // (period * second) == (ticks[1:] - 1) // (period * second)).all())


def _period_of(column: exp.Column) -> int:
    """The seconds within which what is made of a time is the same: of its date 86,400; 0 where nothing is known."""
    value: exp.Expr = column
    step = PERIODS[0]
    while (node := value.parent) is not None:
        zone = zone_of(node, value)
        if zone is not None:
            step = min(step, step_of(zone))
        elif type(node) is exp.Cast and node.to.is_type("DATE"):
            return step
        elif not isinstance(node, exp.Paren) and not (type(node) is exp.Cast and node.to.is_type("TIME")):
            return step if _is_compared(value) else min(step, _period_of_function(node))
        value = node
    return 0


def _is_compared(value: exp.Expr) -> bool:
    """Whether a time of a clock is compared with constants, so that it changes inside a period only if its ends differ.

    Of = and BETWEEN these are dates, at whose beginning a period begins, too.
    """
    others = operands_of(value)
    if others is None:
        return False
    return isinstance(value.parent, _ORDERS) or all(map(_is_date, others))


def _is_date(constant: exp.Expr) -> bool:
    text = constant.this if type(constant) is exp.Cast else constant
    return isinstance(text, exp.Literal) and text.is_string and _DATE.fullmatch(text.name) is not None


def _period_of_function(node: exp.Expr) -> int:
    """The seconds within which a function of a time is the same."""
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return _period_of_unit(node.args["unit"].name)
    if isinstance(node, exp.DateBin):
        return _period_of_bucket(node)
    if isinstance(node, exp.TimeToStr):
        return _period_of_format(node.args.get("format"))
    name = (node.name if isinstance(node, exp.Anonymous) else node.key).lower()
    if name in ("date_part", "datepart"):
        name = node.expressions[0].name.lower() if isinstance(node.expressions[0], exp.Literal) else ""
    elif name == "extract":
        name = node.name.lower()
    return _period(name)


def _period(part: str) -> int:
    """The seconds within which a part of a time is the same; 0 where nothing is known."""
    return PERIODS[0] if part in _DATE_PARTS else _CLOCK_PARTS.get(part, 0)


def _period_of_unit(unit: str) -> int:
    return _period(unit.lower().removesuffix("s"))


def _period_of_bucket(node: exp.Expr) -> int:
    """Of time_bucket(width, x): buckets begin at midnight, at full hours, …, as their width does."""
    width = node.this
    plain = isinstance(width, exp.Interval) and isinstance(width.this, exp.Literal) and isinstance(width.unit, exp.Var)
    others = [value for name, value in node.args.items() if name not in ("this", "expression") and value]
    whole = plain and width.this.name.isdigit() and int(width.this.name) > 0
    return _period_of_unit(width.unit.name) if whole and not others else 0


def _period_of_format(format_: exp.Expr | None) -> int:
    """Of strftime(x, format): the finest of what the format shows."""
    if not isinstance(format_, exp.Literal) or not format_.is_string:
        return 0
    shown = set(re.findall(r"%-?(.)", format_.name)) - {"%"}
    if not shown <= _FORMATS.keys():
        return 0
    return min((_FORMATS[letter] for letter in shown), default=0)


def operands_of(value: exp.Expr) -> list[exp.Expr] | None:
    """The constants that a column, or another value, is compared with by itself; None if it is not."""
    node = value
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    parent = node.parent
    if not isinstance(parent, _COMPARES):
        return None
    others: list[exp.Expr] = [child for child in parent.iter_expressions() if child is not node]
    return others if all(map(_is_constant, others)) else None


def _is_constant(tree: exp.Expr) -> bool:
    """Whether an expression reads nothing: all that may be called depends on its arguments alone."""
    return tree.find(exp.Column, exp.Query, exp.Subquery, exp.Star, exp.Placeholder, exp.Parameter) is None


def _in_monotone(column: exp.Column, tree: exp.Expr) -> bool:
    """Whether every step from the column up to the root of the expression is monotone in it, or a constant's sum."""
    if sum(1 for other in tree.find_all(exp.Column) if other.name == column.name and not other.table) > 1:
        return False
    node: exp.Expr = column
    while node is not tree:
        parent = node.parent
        assert parent is not None
        others = [child for child in parent.iter_expressions() if child is not node]
        scaled = isinstance(parent, exp.Add | exp.Sub | exp.Mul | exp.Div)
        cast = type(parent) is exp.Cast and parent.to.is_type(*_ORDERED)
        if not isinstance(parent, exp.Paren) and not (isinstance(parent, _MONOTONE) or scaled or cast):
            return False
        if isinstance(parent, (exp.Div, *_MONOTONE)) and parent.this is not node:
            return False
        if not all(_is_constant(other) or isinstance(other, exp.Var | exp.DataType) for other in others):
            return False
        node = parent
    return True
