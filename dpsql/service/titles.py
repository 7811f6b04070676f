"""The names of columns that a SELECT gives none: those of PostgreSQL, in place of DuckDB's.

    count(*)  →  count,    max(x)::text  →  max,    '1'::int  →  int4,    CASE … END  →  case,    1 + 1  →  ?column?

They are what PostgreSQL's `FigureColname` says of the same expression. Clients find columns by them (`row["count"]`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from . import pgtypes
from .directory import Columns
from .relations import duckdb_type, vectors

_NO_NAME: Final = "?column?"
_STAR: Final = "*"
_TYPE: Final = "::"
"""Stands for the name of the column's type."""
_OF_OPERATORS: Final = (
    *("json_holds", "json_has", "json_has_any", "json_has_all", "json_joined", "array_and_value", "value_and_array"),
    *("pattern_in", "interval_quotient", "xor"),
)
"""Functions in place of PostgreSQL's operators."""
_FUNCTIONS: Final = {
    "count_star": "count",
    "list_value": "array",
    "trim": "btrim",
    "quantile_cont": "percentile_cont",
    "quantile_disc": "percentile_disc",
    "substring_matching": "substring",
    "substr_of": "substr",
    "substring_of": "substring",
    "to_char_moment": "to_char",
    **dict.fromkeys(_OF_OPERATORS, _NO_NAME),
    "json_set_at": "jsonb_set",
    "replaced_in": "regexp_replace",
    **{f"{kind}{what}_agg_of": f"{kind}{what}_agg" for kind in ("json", "jsonb") for what in ("", "_object")},
    "json_object": "json_build_object",
    "extract_of": "extract",
    "extract_second": "extract",
    "extract_millisecond": "extract",
}
"""Functions of the parse tree that PostgreSQL calls otherwise."""
_MODIFIED: Final = {
    f"as_{name}{end}": name
    for name in ("varchar", "bpchar", "timestamp", "timestamptz", "time", "interval")
    for end in ("", "s", "_value")
}
"""Functions that obey a modifier of a type, and how PostgreSQL calls the type."""
_OPERATORS: Final = {"OPERATOR_COALESCE": "coalesce", "ARRAY_CONSTRUCTOR": "array", "GROUPING_FUNCTION": "grouping"}
_IN_PLACE_OF_CASTS: Final = frozenset({"regclass_name", "vector_text"})
_SUBQUERIES: Final = {"EXISTS": "exists"}


@dataclass(frozen=True)
class Titles:
    """The names of a query's columns.

    Attributes:
        names: of each; None where DuckDB's own is right, `*` where columns of tables stand.
        sources: of each that is nothing but a column, the name that this has where it comes from; None of others.
    """

    names: tuple[str | None, ...]
    sources: tuple[str | None, ...]

    def of(self, columns: Columns) -> Columns:
        """The columns, renamed, with PostgreSQL's types of the catalogue; with their names where stars are unclear."""
        stars, more = self.names.count(_STAR), len(columns) - len(self.names)
        if stars > 1 or (more and not stars):
            return [(name, _vector(name, kind)) for name, kind in columns]
        titled: list[tuple[str | None, str | None]] = []
        for name, source in zip(self.names, self.sources, strict=True):
            titled += [(None, None)] * (more + 1) if name == _STAR else [(name, source)]
        return [
            (
                own_name if name is None else pgtypes.pg_type(kind).name if name == _TYPE else name,
                _vector(source or own_name, kind) if name is None else kind,
            )
            for (name, source), (own_name, kind) in zip(titled, columns, strict=True)
        ]


def _vector(name: str, kind: str) -> str:
    """The type of a column of a name, where it is such a column of the catalogue; otherwise what it is in DuckDB."""
    vector = vectors().get(name.lower())
    return vector if vector is not None and duckdb_type(vector) == kind else kind


def titles(tree: Sequence[Any]) -> Titles | None:
    """The names of the one statement of DuckDB's parse tree; None where they are DuckDB's."""
    names_and_sources = tuple(_names(tree[0].get("node"))) if tree else ()
    return (
        Titles(tuple(name for name, _ in names_and_sources), tuple(source for _, source in names_and_sources))
        if names_and_sources
        else None
    )


def _names(node: Any) -> Iterator[tuple[str | None, str | None]]:
    """The names of a SELECT, or of the first one of a UNION, each with its source."""
    table, expressions = _selected(node)
    if table.get("type") in ("EXPRESSION_LIST", "SHOW_REF"):
        return
    for expression in expressions:
        if expression.get("class") == "STAR" and table.get("type") == "SUBQUERY" and not table["column_name_alias"]:
            yield from _names(table["subquery"].get("node"))
        elif expression.get("class") == "STAR":
            yield _STAR, None
        elif expression.get("class") == "COLUMN_REF":
            yield None, _own_name(expression)
        else:
            yield None if expression.get("alias") else _name(expression), None


def _selected(node: Any) -> tuple[dict[str, Any], Sequence[Any]]:
    """What a SELECT, or the first one of a UNION, reads and selects."""
    while isinstance(node, dict) and node.get("type") == "SET_OPERATION_NODE":
        node = (node.get("children") or [node.get("left")])[0]
    if not isinstance(node, dict) or node.get("type") != "SELECT_NODE":
        return {}, ()
    return node.get("from_table") or {}, node.get("select_list") or ()


def _name(expression: Any) -> str:
    """What PostgreSQL calls an expression: in a loop, because a text may go deeper than Python calls itself."""
    around: list[str] = []
    """Of each CAST and CASE on the way in, what it is called where all in it has no name."""
    while (inner := _inside(expression)) is not None:
        if expression.get("class") in ("CAST", "CASE"):
            around.append(_TYPE if expression["class"] == "CAST" else "case")
        elif type_name := _modified(expression):
            around.append(type_name)
        expression = inner
    name = _own_name(expression)
    return around[0] if around and name in (_NO_NAME, _TYPE, "case") else name


def _inside(expression: Any) -> Any:
    """The part of an expression that it is called as; None where it has a name of its own, or none."""
    kind, form = expression.get("class"), expression.get("type")
    if kind in ("CAST", "CASE"):
        return None if _is_boolean(expression) else expression["child" if kind == "CAST" else "else_expr"]
    if kind == "COLLATE":
        return expression["child"]
    if _modified(expression) or expression.get("function_name") in _IN_PLACE_OF_CASTS:
        # of a call's arguments DuckDB 2 knows names, too
        given = [
            *expression.get("children", ()),
            *(argument["expression"] for argument in expression.get("arguments", ())),
        ]
        return given[0] if given else None
    if form in ("ARRAY_EXTRACT", "ARRAY_SLICE"):
        return expression["children"][0]
    first = _first_of(expression)
    return None if first is None or first.get("alias") else first


def _modified(expression: Any) -> str:
    """The type that a function of ours gives a value, with its modifier; empty of all others."""
    name = str(expression.get("function_name", "")).lower()
    return _MODIFIED.get(name, "") if str(expression.get("schema", "")).lower() == "pgx" else ""


def _own_name(expression: Any) -> str:
    kind, form = expression.get("class"), expression.get("type")
    if kind == "COLUMN_REF":
        return str(expression["column_names"][-1])
    if kind in ("FUNCTION", "WINDOW") and not expression.get("is_operator"):
        name = str(expression.get("function_name", "")).lower()
        return _FUNCTIONS.get(name, name)
    if kind == "SUBQUERY":
        first = _first_of(expression)
        return str(first["alias"]) if first else _SUBQUERIES.get(str(expression.get("subquery_type")), _NO_NAME)
    return _OPERATORS.get(str(form), _NO_NAME)


def _first_of(expression: Any) -> Any:
    """The first column of a subquery that stands for a value; None of anything else."""
    if expression.get("class") != "SUBQUERY" or expression.get("subquery_type") != "SCALAR":
        return None
    _, expressions = _selected(expression["subquery"].get("node"))
    return expressions[0] if expressions else None


def _is_boolean(cast: Any) -> bool:
    """Whether a cast is how DuckDB 1.5 reads `true` or `false`."""
    constant = (cast.get("child") or {}).get("value")
    is_letter = isinstance(constant, dict) and constant.get("value") in ("t", "f")
    return is_letter and (cast.get("cast_type") or {}).get("id") == "BOOLEAN"
