"""Proofs that no declared values obey rules between rows: a search that does not find any proves nothing.

    chain      a row of a stage that a rule is of, the rows above it, and those that each of these has always
    linear     comparisons of sums (`dpsql.evaluation.linear_forms`), solved over the reals between columns' bounds
    opposite   two of these of which one says what the other excludes
    finite     all values of columns whose every value has a code, at once

Rules are refuted where, for some stage, every chain is. What is left out of a chain makes it easier to obey.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.link_rule import OWN, LinkRule, Part
from dpsql.core.names import fold
from dpsql.core.tree import Tree
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.linear_forms import Below, Kind, Variable, below_zero, bounds_of, conjuncts
from dpsql.evaluation.link_rules import held_tuples
from dpsql.evaluation.row_expression import row_expression
from dpsql.evaluation.ruled_rows import Rules, Stage, rules_of, stages_of
from dpsql.runtime.process_settings import deep_recursion

_MOST_CHAINS: Final = 16
_MOST_TUPLES: Final = 1_000_000
_MOST_COLUMNS: Final = 32
"""Of the tuples that are looked at together: an array has no more axes."""
_MOST_TRIED: Final = 1_000_000
"""Of how many tuples parts of rules are tried: some seconds."""
_MOST_FORMS: Final = 400
_LEAST: Final = 1e-6
"""By which part of columns' ranges a comparison must be missed: rounding misses less."""


Truth = tuple[list[Variable], npt.NDArray[np.bool_]]
"""Columns, and which tuples of their declared values obey."""


@dataclass(frozen=True)
class Ruled:
    """Rules of a tree, and what is public beside them.

    Attributes:
        tree, sources, domains: of the tables.
        rules: between their rows.
        allowed: of rows by themselves.
        truths: of parts of rules that were tried, None of those that are not decided so.
        tried: how many tuples these were, in one number.
    """

    tree: Tree
    sources: Mapping[str, Source]
    domains: Mapping[str, Domain]
    rules: Sequence[LinkRule]
    allowed: Rules
    truths: dict[LinkRule, npt.NDArray[np.bool_] | None] = field(default_factory=dict)
    tried: list[int] = field(default_factory=lambda: [0])

    def held(self, rule: LinkRule, attributes: Sequence[Attribute]) -> npt.NDArray[np.bool_] | None:
        """Which tuples of codes obey a rule over columns whose every value has a code; None where that is not known."""
        if rule not in self.truths:
            size = math.prod(attribute.inner.size for attribute in attributes)
            self.truths[rule] = None
            if all(map(_is_single, attributes)) and self.tried[0] + size <= _MOST_TRIED:
                self.tried[0] += size
                inner = {table: domain.inner for table, domain in self.domains.items()}
                with suppress(InvalidArgument):  # it fails without what stands before it
                    self.truths[rule] = held_tuples(rule, self.sources, inner)
        return self.truths[rule]


@dataclass(frozen=True)
class _Row:
    """One row of a chain.

    Attributes:
        stage: what it is.
        up: the number of the row above it, -1 of the root's.
    """

    stage: Stage
    up: int


def is_refuted(whole: Ruled, rules: Sequence[LinkRule]) -> bool:
    """Whether it is proven that rows of some stage obey some of the rules by no declared values."""
    ruled = replace(whole, rules=rules)
    for table in dict.fromkeys(rule.subject.table for rule in ruled.rules):
        for stage in stages_of(ruled.tree, table):
            if not rules_of(ruled.rules, stage):
                continue
            above = [stages_of(ruled.tree, link.parent) for link in ruled.tree.path(table)]
            if math.prod(map(len, above)) > _MOST_CHAINS:
                continue
            if all(_impossible(ruled, _rows(ruled, [*levels, stage])) for levels in itertools.product(*above)):
                return True
    return False


def _rows(ruled: Ruled, levels: Sequence[Stage]) -> list[_Row]:
    """The rows of a chain, those above first, and then those that are always beside or below them."""
    rows = [_Row(stage, number - 1) for number, stage in enumerate(levels)]
    for number, stage in enumerate(levels):
        for link in ruled.tree.children(stage.table):
            always = [Stage(link, link.child, role) for role in link.roles if role.always]
            rows += [_Row(other, number) for other in always if other not in levels]
    return rows


def _impossible(ruled: Ruled, rows: Sequence[_Row]) -> bool:
    below: list[Below] = []
    truths: list[Truth] = []
    for number, row in enumerate(rows):
        for rule in rules_of(ruled.rules, row.stage):
            given = [_given(ruled, rows, row, part) for part in rule.given]
            if None in given:  # it holds where a row of a role is not there
                continue
            at = {part: place for part, place in zip(rule.parts, [number, *given], strict=True) if place is not None}
            _read(ruled, rule, at, below, truths)
        for part in ruled.allowed[row.stage.table].get(row.stage.role, ()):
            attributes = [ruled.domains[row.stage.table].by_name[name] for name in part.clique]
            if 0 < len(attributes) <= _MOST_COLUMNS and all(map(_is_single, attributes)):
                held = np.zeros([attribute.inner.size for attribute in attributes], bool)
                held[tuple(part.codes[(part.codes < held.shape).all(axis=1)].T)] = True
                _append(truths, [(number, name) for name in part.clique], attributes, held)
            for predicate in part.predicates:
                own = Part(OWN, row.stage.table, row.stage.role, ())
                _compare(ruled, row.stage.table, predicate, {own: number}, below)
    return _is_linearly_impossible(ruled, rows, below[:_MOST_FORMS]) or _is_finitely_impossible(truths)


def _given(ruled: Ruled, rows: Sequence[_Row], row: _Row, part: Part) -> int | None:
    """The number of the row of a chain that a part of a rule of a row stands for."""
    if part.role is not None:
        wanted = [
            n for n, other_row in enumerate(rows) if other_row.up == row.up and other_row.stage.table == part.table
        ]
        return next((n for n in wanted if rows[n].stage.role == part.role), None)
    at = row.up
    while at >= 0 and rows[at].stage.table != part.table:
        at = rows[at].up
    return at if at >= 0 else None


def _read(
    ruled: Ruled,
    rule: LinkRule,
    at: Mapping[Part, int],
    below: list[Below],
    truths: list[Truth],
) -> None:
    """What a rule says of the rows of a chain."""
    _compare(ruled, rule.table, rule.predicate, at, below)
    for conjunct in _conjuncts(rule.predicate):
        some = _restricted(ruled, rule, at, conjunct)
        if some is None:
            continue
        attributes = [ruled.domains[part.table].by_name[name] for part in some.parts for name in part.columns]
        held = ruled.held(some, attributes)
        if held is not None:
            by_name = {part.name: place for part, place in at.items()}
            names = [(by_name[part.name], name) for part in some.parts for name in part.columns]
            _append(truths, names, attributes, held)


@lru_cache(maxsize=256)  # read for each chain, and for each rule that may be left out
def _conjuncts(predicate: str) -> tuple[exp.Expr, ...]:
    with deep_recursion():
        return tuple(conjuncts(row_expression(predicate, "predicate", "'a > 0'")))


def _restricted(ruled: Ruled, rule: LinkRule, at: Mapping[Part, int], conjunct: exp.Expr) -> LinkRule | None:
    """A rule that says one part of another one, and names what that names."""
    named: dict[str, set[str]] = {}
    for column in conjunct.find_all(exp.Column):
        part = _part(ruled, rule.table, column, at)
        if part is None:
            return None
        named.setdefault(part.name, set()).add(fold(column.name))
    parts = [
        replace(part, columns=tuple(name for name in part.columns if fold(name) in named[part.name]))
        for part in rule.parts
        if part.name in named
    ]
    if not parts:
        return None
    return LinkRule(rule.table, conjunct.sql(dialect="duckdb"), parts[0], tuple(parts[1:]))


def _part(ruled: Ruled, table: str, column: exp.Column, at: Mapping[Part, int]) -> Part | None:
    own = fold(column.table) in ("", fold(ruled.sources[table].name))
    return next((part for part in at if part.name == (OWN if own else fold(column.table))), None)


def _compare(ruled: Ruled, table: str, predicate: str, at: Mapping[Part, int], below: list[Below]) -> None:
    """Append what a predicate compares."""

    def column(named: exp.Column) -> tuple[Variable, Kind] | None:
        part = _part(ruled, table, named, at)
        if part is None:
            return None
        source, by_name = ruled.sources[part.table], ruled.domains[part.table].by_name
        name = next(
            (column_there.name for column_there in source.columns if fold(column_there.name) == fold(named.name)), ""
        )
        bounds = bounds_of(by_name[name]) if name in by_name else None
        return None if bounds is None else ((at[part], name), bounds[0])

    for conjunct in _conjuncts(predicate):
        below += below_zero(conjunct, column)


def _is_single(attribute: Attribute) -> bool:
    return attribute.kind == "values" or (attribute.kind == "bins" and attribute.has_single_values)


def _append(
    truths: list[Truth],
    names: list[Variable],
    attributes: Sequence[Attribute],
    held: npt.NDArray[np.bool_],
) -> None:
    """Append which declared values obey, if no column is named twice."""
    if len({*names}) == len(names):
        truths.append((names, held[tuple(slice(0, attribute.regular) for attribute in attributes)]))


def _is_finitely_impossible(truths: Sequence[Truth]) -> bool:
    """Whether no tuple of values is in all, of those that belong together; not decided of too many tuples."""
    left = list(truths)
    while left:
        names, held = left.pop()
        while touched := next((candidate for candidate in left if not {*candidate[0]}.isdisjoint(names)), None):
            left = [candidate for candidate in left if candidate is not touched]
            union = [*names, *(name for name in touched[0] if name not in names)]
            sizes = dict(zip([*names, *touched[0]], [*held.shape, *touched[1].shape], strict=True))
            if len(union) > _MOST_COLUMNS or math.prod(sizes[name] for name in union) > _MOST_TUPLES:
                continue
            held, names = _spread(names, held, union) & _spread(*touched, union), union
        if not held.any():
            return True
    return False


def _spread(names: Sequence[Variable], held: npt.NDArray[np.bool_], union: Sequence[Variable]) -> Any:
    order = sorted(range(len(names)), key=lambda place: union.index(names[place]))
    sizes = {names[place]: held.shape[place] for place in order}
    return held.transpose(order).reshape([sizes.get(name, 1) for name in union])


def _is_linearly_impossible(ruled: Ruled, rows: Sequence[_Row], below: Sequence[Below]) -> bool:
    names = sorted({name for side in below for name, _ in side.form.of})
    if not names:
        return False
    bounds = {}
    for row, name in names:
        bound = bounds_of(ruled.domains[rows[row].stage.table].by_name[name])
        assert bound is not None
        bounds[row, name] = bound
    whole = {name for name, bound in bounds.items() if bound[3]}
    tight = [_tightened(side, whole) for side in below]
    exact = {name for row, name in names if not ruled.domains[rows[row].stage.table].by_name[name].is_float}
    if _are_opposite(tight, exact):
        return True
    from scipy.optimize import linprog  # takes half a second to import

    places = {name: place for place, name in enumerate(names)}
    matrix, right = np.zeros((len(tight), len(names) + 1)), np.zeros(len(tight))
    for number, side in enumerate(tight):
        width = {name: factor * (bounds[name][2] - bounds[name][1]) for name, factor in side.form.of}
        least = side.form.constant + sum((f * bounds[name][1] for name, f in side.form.of), Fraction(0))
        scale = max((*map(abs, width.values()), abs(least))) or Fraction(1)
        for named, factor in width.items():
            matrix[number, places[named]] = float(factor / scale)
        matrix[number, -1], right[number] = -1.0, float(-least / scale)
    solved = linprog([0.0] * len(names) + [1.0], matrix, right, bounds=[*[(0, 1)] * len(names), (0, None)])
    return bool(solved.success and solved.fun is not None and solved.fun > _LEAST)


def _tightened(side: Below, whole: set[Variable]) -> Below:
    """The same of whole numbers without being strict: below zero is at most -1."""
    numbers = [*(factor for _, factor in side.form.of), side.form.constant]
    if not side.strict or not {name for name, _ in side.form.of} <= whole or any(n.denominator != 1 for n in numbers):
        return side
    return Below(replace(side.form, constant=side.form.constant + 1), strict=False)


def _are_opposite(below: Sequence[Below], exact: set[str]) -> bool:
    """Whether two say the opposite, of which one is strict; of floats without arithmetic, which rounds."""
    plain = partial(_is_plain, exact=exact)
    strictness: dict[Any, bool] = {}
    for side in filter(plain, below):
        size = abs(side.form.of[0][1])
        turned = side.form.scaled(1 / size)
        strictness[turned] = strictness.get(turned, False) or side.strict
    return any(
        (other := side.scaled(Fraction(-1))) in strictness and (strict or strictness[other])
        for side, strict in strictness.items()
    )


def _is_plain(side: Below, exact: set[str]) -> bool:
    if {name for (_, name), _ in side.form.of} <= exact:
        return True
    return side.form.constant == 0 and len(side.form.of) == 2 and sum(factor for _, factor in side.form.of) == 0
