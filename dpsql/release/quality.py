"""How good a release is, judged by released values only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal, releases
from dpsql.books.releases.releases import Entry, rows_table
from dpsql.books.tables.owner_facts import listed_roles
from dpsql.core.counter import CountsMarginals
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.marginal import Marginal, Measurement
from dpsql.core.threshold import Family, threshold_counts
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.names import split_name
from dpsql.engines.duckdb.numbers import numbers
from dpsql.engines.protocol import TableCounter
from dpsql.engines.registry import engine_of
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.roles import roles_of
from dpsql.evidence.earlier_releases import combined
from dpsql.fitting.target import Target
from dpsql.release.column_words import names_of_words, words_of_columns
from dpsql.release.estimates import Estimates
from dpsql.release.group_means import GroupMean, group_means, makes_groups
from dpsql.release.judgement import Judgement, counts_of, judge
from dpsql.release.numbers import NumberFigures, figures_of, is_of_numbers, means_in_cells
from dpsql.release.worst_cells import cells_shown, labels_shown

if TYPE_CHECKING:  # it takes a quarter of a second to load, so the functions that return data frames import it
    import pandas as pd


def measurements(books: Books, entry: Entry) -> list[Measurement]:
    """The noisy counts of a release, of cells and thresholds."""
    answers = journal.answers(books, entry.key)
    return [a.measurement for a in answers if a.measurement is not None and a.question.of_cells]


def judge_release(cursor: Cursor, books: Books, entry: Entry, check: Callable[[], None] | None = None) -> Judgement:
    """How near a release's synthetic table is to what was measured, and how near that is to the truth.

    Args:
        cursor: a connection of its own.
        books: of the release.
        entry: of a synthetic table that is published.
        check: see `judge`.
    """
    counter = synthetic_counter(cursor, books, entry)
    try:
        predicted = frozenset(entry.report.get("reliable_pairs", ()))
        row = entry.unit_row
        chosen = () if row is None else row.chosen
        rows, measured = _counted(entry, counter), measurements(books, entry)
        kept = _Kept(counter, entry.domain)
        judgement = judge(entry.domain, measured, kept, rows, check, predicted, chosen)
        within = _Groups(Estimates(entry.domain, measured), kept, rows) if row is None and rows else None
        numbers = tuple(_numbers(cursor, books, entry, judgement, within, check))
    finally:
        counter.close()
    if row is not None:
        unmeasured = tuple(pair for pair in judgement.unmeasured_pairs if pair not in row.implied)
        implied = len(judgement.unmeasured_pairs) - len(unmeasured)
        judgement = replace(judgement, unmeasured_pairs=unmeasured, implied_pairs=implied)
    return replace(judgement, numbers=numbers)


class _Kept:
    """Counts of the synthetic rows. Those of numbers in groups are small, asked for twice, and counted once."""

    def __init__(self, counter: TableCounter, domain: Domain) -> None:
        self._counter, self._domain = counter, domain
        self._marginals: dict[Clique, Marginal] = {}

    def marginal(self, clique: Clique) -> Marginal:
        """See `Counter.marginal`."""
        if clique in self._marginals:
            return self._marginals[clique]
        marginal = self._counter.marginal(clique)
        columns = [self._domain.by_name[name] for name in clique]
        if len(clique) == 2 and any(map(makes_groups, columns)) and any(map(_has_means, columns)):
            self._marginals[clique] = marginal
        return marginal


def _has_means(number: Attribute) -> bool:
    """Whether means of a column of numbers tell more than shares, which are pairs of it."""
    return is_of_numbers(number) and number.regular > 2


@dataclass(frozen=True)
class _Groups:
    """What tells means of numbers in groups.

    Attributes:
        estimates: of what was measured.
        counter: of the synthetic rows.
        rows: how many of these there are.
    """

    estimates: Estimates
    counter: CountsMarginals
    rows: int

    def means(self, number: Attribute, inside: npt.NDArray[np.float64]) -> Iterator[GroupMean]:
        """Of a column of numbers; see `group_means`. A column of two values has shares in groups, which are pairs."""
        domain, scale = self.estimates.domain, (self.estimates.total or 0.0) / self.rows
        for groups in domain if _has_means(number) else ():
            clique = domain.clique((number.name, groups.name)) if groups is not number else ()
            pair = self.estimates.of(clique) if clique and makes_groups(groups) else None
            if pair is not None:
                made = counts_of(self.counter, domain, clique) * scale
                yield from group_means(number.name, inside, groups, pair, made)


def _numbers(
    cursor: Cursor,
    books: Books,
    entry: Entry,
    judgement: Judgement,
    within: _Groups | None,
    check: Callable[[], None] | None,
) -> Iterator[NumberFigures]:
    """What analysts ask of the columns of numbers whose cells were measured, and within groups if something tells."""
    table = rows_table(books.catalog, entry)
    for column in judgement.columns:
        attribute = entry.domain.by_name[column.name]
        if column.name not in entry.columns or not is_of_numbers(attribute):  # of linked tables those of the first
            continue
        if check is not None:
            check()
        values = numbers(cursor, table, attribute)
        figures = figures_of(attribute, column.measured, column.stddev, values)
        if figures is not None:
            groups = () if within is None else tuple(within.means(attribute, means_in_cells(attribute, values)))
            yield replace(figures, groups=groups)


def marginal_errors(cursor: Cursor, books: Books, entry: Entry) -> pd.DataFrame:
    """The distance of a release's synthetic table from each of its noisy marginals, and from its noisy single cells.

    Columns: `columns` (in the words of `words_of_columns`), `kind` ('marginal'; 'cells', those of a marginal that
    were measured by themselves; 'at least t', those of thresholds), `cells`, `stddev` (rows), `distance_l1` =
    Σ|synthetic − measured|/total and `noise_l1` = √(2/π)·σ·cells/total, what the noise alone is expected to make up.
    Synthetic counts are scaled to the total. Of kind 'linear query' `stddev` is in the sum's unit, the other two are
    divided by the largest weight, and the answers are those of the model that the rows were drawn from.
    """
    import pandas as pd

    counter = synthetic_counter(cursor, books, entry)
    rows: list[dict[str, Any]] = []
    answers = measurements(books, entry)
    total = Estimates(entry.domain, answers).total or float(entry.report.get("total") or entry.rows or 1)
    scale, called = total / max(1, _counted(entry, counter)), words_of_columns(entry)

    def add(clique: Clique, kind: str, stddev: float, counts: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        distance = float(np.abs(counts - values).sum()) / total
        noise = math.sqrt(2 / math.pi) * stddev * len(counts) / total
        row = {"columns": [*map(called, clique)], "kind": kind, "cells": len(counts), "stddev": stddev}
        rows.append(row | {"distance_l1": distance, "noise_l1": noise})

    for whole in _whole_marginals(answers):
        counts = counter.marginal(whole.clique).dense() * scale
        add(whole.clique, "marginal", whole.stddev, *_as_shown(entry.domain, whole, counts))
    for measurement, counts in _single_cells(answers, counter, scale):
        kind = "cells" if measurement.least is None else f"at least {measurement.least}"
        add(measurement.clique, kind, measurement.stddev, counts, measurement.values)
    counter.close()
    names = ("columns", "cells", "stddev", "distance_l1", "noise_l1")
    rows += [
        {"kind": "linear query", **{name: query[name] for name in names}} for query in entry.report.get("linear", ())
    ]
    return pd.DataFrame(rows, columns=["columns", "kind", "cells", "stddev", "distance_l1", "noise_l1"])


def _single_cells(
    answers: Sequence[Measurement], counter: TableCounter, scale: float
) -> Iterator[tuple[Measurement, npt.NDArray[np.float64]]]:
    """The cells that were measured by themselves, those of one family together, and the synthetic counts of each."""
    by_family: dict[tuple[Family, Fraction], list[Measurement]] = {}
    for measurement in answers:
        if measurement.cells is not None:
            by_family.setdefault((measurement.family, measurement.variance), []).append(measurement)
    for parts in by_family.values():
        cells = tuple(cell for part in parts for cell in part.cells or ())
        first = replace(parts[0], cells=cells, values=np.concatenate([part.values for part in parts]))
        counts = np.asarray(counter.marginal(first.clique).dense() * scale, np.float64)
        if first.least is not None:
            counts = threshold_counts(counts, first.shape, first.least)
        yield first, counts[list(cells)]


def marginal_answers(cursor: Cursor, books: Books, entry: Entry, names: Sequence[str]) -> pd.DataFrame:
    """A measured marginal of a release: each cell's noisy count beside the count of the synthetic table.

    Columns: one for each of the marginal's, with labels; `measured` and `stddev` of its noise, `synthetic` (rows).

    Raises:
        InvalidArgument: the release measured no such marginal whole; lists those that it did.
    """
    import pandas as pd

    called = words_of_columns(entry)
    clique = entry.domain.clique(names_of_words(entry, names))
    measured = _whole_marginals(measurements(books, entry))
    best = next((m for m in measured if m.clique == clique), None)
    if best is None:
        listed = "; ".join(sorted({", ".join(map(called, m.clique)) for m in measured})[:20]) or "none"
        wanted = ", ".join(map(called, clique))
        raise InvalidArgument(f"release {entry.number} measured no marginal of {wanted}; it has: {listed}")
    counter = synthetic_counter(cursor, books, entry)
    counts, values = _as_shown(entry.domain, best, counter.marginal(clique).dense())
    counter.close()
    labels = [labels_shown(entry.domain.by_name[name]) for name in clique]
    index = pd.MultiIndex.from_product(labels, names=[*map(called, clique)])
    cells = _as_shown(entry.domain, best, np.ones_like(best.values))[0]  # how many measured ones are added up
    stddev = best.stddev * np.sqrt(cells)
    return pd.DataFrame({"measured": values, "stddev": stddev, "synthetic": counts}, index=index).reset_index()


def _whole_marginals(measured: Iterable[Measurement]) -> list[Target]:
    """The marginals that a release measured whole, each once: of one that was measured twice, the weighted mean."""
    whole = [m for m in measured if m.cells is None and m.clique]
    first: dict[Clique, Measurement] = {}
    again = [m for m in whole if first.setdefault(m.clique, m) is not m]
    return combined([*first.values()], again)


def _as_shown(domain: Domain, measured: Target, counts: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Counts of synthetic rows beside measured ones, in the cells that synthetic rows tell apart."""
    tables = (table.reshape(measured.shape) for table in (counts, measured.values))
    shown, values = (cells_shown(domain, measured.clique, table).ravel() for table in tables)
    return shown, values


def warnings_of(entry: Entry) -> list[str]:
    """What a reader of a release should know: of its number of rows, of its fit, of rows outside declared domains."""
    shares, words = entry.report.get("outside", {}), words_of_columns(entry)
    return (
        [entry.report[name] for name in ("rows", "warning") if name in entry.report]
        + [
            f"about {share:.0%} of the rows have a value of {words(name)!r} outside its declared domain, which is "
            "NULL here: declare it with dp_domain, or an other := '…' for the rest"
            for name, share in shares.items()
        ]
        + [*_below_roles(entry)]
    )


def _below_roles(entry: Entry) -> Iterator[str]:
    """What was not measured: which rows there are below one with a role; `dpsql.core.unit_row` has no slots there."""
    for child, _, role in listed_roles(entry.linked):
        below = [link[0] for link in (entry.linked or {})["links"] if link[1] == child]
        if below:
            yield (
                f"rows of {' and '.join(below)} below {role.name!r} of {child} are drawn from those below other rows "
                f"of {child}, or any that are declared where these have none: only how many there are was measured "
                f"of {role.name!r}"
            )


def outside_share(books: Books, source: str, attribute: Attribute) -> float | None:
    """About which part of the rows lies outside a column's domain, by the newest release with that domain.

    Returns:
        A fraction, 0 where the noisy counts show none; None before such a release.
    """
    for entry in reversed(releases.published(books, source)):
        held = entry.domain.by_name.get(attribute.name)
        if held is None or held.inner.counted != attribute.inner.counted or entry.rows is None or _is_query(entry):
            continue
        if entry.neighbours.whole:  # parts of its units, whatever a column was called since
            continue
        if held.outside or not attribute.closed(never_null=not held.nullable).outside:  # else it had no such cell yet
            return float(entry.report.get("outside", {}).get(attribute.name, 0.0))
    return None


def _is_query(entry: Entry) -> bool:
    """Whether a release is of a query, whose domain has no cell for what is outside."""
    return "query" in json.loads(entry.request)


def _counted(entry: Entry, counter: TableCounter) -> int:
    """How many rows, or units, of a release were counted."""
    return int(counter.marginal(()).counts[0]) if entry.neighbours.whole else entry.rows or 0


def synthetic_counter(cursor: Cursor, books: Books, entry: Entry) -> TableCounter:
    """Counts of a release's synthetic rows, which are the host's; of a linked release of its units' rows."""
    if (unit_row := entry.unit_row) is not None:
        places = enumerate(unit_row.tree.tables)
        sources = {table: releases.rows_source(books, entry, place) for place, table in places}
        called = {table: replace(source, name=(split_name(table) or (table,))[-1]) for table, source in sources.items()}
        return engine_of(cursor, sources[unit_row.tree.tables[0]]).unit_counter(
            sources, unit_row, None, roles=roles_of(unit_row, called)
        )
    table = rows_table(books.catalog, entry)
    columns = tuple(Column(a.name, a.stored_type, a.nullable) for a in entry.domain)
    source = Source(table.catalog, table.db, table.name, columns)
    return engine_of(cursor, source).counter(source, entry.domain)
