"""Tables of a tree from rows of units: how many children, which, and whose they are. Made of noisy answers only.

    first child     what the unit's own slot says, else drawn as rows above it tell (`dpsql.release.child_rows`)
    second child    likewise, as the first child tells, too
    later ones      drawn as the first eight children and rows above tell; where a column has more than 24 values, or a
                    value fewer than 100 units, lent by a unit like one of the children before and the rows above
    in order        of a link in order the two that follow each other, and chains from there (`dpsql.release.chains`)
    row of a role   what the unit's own slot says, else lent by a unit whose rows above are like it
    numbers         inside their bins as `dpsql.release.inside_bins` draws, so rows of a table are the sum of them

Whose child a row is is decided while it is drawn. So keys that are numbered afterwards fit by construction.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.tree import Link, Role
from dpsql.core.unit_row import Below, UnitRow
from dpsql.errors import DpsqlError
from dpsql.evaluation.ruled_rows import DrawnTable, Rules
from dpsql.release.chains import Chains, Pairs, Parents, rising
from dpsql.release.child_rows import ChildRows, Places, together
from dpsql.release.drawing import coded
from dpsql.release.lending import LEVELS, LEVELS_OF_OTHERS, Lenders
from dpsql.release.replaced_units import replaced, roots_of
from dpsql.release.rule_drawing import Drawn, RuleDrawing
from dpsql.release.unit_slots import any_values, slots_of
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]
_AT_ONCE: Final = 20_000_000
"""Rows of children times values, together: a step that can be interrupted, and needs little memory."""


_BORROWED_AT_ONCE: Final = 200_000
_MOST_BESIDE: Final = 8
"""Children whose values tell of later ones: what is drawn of what was drawn would be less and less alike."""
_WIDEST: Final = 24
"""Values of a column; of more of them no regression learns how alike siblings are."""
_UNITS_OF_A_VALUE: Final = 100


class TooManyRows(Exception):
    """A table would have more rows than the memory holds."""


def draw_tables(
    unit_row: UnitRow,
    units: Codes,
    lenders: Codes | None,
    generator: np.random.Generator,
    progress: Progress,
    most: Mapping[str, int],
    rules: Rules,
    ruling: RuleDrawing | None = None,
    strict: Container[str] = frozenset(),
) -> tuple[dict[str, DrawnTable], int]:
    """The tables of a tree, and how many units have the rows of others, since no values were found that obey rules.

    Args:
        unit_row: the flat domain.
        units: codes of drawn units in it, shape (units, columns).
        lenders: of other units, which lend what a unit's own row does not say; None if `units` lend to each other.
        generator: of the draws.
        progress: notified between tables.
        most: how many rows each table may have.
        rules: what is allowed of the rows of each table, by their role.
        ruling: lets rows obey rules between rows; None where there are none.
        strict: tables in order, of which no two rows of one parent have equal codes of the order column.

    Raises:
        TooManyRows: a table would have more.
        DpsqlError: no unit obeys the rules.
    """
    levels = LEVELS if lenders is None else LEVELS_OF_OTHERS
    lenders = units if lenders is None else lenders
    drawing = _Drawing(unit_row, units, lenders, levels, generator, progress, most, rules, ruling, strict)
    root = unit_row.slots[0]
    drawing.grow(root.table, drawing.own[0], np.arange(len(units)), None, np.full(len(units), -1))
    return _whole(drawing), int(drawing.stuck.sum())


def _whole(drawing: _Drawing) -> dict[str, DrawnTable]:
    """The tables, where units that are stuck have the rows of others.

    Raises:
        DpsqlError: all units are stuck.
        TooManyRows: those have too many.
    """
    stuck, tree = drawing.stuck, drawing.unit_row.tree
    if not stuck.any():
        return drawing.tables
    if stuck.all():
        assert drawing.ruling is not None
        words = " and ".join(repr(rule.predicate) for rule in drawing.ruling.ruled.rules)
        raise DpsqlError(
            f"{words}: no values of some rows were found for which they hold together with the rows above and beside "
            "them. Take one back, dp_constraint(…, remove := true); then the same call completes the release, free"
        )
    tables = replaced(tree, drawing.tables, stuck, drawing.generator)
    if any(len(table.codes) > drawing.most[name] for name, table in tables.items()):
        raise TooManyRows
    return tables


@dataclass
class _Drawing:
    """The work of `draw_tables`.

    Attributes:
        tables: drawn so far.
        stuck: which units have a row for which no values were found that obey rules.
        own, there: of `units` by `_slots_of`.
        lent, lending: of `lenders` likewise.
        lines: of each table that has tables below, its rows' codes and those of the rows above them, the nearest first.
        levels: see `LEVELS`.
    """

    unit_row: UnitRow
    units: Codes
    lenders: Codes
    levels: Sequence[float]
    generator: np.random.Generator
    progress: Progress
    most: Mapping[str, int]
    rules: Rules
    ruling: RuleDrawing | None
    strict: Container[str]
    tables: dict[str, DrawnTable] = field(default_factory=dict)
    stuck: npt.NDArray[np.bool_] = field(init=False)
    own: list[Codes] = field(init=False)
    there: list[npt.NDArray[np.bool_]] = field(init=False)
    lent: list[Codes] = field(init=False)
    lending: list[npt.NDArray[np.bool_]] = field(init=False)
    lines: dict[str, Codes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stuck = np.zeros(len(self.units), bool)
        self.own, self.there = slots_of(self.unit_row, self.units)
        self.lent, self.lending = slots_of(self.unit_row, self.lenders)

    def grow(self, table: str, rows: Codes, unit: Codes, up: Codes | None, role: Codes) -> None:
        """Keep the rows of a table, and draw those below.

        Args:
            table: whose rows they are.
            rows: codes of its columns and numbers of children.
            unit: the unit whose first row of that table it is, -1 where it was lent.
            up: see `DrawnTable`.
            role: likewise.
        """
        self.progress.check()
        if len(rows) > self.most[table]:
            raise TooManyRows
        domain = self.unit_row.extended(table)
        frame, columns = coded(domain, rows, self.generator), len(self.unit_row.members[table])
        self._rise(table, frame, up)
        mine = {name: values for name, values in frame.items() if int(name[1:]) < columns}
        self.tables[table] = DrawnTable(rows[:, :columns], mine, up, role)
        below = self.unit_row.below(table)
        counts = {number: np.asarray(frame[f"t{columns + place}"], np.int64) for place, number in enumerate(below)}
        if self.ruling is not None:
            roots = roots_of(self.unit_row.tree, self.tables, table, np.arange(len(rows)))
            stuck = self.ruling.beside(self.tables).obey(Drawn(table, rows, mine, counts), self.stuck[roots])
            self.stuck[roots[stuck]] = True
        if links := self.unit_row.tree.children(table):
            above = self.unit_row.tree.link_of.get(table)
            self.lines[table] = rows if above is None else np.hstack([rows, self.lines[above.parent][up]])
        for link in links:
            single = np.ones(len(rows), np.int64)
            roles = {role: single if role.always else counts[Below(link, role)] for role in link.roles}
            if sum(int(numbers.sum()) for numbers in (counts[Below(link)], *roles.values())) > self.most[link.child]:
                raise TooManyRows
            parts = [self._of_role(link, role, unit, numbers) for role, numbers in roles.items()]
            if link.ordered_by:
                parts.append(self._in_order(link, rows, unit, counts[Below(link)], counts[Below(link, before=True)]))
            else:
                parts.append(self._children(link, unit, counts[Below(link)]))
            joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
            joined.append(np.repeat([*range(len(roles)), -1], [len(part[2]) for part in parts]))
            order = np.argsort(joined[2], kind="stable")  # of rows of one parent those with a role first
            self.grow(link.child, *(column[order] for column in joined))

    def _of_role(self, link: Link, role: Role, unit: Codes, numbers: Codes) -> tuple[Codes, Codes, Codes]:
        """Draw the rows of a role, of which each row above has one or none; see `_children`."""
        slot = self.unit_row.slot_of(link.child, 0, role)
        assert slot is not None
        up = np.flatnonzero(numbers)
        rows, _ = self._firsts(slot, up, unit[up])
        return rows, np.full(len(up), -1), up

    def _lent_line(self, slot: int | None) -> Codes:
        """Of each lender the codes of a slot's row and of the rows above it, as in `lines`."""
        parts = []
        while slot is not None:
            parts.append(self.lent[slot])
            slot = self.unit_row.slots[slot].above
        return np.hstack(parts)

    def _firsts(self, slot: int, up: Codes, whose: Codes) -> tuple[Codes, Codes]:
        """The first row of a slot's role of each of some rows above, and whose it is; -1 where it is lent."""
        upper = self.unit_row.slots[slot].above
        assert upper is not None
        both = self.lending[upper] & self.lending[slot]
        lenders = Lenders(self._lent_line(upper)[both], self._values(slot, both), self.levels, self.generator)
        rows, owner = np.zeros((len(whose), self.own[slot].shape[1]), np.int64), np.full(len(whose), -1)
        own = (whose >= 0) & self.there[slot][whose]
        rows[own], owner[own] = self.own[slot][whose[own]], whose[own]
        rows[~own] = lenders.lend(self.lines[self.unit_row.slots[upper].table][up[~own]])
        return rows, owner

    def _children(self, link: Link, unit: Codes, numbers: Codes) -> tuple[Codes, Codes, Codes]:
        """Draw the rows of a table below that have no role, of which each row above has a number.

        Returns:
            Their codes, of which unit each is the first row, or -1, and their parents in order.
        """
        first, second = (self.unit_row.slot_of(link.child, nth) for nth in (0, 1))
        assert first is not None
        up = np.repeat(np.arange(len(numbers)), numbers)
        nth = np.arange(len(up)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        rows = np.zeros((len(up), self.own[first].shape[1]), np.int64)
        owner = np.full(len(up), -1)
        there = np.zeros(len(up), bool)
        for place, slot in enumerate((first, second)):
            mine = np.flatnonzero(nth == place)
            whose = unit[up[mine]]
            if slot is not None:
                own = (whose >= 0) & self.there[first][whose] & self.there[slot][whose]
                rows[mine[own]], there[mine[own]] = self.own[slot][whose[own]], True
                owner[mine[own]] = whose[own] if place == 0 else -1
        if not there.all():
            if second is None or self._shows_likeness(first):
                self._beside(first, second, rows, there, nth, up)
            else:
                self._borrowed((first, second), rows, there, nth, up, unit)
        return rows, owner, up

    def _shows_likeness(self, slot: int) -> bool:
        """Whether so many units lend that a regression learns how alike rows are in each column."""
        widest = 1 + max(int(codes[slot].max(initial=0)) for codes in (self.own, self.lent))
        return widest <= min(_WIDEST, int(self.lending[slot].sum()) // _UNITS_OF_A_VALUE)

    def _beside(
        self, first: int, second: int | None, rows: Codes, there: npt.NDArray[np.bool_], nth: Codes, up: Codes
    ) -> None:
        """Fill the rows that are not there yet: as many at once as there are before them."""
        upper = self.unit_row.slots[first].above
        assert upper is not None
        above, lent = self.lines[self.unit_row.slots[upper].table], self._lent_line(upper)
        lends_above = self.lending[upper] & self.lending[first]
        firsts, lines = self._values(first, lends_above), lent[lends_above] if lends_above.any() else lent[:0]
        if not lends_above.any():
            rows[~there] = firsts[self.generator.integers(0, len(firsts), int((~there).sum()))]
            return
        two = lends_above & self.lending[first if second is None else second]
        seconds = self.lent[first if second is None else second][two]
        places = Places.of(above, lent), Places.of(firsts, seconds)
        pool = np.vstack([firsts, seconds])
        check = self.progress.check

        @cache  # which of them is needed shows while rows are drawn, and to learn takes seconds
        def alone() -> ChildRows:
            return ChildRows(lines, firsts, None, pool, places, self.generator, check)

        @cache
        def later() -> ChildRows:
            both = np.vstack([self.lent[first][two], seconds]), np.vstack([seconds, self.lent[first][two]])
            return ChildRows(np.vstack([lent[two]] * 2), both[0], both[1], pool, places, self.generator, check)

        ends = np.searchsorted(up, np.arange(len(above) + 1))
        most = _AT_ONCE // max(1, sum(places[1].sizes))
        for start, end in together(ends, most):
            part = np.arange(ends[start], ends[end])
            before = np.zeros((end - start, sum(places[1].sizes)), np.float32)
            number = 0
            while True:
                self.progress.check()
                until = max(1, 2 * number) if number < _MOST_BESIDE else len(rows)
                step = part[(nth[part] >= number) & (nth[part] < until)]
                if not len(step):
                    break
                wanted = step[~there[step]]
                if len(wanted) and (number == 0 or not two.any()):
                    rows[wanted] = alone().draw(above[up[wanted]], None, 0)
                elif len(wanted):
                    rows[wanted] = later().draw(above[up[wanted]], before[up[wanted] - start], number)
                if number == _MOST_BESIDE:
                    break
                np.add.at(before, up[step] - start, places[1].shown(rows[step]))
                number = max(1, 2 * number)

    def _borrowed(
        self, slots: tuple[int, int], rows: Codes, there: npt.NDArray[np.bool_], nth: Codes, up: Codes, unit: Codes
    ) -> None:
        """Fill the rows that are not there yet with those that alike units have: as many at once as are before them."""
        first, second = slots
        upper = self.unit_row.slots[first].above
        assert upper is not None
        mine = np.flatnonzero((nth == 0) & ~there)
        rows[mine], _ = self._firsts(first, up[mine], unit[up[mine]])
        both, held = self.lending[upper] & self.lending[first] & self.lending[second], second
        if not both.any():  # of first rows all that is known of a row
            both, held = self.lending[upper] & self.lending[first], first
        lenders = Lenders(self._lent_line(first)[both], self._values(held, both), self.levels, self.generator)
        above, itself = self.lines[self.unit_row.slots[upper].table], None
        if self.lenders is self.units:
            itself = np.full(len(self.units) + 1, -1)  # the last place is of rows that are of no unit
            itself[np.flatnonzero(both)] = np.arange(both.sum())
        start, last = 1, int(nth.max(initial=0))
        while start <= last:
            left = np.flatnonzero((nth >= start) & (nth < 2 * start) & ~there)
            for place in range(0, len(left), _BORROWED_AT_ONCE):
                self.progress.check()
                part = left[place : place + _BORROWED_AT_ONCE]
                before = part - nth[part] + self.generator.integers(0, start, len(part))
                wanted = np.hstack([rows[before], above[up[part]]])
                rows[part] = lenders.lend(wanted, own=None if itself is None else itself[unit[up[part]]])
            start *= 2

    def _in_order(
        self, link: Link, above: Codes, unit: Codes, numbers: Codes, before: Codes
    ) -> tuple[Codes, Codes, Codes]:
        """Draw the rows of a link in order; see `_children`, and `Below.before`."""
        first, second = (self.unit_row.slot_of(link.child, nth) for nth in (0, 1))
        assert first is not None
        assert second is not None
        up = np.flatnonzero(numbers)
        whose = unit[up]
        rows, owner = np.zeros((0, self.own[first].shape[1]), np.int64), np.full(int(numbers.sum()), -1)
        if not len(up):
            return rows, owner, up
        earlier, mine = self._firsts(first, up, whose)
        own = (whose >= 0) & self.there[first][whose] & self.there[second][whose]
        later = np.where(own[:, None], self.own[second][whose], 0)
        chains = Chains(
            self._pairs(link, first, second),
            self._parents(link, above[up], numbers[up], before[up]),
            self.generator,
            self.progress.check,
        )
        rows, places = chains.draw(earlier, later, own)
        owner[places] = mine
        return rows, owner, np.repeat(up, numbers[up])

    def _pairs(self, link: Link, first: int, second: int) -> Pairs:
        """The units that lend rows of a link in order."""
        upper = self.unit_row.slots[first].above
        assert upper is not None
        both = self.lending[upper] & self.lending[first] & self.lending[second]
        earlier, above = self.lent[first][both], self.lent[upper][both]
        later = self.lent[second][both]
        if not both.any():  # nobody has two rows: those of which little is known follow each other
            earlier = later = self._values(first, both)
            above = np.zeros((len(earlier), self.lent[upper].shape[1]), np.int64)
        members = self.unit_row.members
        order = members[link.child].names.index(link.ordered_by)
        before = len(members[link.parent]) + self.unit_row.below(link.parent).index(Below(link, before=True))
        attribute = members[link.child].attributes[order]
        return Pairs(earlier, later, above, before, order, attribute, link.child in self.strict)

    @staticmethod
    def _parents(link: Link, above: Codes, numbers: Codes, before: Codes) -> Parents:
        starts = np.array(Below(link, before=True).starts)
        return Parents(above, numbers, before, lambda rows: np.searchsorted(starts, rows, side="right") - 1)

    def _rise(self, table: str, frame: dict[str, npt.NDArray[Any]], up: Codes | None) -> None:
        """Let places inside bins of the order column rise with the rows of each parent, whose bins do."""
        link = self.unit_row.tree.link_of.get(table)
        if link is None or not link.ordered_by or up is None:
            return
        place = self.unit_row.members[table].names.index(link.ordered_by)
        attribute, codes = self.unit_row.members[table].attributes[place], frame[f"c{place}"]
        frame[f"t{place}"] = rising(attribute, codes, frame[f"t{place}"], up)

    def _values(self, slot: int, units: npt.NDArray[np.bool_]) -> Codes:
        """What units lend of a slot; where none has it, values by themselves, as far as they are known."""
        if units.any():
            return self.lent[slot][units]
        held = self.unit_row.slots[slot]
        rules = self.rules[held.table][held.role]
        return any_values(self.unit_row, held, self.own[slot], rules, self.generator)
