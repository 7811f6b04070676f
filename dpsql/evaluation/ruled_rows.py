"""Whether synthetic rows obey the rules between rows of a tree, and whether rows that come later can.

    obeyed   each rule of a row, of its values and of those of the rows that are given with it
    able     each row that comes later, with the row as it is: some values of it obey all rules of which all is given

Synthetic rows and public domains are read, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Domain
from dpsql.core.link_rule import LinkRule, Part
from dpsql.core.tree import Link, Role, Tree
from dpsql.engines.source import Source
from dpsql.evaluation.constraints import at_places
from dpsql.evaluation.link_rules import attributes_of, obeys
from dpsql.evaluation.sandbox import empty_database

Codes = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
Rules = Mapping[str, Mapping[Role | None, Sequence[Allowed]]]
"""What is allowed of the rows of each table by themselves, by their role."""
Tuples = tuple[Codes, npt.NDArray[np.float64]]
"""Codes of some columns, and places in their bins; both of shape (tuples, columns)."""
_AT_ONCE: Final = 100_000
_MOST_TRIED: Final = 3_000
_PLACES: Final = (
    0.0,
    0.999999,
    *(np.arange(1, 16) / 16).tolist(),
)  # in a bin: what one step takes for able, a later one finds


@dataclass(frozen=True)
class DrawnTable:
    """Rows of one table.

    Attributes:
        codes: of its own columns, shape (rows, columns).
        frame: the same, with places inside bins, see `dpsql.release.drawing.coded`.
        up: the number of each row's parent in the table above, in order; None of the root's.
        role: the place of each row's role among those of its link, -1 without one.
    """

    codes: Codes
    frame: dict[str, npt.NDArray[Any]]
    up: Codes | None
    role: Codes


@dataclass(frozen=True)
class Stage:
    """Rows of a table that are drawn together: those with one role, or those without any.

    Attributes:
        link: of the table; None of the root.
        table: whose rows they are.
        role: that they have.
    """

    link: Link | None
    table: str
    role: Role | None

    @property
    def number(self) -> int:
        """The place of the role among those of the link, -1 without one."""
        return -1 if self.link is None or self.role is None else self.link.roles.index(self.role)


def stages_of(tree: Tree, table: str) -> list[Stage]:
    """Those of a table, in the order in which they are drawn."""
    link = tree.link_of.get(table)
    return [Stage(link, table, role) for role in (*(link.roles if link else ()), None)]


def rules_of(rules: Sequence[LinkRule], stage: Stage) -> list[LinkRule]:
    """Those that rows of a stage must obey."""
    return [rule for rule in rules if rule.subject.table == stage.table and rule.speaks_of(stage.role)]


@dataclass(frozen=True)
class RuledRows:
    """Rules, and the rows drawn so far.

    Attributes:
        tree, sources, domains: of the tables.
        rules: between their rows.
        allowed: of rows by themselves.
        tables: drawn so far.
        generator: of the order in which values are tried.
    """

    tree: Tree
    sources: Mapping[str, Source]
    domains: Mapping[str, Domain]
    rules: Sequence[LinkRule]
    allowed: Rules
    tables: Mapping[str, DrawnTable]
    generator: np.random.Generator

    def of(self, stage: Stage) -> list[LinkRule]:
        """The rules that rows of a stage must obey."""
        return rules_of(self.rules, stage)

    def later(self, stage: Stage) -> list[tuple[Stage, list[LinkRule]]]:
        """The stages after one that rules tie to it, each with all its rules of which all but the subject is drawn.

        Those that do not speak of this stage, too: what rows above leave to a later one must be inside what this does.
        """
        after = stages_of(self.tree, stage.table)
        after = after[after.index(stage) + 1 :] if stage.role is not None else []
        below = [
            link.child
            for link in self.tree.links
            if any(step.parent == stage.table for step in self.tree.path(link.child))
        ]
        stages = []
        for other in [*after, *(stage_below for table in below for stage_below in stages_of(self.tree, table))]:
            rules = [rule for rule in self.of(other) if self._is_given(rule, stage)]
            if any(part.table == stage.table and part.role in (None, stage.role) for r in rules for part in r.given):
                stages.append((other, rules))
        return stages

    def _is_given(self, rule: LinkRule, stage: Stage) -> bool:
        """Whether a rule is given no row that is drawn after a stage."""
        above = {stage.table, *(step.parent for step in self.tree.path(stage.table))}
        roles = stage.link.roles[: stage.number + 1] if stage.link is not None and stage.role is not None else ()
        for part in rule.given:
            if part.role is None and part.table not in above:
                return False
            if part.role is not None and (part.table != stage.table or part.role not in roles):
                return False
        return True

    def given(self, part: Part, table: str, at: Codes) -> Codes:
        """The rows that a part stands for, of subjects right below or beside rows of a table; -1 where none is.

        Args:
            part: of a rule.
            table: the one above the subjects, or that of a row somewhere above them.
            at: its rows.
        """
        if part.role is not None:
            beside, link = self.tables[part.table], self.tree.link_of[part.table]
            mine = np.flatnonzero(beside.role == link.roles.index(part.role))
            held = np.full(len(self.tables[link.parent].codes), -1)
            assert beside.up is not None
            held[beside.up[mine]] = mine
            return held[at]
        while table != part.table:
            up = self.tables[table].up
            assert up is not None
            table, at = self.tree.link_of[table].parent, up[at]
        return at

    def values(self, part: Part, at: Codes) -> dict[str, npt.NDArray[Any]]:
        """What a rule reads of some rows."""
        names, frame = self.domains[part.table].names, self.tables[part.table].frame
        columns: dict[str, npt.NDArray[Any]] = {}
        for number, name in enumerate(part.columns):
            place = names.index(name)
            columns |= {f"{kind}{number}": frame[f"{kind}{place}"][at] for kind in "ct" if f"{kind}{place}" in frame}
        return columns

    def obeyed(self, rules: Sequence[LinkRule], at: Codes) -> Truths:
        """Of rows of the table of some rules' subjects, which obey them all."""
        holds = np.ones(len(at), bool)
        for rule in rules:
            table = self.tables[rule.subject.table]
            above = np.zeros(0, np.int64) if table.up is None else table.up[at]
            parent = rule.subject.table if table.up is None else self.tree.link_of[rule.subject.table].parent
            given = [self.given(part, parent, above) for part in rule.given]
            there = np.flatnonzero(np.all([rows >= 0 for rows in given], axis=0)) if given else np.arange(len(at))
            read = [self.values(rule.subject, at[there])]
            read += [self.values(part, rows[there]) for part, rows in zip(rule.given, given, strict=True)]
            holds[there] &= self._hold(rule, read, len(there))
        return holds

    def _hold(self, rule: LinkRule, read: list[dict[str, npt.NDArray[Any]]], rows: int) -> Truths:
        if not rows:
            return np.zeros(0, bool)
        with empty_database() as empty:
            return obeys(empty, rule, self.sources[rule.table], attributes_of(rule, self.domains), read)

    def able(
        self, stage: Stage, later: Stage, rules: Sequence[LinkRule], at: Codes, *, declared: bool = True
    ) -> Truths:
        """Of rows of a stage, with which a row of a later one can obey some rules.

        Args:
            stage: of the rows.
            later: of the other row.
            rules: of the later one, of which all but the subject is drawn.
            at: the rows.
            declared: whether it must do so by declared values: NULL obeys most rules.
        """
        names = sorted({name for rule in rules for name in rule.subject.columns})
        codes, places = self.tuples(later, names, declared=declared)
        table, above = stage.table, at
        if later.table == stage.table:
            up = self.tables[stage.table].up
            assert up is not None
            assert stage.link is not None
            table, above = stage.link.parent, up[at]
        return self.fitting(rules, names, (codes, places), table, above) >= 0

    def may_be_null(self, stage: Stage, rules: Sequence[LinkRule]) -> bool:
        """Whether rows of a stage can have NULL, or a value outside the domain, where some rules name a column."""
        by_name = self.domains[stage.table].by_name
        named = {name for rule in rules for name in rule.subject.columns}
        return any(by_name[name].inner.size > by_name[name].regular for name in named)

    def fitting(
        self, rules: Sequence[LinkRule], names: Sequence[str], tuples: Tuples, table: str, above: Codes
    ) -> Codes:
        """For each subject the number of the first tuple of values that obeys some rules; -1 where none does.

        Args:
            rules: of the subjects.
            names: of the columns of the tuples.
            tuples: codes and places.
            table: see `given`.
            above: likewise.
        """
        given = [[self.given(part, table, above) for part in rule.given] for rule in rules]
        firsts, left, start = np.full(len(above), -1), np.arange(len(above)), 0
        while len(left) and start < len(tuples[0]):
            count = min(len(tuples[0]) - start, max(1, _AT_ONCE // len(left)))
            some, holds = slice(start, start + count), np.ones(len(left) * count, bool)
            for rule, rows in zip(rules, given, strict=True):
                holds &= self._tried(rule, names, tuples, some, [codes_above[left] for codes_above in rows], len(left))
            each = holds.reshape(len(left), count)
            fits = each.any(axis=1)
            firsts[left[fits]] = start + each[fits].argmax(axis=1)
            left, start = left[~fits], start + count
        return firsts

    def _tried(
        self,
        rule: LinkRule,
        names: Sequence[str],
        tuples: Tuples,
        some: slice,
        given: list[Codes],
        rows: int,
    ) -> Truths:
        """For each row and each of some tuples of the subject, whether a rule holds."""
        domain, own = self.domains[rule.subject.table], [names.index(name) for name in rule.subject.columns]
        codes, places = tuples[0][some][:, own], tuples[1][some][:, own]
        count = len(codes)
        attributes = [domain.by_name[name] for name in rule.subject.columns]
        read = [at_places(attributes, np.tile(codes, (rows, 1)), np.tile(places, (rows, 1)))]
        read += [self.values(part, np.repeat(at, count)) for part, at in zip(rule.given, given, strict=True)]
        there = np.ones(rows * count, bool)
        for at in given:
            there &= np.repeat(at >= 0, count)
        return ~there | self._hold(rule, read, rows * count)

    def tied(self, stage: Stage, names: Sequence[str]) -> list[str]:
        """Columns, and those that facts about one row tie to them."""
        tied_names = {*names}
        for part in self.allowed[stage.table].get(stage.role, ()):
            if not tied_names.isdisjoint(part.clique):  # parts share no column
                tied_names |= {*part.clique}
        return sorted(tied_names)

    def tuples(self, stage: Stage, names: Sequence[str], *, declared: bool = False) -> Tuples:
        """Values that rows of a stage can have, as codes and places in bins: declared ones first, or alone."""
        domain, wanted = self.domains[stage.table], self.tied(stage, names)
        pieces: list[tuple[tuple[str, ...], Codes]] = []
        for part in self.allowed[stage.table].get(stage.role, ()):
            if part.clique and not {*wanted}.isdisjoint(part.clique):
                pieces.append((part.clique, part.codes))
        held = {name for clique, _ in pieces for name in clique}
        pieces += [((n,), np.arange(domain.by_name[n].inner.size)[:, None]) for n in wanted if n not in held]
        sizes = [len(codes) for _, codes in pieces]
        if math.prod(sizes) <= _MOST_TRIED:
            chosen = [column.ravel() for column in np.indices(sizes).reshape(len(sizes), -1)]
        else:
            fixed = np.random.default_rng(0)  # of public values, the same ones each time
            chosen = [fixed.integers(0, size, _MOST_TRIED) for size in sizes]
        columns = {
            name: codes[rows, place]
            for (clique, codes), rows in zip(pieces, chosen, strict=True)
            for place, name in enumerate(clique)
        }
        codes = np.unique(np.stack([columns[name] for name in names], axis=1), axis=0)
        regular = np.array([domain.by_name[name].regular for name in names])
        is_declared: Truths = np.asarray((codes < regular).all(axis=1), bool)
        if declared and is_declared.any():
            codes, is_declared = codes[is_declared], is_declared[is_declared]
        attributes = [domain.by_name[name] for name in names]
        inside = _PLACES if any(a.kind == "bins" and not a.has_single_values for a in attributes) else _PLACES[:1]
        every = [(codes, np.full(codes.shape, place), is_declared) for place in inside]
        codes, places, is_declared = (np.concatenate(column) for column in zip(*every, strict=True))
        order = np.lexsort((self.generator.random(len(codes)), ~is_declared))
        return codes[order], places[order]

    def broken(self) -> list[tuple[LinkRule, int, int]]:
        """Of each rule, how many rows it speaks of, and how many do not obey it."""
        broken_rules = []
        for rule in self.rules:
            table = rule.subject.table
            spoken = [stage.number for stage in stages_of(self.tree, table) if rule.speaks_of(stage.role)]
            at = np.flatnonzero(np.isin(self.tables[table].role, spoken))
            broken_rules.append((rule, len(at), int((~self.obeyed([rule], at)).sum())))
        return broken_rules
