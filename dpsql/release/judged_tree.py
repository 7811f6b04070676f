"""How good a linked release is, by table and by link: the pairs of a unit's row, sorted by what they say.

    own        two columns of one row of a table
    join       a column of a table and one of a table above it, or the number of its rows and a column above it
    number     the number of rows of a table, and with a column of the row that has them
    siblings   columns of two rows of one parent
    apart      tables of two branches, which no join brings together

A join can be trusted where nine of ten of its pairs are reliable, and partly where half of them are. GROUP BYs of a
column on either side are then as they were measured. All of it is made of released values. Pairs that are not measured
because they follow from others (`UnitRow.implied`) count neither way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dpsql.core.domain import Clique
from dpsql.core.tree import UNITS, Link
from dpsql.core.unit_row import Below, UnitRow
from dpsql.core.unit_words import one_above
from dpsql.release.judgement import Judgement

_TRUSTED: Final = 0.9
_PARTLY: Final = 0.5
_NAMED: Final = 6


@dataclass
class Pairs:
    """How many pairs there are of one kind, and how many of them are reliable, or likely are.

    Attributes:
        judged: how many were, and where some were not measured, those too.
        reliable: of these.
    """

    judged: int = 0
    reliable: int = 0

    def add(self, *, is_reliable: bool) -> None:
        """Count a pair."""
        self.judged += 1
        self.reliable += is_reliable

    @property
    def share(self) -> float:
        """The part that is reliable; 0 where none was judged."""
        return self.reliable / self.judged if self.judged else 0.0

    def __str__(self) -> str:
        return f"{self.reliable:,} of {self.judged:,}" if self.judged else "not judged"


@dataclass
class JudgedTable:
    """A table by itself.

    Attributes:
        name: of it.
        errors: of its columns, see `JudgedColumn.error`.
        pairs: of its columns.
    """

    name: str
    errors: list[float] = field(default_factory=list)
    pairs: Pairs = field(default_factory=Pairs)

    @property
    def error(self) -> float | None:
        """The mean error of its columns, a fraction of the units; None where none was judged."""
        return sum(self.errors) / len(self.errors) if self.errors else None


@dataclass
class JudgedLink:
    """A table and the one right above it.

    Attributes:
        link: which.
        error: of the number of rows, see `JudgedColumn.error`; None where it was not judged.
        numbers: of the number and a column of the row that has them.
        siblings: of two rows of one parent.
    """

    link: Link
    error: float | None = None
    numbers: Pairs = field(default_factory=Pairs)
    siblings: Pairs = field(default_factory=Pairs)


@dataclass
class JudgedJoin:
    """A table and one of those above it, joined by their keys.

    Attributes:
        above, below: the tables.
        pairs: of a column of each, and of numbers of rows.
    """

    above: str
    below: str
    pairs: Pairs = field(default_factory=Pairs)

    @property
    def is_trusted(self) -> bool:
        """Whether it can be trusted."""
        return self.pairs.share >= _TRUSTED

    @property
    def is_partly_trusted(self) -> bool:
        """Whether half of its pairs can be, or more, and not all of it."""
        return not self.is_trusted and self.pairs.share >= _PARTLY

    @property
    def answer(self) -> str:
        """Whether it can be trusted, in words."""
        if not self.pairs.judged:
            return "not judged"
        return "can be trusted" if self.is_trusted else "in part" if self.is_partly_trusted else "cannot be trusted"

    def __str__(self) -> str:
        return f"{self.below} with {self.above}"


@dataclass(frozen=True)
class JudgedTree:
    """A linked release, by table and by link.

    Attributes:
        tables, links, joins: of the tree, from the top down.
    """

    tables: Sequence[JudgedTable]
    links: Sequence[JudgedLink]
    joins: Sequence[JudgedJoin]

    @property
    def words(self) -> str:
        """Which joins can be trusted, a sentence for each answer and one for siblings; empty where none was judged."""
        judged = [join for join in self.joins if join.pairs.judged]
        kinds = (
            ("can be trusted", [join for join in judged if join.is_trusted]),
            ("can be trusted in part", [join for join in judged if join.is_partly_trusted]),
            ("cannot be trusted", [join for join in judged if not join.is_trusted and not join.is_partly_trusted]),
        )
        sentences = []
        for what, joins in kinds:
            if joins:
                listed = _listed([f"{join} ({join.pairs} pairs)" for join in joins])
                sentences.append(f"{'The join' if len(joins) == 1 else 'Joins'} of {listed} {what}.")
        siblings = [link for link in self.links if link.siblings.judged]
        if siblings:
            listed = _listed([f"{link.siblings} for {alike(link.link)}" for link in siblings])
            sentences.append(
                f"Two rows of one parent resemble each other reliably in these pairs of columns: {listed}."
            )
        return " ".join(sentences)


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def alike(link: Link) -> str:
    """Rows of one parent, in words."""
    return f"{'rows' if link.parent == UNITS else link.child} of one {one_above(link)}"


def judged_tree(unit_row: UnitRow, judgement: Judgement) -> JudgedTree:
    """Sort what was judged of a linked release by its tables and links."""
    return _Sorting(unit_row).of(judgement)


class _Sorting:
    """The work of `judged_tree`."""

    def __init__(self, unit_row: UnitRow) -> None:
        tree = unit_row.tree
        self._row, self._slot = unit_row, unit_row.slot_of_column
        self._tables = {table: JudgedTable(table) for table in tree.tables}
        self._links = {link.child: JudgedLink(link) for link in tree.links}
        self._joins = {
            (above.parent, link.child): JudgedJoin(above.parent, link.child)
            for link in tree.links
            for above in reversed(tree.path(link.child))
            if above.parent != UNITS
        }

    def of(self, judgement: Judgement) -> JudgedTree:
        """See `judged_tree`."""
        for column in judgement.columns:
            place = self._slot[column.name]
            table = self._row.slots[place].table
            below = self._row.below_of(column.name)
            if below is None:
                self._tables[table].errors.append(column.error)
            elif below == Below(below.link) and self._row.slots[place].nth == 0 and self._row.slots[place].role is None:
                self._links[below.link.child].error = column.error
        reliable = {pair.clique: pair.state in ("kept", "likely") for pair in judgement.pairs}
        # those of the workload that are not judged are not reliable
        if judgement.unmeasured_pairs or judgement.implied_pairs or judgement.skipped_pairs:
            reliable = dict.fromkeys(self._pairs_to_measure(), False) | reliable
        for clique, is_reliable in reliable.items():
            self._add(clique, is_reliable=is_reliable)
        return JudgedTree(tuple(self._tables.values()), tuple(self._links.values()), tuple(self._joins.values()))

    def _pairs_to_measure(self) -> list[Clique]:
        """The pairs that a release is to answer, in the order of the domain; others follow from them."""
        pairs = itertools.combinations(self._row.domain.names, 2)
        return [pair for pair in pairs if pair not in self._row.implied]

    def _number_of(self, name: str) -> str | None:
        """The table below whose rows a column counts; None of a column of a table."""
        below = self._row.below_of(name)
        return None if below is None else below.link.child

    def _add(self, clique: Clique, *, is_reliable: bool) -> None:
        for pairs in self._kinds(clique):
            pairs.add(is_reliable=is_reliable)

    def _kinds(self, clique: Clique) -> Iterator[Pairs]:
        """What a pair of columns is counted for."""
        places = [self._slot[name] for name in clique]
        numbers = [self._number_of(name) for name in clique]
        upper, lower = sorted(range(2), key=lambda side: places[side])
        above, below = (self._row.slots[places[side]].table for side in (upper, lower))
        if places[0] == places[1]:
            if numbers == [None, None]:
                yield self._tables[above].pairs
            elif None in numbers:
                number = next(link_number for link_number in numbers if link_number is not None)
                yield self._links[number].numbers
                yield from self._joined(above, number)
        elif self._is_above(places[upper], places[lower]):
            yield from self._joined(above, numbers[lower] or below)
        elif above == below:
            yield self._links[below].siblings

    def _joined(self, above: str, below: str) -> Iterator[Pairs]:
        """The join of two tables; a number of rows is of the join with the rows that it counts."""
        if (above, below) in self._joins:
            yield self._joins[above, below].pairs

    def _is_above(self, upper: int, lower: int) -> bool:
        """Whether the row of one slot is above that of the other."""
        place: int | None = lower
        while place is not None and place != upper:
            place = self._row.slots[place].above
        return place is not None
