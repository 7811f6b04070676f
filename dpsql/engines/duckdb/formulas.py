"""Formulas from expressions that users write, and SQL from formulas: see `dpsql.core.formula`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from dpsql.core.formula import COLUMN, Formula

Constant = Callable[[exp.Expr], float | None]
"""The number that an expression without columns is; NaN where it is none."""

_MOST_NODES: Final = 300
_DEEPEST: Final = 50  # so that no writer of SQL and no parser runs out of room
_MOST_DIGITS: Final = 15
_BINARY: Final = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div"}
_UNARY: Final = {exp.Neg: "neg", exp.Abs: "abs", exp.Floor: "floor", exp.Ceil: "ceil"}
_MANY: Final = {exp.Least: "least", exp.Greatest: "greatest", exp.Coalesce: "coalesce"}
_COMPARE: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_CONNECT: Final = {exp.And: "and", exp.Or: "or"}
_NULL: Final = Formula("null")


class _NoFormula(Exception):
    """An expression that is none."""


def formula_of(tree: exp.Expr, column: str, constant: Constant) -> Formula | None:
    """An expression of one column as a formula; None if it is more than formulas can say."""
    reader = _Reader(column, constant)
    try:
        return reader.number(tree, 0)
    except _NoFormula:
        return None


def numbered_case(tree: exp.Expr, number: Callable[[exp.Expr], int | None], depth: int = 0) -> exp.Expr | None:
    """A CASE, or CASEs in one another, with numbers in place of their values; None where a value has no number.

    Args:
        tree: any expression.
        number: of a value.
        depth: how many CASEs it is in.
    """
    own_number = number(tree)
    if own_number is not None:
        return exp.Literal.number(own_number)
    tree = tree.unnest()
    if not isinstance(tree, exp.Case | exp.If) or depth > _DEEPEST:
        return None
    name = "default" if isinstance(tree, exp.Case) else "false"
    branches = tree.args["ifs"] if isinstance(tree, exp.Case) else [tree]
    last = tree.args.get(name) or exp.null()
    values = [numbered_case(value, number, depth + 1) for value in (*(b.args["true"] for b in branches), last)]
    numbered = [value for value in values if value is not None]
    if len(numbered) < len(values):
        return None
    ifs = [exp.If(this=b.this.copy(), true=value) for b, value in zip(branches, numbered[:-1], strict=True)]
    subject = tree.this.copy() if isinstance(tree, exp.Case) and tree.this is not None else None
    return exp.Case(this=subject, ifs=ifs, default=numbered[-1])


class _Reader:
    def __init__(self, column: str, constant: Constant) -> None:
        self._column, self._constant, self._nodes = column, constant, 0

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > _MOST_NODES or depth > _DEEPEST:
            raise _NoFormula

    def number(self, tree: exp.Expr, depth: int) -> Formula:
        """An expression whose value is a number."""
        self._count(depth)
        while isinstance(tree, exp.Paren) or (type(tree) is exp.Cast and tree.to.is_type("DOUBLE")):
            tree = tree.this
        if isinstance(tree, exp.Column):
            if tree.name != self._column or tree.table:
                raise _NoFormula
            return COLUMN
        if tree.find(exp.Column, exp.Subquery) is None:
            return self._constant_formula(tree)
        kind = type(tree)
        if kind in _BINARY:
            parts = self.number(tree.this, depth + 1), self.number(tree.expression, depth + 1)
            if kind is exp.Div and (parts[1].operation != "constant" or parts[1].constant == 0):
                raise _NoFormula
            return Formula(_BINARY[kind], parts)
        if kind in _UNARY and not any(value for name, value in tree.args.items() if name != "this"):
            return Formula(_UNARY[kind], (self.number(tree.this, depth + 1),))
        if kind in _MANY:
            return Formula(_MANY[kind], tuple(self.number(t, depth + 1) for t in (tree.this, *tree.expressions)))
        if isinstance(tree, exp.Round) and not tree.args.get("truncate"):
            return Formula("round", (self.number(tree.this, depth + 1),), self._digits(tree.args.get("decimals")))
        if isinstance(tree, exp.Case | exp.If):
            return self._case(tree, depth + 1)
        raise _NoFormula

    def _constant_formula(self, tree: exp.Expr) -> Formula:
        number = self._constant(tree)
        if number is None:
            return _NULL
        if not math.isfinite(number):
            raise _NoFormula
        return Formula("constant", (), number)

    def _digits(self, tree: exp.Expr | None) -> float:
        digits = 0.0 if tree is None else self._constant_formula(tree).constant
        if not (digits.is_integer() and abs(digits) <= _MOST_DIGITS):
            raise _NoFormula
        return digits

    def _case(self, tree: exp.Case | exp.If, depth: int) -> Formula:
        branches = tree.args["ifs"] if isinstance(tree, exp.Case) else [tree]
        default = tree.args.get("default") if isinstance(tree, exp.Case) else tree.args.get("false")
        parts = []
        for branch in branches:
            subject = tree.this if isinstance(tree, exp.Case) else None
            holds = branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)
            parts += [self.condition(holds, depth), self.number(branch.args["true"], depth)]
        return Formula("case", (*parts, _NULL if default is None else self.number(default, depth)))

    def condition(self, tree: exp.Expr, depth: int) -> Formula:
        """An expression that holds or not."""
        self._count(depth)
        kind = type(tree)
        if isinstance(tree, exp.Paren):
            return self.condition(tree.this, depth + 1)
        if isinstance(tree, exp.Boolean):
            return Formula("true") if tree.this else Formula("not", (Formula("true"),))
        if isinstance(tree, exp.Not):
            return Formula("not", (self.condition(tree.this, depth + 1),))
        if kind in _CONNECT:
            return Formula(_CONNECT[kind], tuple(self.condition(t, depth + 1) for t in (tree.this, tree.expression)))
        if kind in _COMPARE:
            return self._compared(_COMPARE[kind], tree.this, tree.expression, depth)
        if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
            ends = (">=", tree.args["low"]), ("<=", tree.args["high"])
            return Formula("and", tuple(self._compared(op, tree.this, end, depth) for op, end in ends))
        if isinstance(tree, exp.In) and tree.expressions and not tree.args.get("query"):
            return Formula(
                "or", tuple(self._compared("=", tree.this, constant, depth) for constant in tree.expressions)
            )
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return Formula("is null", (self.number(tree.this, depth + 1),))
        raise _NoFormula

    def _compared(self, operation: str, left: exp.Expr, right: exp.Expr, depth: int) -> Formula:
        return Formula(operation, (self.number(left, depth + 1), self.number(right, depth + 1)))


# --- writing ----------------------------------------------------------------------------------------------------------

_WRITTEN_BINARY: Final = {name: kind for kind, name in (_BINARY | _COMPARE | _CONNECT).items()}


def sql_of_formula(formula: Formula, column: exp.Expr) -> exp.Expr:
    """A formula as SQL over a column of type DOUBLE: total on every value."""
    operation, parts = formula.operation, formula.parts
    if operation == "column":
        return column.copy()
    if operation == "null":
        return exp.cast(exp.null(), "DOUBLE", dialect="duckdb")
    if operation == "constant":
        return double(formula.constant)
    if operation == "true":
        return exp.true()
    parts_in_sql = [sql_of_formula(part, column) for part in parts]
    if operation in _WRITTEN_BINARY:
        joined = parts_in_sql[0]
        for other in parts_in_sql[1:]:
            joined = _WRITTEN_BINARY[operation](this=joined, expression=other)
        return exp.Paren(this=joined)
    if operation == "neg":
        return exp.Paren(this=exp.Neg(this=exp.Paren(this=parts_in_sql[0])))
    if operation == "not":
        return exp.Paren(this=exp.Not(this=exp.Paren(this=parts_in_sql[0])))
    if operation == "is null":
        return exp.Paren(this=exp.Is(this=parts_in_sql[0], expression=exp.null()))
    if operation == "case":
        ifs = [
            exp.If(this=holds, true=value)
            for holds, value in zip(parts_in_sql[:-1:2], parts_in_sql[1:-1:2], strict=True)
        ]
        return exp.Case(ifs=ifs, default=parts_in_sql[-1])
    more = [exp.Literal.number(int(formula.constant))] if operation == "round" else []
    return exp.func(operation, *parts_in_sql, *more, dialect="duckdb")


def double(number: float) -> exp.Expr:
    """A constant of type DOUBLE."""
    return exp.Cast(this=exp.Literal.string(repr(number)), to=exp.DataType.build("DOUBLE"))


# --- NULL -------------------------------------------------------------------------------------------------------------

_STRICT: Final = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.Round, exp.Floor, exp.Ceil)


def is_there(tree: exp.Expr, depth: int = 0) -> exp.Expr:
    """Whether an expression is not NULL, said of its columns as far as that is the same."""
    while isinstance(tree, exp.Paren) or (type(tree) is exp.Cast and tree.to.is_type("DOUBLE")):
        tree = tree.this
    if isinstance(tree, exp.Literal):
        return exp.true()
    if depth > _DEEPEST:
        return _not_null(tree)
    depth += 1
    if isinstance(tree, _STRICT) or (isinstance(tree, exp.Div) and _is_nonzero(tree.expression)):
        return _all([is_there(part, depth) for part in tree.iter_expressions() if not isinstance(part, exp.Var)])
    if type(tree) in _MANY:
        alternatives = [is_there(part, depth) for part in (tree.this, *tree.expressions)]
        return exp.true() if any(map(_is_true, alternatives)) else exp.or_(*alternatives, copy=False)
    if isinstance(tree, exp.Case):
        ifs = [
            exp.If(this=branch.this.copy(), true=is_there(branch.args["true"], depth)) for branch in tree.args["ifs"]
        ]
        default = tree.args.get("default")
        last = exp.false() if default is None else is_there(default, depth)
        if all(_is_true(value) for value in (last, *(branch.args["true"] for branch in ifs))):
            return exp.true()
        subject = tree.this.copy() if tree.this is not None else None
        return exp.Case(this=subject, ifs=ifs, default=last)
    return _not_null(tree)


def _not_null(tree: exp.Expr) -> exp.Expr:
    shown = tree.copy() if isinstance(tree, exp.Column) else exp.Paren(this=tree.copy())  # as count(x) says it
    return exp.Not(this=exp.Is(this=shown, expression=exp.null()))


def _all(parts: list[exp.Expr]) -> exp.Expr:
    conditions = [part for part in parts if not _is_true(part)]
    return exp.and_(*conditions, copy=False) if conditions else exp.true()


def _is_true(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Boolean) and bool(tree.this)


def _is_nonzero(tree: exp.Expr) -> bool:
    while isinstance(tree, exp.Paren | exp.Neg) or type(tree) is exp.Cast:
        tree = tree.this
    return isinstance(tree, exp.Literal) and not tree.is_string and float(tree.name) != 0
