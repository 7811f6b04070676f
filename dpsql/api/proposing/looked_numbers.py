"""What is proposed for a column of numbers whose rows may be read: steps, values, or edges at quantiles, with points.

A point is a value that so many rows have that it gets a cell of its own, such as the zeros of a capital gain: synthetic
rows have it as often as real ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from statistics import median
from typing import Any, Final

from dpsql.api.proposing import names, public
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.edges import round_edges, with_single
from dpsql.api.proposing.looked_parts import LEAST, keyed
from dpsql.api.proposing.profile import MOST_VALUES, Profile
from dpsql.api.proposing.proposal import Ground, Proposal, knows, with_later
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.source import Column

_BINS: Final = 24
_ROWS_IN_BIN: Final = 40
_MOST_STEPS: Final = 120
_SHORT: Final = ("TINYINT", "UTINYINT")
_MOST_SHORT_STEPS: Final = 256
_MOST_VALUES: Final = 30
_MOST_POINTS: Final = 8
_POINT: Final = 0.02  # of the rows, that a value has to have a cell of its own
_END_POINT: Final = 0.002  # so for the smallest and the largest value, which are often codes
_TAIL: Final = (0.99, 0.999)
_MISSING: Final = (-1, -9, -99, -999, -9999, -8, -88, -7, -77)
_DIGITS: Final = 6  # of floats, between the smallest and the largest value
_BITS: Final = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 62, "HUGEINT": 62}
_UNSIGNED: Final = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 62, "UHUGEINT": 62}

_KEY: Final = "a key, which tells rows or people apart; where one person has several rows, say --unit {!r}"


def numbers(column: Column, seen: Profile, context: Context) -> Proposal:
    """A proposal for a column of numbers."""
    known = column_type(column.type)
    finite = "isfinite(v)" if known.is_float else "v IS NOT NULL"
    missing = _missing(seen)
    if missing:
        finite += f" AND v NOT IN ({', '.join(map(str, missing))})"
    span = seen.quantiles((0, 1), finite)
    if not span:
        return keyed(column, "it has no finite number")
    low, high = map(Decimal, span)
    named = names.number_of(column.name, whole=known.scale == 0)
    if named is not None and named.sure and not missing and _covers(named.how, low, high):
        return public.known_by_name(column, named)
    if _is_key(column, seen, low, high):
        return keyed(column, _KEY.format(column.name))
    further = _MissingCodes(column, context, missing)
    if known.scale == 0 and high - low < (_MOST_SHORT_STEPS if column.type in _SHORT else _MOST_STEPS):
        return further.proposal(*_steps(int(low), int(high)))
    values = [(Decimal(text), n) for text, n in seen.top if _is_finite(text)]
    values = [(value, n) for value, n in values if value not in missing]
    if seen.is_whole and len(values) <= _MOST_VALUES and all(n >= LEAST for _, n in values):
        listed = sorted(_plain(value, column) for value, _ in values)
        return further.proposal({"values": listed}, f"{len(listed)} values, each of at least {LEAST} rows")
    return _bins(column, seen, values, finite, low, high, further)


class _MissingCodes:
    """Numbers that stand for a missing value, and how a proposal says so."""

    def __init__(self, column: Column, context: Context, missing: Sequence[Decimal]) -> None:
        self.column, self.missing = column, [int(value) for value in missing]
        self.in_load = bool(missing) and context.is_file and not knows("nulls_as")

    @property
    def load(self) -> str | None:
        """How a file's column is loaded without them."""
        if not self.in_load:
            return None
        name = quote(self.column.name)
        return f"CASE WHEN {name} NOT IN ({', '.join(map(str, self.missing))}) THEN {name} END"

    def proposal(self, plain: Mapping[str, Any], because: str, **later: Any) -> Proposal:
        """A proposal with these arguments, and with those of `LATER` that are known."""
        how, older = with_later(plain, nulls_as=[str(value) for value in self.missing], **later)
        if self.missing:
            because += f"; {', '.join(map(str, self.missing))} means that it is missing"
        codes = tuple(map(str, plain.get("values", ())))
        if column_type(self.column.type).scale == 0 and "bins" in plain and plain["bins"] == _count(plain):
            codes = tuple(map(str, range(plain["lower"], plain["upper"] + 1)))
        return Proposal(
            self.column.name, self.column.type, Ground.LOOKED, because, how, older, load=self.load, codes=codes
        )


def _count(how: Mapping[str, Any]) -> int:
    """How many whole numbers are between bounds."""
    return int(how["upper"] - how["lower"] + 1)


def _missing(seen: Profile) -> list[Decimal]:
    """Negative codes of a column whose other values are not negative."""
    known = column_type(seen.type)
    if known.is_float or not known.is_number:
        return []
    values = {Decimal(text): n for text, n in seen.top}
    found = [Decimal(code) for code in _MISSING if values.get(Decimal(code), 0) >= LEAST]
    if not found or len(values) == len(found):
        return []
    others = seen.quantiles((0,), f"v NOT IN ({', '.join(map(str, found))})")
    return found if others and Decimal(others[0]) >= 0 else []


def _covers(how: Mapping[str, Any], low: Decimal, high: Decimal) -> bool:
    return "lower" in how and Decimal(str(how["lower"])) <= low and high <= Decimal(str(how["upper"]))


def _is_key(column: Column, seen: Profile, low: Decimal, high: Decimal) -> bool:
    """Whether numbers tell rows, or units of several rows, apart: by name, or because they are counted up."""
    if column_type(column.type).scale != 0:
        return False
    counted = seen.distinct == seen.known and high - low + 1 <= seen.distinct * Decimal("1.2")
    many = seen.nearly_unique or seen.distinct > MOST_VALUES
    return (names.key_like(column.name) and many) or (counted and seen.nearly_unique)


def _steps(low: int, high: int) -> tuple[dict[str, Any], str]:
    if low == high:
        return {"values": [low]}, "every row has this value"
    return {"lower": low, "upper": high, "bins": high - low + 1}, f"whole numbers from {low} to {high}"


def _bins(
    column: Column,
    seen: Profile,
    values: Sequence[tuple[Decimal, int]],
    finite: str,
    low: Decimal,
    high: Decimal,
    further: _MissingCodes,
) -> Proposal:
    """Edges at quantiles, and points."""
    usual = median([n for _, n in values]) if values else 0
    frequent = [
        value
        for value, n in values
        if n >= LEAST
        and (n >= _POINT * seen.known or (value in (low, high) and n >= max(_END_POINT * seen.known, 5 * usual)))
    ]
    points = sorted(frequent[:_MOST_POINTS])
    step = _step(column, low, high)
    rest = finite + (f" AND v NOT IN ({', '.join(map(str, points))})" if points else "")
    count = max(4, min(_BINS, seen.known // _ROWS_IN_BIN))
    parts = [part / count for part in range(count + 1)]
    parts += [part for part in _TAIL if seen.known * (1 - part) >= LEAST and part > parts[-2]]
    quantiles = [Decimal(text) for text in seen.quantiles(sorted(parts), rest)]
    edges = round_edges([*quantiles, *points] or [low, high], step)
    edges = _inside(column, edges, step, low, high)
    if edges[-1] <= high and not column_type(column.type).is_float:  # the largest value of the type: no edge is above
        bounds = {"lower": _plain(low, column), "upper": _plain(high, column), "bins": _BINS}
        return further.proposal(bounds, f"{_BINS} bins of equal width")
    because = "edges at quantiles of the rows, rounded"
    if points:
        because += f"; so many rows have {', '.join(map(str, points))} that it gets a cell of its own"
    single = edges if column_type(column.type).is_float else with_single(edges, points, step)
    if knows("points"):
        plain = {"edges": [_plain(edge, column) for edge in edges]}
        how, _ = with_later(plain, points=[_plain(point, column) for point in points])
        found = further.proposal(how, because)
        older = {"edges": [_plain(edge, column) for edge in single]}
        return Proposal(**{**vars(found), "plain": older}) if points else found
    return further.proposal({"edges": [_plain(edge, column) for edge in single]}, because)


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
    known = column_type(column.type)
    if known.is_float:
        return float(value)
    return int(value) if known.scale == 0 else value.quantize(Decimal(1).scaleb(-(known.scale or 0)))


def _is_finite(text: str) -> bool:
    return text.lower().lstrip("-") not in ("nan", "inf", "infinity")
