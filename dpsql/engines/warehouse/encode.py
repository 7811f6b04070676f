"""Private values to codes, as SQL that any warehouse runs.

    values  a search tree of comparisons, and at its leaf one for equality
    bins    CASE WHEN x >= lowest AND x <= highest THEN a search tree of the edges END

It runs on private rows, so nothing in it can fail because of a value: comparisons with typed constants, and no
arithmetic but the distance of a whole number from the lowest one inside the bins. A row outside the domain gets the
code of OTHER or of OUTSIDE; where the attribute has neither, NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.warehouse import types
from dpsql.engines.warehouse.dialect import Dialect
from dpsql.engines.warehouse.types import Native, column_of
from dpsql.engines.warehouse.written import whole
from dpsql.errors import InvalidArgument

MOST: Final = 5_000
"""Leaves of a search tree: a statement has at most a million letters in some warehouses."""
_MOST_LETTERS: Final = 200_000  # of one column, of which a marginal has several
_FEW: Final = 4  # values that are compared one after the other


def check_domain(attribute: Attribute, native: Native, dialect: Dialect) -> None:
    """Refuse a domain that cannot be written, when it is declared.

    Raises:
        InvalidArgument: says what works instead.
    """
    name, label = attribute.name, dialect.label
    if native.kind == types.FLOAT and attribute.kind == "values":
        raise InvalidArgument(
            f"values of {name!r} are binary floats, which {label} does not tell apart as DuckDB does: declare lower, "
            "upper and bins, and points := […] for single values"
        )
    leaves = len(attribute.values) if attribute.kind == "values" else attribute.regular
    if leaves > MOST and not (attribute.kind != "values" and _is_counted(attribute, native)):
        raise InvalidArgument(
            f"{name!r} has {leaves} values or bins, at most {MOST} can be written in a statement of {label}: declare "
            "fewer bins, or coarser values"
        )
    letters = len(encode(attribute, native, dialect).sql(dialect=dialect.sqlglot))
    if letters > _MOST_LETTERS:
        raise InvalidArgument(
            f"the values or bins of {name!r} take {letters:,} letters of a statement of {label}, at most "
            f"{_MOST_LETTERS:,} are allowed: declare fewer, or shorter ones"
        )


def encode(attribute: Attribute, native: Native, dialect: Dialect) -> exp.Expr:
    """The code of a column; total on every value of the type. NULL outside a domain without OTHER and OUTSIDE."""
    outside = _code(attribute.outside_code if attribute.other_code is None else attribute.other_code)
    null_code = _code(attribute.null_code) if attribute.nullable else outside.copy()
    name = attribute.name
    ifs = [exp.If(this=dialect.missing(name, attribute.nulls_as, native), true=null_code)]
    if attribute.kind != "values":
        ifs.append(exp.If(this=_within(attribute, native, dialect), true=_bin_of(attribute, native, dialect)))
        return exp.Case(ifs=ifs, default=outside)
    pairs = [(value, code) for code, value in enumerate(attribute.values) if dialect.can_be(value, native)]
    order = _order_of(native)
    if order is not None:
        pairs.sort(key=lambda pair: order(pair[0]))
    found = _Searched(dialect, native, name, outside, is_ordered=order is not None)
    return exp.Case(ifs=ifs, default=found.among(pairs))


def _code(code: int | None) -> exp.Expr:
    return exp.null() if code is None else exp.Literal.number(code)


def _within(attribute: Attribute, native: Native, dialect: Dialect) -> exp.Expr:
    """Whether a value is in one of the bins; NaN is not, whether it is above all numbers or equal to nothing."""
    lowest, highest = (dialect.constant(attribute.edges[place], native) for place in (0, -1))
    column = dialect.column(attribute.name, native)
    return exp.and_(exp.GTE(this=column, expression=lowest), exp.LTE(this=column.copy(), expression=highest))


def _is_counted(attribute: Attribute, native: Native) -> bool:
    """Whether the bins are whole numbers one after the other, so that a bin is a distance."""
    return attribute.has_single_values and native.kind == types.WHOLE


def _bin_of(attribute: Attribute, native: Native, dialect: Dialect) -> exp.Expr:
    """The number of the bin that a value is in, of one that is in a bin; nothing to overflow."""
    if _is_counted(attribute, native):
        return exp.Sub(this=column_of(attribute.name), expression=whole(int(attribute.ticks[0])))
    return _bin(attribute, native, dialect, 0, attribute.regular)


def _bin(attribute: Attribute, native: Native, dialect: Dialect, low: int, high: int) -> exp.Expr:
    if high - low == 1:
        return exp.Literal.number(low)
    middle = (low + high) // 2
    edge = dialect.constant(attribute.edges[middle], native)
    below = exp.LT(this=dialect.column(attribute.name, native), expression=edge)
    lower = exp.If(this=below, true=_bin(attribute, native, dialect, low, middle))
    return exp.Case(ifs=[lower], default=_bin(attribute, native, dialect, middle, high))


def _order_of(native: Native) -> Callable[[str], Any] | None:
    """By what constants of a kind are in the warehouse's order; None where that is not plain."""
    if native.kind == types.TEXT:
        return str.encode
    return Decimal if native.kind in (types.WHOLE, types.DECIMAL) else None


class _Searched:
    """The code of a value among listed ones."""

    def __init__(self, dialect: Dialect, native: Native, name: str, outside: exp.Expr, *, is_ordered: bool) -> None:
        self._dialect, self._native, self._name, self._outside = dialect, native, name, outside
        self._few = _FEW if is_ordered else MOST

    def among(self, pairs: Sequence[tuple[str, int]]) -> exp.Expr:
        """The search tree of pairs of a value and its code, in order."""
        if len(pairs) <= self._few:
            ifs = [
                exp.If(this=self._dialect.equals(self._name, value, self._native), true=_code(code))
                for value, code in pairs
            ]
            return exp.Case(ifs=ifs, default=self._outside.copy()) if ifs else self._outside.copy()
        middle = len(pairs) // 2
        edge = self._dialect.constant(pairs[middle][0], self._native)
        column = self._dialect.column(self._name, self._native)
        lower = exp.If(this=exp.LT(this=column, expression=edge), true=self.among(pairs[:middle]))
        return exp.Case(ifs=[lower], default=self.among(pairs[middle:]))
