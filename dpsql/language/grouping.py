"""GROUP BY as grouping sets: ROLLUP, CUBE and GROUPING SETS written out; and which groups are shown."""

from __future__ import annotations

import itertools
from typing import Final, NoReturn

from sqlglot import exp

from dpsql.language.refusal import refuse

_MOST_SETS: Final = 1024


def grouping_sets(group: exp.Group, most: int = _MOST_SETS) -> list[tuple[exp.Expr, ...]]:
    """The grouping sets of a GROUP BY: every combination of those that its items stand for.

    Args:
        group: the clause.
        most: of them.

    Raises:
        InvalidQuery: there are more.
    """
    sets: list[tuple[exp.Expr, ...]] = [()]
    for item in group.expressions:
        added = _sets(item, most)
        if len(sets) * len(added) > most:
            _refuse_many(group, most)
        sets = [before + more for before in sets for more in added]
    return sets


def _sets(item: exp.Expr, most: int) -> list[tuple[exp.Expr, ...]]:
    """The grouping sets that one item of GROUP BY stands for."""
    if isinstance(item, exp.GroupingSets):
        return [grouping_set for part in item.expressions for grouping_set in _sets(part, most)]
    if isinstance(item, exp.Rollup):
        parts = [_members(part) for part in item.expressions]
        return [tuple(itertools.chain(*parts[:length])) for length in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [_members(part) for part in item.expressions]
        if 2 ** len(parts) > most:
            _refuse_many(item, most)
        chosen = itertools.product((True, False), repeat=len(parts))
        return [tuple(itertools.chain(*itertools.compress(parts, picks))) for picks in chosen]
    return [_members(item)]


def _refuse_many(node: exp.Expr, most: int) -> NoReturn:
    refuse(node, f"there are more than {most} grouping sets", "list those that matter")


def _members(item: exp.Expr) -> tuple[exp.Expr, ...]:
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.this,) if isinstance(item, exp.Paren) else (item,)


def whole_number(clause: exp.Expr | None, what: str) -> int | None:
    """The number of a LIMIT or OFFSET."""
    if clause is None:
        return None
    number = clause.expression
    if not (isinstance(number, exp.Literal) and number.is_int) or clause.args.get("limit_options"):
        refuse(clause, f"{what} takes a whole number", "say it around: FROM dp_query('…') LIMIT …")
    return int(number.name)
