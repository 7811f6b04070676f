"""Formulas: numbers made of the value of one column, as `least(x, 50000)`, `abs(x)` or `x / 12`.

No expression that a user writes runs on a private row. So one that a sum is of is read into these few nodes, and the
SQL that runs is written from them. None of them can fail: they are computed in DOUBLE, a divisor is a constant but 0.

    numbers     column, constant, null, neg, add, sub, mul, div, abs, round, floor, ceil, least, greatest, coalesce,
                case (a condition, its value, …, the value where none holds)
    conditions  =, <>, <, <=, >, >=, is null, true, and, or, not

What a formula may be over an interval of values is known without a row: `values_of`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Formula:
    """One node.

    Attributes:
        operation: one of those above.
        parts: what it is of.
        constant: of a constant its number, of round its digits.
    """

    operation: str
    parts: tuple[Formula, ...] = ()
    constant: float = 0.0

    @property
    def identity(self) -> str:
        """Tells formulas apart: a format of its own, because journals hash it. It must never change.

        >>> Formula("add", (COLUMN, Formula("constant", (), 2.0))).identity
        'add(column, constant[2.0])'
        """
        number = f"[{self.constant!r}]" if self.constant else ""
        parts = f"({', '.join(part.identity for part in self.parts)})" if self.parts else ""
        return f"{self.operation}{number}{parts}"

    def nodes(self) -> Iterator[Formula]:
        """The formula and all that it is made of."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.parts

    def breaks(self) -> set[float]:
        """The constants that the column itself is compared with: between them no such comparison changes."""
        constants = set()
        for node in self.nodes():
            if node.operation in COMPARISONS and COLUMN in node.parts:
                constants |= {part.constant for part in node.parts if part.operation == "constant"}
        return constants


COLUMN: Final = Formula("column")
COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})


@dataclass(frozen=True)
class Spans:
    """What numbers may be, each between two ends or NULL.

    Attributes:
        low: the lower ends, 0 where there is no number.
        high: the upper ends, likewise.
        some: whether there may be a number.
        none: whether there may be NULL.
    """

    low: Floats
    high: Floats
    some: Flags
    none: Flags

    @staticmethod
    def of(low: Any, high: Any, some: Flags, none: Flags) -> Spans:
        """With the ends in order, and 0 where there is no number."""
        return Spans(np.where(some, low, 0.0), np.where(some, high, 0.0), some, none)

    @staticmethod
    def constant(number: float | None, count: int) -> Spans:
        """The same number, or NULL, so many times."""
        some = np.full(count, number is not None)
        return Spans.of(number or 0.0, number or 0.0, some, ~some)


@dataclass(frozen=True)
class _Truths:
    """What conditions may be."""

    true: Flags
    false: Flags
    null: Flags


def values_of(formula: Formula, column: Spans) -> Spans:
    """What a formula may be where its column is in these spans: an outer bound, exact where it is monotone."""
    operation, parts = formula.operation, formula.parts
    if operation == "column":
        return column
    if operation in ("constant", "null"):
        return Spans.constant(None if operation == "null" else formula.constant, len(column.low))
    if operation == "case":
        return _case(formula, column)
    spans = [values_of(part, column) for part in parts]
    if operation in ("least", "greatest"):
        return _extreme(spans, np.minimum if operation == "least" else np.maximum)
    if operation == "coalesce":
        return _first(spans)
    some, none = np.logical_and.reduce([s.some for s in spans]), np.logical_or.reduce([s.none for s in spans])
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _computed(formula, spans)
    return Spans.of(low, high, some, none)


def _computed(formula: Formula, spans: list[Spans]) -> tuple[Floats, Floats]:
    """The ends of an operation that is NULL if one of its numbers is."""
    operation, first = formula.operation, spans[0]
    if operation in ("add", "sub", "mul", "div"):
        second = spans[1]
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[operation]
        ends = itertools.product((first.low, first.high), (second.low, second.high))
        values = [function(a, np.where(second.some, b, 1.0)) for a, b in ends]
        return np.minimum.reduce(values), np.maximum.reduce(values)
    if operation == "neg":
        return -first.high, -first.low
    if operation == "abs":
        ends_of = np.abs(first.low), np.abs(first.high)
        within = (first.low <= 0) & (first.high >= 0)
        return np.where(within, 0.0, np.minimum(*ends_of)), np.maximum(*ends_of)
    if operation == "round":
        scale = 10.0**formula.constant
        low, high = (np.copysign(np.floor(np.abs(end) * scale + 0.5), end) / scale for end in (first.low, first.high))
        return low, high
    function_of = {"floor": np.floor, "ceil": np.ceil}[operation]
    return function_of(first.low), function_of(first.high)


def _extreme(spans: list[Spans], pick: Any) -> Spans:
    """The least or the greatest, of those that are not NULL."""
    some, none = np.logical_or.reduce([s.some for s in spans]), np.logical_and.reduce([s.none for s in spans])
    neutral = np.inf if pick is np.minimum else -np.inf
    far = pick.reduce([np.where(s.some, s.low if pick is np.minimum else s.high, neutral) for s in spans])
    sure = pick.reduce([np.where(s.none, neutral, s.high if pick is np.minimum else s.low) for s in spans])
    widest = (np.maximum if pick is np.minimum else np.minimum).reduce(
        [np.where(s.some, s.high if pick is np.minimum else s.low, -neutral) for s in spans]
    )
    near = np.where(np.isfinite(sure), sure, widest)  # without one that is always there the others may be left out
    return Spans.of(far, near, some, none) if pick is np.minimum else Spans.of(near, far, some, none)


def _first(spans: list[Spans]) -> Spans:
    """The first that is no NULL."""
    return _chosen([(s.some, s) for s in spans], [s.none for s in spans])


def _case(formula: Formula, column: Spans) -> Spans:
    pairs = list(zip(formula.parts[:-1:2], formula.parts[1:-1:2], strict=True))
    truths = [_truth(condition, column) for condition, _ in pairs]
    always = np.ones(len(column.low), bool)
    taken = [(t.true, values_of(value, column)) for t, (_, value) in zip(truths, pairs, strict=True)]
    passed = [t.false | t.null for t in truths]
    return _chosen([*taken, (always, values_of(formula.parts[-1], column))], [*passed, ~always])


def _chosen(taken: list[tuple[Flags, Spans]], passed: list[Flags]) -> Spans:
    """The union of the spans that may be taken; each is come to where those before may be passed."""
    reached = np.ones(len(passed[0]), bool)
    low, high = np.full(len(reached), np.inf), np.full(len(reached), -np.inf)
    some, none = ~reached, ~reached
    for (chosen, spans), goes_on in zip(taken, passed, strict=True):
        inside = reached & chosen
        number = inside & spans.some
        low, high = (
            np.where(number, np.minimum(low, spans.low), low),
            np.where(number, np.maximum(high, spans.high), high),
        )
        some, none = some | number, none | (inside & spans.none)
        reached = reached & goes_on
    return Spans.of(low, high, some, none | reached)


def _truth(formula: Formula, column: Spans) -> _Truths:
    operation, always = formula.operation, np.ones(len(column.low), bool)
    if operation == "true":
        return _Truths(always, ~always, ~always)
    if operation in ("and", "or", "not"):
        parts = [_truth(part, column) for part in formula.parts]
        if operation == "not":
            return _Truths(parts[0].false, parts[0].true, parts[0].null)
        every, some = np.logical_and.reduce, np.logical_or.reduce
        true, false = [p.true for p in parts], [p.false for p in parts]
        null = some([p.null for p in parts])
        return (
            _Truths(every(true), some(false), null) if operation == "and" else _Truths(some(true), every(false), null)
        )
    spans = [values_of(part, column) for part in formula.parts]
    if operation == "is null":
        return _Truths(spans[0].none, spans[0].some, ~always)
    a, b = spans
    both, null = a.some & b.some, a.none | b.none
    apart = (a.high < b.low) | (a.low > b.high)
    same = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    may = {
        "=": (~apart, ~same),
        "<>": (~same, ~apart),
        "<": (a.low < b.high, a.high >= b.low),
        "<=": (a.low <= b.high, a.high > b.low),
        ">": (a.high > b.low, a.low <= b.high),
        ">=": (a.high >= b.low, a.low < b.high),
    }
    true, false = may[operation]
    return _Truths(true & both, false & both, null)
