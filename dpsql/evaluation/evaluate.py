r"""What the expressions of a query are on every cell of the declared domain: keys, filters and weights.

Expressions that share columns form a part. Each part is evaluated by DuckDB in an empty database, on the product of its
columns' values, never on private rows. A bin that holds several values is tried at several of them: at all if they can
be counted, else at its ends and around every constant of the expression, which tells all that a comparison or a
monotone function can do inside. An expression that is not the same in all of a bin cannot be answered from its counts:
then the columns are taken value by value, where their type has steps and the bounds leave few enough of them.

    cells of a part  →  number of the key among the part's distinct keys, filter (0 or 1), weight of each aggregate
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Integers, LinearQuery, Part
from dpsql.engines.source import Source
from dpsql.errors import DomainTooLarge, InvalidQuery
from dpsql.evaluation.components import check_points, components_of
from dpsql.evaluation.decode import as_read
from dpsql.evaluation.evaluated import Evaluated
from dpsql.evaluation.lookups import Loaded
from dpsql.evaluation.moments import LARGEST_WEIGHT
from dpsql.evaluation.own_parts import own_parts
from dpsql.evaluation.part import PartOnCells
from dpsql.evaluation.sandbox import check_expressions, empty_database
from dpsql.evaluation.weights import Weight, weights_of
from dpsql.language.expressions import columns_read
from dpsql.language.query import Query

_MOST_GROUPS: Final = 5_000_000
_TOO_MANY_GROUPS: Final = (
    f"query: the declared domain has {{:.3g}} groups, more than {_MOST_GROUPS}, and every one gets an answer: group by "
    "fewer or coarser columns"
)


def evaluate(source: Source, domain: Domain, query: Query, dimensions: Sequence[Loaded] = ()) -> Evaluated:
    """Evaluate a query's expressions on the domain of its columns.

    Args:
        source: the protected table.
        domain: of its columns.
        query: taken apart, over the columns of `source`.
        dimensions: the public tables that it joins.

    Raises:
        InvalidQuery: an expression fails, calls what is not plain, or is not the same in all of a bin.
        DomainTooLarge: too many cells to try, or too many groups.
    """
    weights, _ = weights_of(query.aggregates)
    _check_groups(domain, query)
    components = components_of(domain, query.trees)
    for names in components:
        check_points(names, domain.size(names))
    check_expressions([part for tree in query.trees for part in own_parts(tree)])
    pieces, source = [], as_read(source, domain)
    with empty_database() as empty:
        for loaded in dimensions:
            loaded.create(empty)
        for number, names in enumerate(components):
            pieces.append(PartOnCells(empty, source, domain, names, query, weights, is_first=number == 0))
    return _joined(domain, query, weights, pieces)


def _check_groups(domain: Domain, query: Query) -> None:
    """Refuse at once what has too many groups whatever its expressions are: those of plain columns that no filter
    reads.
    """
    filtered = {name for tree in query.filters for name in columns_read(tree)}
    plain = {n: tree.name for n, tree in enumerate(query.keys) if isinstance(tree, exp.Column) and not tree.table}
    for chosen in query.sets:
        names = {plain[number] for number in chosen if number in plain} - filtered
        groups = math.prod(domain.by_name[name].size for name in names)
        if groups > _MOST_GROUPS:
            raise DomainTooLarge(_TOO_MANY_GROUPS.format(groups))


def _joined(domain: Domain, query: Query, weights: Sequence[Weight], pieces: Sequence[PartOnCells]) -> Evaluated:
    finer = {attribute.name: attribute for piece in pieces for attribute in piece.attributes}
    refined = replace(domain, attributes=tuple(finer.get(a.name, a) for a in domain))
    units = tuple(
        math.prod((piece.units[number] for piece in pieces), start=Fraction(1)) for number in range(len(weights))
    )
    parts, local = [], []
    for piece in pieces:
        by_set = [_local_keys(piece, chosen) for chosen in query.sets]
        local.append(by_set)
        counts = tuple(max(1, len(cells)) for _, cells in by_set)
        groups = np.stack([groups for groups, _ in by_set])
        parts.append(Part(piece.names, np.stack(piece.factors), groups, counts))
    units_of = frozenset(number for number, weight in enumerate(weights) if weight.of_units)
    moments = {number: moment for piece in pieces for number, moment in piece.moments.items()}
    linear = LinearQuery(refined, tuple(parts), units_of, moments)
    if sum(linear.groups) > _MOST_GROUPS:
        raise DomainTooLarge(_TOO_MANY_GROUPS.format(sum(linear.groups)))
    if max(linear.scales) > LARGEST_WEIGHT:
        raise InvalidQuery("query: the weights are too large to be summed exactly: divide them")
    keys, present = [], []
    for number, chosen in enumerate(query.sets):
        places = np.unravel_index(np.arange(linear.groups[number]), [part.keys[number] for part in parts])
        columns: list[npt.NDArray[Any] | None] = [None] * len(query.keys)
        alive = np.ones(linear.groups[number], bool)
        for piece, by_set, place in zip(pieces, local, places, strict=True):
            _, cells = by_set[number]
            alive &= bool(len(cells)) or not chosen  # without keys there is one group, of no rows too
            for key, texts in zip(piece.keys, piece.key_texts, strict=True):
                if key in chosen and len(cells):
                    columns[key] = texts[cells][place]
        keys.append(tuple(columns))
        present.append(alive)
    return Evaluated(linear, units, tuple(keys), tuple(present))


def _local_keys(piece: PartOnCells, chosen: Sequence[int]) -> tuple[Integers, Integers]:
    """The group of each cell of a part, and one cell of each group, for the keys of one grouping set.

    Only keys of cells that the filters keep are groups; the others get group 0, where their weights are 0.
    """
    groups = np.zeros(len(piece.mask), np.int64)
    kept = np.flatnonzero(piece.mask)
    numbers = [n for key, n in zip(piece.keys, piece.key_numbers, strict=True) if key in chosen]
    if not numbers or not len(kept):
        return groups, kept[:1]
    _, first, inverse = np.unique(np.stack(numbers)[:, kept], axis=1, return_index=True, return_inverse=True)
    groups[kept] = inverse.ravel()
    return groups, kept[first]
