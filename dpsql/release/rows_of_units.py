"""Conditions on rows that units are asked for: the cells of the declared domain in which they hold.

Conditions that share no column are tried each by itself, so many columns of few values each are no product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dpsql.books.ledger.store import Books
from dpsql.books.tables.links import beside, declared_beside
from dpsql.core.constraint import MOST_TUPLES, Constraint, components
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.source import PerUnit, Source
from dpsql.engines.source_path import with_per_unit
from dpsql.errors import InvalidArgument, InvalidQuery
from dpsql.evaluation.constraints import PredicateFails, is_true, parse_predicate
from dpsql.owner.protect import domain_of
from dpsql.release.planned import digest

_MOST_CELLS: Final = 10_000
_WHERE: Final = "query: in a condition on rows that units are asked for,"


def with_cells(books: Books, source: Source) -> tuple[Source, tuple[tuple[str, str], ...]]:
    """Units whose questions say in which cells their conditions hold, and digests of what those depend on.

    The conditions run on the declared domain, in an empty database, and never on private rows.

    Raises:
        InvalidQuery: a condition reads a column whose bins hold several values, or fails.
        NotDeclared: a column has no domain.
    """
    for derived in source.per_unit:
        if derived.question.value:
            table = beside(books, derived.table)
            domain_of(books, table, [derived.question.value])  # refuses one without a domain by its name
            _check_used(declared_beside(books, table).get(derived.question.by))
    if not any(derived.question.where for derived in source.per_unit):
        return source, ()
    questions = [_looked_up(books, derived) if derived.question.where else derived for derived in source.per_unit]
    digests = [(derived.name, digest(repr((derived.domain, derived.cells)))) for derived in questions]
    return with_per_unit(source, questions), tuple(digests)


def _check_used(by: Attribute | None) -> None:
    """Refuse to order rows by a column of which nothing may be used.

    Raises:
        InvalidQuery: it is excluded.
    """
    if by is not None and by.kind == "excluded":
        raise InvalidQuery(
            f"query: rows are ordered by {by.name!r}, which its owner excluded, so nothing of it is used: order by "
            "another column"
        )


def _looked_up(books: Books, derived: PerUnit) -> PerUnit:
    """The same, with the cells in which its conditions hold."""
    table = beside(books, derived.table)
    stated = [_stated(table, condition) for condition in derived.question.where]
    names = sorted({name for condition in stated for name in condition.columns})
    domain = domain_of(books, table, names).inner
    _check_exact([attribute for attribute in domain if not _is_exact(attribute)])
    return replace(derived, domain=domain, cells=tuple(_cells(table, domain, part) for part in components(stated)))


def _stated(table: Source, condition: str) -> Constraint:
    try:
        return parse_predicate(table, condition)
    except InvalidArgument as error:
        raise InvalidQuery(f"{_WHERE} {str(error).removeprefix('predicate').lstrip(': ')}") from None


def _cells(table: Source, domain: Domain, part: Sequence[Constraint]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The columns of conditions that belong together, and the cells in which all are true."""
    read = {name for condition in part for name in condition.columns}
    attributes = [attribute for attribute in domain if attribute.name in read]
    shape = [attribute.size for attribute in attributes]
    words = " AND ".join(condition.predicate for condition in part)
    if math.prod(shape) > MOST_TUPLES:
        raise InvalidQuery(
            f"{_WHERE} {words} spans {math.prod(shape)} tuples of values, more than {MOST_TUPLES}: ask about fewer "
            "columns in one condition"
        )
    codes = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
    holds = np.ones(len(codes), bool)
    for condition in part:
        try:
            holds &= is_true(table, attributes, condition.predicate, codes)
        except PredicateFails as fails:
            raise InvalidQuery(f"{_WHERE} {condition.predicate} fails on declared values: {fails.reason}") from None
    cells = np.flatnonzero(holds)
    if not len(cells):
        raise InvalidQuery(
            f"{_WHERE} {words} is true of no declared value: ask for declared ones, FROM dp_domains({table.argument})"
        )
    if len(cells) > _MOST_CELLS:
        raise InvalidQuery(
            f"{_WHERE} {words} holds in {len(cells)} cells, more than {_MOST_CELLS}: ask about fewer columns"
        )
    return tuple(attribute.name for attribute in attributes), tuple(map(int, cells))


def _check_exact(coarse: list[Attribute]) -> None:
    """Refuse columns of which a code stands for several values.

    Raises:
        InvalidQuery: there are some.
    """
    if coarse:
        names = ", ".join(attribute.name for attribute in coarse)
        raise InvalidQuery(
            f"{_WHERE} {names} has a domain of which a code stands for several values: its owner declares values, or "
            "bins of one value each"
        )


def _is_exact(attribute: Attribute) -> bool:
    """Whether a code stands for one value."""
    if attribute.kind == "values":
        return attribute.other is None
    steps = np.diff(np.array(attribute.ticks))
    return attribute.kind == "bins" and not attribute.is_float and bool((steps == 1).all())
