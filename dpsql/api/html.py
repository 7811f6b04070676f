"""Rows as a table in HTML, for notebooks: colours come from the page, so that it reads in light and dark."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

ROWS: Final = 20
"""How many rows are shown."""
_COLUMNS: Final = 40
_CHARACTERS: Final = 80
_NUMBERS: Final = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "HUGE", "BIGINT")
_CELL: Final = "border:none;padding:0.2em 0.8em;white-space:nowrap;"
_FAINT: Final = "opacity:0.65;font-weight:normal;font-size:85%;"


def table(relation: duckdb.DuckDBPyRelation, caption: str = "", rows: int = ROWS) -> str:
    """The first rows of a relation.

    Args:
        relation: to show; of one that is large only these rows are read.
        caption: above the table; plain text.
        rows: at most.
    """
    names, kinds = relation.columns[:_COLUMNS], [str(kind) for kind in relation.types[:_COLUMNS]]
    first_rows = relation.limit(rows + 1).fetchall()
    right = ["right" if kind.startswith(_NUMBERS) or "INT" in kind else "left" for kind in kinds]
    head = "".join(
        f'<th style="{_CELL}text-align:{side};border-bottom:1px solid currentColor">{html.escape(name)}'
        f'<br><span style="{_FAINT}">{html.escape(_short(kind.lower(), 24))}</span></th>'
        for name, kind, side in zip(names, kinds, right, strict=True)
    )
    body = "".join(
        "<tr style='background:none'>"
        + "".join(_cell(value, side) for value, side in zip(row[:_COLUMNS], right, strict=True))
        + "</tr>"
        for row in first_rows[:rows]
    )
    above = f'<div style="margin:0.4em 0">{html.escape(caption)}</div>' if caption else ""
    return (
        f'<div style="overflow-x:auto">{above}<table style="border-collapse:collapse;border:none;'
        f'font-variant-numeric:tabular-nums;margin:0"><thead><tr style="background:none">{head}</tr></thead>'
        f'<tbody>{body}</tbody></table><div style="{_FAINT}margin:0.4em 0">'
        f"{_count(len(first_rows), rows)}, {_columns(len(relation.columns))}</div></div>"
    )


def _cell(value: Any, side: str) -> str:
    shown = '<span style="opacity:0.5">NULL</span>' if value is None else html.escape(_short(_text(value), _CHARACTERS))
    return f'<td style="{_CELL}text-align:{side}">{shown}</td>'


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as SQL has it
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _count(count: int, rows: int) -> str:
    if count > rows:
        return f"the first {rows} rows"
    return "1 row" if count == 1 else f"{count} rows"


def _columns(count: int) -> str:
    text = "1 column" if count == 1 else f"{count} columns"
    return f"{text}, of which {_COLUMNS} are shown" if count > _COLUMNS else text
