"""The tree of tables that a script proposes: whose rows are the units, and which tables are below.

    unit  =  a table called as people are, of these the one that most tables lead to; else one that leads nowhere
    tree  =  grown from the unit: a table is added once all its ways lead to tables of the tree, below the deepest

So a table with keys to a patient and to a visit of that patient is below the visit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.links import Edge, singular
from dpsql.api.proposing.names import words_of

_PEOPLE: Final = frozenset(
    {
        "patient",
        "client",
        "customer",
        "person",
        "household",
        "member",
        "user",
        "student",
        "pupil",
        "employee",
        "player",
        "subject",
        "participant",
        "individual",
        "citizen",
        "resident",
        "applicant",
        "borrower",
        "policyholder",
        "taxpayer",
        "respondent",
        "donor",
        "tenant",
        "worker",
        "teacher",
        "family",
        "beneficiary",
        "insured",
        "consumer",
        "subscriber",
        "passenger",
        "driver",
        "child",
    }
)


@dataclass(frozen=True)
class Step:
    """A table below the unit's.

    Attributes:
        edge: by which it is linked.
        others: other ways to tables of the tree.
        waits: whether it is a question: the way, or one above it, is not certain.
    """

    edge: Edge
    others: tuple[Edge, ...] = ()
    waits: bool = False


@dataclass(frozen=True)
class Shape:
    """Tables, as a script arranges them.

    Attributes:
        root: the table whose rows are the units.
        steps: the tables below, a parent before its children.
        apart: the tables that do not lead to it.
        edges: all ways that were seen.
        refused: why tables that lead to it are not linked, by their names.
    """

    root: Input
    steps: tuple[Step, ...]
    apart: tuple[Input, ...]
    edges: tuple[Edge, ...]
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def members(self) -> tuple[Input, ...]:
        """The tables of the tree, the root first."""
        return (self.root, *(step.edge.child for step in self.steps))

    def keys(self, table: str) -> set[str]:
        """The columns of a table that lead to another one of the tree, or are led to."""
        members = {source.table for source in self.members}
        below = {
            name
            for edge in self.edges
            if edge.child.table == table and edge.parent.table in members
            for name in edge.key
        }
        above = {name for step in self.steps if step.edge.parent.table == table for name in step.edge.references}
        return below | above


def arrange(sources: Sequence[Input], edges: Sequence[Edge], unit: Input | None) -> Shape:
    """The tree of the tables.

    Args:
        sources: all tables.
        edges: the ways between them.
        unit: the table whose rows are the units, if the owner says so.
    """
    root = unit or max(sources, key=lambda source: _likely(source, sources, edges))
    below = _below(root, edges)
    steps: list[Step] = []
    depth, waits = {root.table: 0}, {root.table: False}
    waiting = [source for source in sources if source.table in below]
    while waiting:
        source = next((table for table in waiting if _is_ready(table, edges, depth, below)), None)
        source = source or next(table for table in waiting if _ways(table, edges, depth))
        waiting.remove(source)
        ways = sorted(_ways(source, edges, depth), key=lambda edge: (not edge.is_fact, -depth[edge.parent.table]))
        first, *others = ways
        uncertain = not first.is_fact or any(other.is_fact for other in others)
        depth[source.table] = depth[first.parent.table] + 1
        waits[source.table] = uncertain or waits[first.parent.table]
        steps.append(Step(first, tuple(others), waits[source.table]))
    apart = tuple(source for source in sources if source.table not in depth)
    return Shape(root, tuple(steps), apart, tuple(edges))


def without(shape: Shape, refused: dict[str, str]) -> Shape:
    """The same without tables that cannot be linked, which then stand apart; none is above one that stays."""
    steps = tuple(step for step in shape.steps if step.edge.child.table not in refused)
    apart = (*shape.apart, *(step.edge.child for step in shape.steps if step.edge.child.table in refused))
    return Shape(shape.root, steps, apart, shape.edges, refused)


def _ways(source: Input, edges: Sequence[Edge], tree: dict[str, int]) -> list[Edge]:
    """The ways of a table to tables of the tree."""
    return [edge for edge in edges if edge.child.table == source.table and edge.parent.table in tree]


def _is_ready(source: Input, edges: Sequence[Edge], tree: dict[str, int], below: set[str]) -> bool:
    """Whether all ways of a table that end at the unit begin with a table of the tree."""
    parents = {edge.parent.table for edge in edges if edge.child.table == source.table} & ({*below, *tree})
    return parents - {source.table} <= {*tree}


def _below(root: Input, edges: Sequence[Edge]) -> set[str]:
    """The tables whose ways lead to one."""
    reached, newest = {root.table}, {root.table}
    while newest:
        newest = {edge.child.table for edge in edges if edge.parent.table in newest} - reached
        reached |= newest
    return reached - {root.table}


def _likely(source: Input, sources: Sequence[Input], edges: Sequence[Edge]) -> tuple[bool, int, bool, int, int]:
    """How likely rows of a table are the units: the greater the likelier, of equals the first table."""
    words = {singular(word) for word in words_of(source.name)}
    leaves = any(edge.child.table == source.table and edge.parent.table != source.table for edge in edges)
    count = len(_below(source, edges))
    first = -[table.table for table in sources].index(source.table)
    is_people = bool(words & _PEOPLE)
    return is_people, count if is_people or not leaves else 0, not leaves, len(source.columns), first
