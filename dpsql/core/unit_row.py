"""One row a unit: a tree of tables as one flat domain, in which a unit is a row, so that every sensitivity is 1.

    row of a unit   =  its columns | numbers of children | roles | first child | second child | its own …
    slot            =  the columns and numbers of children of one row of the unit; a further code where there is none
    role            =  the row that has a role (`Role`), if one has; a further column says whether, if none need have it
    first, second   =  the rows of a parent in the order of a digest of what they hold (`engines.duckdb.unit_rows`)
                       of a link in order two rows that follow each other, the earlier one first; the digest says which
    before          =  of a link in order, how many rows of the parent come before those two

The rows of a role are the first of their parent's that satisfy its predicate, in the same order. Other rows that do are
children like all without a role. Numbers are of children without a role.

Below a first child its own children have slots too, below others they have none. Which rows a slot holds depends
on the unit's rows alone. So adding or removing a unit, with all its rows in all tables, adds or removes one row here
and changes no other: counts of all cells of a clique change by at most 1 together, however many rows the unit has.

Of a table with a privacy unit the row of a unit has no columns of its own. Every unit has a first child there.

Values only: nothing here reads a catalogue or a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.flat_names import prefix_of
from dpsql.core.names import fold
from dpsql.core.tree import UNITS, Link, Role, Tree
from dpsql.core.workload import Workload

MOST_SLOTS: Final = 2
"""Children of one row that have a slot: two, because a pair shows how siblings are alike."""


SIBLINGS: Final = 8.0
"""What the same column of two siblings counts for, to that of another pair: few pairs say how they are alike."""
FOLLOWING: Final = 9.0
"""The same of two rows that follow each other: a chain goes on by these pairs."""
ORDER: Final = 27.0
"""The same of the order column: without it a chain has no order."""
FAR: Final = 2.0
"""What a pair counts for that has a column of a row two steps below a unit's own: fewer units have such rows."""


@dataclass(frozen=True)
class Slot:
    """The columns of one row of a unit.

    Attributes:
        table: whose row it is.
        role: that it has, None of a child without one.
        nth: which child of its role of the row in `above` it is, from 0 on.
        above: the place of the slot of its parent's row among all slots; None of the root's.
        names: in the flat domain, of the table's columns and then of the numbers of its children.
        sure: whether every unit has it.
    """

    table: str
    nth: int
    above: int | None
    names: tuple[str, ...]
    sure: bool
    role: Role | None = None


@dataclass(frozen=True)
class Below:
    """A column that says how many rows of a table a row above has: without a role, or with one that need not be.

    Attributes:
        link: of the table below.
        role: whose rows are counted; None of those without one.
        before: of a link in order, whether it is of those that come before the two that a unit's row holds.
    """

    link: Link
    role: Role | None = None
    before: bool = False

    @property
    def starts(self) -> tuple[int, ...]:
        """The least number of rows in each bin: of a role there is one row or none."""
        if self.before:
            return tuple(start - 1 for start in self.link.starts if start)
        return self.link.starts if self.role is None else (0, 1)

    @property
    def name(self) -> str:
        """What the column is called, unless that name is taken."""
        what = "before" if self.before else "number" if self.role is None else self.role.name
        return f"{self.link.child}.{what}"


@dataclass(frozen=True)
class UnitRow:
    """The flat domain of a tree, and which of its columns stand for which row of a unit.

    Attributes:
        tree: the tables.
        members: the domain of each, and of `UNITS` the empty one; columns of keys are excluded there.
    """

    tree: Tree
    members: Mapping[str, Domain]

    def extended(self, table: str) -> Domain:
        """The domain of a table with the numbers of its children, under the names of those tables."""
        taken = {fold(name) for name in self.members[table].names}
        numbers = [number_of_children(below.starts, _free(below.name, taken)) for below in self.below(table)]
        return Domain((*self.members[table], *numbers))

    def below(self, table: str) -> tuple[Below, ...]:
        """The columns that say which rows there are below a row of a table, in the order of `extended`."""
        columns: list[Below] = []
        for link in self.tree.children(table):
            columns += [Below(link), *(Below(link, role) for role in link.roles if not role.always)]
            columns += [Below(link, before=True)] if link.ordered_by else []
        return tuple(columns)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The root's first; a parent's before those of its children."""
        slots: list[Slot] = []
        taken: set[str] = set()
        if self.tree.root == UNITS:  # so that no column of units is taken for one of the table
            taken |= {fold(name) for table in self.tree.tables for name in self.members[table].names}

        def add(table: str, nth: int, above: int | None, role: Role | None = None) -> None:
            prefix = "" if above is None else prefix_of(table, nth, None if role is None else role.name)
            names = tuple(_free(prefix + name, taken) for name in self.extended(table).names)
            place = len(slots)
            sure = above is None or (nth == 0 and slots[above].table == UNITS)
            slots.append(Slot(table, nth, above, names, sure, role))
            if nth == 0 and role is None:
                for link in self.tree.children(table):
                    for own_role in link.roles:
                        add(link.child, 0, place, own_role)
                    for number in range(min(MOST_SLOTS, link.most)):
                        add(link.child, number, place)

        add(self.tree.root, 0, None)
        return tuple(slots)

    @cached_property
    def domain(self) -> Domain:
        """The columns of all slots; those that not every unit has have a code for no row."""
        attributes: list[Attribute] = []
        for slot in self.slots:
            own = self.extended(slot.table).attributes
            attributes += [replace(a, name=n, absent=not slot.sure) for a, n in zip(own, slot.names, strict=True)]
        return Domain(tuple(attributes))

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the columns of each slot are in the flat domain."""
        ends = list(itertools.accumulate(len(slot.names) for slot in self.slots))
        return tuple(slice(end - len(slot.names), end) for slot, end in zip(self.slots, ends, strict=True))

    def slot_of(self, table: str, nth: int, role: Role | None = None) -> int | None:
        """The place of the slot of a table's nth row of a role below first rows; None where there is none."""
        wanted = (table, nth, role)
        return next((p for p, slot in enumerate(self.slots) if (slot.table, slot.nth, slot.role) == wanted), None)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of all numbers of children in the flat domain; whether a role is there is none."""
        numbers: list[str] = []
        for slot in self.slots:
            names = slot.names[len(self.members[slot.table]) :]
            numbers += [n for n, below in zip(names, self.below(slot.table), strict=True) if below.role is None]
        return tuple(numbers)

    @cached_property
    def orders(self) -> dict[str, tuple[str, str]]:
        """Of each table in order, the order column of the two rows that a unit's row holds, the earlier one first."""
        slots_in_order = {}
        for link in self.tree.links:
            if link.ordered_by:
                place = self.members[link.child].names.index(link.ordered_by)
                slots = [self.slots[p].names[place] for n in (0, 1) if (p := self.slot_of(link.child, n)) is not None]
                if len(slots) == MOST_SLOTS:  # of rows below a role, or below a second row, there are none
                    slots_in_order[link.child] = (slots[0], slots[1])
        return slots_in_order

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns of rows that a digest chooses among several of a unit."""
        return tuple(name for slot in self.slots if slot.above is not None and slot.role is None for name in slot.names)

    def _presence(self, slot: Slot) -> str | None:
        """The name of the column that says whether a row with the slot's role is there; None where none is asked."""
        if slot.above is None or slot.role is None or slot.role.always:
            return None
        above = self.slots[slot.above]
        place = self.below(above.table).index(Below(self.tree.link_of[slot.table], slot.role))
        return above.names[len(self.members[above.table]) + place]

    @cached_property
    def column_of(self) -> dict[str, tuple[str, str]]:
        """The table and column that each column of the flat domain stands for; numbers of children stand for none."""
        origins: dict[str, tuple[str, str]] = {}
        for slot in self.slots:
            own = self.members[slot.table].names
            origins |= {name: (slot.table, column) for name, column in zip(slot.names, own, strict=False)}
        return origins

    @cached_property
    def slot_of_column(self) -> dict[str, int]:
        """The place of the slot of each column of the flat domain."""
        return {name: place for place, slot in enumerate(self.slots) for name in slot.names}

    def workload(self) -> Workload:
        """The pairs of columns that say something of their own: most of one row, of rows above each other, and apart.

        left out     how many rows come before two in order, but with the earlier one's columns and the number of all
                     columns of a second child and of rows below the first one, or of rows above its parent: the first
                     child has the same pairs, for a digest says which is first; different columns of two siblings
        8 times      the same column of two siblings, by which alone they are seen to be alike
        2 times      with a row that has two rows above it or more: fewer units have one
        """
        wholes = self.former_workload()
        weighed = [(clique, self._weight(clique)) for clique in wholes.cliques]
        chosen = tuple(clique for clique, weight in weighed if weight > 0)
        return Workload(chosen, (), tuple(part for part in weighed if part[1] > 1)).ordered()

    @cached_property
    def implied(self) -> frozenset[Clique]:
        """The pairs of columns, in the domain's order, that the workload leaves out because they follow from others."""
        pairs = itertools.combinations(self.domain.names, 2)
        return frozenset(pair for pair in pairs if self._weight(pair) == 0)

    def former_workload(self) -> Workload:
        """All pairs of columns: what an earlier version measured."""
        pairs = tuple(itertools.combinations(self.domain.names, 2))
        return Workload(pairs or tuple((name,) for name in self.domain.names)).ordered()

    def _weight(self, clique: Clique) -> float:
        """What a pair of columns counts for; 0 of one that is left out."""
        if len(clique) < 2:
            return 1.0
        if any(self._is_apart(*pair) for pair in itertools.permutations(clique)):
            return 0.0
        places = {name: self.slot_of_column[name] for name in clique}
        upper, lower = sorted(clique, key=lambda name: (len(self._above(places[name])), places[name]))
        upper_place, two = places[upper], places[lower]
        first, second = self.slots[upper_place], self.slots[two]
        if upper_place != two and (first.table, first.above, first.role) == (second.table, second.above, second.role):
            is_same = first.names.index(upper) == second.names.index(lower)
            if is_same and self.tree.link_of[first.table].ordered_by:
                return ORDER if (upper, lower) in self.orders.values() else FOLLOWING
            return SIBLINGS if is_same else 0.0
        above = self._above(two)
        if second.nth > 0 and upper_place in above[1:]:
            return 0.0
        if first.nth > 0 and any(self.slot_of(first.table, 0) == place for place in above):
            return 0.0
        return FAR if len(above) > 1 else 1.0

    def _is_apart(self, before: str, other: str) -> bool:
        """Whether a column says how many rows come before those of a slot, and the other one is not of their link."""
        below, place, where = self.below_of(before), self.slot_of_column[before], self.slot_of_column[other]
        if below is None or not below.before:
            return False
        slot = self.slots[where]
        if where == place:
            return self.below_of(other) != Below(below.link)
        return (slot.table, slot.above, slot.nth) != (below.link.child, place, 0)

    def below_of(self, name: str) -> Below | None:
        """Which rows below a column of the flat domain counts; None of a column of a table."""
        slot = self.slots[self.slot_of_column[name]]
        number = slot.names.index(name) - len(self.members[slot.table])
        return None if number < 0 else self.below(slot.table)[number]

    def _above(self, place: int) -> list[int]:
        """The slots of the rows above that of a slot, the nearest first."""
        places = list[int]()
        above = self.slots[place].above
        while above is not None:
            places.append(above)
            above = self.slots[above].above
        return places

    def allowed(self, table: str, role: Role | None, parts: Sequence[Allowed]) -> list[Allowed]:
        """What is allowed of the rows of a table that have a role, or none, of each of their slots.

        No row is allowed, too, but for a role that every unit has. The column that says whether a role is there goes
        with the first part, which is that of the role's own predicate.
        """
        allowed_parts = []
        for slot in self.slots:
            if slot.table != table or slot.role != role:
                continue
            if self._is_always(slot):
                allowed_parts += self._there(slot, parts)
                continue
            presence = self._presence(slot)
            for number, part in enumerate(parts):
                allowed_parts.append(self._placed(slot, part, None if number else presence))
        return allowed_parts

    def _is_always(self, slot: Slot) -> bool:
        """Whether every drawn unit has a row in a slot below the root."""
        return slot.above == 0 and slot.role is not None and slot.role.always

    def _there(self, slot: Slot, parts: Sequence[Allowed]) -> list[Allowed]:
        """What is allowed of the columns of a slot in which there is a row."""
        allowed_parts = [self._placed(slot, part, None, none=False) for part in parts]
        tied = {name for part in allowed_parts for name in part.clique}
        for name in slot.names:
            if name not in tied:
                attribute = self.domain.by_name[name]
                codes = np.array([code for code in range(attribute.size) if code != attribute.absent_code], np.int64)
                allowed_parts.append(Allowed((name,), (name,), (), codes[:, None], np.zeros((len(codes), 1))))
        return allowed_parts

    def _placed(self, slot: Slot, part: Allowed, presence: str | None, *, none: bool = True) -> Allowed:
        """What is allowed of a table's columns, said of those of a slot; `none` lets no row be there, too."""
        names = dict(zip(self.extended(slot.table).names, slot.names, strict=True))
        clique, columns = tuple(names[name] for name in part.clique), tuple(names.get(n, n) for n in part.columns)
        codes, places = part.codes, part.places
        if slot.sure or not clique:
            return Allowed(clique, columns, part.predicates, codes, places)
        absent = np.array([self.domain.by_name[name].absent_code for name in clique], np.int64)
        codes = codes + (codes >= absent)
        if presence is not None:
            clique, columns = (presence, *clique), (presence, *columns)
            codes = np.concatenate([np.ones((len(codes), 1), np.int64), codes], axis=1)
            above = self.domain.by_name[presence].absent_code
            missing = [[0, *absent], *([] if above is None else [[above, *absent]])]
        else:
            missing = [[*absent]] if none else []
        codes = np.concatenate([codes, np.array(missing, np.int64).reshape(-1, len(clique))])
        places = np.zeros(codes.shape)
        places[: len(part.places), len(clique) - len(part.clique) :] = part.places
        order = np.lexsort(codes.T[::-1])
        return Allowed(clique, columns, part.predicates, codes[order], places[order])

    def to_json(self) -> dict[str, Any]:
        """For the canonical request: all but the domains of the columns."""
        links: list[list[Any]] = []
        for link in self.tree.links:
            roles = [[[role.name, role.where, role.always] for role in link.roles]] if link.roles else []
            links.append([link.child, link.parent, link.key, link.references, link.most, *roles])
        columns = {table: [a.name for a in domain] for table, domain in self.members.items()}
        order = {link.child: link.ordered_by for link in self.tree.links if link.ordered_by}
        stated = {"root": self.tree.root, "links": links, "columns": columns}
        return stated | ({"order": order} if order else {})

    @staticmethod
    def from_json(data: Mapping[str, Any], flat: Domain) -> UnitRow:
        """The tree of a release and the domains of its members, as far as those are in the flat domain."""
        links, order = [], data.get("order", {})
        for child, parent, key, references, most, *roles in data["links"]:
            roles_read = tuple(Role(*role) for listed in roles for role in listed)
            links.append(Link(child, parent, tuple(key), tuple(references), most, roles_read, order.get(child, "")))
        tree = Tree(data["root"], tuple(links))
        attributes, members = iter(flat), {}
        names: Mapping[str, list[str]] = data["columns"]
        shape = UnitRow(tree, {t: Domain(tuple(_stand_in(n) for n in names[t])) for t in names})
        for slot in shape.slots:
            own = [next(attributes) for _ in slot.names][: len(names[slot.table])]
            inner = zip(own, names[slot.table], strict=True)
            members[slot.table] = Domain(tuple(replace(a, name=n, absent=False) for a, n in inner))
        return UnitRow(tree, members)


def number_of_children(starts: Sequence[int], name: str) -> Attribute:
    """The column that says how many rows of a table a row above has, in bins.

    Args:
        starts: the least number in each bin; the last bin is open at the top.
        name: of the column.

    >>> number_of_children(Link("visits", "patients", ("pid",), ("pid",), most=7).starts, "n").labels()
    ['0', '1', '2', '3', '4', '[5, 7)', '7']
    """
    ticks = (*starts, starts[-1] + 1)
    edges = (*map(str, starts), str(starts[-1]))
    return Attribute(name, "BIGINT", "bins", ticks=ticks, edges=edges)


def _stand_in(name: str) -> Attribute:
    return Attribute(name, "BOOLEAN", "values", ("false", "true"))


def _free(name: str, taken: set[str]) -> str:
    """A name that is not taken, which it is from now on."""
    while fold(name) in taken:
        name = f"{name}_"
    taken.add(fold(name))
    return name
