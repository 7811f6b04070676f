"""A call of one of the SQL functions as a statement: `CALL dp_domain('t', 'age', lower := 0, upper := 119);`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

_RESERVED: Final = frozenset({"values", "references", "table", "order"})
"""Names of parameters, and an option of a mechanism, that some DuckDB reads as names only in double quotes."""


def call_of(function: str, places: Sequence[str], named: Mapping[str, Any], width: int | None = None) -> str:
    """A statement that calls a function.

    Args:
        function: its name.
        places: its arguments by place, texts.
        named: its arguments by name.
        width: of its lines, which are broken between constants; None for one line.

    >>> call_of("dp_domain", ["t", "sex"], {"edges": [0, 5], "other": "it's"})
    "CALL dp_domain('t', 'sex', edges := [0, 5], other := 'it''s');"
    """
    given = [literal(place) for place in places]
    for name, value in named.items():
        parts = [literal(constant) for constant in value] if isinstance(value, list | tuple) else [literal(value)]
        if isinstance(value, list | tuple):
            parts = ["[]"] if not parts else [f"[{parts[0]}", *parts[1:]]
            parts[-1] = parts[-1] if parts == ["[]"] else f"{parts[-1]}]"
        given += [f"{parameter(name)} := {parts[0]}", *parts[1:]]
    parts = [f"CALL {function}({given[0]}", *given[1:]]
    return _joined([*(f"{part}," for part in parts[:-1]), f"{parts[-1]});"], width)


def _joined(parts: Sequence[str], width: int | None) -> str:
    """Parts with blanks between them, or line breaks where a line would become too long."""
    lines = [parts[0]]
    for part in parts[1:]:
        if width is not None and len(lines[-1]) + 1 + len(part) > width:
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines)


def literal(value: Any) -> str:
    """A constant of Python as SQL writes it.

    >>> literal([True, 0.5, "it's"])
    "[true, 0.5, 'it''s']"
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return exp.Literal.string(str(value)).sql(dialect="duckdb")


def parameter(name: str) -> str:
    """The name of a parameter as a call has it, in double quotes where SQL reserves it.

    >>> parameter("values"), parameter("lower")
    ('"values"', 'lower')
    """
    return f'"{name}"' if name in _RESERVED else name
