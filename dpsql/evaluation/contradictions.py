"""Rules between rows of a tree that no unit can obey: noticed on public domains alone, so before anything is charged.

    component   rules that share columns, and facts about one row that tie these
    family      a row at the top, and below each row one with each role and one without: all rows that rules speak of
    search      families drawn from the top down: declared values that obey, and that leave the rows below some

Rules contradict each other where no row at the top, of all that were tried, has a family. What takes too many tries
is not decided here. A value outside the domain is NULL, which obeys most rules; so it does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed, Constraint
from dpsql.core.domain import Domain
from dpsql.core.link_rule import LinkRule
from dpsql.core.tree import Tree
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.constraints import at_places, find_allowed, settle_bins, taken_back
from dpsql.evaluation.roles import allowed_of_role
from dpsql.evaluation.ruled_rows import Codes, DrawnTable, RuledRows, Rules, Stage, Truths, stages_of
from dpsql.evaluation.sandbox import one_empty_database

_MOST: Final = 1_000_000
"""Of how many rows rules are tried in one search: some seconds."""
_ORDERS: Final = 16
"""In how many orders declared values are tried for a row that must leave values to others."""
_FIRST: Final = 16
"""Rows at the top that are tried at first, then four times as many each time: mostly one of a few has a family."""
_COPIES: Final = 64
"""Of a row at the top of which no rule names a column."""


class _Undecided(Exception):
    """A search took too many tries."""


def refuse_contradictions(
    tree: Tree,
    sources: Mapping[str, Source],
    domains: Mapping[str, Domain],
    rules: Sequence[LinkRule],
    facts: Mapping[str, Sequence[Constraint]],
) -> None:
    """Refuse rules that no declared values of any rows obey together.

    Args:
        tree: of the tables.
        sources: all its tables.
        domains: of the same, or of the columns that have a domain so far.
        rules: between their rows.
        facts: about one row of each table.

    Raises:
        InvalidArgument: there are such rules; names those that contradict each other, and how to take one back.
    """
    stated = tuple((table, tuple(facts.get(table, ()))) for table in tree.tables)
    whole = tuple(domains.items())
    for part in _components(tree, tuple(sources.items()), whole, tuple(rules), stated):
        predicates = list(dict.fromkeys(rule.predicate for rule in part))
        obey = "obey it" if len(predicates) == 1 else "obey them together"
        raise InvalidArgument(
            f"{' and '.join(map(repr, predicates))}: no declared values were found with which rows of "
            f"{part[0].subject.table!r} {obey}, beside other facts and roles of their tables: correct the domains, "
            f"{taken_back(sources[part[0].table], [part[0].predicate])}"
        )


@lru_cache(maxsize=32)  # asked for when a rule is stated, by a plan, and when a release is bound and charged
def _components(
    tree: Tree,
    sources: tuple[tuple[str, Source], ...],
    domains: tuple[tuple[str, Domain], ...],
    rules: tuple[LinkRule, ...],
    facts: tuple[tuple[str, tuple[Constraint, ...]], ...],
) -> list[list[LinkRule]]:
    """The rules that contradict each other, those of each component apart; as few as do."""
    allowed = {table: _allowed(tree, dict(sources)[table], dict(domains)[table], stated) for table, stated in facts}
    found = []
    for part in _apart(rules, allowed):

        def fails(some: Sequence[LinkRule]) -> bool:
            fixed = np.random.default_rng(0)  # of public values, the same ones each time
            with one_empty_database():
                return _contradict(_Tried(tree, dict(sources), dict(domains), some, allowed, {}, fixed))

        if not fails(part):
            continue
        for rule in part:
            rest = [other for other in part if other is not rule]
            part = rest if rest and fails(rest) else part
        found.append(part)
    return found


def _allowed(tree: Tree, source: Source, domain: Domain, stated: Sequence[Constraint]) -> dict[Any, list[Allowed]]:
    """What is allowed of rows of a table by themselves, by their role, as far as its columns have a domain."""
    link, inner = tree.link_of.get(source.key), domain.inner
    if link is None or not link.roles:
        return {None: find_allowed(source, inner, stated)}
    return {role: allowed_of_role(source, inner, link, role, stated) for role in (*link.roles, None)}


def _apart(rules: Sequence[LinkRule], allowed: Rules) -> list[list[LinkRule]]:
    """Rules that share columns, or whose columns facts tie, together."""
    ties = [
        {(table, name) for name in part.clique}
        for table, by_role in allowed.items()
        for parts in by_role.values()
        for part in parts
    ]
    parts: list[tuple[set[tuple[str, str]], list[LinkRule]]] = [(columns, []) for columns in ties]
    for rule in rules:
        columns = {(part.table, name) for part in rule.parts for name in part.columns}
        touched = [one for one in parts if not one[0].isdisjoint(columns)]
        parts = [one for one in parts if not any(one is other for other in touched)]
        parts.append((columns.union(*(names for names, _ in touched)), [*(r for _, m in touched for r in m), rule]))
    return [members for _, members in parts if members]


@dataclass(frozen=True)
class _Tried(RuledRows):
    """Rules, and families drawn so far.

    Attributes:
        tried: of how many rows rules were tried, in one number.
    """

    tried: list[int] = field(default_factory=lambda: [0])

    def _hold(self, rule: LinkRule, read: list[dict[str, npt.NDArray[Any]]], rows: int) -> Truths:
        self.tried[0] += rows
        if self.tried[0] > _MOST:
            raise _Undecided
        return super()._hold(rule, read, rows)


def _contradict(ruled: _Tried) -> bool:
    """Whether no row at the top has a family."""
    root = Stage(None, ruled.tree.root, None)
    names = _names(ruled, root)
    codes, places = np.zeros((_COPIES, 0), np.int64), np.zeros((_COPIES, 0))
    if names:
        codes, places = ruled.tuples(root, names, declared=True)
    start, count = 0, _FIRST
    try:
        while start < len(codes):
            some = slice(start, start + count)
            if _Families(ruled, names, (codes[some], places[some])).alive.any():
                return False
            start, count = start + count, 4 * count
    except _Undecided:
        return False
    return True


def _names(ruled: RuledRows, stage: Stage) -> list[str]:
    """The columns of rows of a stage that rules name, and those that facts tie to them."""
    parts = [rule.subject for rule in ruled.of(stage)]
    parts += [part for rule in ruled.rules for part in rule.given if part.table == stage.table]
    return ruled.tied(stage, [name for part in parts if part.role in (None, stage.role) for name in part.columns])


class _Families:
    """Rows below some rows at the top.

    Attributes:
        alive: which of the rows at the top have a whole family.
    """

    def __init__(self, ruled: _Tried, names: Sequence[str], top: tuple[Codes, npt.NDArray[np.float64]]) -> None:
        tables: dict[str, DrawnTable] = {}
        self.tables = tables
        self.ruled = replace(ruled, tables=tables)
        self.alive: Truths = np.ones(len(top[0]), bool)
        self.roots: dict[str, Codes] = {ruled.tree.root: np.arange(len(self.alive))}
        root = Stage(None, ruled.tree.root, None)
        self._append(root, np.zeros(len(self.alive), np.int64), is_root=True)
        self._write(root, names, np.arange(len(self.alive)), *top)
        for other, rules in self.ruled.later(root):
            at = np.flatnonzero(self.alive)
            self.alive[at] &= self.ruled.able(root, other, rules, at)
        named = {part.table for rule in ruled.rules for part in rule.parts}
        for link in ruled.tree.links:
            below = {link.child, *(one.child for one in ruled.tree.links if link in ruled.tree.path(one.child))}
            for stage in stages_of(ruled.tree, link.child) if below & named else ():
                if self.alive.any():
                    self._grow(stage)

    def _grow(self, stage: Stage) -> None:
        """A row of a stage below each row of the table above."""
        assert stage.link is not None
        above = self.roots[stage.link.parent]
        up = np.flatnonzero(self.alive[above])
        first = len(self.tables[stage.table].codes) if stage.table in self.tables else 0
        self._append(stage, up)
        names, own = _names(self.ruled, stage), self.ruled.of(stage)
        left = np.arange(first, first + len(up))
        later, obey = self.ruled.later(stage), np.full(len(up), not names)
        for _ in range(_ORDERS if names else 0):
            if not len(left):
                break
            tuples = self.ruled.tuples(stage, names, declared=True)
            mine = up[left - first]
            fit = self.ruled.fitting(own, names, tuples, stage.link.parent, mine)
            if not own:
                fit = self.ruled.generator.integers(0, len(tuples[0]), len(left))
            left, fit = left[fit >= 0], fit[fit >= 0]
            self._write(stage, names, left, tuples[0][fit], tuples[1][fit])
            holds = self.ruled.obeyed(own, left)
            for other, rules in later:
                at = np.flatnonzero(holds)
                holds[at] = self.ruled.able(stage, other, rules, left[at])
            obey[left[holds] - first] = True
            left = left[~holds]
        self.alive[above[up[~obey]]] = False

    def _append(self, stage: Stage, up: Codes, *, is_root: bool = False) -> None:
        """Rows of a stage, without values yet."""
        domain, table = self.ruled.domains[stage.table], self.tables.get(stage.table)
        blank = {f"c{place}": np.zeros(len(up), np.int64) for place in range(len(domain))}
        blank |= {f"t{place}": blank[f"c{place}"].copy() for place, one in enumerate(domain) if one.kind == "bins"}
        codes, role = np.zeros((len(up), len(domain)), np.int64), np.full(len(up), stage.number)
        if table is not None:
            assert table.up is not None
            blank = {name: np.concatenate([table.frame[name], values]) for name, values in blank.items()}
            codes, role = np.concatenate([table.codes, codes]), np.concatenate([table.role, role])
            up = np.concatenate([table.up, up])
        self.tables[stage.table] = DrawnTable(codes, blank, None if is_root else up, role)
        if stage.link is not None:
            self.roots[stage.table] = self.roots[stage.link.parent][up]

    def _write(
        self, stage: Stage, names: Sequence[str], at: Codes, codes: Codes, places: npt.NDArray[np.float64]
    ) -> None:
        """Give some rows of a stage values, which obey facts about one row."""
        table, domain = self.tables[stage.table], self.ruled.domains[stage.table]
        for number, name in enumerate(names):
            place = domain.names.index(name)
            table.codes[at, place] = codes[:, number]
            values = at_places([domain.attributes[place]], codes[:, [number]], places[:, [number]])
            for kind in "ct":
                if f"{kind}0" in values:
                    table.frame[f"{kind}{place}"][at] = values[f"{kind}0"]
        facts = [part for part in self.ruled.allowed[stage.table][stage.role] if {*part.clique} <= {*names}]
        if len(at) and facts:
            some = {name: values[at] for name, values in table.frame.items()}
            settle_bins(self.ruled.sources[stage.table], domain, facts, table.codes[at], some, self.ruled.generator)
            for name, settled in some.items():
                table.frame[name][at] = settled
