"""What rules between rows allow of a unit's row, so that the fit knows them: those of the row at the top and of roles.

    head.age = age_of_head      →  the columns `persons.head.age` and `age_of_head` of a unit's row go together

A rule is left to the draw of rows (`dpsql.release.rule_drawing`) where it speaks of rows without a role, of which a
unit has many, or where another fact has one of its columns. There all rules are obeyed, whatever is known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import MOST_TUPLES, Allowed
from dpsql.core.domain import Domain
from dpsql.core.link_rule import LinkRule
from dpsql.core.unit_row import UnitRow
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.link_rules import held_tuples


def with_rules(
    unit_row: UnitRow, allowed: Sequence[Allowed], rules: Sequence[LinkRule], sources: Mapping[str, Source]
) -> list[Allowed]:
    """What is allowed of units' rows, by facts about one row and by rules.

    Args:
        unit_row: the flat domain.
        allowed: by facts about one row; parts share no column.
        rules: between rows.
        sources: the tables.
    """
    parts = list(allowed)
    for rule in rules:
        part = _allowed(unit_row, rule, sources)
        if part is None:
            continue
        tied = [other for other in parts if not {*other.clique}.isdisjoint(part.clique)]
        if all(len(other.clique) == 1 and not other.predicates for other in tied):  # that say only that a row is there
            mask = np.ones(len(part.codes), bool)
            for other in tied:
                mask &= np.isin(part.codes[:, part.clique.index(other.clique[0])], other.codes[:, 0])
            if mask.any():
                parts = [other for other in parts if other not in tied]
                parts.append(Allowed(part.clique, part.columns, part.predicates, part.codes[mask], part.places[mask]))
    return parts


def together(domain: Domain, allowed: Sequence[Allowed]) -> list[Allowed]:
    """Parts that share a column as one, of the tuples that both allow, so that parts share none.

    Args:
        domain: of the columns.
        allowed: what is allowed of some columns each.

    Raises:
        InvalidArgument: they span too many tuples, or allow none together.
    """
    parts: list[Allowed] = []
    for part in allowed:
        tied = [other for other in parts if not {*other.clique}.isdisjoint(part.clique)]
        for other in tied:
            part = _joined(domain, other, part)
        parts = [*(other for other in parts if all(other is not joint for joint in tied)), part]
    return parts


def _joined(domain: Domain, first: Allowed, second: Allowed) -> Allowed:
    """The tuples of two parts that agree where both have a column."""
    common = [name for name in first.clique if name in second.clique]
    keys = [part.codes[:, [part.clique.index(name) for name in common]] for part in (first, second)]
    shape = [domain.by_name[name].size for name in common]
    mine, theirs = (np.ravel_multi_index(tuple(key.T), shape) for key in keys)
    numbers = np.bincount(mine, minlength=math.prod(shape))[theirs]
    stated = " and ".join(map(repr, dict.fromkeys((*first.predicates, *second.predicates))))
    if not numbers.any():
        raise InvalidArgument(f"{stated} together hold of no declared values: take one of them back")
    if numbers.sum() > MOST_TUPLES:
        raise InvalidArgument(
            f"{stated} belong together and allow more than {MOST_TUPLES} tuples of values: state them over fewer or "
            "coarser columns"
        )
    order = np.argsort(mine, kind="stable")
    starts = np.searchsorted(mine[order], theirs)
    right = np.repeat(np.arange(len(theirs)), numbers)
    left = order[np.arange(len(right)) - np.repeat(np.cumsum(numbers) - numbers, numbers) + np.repeat(starts, numbers)]
    new = [place for place, name in enumerate(second.clique) if name not in common]
    names = (*first.clique, *(second.clique[place] for place in new))
    clique = domain.clique(names)
    places = [names.index(name) for name in clique]
    codes = np.hstack([first.codes[left], second.codes[right][:, new]])[:, places]
    inside = np.hstack([first.places[left], second.places[right][:, new]])[:, places]
    columns = tuple(dict.fromkeys((*first.columns, *second.columns)))
    return Allowed(clique, columns, (*first.predicates, *second.predicates), codes, inside)


def _allowed(unit_row: UnitRow, rule: LinkRule, sources: Mapping[str, Source]) -> Allowed | None:
    """What one rule allows; None where it speaks of rows that are not in a unit's row, or of too many tuples."""
    names: list[tuple[str, ...]] = []
    for part in rule.parts:
        place = 0 if part.table == unit_row.tree.root else unit_row.slot_of(part.table, 0, part.role)
        if place is None or (place and (part.role is None or unit_row.slots[place].above != 0)):
            return None
        own = unit_row.extended(part.table).names
        names.append(tuple(unit_row.slots[place].names[own.index(name)] for name in part.columns))
    flat = [name for part in names for name in part]
    if len({*flat}) < 2 or math.prod(unit_row.domain.by_name[name].size for name in flat) > MOST_TUPLES:
        return None
    clique = tuple(name for name in unit_row.domain.names if name in flat)
    shape = unit_row.domain.shape(clique)
    codes = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1).astype(np.int64)
    held = _held(unit_row, rule, names, codes, clique, sources)
    return Allowed(clique, clique, (rule.predicate,), codes[held], np.zeros((int(held.sum()), len(clique))))


def _held(
    unit_row: UnitRow,
    rule: LinkRule,
    names: Sequence[tuple[str, ...]],
    codes: npt.NDArray[np.int64],
    clique: tuple[str, ...],
    sources: Mapping[str, Source],
) -> npt.NDArray[np.bool_]:
    """For each tuple of the flat domain whether a rule holds of it; it does where a row is not there."""
    members: Mapping[str, Domain] = unit_row.members
    table = held_tuples(rule, sources, members)
    missing, mixed, inner = np.zeros(len(codes), bool), np.zeros(len(codes), bool), []
    for part in names:
        gone = []
        for name in part:
            column, absent = codes[:, clique.index(name)], unit_row.domain.by_name[name].absent_code
            gone.append(np.zeros(len(codes), bool) if absent is None else column == absent)
            inner.append(column if absent is None else column - (column > absent))
        missing |= np.all(gone, axis=0)
        mixed |= np.any(gone, axis=0) & ~np.all(gone, axis=0)
    tuples = np.stack(inner, axis=1)
    tuples = np.minimum(tuples, np.array(table.shape) - 1)
    return np.asarray(~mixed & (missing | table[tuple(tuples.T)]), bool)
