"""PostgreSQL's functions of texts, lists and parts of a moment that analysts call, in words of DuckDB's.

A text that a number makes longer has at most `_LONGEST` characters: more is an error. So no text of any length is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .postgres_numbers import IS_NUMBER, TO_CHAR

_LONGEST: Final = 1000
_TOO_LONG: Final = f"error('a text of more than {_LONGEST} characters is not served')"


def _padded(name: str) -> str:
    """`lpad` or `rpad`: a longer text is cut, and a length below 0 is 0."""
    whole = f"CASE WHEN n > {_LONGEST} THEN {_TOO_LONG} WHEN n <= 0 THEN left(x, 0)"
    return (
        f"{name}(x, n) AS {whole} ELSE {name}(x, n::INTEGER, ' ') END, "
        f"(x, n, f) AS {whole} WHEN f = '' THEN left(x, n) ELSE {name}(x, n::INTEGER, f) END"
    )


CODES: Final = {
    "YYYY": "%Y", "IYYY": "%G", "MM": "%m", "IW": "%V", "DDD": "%j", "DD": "%d", "HH24": "%H", "HH12": "%I", "HH": "%I",
    "MI": "%M", "SS": "%S", "US": "%f", "MS": "%g", "Mon": "%b", "Dy": "%a", "AM": "%p", "PM": "%p",
}  # fmt: skip
"""Parts of a format that DuckDB has, too."""


def _of(code: str, length: int = 0) -> str:
    """A part of the moment, or its last letters."""
    text = f"strftime(r.t, '{code}')"
    return f"right({text}, {length})" if length else text


_OF_DAY: Final = "date_diff('second', date_trunc('day', r.t), r.t)::VARCHAR"
_NUMBERS: Final = {
    **{part: _of(code) for part, code in CODES.items() if part.isupper() and code != "%p"},
    **{"YYYY"[:length]: _of("%Y", length) for length in (3, 2, 1)},
    **{"IYY"[:length]: _of("%G", length) for length in (3, 2, 1)},
    "SSSSS": _OF_DAY,
    "SSSS": _OF_DAY,
    "WW": "lpad(((dayofyear(r.t) + 6) // 7)::VARCHAR, 2, '0')",
    "W": "((day(r.t) + 6) // 7)::VARCHAR",
    "Q": "quarter(r.t)::VARCHAR",
    "ID": "isodow(r.t)::VARCHAR",
    "D": "(dayofweek(r.t) + 1)::VARCHAR",
}
"""Parts of a format that are numbers, in letters of either case."""
_NAMES: Final = {"Month": "%B", "Mon": CODES["Mon"], "Day": "%A", "Dy": CODES["Dy"]}
_NINE: Final = frozenset({"%B", "%A"})
"""Names that blanks make as long as the longest one."""
_SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {"": str, "upper": str.upper, "lower": str.lower}
_PARTS: Final = (*_NUMBERS, *map(str.lower, _NUMBERS), *_NAMES, *map(str.upper, _NAMES), *map(str.lower, _NAMES))
_TOKENS: Final = "|".join(
    (
        '"[^"\\\\]*"',
        *sorted((*_PARTS, "AM", "PM", "am", "pm", "FM", "fm", "Y,YYY", "y,yyy"), key=len, reverse=True),
        ".",
    )
)
"""A text in quotation marks, a part in capital or in small letters, or a sign."""


def _words() -> dict[str, str]:
    """Parts of a format that are names, as their own letters say: `Month`, `MONTH` and `month`."""
    words = {}
    for function, spelled in _SPELLINGS.items():
        for name, code in _NAMES.items():
            text = f"{function}({_of(code)})"
            words[spelled(name)] = (
                f"CASE WHEN {_IS_PLAIN} THEN {text} ELSE rpad({text}, 9, ' ') END" if code in _NINE else text
            )
        if function:
            words |= {spelled(name): f"{function}({_of(CODES[name])})" for name in ("AM", "PM")}
    return words


def _counted(name: str, is_so: str) -> str:
    """How many of up to three values are so."""
    forms = ("abc"[:count] for count in (1, 2, 3))
    return f"{name}" + ", ".join(
        f"({', '.join(form)}) AS " + " + ".join(f"({parameter} {is_so})::INTEGER" for parameter in form)
        for form in forms
    )


_IS_PLAIN: Final = "coalesce(upper(r.p[i - 1]) = 'FM', false)"
"""Whether `FM` stands before a part, which takes its blanks and its zeros away."""


def _to_char() -> str:
    """A moment as a format says, each part by itself; NULL of an infinite one."""
    served = " ".join((*_NUMBERS, *_NAMES, "AM", "FM"))
    refused = f"error('the format ' || r.f || ' is not served: use {served}')"
    words = " ".join(f"WHEN '{name}' THEN {text}" for name, text in _words().items())
    numbers = " ".join(f"WHEN '{name}' THEN {text}" for name, text in _NUMBERS.items())
    plain = f"CASE WHEN {_IS_PLAIN} THEN coalesce(nullif(ltrim(n, '0'), ''), left(n, 1)) ELSE n END"
    number = f"list_transform([CASE upper(p) {numbers} END], lambda n: {plain})[1]"
    part = (
        "CASE WHEN p[1] = '\"' AND len(p) > 1 THEN p[2:-2] WHEN upper(p) = 'FM' AND "
        "regexp_matches(r.p[i + 1], '^[A-Za-z]') AND upper(r.p[i + 1]) <> 'FM' THEN '' "
        "WHEN NOT regexp_matches(p, '[A-Za-z\"\\\\]') THEN p "
        f"ELSE coalesce(CASE p {words} END, {number}, {refused}) END"
    )
    return (
        "list_transform([{'t': TRY_CAST(x AS TIMESTAMP), 'f': f, 'v': x IS NOT NULL, "
        f"'p': regexp_extract_all(f, '{_TOKENS}', 0, 's')}}], lambda r: CASE WHEN r.t IS NULL AND r.v THEN "
        "error('to_char is served with a date, a timestamp or a number') "
        "WHEN r.t IS NULL OR r.f = '' OR NOT isfinite(r.t) THEN NULL WHEN year(r.t) < 1 THEN "
        "error('years before Christ are not served') "
        f"ELSE array_to_string(list_transform(r.p, lambda p, i: {part}), '') END)[1]"
    )


SHOWN: Final = (
    "CASE WHEN typeof(e) = 'BOOLEAN' THEN left(e::VARCHAR, 1) WHEN typeof(e) IN ('DOUBLE', 'FLOAT') "
    "THEN regexp_replace(e::VARCHAR, '\\.0$', '') ELSE e::VARCHAR END"
)
"""An element of an array, as PostgreSQL writes it in a text of them."""


def _joined(element: str) -> str:
    joined = f"list_aggregate(list_transform(a, lambda e: {element}), 'string_agg', b)"
    return f"CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN coalesce({joined}, '') END"


TEXTS: Final = (
    f"array_to_string(a, b) AS {_joined(SHOWN)}, (a, b, c) AS {_joined(f'coalesce({SHOWN}, c)')}",
    _padded("lpad"),
    _padded("rpad"),
    f"repeat(x, n) AS CASE WHEN n > {_LONGEST} OR length(x) * n > {_LONGEST} THEN {_TOO_LONG} "
    "WHEN n IS NOT NULL THEN repeat(x, greatest(n, 0)) END",
    "initcap(x) AS array_to_string(list_transform(regexp_extract_all(x, '[\\p{L}\\p{N}]+|[^\\p{L}\\p{N}]+'), "
    "lambda w: upper(w[1]) || lower(w[2:])), '')",
    "octet_length(x) AS CASE WHEN typeof(x) IN ('BLOB', 'BIT') THEN octet_length(x::BLOB) ELSE strlen(x::VARCHAR) END",
    "encode(x, f) AS CASE lower(f) WHEN 'hex' THEN lower(hex(x::BLOB)) WHEN 'base64' THEN CASE WHEN "
    "octet_length(x::BLOB) > 57 THEN error('base64 of more than 57 bytes is not served') ELSE base64(x::BLOB) END "
    "ELSE error('encode is served with hex and base64') END",
    "decode(x, f) AS CASE lower(f) WHEN 'hex' THEN unhex(x) WHEN 'base64' THEN from_base64(x) "
    "ELSE error('decode is served with hex and base64') END",
    "array_replace(a, f, t) AS list_transform(a, lambda e: CASE WHEN e IS NOT DISTINCT FROM f THEN t ELSE e END)",
    "array_positions(a, v) AS CASE WHEN a IS NOT NULL THEN list_filter(range(1, len(a) + 1), "
    "lambda i: a[i] IS NOT DISTINCT FROM v)::INTEGER[] END",
    "trim_array(a, n) AS CASE WHEN n < 0 OR n > len(a) THEN error('number of elements to trim must be between 0 and ' "
    "|| len(a)) ELSE a[1:len(a) - n] END",
    _counted("num_nulls", "IS NULL"),
    _counted("num_nonnulls", "IS NOT NULL"),
    "make_interval(years := 0, months := 0, weeks := 0, days := 0, hours := 0, mins := 0, secs := 0) AS "
    "to_months((years * 12 + months)::INTEGER) + to_days((weeks * 7 + days)::INTEGER) + "
    "to_microseconds((hours::BIGINT * 3600 + mins * 60) * 1000000 + round(secs * 1000000)::BIGINT)",
    "clock_timestamp() AS now()",
    "statement_timestamp() AS now()",
    "to_jsonb(x) AS to_json(x)",
    *(
        f"{kind}_object_agg(k, v) AS CASE WHEN count(*) = 0 THEN NULL ELSE json_group_object(k, v)::JSON END"
        for kind in ("json", "jsonb")
    ),
    f"to_char_moment(x, f) AS {_to_char()}",
    f"to_char(x, f) AS CASE WHEN {IS_NUMBER} THEN {TO_CHAR} ELSE {_to_char()} END",
)
"""Each as after CREATE MACRO and the schema."""
SAME_NAMES: Final = frozenset({"array_to_string", "lpad", "rpad", "repeat", "octet_length", "encode", "decode"})
"""Functions that DuckDB has with another meaning, or that make texts of any length there."""
