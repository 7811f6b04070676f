"""PostgreSQL's texts of numbers, and its functions of numbers, intervals and angles, in words of DuckDB's."""

from __future__ import annotations

from typing import Final

_FORMAT: Final = r"^([^0-9A-Z,.\"\\]*)(FM)?(S|MI)?([09](?:[09,G]*[09])?)(?:([.D])([09]+))?(S|MI|PR)?([^0-9A-Z,.\"\\]*)$"
"""A format: a text, FM, a sign, whole digits, a point and more digits, a sign, a text."""
_PARTS: Final = "['before', 'fm', 'first', 'whole', 'point', 'rest', 'last', 'behind']"
_FLOATS: Final = "'DOUBLE', 'FLOAT'"
NUMBERS: Final = "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'DOUBLE', 'FLOAT'"
_SERVED: Final = "9 0 , G . D FM S MI PR RN"
_ROMAN: Final = (
    "['', 'M', 'MM', 'MMM'][s.r.n // 1000 + 1] || "
    "['', 'C', 'CC', 'CCC', 'CD', 'D', 'DC', 'DCC', 'DCCC', 'CM'][s.r.n // 100 % 10 + 1] || "
    "['', 'X', 'XX', 'XXX', 'XL', 'L', 'LX', 'LXX', 'LXXX', 'XC'][s.r.n // 10 % 10 + 1] || "
    "['', 'I', 'II', 'III', 'IV', 'V', 'VI', 'VII', 'VIII', 'IX'][s.r.n % 10 + 1]"
)


def _let(given: str, name: str, then: str) -> str:
    """A value that is named, and stands in the text once, however often it is used."""
    return f"list_transform([{given}], lambda {name}: {then})[1]"


_IS_FLOAT: Final = f"r.kind IN ({_FLOATS})"
_REST: Final = "length(r.g.rest)::INTEGER"


def _digits() -> str:
    """The digits of `r.v` without a sign: those of a float as C writes them, halves of others away from zero.

    What is no float has no point yet.
    """
    significant = "CASE r.kind WHEN 'FLOAT' THEN 6 ELSE 15 END"
    of_float = (
        f"CASE WHEN length(format('{{:.0f}}', abs(r.v::DOUBLE))) + {_REST} <= {significant} "
        f"THEN format('{{:.' || {_REST} || 'f}}', abs(r.v::DOUBLE)) "
        "ELSE error('a float has fewer digits than this format: cast it to numeric') END"
    )
    text = "ltrim(r.v, '-')"
    cut = f"left(rpad(split_part({text}, '.', 2), {_REST} + 1, '0'), {_REST} + 1)"
    return (
        f"CASE WHEN {_IS_FLOAT} THEN {of_float} "
        f"ELSE (((split_part({text}, '.', 1) || {cut})::HUGEINT + 5) // 10)::VARCHAR END"
    )


def _pointed() -> str:
    """The digits `r.m`, with a point before those behind it."""
    padded = f"lpad(r.m, greatest(length(r.m)::INTEGER, {_REST} + 1), '0')"
    return (
        f"CASE WHEN {_IS_FLOAT} THEN r.m ELSE left({padded}, length({padded}) - {_REST}) || '.' || "
        f"right({padded}, {_REST}) END"
    )


_CHECKED: Final = (
    "CASE WHEN r.v IS NULL OR r.f IS NULL THEN NULL "
    "WHEN length(r.f) > 100 THEN error('a format of more than 100 signs is not served') "
    "WHEN regexp_matches(r.v, '[a-z]') AND NOT isfinite(r.v::DOUBLE) THEN error('only a finite number has a format') "
    "WHEN r.u IN ('RN', 'FMRN') THEN '' WHEN r.g.whole = '' OR (r.g.first <> '' AND r.g.last <> '') THEN "
    f"error('the format ' || r.f || ' of a number is not served: use {_SERVED}') ELSE {_digits()} END"
)
_WHOLE: Final = (
    f"CASE WHEN r.u IN ('RN', 'FMRN') THEN (CASE WHEN {_IS_FLOAT} THEN round_even(r.v::DOUBLE, 0) "
    "ELSE round(r.v::DOUBLE) END)::BIGINT END"
)
"""What a Roman numeral is of."""


def _parts() -> str:
    """What is written of a number.

    Digits before and behind the point are i and f, n is whether it is negative, and p the place for digits.
    """
    slots = "length(translate(r.g.whole, ',G', ''))"
    zeros = "strpos(translate(r.g.whole, ',G', ''), '0')"
    is_long = f"length(split_part(r.d, '.', 1)) > {slots}"
    return (
        f"{{'r': r, 'g': r.g, 'p': {slots}, 'z': {zeros}, 'n': starts_with(r.v, '-') AND ({_IS_FLOAT} OR "
        "regexp_matches(r.d, '[1-9]')), 'fm': r.g.fm <> '', "
        f"'i': CASE WHEN {is_long} THEN repeat('#', {slots}) ELSE split_part(r.d, '.', 1) END, "
        f"'f': CASE WHEN {is_long} THEN repeat('#', {_REST}) ELSE split_part(r.d, '.', 2) END}}"
    )


_KEPT: Final = (
    "CASE WHEN s.fm THEN greatest(length(rtrim(s.f, '0')), least(length(rtrim(s.g.rest, '9')), length(s.f))) "
    "ELSE length(s.f) END"
)
"""Digits behind the point that FM leaves."""
_BLANK: Final = (
    f"CASE WHEN s.z = 0 AND s.i = '0' AND s.g.rest <> '' THEN "
    f"CASE WHEN s.fm AND ({_KEPT}) = 0 THEN s.p - 1 ELSE s.p END "
    "WHEN s.z = 0 THEN s.p - length(s.i) ELSE least(s.p - length(s.i), s.z - 1) END"
)
"""Places before the point that have no digit."""


def _written() -> str:
    """A number by a format, as `NUM_processor` of PostgreSQL writes it."""
    space = "CASE WHEN s.fm THEN '' ELSE ' ' END"
    plain = f"CASE WHEN s.n THEN '-' ELSE {space} END"
    sign = (
        "CASE WHEN s.g.first = 'S' THEN CASE WHEN s.n THEN '-' ELSE '+' END "
        "WHEN s.g.first = 'MI' OR s.g.last IN ('S', 'MI') THEN '' "
        f"WHEN s.g.last = 'PR' THEN CASE WHEN s.n THEN '<' ELSE {space} END ELSE {plain} END"
    )
    ends = (
        f"CASE s.g.last WHEN 'S' THEN CASE WHEN s.n THEN '-' ELSE '+' END WHEN 'MI' THEN {plain} "
        f"WHEN 'PR' THEN CASE WHEN s.n THEN '>' ELSE {space} END ELSE '' END"
    )
    place = "length(translate(s.g.whole[:k], ',G', ''))"
    character = (
        f"CASE WHEN c IN (',', 'G') THEN CASE WHEN {place} > s.blank THEN ',' ELSE {space} END "
        f"WHEN {place} <= s.blank THEN {space} "
        f"ELSE CASE WHEN {place} = s.blank + 1 THEN {sign} ELSE '' END || lpad(s.i, s.p::INTEGER, '0')[{place}] END"
    )
    written = (
        f"s.g.before || CASE WHEN s.g.first = 'MI' THEN {plain} ELSE '' END || "
        f"array_to_string(list_transform(string_split(s.g.whole, ''), lambda c, k: {character}), '') || "
        f"CASE WHEN s.blank >= s.p THEN {sign} ELSE '' END || CASE WHEN s.g.point = '' THEN '' "
        f"ELSE '.' || left(s.f, s.kept) END || {ends} || s.g.behind"
    )
    roman = f"CASE WHEN s.r.n BETWEEN 1 AND 3999 THEN {_ROMAN} ELSE repeat('#', 15) END"
    roman = f"CASE WHEN contains(s.r.f, 'rn') THEN lower({roman}) ELSE {roman} END"
    roman = f"CASE WHEN s.r.u = 'FMRN' THEN {roman} ELSE lpad({roman}, 15, ' ') END"
    return f"CASE WHEN s.r.d IS NULL THEN NULL WHEN s.r.u IN ('RN', 'FMRN') THEN {roman} ELSE {written} END"


IS_NUMBER: Final = f"(typeof(x) IN ({NUMBERS}) OR starts_with(typeof(x), 'DECIMAL'))"
"""Whether x is a number."""


def _to_char() -> str:
    """In steps, each of which takes the one before: where lambdas are in one another, DuckDB takes twice the time."""
    read = (
        "{'v': x::VARCHAR, 'kind': typeof(x), 'f': f, 'u': upper(f), "
        f"'g': regexp_extract(upper(f), '{_FORMAT}', {_PARTS})}}"
    )
    passed = ", ".join(f"'{name}': r.{name}" for name in ("v", "kind", "f", "u", "g"))
    rounded = _let(read, "r", f"{{{passed}, 'm': {_CHECKED}, 'n': {_WHOLE}}}")
    pointed = _let(rounded, "r", f"{{{passed}, 'n': r.n, 'd': {_pointed()}}}")
    parts = _let(pointed, "r", _parts())
    passed = ", ".join(f"'{name}': s.{name}" for name in ("r", "g", "p", "z", "n", "fm", "i", "f"))
    return _let(_let(parts, "s", f"{{{passed}, 'blank': {_BLANK}, 'kept': {_KEPT}}}"), "s", _written())


TO_CHAR: Final = _to_char()
"""A number x by the format f."""
_RADIANS: Final = "({} * 0.017453292519943295e0)"
_SIN: Final = f"(sin({_RADIANS}) / sin({_RADIANS.format('30e0')}) / 2)"
"""Of up to 30 degrees, as PostgreSQL computes it."""
_COS: Final = f"(1 - (1 - cos({_RADIANS})) / (1 - cos({_RADIANS.format('60e0')})) / 2)"
"""Of up to 60 degrees."""
_SIN_Q1: Final = f"CASE WHEN {{0}} <= 30 THEN {_SIN.format('{0}')} ELSE {_COS.format('(90 - {0})')} END"
_COS_Q1: Final = f"CASE WHEN {{0}} <= 60 THEN {_COS.format('{0}')} ELSE {_SIN.format('(90 - {0})')} END"
_TAN_Q1: Final = f"(({_SIN_Q1}) / ({_COS_Q1}) / (({_SIN_Q1.format('45e0')}) / ({_COS_Q1.format('45e0')})))"
_COT_Q1: Final = f"(({_COS_Q1}) / ({_SIN_Q1}) / (({_COS_Q1.format('45e0')}) / ({_SIN_Q1.format('45e0')})))"
_ASIN: Final = "asin({0}) / asin(0.5) * 30"
_ACOS: Final = "acos({0}) / acos(0.5) * 60"
_ASIN_Q1: Final = f"CASE WHEN {{0}} <= 0.5 THEN {_ASIN} ELSE 90 - {_ACOS} END"
_ACOS_Q1: Final = f"CASE WHEN {{0}} <= 0.5 THEN 90 - {_ASIN} ELSE {_ACOS} END"


def _degrees(name: str, first: str, *, odd: bool, turns: bool) -> str:
    """A function of degrees: of the first quarter, and signs of the others.

    Args:
        name: of the function.
        first: its text for the first quarter.
        odd: whether a negative angle has the negative value.
        turns: whether the second quarter has the negative values.
    """
    half = "CASE WHEN abs(d) > 180 THEN 360 - abs(d) ELSE abs(d) END"
    flips = [*(("r.d < 0", "abs(r.d) > 180") if odd else ()), *(("r.h > 90",) if turns else ())]
    quarter = "CASE WHEN r.h > 90 THEN 180 - r.h ELSE r.h END"
    sign = f"CASE WHEN ({' + '.join(f'({flip})::INTEGER' for flip in flips)}) % 2 = 1 THEN -1 ELSE 1 END"
    value = _let(quarter, "q", first.format("q"))
    whole = _let("x::DOUBLE % 360", "d", f"{{'d': d, 'h': {half}}}")
    return f"{name}(x) AS " + _let(whole, "r", f"{sign} * {value}")


_INFINITE: Final = "error('it is infinite')"
_ANGLES: Final = (
    _degrees("sind", _SIN_Q1, odd=True, turns=False),
    _degrees("cosd", _COS_Q1, odd=False, turns=True),
    _degrees("tand", f"CASE WHEN {{0}} = 90 THEN {_INFINITE} ELSE {_TAN_Q1} END", odd=True, turns=True),
    _degrees("cotd", f"CASE WHEN {{0}} = 0 THEN {_INFINITE} ELSE {_COT_Q1} END", odd=True, turns=True),
    "asind(x) AS "
    + _let("x::DOUBLE", "v", f"CASE WHEN v < 0 THEN -({_ASIN_Q1.format('(-v)')}) ELSE {_ASIN_Q1.format('v')} END"),
    "acosd(x) AS "
    + _let("x::DOUBLE", "v", f"CASE WHEN v < 0 THEN 90 + ({_ASIN_Q1.format('(-v)')}) ELSE {_ACOS_Q1.format('v')} END"),
    "atand(x) AS atan(x) / atan(1) * 45",
    "atan2d(y, x) AS atan2(y, x) / atan(1) * 45",
)
_INTERVAL_PARTS: Final = (
    "{'m': datepart('year', x::INTERVAL) * 12 + datepart('month', x::INTERVAL), 'd': datepart('day', x::INTERVAL), "
    "'u': (datepart('hour', x::INTERVAL) * 3600 + datepart('minute', x::INTERVAL) * 60)::BIGINT * 1000000 + "
    "datepart('microsecond', x::INTERVAL)}"
)
_INTERVAL: Final = "to_months({m}::INTEGER) + to_days({d}::INTEGER) + to_microseconds({u}::BIGINT)"
_DAY: Final = "86400000000"


def _justified(*, hours: bool, days: bool) -> str:
    """Whole days of the hours, and whole months of the days, all of one sign."""
    d, u = ("r.d + r.u // " + _DAY, "r.u % " + _DAY) if hours else ("r.d", "r.u")
    first = f"{{'m': r.m, 'd': {d}, 'u': {u}}}"
    if hours and days:  # the days of 30 go first, so that nothing overflows; then all
        m, d, u = "r.m + (r.d + r.u // " + _DAY + ") // 30", f"(r.d + r.u // {_DAY}) % 30", "r.u % " + _DAY
        first = f"{{'m': {m}, 'd': {d}, 'u': {u}}}"
    elif days:
        first = "{'m': r.m + r.d // 30, 'd': r.d % 30, 'u': r.u}"
    month = (
        "CASE WHEN a.m > 0 AND (a.d < 0 OR (a.d = 0 AND a.u < 0)) THEN {'m': a.m - 1, 'd': a.d + 30, 'u': a.u} "
        "WHEN a.m < 0 AND (a.d > 0 OR (a.d = 0 AND a.u > 0)) THEN {'m': a.m + 1, 'd': a.d - 30, 'u': a.u} ELSE a END"
        if hours and days
        else "CASE WHEN a.m > 0 AND a.d < 0 THEN {'m': a.m - 1, 'd': a.d + 30, 'u': a.u} "
        "WHEN a.m < 0 AND a.d > 0 THEN {'m': a.m + 1, 'd': a.d - 30, 'u': a.u} ELSE a END"
        if days
        else "a"
    )
    day = (
        f"CASE WHEN b.d > 0 AND b.u < 0 THEN {{'m': b.m, 'd': b.d - 1, 'u': b.u + {_DAY}}} "
        f"WHEN b.d < 0 AND b.u > 0 THEN {{'m': b.m, 'd': b.d + 1, 'u': b.u - {_DAY}}} ELSE b END"
        if hours
        else "b"
    )
    shown = _INTERVAL.format(m="c.m", d="c.d", u="c.u")
    return _let(_let(_let(_let(_INTERVAL_PARTS, "r", first), "a", month), "b", day), "c", shown)


_TO_NUMBER: Final = _let(
    f"{{'x': trim(x), 'f': f, 'g': regexp_extract(upper(f), '{_FORMAT}', {_PARTS}), "
    "'t': regexp_extract(trim(x), '^-?([0-9][0-9,]*)(?:[.]([0-9]+))?$', ['whole', 'rest'])}",
    "r",
    "CASE WHEN r.x IS NULL OR r.f IS NULL THEN NULL WHEN r.t.whole = '' OR length(r.t.rest) > length(r.g.rest) OR "
    "r.g.first <> '' OR r.g.last <> '' OR r.g.before || r.g.behind <> '' OR "
    "NOT ends_with(translate(r.g.whole, '0G', '9,'), "
    "translate(r.t.whole, '012345678', '999999999')) THEN "
    "error('to_number is served where the text has the signs of the format: cast it to numeric') "
    "ELSE replace(r.x, ',', '')::DECIMAL(38, 10) END",
)
_END: Final = "coalesce(TRY_CAST({1} AS TIMESTAMP), {0}::TIMESTAMP + TRY_CAST({1} AS INTERVAL))"
_OVERLAPS: Final = _let(
    f"{{'s': a::TIMESTAMP, 'e': {_END.format('a', 'b')}, 't': c::TIMESTAMP, 'u': {_END.format('c', 'd')}, "
    "'known': typeof(a) IN ('DATE', 'TIMESTAMP') AND typeof(c) IN ('DATE', 'TIMESTAMP') AND "
    "typeof(b) IN ('DATE', 'TIMESTAMP', 'INTERVAL') AND typeof(d) IN ('DATE', 'TIMESTAMP', 'INTERVAL')}",
    "r",
    "CASE WHEN NOT r.known THEN error('OVERLAPS is served with dates, timestamps without zone, and intervals') "
    "WHEN r.s IS NULL OR r.e IS NULL OR r.t IS NULL OR r.u IS NULL THEN "
    "CASE WHEN r.s IS NOT NULL OR r.e IS NOT NULL OR r.t IS NOT NULL OR r.u IS NOT NULL THEN "
    "error('OVERLAPS with a NULL is not served') END "
    "WHEN least(r.s, r.e) > least(r.t, r.u) THEN least(r.s, r.e) < greatest(r.t, r.u) "
    "WHEN least(r.s, r.e) < least(r.t, r.u) THEN least(r.t, r.u) < greatest(r.s, r.e) ELSE true END",
)
"""Whether two spans have a moment in common; each begins with the earlier of its ends."""
_PART: Final = (
    "(x, s) AS CASE WHEN s < 1 THEN x ELSE substr(x, s) END, (x, s, n) AS CASE WHEN n < 0 THEN "
    "error('negative substring length not allowed') WHEN s < 1 THEN "
    "CASE WHEN n IS NOT NULL THEN substr(x, 1, greatest(n + s - 1, 0)) END "
    "ELSE substr(x, s, n) END"
)
"""A part of a text, which may begin before its first sign."""
MACROS: Final = (
    *_ANGLES,
    "div(x, y) AS CASE WHEN y = 0 THEN error('division by zero') WHEN abs(x) >= 9007199254740992 "
    "THEN error('div is served with numbers below 9007199254740992') ELSE ((x - x % y) // y)::DECIMAL(38, 0) END",
    f"justify_hours(x) AS {_justified(hours=True, days=False)}",
    f"justify_days(x) AS {_justified(hours=False, days=True)}",
    f"justify_interval(x) AS {_justified(hours=True, days=True)}",
    "interval_quotient(x, n) AS CASE WHEN n = 0 THEN error('division by zero') ELSE \"/\"(x, n::DOUBLE) END",
    "lower_of(a, b) AS CASE WHEN a <= b THEN a WHEN a > b THEN b END",
    "upper_of(a, b) AS CASE WHEN a <= b THEN b WHEN a > b THEN a END",
    *(f"{name}_of{_PART}" for name in ("substr", "substring")),
    f"to_number(x, f) AS {_TO_NUMBER}",
    f"overlaps(a, b, c, d) AS {_OVERLAPS}",
)
"""Each as after CREATE MACRO and the schema."""
