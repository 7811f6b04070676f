"""PostgreSQL's functions of patterns, and those that make rows of a text, in words of DuckDB's.

Patterns are RE2's. Where one could mean something else, the call is refused.
"""

from __future__ import annotations

from typing import Final

SIGNS: Final = r"regexp_replace(p, '\\.|\[\^?\]?(\[:\w+:\]|\\.|[^\]\\])*\]', 'x', 'g')"
"""A pattern without what is escaped or in brackets, where parentheses and the like are letters."""
HAS_GROUP: Final = r"\([^?]"
"""Of a pattern with a part in parentheses, which PostgreSQL gives in place of all."""
MAY_BE_OUT: Final = r"\||\)([?*]|\{0)"
"""Of a pattern whose part may have no place in a match: then PostgreSQL gives NULL, and DuckDB an empty text."""
LAZY: Final = r"[*+?}]\?"
"""Of a pattern that takes as little as it can: in PostgreSQL its first such sign counts for all of it."""
_MOST: Final = 5
"""Parts in parentheses."""
BOUNDARY: Final = r"(?:\b){1}"
"""The end of a word, as `patterns` spells it: nobody writes it so by hand."""
_IN_ASCII: Final = (
    "CASE WHEN regexp_matches(x, '[^\\x00-\\x7f]') THEN error('ends of words are found in texts in ASCII') ELSE {} END"
)
_REPLACED: Final = (
    "CASE g WHEN 'g' THEN regexp_replace(x, p, r, 'g') WHEN 'i' THEN regexp_replace(x, p, r, 'i') WHEN 'gi' THEN "
    "regexp_replace(x, p, r, 'gi') ELSE error('of flags, g, i and gi are served here') END"
)
"""With flags that DuckDB 1.5 wants to be written out."""
_NOT_LAZY: Final = (
    f"WHEN regexp_matches({SIGNS}, '{LAZY}') THEN error('a pattern with *?, +?, ?? or }}? is not served') "
    f"WHEN contains(replace(p, '{BOUNDARY}', ''), '\\b') THEN error('\\b is another sign in PostgreSQL: write \\y') "
    "WHEN regexp_matches(p, '\\\\[wWsSbB]|\\[:') AND regexp_matches(x, '[^\\x00-\\x7f]') "
    "THEN error('\\w, \\s and classes such as [:alpha:] are served with texts in ASCII')"
)
_LONGEST: Final = (
    f"WHEN regexp_matches({SIGNS}, '\\|') THEN error('a pattern with | is served where its length does not matter: "
    "by regexp_like, ~ and regexp_instr')"
)
"""Of `a|ab` DuckDB takes the first that fits, and PostgreSQL the longest."""
_FITS_NOTHING: Final = (
    f"{_NOT_LAZY} WHEN regexp_matches('', p, 's') THEN error('a pattern that fits an empty text is not served')"
)
_COUNT: Final = f"(len(regexp_extract_all({SIGNS}, '\\(')) - len(regexp_extract_all({SIGNS}, '\\(\\?')))"
_FLAGGED: Final = "pgx.pattern_with(p, g)"


def _match() -> str:
    """The parts in parentheses of the first match, or all of it."""
    groups = ", ".join(f"regexp_extract(x, p || '{'()' * _MOST}', {number}, 's')" for number in range(1, _MOST + 1))
    parts = (
        f"list_transform([[{groups}][1:{_COUNT}]], lambda l: CASE WHEN list_contains(l, '') AND "
        f"regexp_matches({SIGNS}, '{MAY_BE_OUT}') THEN error('a part in parentheses is empty or has no place: "
        "use regexp_extract') ELSE l END)[1]"
    )
    return (
        f"CASE WHEN x IS NULL OR p IS NULL THEN NULL {_NOT_LAZY} {_LONGEST} "
        "WHEN NOT regexp_matches(x, p, 's') THEN NULL "
        f"WHEN {_COUNT} = 0 THEN [regexp_extract(x, p, 0, 's')] "
        f"WHEN {_COUNT} > {_MOST} THEN error('more than {_MOST} parts in parentheses are not served') ELSE {parts} END"
    )


_HAS_BEGIN: Final = f"regexp_matches({SIGNS}, '\\^')"
_NO_BEGIN: Final = "error('^ is served where one match is looked for')"
_ALL: Final = "regexp_extract_all(x, p, 0, 's')"
_CHECKED: Final = f"CASE WHEN x IS NULL OR p IS NULL THEN NULL {_FITS_NOTHING} "
_EVERY: Final = f"{_CHECKED} {_LONGEST} WHEN {_HAS_BEGIN} THEN {_NO_BEGIN}"
_FROM: Final = (
    "CASE WHEN s < 1 THEN error('start is at least 1') WHEN s > 1 AND contains(p, '^') "
    "THEN error('^ and a start are not served together') ELSE substr(x, s) END"
)
_SIMILAR: Final = (
    "CASE WHEN len(t) > 1 AND t[1] = '[' THEN replace(t, '\\', '\\\\') WHEN len(t) > 1 THEN regexp_escape(t[2:]) "
    "WHEN t = '%' THEN '(?s:.*)' WHEN t = '_' THEN '(?s:.)' WHEN t = '(' THEN '(?:' "
    "WHEN t IN ('.', '^', '$') THEN '\\' || t "
    "WHEN t IN ('[', '\\') THEN error('invalid regular expression of SIMILAR TO') ELSE t END"
)
_PIECES: Final = r"\\.|\[[^\]\\\[]+\]|."


def _forms(name: str, text: str) -> tuple[str, str]:
    """A function of a text and a pattern, and the same with flags."""
    return (
        f"of_{name}(x, p) AS {text}",
        f"{name}(x, p) AS pgx.of_{name}(x, p), (x, p, g) AS pgx.of_{name}(x, {_FLAGGED})",
    )


_NTH: Final = (
    "of_regexp_nth(x, p, n) AS "
    f"{_CHECKED} {_LONGEST} WHEN n < 1 THEN error('n is at least 1') "
    f"WHEN n > 1 AND {_HAS_BEGIN} THEN {_NO_BEGIN} ELSE regexp_extract_all(x, p, 0, 's')[n] END"
)
MACROS: Final = (
    "checked_pattern(p) AS CASE WHEN regexp_matches(p, '\\\\[bByYmM0-9]') "
    "THEN error('\\b, \\y, \\m and \\1 are served in a pattern that is written out') "
    "WHEN starts_with(p, '(?') THEN p ELSE '(?s)' || p END",
    "pattern_with(p, g) AS CASE g WHEN '' THEN p WHEN 'i' THEN '(?i)' || p ELSE error('of flags, i is served') END",
    f"pattern_in(x, p, g) AS {_IN_ASCII.format('regexp_matches(x, pgx.pattern_with(p, g))')}",
    f"replaced_in(x, p, r) AS {_IN_ASCII.format('regexp_replace(x, p, r)')}, "
    f"(x, p, r, g) AS {_IN_ASCII.format(_REPLACED)}",
    *_forms("regexp_match", _match()),
    "of_regexp_all(x, p) AS "
    f"{_EVERY} WHEN regexp_matches({SIGNS}, '{HAS_GROUP}') THEN error('g is served without parts in parentheses') "
    f"ELSE list_transform({_ALL}, lambda m: [m]) END",
    "regexp_matches(x, p) AS unnest(list_filter([pgx.of_regexp_match(x, p)], lambda m: m IS NOT NULL)), "
    "(x, p, g) AS unnest(CASE g WHEN 'g' THEN pgx.of_regexp_all(x, p) ELSE list_filter([CASE g WHEN '' THEN "
    "pgx.of_regexp_match(x, p) WHEN 'i' THEN pgx.of_regexp_match(x, '(?i)' || p) "
    "ELSE list_transform([g], lambda m: [error('of flags, i and g are served, alone: ' || m)])[1] END], "
    "lambda m: m IS NOT NULL) END)",
    *_forms("regexp_like", "CASE WHEN x IS NOT NULL AND p IS NOT NULL THEN regexp_matches(x, p, 's') END"),
    f"of_regexp_count(x, p) AS {_EVERY} ELSE len({_ALL})::INTEGER END",
    f"regexp_count(x, p) AS pgx.of_regexp_count(x, p), (x, p, s) AS pgx.of_regexp_count({_FROM}, p), "
    f"(x, p, s, g) AS pgx.of_regexp_count({_FROM}, {_FLAGGED})",
    _NTH,
    f"regexp_substr(x, p) AS pgx.of_regexp_nth(x, p, 1), (x, p, s) AS pgx.of_regexp_nth({_FROM}, p, 1), "
    f"(x, p, s, n) AS pgx.of_regexp_nth({_FROM}, p, n), (x, p, s, n, g) AS pgx.of_regexp_nth({_FROM}, {_FLAGGED}, n)",
    f"regexp_instr(x, p) AS {_CHECKED} WHEN regexp_matches(x, p, 's') "
    "THEN length(regexp_extract(x, '^(.*?)(?:' || p || ')', 1, 's'))::INTEGER + 1 ELSE 0 END",
    "string_to_table(a, b) AS unnest(pgx.string_to_array(a, b))",
    *_forms("regexp_split_to_array", f"{_EVERY} ELSE regexp_split_to_array(x, p, 's') END"),
    "regexp_split_to_table(x, p) AS unnest(pgx.of_regexp_split_to_array(x, p)), "
    f"(x, p, g) AS unnest(pgx.of_regexp_split_to_array(x, {_FLAGGED}))",
    "similar_pattern(p) AS CASE WHEN p IS NOT NULL THEN array_to_string(list_transform(regexp_extract_all(p, "
    f"'{_PIECES}', 0, 's'), lambda t: {_SIMILAR}), '') END",
)
"""Each as after CREATE MACRO and the schema."""
TABLES: Final = {
    "string_to_table": "(a, b) AS TABLE SELECT unnest(pgx.string_to_array(a, b)) AS string_to_table",
    "regexp_split_to_table": "(a, b) AS TABLE SELECT unnest(pgx.of_regexp_split_to_array(a, b)) "
    "AS regexp_split_to_table",
}
"""Table functions, of a name that a function has, too."""
SAME_NAMES: Final = frozenset({"regexp_matches", "regexp_split_to_array", "regexp_split_to_table"})
"""Functions that DuckDB has with another meaning."""
