"""The page of the Python interface, made from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import dpsql
from dpsql.api.analyst import Analyst
from dpsql.api.people import Users
from dpsql.api.relation import Relation
from dpsql.service.client import Client

FUNCTIONS: Final = (dpsql.connect, dpsql.install, dpsql.client, dpsql.serve)
CLASSES: Final = (dpsql.Database, dpsql.Release, Relation, Users, Analyst, Client)
_SECTIONS: Final = ("Args", "Attributes", "Returns", "Raises", "Yields")


def python_page() -> str:
    """Every public function and class, with its methods."""
    found = ["## dpsql\n", *(_described(f"dpsql.{one.__name__}", one) for one in FUNCTIONS)]
    places: dict[int, str] = {}
    for one in CLASSES:
        found.append(f"## {one.__name__}\n\n{documented(one)}")
        again: dict[str, list[str]] = {}
        for name, member in members(one):
            place = places.setdefault(id(member), one.__name__)
            if place == one.__name__:
                found.append(_described(f"{one.__name__}.{name}", member))
            else:
                again.setdefault(place, []).append(f"`{name}`")
        found += [f"As those of `{place}`: {', '.join(names)}.\n" for place, names in again.items()]
    return "\n".join(found)


def members(one: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that have a docstring of this package's, by name."""
    for name in sorted(dir(one)):
        member = inspect.getattr_static(one, name)
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        if inspect.getdoc(member):
            yield name, member


def _described(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"### {name}\n\n{documented(member)}"
    return f"### {name}\n\n```text\n{signature(name, member)}\n```\n\n{documented(member)}"


def signature(name: str, function: Callable[..., Any]) -> str:
    """A call as one writes it, on several lines where it is long.

    >>> def f(self, a, *, b: int = 1, **more): ...
    >>> signature("f", f)
    'f(a, *, b=1, **more)'
    """
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    written: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in written and not any(w.startswith("*") for w in written):
            written.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={p.default!r}"
        written.append(f"{star}{p.name}{default}")
    line = f"{name}({', '.join(written)})"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {one},\n" for one in written) + ")"


def documented(member: Any) -> str:
    """A Google docstring as Markdown."""
    text = inspect.getdoc(member) or ""
    text, _, example = text.partition("\n>>> ")
    parts = re.split(rf"^({'|'.join(_SECTIONS)}):\n", text.rstrip() + "\n", flags=re.MULTILINE)
    found = [_prose(parts[0])]
    for title, block in zip(parts[1::2], parts[2::2], strict=True):
        body, _, after = block.partition("\n\n")
        lines = inspect.cleandoc(body)
        if title in ("Returns", "Yields"):
            found.append(f"**{title}:** {' '.join(lines.split())}\n")
        else:
            found.append(f"**{title}:**\n\n{_items(lines)}")
        if after.strip():
            found.append(_prose(inspect.cleandoc(after)))
    if example:
        found.append(f"```pycon\n>>> {example.rstrip()}\n```\n")
    return "\n".join(found)


def _prose(text: str) -> str:
    return text.strip().replace("<", "&lt;") + "\n" if text.strip() else ""


def _items(text: str) -> str:
    """`name: what` lines, with what follows them indented, as a list."""
    entries = re.findall(r"^(\S[^:\n]*): ((?:.*)(?:\n +.*)*)", text, re.MULTILINE)
    return "".join(f"- `{name}`: {' '.join(what.split())}\n" for name, what in entries)
