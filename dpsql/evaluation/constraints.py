"""Constraints in SQL: check a predicate, find the tuples that it allows, and settle values inside bins.

A predicate never meets private rows: it runs in an empty database of its own in memory, without access to files, on the
public domain and on synthetic rows:

    tuples(c1, c2, …)  =  the product of the columns' codes, decoded into the source's types at some places of the bins
    allowed            =  those for which coalesce(predicate, TRUE) at one of the places tried
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.constraint import MOST_TUPLES, Allowed, Codes, Constraint, components
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import as_text
from dpsql.core.steps import released_ticks
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.evaluation.refused import words_of_duckdb
from dpsql.evaluation.row_expression import Frame, columns_of_row
from dpsql.evaluation.sandbox import empty_database
from dpsql.evaluation.workers import Empty

_REDRAWS: Final = 20
_ENDS: Final = (0.0, 0.999999, 0.5)  # of a bin: its lower end, its upper end, its middle
_MOST_COMBINED: Final = 4  # columns with bins of which all combinations of ends are tried
_RANDOM_PLACES: Final = 64


class PredicateFails(InvalidArgument):
    """A predicate fails on the declared domain.

    Attributes:
        reason: DuckDB's, for those who say it in words of their own.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def parse_predicate(source: Source, predicate: str) -> Constraint:
    """Check that a predicate is one about the columns of one row.

    Raises:
        InvalidArgument: see `columns_of_row`.
        UnknownName: a column that the source does not have.
    """
    return Constraint(predicate.strip(), columns_of_row(source, predicate, "predicate", "'sick OR cost = 0'"))


def find_allowed(source: Source, domain: Domain, constraints: Sequence[Constraint]) -> list[Allowed]:
    """What the constraints allow in a domain; one that names a column left out of the domain does not apply.

    Raises:
        InvalidArgument: a predicate fails on the domain, nothing is allowed, or there are too many tuples to try.
    """
    applicable = applicable_in(domain, constraints)
    if not applicable:  # an empty database takes longer to open than all the rest
        return []
    return list(_allowed_of(source, domain, tuple(applicable)))


@lru_cache(maxsize=8)  # a release asks several times: when it is bound, before its charge, and when it draws rows
def _allowed_of(source: Source, domain: Domain, constraints: tuple[Constraint, ...]) -> tuple[Allowed, ...]:
    """What constraints allow, which depends on nothing else; its arrays are for reading only."""
    parts = components(constraints)
    for part in parts:
        check_tuples(source, domain, part)
    with empty_database() as empty:
        parts_allowed = tuple(_allowed(empty, source, domain, part) for part in parts)
    for allowed in parts_allowed:
        allowed.codes.flags.writeable = allowed.places.flags.writeable = False
    return parts_allowed


def applicable_in(domain: Domain, constraints: Sequence[Constraint]) -> list[Constraint]:
    """Those that name no column that is left out of the domain."""
    names = {*domain.names, *(attribute.name for attribute in domain.excluded)}
    return [constraint for constraint in constraints if names.issuperset(constraint.columns)]


def refuse_impossible(source: Source, domain: Domain, constraints: Sequence[Constraint]) -> None:
    """Refuse, before a charge, constraints that no declared value satisfies, or that span too many tuples of values.

    A value outside the domain is NULL, of which hardly any predicate is FALSE. So it does not count here.

    Raises:
        InvalidArgument: see `find_allowed`.
    """
    for part in components(applicable_in(domain, constraints)):
        check_tuples(source, domain, part)
    find_allowed(source, domain.inner, constraints)


def check_tuples(source: Source, domain: Domain, part: Sequence[Constraint]) -> None:
    """Refuse constraints that belong together and are over too many tuples of codes."""
    attributes = _tried(domain, part)
    tuples = math.prod(attribute.size for attribute in attributes)
    if tuples > MOST_TUPLES:
        raise InvalidArgument(
            f"the constraints on {', '.join(a.name for a in attributes)} belong together and span {tuples} tuples of "
            f"values, more than {MOST_TUPLES}: state them over fewer or coarser columns, "
            f"{taken_back(source, [constraint.predicate for constraint in part])}"
        )


def _tried(domain: Domain, part: Sequence[Constraint]) -> list[Attribute]:
    """The attributes whose values constraints are tried on."""
    columns = {name for constraint in part for name in constraint.columns}
    return [attribute for attribute in domain if attribute.name in columns]


def _allowed(empty: Empty, source: Source, domain: Domain, part: Sequence[Constraint]) -> Allowed:
    columns = {name for constraint in part for name in constraint.columns}
    attributes = _tried(domain, part)
    excluded = [attribute for attribute in domain.excluded if attribute.name in columns]
    predicates = tuple(constraint.predicate for constraint in part)
    shape = [attribute.size for attribute in attributes]
    codes = np.zeros((1, 0), np.int64)  # where all columns are excluded
    if shape:
        codes = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
    places = np.zeros(codes.shape)
    left = np.arange(len(codes))
    for tried in places_to_try(attributes):
        frame = at_places(attributes, codes[left], np.broadcast_to(tried, (len(left), len(shape))))
        holds = _holds(empty, source, [*attributes, *excluded], predicates, frame)
        places[left[holds]] = tried
        left = left[~holds]
        if not len(left):
            break
    mask = np.ones(len(codes), bool)
    mask[left] = False
    if not mask.any():
        raise InvalidArgument(
            f"no values of the declared domain were found that satisfy {_listed(predicates)}: correct the domain, "
            f"{taken_back(source, predicates)}"
        )
    names = tuple(a.name for a in attributes)
    return Allowed(names, tuple(sorted(columns)), predicates, codes[mask].astype(np.int64), places[mask])


def is_true(source: Source, attributes: Sequence[Attribute], predicate: str, codes: Codes) -> npt.NDArray[np.bool_]:
    """For each row of codes, whether a predicate is TRUE of the lowest values of their bins.

    Raises:
        InvalidArgument: it fails on them.
    """
    with empty_database() as empty:
        return _holds(
            empty, source, attributes, [true_of(predicate)], at_places(attributes, codes, np.zeros(codes.shape))
        )


def true_of(predicate: str) -> str:
    """SQL that a predicate is TRUE, not NULL."""
    return f"coalesce(CAST((\n{predicate}\n) AS BOOLEAN), FALSE)"


def _listed(predicates: Sequence[str]) -> str:
    return " and ".join(map(repr, predicates))


def taken_back(source: Source, predicates: Sequence[str]) -> str:
    """How to take a constraint back, for an error message."""
    return f"or take it back: CALL dp_constraint({source.argument}, {as_text(predicates[0])}, remove := true)"


def places_to_try(attributes: Sequence[Attribute]) -> Iterator[npt.NDArray[np.float64]]:
    """Places in the bins, for each column by itself: ends and middles together, then combined, then at random.

    One place only where each bin holds one value: then every place gives the same values.
    """
    binned = [number for number, a in enumerate(attributes) if a.kind == "bins" and not a.has_single_values]
    if not binned:
        yield np.zeros(len(attributes))
        return
    for place in _ENDS:
        yield np.full(len(attributes), place)
    for combination in itertools.product(_ENDS, repeat=min(len(binned), _MOST_COMBINED)):
        if len(set(combination)) > 1:
            places = np.zeros(len(attributes))
            places[binned[: len(combination)]] = combination
            yield places
    generator = np.random.default_rng(0)  # places in public bins, the same each time; they touch no private data
    for _ in range(_RANDOM_PLACES):
        yield generator.random(len(attributes))


def at_places(
    attributes: Sequence[Attribute], codes: npt.NDArray[Any], places: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[Any]]:
    """Codes as `c<i>` and, for bins, ticks at a place of the bin as `t<i>`; both of shape (rows, attributes)."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for number, attribute in enumerate(attributes):
        columns[f"c{number}"] = codes[:, number]
        if attribute.kind == "bins":
            columns[f"t{number}"] = released_ticks(attribute, codes[:, number], places[:, number])
    return columns or {"c0": np.zeros(len(codes), np.int64)}


def _holds(
    empty: Empty,
    source: Source,
    attributes: Sequence[Attribute],
    predicates: Sequence[str],
    columns: dict[str, npt.NDArray[Any]],
) -> npt.NDArray[np.bool_]:
    """For each row of codes, whether all predicates hold of its decoded values."""
    frame = Frame.of(source, columns)
    query = exp.select(frame.row).from_(frame.decoded(source, attributes)).sql(dialect="duckdb")
    return rows_that_obey(empty, source, frame, query, predicates)


def rows_that_obey(
    empty: Empty, source: Source, frame: Frame, query: str, predicates: Sequence[str]
) -> npt.NDArray[np.bool_]:
    """For each row of a frame, whether no predicate is FALSE of it.

    Args:
        empty: where it runs.
        source: the table that the predicates are stated of.
        frame: the rows, as codes.
        query: selects the numbers of rows from the decoded ones.
        predicates: over these.

    Raises:
        PredicateFails: one fails on them.
    """
    conditions = [f"coalesce(CAST((\n{predicate}\n) AS BOOLEAN), TRUE)" for predicate in predicates]
    query += " WHERE " + " AND ".join(conditions)
    empty.register(frame.name, frame.columns)
    try:
        numbers = empty.execute(query).fetchnumpy()[frame.row]
    except duckdb.Error as error:  # nothing private is in that database, so its text may be shown
        reason = words_of_duckdb(error)
        raise PredicateFails(
            f"predicate {_listed(predicates)} fails on the declared domain: {reason}; correct it, "
            f"{taken_back(source, predicates)}",
            reason,
        ) from None
    finally:
        empty.unregister(frame.name)
    holds = np.zeros(frame.rows, bool)
    holds[np.asarray(numbers, np.int64)] = True
    return holds


def settle_bins(
    source: Source,
    domain: Domain,
    allowed: Sequence[Allowed],
    codes: npt.NDArray[Any],
    frame: dict[str, npt.NDArray[Any]],
    generator: np.random.Generator,
) -> None:
    """Redraw values inside bins where a fact does not hold yet; at last take the place where it was seen to hold.

    Args:
        source: whose types the values get.
        domain: of all attributes.
        allowed: facts; the rows' codes satisfy them already.
        codes: shape (rows, attributes).
        frame: of the rows, as `dpsql.books.releases.publication.publish` wants it; its ticks are changed.
        generator: of the draws.
    """
    binned = [part for part in allowed if any(domain.by_name[name].kind == "bins" for name in part.clique)]
    if not binned:
        return
    with empty_database() as empty:
        for part in binned:
            _settle(empty, source, domain, part, codes, frame, generator)


def _settle(
    empty: Empty,
    source: Source,
    domain: Domain,
    part: Allowed,
    codes: npt.NDArray[Any],
    frame: dict[str, npt.NDArray[Any]],
    generator: np.random.Generator,
) -> None:
    places = [domain.names.index(name) for name in part.clique]
    attributes: list[Attribute] = [domain.attributes[place] for place in places]
    excluded = [a for a in domain.excluded if a.name in part.columns]
    ticks = {f"t{number}": f"t{place}" for number, place in enumerate(places) if f"t{place}" in frame}
    codes, left = codes[:, places].astype(np.int64), np.arange(len(codes))
    for attempt in range(_REDRAWS + 1):
        columns = {f"c{number}": codes[left, number] for number in range(len(places))}
        columns |= {mine: frame[theirs][left] for mine, theirs in ticks.items()}
        left = left[~_holds(empty, source, [*attributes, *excluded], part.predicates, columns)]
        if not len(left):
            return
        drawn = generator.random((len(left), len(places)))
        if attempt >= _REDRAWS - 1:
            drawn = part.places[_tuple_places(part, codes[left], attributes)]
        for number, attribute in enumerate(attributes):
            if f"t{number}" in ticks:
                settled = released_ticks(attribute, codes[left, number], drawn[:, number])
                frame[ticks[f"t{number}"]][left] = settled
    raise DpsqlError(
        f"{_listed(part.predicates)} does not hold of the drawn rows: it depends on more than their values; "
        f"{taken_back(source, part.predicates)[3:]}; then the same call completes the release, free"
    )


def _tuple_places(
    part: Allowed, codes: npt.NDArray[np.int64], attributes: Sequence[Attribute]
) -> npt.NDArray[np.int64]:
    """Which of the allowed tuples each row of codes is."""
    shape = [attribute.size for attribute in attributes]
    tuples = np.ravel_multi_index(tuple(part.codes.T), shape)
    return np.asarray(np.searchsorted(tuples, np.ravel_multi_index(tuple(codes.T), shape)), np.int64)
