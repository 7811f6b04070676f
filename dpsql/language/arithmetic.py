"""Arithmetic with noisy answers: what is known of its error, as expressions over the answers and theirs.

    one answer         the ends of its 95 % interval, carried through what grows or falls with it
    several            the same of counts and sums in a linear expression: the widths are added. Noise of one
                       kind can do no more, however it goes together, so the interval holds at least as often.
                       That is of the sum: where it adds what was rounded, nothing is known
    anything else      nothing is known: NULL

A standard error is carried along likewise; rounding is left out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.language.expressions import unwrapped

_GROWING: Final = (exp.Round, exp.Floor, exp.Ceil, exp.Sqrt)
_ROUNDING: Final = (exp.Round, exp.Floor, exp.Ceil, exp.Cast)


@dataclass(frozen=True)
class Errors:
    """What is known of the error of a number.

    Attributes:
        stderr: its standard error, at most.
        low: the lower end of its interval.
        high: the upper end.
    """

    stderr: exp.Expr
    low: exp.Expr
    high: exp.Expr


def scaled_answer(tree: exp.Expr) -> tuple[int, float] | None:
    """The number of an answer and what it is multiplied by, where an expression is that; None if it is more.

    What is added, and rounding, is left out.

    >>> import sqlglot
    >>> scaled_answer(sqlglot.parse_one("round(100.0 * a2 / 4 + 1, 1)"))
    (2, 25.0)
    """
    tree = unwrapped(tree)
    if is_answer(tree):
        return int(tree.name[1:]), 1.0
    if isinstance(tree, exp.Neg):
        inside = scaled_answer(tree.this)
        return None if inside is None else (inside[0], -inside[1])
    if isinstance(tree, _ROUNDING):
        return scaled_answer(tree.this)
    if not isinstance(tree, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return None
    if isinstance(tree, exp.Div) or not _holds_answer(tree.expression):
        inside, constant = scaled_answer(tree.this), _constant(tree.expression)
    else:
        inside, constant = scaled_answer(tree.expression), _constant(tree.this)
    if inside is None or constant is None or (isinstance(tree, exp.Div) and constant == 0):
        return None
    number, factor = inside
    if isinstance(tree, exp.Mul | exp.Div):
        return number, factor * constant if isinstance(tree, exp.Mul) else factor / constant
    return number, -factor if isinstance(tree, exp.Sub) and _holds_answer(tree.expression) else factor


def _constant(tree: exp.Expr) -> float | None:
    """The number that is written there; None if it is none."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.Neg):
        inside = _constant(tree.this)
        return None if inside is None else -inside
    if isinstance(tree, exp.Cast) and tree.to.is_type("DOUBLE"):
        return _constant(tree.this)
    return float(tree.name) if isinstance(tree, exp.Literal) and tree.is_number else None


def errors_of(tree: exp.Expr, plain: Set[int]) -> Errors | None:
    """The errors of an expression over answers a0, …; None where nothing is known.

    Args:
        tree: with other names for what is known exactly.
        plain: the numbers of the answers that are counts or sums.
    """
    if any(map(is_window, tree.find_all(exp.Column))):  # of several groups
        return None
    answers = {int(column.name[1:]) for column in tree.find_all(exp.Column) if is_answer(column)}
    return _Reader(linear=len(answers) > 1).errors(tree) if len(answers) <= 1 or answers <= plain else None


def is_answer(tree: exp.Expr) -> bool:
    """Whether it is the name of a noisy answer."""
    return isinstance(tree, exp.Column) and not tree.table and tree.name.startswith("a")


def is_window(tree: exp.Expr) -> bool:
    """Whether it is the name of a window over the groups."""
    return isinstance(tree, exp.Column) and not tree.table and tree.name.startswith("w")


def _holds_answer(tree: exp.Expr) -> bool:
    return any(map(is_answer, tree.find_all(exp.Column)))


def _holds_rounded(tree: exp.Expr) -> bool:
    """Whether an answer in it is rounded: also by a cast, except to DOUBLE, in which ends of intervals are."""
    return any(_holds_answer(node) for node in tree.find_all(*_ROUNDING) if not _is_exact(node))


def _is_exact(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.is_type("DOUBLE")


class _Reader:
    def __init__(self, *, linear: bool) -> None:
        self._linear = linear

    def errors(self, tree: exp.Expr) -> Errors | None:
        tree = unwrapped(tree)
        if not _holds_answer(tree):
            return Errors(exp.Literal.number(0), tree, tree)
        if is_answer(tree):
            return Errors(*(exp.column(f"{tree.name}_{suffix}") for suffix in ("stderr", "low", "high")))
        if isinstance(tree, exp.Neg):
            return _negated(self.errors(tree.this))
        if isinstance(tree, exp.Add | exp.Sub) and self._adds_rounded(tree.this, tree.expression):
            return None
        if isinstance(tree, exp.Add):
            return _added(self.errors(tree.this), self.errors(tree.expression))
        if isinstance(tree, exp.Sub):
            return _added(self.errors(tree.this), _negated(self.errors(tree.expression)))
        if isinstance(tree, exp.Mul):
            left, right = (self.errors(side) for side in (tree.this, tree.expression))
            if not _holds_answer(tree.expression):
                return _scaled(left, tree.expression, exp.Mul)
            return None if _holds_answer(tree.this) else _scaled(right, tree.this, exp.Mul)
        if isinstance(tree, exp.Div) and not _holds_answer(tree.expression):
            return _scaled(self.errors(tree.this), tree.expression, exp.Div)
        return self._growing(tree)

    def _adds_rounded(self, *sides: exp.Expr) -> bool:
        """Whether several answers are added after one was rounded: then widths that are added hold too seldom."""
        return self._linear and all(map(_holds_answer, sides)) and any(map(_holds_rounded, sides))

    def _growing(self, tree: exp.Expr) -> Errors | None:
        """Of a function that grows with its first argument, or of a cast to another type of number."""
        cast = isinstance(tree, exp.Cast) and tree.to.is_type(*exp.DataType.NUMERIC_TYPES)
        others = [child for name, child in tree.args.items() if name != "this" and isinstance(child, exp.Expr)]
        if not (cast or isinstance(tree, _GROWING)) or any(map(_holds_answer, others)):
            return None
        rounds = isinstance(tree, _ROUNDING)
        if self._linear and not rounds:
            return None
        inside = self.errors(tree.this)
        if inside is None:
            return None

        def at(end: exp.Expr) -> exp.Expr:
            made = tree.copy()
            made.set("this", end.copy())
            return made

        return Errors(inside.stderr if rounds else exp.null(), at(inside.low), at(inside.high))


def _negated(of: Errors | None) -> Errors | None:
    if of is None:
        return None
    return Errors(of.stderr, exp.Neg(this=_paren(of.high)), exp.Neg(this=_paren(of.low)))


def _added(errors: Errors | None, two: Errors | None) -> Errors | None:
    if errors is None or two is None:
        return None
    sums = [
        exp.Add(this=_paren(a), expression=_paren(b))
        for a, b in ((errors.stderr, two.stderr), (errors.low, two.low), (errors.high, two.high))
    ]
    return Errors(*sums)


def _scaled(of: Errors | None, by: exp.Expr, kind: Callable[..., exp.Expr]) -> Errors | None:
    if of is None:
        return None
    low, high = (kind(this=_paren(end), expression=_paren(by)) for end in (of.low, of.high))
    stderr = kind(this=_paren(of.stderr), expression=exp.Abs(this=_paren(by)))
    falls = exp.LT(this=_paren(by), expression=exp.Literal.number(0))
    ends = [
        exp.case().when(falls.copy(), first.copy()).else_(last.copy()) for first, last in ((high, low), (low, high))
    ]
    return Errors(stderr, *ends)


def _paren(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree.copy())
