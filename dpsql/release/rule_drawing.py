"""Rows drawn so that they obey rules between rows of a tree: the parent's first, then each given those before.

    1  as they were drawn, where they obey
    2  elsewhere in their bins
    3  with the values of a row that obeys and takes theirs, where both obey then: no column has other values in all
    4  with the values of a row that is like them and like the rows that are given, which obey
    5  with any declared values that obey
    6  with all rows of another unit, see `dpsql.release.replaced_units`

What changes are the columns that a rule names, and those that facts about one row tie to them. Keys, numbers of rows
and roles stay. A row that has rows below it is drawn so that these can obey: it, not they, takes another value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.link_rule import LinkRule
from dpsql.core.steps import released_ticks
from dpsql.core.unit_row import Below, UnitRow
from dpsql.evaluation.constraints import settle_bins
from dpsql.evaluation.presence import is_allowed
from dpsql.evaluation.ruled_rows import Codes, DrawnTable, RuledRows, Rules, Stage, Truths, stages_of
from dpsql.evaluation.sandbox import one_empty_database
from dpsql.release.lending import LEVELS_OF_OTHERS, Lenders
from dpsql.runtime.progress import Progress

_REDRAWS: Final = 4
_FEWER: Final = tuple(LEVELS_OF_OTHERS[start:] for start in range(len(LEVELS_OF_OTHERS) + 1))
"""Which rows are asked, one time after the other: those that are alike in fewer and fewer columns."""
_EXCHANGES: Final = 12
"""How often those that are as alike are asked to exchange values."""
_IDLE: Final = 50
"""Those are asked no more who helped less than one row in so many."""
_BORROWS: Final = tuple(levels for levels in _FEWER for _ in range(3))
_LENDERS: Final = 50_000
_ORDERS: Final = 40
"""In how many orders declared values are tried that obey a row's own rules, before all are tried one by one."""


@dataclass(frozen=True)
class Drawn:
    """Rows of one table while they are drawn; codes and ticks are changed in place.

    Attributes:
        table: whose they are.
        rows: codes of its columns and numbers of children.
        frame: of its own columns.
        counts: for each column of `UnitRow.below` how many rows there are.
    """

    table: str
    rows: Codes
    frame: dict[str, npt.NDArray[Any]]
    counts: Mapping[Below, Codes]


@dataclass(frozen=True)
class _Demand:
    """What rules ask of the rows of a stage.

    Attributes:
        names: the columns that may change for it: those that rules name, and those tied to them.
        own: rules of the rows.
        later: rules of rows that are drawn later, which these rows must leave values to.
    """

    names: Sequence[str]
    own: Sequence[LinkRule]
    later: Sequence[tuple[Stage, Sequence[LinkRule]]]

    @classmethod
    def of(
        cls,
        ruled: RuledRows,
        stage: Stage,
        own: Sequence[LinkRule],
        later: Sequence[tuple[Stage, Sequence[LinkRule]]],
    ) -> _Demand:
        """What some rules ask."""
        demand = cls((), own, later)
        given = [part for rule in demand.rules for part in rule.given]
        parts = [rule.subject for rule in own]
        parts += [part for part in given if part.table == stage.table and part.role in (None, stage.role)]
        return replace(demand, names=ruled.tied(stage, [name for part in parts for name in part.columns]))

    @property
    def rules(self) -> list[LinkRule]:
        """All of them."""
        return [*self.own, *(rule for _, rules in self.later for rule in rules)]

    def apart(self, ruled: RuledRows, stage: Stage) -> list[_Demand]:
        """The same as demands that share no column."""
        demands: list[_Demand] = []
        for demand in [
            *(_Demand.of(ruled, stage, [rule], []) for rule in self.own),
            *(_Demand.of(ruled, stage, [], [pair]) for pair in self.later),
        ]:
            touched = [other for other in demands if not {*other.names}.isdisjoint(demand.names)]
            together = [*touched, demand]
            own, later = [r for d in together for r in d.own], [pair for d in together for pair in d.later]
            demands = [other for other in demands if other not in touched] + [_Demand.of(ruled, stage, own, later)]
        return demands


@dataclass(frozen=True)
class RuleDrawing:
    """The rules of a release, and how rows come to obey them.

    Attributes:
        unit_row: of the tree.
        ruled: the rules, and the rows drawn so far.
        facts: what is allowed of the rows of each table, whatever their role.
        limits: of each table and role what is allowed of a row and of whether rows with a role are below it.
        generator: of the draws.
        progress: notified between steps.
    """

    unit_row: UnitRow
    ruled: RuledRows
    facts: Mapping[str, Sequence[Allowed]]
    limits: Rules
    generator: np.random.Generator
    progress: Progress

    def beside(self, tables: Mapping[str, DrawnTable]) -> RuleDrawing:
        """The same where some tables are drawn."""
        return replace(self, ruled=replace(self.ruled, tables=tables))

    def obey(self, drawn: Drawn, stuck: Truths) -> Codes:
        """Let rows of a table obey its rules, and let later rows be able to.

        Args:
            drawn: the rows.
            stuck: those of units that have a row already for which no values were found: they stay.

        Returns:
            The rows for which no values were found.
        """
        role, work = self.ruled.tables[drawn.table].role, list[tuple[Stage, _Demand, Codes]]()
        for stage in stages_of(self.unit_row.tree, drawn.table):
            at = np.flatnonzero((role == stage.number) & ~stuck)
            demand = _Demand.of(self.ruled, stage, self.ruled.of(stage), self.ruled.later(stage))
            if len(at) and demand.rules:
                work.append((stage, demand, at))
        if work:
            self._settle(drawn, np.arange(len(drawn.rows)))
        with one_empty_database():
            return np.concatenate([np.zeros(0, np.int64), *(self._draw(drawn, *job) for job in work)])

    def _draw(self, drawn: Drawn, stage: Stage, demand: _Demand, at: Codes) -> Codes:
        needs = {other: self._needs(drawn, stage, other) for other, _ in demand.later}

        def good(some: Codes, part: _Demand = demand, *, declared: bool = True) -> Truths:
            self.progress.check()
            holds = self.ruled.obeyed(part.own, some) & self._is_within(drawn, stage, some)
            for other, rules in part.later:
                left = np.flatnonzero(holds & needs[other][some])
                holds[left] = self.ruled.able(stage, other, rules, some[left], declared=declared)
            return holds

        own, names = demand.own, demand.names
        left = at[~good(at)]
        for _ in range(_REDRAWS):
            if not len(left):
                return left
            self._elsewhere(drawn, names, left, self.generator.random((len(left), len(names))))
            left = left[~good(left)]
        for part in demand.apart(self.ruled, stage):
            holds = good(at, part)
            self._exchange(drawn, part.names, at[holds], at[~holds], partial(good, part=part))
        left = at[~good(at, demand)]
        left = self._borrow(drawn, stage, own, names, np.setdiff1d(at, left), left, good)
        left = self._any(drawn, stage, names, left, good)
        if not any(self.ruled.may_be_null(other, rules) for other, rules in demand.later):
            return left
        return self._any(drawn, stage, names, left, partial(good, declared=False))  # with rows below that are NULL

    def _is_within(self, drawn: Drawn, stage: Stage, at: Codes) -> Truths:
        """Of rows of a stage, which have what is allowed of them and of whether rows with a role are below."""
        extended = self.unit_row.extended(drawn.table)
        columns, holds = {*self.unit_row.members[drawn.table].names}, np.ones(len(at), bool)
        for part in self.limits[drawn.table].get(stage.role, ()):
            if not columns.issuperset(part.clique):  # of its columns alone others see to it
                holds &= is_allowed(extended, part, drawn.rows[at])
        return holds

    def _needs(self, drawn: Drawn, stage: Stage, other: Stage) -> Truths:
        """Of all rows of the table, which have rows of a later stage."""
        if other.table == stage.table:
            table, link = self.ruled.tables[drawn.table], stage.link
            assert table.up is not None
            assert link is not None
            has = np.zeros(len(self.ruled.tables[link.parent].codes), bool)
            has[table.up[table.role == other.number]] = True
            return has[table.up]
        path = self.unit_row.tree.path(other.table)
        first = next(step for step in path if step.parent == drawn.table)
        direct = [count_of for count_of in drawn.counts if count_of.link == first]
        if first.child == other.table:
            if other.role is not None and other.role.always:
                return np.ones(len(drawn.rows), bool)
            direct = [count_of for count_of in direct if count_of.role == other.role]
        elif any(role.always for role in first.roles):
            return np.ones(len(drawn.rows), bool)
        return np.asarray(np.any([drawn.counts[count_of] > 0 for count_of in direct], axis=0), bool)

    def _elsewhere(self, drawn: Drawn, names: Sequence[str], at: Codes, places: npt.NDArray[np.float64]) -> None:
        """Draw ticks inside bins."""
        domain = self.unit_row.members[drawn.table]
        for number, name in enumerate(names):
            place = domain.names.index(name)
            if f"t{place}" in drawn.frame:
                ticks = released_ticks(domain.attributes[place], drawn.rows[at, place], places[:, number])
                drawn.frame[f"t{place}"][at] = ticks
        self._settle(drawn, at)

    def _settle(self, drawn: Drawn, at: Codes) -> None:
        """Let facts about one row hold inside bins, which does not change codes."""
        source, domain = self.ruled.sources[drawn.table], self.unit_row.members[drawn.table]
        facts = self.facts[drawn.table]
        if any(domain.by_name[name].kind == "bins" for part in facts for name in part.clique):
            some = {name: values[at] for name, values in drawn.frame.items()}
            settle_bins(source, domain, facts, drawn.rows[at][:, : len(domain)], some, self.generator)
            for name, values in some.items():
                drawn.frame[name][at] = values

    def _exchange(
        self, drawn: Drawn, names: Sequence[str], others: Codes, left: Codes, good: Callable[[Codes], Truths]
    ) -> Codes:
        """Let rows take the values of others that are alike and obey, which take theirs, where both obey then.

        Returns the rows that nobody can exchange with.
        """
        places = [self.unit_row.members[drawn.table].names.index(name) for name in names]
        rest = [place for place in range(drawn.rows.shape[1]) if place not in places]
        if not len(others) or not len(left):
            return left
        others = others[self.generator.permutation(len(others))[:_LENDERS]]
        alike = Lenders(drawn.rows[others][:, rest], drawn.rows[others][:, places], LEVELS_OF_OTHERS, self.generator)
        for levels in _FEWER:
            for _ in range(_EXCHANGES):
                other, first = np.unique(others[alike.choose(drawn.rows[left][:, rest], levels)], return_index=True)
                mine = left[first]
                _swap(drawn, places, mine, other)
                fine = good(np.concatenate([mine, other])).reshape(2, -1).all(axis=0)
                _swap(drawn, places, mine[~fine], other[~fine])
                is_idle = _IDLE * int(fine.sum()) < len(left)
                left = np.setdiff1d(left, mine[fine])
                if not len(left):
                    return left
                if is_idle:
                    break
        return left

    def _borrow(
        self,
        drawn: Drawn,
        stage: Stage,
        own: Sequence[LinkRule],
        names: Sequence[str],
        lenders: Codes,
        left: Codes,
        good: Callable[[Codes], Truths],
    ) -> Codes:
        """Let rows that are alike lend values, and return those that none helps."""
        places = [self.unit_row.members[drawn.table].names.index(name) for name in names]
        if not len(lenders) or not len(left):
            return left
        lenders = lenders[self.generator.permutation(len(lenders))[:_LENDERS]]
        values = drawn.rows[lenders][:, places]
        lenders_at_hand = Lenders(self._likeness(drawn, own, places, lenders), values, LEVELS_OF_OTHERS, self.generator)
        for levels in _BORROWS:
            if not len(left):
                break
            drawn.rows[left[:, None], places] = lenders_at_hand.lend(self._likeness(drawn, own, places, left), levels)
            self._changed(drawn, names, left, self.generator.random((len(left), len(names))))
            left = left[~good(left)]
        return left

    def _likeness(self, drawn: Drawn, own: Sequence[LinkRule], changed: Sequence[int], at: Codes) -> Codes:
        """By what rows are like each other: what does not change of them, and what rules give with them."""
        rest = [place for place in range(drawn.rows.shape[1]) if place not in changed]
        columns, table = [drawn.rows[at][:, rest]], self.ruled.tables[drawn.table]
        for part in {part for rule in own for part in rule.given}:
            assert table.up is not None
            parent = self.unit_row.tree.link_of[drawn.table].parent
            rows = self.ruled.given(part, parent, table.up[at])
            for name, codes in self.ruled.values(part, np.maximum(rows, 0)).items():
                if name.startswith("c"):
                    columns.append(np.where(rows >= 0, codes.astype(np.int64) + 1, 0)[:, None])
        return np.concatenate(columns, axis=1)

    def _any(
        self, drawn: Drawn, stage: Stage, names: Sequence[str], left: Codes, good: Callable[[Codes], Truths]
    ) -> Codes:
        """Try declared values in a random order, and return the rows for which none will do."""
        if not len(left):
            return left
        places = [self.unit_row.members[drawn.table].names.index(name) for name in names]
        own, up = self.ruled.of(stage), self.ruled.tables[drawn.table].up

        def without(left: Codes, codes: Codes, inside: npt.NDArray[np.float64]) -> Codes:
            drawn.rows[left[:, None], places] = codes
            self._changed(drawn, names, left, inside)
            return left[~good(left)]

        none: list[Codes] = []
        for _ in range(_ORDERS if own else 0):
            if not len(left):
                break
            assert up is not None
            assert stage.link is not None
            codes, inside = self.ruled.tuples(stage, names)
            fit = self.ruled.fitting(own, names, (codes, inside), stage.link.parent, up[left])
            fits = fit >= 0
            none.append(left[~fits])  # another order would not help these
            left = without(left[fits], codes[fit[fits]], inside[fit[fits]])
        left = np.concatenate([left, *none])
        codes, inside = self.ruled.tuples(stage, names)
        for number in range(len(codes)):
            if not len(left):
                break
            left = without(left, codes[[number] * len(left)], inside[[number] * len(left)])
        return left

    def _changed(self, drawn: Drawn, names: Sequence[str], at: Codes, places: npt.NDArray[np.float64]) -> None:
        """Take over the codes of some rows, and draw ticks for them."""
        for name in names:
            place = self.unit_row.members[drawn.table].names.index(name)
            drawn.frame[f"c{place}"][at] = drawn.rows[at, place]
        self._elsewhere(drawn, names, at, places)


def _swap(drawn: Drawn, places: Sequence[int], some: Codes, others: Codes) -> None:
    """Exchange the values of some columns, a row each with another one."""
    both, turned = np.concatenate([some, others]), np.concatenate([others, some])
    columns = [*places]
    drawn.rows[both[:, None], columns] = drawn.rows[turned[:, None], columns]
    for name in (f"{kind}{place}" for kind in "ct" for place in places):
        if name in drawn.frame:
            drawn.frame[name][both] = drawn.frame[name][turned]
