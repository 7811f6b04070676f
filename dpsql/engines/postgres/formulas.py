"""What a row adds to a sum, as SQL that Postgres runs: inside the moment's bounds, and nothing to fail.

    steps  =  CASE WHEN x is missing THEN missing WHEN x is in a bin THEN clamp(round(f(x)·multiplier)) ELSE outside END

Postgres reports an overflow, and an underflow too, as an error, so a private value could make a sum fail. It cannot
where every number that the formula goes through is 0 or between 10⁻³⁰⁰ and 10³⁰⁰ in size. That is found out beforehand
from the public bins, and a formula of which it is not known is refused:

    x        m ≤ |x| ≤ M, by the bins and by the digits of the type; floats below 10⁻⁵⁰ are taken as 0
    a ± b    min(mᵃ, mᵇ) · 2⁻⁵³ ≤ … ≤ Mᵃ + Mᵇ, because floats are multiples of their last bit
    a · b    mᵃ · mᵇ ≤ … ≤ Mᵃ · Mᵇ
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.sql import types
from dpsql.engines.sql.types import Native, column_of, typed
from dpsql.errors import InvalidQuery

_SMALLEST: Final = 1e-300
_LARGEST: Final = 1e300
_TINY: Final = "1e-50"
_MAY_BE_TINY: Final = (types.FLOAT, types.NUMBER)
"""Kinds of numbers that may be so near to 0 that arithmetic with them fails in Postgres, which reports underflow."""
_LAST_BIT: Final = 2.0**-53
_MOST_NODES: Final = 20_000
_BINARY: Final = {"add": exp.Add, "sub": exp.Sub, "mul": exp.Mul, "div": exp.Div}
_COMPARE: Final = {"=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
_CONNECT: Final = {"and": exp.And, "or": exp.Or}
_MANY: Final = ("least", "greatest", "coalesce")


@dataclass(frozen=True)
class _Number:
    """SQL of a number in double precision, 0 or NULL or between two sizes.

    Attributes:
        sql: of it.
        least: the least size that is not 0.
        most: the largest.
        nodes: how long the SQL is.
    """

    sql: exp.Expr
    least: float
    most: float
    nodes: int


class CannotSum(InvalidQuery):
    """A sum that Postgres could fail to compute, because of a value of a row."""

    def __init__(self, column: str) -> None:
        super().__init__(
            f"the sum of that expression of {column!r} could fail in Postgres, by an overflow or an underflow for some "
            f"value in its bins: sum a simpler one, such as {column} itself, or declare narrower bins with dp_domain"
        )


def number_of(
    attribute: Attribute, native: Native, formula: Formula, multiplier: float, constant: Callable[[str], exp.Expr]
) -> exp.Expr:
    """A formula of a value in the bins, multiplied; 0 where it is NULL.

    Args:
        attribute: of the column.
        native: its type.
        formula: of its value.
        multiplier: of the formula.
        constant: of the column's type, from its text.

    Raises:
        CannotSum: the formula could fail on some value.
    """
    added = _Writer(attribute, native, constant).number(formula)
    scaled = _joined("mul", added, _constant(multiplier), attribute.name)
    return exp.Coalesce(this=scaled.sql, expressions=[double(0.0)])


def check_steps(domain: Domain, moment: Moment | Product) -> None:
    """Refuse a sum that could fail, before anything is charged: known from the domain alone.

    Raises:
        CannotSum: it could.
    """
    for part in (moment,) if isinstance(moment, Moment) else (moment.first, moment.second):
        attribute = domain.by_name[part.column]
        native = Native(types.FLOAT if attribute.is_float else types.WHOLE, attribute.type)
        number_of(attribute, native, part.formula, part.multiplier, exp.Literal.string)


def clamped(number: exp.Expr, low: int, high: int) -> exp.Expr:
    """A whole number between two bounds, in 64 bits; the one cast of what is no constant, which cannot fail."""
    most = exp.Least(this=number, expressions=[double(float(high))])
    return exp.Cast(this=exp.Greatest(this=most, expressions=[double(float(low))]), to=exp.DataType.build("BIGINT"))


def rounded(number: exp.Expr) -> exp.Expr:
    """The nearest whole number, of two the one that is farther from 0; Postgres' own round takes the even one."""
    whole = exp.Anonymous(this="trunc", expressions=[number])
    rest = exp.Abs(this=exp.Sub(this=exp.Paren(this=number.copy()), expression=whole))
    up = exp.Add(this=whole.copy(), expression=exp.Anonymous(this="sign", expressions=[number.copy()]))
    half = exp.GTE(this=rest, expression=double(0.5))
    return exp.Case(ifs=[exp.If(this=half, true=up)], default=whole.copy())


def double(number: float) -> exp.Expr:
    """A constant in double precision."""
    return typed(repr(number), "DOUBLE PRECISION", "postgres")


def _constant(number: float) -> _Number:
    return _Number(double(number), abs(number) or 1.0, abs(number), 1)


def _checked(number: _Number, column: str) -> _Number:
    if number.least < _SMALLEST or not number.most < _LARGEST or number.nodes > _MOST_NODES:
        raise CannotSum(column)
    return number


def _joined(operation: str, a: _Number, b: _Number, column: str) -> _Number:
    """Two numbers added, subtracted, multiplied, or divided by a constant that is not 0."""
    if operation == "mul":
        least, most = a.least * b.least, a.most * b.most
    elif operation == "div":
        least, most = a.least / b.most, a.most / b.least
    else:
        least, most = min(a.least, b.least) * _LAST_BIT, a.most + b.most
    sql = exp.Paren(this=_BINARY[operation](this=a.sql, expression=b.sql))
    return _checked(_Number(sql, least, most, a.nodes + b.nodes + 1), column)


class _Writer:
    """Writes formulas of one column."""

    def __init__(self, attribute: Attribute, native: Native, constant: Callable[[str], exp.Expr]) -> None:
        self._attribute, self._native, self._name = attribute, native, attribute.name
        self._constant_of = constant

    def number(self, formula: Formula) -> _Number:
        """A node whose value is a number."""
        operation, parts = formula.operation, formula.parts
        if operation == "column":
            return self._column()
        if operation == "null":
            return _Number(exp.Cast(this=exp.null(), to=exp.DataType.build("DOUBLE")), 1.0, 0.0, 1)
        if operation == "constant":
            return _checked(_constant(formula.constant), self._name)
        if operation == "case":
            return self._case(parts)
        numbers = [self.number(part) for part in parts]
        if operation in _BINARY:
            joined = numbers[0]
            for other in numbers[1:]:
                joined = _joined(operation, joined, other, self._name)
            return joined
        if operation in _MANY:
            function = {"least": exp.Least, "greatest": exp.Greatest, "coalesce": exp.Coalesce}[operation]
            sql = function(this=numbers[0].sql, expressions=[operand.sql for operand in numbers[1:]])
            return self._of(sql, numbers)
        if operation == "round":
            return self._round(numbers[0], int(formula.constant))
        return self._unary(operation, numbers[0])

    def _column(self) -> _Number:
        """The value in double precision: Postgres makes one of it where it is multiplied by one."""
        edges = [abs(float(text)) for text in self._attribute.edges]
        most, column = max(*edges, 1.0), column_of(self._name)
        sql: exp.Expr = exp.Paren(this=exp.Mul(this=column, expression=double(1.0)))
        if self._native.kind not in _MAY_BE_TINY:
            scale = self._attribute.of_type.scale or 0
            return _checked(_Number(sql, 10.0**-scale, most, 1), self._name)
        ends = (self._constant_of(sign + _TINY) for sign in ("-", ""))
        tiny = exp.Between(this=column.copy(), low=next(ends), high=next(ends))
        sql = exp.Case(ifs=[exp.If(this=tiny, true=double(0.0))], default=sql)
        return _checked(_Number(sql, float(_TINY), most, 5), self._name)

    def _unary(self, operation: str, part: _Number) -> _Number:
        if operation == "neg":
            sql: exp.Expr = exp.Paren(this=exp.Neg(this=exp.Paren(this=part.sql)))
            return self._of(sql, [part])
        if operation == "abs":
            return self._of(exp.Abs(this=part.sql), [part])
        sql = exp.Anonymous(this={"floor": "floor", "ceil": "ceil"}[operation], expressions=[part.sql])
        return _checked(_Number(sql, 1.0, part.most + 1, part.nodes + 1), self._name)

    def _round(self, part: _Number, digits: int) -> _Number:
        scale = _constant(10.0 ** abs(digits))
        up, down = ("mul", "div") if digits >= 0 else ("div", "mul")
        scaled = _joined(up, part, scale, self._name)
        whole = _Number(rounded(scaled.sql), 1.0, scaled.most + 1, 5 * scaled.nodes + 5)
        return _joined(down, _checked(whole, self._name), scale, self._name)

    def _case(self, parts: tuple[Formula, ...]) -> _Number:
        values = [self.number(part) for part in (*parts[1:-1:2], parts[-1])]
        holds = [self._condition(part) for part in parts[:-1:2]]
        pairs = zip(holds, values[:-1], strict=True)
        ifs = [exp.If(this=sql, true=value.sql) for (sql, _), value in pairs]
        case = self._of(exp.Case(ifs=ifs, default=values[-1].sql), values)
        nodes = case.nodes + sum(count for _, count in holds)
        return _checked(_Number(case.sql, case.least, case.most, nodes), self._name)

    def _of(self, sql: exp.Expr, parts: list[_Number]) -> _Number:
        """What is one of some numbers, with a sign."""
        least, most = min(part.least for part in parts), max(part.most for part in parts)
        return _checked(_Number(sql, least, most, sum(part.nodes for part in parts) + 1), self._name)

    def _compared(self, formula: Formula) -> _Number:
        """A number that is compared only: of a float itself, though it may be next to 0."""
        number = self.number(formula)
        return (
            replace(number, sql=column_of(self._name))
            if formula == COLUMN and self._native.kind == types.FLOAT
            else number
        )

    def _condition(self, formula: Formula) -> tuple[exp.Expr, int]:
        """A node that holds or not, and how long it is."""
        operation, parts = formula.operation, formula.parts
        if operation == "true":
            return exp.true(), 1
        if operation in _COMPARE:
            left, right = (self._compared(part) for part in parts)
            compared = _COMPARE[operation](this=left.sql, expression=right.sql)
            return exp.Paren(this=compared), left.nodes + right.nodes
        if operation == "is null":
            part = self.number(parts[0])
            return exp.Paren(this=exp.Is(this=part.sql, expression=exp.null())), part.nodes
        conditions = [self._condition(part) for part in parts]
        nodes = sum(count for _, count in conditions)
        if operation == "not":
            return exp.Paren(this=exp.Not(this=conditions[0][0])), nodes
        joined = conditions[0][0]
        for other, _ in conditions[1:]:
            joined = _CONNECT[operation](this=joined, expression=other)
        return exp.Paren(this=joined), nodes
