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
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Integers, LinearQuery, Part
from dpsql.core.names import shorten
from dpsql.engines.source import Source
from dpsql.errors import DomainTooLarge, InvalidQuery
from dpsql.evaluation.components import check_points, components_of
from dpsql.evaluation.decode import as_read
from dpsql.evaluation.evaluated import Evaluated
from dpsql.evaluation.histograms import Histogram, expanded, fitting
from dpsql.evaluation.lookups import Loaded, database_for
from dpsql.evaluation.moments import LARGEST_WEIGHT
from dpsql.evaluation.own_parts import own_parts
from dpsql.evaluation.part import PartOnCells
from dpsql.evaluation.sandbox import check_expressions
from dpsql.evaluation.statistics import Lowered, averages_for, lowered
from dpsql.evaluation.unmatched import with_unmatched
from dpsql.evaluation.weights import Weight, weights_of
from dpsql.evaluation.workers import Empty
from dpsql.language.expressions import columns_read, sql_of
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
    _check_groups(domain, query)
    source = as_read(source, domain)
    with database_for(query, dimensions) as empty:
        evaluation = _Evaluation(empty, source, domain, query)
        averages = [averages_for(aggregate) for aggregate in query.aggregates]
        ranges: list[tuple[float, float]] = []
        if any(averages):
            wanted = tuple(average for of_one in averages for average in of_one)
            averaged = evaluation.of([Lowered(average, (average,)) for average in wanted])
            ranges = [averaged.average_range(of.weights) for of in averaged.measured]
        lowered_parts = []
        for aggregate, of_one in zip(query.aggregates, averages, strict=True):
            lowered_parts.append(lowered(aggregate, ranges[: len(of_one)], domain))
            ranges = ranges[len(of_one) :]
        return evaluation.of(lowered_parts)


@dataclass(frozen=True)
class _Evaluation:
    """What is known of a query, whatever is measured for its aggregates."""

    empty: Empty
    source: Source
    domain: Domain
    query: Query

    def of(self, lowered_parts: Sequence[Lowered]) -> Evaluated:
        """The query on its domain, with these aggregates, as plain ones."""
        domain = self.domain
        query = replace(self.query, aggregates=tuple(part for aggregate in lowered_parts for part in aggregate.parts))
        weights, made_of = weights_of(query.aggregates)
        components = components_of(domain, query.trees)
        for names in components:
            check_points(names, domain.size(names))
        check_expressions([part for tree in query.trees for part in own_parts(tree)])
        pieces = [
            PartOnCells(self.empty, self.source, domain, names, query, weights, is_first=number == 0)
            for number, names in enumerate(components)
        ]
        _check_possible(query, weights, pieces)
        joined, numbers, histograms = _joined(domain, query, weights, pieces, self.empty)
        measured, passed = [], 0
        for aggregate in lowered_parts:
            of_parts = [number for parts in made_of[passed : passed + len(aggregate.parts)] for number in parts]
            passed += len(aggregate.parts)
            made = aggregate.measured(
                [new for number in of_parts for new in numbers[number]], joined.linear, joined.units
            )
            measured.append(replace(made, histogram=histograms.get(of_parts[0])))
        return replace(joined, measured=tuple(measured))


def _check_possible(query: Query, weights: Sequence[Weight], pieces: Sequence[PartOnCells]) -> None:
    """Refuse an aggregate of rows that the conditions leave none of: noise would be all that it says.

    Raises:
        InvalidQuery: with the conditions.
    """
    for number, weight in enumerate(weights):
        if not all(piece.rows[number].any() for piece in pieces):
            without = () if not all(piece.mask.any() for piece in pieces) else weight.filters
            conditions = " AND ".join(dict.fromkeys(map(sql_of, (*query.filters, *without))))
            raise InvalidQuery(
                f"query: no row of the declared domain satisfies {shorten(conditions)}, so there is nothing to ask: "
                "mend the condition, or the owner declares wider domains"
            )


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


def _joined(
    domain: Domain, query: Query, weights: Sequence[Weight], pieces: Sequence[PartOnCells], empty: Empty
) -> tuple[Evaluated, list[tuple[int, ...]], dict[int, Histogram]]:
    """The pieces together; for each weight the numbers of those that it became, of a histogram one for each bin; and
    the histograms.
    """
    finer = {attribute.name: attribute for piece in pieces for attribute in piece.attributes}
    refined = replace(domain, attributes=tuple(finer.get(a.name, a) for a in domain))
    local = [[_local_keys(piece, chosen) for chosen in query.sets] for piece in pieces]
    if query.scope.preserved is not None:
        local = [_with_unmatched(empty, query, piece, by_set) for piece, by_set in zip(pieces, local, strict=True)]
    counts = [tuple(max(1, len(cells)) for _, cells in by_set) for by_set in local]
    size = sum(math.prod(of_set) for of_set in zip(*counts, strict=True))
    if size > _MOST_GROUPS:
        raise DomainTooLarge(_TOO_MANY_GROUPS.format(size))
    cells = max(len(piece.mask) for piece in pieces)
    several = sum(len(piece.histograms) for piece in pieces)
    histograms = [{n: fitting(h, cells, size, several) for n, h in piece.histograms.items()} for piece in pieces]
    factors, numbers = expanded([piece.factors for piece in pieces], histograms, len(weights))
    parts = tuple(
        Part(piece.names, np.stack(of_piece), np.stack([groups for groups, _ in by_set]), of_sets)
        for piece, of_piece, by_set, of_sets in zip(pieces, factors, local, counts, strict=True)
    )
    units_of = frozenset(numbers[number][0] for number, weight in enumerate(weights) if weight.of_units)
    moments = {numbers[number][0]: moment for piece in pieces for number, moment in piece.moments.items()}
    units = tuple(
        math.prod((piece.units[number] for piece in pieces), start=Fraction(1))
        for number, new in enumerate(numbers)
        for _ in new
    )
    linear = LinearQuery(refined, parts, units_of, moments)
    if max(linear.scales) > LARGEST_WEIGHT:
        raise InvalidQuery("query: the weights are too large to be summed exactly: divide them")
    keys, present = _keys(query, linear, pieces, local)
    histograms_by_number = {number: histogram for of_piece in histograms for number, histogram in of_piece.items()}
    return Evaluated(linear, units, keys, present), numbers, histograms_by_number


Texts = tuple[tuple[npt.NDArray[Any] | None, ...], ...]


def _keys(
    query: Query,
    linear: LinearQuery,
    pieces: Sequence[PartOnCells],
    local: Sequence[Sequence[tuple[Integers, Integers]]],
) -> tuple[Texts, tuple[npt.NDArray[np.bool_], ...]]:
    """The texts of the keys in each group of each grouping set, and which groups can have a row."""
    keys, present = [], []
    for number, chosen in enumerate(query.sets):
        places = np.unravel_index(np.arange(linear.groups[number]), [part.keys[number] for part in linear.parts])
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
    return tuple(keys), tuple(present)


def _with_unmatched(
    empty: Empty, query: Query, piece: PartOnCells, by_set: Sequence[tuple[Integers, Integers]]
) -> list[tuple[Integers, Integers]]:
    """The groups of a part in each grouping set, with those of public rows that no cell meets."""
    groups_by_set = []
    for chosen, (groups, cells) in zip(query.sets, by_set, strict=True):
        places = [place for place, key in enumerate(piece.keys) if key in chosen and columns_read(query.keys[key])]
        if places:
            numbers = [piece.keys[place] for place in places]
            texts, cells = with_unmatched(empty, query, numbers, [piece.key_texts[p] for p in places], cells)
            for place, column in zip(places, texts, strict=True):
                piece.key_texts[place] = column
            piece.pad_texts(max(map(len, piece.key_texts)))
        groups_by_set.append((groups, cells))
    return groups_by_set


def _local_keys(piece: PartOnCells, chosen: Sequence[int]) -> tuple[Integers, Integers]:
    """The group of each cell of a part, and one cell of each group, for the keys of one grouping set.

    Only keys of cells that the filters keep are groups; the others get group 0, where their weights are 0.
    """
    groups = np.zeros(len(piece.mask), np.int64)
    places = np.flatnonzero(piece.mask)
    numbers = [n for key, n in zip(piece.keys, piece.key_numbers, strict=True) if key in chosen]
    if not numbers or not len(places):
        return groups, places[:1]
    _, first, inverse = np.unique(np.stack(numbers)[:, places], axis=1, return_index=True, return_inverse=True)
    groups[places] = inverse.ravel()
    return groups, places[first]
