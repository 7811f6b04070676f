"""The script of several tables: the tree at its top, then a block for each table; what is a question is a comment.

A block that waits for its owner stands between `/*` and `--*/`, so that deleting the first line makes it run. Where a
name holds such signs, each of its lines is a comment of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dpsql.api.proposing.context import Context
from dpsql.api.proposing.forecast import Forecast
from dpsql.api.proposing.inputs import Input, Tables
from dpsql.api.proposing.links import Edge
from dpsql.api.proposing.script import (
    Script,
    asked_lines,
    comment,
    declared_lines,
    fact_lines,
    load_statement,
    next_command,
    reading_lines,
)
from dpsql.api.proposing.shape import Shape, Step
from dpsql.api.proposing.trial import Tried
from dpsql.engines.duckdb.calls import call_of

_OPEN: Final = "/*"
_CLOSE: Final = "--*/"
_RULE: Final = "-- " + "-" * 100


def write(
    given: str,
    tables: Tables,
    shape: Shape,
    contexts: Mapping[str, Context],
    tried: Mapping[str, Tried],
    protection: str,
    forecast: Forecast | None,
    *,
    looked: bool,
) -> Script:
    """The script.

    Args:
        given: what the person named.
        tables: all of them.
        shape: how they are arranged.
        contexts: what all proposals of a table share, by tables.
        tried: the proposals and facts of tables of the tree.
        protection: the statement that protects the root.
        forecast: what a plan predicts of a linked release.
        looked: whether rows were read.
    """
    root = shape.root
    database = "bank.duckdb" if root.is_file else given
    command = next_command(root.table, forecast, database, linked=bool(shape.steps))
    lines = [*_head(given, tables, shape, tried, forecast, command, looked=looked), "", _RULE]
    lines += [*_load(root, tried[root.table]), *comment(_BUDGET), protection, ""]
    lines += _declared(contexts[root.table], tried[root.table])
    for step in shape.steps:
        child = step.edge.child
        body = [*_load(child, tried[child.table]), *_link(step)]
        body += ["", *_declared(contexts[child.table], tried[child.table])]
        body = body[: next(at for at in range(len(body), 0, -1) if body[at - 1])]  # without empty lines at its end
        lines += [_RULE, *(_waiting(_question(step), body) if step.waits else [*comment(_fact(step)), *body]), ""]
    for source in shape.apart:
        lines += [_RULE, *_apart(source, shape), ""]
    lines += comment("What is linked: FROM dp_links();")
    proposals = tuple(p for source in shape.members for p in tried[source.table].proposals)
    words = _words(shape)
    return Script("\n".join(lines) + "\n", root.table, proposals, 0.0, forecast, (words, command), database)


_BUDGET: Final = (
    "The budget, one for all tables that are linked: all releases together will be (ε, δ)-DP for a row of this table "
    "with all rows that lead to it. It is set once."
)


def _words(shape: Shape) -> str:
    waits = [step.edge.child.table for step in shape.steps if step.waits] + [source.table for source in shape.apart]
    questions = f", {len(waits)} of which wait for your word" if waits else ""
    count = len(shape.steps) + len(shape.apart) + 1
    return f"{count} tables{questions}; a unit is a row of {shape.root.table}; "


def _head(
    given: str,
    tables: Tables,
    shape: Shape,
    tried: Mapping[str, Tried],
    forecast: Forecast | None,
    command: str,
    *,
    looked: bool,
) -> Iterator[str]:
    by = f"dpsql init {given}{' --owner-looks' if looked else ''}"
    yield from comment(f"Protects linked tables and declares their columns. Written by: {by}")
    yield from comment("Read it, edit it, then run it with dpsql sql; running it again changes nothing.")
    yield "--"
    yield from comment("PRICE: running this script spends nothing of the budget.")
    yield from reading_lines(looked=looked, is_typed=all(source.is_typed for source in tables.sources))
    yield from comment(
        f"UNIT: a row of {shape.root.table}, with all rows that lead to it. Is it a person, or whoever is to be "
        "protected? If not, write this script anew with --unit TABLE."
    )
    yield from _tree(shape)
    if tables.left_out:
        yield from comment(f"LEFT ASIDE: {', '.join(tables.left_out)}.")
    if forecast is not None:
        yield from comment(
            f"FORECAST: {str(forecast).replace('At', 'at', 1)}, if all of these tables are linked, with about "
            f"{forecast.cells} cells for a column of numbers."
        )
    yield from comment(f"AFTERWARDS: {command}")
    yield from asked_lines(
        [(f"{source.table}.{p.column}", p) for source in shape.members for p in tried[source.table].proposals]
    )


def _tree(shape: Shape) -> Iterator[str]:
    """The tree, a line for each table."""
    yield f"-- TREE: {_plain(shape.root.table)}"
    depth = {shape.root.table: 0}
    for step in sorted(shape.steps, key=lambda step: _path(step, shape)):
        depth[step.edge.child.table] = depth[step.edge.parent.table] + 1
        how = "QUESTION" if step.waits else "FOREIGN KEY"
        indent = "  " * (depth[step.edge.child.table] + 3)
        yield f"-- {indent}{_plain(step.edge.child.table)}, {_plain(_way(step.edge))}: {how}"
    for source in shape.apart:
        yield f"-- APART: {_plain(source.table)}: QUESTION"


def _path(step: Step, shape: Shape) -> tuple[int, ...]:
    """Places of the tables from the root down to a step's, so that a table stands right below its parent."""
    place = {
        numbered.edge.child.table: (number, numbered.edge.parent.table) for number, numbered in enumerate(shape.steps)
    }
    table, path = step.edge.child.table, []
    while table in place:
        number, table = place[table]
        path.append(number)
    return tuple(reversed(path))


def _way(edge: Edge) -> str:
    references = ", ".join(f"{edge.parent.table}.{name}" for name in edge.references)
    return f"{', '.join(edge.key)} → {references}"


def _plain(text: str) -> str:
    """A text that stays inside its line."""
    return " ".join(text.split())


def _load(source: Input, tried: Tried) -> list[str]:
    return [*load_statement(source, tried.proposals), ""] if source.is_file else []


def _declared(context: Context, tried: Tried) -> list[str]:
    lines: list[str] = []
    for proposal in tried.proposals:
        lines += [*declared_lines(context, proposal), ""]
    return [*lines, *fact_lines(context, tried)]


def _link(step: Step) -> list[str]:
    lines = [step.edge.call]
    lines += [f"--   or: {_plain(other.call)}" for other in step.others]
    bound = "For dp_query say max_rows := …, how many rows of one unit count: choose it from what is public."
    return [*lines, *comment(bound)]


def _fact(step: Step) -> str:
    return f"{step.edge.child.table}. Public: {step.edge.because}."


def _question(step: Step) -> str:
    edge = step.edge
    if edge.is_fact and any(other.is_fact for other in step.others):
        ways = " or ".join(_way(way) for way in (edge, *step.others))
        question = (
            f"rows lead to {ways}, and a row has one way to its unit: is the first one right? Else put another one's "
            "line in its place."
        )
    elif edge.is_fact:
        question = f"is {edge.parent.table} linked, to which it leads? {edge.because}."
    else:
        question = (
            f"does each row belong to the row of {edge.parent.table} that {', '.join(edge.key)} names? {edge.because}."
        )
    until = "" if edge.child.is_file else " Until it is linked, it is not protected, and dpsql takes it for public."
    return f"{edge.child.table}. QUESTION: {question}{until}"


def _waiting(question: str, body: Sequence[str]) -> list[str]:
    """A block that runs once its owner has answered."""
    if any(sign in line for line in body for sign in ("/*", "*/")):
        lines = [part for line in body for part in re.split(r"\r\n|\r|\n", line)]
        return [
            *comment(f"{question} If so, take the first two signs, --, from each line below."),
            *(f"--{x}" for x in lines),
        ]
    return [*comment(f"{question} If so, delete the next line."), _OPEN, *body, _CLOSE]


def _apart(source: Input, shape: Shape) -> list[str]:
    """What may be done with a table that does not lead to the unit."""
    table, root = source.table, shape.root.table
    if table in shape.refused:
        call = next(edge.call for edge in shape.edges if edge.child.table == table)
        left = f"{table}. QUESTION: it is not linked. What is below is refused: {shape.refused[table].rstrip('.')}."
        return [*comment(left), f"-- {_plain(call)}"]
    question = (
        f"{table}. QUESTION: is it public, the same whoever is in {root}, as a list of wards is? No key leads from it "
        f"to {root}."
    )
    shared = {"account": root, "privacy_unit": "…", "max_rows": 8}
    others = [
        f"--   or: {_plain(call_of('dp_link', [table, root], {'key': '…', 'references': '…'}))}",
        f"--   or: {_plain(call_of('dp_protect', [table], shared))}",
    ]
    if source.is_file:
        load = load_statement(source, ())
        return [*_waiting(f"{question} Then it is loaded, and everybody may read it.", load), *others]
    protected = "Then leave it as it is. It is not protected, so dpsql takes it for public. Else protect or link it:"
    return [*comment(f"{question} {protected}"), *others]
