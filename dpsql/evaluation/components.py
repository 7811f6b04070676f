"""Which columns expressions join: those of one part are tried in every combination of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.errors import DomainTooLarge
from dpsql.language.expressions import columns_read

_MOST_POINTS: Final = 4_000_000


def columns_of(domain: Domain, tree: exp.Expr) -> tuple[str, ...]:
    """The columns of the domain that an expression reads."""
    return domain.clique(columns_read(tree))


def components_of(domain: Domain, trees: Sequence[exp.Expr]) -> list[tuple[str, ...]]:
    """The columns of each part: those that expressions join. One empty part, if no column is read."""
    parts: list[set[str]] = []
    for tree in trees:
        names = set(columns_of(domain, tree))
        joined = [part for part in parts if part & names]
        parts = [part for part in parts if not part & names] + [names.union(*joined)]
    cliques = [domain.clique(part) for part in parts if part]
    return sorted(cliques, key=lambda names: domain.names.index(names[0])) or [()]


def check_points(names: Sequence[str], points: int) -> None:
    """Refuse expressions of too many combinations of values."""
    if points > _MOST_POINTS:
        raise DomainTooLarge(
            f"query: the expressions join {', '.join(names)}, whose domains have {points:.3g} combinations of values, "
            f"more than {_MOST_POINTS}: use fewer of them in one expression, or declare coarser domains"
        )
