"""How good a linked release is, for its owner: its tables beside the real ones, so what is found is private.

    own        L1 distances of the shares of a table's columns, and of pairs of them, over its rows
    join       the same of a column of a table and one of a table above it, over the rows that a join has
    number     of how many rows of a table a row above has, in bins, and together with a column of that row
    siblings   of a column of two rows of one parent each; which two of more than two a digest chooses
    GROUP BY   Σ|synthetic − real| of the groups' counts, over Σ real; ten of them, evenly chosen among all

L1 distances go from 0 to 2. All is counted in the cells of the release's own domains. Nothing is charged or stored.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Unpack

import numpy as np

from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry, rows_source
from dpsql.books.tables.links import table_of
from dpsql.core.domain import Clique, Domain
from dpsql.core.tree import UNITS, Link, Tree
from dpsql.core.unit_words import column_of_table, without_role
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.protocol import Engine, TableCounter, UnitBound
from dpsql.engines.registry import engine_of
from dpsql.engines.source import Above, Source
from dpsql.engines.source_path import reached, with_reached
from dpsql.errors import InvalidArgument
from dpsql.evaluation.roles import roles_of
from dpsql.owner.evaluate import Measured, release_of
from dpsql.owner.protect import account_of, fits
from dpsql.release.association import association_of_counts
from dpsql.release.correlation import correlation_of_counts
from dpsql.release.estimates import Floats
from dpsql.release.judged_tree import alike
from dpsql.release.judgement import JudgedPair
from dpsql.release.quality import synthetic_counter
from dpsql.release.worst_cells import cells_shown

_GROUP_BYS: Final = 10
_MOST: Final = 2**40
"""Rows of a unit that count: all of them."""


@dataclass(frozen=True)
class TreeEvaluation:
    """How good the tables of a linked release are. Private: see `warning`.

    Attributes:
        source: the table at the top.
        synthetic: the release, in words.
        rows: real and synthetic rows, by table.
        distances: mean L1 distances, by what they are of, in order.
        all_group_bys: for each join and GROUP BY of a column on either side its error.
        rules: between rows, each with how many synthetic rows break it, of how many.
    """

    source: str
    synthetic: str
    rows: Mapping[str, tuple[int, int]]
    distances: Mapping[str, float]
    all_group_bys: Mapping[str, float]
    rules: Mapping[str, tuple[int, int]]

    @property
    def group_bys(self) -> dict[str, float]:
        """Some ten of them, evenly chosen."""
        step = max(1, -(-len(self.all_group_bys) // _GROUP_BYS))
        return dict(itertools.islice(self.all_group_bys.items(), 0, None, step))

    @property
    def warning(self) -> str:
        """What whoever sees the figures must know."""
        return (
            f"Private: computed from the real rows of {', '.join(self.rows)}, not differentially private. "
            "Do not publish these figures."
        )

    def lines(self) -> Iterator[tuple[str, str]]:
        """What each figure is, and the figure."""
        for table, (real, made) in self.rows.items():
            rest = "" if real and made else "; so its columns are not compared"
            yield f"rows of {table}", f"{real:,} real, {made:,} synthetic{rest}"
        for rule, (broken, spoken) in self.rules.items():
            yield f"rows that break “{rule}”", f"{broken:,} of {spoken:,} synthetic"
        yield "mean L1 distance, 0 to 2, of", ""
        for what, figure in self.distances.items():
            yield f"  {what}", f"{figure:.4f}"
        if self.group_bys:
            yield "counts of a GROUP BY over a join: the part that is wrong", ""
        for what, figure in self.group_bys.items():
            yield f"  {what}", f"{figure:.4f}"

    def __str__(self) -> str:
        lines = [(f"{self.synthetic} beside {self.source}", ""), *self.lines()]
        width = max(len(what) for what, _ in lines)
        return "\n".join([self.warning, *(f"{what:{width}}  {figure}".rstrip() for what, figure in lines)])

    __repr__ = __str__

    def figures(self) -> dict[str, float]:
        """All figures by what they are of."""
        return {**self.distances, **self.group_bys}

    def to_json(self) -> str:
        """All figures on one line, the warning first."""
        described = {"warning": self.warning, "source": self.source, "synthetic": self.synthetic}
        rows = {table: {"real": real, "synthetic": made} for table, (real, made) in self.rows.items()}
        rules = {rule: {"broken": broken, "rows": spoken} for rule, (broken, spoken) in self.rules.items()}
        return json.dumps(
            {**described, "rows": rows, "rules": rules, "l1": dict(self.distances), "group_bys": dict(self.group_bys)}
        )


def evaluate_release_of_tree(
    cursor: Cursor, source: Source, synthetic: str, **measured: Unpack[Measured]
) -> TreeEvaluation | None:
    """Compare the tables of a linked release with the real ones; None if no linked release is meant.

    Args:
        cursor: a connection of its own.
        source: one of its tables.
        synthetic: number, key or name of the release.
        **measured: nothing of it goes with a linked release.

    Raises:
        InvalidArgument: something is given that does not go with it.
        DpsqlError: see `TreeCompared`.
    """
    books = Books(cursor, source.catalog)
    account_of(books, source)
    entry = release_of(books, source, synthetic)
    if entry is None or entry.linked is None:
        return None
    for name in [name for name, value in measured.items() if value]:
        raise InvalidArgument(f"{name} is of one synthetic table, and {entry.called} has linked ones: leave {name} out")
    with compared_tree(cursor, books, entry) as compared:
        return compared.evaluation()


@contextmanager
def compared_tree(cursor: Cursor, books: Books, entry: Entry) -> Iterator[TreeCompared]:
    """The tables of a linked release beside the real ones, as long as they are compared; see `TreeCompared`."""
    compared = TreeCompared(cursor, books, entry)
    try:
        yield compared
    finally:
        compared.close()


class TreeCompared:
    """The tables of a linked release beside the real ones, and counts of both. Private.

    Args:
        cursor: a connection of its own.
        books: of the release.
        entry: of a published linked release.

    Raises:
        NotProtected: the protection was taken back.
        UnknownName: a table or column is gone.
        InvalidArgument: a column has another type now.
    """

    def __init__(self, cursor: Cursor, books: Books, entry: Entry) -> None:
        assert entry.unit_row is not None
        self._books, self._entry = books, entry
        self.unit_row = entry.unit_row
        tree = self.unit_row.tree
        self._real = {table: table_of(books, table) for table in tree.tables}
        self._made = {table: rows_source(books, entry, place) for place, table in enumerate(tree.tables)}
        for table, source in self._real.items():
            _check(self.unit_row.members[table], source)
        self._account = account_of(books, self._real[tree.tables[0]])
        self._engine: Engine = engine_of(cursor, self._real[tree.tables[0]])
        self._open: list[TableCounter] = []
        real = self._engine.unit_counter(
            self._real,
            self.unit_row,
            (books.catalog, self._account.source),
            roles=roles_of(self.unit_row, self._real),
        )
        self.units = (real, synthetic_counter(cursor, books, entry))
        self._open += self.units

    def close(self) -> None:
        """Drop what was made to count."""
        for counter in self._open:
            counter.close()
        self._open.clear()

    def evaluation(self) -> TreeEvaluation:
        """All figures; of a table below without rows, real or synthetic, no shares, for there are none.

        Raises:
            InvalidArgument: there are no units, so nothing is below them.
        """
        tree, group_bys = self.unit_row.tree, dict[str, float]()
        rows: dict[str, tuple[int, int]] = {}
        distances: dict[str, float] = {}
        for table in tree.tables:
            both, columns = self._both(table)
            rows[table] = (both.rows(0), both.rows(1))
            own, across = _places(columns, table), _across(tree, table, columns)
            if all(rows[table]):
                _of_table(table, both, own, across, distances)
            elif table == tree.tables[0]:
                raise InvalidArgument(f"{table} has no rows that lead to a unit: there is nothing to compare")
            if rows[table][0]:
                for pair in itertools.chain.from_iterable(across.values()):
                    named = " and ".join(column_of_table(columns[side][1], columns[side][0]) for side in pair)
                    group_bys[f"{table} by {named}"] = both.wrong(pair)
            self._of_link(table, distances, are_beside=all(rows[table]))
        rules = {rule["rule"]: (rule["broken"], rule["rows"]) for rule in self._entry.report.get("rules", ())}
        return TreeEvaluation(self._account.source, f"release {self._entry.number}", rows, distances, group_bys, rules)

    def shares(self, names: Iterable[str]) -> dict[str, Floats]:
        """The true shares of columns of a unit's row, in the cells that synthetic rows tell apart."""
        counts = {name: self._shown((name,)) for name in names}
        return {name: count / max(1.0, count.sum()) for name, count in counts.items()}

    def strengths(self, pairs: Iterable[JudgedPair]) -> dict[Clique, float]:
        """How strongly pairs of columns of a unit's row truly depend on each other, as they are judged."""
        strengths = {}
        for pair in pairs:
            counts, columns = self._shown(pair.clique), [self.unit_row.domain.by_name[name] for name in pair.clique]
            ordered = correlation_of_counts(counts, columns) if pair.is_ordered else association_of_counts(counts)
            strengths[pair.clique] = ordered
        return strengths

    def _shown(self, clique: Clique) -> Floats:
        """Real units in the cells of a marginal that synthetic rows tell apart."""
        domain = self.unit_row.domain
        counts = self.units[0].marginal(clique).dense().reshape(domain.shape(clique))
        return cells_shown(domain, clique, counts.astype(np.float64))

    def _of_link(self, table: str, distances: dict[str, float], *, are_beside: bool) -> None:
        """Numbers of rows, and rows beside each other where there are both real and synthetic ones."""
        link, row = self.unit_row.tree.link_of.get(table), self.unit_row
        if link is None:
            return
        units, names = _Both(self.units, (row.domain, row.domain)), row.domain.names
        upper = row.slots[row.slot_of(link.parent, 0) or 0]
        width = len(row.members[link.parent].names)
        place = next(n for n, below in enumerate(row.below(link.parent)) if below.link == link and below.role is None)
        number, *others = map(names.index, (upper.names[width + place], *upper.names[:width]))
        _put(distances, f"numbers of {table}{without_role(link)}", [units.distance((number,))])
        by = [units.distance((number, other)) for other in others]
        _put(distances, f"numbers of {table}{without_role(link)} by a column of {link.parent}", by)
        first, second = (row.slot_of(table, nth) for nth in (0, 1))
        if are_beside and first is not None and second is not None:
            width = len(row.members[table].names)
            beside = itertools.product(*(map(names.index, row.slots[slot].names[:width]) for slot in (first, second)))
            _put(distances, f"a column of each of two {alike(link)}", [units.distance(pair) for pair in beside])

    def _both(self, table: str) -> tuple[_Both, list[tuple[str, str]]]:
        """Counts of the rows of a table, each beside those above it, and which column of which table each is."""
        columns: list[tuple[str, str]] = []
        counters, domains = [], []
        for sources in (self._real, self._made):
            above = _joined(self.unit_row.tree, table)
            path = tuple(Above(sources[link.parent], link.key, link.references) for link in above)
            bound = None
            if path:
                bound = UnitBound("", "", _MOST, self._books.catalog, self._account.source, path)
            attributes = [(table, attribute, attribute.name) for attribute in self.unit_row.members[table]]
            for step, link in zip(path, above, strict=True):
                own = self.unit_row.members[link.parent]
                attributes += [(link.parent, attribute, reached(step.source, attribute.name)) for attribute in own]
            columns = [(of, attribute.name) for of, attribute, _ in attributes]
            domain = Domain(
                tuple(replace(attribute.closed(never_null=False), name=name) for _, attribute, name in attributes)
            )
            counter = self._engine.counter(with_reached(sources[table], path), domain, bound)
            self._open.append(counter)
            counters.append(counter)
            domains.append(domain)
        return _Both((counters[0], counters[1]), (domains[0], domains[1])), columns


@dataclass(frozen=True)
class _Both:
    """Counts of real and of synthetic rows, whose columns have the same places.

    Attributes:
        counters: of real rows, of synthetic ones.
        domains: of each.
    """

    counters: tuple[TableCounter, TableCounter]
    domains: tuple[Domain, Domain]

    def rows(self, side: int) -> int:
        """How many rows there are."""
        return int(self.counters[side].marginal(()).counts.sum())

    def counts(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """Of the cells of a marginal, by the places of its columns."""
        real, made = (
            np.asarray(counter.marginal(tuple(domain.names[place] for place in sorted(places))).dense(), np.float64)
            for counter, domain in zip(self.counters, self.domains, strict=True)
        )
        return real, made

    def distance(self, places: Sequence[int]) -> float:
        """The L1 distance of the shares."""
        real, made = self.counts(places)
        return float(np.abs(real / max(1.0, real.sum()) - made / max(1.0, made.sum())).sum())

    def wrong(self, places: Sequence[int]) -> float:
        """The part of the counts of groups that is wrong."""
        real, made = self.counts(places)
        return float(np.abs(real - made).sum() / max(1.0, real.sum()))


def _joined(tree: Tree, table: str) -> list[Link]:
    """The links from a table up to the stored root."""
    return [link for link in reversed(tree.path(table)) if link.parent != UNITS]


def _places(columns: Sequence[tuple[str, str]], table: str) -> list[int]:
    """Which of the columns are a table's."""
    return [place for place, (of, _) in enumerate(columns) if of == table]


def _across(tree: Tree, table: str, columns: Sequence[tuple[str, str]]) -> dict[str, list[tuple[int, int]]]:
    """For each table above the places of one of the table's columns and of one of its own."""
    own = _places(columns, table)
    return {link.parent: [*itertools.product(own, _places(columns, link.parent))] for link in _joined(tree, table)}


def _of_table(
    table: str,
    both: _Both,
    own: Sequence[int],
    across: Mapping[str, Sequence[tuple[int, int]]],
    distances: dict[str, float],
) -> None:
    """Shares of a table's columns, by themselves and over joins."""
    _put(distances, f"columns of {table}", [both.distance((place,)) for place in own])
    pairs = itertools.combinations(own, 2)
    _put(distances, f"pairs of columns of {table}", [both.distance(pair) for pair in pairs])
    for parent, beside in across.items():
        _put(distances, f"a column of {table} and one of {parent}", [both.distance(pair) for pair in beside])


def _check(domain: Domain, source: Source) -> None:
    """Refuse a column whose values the release's domain does not fit any more."""
    for attribute in domain:
        if not fits(attribute, source.column(attribute.name)):
            raise InvalidArgument(
                f"column {attribute.name!r} of {source.name!r} has another type than when that release was made: "
                "evaluate a newer one"
            )


def _put(distances: dict[str, float], what: str, figures: Sequence[float]) -> None:
    """Keep a mean, if there is something to take it of."""
    if figures:
        distances[what] = float(np.mean(figures))
