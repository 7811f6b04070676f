"""The answers of a query as a table: keys, values, standard errors and 95 % intervals of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from dpsql.core.column_types import column_type
from dpsql.engines.duckdb.frames import Columns
from dpsql.evaluation.evaluated import Evaluated, Measured
from dpsql.evaluation.result import Result, steps_of_ten
from dpsql.language.expressions import columns_read
from dpsql.language.query import Query
from dpsql.release.intervals import Answers, Noisy, plain, ratio
from dpsql.release.statistics import statistic

_SILENT: Final = 3.0  # standard deviations of noise that hide a group of NULL


class DomainQuery(Protocol):
    """A query and what it is on its domain."""

    @property
    def query(self) -> Query:
        """Taken apart."""

    @property
    def evaluated(self) -> Evaluated:
        """On the domain."""


def answers_frame(
    resolved: DomainQuery, noisy: Sequence[Noisy], covariances: Mapping[tuple[int, int], Any] | None = None
) -> Columns:
    """All groups of all grouping sets: keys as text, values as whole steps or floats, errors.

    Groups of NULL are left out whose answers are all within three standard deviations of 0: most columns that may hold
    NULL hold none, and the noise of such a group says nothing.

    Args:
        resolved: the query.
        noisy: for each weight its answers, of one grouping set after the other.
        covariances: of pairs of weights, where they are not 0.
    """
    shown = np.concatenate(resolved.evaluated.present) & ~_silent(resolved.query, resolved.evaluated, noisy)
    return all_groups(resolved.query, resolved.evaluated, noisy, covariances or {}, shown)


def _silent(query: Query, evaluated: Evaluated, noisy: Sequence[Noisy]) -> npt.NDArray[np.bool_]:
    """The groups in which a key is NULL, of columns that may hold NULL, and noise is all that the answers show."""
    nullable = {attribute.name for attribute in evaluated.linear.domain if attribute.nullable}
    if query.scope.preserved is not None:  # whose rows are the groups, NULL or not
        nullable = set()
    may_be_null = [not nullable.isdisjoint(columns_read(tree)) for tree in query.keys]
    parts = []
    for keys, alive in zip(evaluated.keys, evaluated.present, strict=True):
        null = np.zeros(len(alive), bool)
        for labels, may_be in zip(keys, may_be_null, strict=True):
            if labels is not None and may_be:
                null |= np.array([key is None for key in labels], bool)
        parts.append(null)
    quiet = [_is_quiet([noisy[number] for number in group]) for group in _looked_at(evaluated, len(noisy))]
    return np.asarray(np.concatenate(parts) & np.logical_and.reduce(quiet), bool)


def _looked_at(evaluated: Evaluated, weights: int) -> list[tuple[int, ...]]:
    """Each weight by itself, the bins of a histogram together."""
    binned = [measured.weights for measured in evaluated.measured if measured.histogram is not None]
    others = set(range(weights)).difference(*binned)
    return [*dict.fromkeys(binned), *((number,) for number in sorted(others))]


def _is_quiet(noisy: Sequence[Noisy]) -> Any:
    """Where the sum of some answers is no more than noise."""
    total = sum(np.asarray(answers.values) for answers in noisy)
    variance = sum(np.asarray(answers.stddev) ** 2 for answers in noisy)
    return np.abs(total) < _SILENT * np.sqrt(variance)


def all_groups(
    query: Query,
    evaluated: Evaluated,
    noisy: Sequence[Noisy],
    covariances: Mapping[tuple[int, int], Any],
    mask: npt.NDArray[np.bool_],
) -> Columns:
    """The same of the groups that are kept.

    Args:
        query: taken apart.
        evaluated: on the domain.
        noisy: see `answers_frame`.
        covariances: see `answers_frame`.
        mask: for each group of all grouping sets.
    """
    columns: dict[str, Any] = {}
    for number in range(len(query.keys)):
        parts: list[npt.NDArray[Any]] = []
        for keys, alive in zip(evaluated.keys, evaluated.present, strict=True):
            labels = keys[number]
            parts.append(np.full(len(alive), None, object) if labels is None else labels)
        columns[f"k{number}"] = np.concatenate(parts)[mask]
    for number, measured in enumerate(evaluated.measured):
        answers = _answers_to(measured, evaluated, noisy, covariances)
        columns[f"a{number}"] = answers.values[mask]
        columns[f"a{number}_stderr"] = answers.stderr[mask]
        columns[f"a{number}_low"], columns[f"a{number}_high"] = answers.low[mask], answers.high[mask]
    return columns


def _answers_to(
    measured: Measured, evaluated: Evaluated, noisy: Sequence[Noisy], covariances: Mapping[tuple[int, int], Any]
) -> Answers:
    """The answers of one aggregate in all groups; NaN where no row can be that it is of. See `answers_frame`."""
    if measured.kind in ("count", "units", "sum"):
        first = measured.weights[0]
        unit = evaluated.units[first]
        return plain(noisy[first], float(unit), whole=steps_of_ten(unit) is not None)
    answers = _statistic_of(measured, evaluated, noisy, covariances)
    rows = {"avg": measured.weights[1:], "ratio": measured.weights[1:]}.get(measured.kind, measured.weights[:1])
    some = evaluated.reached(measured.weights if measured.histogram is not None else rows)
    return Answers(
        *(np.where(some, part, np.nan) for part in (answers.values, answers.stderr, answers.low, answers.high))
    )


def _statistic_of(
    measured: Measured, evaluated: Evaluated, noisy: Sequence[Noisy], covariances: Mapping[tuple[int, int], Any]
) -> Answers:
    """An average or another statistic in all groups, as if rows could be in each."""
    if measured.kind != "avg":
        return statistic(measured, evaluated, noisy, covariances)
    first, second = measured.weights
    together = covariances.get((first, second), 0.0)
    bounds = evaluated.average_range(measured.weights)
    return ratio(noisy[first], noisy[second], float(evaluated.units[first]), bounds, together)


def as_text(result: Result, frame: Columns) -> Columns:
    """Answers as text, None for NULL; whole steps of a DECIMAL as its values."""
    columns = {}
    for name, kind in result.stored.items():
        scale = column_type(kind).scale if name.startswith("a") else None
        columns[name] = np.array([_text(value, scale) for value in frame[name].tolist()], object)
    return columns


def _text(value: Any, scale: int | None) -> str | None:
    if value is None or value != value:
        return None
    return _decimal(round(value), scale) if scale else str(value)


def _decimal(steps: int, scale: int) -> str:
    digits = str(abs(steps)).rjust(scale + 1, "0")
    return f"{'-' if steps < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"
