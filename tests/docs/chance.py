"""Which tests can fail by chance, and how often: read from their marks, so that the list is made and not kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def marks(mark: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Of each mark of a name: the test, or the file if it is of all its tests; and its arguments."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if f"mark.{mark}(" not in text:
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield from ((f"{name}::{node.name}", said) for said in _said(mark, node.decorator_list))
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                yield from ((name, said) for said in _said(mark, [node.value]))


def _said(mark: str, nodes: list[ast.expr]) -> Iterator[tuple[Any, ...]]:
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{mark}":
            yield tuple(map(ast.literal_eval, node.args))


def chance_rows() -> list[list[str]]:
    """A row for each mark."""
    return [[f"`{name.removeprefix('tests/')}`", f"{rate:.0e}", why] for name, (rate, why) in marks("chance")]
