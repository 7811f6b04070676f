"""Public facts that every synthetic row must satisfy: an owner states them and takes them back."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.core.constraint import Constraint, components
from dpsql.core.domain import Domain
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.constraints import check_tuples, find_allowed
from dpsql.owner.protect import account_of, domain_of


def constrain(cursor: Cursor, source: Source, constraint: Constraint, *, looked: bool = False) -> tuple[int, int]:
    """State a public fact that every synthetic row must satisfy; see docs/how-to/constraints.md.

    It runs on the declared domain and on synthetic rows, never on private ones: whether they satisfy it is not checked.

    Args:
        cursor: of the owner.
        source: whose rows it is about.
        constraint: from `parse_predicate`.
        looked: whether the owner read it off the rows, so that it is the owner's disclosure.

    Returns:
        How many tuples of its columns' codes there are, and how many it allows together with the constraints recorded
        before that share a column with it.

    Raises:
        NotProtected: the table has no account yet.
        NotDeclared: a column that it names has no domain yet.
        InvalidArgument: there are too many tuples to try, or nothing would satisfy it.
    """
    books = Books(cursor, source.catalog)
    domain, component = tried_on(books, source, constraint)
    allowed = find_allowed(source, domain, component)[0]
    facts.constrain(books, source.key, constraint, looked=looked)
    return domain.size(allowed.clique), len(allowed.codes)


def unconstrain(cursor: Cursor, source: Source, predicate: str) -> Constraint:
    """Take a fact back.

    Raises:
        NotProtected: the table has no account yet.
        InvalidArgument: it was not stated.
    """
    books = Books(cursor, source.catalog)
    account_of(books, source)
    constraints = [*facts.constraints(books, source.key), *facts.rules(books, source.key)]
    matches = [other for other in constraints if other.predicate == predicate.strip()]
    if not matches:
        listed = "; ".join(other.predicate for other in constraints) or "none"
        raise InvalidArgument(f"{source.name!r} has no constraint {predicate.strip()!r}; it has: {listed}")
    facts.constrain(books, source.key, matches[0], remove=True)
    return matches[0]


def tried_on(books: Books, source: Source, constraint: Constraint) -> tuple[Domain, Sequence[Constraint]]:
    """The domain on which a fact is tried, and the facts that belong together with it, itself too; see `constrain`."""
    account_of(books, source)
    for attribute in facts.computed(books, source.key):
        if attribute.name in constraint.columns:
            raise InvalidArgument(
                f"predicate: {attribute.name!r} is computed, so state the fact of what it is computed from: "
                f"({attribute.computed_as})"
            )
    others = (other for other in facts.constraints(books, source.key) if other.predicate != constraint.predicate)
    component = next(part for part in components([constraint, *others]) if constraint in part)
    domain = domain_of(books, source, sorted({name for part in component for name in part.columns}))
    check_tuples(source, domain, component)
    return domain.inner, component
