"""Conditions on rows that are counted for each unit: the cells of the declared domain in which they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from dpsql.books.ledger.store import Books
from dpsql.books.tables.links import beside
from dpsql.core.constraint import Constraint
from dpsql.core.domain import Attribute
from dpsql.engines.source import Source
from dpsql.engines.source_path import PerUnit, with_numbers
from dpsql.errors import InvalidArgument, InvalidQuery
from dpsql.evaluation.constraints import find_allowed, parse_predicate
from dpsql.owner.protect import domain_of
from dpsql.release.planned import digest

_MOST_CELLS: Final = 10_000


def with_cells(books: Books, source: Source) -> tuple[Source, tuple[tuple[str, str], ...]]:
    """Units whose numbers of rows say in which cells their conditions hold, and digests of what those depend on.

    The conditions run on the declared domain, in an empty database, and never on private rows.

    Raises:
        InvalidQuery: a condition reads a column whose bins hold several values, or fails.
        NotDeclared: a column has no domain.
    """
    if not any(number.where for number in source.per_unit):
        return source, ()
    numbers = [_looked_up(books, number) if number.where else number for number in source.per_unit]
    plain = replace(source, columns=source.columns[: len(source.columns) - len(numbers)], per_unit=())
    digests = [(number.name, digest(repr((number.domain, number.cells)))) for number in numbers]
    return with_numbers(plain, numbers), tuple(digests)


def _looked_up(books: Books, number: PerUnit) -> PerUnit:
    """The same, with the cells in which its conditions hold."""
    table = beside(books, number.table)
    predicate = " AND ".join(f"(\n{condition}\n)" for condition in number.where)
    try:
        stated = parse_predicate(table, f"({predicate}) IS TRUE")
        domain = domain_of(books, table, sorted(stated.columns)).inner
        _check_exact([attribute for attribute in domain if not _is_exact(attribute)])
        (allowed,) = find_allowed(table, domain, [Constraint(stated.predicate, stated.columns)])
    except InvalidArgument as error:
        raise InvalidQuery(f"query: WHERE of rows that are counted for each unit: {error}") from None
    cells = np.ravel_multi_index(tuple(allowed.codes.T), domain.shape(domain.names))
    if len(cells) > _MOST_CELLS:
        raise InvalidQuery(
            f"query: WHERE of rows that are counted for each unit holds in {len(cells)} cells, more than "
            f"{_MOST_CELLS}: ask about fewer columns"
        )
    return replace(number, domain=domain, cells=tuple(sorted(map(int, cells))))


def _check_exact(coarse: list[Attribute]) -> None:
    """Refuse columns of which a code stands for several values.

    Raises:
        InvalidQuery: there are some.
    """
    if coarse:
        names = ", ".join(attribute.name for attribute in coarse)
        raise InvalidQuery(
            f"query: WHERE of rows that are counted for each unit reads {names}, of which a code stands for several "
            "values: declare values, or bins of one value each"
        )


def _is_exact(attribute: Attribute) -> bool:
    """Whether a code stands for one value."""
    if attribute.kind == "values":
        return attribute.other is None
    steps = np.diff(np.array(attribute.ticks))
    return attribute.kind == "bins" and not attribute.is_float and bool((steps == 1).all())
