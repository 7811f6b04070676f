"""Which tests can fail by chance, and how often: read from their marks, so that the list is made and not kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def marks() -> Iterator[tuple[str, float, str]]:
    """Of each mark `chance`: the test, or the file if it is of all its tests; the rate; and where it comes from."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if "mark.chance(" not in text:
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield from ((f"{name}::{node.name}", *said) for said in _said(node.decorator_list))
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                yield from ((name, *said) for said in _said([node.value]))


def _said(nodes: list[ast.expr]) -> Iterator[tuple[float, str]]:
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.chance":
            rate, why = map(ast.literal_eval, node.args)
            yield float(rate), str(why)


def chance_rows() -> list[list[str]]:
    """A row for each mark."""
    return [[f"`{name.removeprefix('tests/')}`", f"{rate:.0e}", why] for name, rate, why in marks()]
