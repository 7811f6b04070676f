"""PostgreSQL's functions of JSON in words of DuckDB's: jsonb is json here, with its order of keys."""

from __future__ import annotations

from typing import Final

import duckdb

from dpsql.core.functions import of_version

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


_UNWRAPPED: Final = "CASE json_type({0}) WHEN 'ARRAY' THEN json_extract({0}, '$[*]') ELSE [{0}] END"
"""The elements of an array; of all else a list of it."""
_NOT_NULL: Final = "list_filter({0}, lambda e: e IS NOT NULL)"
_NAMES: Final = (
    "list_transform([x::JSON], lambda j: CASE json_type(j) WHEN 'OBJECT' THEN json_keys(j) WHEN 'ARRAY' THEN "
    "list_transform(list_filter(json_extract(j, '$[*]'), lambda e: json_type(e) = 'VARCHAR'), lambda e: "
    f"{_PLAIN.format('e')}) WHEN 'VARCHAR' THEN [{_PLAIN.format('j')}] ELSE "
    "CASE WHEN j IS NOT NULL THEN []::VARCHAR[] END END)[1]"
)
_MEMBERS: Final = "list_zip(json_keys({0}), json_extract({0}, '$.*'))"
"""Keys and values of an object: each part of it is read once."""
_MOST: Final = 1_000_000
_JOINED: Final = (
    "list_transform([{'a': a::JSON, 'b': b::JSON}], lambda r: CASE WHEN r.a IS NULL OR r.b IS NULL THEN NULL "
    "WHEN json_type(r.a) = 'OBJECT' AND json_type(r.b) = 'OBJECT' THEN "
    f"CASE WHEN len(json_keys(r.a)) * len(json_keys(r.b)) > {_MOST} "
    "THEN error('objects with that many keys are not joined') "
    "ELSE ('{' || list_aggregate(list_transform(list_concat("
    f"list_filter({_MEMBERS.format('r.a')}, lambda m: NOT list_contains(json_keys(r.b), m[1])), "
    f"{_MEMBERS.format('r.b')}), "
    "lambda m: json_quote(m[1])::VARCHAR || ': ' || m[2]::VARCHAR), 'string_agg', ', ') || '}')::JSON END "
    f"ELSE to_json(list_concat({_UNWRAPPED.format('r.a')}, {_UNWRAPPED.format('r.b')})) END)[1]"
)
_PUT: Final = (
    "json_set(r.x, place, r.v)"
    if "json_set" in of_version(duckdb.__version__)
    else "error('jsonb_set is not served with this version of DuckDB')"
)
_SET: Final = (
    "list_transform([{'x': x::JSON, 'v': v::JSON}], lambda r: CASE WHEN r.x IS NULL OR r.v IS NULL THEN NULL "
    "WHEN json_type(r.x) NOT IN ('OBJECT', 'ARRAY') THEN error('cannot set path in scalar') "
    f"WHEN json_type(r.x, above) = 'OBJECT' THEN {_PUT} "
    "WHEN json_type(r.x, above) = 'ARRAY' AND json_type(r.x, place) IS NULL THEN "
    "error('jsonb_set adds no element to an array here: join them by ||') "
    f"WHEN json_type(r.x, above) = 'ARRAY' THEN {_PUT} "
    "WHEN contains(r.x::VARCHAR, '[') THEN error('jsonb_set finds nothing at this path') ELSE r.x END)[1]"
)
_OPERATORS: Final = (
    "json_holds(x) AS x",
    f"json_names(x) AS {_NAMES}",
    "json_has(x, k) AS CASE WHEN k IS NOT NULL THEN list_contains(pgx.json_names(x), k) END",
    *(
        f"json_has_{some}(x, k) AS CASE WHEN x IS NOT NULL AND k IS NOT NULL THEN "
        f"list_has_{some}(pgx.json_names(x), {_NOT_NULL.format('k::VARCHAR[]')}) END"
        for some in ("any", "all")
    ),
    f"json_joined(a, b) AS {_JOINED}",
    "json_number(t) AS CASE WHEN length(t) > 16 THEN error('a number of more than 15 digits is not compared') "
    "ELSE t::DOUBLE END",
    f"json_set_at(x, above, place, v) AS {_SET}",
    "array_and_value(a, x) AS array_append(a, x)",
    "value_and_array(x, a) AS array_prepend(x, a)",
    *(f"{kind}_agg_of(l) AS to_json(l)" for kind in _KINDS),
    *(
        f"{kind}_object_agg_of(l) AS ('{{' || list_aggregate(list_transform(l, lambda p: "
        "coalesce(json_quote(p.k)::VARCHAR, error('field name must not be null')) || ':' || "
        "coalesce(p.v::VARCHAR, 'null')), 'string_agg', ',') || '}')::JSON"
        for kind in _KINDS
    ),
    "json_path_root(x) AS CASE WHEN x IS NOT NULL THEN [x::JSON] END",
    f"json_path_elements(l) AS flatten(list_transform(l, lambda e: {_UNWRAPPED.format('e')}))",
    "json_path_member(l, p) AS list_filter(list_transform(pgx.json_path_elements(l), lambda e: "
    "CASE json_type(e) WHEN 'OBJECT' THEN json_extract(e, p) END), lambda e: e IS NOT NULL)",
    "json_path_element(l, n) AS list_filter(list_transform(l, lambda e: CASE json_type(e) WHEN 'ARRAY' THEN "
    "json_extract(e, '/' || n) ELSE CASE n WHEN 0 THEN e END END), lambda e: e IS NOT NULL)",
    "json_path_values(l) AS flatten(list_transform(pgx.json_path_elements(l), lambda e: CASE json_type(e) "
    "WHEN 'OBJECT' THEN json_extract(e, '$.*') ELSE []::JSON[] END))",
    "jsonb_path_query(l) AS unnest(l)",
    "jsonb_path_exists(l) AS len(l) > 0",
    "jsonb_path_query_array(l) AS to_json(l)",
    "jsonb_path_query_first(l) AS l[1]",
)
"""What `json_operators` and `aggregates` respell."""
MACROS: Final = (
    *_OPERATORS,
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
    pairs = f"list_transform(list_zip({_KEYS}, json_extract(x, '$.*')), lambda m: {{'key': m[1], 'value': {value}}})"
    return f"(x) AS TABLE SELECT u.key AS key, u.value AS value FROM (SELECT unnest({pairs}) AS u) AS t"  # noqa: S608 - constants


TABLES: Final = {
    **{f"{kind}_array_elements": f"(x) AS TABLE SELECT unnest({_ELEMENTS}) AS value" for kind in _KINDS},
    **{
        f"{kind}_array_elements_text": f"(x) AS TABLE SELECT unnest(list_transform({_ELEMENTS}, "
        f"lambda e: {_PLAIN.format('e')})) AS value"
        for kind in _KINDS
    },
    **{f"{kind}_object_keys": f"(x) AS TABLE SELECT unnest({_KEYS}) AS {kind}_object_keys" for kind in _KINDS},
    "jsonb_each": _each("m[2]"),
    **{f"{kind}_each_text": _each(_PLAIN.format("m[2]")) for kind in _KINDS},
}
"""Table functions."""
SAME_NAMES: Final = frozenset({"json_extract_path", "json_extract_path_text"})
"""Functions that DuckDB has with another meaning."""
