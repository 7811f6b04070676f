"""Which columns of numbers are formulas of others, by a sample of the rows.

    y = a·f + b,   f one of   x   x²   x³   ln x   ln(1 + x)   log₁₀ x   √x   eˣ   1/x
                              x ± y   x·y   x/y   c·x + y with c of _STEPS   ±x ± y ± z

A pair of a feature f and a column y is looked at closer where their correlation in the rows that have both is nearly
1, and both are missing in the same rows. Then a and b must be short numbers. All correlations are a few products of
matrices, so that some hundred thousand features take about a second. What is found here is checked in all rows later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_STEPS: Final = (10, 12, 24, 60, 100, 1000, 3600)
"""Factors of units of time and of digits: hour * 100 + minute."""
_NEARLY: Final = 0.999
_FEWEST: Final = 20
"""Rows in which both are known, and steps between the least and the largest value of what was rounded."""
_MOST_OF_THREE: Final = 45
_DIGITS: Final = 6
_MOST_DECIMALS: Final = 4
_EXACT: Final = 1e-9
_OF_FLOATS: Final = 1e-6


@dataclass(frozen=True)
class Variable:
    """What formulas are made of: a column, or a part of a date.

    Attributes:
        text: SQL of it.
        column: its number.
        values: in the sample, NaN for NULL.
        is_part: of a date, which stands alone in a formula.
    """

    text: str
    column: int
    values: Floats
    is_part: bool = False


@dataclass(frozen=True)
class Feature:
    """F of the formulas: SQL, numbers of its columns, how plain it is (0 is plainest), its values; if it is a part."""

    text: str
    columns: tuple[int, ...]
    rank: float
    values: Floats
    is_part: bool = False


@dataclass(frozen=True)
class Formula:
    """A column as a formula of others.

    Attributes:
        column: its number.
        columns: of those that it reads.
        text: SQL.
        rank: plainer ones, and those of columns that stand before it, are lower.
        tolerance: how far, in parts of the value, all rows may be off.
        step: of values that were rounded; 0 of others.
    """

    column: int
    columns: tuple[int, ...]
    text: str
    rank: float
    tolerance: float
    step: float = 0.0


def formulas(variables: Sequence[Variable], targets: Sequence[tuple[int, Floats]]) -> list[Formula]:
    """The formulas that hold in the sample, the plainest first.

    Args:
        variables: that formulas may read.
        targets: the columns that may be formulas, by number, with their values.
    """
    varied = [candidates for candidates in variables if _varies(candidates.values)]
    held = [(number, values) for number, values in targets if _varies(values)]
    if not held:
        return []
    table = np.stack([values for _, values in held], axis=1)
    formulas: list[Formula] = []
    with np.errstate(all="ignore"):  # logarithms of what is not above 0 are missing
        for block in _blocks(varied):
            values = np.stack([feature.values for feature in block], axis=1)
            for place, target in np.argwhere(_alike(values, table)):
                number, target_values = held[int(target)]
                feature = block[int(place)]
                if number not in feature.columns:
                    formulas += _fitted(feature, number, target_values)
        formulas += [formula for number, target_values in held for formula in _classes(varied, number, target_values)]
    return sorted(formulas, key=lambda formula: (formula.rank, len(formula.text), formula.text))


def _varies(values: Floats) -> bool:
    present = values[~np.isnan(values)]
    return len(present) >= _FEWEST and bool((present != present[0]).any())


# --- features ---------------------------------------------------------------------------------------------------------


def _blocks(variables: Sequence[Variable]) -> Iterator[list[Feature]]:
    """All features, some at once."""
    for variable in variables:
        yield _of_one(variable)
    columns = [variable for variable in variables if not variable.is_part]
    for place, variable in enumerate(columns):
        block = [feature for other in columns[place + 1 :] for feature in _of_two(variable, other)]
        if block:
            yield block
    if len(columns) <= _MOST_OF_THREE:
        for place, variable in enumerate(columns):
            pairs = itertools.combinations(columns[place + 1 :], 2)
            block = [feature for others in pairs for feature in _of_three(variable, *others)]
            if block:
                yield block


def _of_one(variable: Variable) -> list[Feature]:
    x, name = variable.values, variable.text
    listed: list[tuple[str, float, Floats]] = [(name, 0.0, x)]
    if not variable.is_part:
        listed += [
            (f"{name} * {name}", 2.0, x**2),
            (f"ln({name})", 2.1, np.log(np.where(x > 0, x, np.nan))),
            (f"ln(1 + {name})", 2.2, np.log1p(np.where(x > -1, x, np.nan))),
            (f"log10({name})", 2.3, np.log10(np.where(x > 0, x, np.nan))),
            (f"{name} * {name} * {name}", 5.0, x**3),
            (f"sqrt({name})", 5.1, np.sqrt(np.where(x >= 0, x, np.nan))),
            (f"exp({name})", 5.2, np.exp(np.where(x < 300, x, np.nan))),
            (f"1 / {name}", 5.3, 1 / np.where(x != 0, x, np.nan)),
        ]
    return [Feature(text, (variable.column,), rank, values, variable.is_part) for text, rank, values in listed]


def _of_two(left: Variable, other: Variable) -> Iterator[Feature]:
    (x, a), (y, b), columns = (left.values, left.text), (other.values, other.text), (left.column, other.column)
    yield Feature(f"{a} + {b}", columns, 1.0, x + y)
    yield Feature(f"{a} - {b}", columns, 1.5, x - y)
    yield Feature(f"{a} * {b}", columns, 2.0, x * y)
    yield Feature(f"{a} / {b}", columns, 2.5, x / np.where(y != 0, y, np.nan))
    yield Feature(f"{b} / {a}", columns, 2.5, y / np.where(x != 0, x, np.nan))
    for (high, first), (low, second) in (((x, a), (y, b)), ((y, b), (x, a))):
        most = np.nanmax(low) if _counts(high) and _counts(low) else np.inf
        for step in (step for step in _STEPS if most <= step):
            yield Feature(f"{first} * {step} + {second}", columns, 3.0, high * step + low)


def _counts(values: Floats) -> bool:
    """Whether all are whole and none is below 0."""
    present = values[~np.isnan(values)]
    return bool((present >= 0).all() and (present == np.rint(present)).all())


def _of_three(first: Variable, other: Variable, third: Variable) -> Iterator[Feature]:
    columns = (first.column, other.column, third.column)
    x, y, z = first.values, other.values, third.values
    yield Feature(f"{first.text} + {other.text} + {third.text}", columns, 1.2, x + y + z)
    yield Feature(f"{first.text} + {other.text} - {third.text}", columns, 1.6, x + y - z)
    yield Feature(f"{first.text} - {other.text} + {third.text}", columns, 1.6, x - y + z)
    yield Feature(f"{other.text} + {third.text} - {first.text}", columns, 1.6, y + z - x)


# --- correlations -----------------------------------------------------------------------------------------------------


def _alike(features: Floats, targets: Floats) -> npt.NDArray[np.bool_]:
    """Which features and columns are known in the same rows, and nearly on a line there."""
    f, of_f = _scaled(features)
    y, of_y = _scaled(targets)
    rows = of_f.T @ of_y
    same = (rows == of_f.sum(axis=0)[:, None]) & (rows == of_y.sum(axis=0)[None, :]) & (rows >= _FEWEST)
    mean_f, mean_y = (f.T @ of_y) / rows, (of_f.T @ y) / rows
    of_both = (f.T @ y) / rows - mean_f * mean_y
    spread = ((f**2).T @ of_y / rows - mean_f**2) * (of_f.T @ (y**2) / rows - mean_y**2)
    return np.asarray(same & (spread > 0) & (of_both**2 >= _NEARLY * spread))


def _scaled(values: Floats) -> tuple[Floats, Floats]:
    """Columns with mean 0 and deviation 1, and 0 where they are not known; and where they are, as 1."""
    is_finite = np.isfinite(values)
    count = np.maximum(is_finite.sum(axis=0), 1)
    mean = np.where(is_finite, values, 0.0).sum(axis=0) / count
    centred = np.where(is_finite, values - mean, 0.0)
    deviation = np.sqrt((centred**2).sum(axis=0) / count)
    return centred / np.where(deviation > 0, deviation, 1.0), is_finite.astype(np.float64)


# --- constants --------------------------------------------------------------------------------------------------------


def _fitted(feature: Feature, number: int, values: Floats) -> Iterator[Formula]:
    """The formula with constants, if they are short."""
    rows = np.isfinite(values) & np.isfinite(feature.values)
    y, f = values[rows], feature.values[rows]
    tolerance, step = _precision(y)
    late = 0.25 * any(column > number for column in feature.columns)
    for text, made, plain in _lines(feature, f, y):
        close = np.abs(y - made) <= tolerance * np.maximum(np.abs(y), np.abs(made))
        rounded = step > 0 and bool((np.abs(y - made) <= step / 2 * (1 + 1e-6)).all())
        if not (close.all() or rounded):
            continue
        exact = bool(close.all())
        decimals = "" if step == 1 else f", {round(-np.log10(step))}" if step else ""
        rank = feature.rank + late + (0.0 if plain else 0.1 if feature.rank < 1 else 3.0)
        rank += 0.0 if exact else 0.5 if plain else 5.0  # of an hour, a rounded part of a clock is not the plainest
        whole = text if exact else f"round({text}{decimals})"
        yield Formula(number, feature.columns, whole, rank, tolerance, 0.0 if exact else step)
        return


def _precision(y: Floats) -> tuple[float, float]:
    """How exact values are, in parts of them; and the step to which they seem to be rounded, or 0."""
    tolerance = _EXACT
    if (y.astype(np.float32).astype(np.float64) == y).all() and (y != np.rint(y)).any():
        tolerance = _OF_FLOATS
    for decimals in range(_MOST_DECIMALS + 1):
        step = 10.0**-decimals
        if (np.abs(y / step - np.rint(y / step)) < 1e-6).all():
            enough = (y.max() - y.min()) / step >= _FEWEST and len(np.unique(y)) >= _FEWEST
            return tolerance, step if enough else 0.0
    return tolerance, 0.0


def _lines(feature: Feature, f: Floats, y: Floats) -> Iterator[tuple[str, Floats, bool]]:
    """a·f + b with short a and b, or (f + b)/a, the shortest first: SQL, values, and whether it is f itself."""
    yield feature.text, f, True
    if feature.is_part:
        return
    spread = f - f.mean()
    slope = float(spread @ (y - y.mean())) / float(spread @ spread)
    inside = feature.text if feature.rank in (0.0, 2.1, 2.2, 2.3, 5.1, 5.2) else f"({feature.text})"
    for digits in range(1, _DIGITS + 1):
        a, back = _short(slope, digits), _short(1 / slope, digits) if slope else 0.0
        if a:
            for b in _shifts(float((y - a * f).mean())):
                scaled = {1.0: inside, -1.0: f"-{inside}"}.get(a, f"{inside} * {a:.12g}")
                if a == -1.0 and b:
                    yield f"{b:.12g} - {inside}", a * f + b, False
                else:
                    yield scaled + _signed(b), a * f + b, False
        if back:
            for b in _shifts(float((y * back - f).mean())):
                yield f"({inside}{_signed(b)}) / {back:.12g}" if b else f"{inside} / {back:.12g}", (f + b) / back, False


def _shifts(value: float) -> list[float]:
    """Short numbers near a shift, 0 first where it is nearly that."""
    return list(dict.fromkeys([*([0.0] if abs(value) < 1 else []), *(_short(value, n) for n in range(1, _DIGITS + 1))]))


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}") if np.isfinite(value) else 0.0


def _signed(shift: float) -> str:
    return "" if not shift else f" {'+' if shift > 0 else '-'} {abs(shift):.12g}"


# --- classes ----------------------------------------------------------------------------------------------------------


def _classes(variables: Sequence[Variable], number: int, y: Floats) -> Iterator[Formula]:
    """Of a column of 0 and 1: whether another one has a value, or is at least or at most one."""
    is_finite = np.isfinite(y)
    if {*np.unique(y[is_finite])} != {0.0, 1.0}:
        return
    for variable in variables:
        x = variable.values
        if variable.column == number or (np.isfinite(x) != is_finite).any() or len(np.unique(x[is_finite])) < 3:
            continue
        inside, outside = x[is_finite & (y == 1)], x[is_finite & (y == 0)]
        if min(len(inside), len(outside)) < _FEWEST // 2:
            continue
        condition = None
        if (inside == inside[0]).all() and not (outside == inside[0]).any():
            condition = f"= {inside[0]:.12g}"
        elif inside.min() > outside.max():
            condition = f">= {inside.min():.12g}"
        elif inside.max() < outside.min():
            condition = f"<= {inside.max():.12g}"
        if condition is not None:
            rank = 4.0 + 0.25 * (variable.column > number)
            yield Formula(number, (variable.column,), f"CAST({variable.text} {condition} AS INTEGER)", rank, _EXACT)
