"""What is proposed for a column of numbers whose rows may be read: steps, values, or edges at quantiles, with points.

A point is a value that so many rows have that it gets a cell of its own, such as the zeros of a capital gain: synthetic
rows have it as often as real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from functools import cached_property
from statistics import median
from typing import Any, Final

from dpsql.api.proposing import names, public
from dpsql.api.proposing.context import DEVIATIONS, Context
from dpsql.api.proposing.edges import round_edges, with_even_bins
from dpsql.api.proposing.looked_parts import LEAST, keyed
from dpsql.api.proposing.missing_numbers import MissingCodes, is_finite, missing_numbers
from dpsql.api.proposing.natural import Limits, bounds_of
from dpsql.api.proposing.profile import MOST_VALUES, Profile
from dpsql.api.proposing.proposal import KEPT, MOST_CELLS, Ground, Proposal, ladder
from dpsql.core.column_types import column_type
from dpsql.engines.source import Column

_MOST_STEPS: Final = 120
_SHORT: Final = ("TINYINT", "UTINYINT")
_MOST_SHORT_STEPS: Final = 256
_MOST_VALUES: Final = 30
_MOST_POINTS: Final = 8
_POINT: Final = 0.02  # of the rows, that a value has to have a cell of its own
_GRID: Final = 480  # parts of the rows whose quantiles are looked at
_MOVED: Final = 0.05  # of the mean distance from the mean, by which noise of single values may move it
_FEWEST: Final = 4  # cells of the rows without points
_END_POINT: Final = 0.002  # so for the smallest and the largest value, which are often codes
_TAILS: Final = (0.01, 0.001, 0.0001)  # of the rows at each end, whose quantiles are looked at too
_PRECISION: Final = 80  # digits, of which the widest type has 38
_WRITTEN: Final = {
    Decimal(1): "whole numbers",
    Decimal("0.1"): "in tenths",
    Decimal("0.01"): "in hundredths",
    Decimal("0.001"): "in thousandths",
}
_LARGEST_WRITTEN: Final = 10**12  # of numbers whose hundredths floats tell apart for certain
_DIGITS: Final = 6  # of floats, between the smallest and the largest value
_BITS: Final = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 62, "HUGEINT": 62}
_UNSIGNED: Final = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 62, "UHUGEINT": 62}

_KEY: Final = "a key, which tells rows or people apart; where one person has several rows, say --unit {!r}"


def numbers(column: Column, seen: Profile, context: Context) -> Proposal:
    """A proposal for a column of numbers."""
    with localcontext(prec=_PRECISION):
        return _numbers(column, seen, context)


def numbers_in_bins(column: Column, seen: Profile, context: Context) -> Proposal | None:
    """A proposal of bins for whole numbers, whatever their column is called; None of no number, or of too few."""
    with localcontext(prec=_PRECISION):
        span = seen.quantiles((0, 1), "v IS NOT NULL")
        if not span or span[0] == span[1]:
            return None
        low, high = map(Decimal, span)
        rows = _Rows(column, seen, "v IS NOT NULL", low, high, (), context.rows_of_cell)
        return ladder(lambda most: Proposal(column.name, column.type, Ground.LOOKED, *reversed(_bins(rows, most))))


def _numbers(column: Column, seen: Profile, context: Context) -> Proposal:
    of_type = column_type(column.type)
    finite = "isfinite(v)" if of_type.is_float else "v IS NOT NULL"
    missing = missing_numbers(seen, finite)
    if missing:
        finite += f" AND v NOT IN ({', '.join(map(str, missing))})"
    span = seen.quantiles((0, 1), finite)
    if not span:
        return keyed(column, "it has no finite number")
    low, high = map(Decimal, span)
    missing_codes = MissingCodes(column, missing)
    rows = _Rows(column, seen, finite, low, high, tuple(missing), context.rows_of_cell)
    named = names.number_of(column.name, whole=of_type.scale == 0)
    if named is not None and named.sure and _covers(named.how, low, high):
        if named.is_calendar:
            return _of_calendar(column, named, missing_codes, low, high)
        lower, upper = (Decimal(str(named.how[bound])) for bound in ("lower", "upper"))
        within = replace(rows, low=lower, high=upper)
        why = f"{named.because}; cells where the rows are: "
        return ladder(lambda most: missing_codes.proposal(*_bins(within, most, why)))
    if _is_key(rows):
        return keyed(column, _KEY.format(column.name))
    values = [(value, n) for value, n in rows.frequent if value not in missing]
    few = seen.is_whole and len(values) <= _MOST_VALUES and all(n >= LEAST for _, n in values)
    steps = _MOST_SHORT_STEPS if column.type in _SHORT else _MOST_STEPS

    def proposal(most: int) -> Proposal:
        finest = most == MOST_CELLS[0]
        if of_type.scale == 0 and low == 0 and high == 1:
            return missing_codes.proposal({"values": [0, 1]}, "0 and 1, each a value")
        single = (steps if rows.have_sure_steps(steps) else KEPT) if finest else max(most, KEPT)
        if of_type.scale == 0 and high - low < single:
            return missing_codes.proposal(*_steps(int(low), int(high)))
        if few and (finest or len(values) <= max(most, KEPT)):
            listed = sorted(_plain(value, column) for value, _ in values)
            return missing_codes.proposal({"values": listed}, f"{len(listed)} values, each of at least {LEAST} rows")
        return missing_codes.proposal(*_bins(rows, most))

    return ladder(proposal)


@dataclass(frozen=True)
class _Rows:
    """The numbers of a column, and between which bounds cells are wanted.

    Attributes:
        column, seen: it, and what its rows are like.
        finite: the condition of a number that has a cell.
        low, high: the smallest and the largest value.
        missing: numbers that stand for a missing value.
        of_cell: rows that a cell should have.
    """

    column: Column
    seen: Profile
    finite: str
    low: Decimal
    high: Decimal
    missing: tuple[Decimal, ...]
    of_cell: int
    grids: dict[tuple[Decimal, ...], dict[float, Decimal]] = field(default_factory=dict, repr=False)

    @cached_property
    def unit(self) -> Decimal | None:
        """The step of which all are multiples, of a type that holds other numbers too: 1 to 0.001; None without one."""
        scale = column_type(self.column.type).scale
        units = [unit for unit in _WRITTEN if scale is None or scale > -unit.adjusted()]
        if not units or max(abs(self.low), abs(self.high)) > _LARGEST_WRITTEN:
            return None
        same = (f"bool_and(v = round(v, {-unit.adjusted()}))" for unit in units)
        hold = self.seen.source.ask({"v": self.seen.sql}, *same, where=self.finite)[0]
        return next((unit for unit, holds in zip(units, hold, strict=True) if holds), None)

    def have_sure_steps(self, most: int) -> bool:
        """Whether the numbers are fewer than `most`, and noise in a cell for each of them leaves their mean m alone.

        Noise σ of cells with few rows moves it by σ·√Σ(x−m)²/n. Numbers that are low but for a few, such as visits to a
        doctor, have most cells where hardly a row is.
        """
        if self.high - self.low >= most:
            return False
        grid = self.grid(())
        values = [grid[place / _GRID].to_integral_value() for place in range(_GRID + 1)]
        shares = Counter(values)
        mean = sum(values, Decimal(0)) / len(values)
        spread = sum((abs(value - mean) for value in values), Decimal(0)) / len(values)
        least = Decimal(self.of_cell * len(values)) / self.filled
        steps = map(Decimal, range(int(self.low), int(self.high) + 1))
        squares = sum(((step - mean) ** 2 for step in steps if shares[step] < least), Decimal(0))
        return self.of_cell / DEVIATIONS * float(squares.sqrt()) <= _MOVED * float(spread) * self.filled

    def limits(self, finest: Decimal) -> Limits:
        """Where edges end; `finest` is a small difference of two values."""
        of_type = column_type(self.column.type)
        tick = Decimal(0) if of_type.is_float else Decimal(1).scaleb(-(of_type.scale or 0))
        step = self.unit or (Decimal(1) if of_type.scale == 0 else None)
        whole = of_type.scale == 0
        return Limits(
            bounds_of(self.column.name, self.low, self.high, whole=whole), tick, self.low, self.high, step, finest
        )

    @cached_property
    def filled(self) -> int:
        """Rows with a number that stands for no missing value."""
        rows = dict(self.frequent)
        return self.seen.filled - sum(rows.get(code, 0) for code in self.missing)

    @cached_property
    def frequent(self) -> list[tuple[Decimal, int]]:
        """The most frequent finite numbers, with their rows."""
        return [(Decimal(text), n) for text, n in self.seen.top if is_finite(text)]

    def grid(self, without: tuple[Decimal, ...]) -> dict[float, Decimal]:
        """The values below which parts of the rows are, asked for once; without rows of some values."""
        if without not in self.grids:
            rest = self.finite + (f" AND v NOT IN ({', '.join(map(str, without))})" if without else "")
            tails = [part for tail in _TAILS for part in (tail, 1 - tail)]
            places = sorted({*(place / _GRID for place in range(_GRID + 1)), *tails})
            self.grids[without] = dict(zip(places, map(Decimal, self.seen.quantiles(places, rest)), strict=False))
        return self.grids[without]


def _of_calendar(
    column: Column, named: names.NameMeaning, codes: MissingCodes, low: Decimal, high: Decimal
) -> Proposal:
    """What everybody knows of a part of the calendar; weekdays as the rows count them, from 0 or from 1."""
    bounds = bounds_of(column.name, low, high, whole=True)
    lower, upper = (named.how["lower"], named.how["upper"]) if bounds is None else map(int, bounds)
    how = {"lower": lower, "upper": upper}
    if how == named.how and not codes.codes:
        return public.known_by_name(column, named)
    return ladder(lambda most: codes.proposal(public.of_equal_width(column, how, most), named.because))


def _covers(how: Mapping[str, Any], low: Decimal, high: Decimal) -> bool:
    return "lower" in how and Decimal(str(how["lower"])) <= low and high <= Decimal(str(how["upper"]))


def _is_key(rows: _Rows) -> bool:
    """Whether numbers tell rows, or units of several rows, apart: by name, or because they are counted up."""
    column, seen = rows.column, rows.seen
    if names.key_like(column.name) and (seen.nearly_unique or seen.distinct > MOST_VALUES):
        return column_type(column.type).scale == 0 or rows.unit == 1
    counted = seen.distinct == seen.filled and rows.high - rows.low + 1 <= seen.distinct * Decimal("1.2")
    return column_type(column.type).scale == 0 and counted and seen.nearly_unique


def _steps(low: int, high: int) -> tuple[dict[str, Any], str]:
    if low == high:
        return {"values": [low]}, "every row has this value"
    return {"lower": low, "upper": high, "bins": high - low + 1}, f"whole numbers from {low} to {high}"


def _bins(rows: _Rows, most: int, because: str = "") -> tuple[dict[str, Any], str]:
    """Edges at quantiles, and points, in about so many cells; and why."""
    column, points = rows.column, _points(rows, most)
    step = rows.unit or _step(column, rows.low, rows.high)
    finest = most == MOST_CELLS[0]
    others = max(1, rows.filled - sum(n for value, n in rows.frequent if value in points))
    count = max(min(_FEWEST, most), min(most, (others if finest else rows.filled) // rows.of_cell))
    grid = rows.grid(tuple(points) if finest else ())
    parts = sorted({round(part * _GRID / count) / _GRID for part in range(count + 1)})
    least = max(LEAST, min(rows.of_cell, others // _FEWEST)) / (others if finest else max(1, rows.filled))
    quantiles = [grid[part] for part in with_even_bins(grid, parts, least)] if grid else []
    if quantiles and quantiles[-1] < rows.high:  # bounds by name: no row is between its largest value and these
        quantiles[-1] += step
    inside = [value for value in quantiles if rows.low <= value <= rows.high]
    edges = round_edges([rows.low, *inside, *points, rows.high], step)
    edges = _inside(column, edges, step, rows.low, rows.high)
    if rows.unit is not None:  # between a point and the next number there is none
        edges = [edge for edge in edges if edge in (*points, edges[-1]) or edge - step not in points]
    edges, points = rows.limits(step).held(edges, points)
    if edges[-1] <= rows.high and not column_type(column.type).is_float:  # it is the type's largest: no edge is above
        bounds = {"lower": _plain(rows.low, column), "upper": _plain(rows.high, column), "bins": most}
        return bounds, f"{most} bins of equal width"
    because += "edges at quantiles of the rows, rounded"
    how: dict[str, Any] = {"edges": [_plain(edge, column) for edge in edges]}
    if points:
        because += f"; so many rows have {', '.join(map(str, points))} that it gets a cell of its own"
        how["points"] = [_plain(point, column) for point in points]
    if rows.unit is not None:
        because += f"; all are {_WRITTEN[rows.unit]}, as synthetic ones will be"
        how["step"] = _plain(rows.unit, column) if rows.unit < 1 else 1
    return how, because


def _points(rows: _Rows, most: int) -> list[Decimal]:
    """Values that get a cell of their own: of coarse cells only those with as many rows as a cell has.

    Of fine cells those with as many as a cell of the other rows has, too: edges around them would be the same.
    """
    usual = median([n for _, n in rows.frequent]) if rows.frequent else 0
    finest = most == MOST_CELLS[0]
    filled, ends = rows.filled, (rows.low, rows.high)
    least = (_POINT if finest else 1 / most) * filled

    def frequent_from(least: float) -> list[Decimal]:
        return [
            value
            for value, n in rows.frequent
            if n >= LEAST
            and value not in rows.missing
            and (n >= least or (value in ends and n >= max(_END_POINT * filled, 5 * usual)))
        ]

    frequent = frequent_from(least)
    if frequent and finest:
        others = filled - sum(n for value, n in rows.frequent if value in frequent)
        frequent = frequent_from(min(least, others / most))
    return sorted(frequent[: min(_MOST_POINTS, max(2, most // 3))])


def _step(column: Column, low: Decimal, high: Decimal) -> Decimal:
    """The smallest difference of two values; of floats one that is small beside their range."""
    scale = column_type(column.type).scale
    if scale is not None:
        return Decimal(1).scaleb(-scale)
    return Decimal(1).scaleb((high - low).adjusted() - _DIGITS) if high > low else Decimal(1)


def _inside(column: Column, edges: Sequence[Decimal], step: Decimal, low: Decimal, high: Decimal) -> list[Decimal]:
    """Edges that the type can hold, and that have the smallest and the largest value between them."""
    smallest, largest = _limits(column.type)
    inner = [edge for edge in edges if low < edge <= high]
    first = min([edge for edge in edges if edge <= low] or [low])
    last = max([edge for edge in edges if edge > high] or [high + step])
    first, last = max(first, smallest), min(last, largest)
    return sorted({first, *inner, last})


def _limits(kind: str) -> tuple[Decimal, Decimal]:
    """The smallest and the largest value of a type, for edges."""
    if kind in _BITS:
        return Decimal(-(2 ** _BITS[kind])), Decimal(2 ** _BITS[kind] - 1)
    if kind in _UNSIGNED:
        return Decimal(0), Decimal(2 ** _UNSIGNED[kind] - 1)
    if kind.startswith("DECIMAL"):
        digits, scale = map(int, kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
        largest = Decimal(10**digits - 1).scaleb(-scale)
        return -largest, largest
    return Decimal("-1e300"), Decimal("1e300")


def _plain(value: Decimal, column: Column) -> Any:
    """A number as the script writes it."""
    of_type = column_type(column.type)
    if of_type.is_float:
        return float(value)
    return int(value) if of_type.scale == 0 else value.quantize(Decimal(1).scaleb(-(of_type.scale or 0)))
