"""Where a query stands: what names mean there, and how deep it is inside others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from dpsql.core.names import fold
from dpsql.language.refusal import refuse, refuse_clause
from dpsql.language.scope import Catalog

DEEPEST: Final = 20
"""Views, CTEs and subqueries inside one another."""


@dataclass(frozen=True)
class Place:
    """Where a query stands: what names mean, the CTEs in sight, how deep it is."""

    catalog: Catalog
    named: Mapping[str, tuple[exp.Query, tuple[str, ...], Place]] = field(default_factory=dict)
    depth: int = 0

    def with_(self, query: exp.Query) -> Place:
        """With a query's CTEs."""
        clause = query.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            refuse(clause, "WITH RECURSIVE is not supported")
        place = self
        for part in clause.expressions:
            columns = tuple(column.name for column in part.args["alias"].args.get("columns") or ())
            place = replace(place, named={**place.named, fold(part.alias): (part.this, columns, place)})
        return place

    def is_named(self, item: exp.Expr) -> bool:
        """Whether an item of FROM is a query of a WITH."""
        return isinstance(item, exp.Table) and not item.args.get("db") and fold(item.name) in self.named

    def is_public(self, item: exp.Expr) -> bool:
        """Whether an item of FROM reads public tables only."""
        if self.is_named(item):
            query, _, outside = self.named[fold(item.name)]
            return _reads_public(query, outside)
        if isinstance(item, exp.Subquery):
            return _reads_public(item.this, self.with_(item))
        return isinstance(item, exp.Table) and is_name(item) and self.catalog.is_public(item)

    def seen_by(self, catalog: Catalog) -> Place:
        """The same place with another catalogue, in its WITH queries too."""
        named = {
            name: (query, columns, outside.seen_by(catalog)) for name, (query, columns, outside) in self.named.items()
        }
        return Place(catalog, named, self.depth)


def _reads_public(query: exp.Expr, place: Place) -> bool:
    origin = query.args.get("from_") if isinstance(query, exp.Select) else None
    items = [] if origin is None else [origin.this, *(join.this for join in query.args.get("joins") or ())]
    return bool(items) and all(map(place.with_(query).is_public, items))  # type: ignore[arg-type]


def is_name(table: exp.Table) -> bool:
    """Whether a table of FROM is a name, not a function."""
    return isinstance(table.this, exp.Identifier)


def check_plain(item: exp.Expr, read: tuple[str, ...]) -> None:
    """Refuse what a part of FROM says beside what is read of it, by sqlglot's names: nothing is left out unseen."""
    for name, value in item.args.items():
        if value and name not in read:
            refuse_clause(item, name)
