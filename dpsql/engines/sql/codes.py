"""Private values to codes: the one place that writes this SQL, whatever the dialect is.

    values  a search tree of comparisons, and at its leaf one for equality
    bins    CASE WHEN x >= lowest AND x <= highest THEN a search tree of the edges END

It runs on private rows, so nothing in it can fail or take longer because of a value: comparisons with typed constants,
and no arithmetic but that of numbers inside the bins, which is exact and overflows nowhere. A row outside the domain
gets the code of OTHER or of OUTSIDE; where the attribute has neither, NULL. A dialect may have something quicker than a
search (`Dialect.place`, `Dialect.listed`), which gives the same codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.sql import types
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.failures import NotCounted
from dpsql.engines.sql.types import Native
from dpsql.errors import InvalidArgument

MOST: Final = 5_000
"""Leaves of a search tree: a statement has at most a million letters in some warehouses."""
_MOST_LETTERS: Final = 200_000  # of one column, of which a marginal has several
_FEW: Final = 4  # values that are compared one after the other


def check_written(attribute: Attribute, native: Native, dialect: Dialect) -> None:
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
    is_counted = attribute.kind != "values" and attribute.has_single_values and native.kind == types.WHOLE
    if leaves > MOST and not is_counted:
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
    """The code of a column; total on every value of the type. NULL outside a domain without OTHER and OUTSIDE.

    Args:
        attribute: of the column.
        native: the column's type there.
        dialect: of the database.

    Raises:
        NotCounted: its texts are read as numbers, which would be a cast that fails for some.
    """
    if attribute.is_read and "read_as" in dialect.cannot:
        raise NotCounted(f"read_as of {attribute.name!r} cannot be had in {dialect.label}: {dialect.cannot['read_as']}")
    outside = _code(attribute.outside_code if attribute.other_code is None else attribute.other_code)
    null_code = _code(attribute.null_code) if attribute.nullable else outside.copy()
    column = dialect.column(attribute.name, native)
    ifs = [exp.If(this=dialect.missing(attribute, native), true=null_code)]
    if attribute.kind != "values":
        place = dialect.place(attribute, native, column)
        place = _bin(attribute, native, dialect, column) if place is None else place
        ifs.append(exp.If(this=within(attribute, native, dialect, column), true=place))
        return exp.Case(ifs=ifs, default=outside)
    if not attribute.values:  # only whether there is one is asked
        return exp.Case(ifs=ifs, default=outside)
    listed = dialect.listed(attribute, column)
    if listed is not None:
        return exp.Case(ifs=ifs, default=exp.Coalesce(this=listed, expressions=[outside]))
    pairs = [(value, code) for code, value in enumerate(attribute.values) if dialect.can_be(value, native)]
    order = dialect.order(native)
    if order is not None:
        pairs.sort(key=lambda pair: order(pair[0]))
    searched = _Searched(dialect, native, attribute.name, outside, is_ordered=order is not None)
    return exp.Case(ifs=ifs, default=searched.among(pairs))


def within(attribute: Attribute, native: Native, dialect: Dialect, column: exp.Expr) -> exp.Expr:
    """Whether a value is in one of the bins; NaN is not, whether it is above all numbers or equal to nothing."""
    lowest, highest = (dialect.constant(attribute.edges[place], native) for place in (0, -1))
    return exp.and_(exp.GTE(this=column.copy(), expression=lowest), exp.LTE(this=column.copy(), expression=highest))


def _code(code: int | None) -> exp.Expr:
    return exp.null() if code is None else exp.Literal.number(code)


def _bin(attribute: Attribute, native: Native, dialect: Dialect, column: exp.Expr) -> exp.Expr:
    """The number of the bin that a value is in, by a search among the edges.

    It is written as text: of ten thousand edges an expression takes seconds to build, to copy and to print.
    """
    value, *edges = (
        part.sql(dialect=dialect.sqlglot)
        for part in (column, *(dialect.constant(text, native) for text in attribute.edges[1:-1]))
    )

    def among(low: int, high: int) -> str:
        if high - low == 1:
            return str(low)
        middle = (low + high) // 2
        lower, upper = among(low, middle), among(middle, high)
        return f"CASE WHEN {value} < {edges[middle - 1]} THEN {lower} ELSE {upper} END"

    return exp.Var(this=among(0, attribute.regular))


class _Searched:
    """The code of a value among listed ones."""

    def __init__(self, dialect: Dialect, native: Native, name: str, outside: exp.Expr, *, is_ordered: bool) -> None:
        self._dialect, self._native, self._name, self._outside = dialect, native, name, outside
        self._is_ordered = is_ordered

    def among(self, pairs: Sequence[tuple[str, int]]) -> exp.Expr:
        """The search tree of pairs of a value and its code, in order."""
        if len(pairs) <= _FEW or not self._is_ordered:
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
