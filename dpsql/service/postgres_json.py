"""PostgreSQL's functions of JSON in words of DuckDB's: jsonb is json here, with its order of keys."""

from __future__ import annotations

from typing import Final

_KINDS: Final = ("json", "jsonb")
_ELEMENTS: Final = (
    "CASE WHEN json_type(x) <> 'ARRAY' THEN error('cannot extract elements from an object or a scalar') "
    "ELSE json_extract(x, '$[*]') END"
)
_KEYS: Final = (
    "CASE WHEN json_type(x) <> 'OBJECT' THEN error('cannot call json_object_keys on an array or a scalar') "
    "ELSE json_keys(x) END"
)
_PLAIN: Final = "json_extract_string({0}, '$')"
_AT: Final = "json_extract({0}, '/' || replace(replace({1}, '~', '~0'), '/', '~1'))"
"""The member of a name: a pointer finds it whatever its signs are."""
_STEP: Final = (
    "CASE WHEN regexp_full_match({0}, '0|[1-9][0-9]*|[A-Za-z_][A-Za-z0-9_ ]*') THEN '/' || {0} "
    "ELSE error('a path has names and places, from 0 on') END"
)


def _path(text: str, count: int) -> str:
    """A call with so many steps."""
    names = [f"p{number}" for number in range(1, count + 1)]
    steps = " || ".join(_STEP.format(name) for name in names)
    return f"(x, {', '.join(names)}) AS {text}(x, {steps})"


def _paths(text: str) -> str:
    return ", ".join(_path(text, count) for count in (1, 2, 3, 4))


MACROS: Final = (
    "jsonb_typeof(x) AS pgx.json_typeof(x)",
    "jsonb_array_length(x) AS CASE WHEN json_type(x) <> 'ARRAY' THEN error('cannot get array length of a non-array') "
    "ELSE json_array_length(x)::INTEGER END",
    *(
        f"{kind}_build_array(a) AS json_array(a), (a, b) AS json_array(a, b), (a, b, c) AS json_array(a, b, c), "
        f"(a, b, c, d) AS json_array(a, b, c, d)"
        for kind in _KINDS
    ),
    *(f"{kind}_extract_path{_paths('json_extract')}" for kind in _KINDS),
    *(f"{kind}_extract_path_text{_paths('json_extract_string')}" for kind in _KINDS),
    *(f"{kind}_array_elements(x) AS unnest({_ELEMENTS})" for kind in _KINDS),
    *(
        f"{kind}_array_elements_text(x) AS unnest(list_transform({_ELEMENTS}, lambda e: {_PLAIN.format('e')}))"
        for kind in _KINDS
    ),
    *(f"{kind}_object_keys(x) AS unnest({_KEYS})" for kind in _KINDS),
)
"""Each as after CREATE MACRO and the schema."""


def _each(value: str) -> str:
    pairs = f"list_transform({_KEYS}, lambda k: {{'key': k, 'value': {value}}})"
    return f"(x) AS TABLE SELECT u.key AS key, u.value AS value FROM (SELECT unnest({pairs}) AS u) AS t"  # noqa: S608 - constants


TABLES: Final = {
    **{f"{kind}_array_elements": f"(x) AS TABLE SELECT unnest({_ELEMENTS}) AS value" for kind in _KINDS},
    **{
        f"{kind}_array_elements_text": f"(x) AS TABLE SELECT unnest(list_transform({_ELEMENTS}, "
        f"lambda e: {_PLAIN.format('e')})) AS value"
        for kind in _KINDS
    },
    **{f"{kind}_object_keys": f"(x) AS TABLE SELECT unnest({_KEYS}) AS {kind}_object_keys" for kind in _KINDS},
    "jsonb_each": _each(_AT.format("x", "k")),
    **{f"{kind}_each_text": _each(_PLAIN.format(_AT.format("x", "k"))) for kind in _KINDS},
}
"""Table functions."""
SAME_NAMES: Final = frozenset({"json_extract_path", "json_extract_path_text"})
"""Functions that DuckDB has with another meaning."""
