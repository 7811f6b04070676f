r"""Answers at no cost: from the noisy marginals that earlier releases of a table paid for.

Each stored marginal M_T with T ⊇ S, S the columns of the query, gives M_S by summing, with variance |cells of T|/|cells
of S| times its own. All of them, weighted by the inverse of their variances, have variance v for each cell of S:

    answer = Σ_cells w·M_S,   variance = v·Σ w²,   covariance of two answers = v·Σ w·w′

Only marginals whose other columns have a cell for every value (OUTSIDE; OTHER or a type's own values, and NULL where it
may be) are summed, because the sum lacks rows without a cell. And only those that agree, within noise, with what the
newest release measured, because the table may have changed. Releases of other neighbours counted something else, as
privacy units in place of rows. Nothing private is read, so nothing is charged.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.books.ledger.store import Books
from dpsql.books.people.visible_names import visible
from dpsql.books.releases import journal, releases
from dpsql.core.domain import Attribute, Clique
from dpsql.core.marginal import Measurement
from dpsql.engines.duckdb.frames import Columns
from dpsql.errors import InvalidArgument
from dpsql.evidence.earlier_releases import consistent
from dpsql.privacy.distributions import GAUSSIAN, find_noise
from dpsql.release.answers_frame import answers_frame
from dpsql.release.intervals import Noisy
from dpsql.release.query_answers import ResolvedQuery

_MOST_CELLS: Final = 20_000_000


def derive(books: Books, resolved: ResolvedQuery) -> Columns:
    """The answers of a query from stored measurements.

    Raises:
        InvalidArgument: no earlier release measured the columns together, or the query needs finer values than those.
    """
    linear = resolved.evaluated.linear
    clique = linear.clique
    if linear.moments:
        raise InvalidArgument(
            f"epsilon is 0, and marginals hold bins, not the values of {next(iter(linear.moments.values())).column!r}: "
            "give an epsilon that may be spent"
        )
    if linear.units:
        raise InvalidArgument("epsilon is 0, and marginals count rows, not units: give an epsilon that may be spent")
    marginals = _measured(books, resolved, clique)
    if not marginals:
        columns = ", ".join(clique) or "the number of rows"
        raise InvalidArgument(
            f"epsilon is 0, and no earlier release measured {columns} together on these values: give an epsilon that "
            "may be spent, or ask about fewer columns (dp_measurements shows what a release measured)"
        )
    values, variance = _combined(marginals)
    noise = GAUSSIAN if all(find_noise(m.noise).is_normal for m in marginals) else None
    weights, groups = linear.cell_weights(np.arange(len(values)))

    def sums(of: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        answers = [np.bincount(g, of, count) for g, count in zip(groups, linear.groups, strict=True)]
        return np.concatenate(answers).astype(np.float64)

    exact = weights.astype(np.float64)
    noisy = [Noisy(sums(w * values), np.sqrt(variance * sums(w * w)), noise) for w in exact]
    numbers = [of.weights for of in resolved.evaluated.measured if of.histogram is None]  # bins share no cell
    pairs = {pair for of_one in numbers for pair in itertools.combinations(of_one, 2)}
    return answers_frame(resolved, noisy, {(a, b): variance * sums(exact[a] * exact[b]) for a, b in pairs})


def _measured(books: Books, resolved: ResolvedQuery, clique: Clique) -> list[Measurement]:
    """The marginals of the query's columns that stored ones hold, on the same domains."""
    wanted = {name: resolved.evaluated.linear.domain.by_name[name] for name in clique}
    nullable = {column.name for column in resolved.source.columns if column.nullable}
    projected = []
    entries = visible(books, releases.published(books, resolved.source.key), resolved.by)
    for entry in reversed(entries):  # the newest first
        if entry.neighbours != resolved.account.neighbours:  # it counted units, or other rows of them
            continue
        total = {a.name for a in entry.domain if _is_total(a, nullable=a.name in nullable)}
        held = {name: entry.domain.by_name[name] for name in wanted if name in entry.domain.by_name}
        if {name: attribute.inner.counted for name, attribute in held.items()} != wanted:
            continue
        for answer in journal.answers(books, entry.key):
            measured = answer.measurement
            if measured is None or measured.cells is not None or not answer.question.of_cells:
                continue
            others = set(measured.clique) - set(clique)
            if (
                set(clique) <= set(measured.clique)
                and others <= total
                and len(measured.values) <= _MOST_CELLS
                and measured.variance > 0
            ):
                projected.append(_projected(measured, clique, entry.domain.inner.shape(clique)))
    return [measured for measured in projected if consistent(projected[:1], [measured])]


def _is_total(attribute: Attribute, *, nullable: bool) -> bool:
    """Whether every value that a row may have is in a cell."""
    listed = attribute.other is not None or attribute.origin == "type"
    return attribute.outside or (listed and (attribute.nullable or not nullable))


def _projected(measured: Measurement, clique: Clique, shape: tuple[int, ...]) -> Measurement:
    """The marginal of a clique that a larger one holds, with its variance; of the first codes only, of that shape."""
    others = tuple(axis for axis, name in enumerate(measured.clique) if name not in clique)
    table = measured.values.reshape(measured.shape) if measured.clique else measured.values
    whole = table.sum(axis=others) if others else table
    values = whole[tuple(slice(size) for size in shape)].ravel() if shape else whole.ravel()
    variance = measured.variance * (len(measured.values) // whole.size)
    return replace(measured, clique=clique, shape=shape, values=values, variance=variance)


def _combined(marginals: Sequence[Measurement]) -> tuple[npt.NDArray[np.float64], float]:
    """One marginal from several measurements of it, shape (cells,), and the variance of each cell."""
    total, weight = np.zeros(len(marginals[0].values)), 0.0
    for measured in marginals:
        share = 1 / float(measured.variance)
        total += share * measured.values
        weight += share
    return total / weight, 1 / weight
