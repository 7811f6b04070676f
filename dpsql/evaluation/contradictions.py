"""Rules between rows of a tree that no unit can obey: noticed on public domains alone, so before anything is charged.

    component   rules that share columns, and facts about one row that tie these
    refuted     by `dpsql.evaluation.refutation`; what is not proven to contradict goes on

A value outside the domain is NULL, which obeys most rules; so it does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from dpsql.core.constraint import Allowed, Constraint
from dpsql.core.domain import Domain
from dpsql.core.link_rule import LinkRule
from dpsql.core.tree import Tree
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.constraints import find_allowed, taken_back
from dpsql.evaluation.refutation import Ruled, is_refuted
from dpsql.evaluation.roles import allowed_of_role
from dpsql.evaluation.ruled_rows import Rules


def refuse_contradictions(
    tree: Tree,
    sources: Mapping[str, Source],
    domains: Mapping[str, Domain],
    rules: Sequence[LinkRule],
    facts: Mapping[str, Sequence[Constraint]],
    before: tuple[Sequence[LinkRule], Mapping[str, Sequence[Constraint]]] = ((), {}),
) -> None:
    """Refuse rules that no declared values of any rows obey together.

    Args:
        tree: of the tables.
        sources: all its tables.
        domains: of the same, or of the columns that have a domain so far.
        rules: between their rows.
        facts: about one row of each table.
        before: rules and facts that are stated already: what contradicts among these is not refused.

    Raises:
        InvalidArgument: there are such rules; names those that contradict each other, and how to take one back.
    """
    whole = tuple(domains.items())

    def contradicting(some: Sequence[LinkRule], beside: Mapping[str, Sequence[Constraint]]) -> list[list[LinkRule]]:
        stated = tuple((table, tuple(beside.get(table, ()))) for table in tree.tables)
        return _components(tree, tuple(sources.items()), whole, tuple(some), stated)

    for part in contradicting(rules, facts):
        if {*part} <= {*before[0]} and contradicting(part, before[1]):
            continue
        predicates = list(dict.fromkeys(rule.predicate for rule in part))
        obey = "obey it" if len(predicates) == 1 else "obey them together"
        raise InvalidArgument(
            f"{' and '.join(map(repr, predicates))}: no declared values of rows of {part[0].subject.table!r} "
            f"{obey}, beside other facts and roles of their tables: correct the domains, "
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
    ruled, contradicting = Ruled(tree, dict(sources), dict(domains), rules, allowed), []
    for part in _apart(rules, allowed):
        if not is_refuted(ruled, part):
            continue
        for rule in part:
            rest = [other for other in part if other is not rule]
            part = rest if rest and is_refuted(ruled, rest) else part
        contradicting.append(part)
    return contradicting


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
        touched = [component for component in parts if not component[0].isdisjoint(columns)]
        parts = [component for component in parts if not any(component is other for other in touched)]
        parts.append((columns.union(*(names for names, _ in touched)), [*(r for _, m in touched for r in m), rule]))
    return [members for _, members in parts if members]
