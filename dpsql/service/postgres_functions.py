"""PostgreSQL's functions in words of DuckDB's: macros, each with PostgreSQL's meaning or an error.

A result is at most as long as the arguments together, a few signs for each apart, or has a length of its own: no text
of any length is made.
"""

from __future__ import annotations

from typing import Final

from .postgres_json import MACROS as OF_JSON
from .postgres_json import SAME_NAMES as NAMES_OF_JSON
from .postgres_json import TABLES as TABLES_OF_JSON
from .postgres_numbers import MACROS as OF_NUMBERS
from .postgres_patterns import HAS_GROUP, LAZY, MAY_BE_OUT, SIGNS
from .postgres_patterns import MACROS as OF_PATTERNS
from .postgres_patterns import SAME_NAMES as NAMES_OF_PATTERNS
from .postgres_patterns import TABLES as TABLES_OF_PATTERNS
from .postgres_texts import CODES, SHOWN, TEXTS
from .postgres_texts import SAME_NAMES as OF_TEXTS

_TIMES: Final = tuple(
    (part, CODES[part])
    for part in ("YYYY", "MM", "DDD", "DD", "HH24", "HH12", "MI", "SS", "US", "MS", "Mon", "Dy", "AM", "PM")
)
"""Parts of a format by which a text is read, those that are in others last; all others are refused."""


def _translated(written: str) -> str:
    for theirs, ours in _TIMES:
        written = f"replace({written}, '{theirs}', '{ours}')"
    return written


def _format(what: str, text: str = "f") -> str:
    """An expression, if the format is one that both have."""
    plain = text
    for theirs, _ in _TIMES:
        plain = f"replace({plain}, '{theirs}', '')"
    refused = f"error('the format ' || {text} || ' is not served: use {' '.join(name for name, _ in _TIMES)}')"
    return f"CASE WHEN regexp_matches({plain}, '[A-Za-z%\"]') THEN {refused} ELSE {what} END"


def _filled(count: int) -> str:
    """`format` with so many values: each `%s`, `%I` or `%L` takes the next one.

    Two per cents stand for one. They are another sign while the text is split, which it may not have itself.
    """
    written = "replace(f, '%%', chr(1))"
    pieces, marks = f"regexp_split_to_array({written}, '%[sIL]')", f"regexp_extract_all({written}, '%[sIL]')"
    parts = [f"replace({pieces}[1], chr(1), '%')"]
    for number in range(1, count + 1):
        value = f"pgx.shown(a{number})"
        parts.append(
            f"CASE WHEN len({marks}) < {number} THEN '' ELSE "
            f"CASE {marks}[{number}] WHEN '%s' THEN coalesce({value}, '') "
            f"WHEN '%I' THEN coalesce(pgx.quote_ident({value}), error('NULL is no name')) "
            f"ELSE coalesce(pgx.quote_literal({value}), 'NULL') END || replace({pieces}[{number + 1}], chr(1), '%') END"
        )
    wrong = (
        f"len({marks}) > {count} OR contains(regexp_replace({written}, '%[sIL]', '', 'g'), '%') OR contains(f, chr(1))"
    )
    return (
        f"CASE WHEN {wrong} THEN error('format takes %s, %I and %L, one for each value') ELSE {' || '.join(parts)} END"
    )


_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")
_SIZES: Final = " ".join(
    f"WHEN {'true' if unit == 'PB' else f'abs(s // {512 * 1024**power}) < 20479'} THEN "
    f"((s // {512 * 1024**power} + CASE WHEN s < 0 THEN -1 ELSE 1 END) // 2) || ' {unit}'"
    for power, unit in enumerate(_UNITS)
)
"""A number of bytes in the largest unit that leaves five digits."""
_BUCKET: Final = """list_transform([{'x': x - l, 'w': h - l, 'n': n}], lambda b: CASE
  WHEN b.x IS NULL OR b.w IS NULL OR b.n IS NULL THEN NULL
  WHEN b.n <= 0 THEN error('count must be greater than zero')
  WHEN b.w = 0 THEN error('lower bound cannot equal upper bound')
  WHEN NOT isfinite(b.w::DOUBLE) OR isnan(b.x::DOUBLE)
    THEN error('operand, lower bound, and upper bound cannot be NaN, and bounds must be finite')
  WHEN (b.w > 0 AND b.x < 0) OR (b.w < 0 AND b.x > 0) THEN 0
  WHEN (b.w > 0 AND b.x >= b.w) OR (b.w < 0 AND b.x <= b.w) THEN b.n + 1
  ELSE list_transform([floor(b.n * (b.x::DOUBLE / b.w::DOUBLE))::INTEGER], lambda k: least(b.n, 1 + k
    + CASE WHEN typeof(b.x) <> 'DOUBLE' AND abs(b.x) * b.n >= (k + 1) * abs(b.w) THEN 1 ELSE 0 END
    - CASE WHEN typeof(b.x) <> 'DOUBLE' AND abs(b.x) * b.n < k * abs(b.w) THEN 1 ELSE 0 END))[1]
  END::INTEGER)[1]"""
"""The bucket of a number between two bounds: a quotient of floats, which exact numbers correct."""
_MICROSECONDS: Final = "date_part('microsecond', x)::DECIMAL(18, 0)"
"""Of a second and its parts: DuckDB's own second has no parts, PostgreSQL's has."""
_ROUNDED: Final = (
    "CASE WHEN {0} >= 0 THEN ({0} + s // 2) // s * s ELSE -((s // 2 - {0}) // s * s) END"  # a half goes away from zero
)
_SINCE_2000: Final = "(epoch_us(t) - 946684800000000)"
"""PostgreSQL's microseconds, of which it rounds halves away from their zero."""
_OF_DAY: Final = "date_diff('microsecond', TIME '00:00', t)"
_OF_INTERVAL: Final = (
    "((datepart('hour', t) * 3600 + datepart('minute', t) * 60)::BIGINT * 1000000 + datepart('microsecond', t))"
)


def _moment(maker: str) -> str:
    """A moment in whole parts of a second, each of which is s microseconds."""
    rounded = f"{maker}(946684800000000 + {_ROUNDED.format(_SINCE_2000)})"
    return f"CASE WHEN isfinite(t) THEN {rounded} ELSE t END"


_TIME_OF_DAY: Final = (
    f"CASE WHEN ({_OF_DAY} + s // 2) // s * s >= 86400000000 THEN TIME '24:00:00' "
    f"ELSE TIME '00:00' + to_microseconds(({_OF_DAY} + s // 2) // s * s) END"
)
_INTERVAL: Final = (
    "to_months(((datepart('year', t) * 12 + datepart('month', t)) // m * m)::INTEGER) + "
    "to_days((datepart('day', t) * d)::INTEGER) + to_microseconds(CASE WHEN h = 0 THEN 0 WHEN h > 1 THEN "
    f"{_OF_INTERVAL} // greatest(h, 1) * h ELSE {_ROUNDED.format(_OF_INTERVAL)} END)"
)
_OF_MOMENTS: Final = (
    ("timestamp", _moment("make_timestamp")),
    ("timestamptz", _moment("make_timestamptz")),
    ("time", _TIME_OF_DAY),
)
MODIFIERS: Final = (
    "as_varchar(x, n) AS left(x, n)",
    "as_varchars(x, n) AS list_transform(x, lambda t: left(t, n))",
    "as_bpchar(x, n) AS rpad(left(x, n), n, ' ')",
    "as_bpchar_value(x, n) AS rtrim(left(x, n), ' ')",
    *(f"as_{name}(x, s) AS list_transform([x], lambda t: {text})[1]" for name, text in _OF_MOMENTS),
    *(f"as_{name}s(x, s) AS list_transform(x, lambda t: {text})" for name, text in _OF_MOMENTS),
    f"as_interval(x, m, d, h, s) AS list_transform([x], lambda t: {_INTERVAL})[1]",
)
"""What obeys a modifier of a type: see `modifiers`. The value is in it once."""
_PART: Final = '("([^"]|"")+"|[A-Za-z_][A-Za-z0-9_$]*)'
MACROS: tuple[str, ...] = (
    *MODIFIERS,
    *TEXTS,
    *OF_NUMBERS,
    "pg_my_temp_schema() AS 0",
    "pg_is_other_temp_schema(x) AS false",
    "string_to_array(a, b) AS CASE WHEN a = '' THEN []::VARCHAR[] WHEN b IS NULL THEN string_split(a, '') "
    "WHEN b = '' THEN [a] ELSE string_split(a, b) END",
    f"parse_ident(x) AS CASE WHEN regexp_full_match(trim(x), '{_PART}(\\s*\\.\\s*{_PART})*') THEN "
    f"list_transform(regexp_extract_all(x, '{_PART}'), lambda p: CASE WHEN p[1] = '\"' THEN "
    "replace(p[2:-2], '\"\"', '\"') ELSE lower(p) END) ELSE error('string is not a valid identifier: ' || x) END",
    "format(f, a1) AS "
    + _filled(1)
    + ", "
    + ", ".join(
        f"(f, {', '.join(f'a{number}' for number in range(1, count + 1))}) AS {_filled(count)}" for count in (2, 3, 4)
    ),
    f"to_date(x, f) AS {_format(f'strptime(x, {_translated(chr(102))})::DATE')}",
    f"to_timestamp(x) AS to_timestamp(x), (x, f) AS {_format(f'strptime(x, {_translated(chr(102))})::TIMESTAMPTZ')}",
    "pg_typeof(x) AS pgx.format_type(pgx.type_oid(typeof(x)), -1)",
    "date_bin(s, t, o) AS CASE WHEN datepart('year', s::INTERVAL) <> 0 OR datepart('month', s::INTERVAL) <> 0 THEN "
    "error('timestamps cannot be binned into intervals containing months or years') "
    "ELSE time_bucket(s::INTERVAL, t, o) END",
    f"width_bucket(x, l, h, n) AS {_BUCKET}, (x, t) AS CASE WHEN x IS NOT NULL THEN len(list_filter(t, lambda e: CASE "
    "WHEN e IS NULL THEN error('thresholds array must not contain NULLs') ELSE e <= x END))::INTEGER END",
    f"substring_matching(x, p) AS CASE WHEN regexp_matches({SIGNS}, '{LAZY}') "
    "THEN error('a pattern with *?, +?, ?? or }? is not served: use regexp_extract') "
    "WHEN NOT regexp_matches(x, p, 's') THEN NULL "
    f"WHEN NOT regexp_matches({SIGNS}, '{HAS_GROUP}') THEN regexp_extract(x, p, 0, 's') "
    f"WHEN regexp_matches({SIGNS}, '{MAY_BE_OUT}') THEN coalesce(nullif(regexp_extract(x, p, 1, 's'), ''), "
    "error('the part in parentheses is empty or has no place in the match: use regexp_extract')) "
    "ELSE regexp_extract(x, p, 1, 's') END",
    "shown(x) AS list_transform([x], lambda e: CASE WHEN ends_with(typeof(e), ']') "
    f"THEN error('an array is no text: write array_to_string(x, '','')') ELSE {SHOWN} END)[1]",
    "pg_size_pretty(x) AS list_transform([x::BIGINT], lambda s: "
    f"CASE WHEN abs(s) < 10240 THEN s || ' bytes' {_SIZES} END)[1]",
    "host(x) AS split_part(x::VARCHAR, '/', 1)",
    "extract_of(p, x) AS date_part(p, x)",
    f"extract_second(x) AS {_MICROSECONDS} * 0.000001",
    f"extract_millisecond(x) AS {_MICROSECONDS} * 0.001",
    "date_part(p, x) AS CASE WHEN lower(p) IN ('second', 'seconds', 'sec', 'secs', 's') THEN "
    "date_part('microsecond', x) / 1e6 WHEN lower(p) IN ('millisecond', 'milliseconds', 'msec', 'msecs', 'ms') THEN "
    "date_part('microsecond', x) / 1e3 ELSE date_part(p, x)::DOUBLE END",
    "to_hex(x) AS list_transform([x], lambda v: CASE WHEN v < 0 AND typeof(v) IN ('INTEGER', 'SMALLINT') THEN "
    "right(lower(to_hex(v)), 8) ELSE lower(to_hex(v)) END)[1]",
    "sha256(x) AS CASE WHEN typeof(x) <> 'BLOB' AND contains(x::VARCHAR, '\\') "
    "THEN error('sha256 is of bytes: write ::bytea') ELSE unhex(sha256(x)) END",
    "array_length(a) AS array_length(a), (a, d) AS nullif(array_length(a, d), 0)::INTEGER",
    "btrim(x) AS trim(x), (x, y) AS trim(x, y)",
    "every(x) AS bool_and(x)",
    "quote_nullable(x) AS coalesce(pgx.quote_literal(x::VARCHAR), 'NULL')",
    "json_typeof(x) AS CASE json_type(x) WHEN 'VARCHAR' THEN 'string' WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN "
    "'array' WHEN 'BOOLEAN' THEN 'boolean' WHEN 'NULL' THEN 'null' ELSE CASE WHEN x IS NOT NULL THEN 'number' END END",
    "json_agg(x) AS CASE WHEN count(*) = 0 THEN NULL ELSE json_group_array(x) END",
    "jsonb_agg(x) AS CASE WHEN count(*) = 0 THEN NULL ELSE json_group_array(x) END",
    *OF_PATTERNS,
    *OF_JSON,
)
TABLES: Final = {
    "string_to_array": "(a, b) AS TABLE SELECT pgx.string_to_array(a, b)",
    **TABLES_OF_PATTERNS,
    **TABLES_OF_JSON,
}
"""Table functions, of a name that a function has, too."""
KEYWORDS: Final = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
    char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
    grouping having ilike in initially inner inout int integer intersect interval into is isnull join lateral leading
    least left like limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric
    offset on only or order out outer overlaps overlay placing position precision primary real references returning
    right row select session_user setof similar smallint some substring symmetric table then time timestamp
    to trailing treat trim true union unique user using values varchar variadic verbose when where window with
    xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
    tablesample
    """.split()  # noqa: SIM905 - easier to read so
)
"""Words that PostgreSQL puts in quotation marks where they are names."""
SAME_NAMES: Final = (
    OF_TEXTS
    | NAMES_OF_PATTERNS
    | NAMES_OF_JSON
    | {"string_to_array", "to_timestamp", "date_part", "to_hex", "sha256", "array_length"}
)
"""Functions that DuckDB has with another meaning."""
