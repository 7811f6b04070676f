"""The errors of a fitted model itself, before rows are drawn from it: what rounding adds is the difference.

A model answers in the codes of the release's domain, which are the first ones of those in which real rows are coded:
a code for values outside may follow. So the model's answer for a cell that it does not have is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import numpy as np

from dpsql.core.threshold import threshold_counts
from dpsql.mechanisms.base import Mechanism, Outcome
from dpsql.models.model import Model, projecting
from dpsql.utility.answers import Errors, PlacedQuery, Sums, errors_between
from dpsql.utility.coded import Coded, Fractions

_MOST_CELLS: Final = 20_000_000
"""Of a marginal, all of whose cells a model answers at once."""


@contextmanager
def fitted_models() -> Iterator[list[Model]]:
    """Lists the models that mechanisms fit within; for a process that makes one release, and no other at a time."""
    models: list[Model] = []
    run = Mechanism.run

    @wraps(run)
    def listed(mechanism: Mechanism, *given: Any) -> Outcome:
        outcome = run(mechanism, *given)
        models.append(outcome.model)
        return outcome

    setattr(Mechanism, run.__name__, listed)
    try:
        yield models
    finally:
        setattr(Mechanism, run.__name__, run)


def errors_before(
    model: Model, tables: Coded, queries: Sequence[PlacedQuery], names: Sequence[str], shapes: Sequence[int]
) -> list[Errors | None]:
    """The errors of a model's answers; None where there are too many cells.

    Args:
        model: of a release.
        tables: whose real rows say what is true.
        queries: what is compared.
        names: of all columns.
        shapes: how many codes each column has in the model.
    """
    small = [columns for columns, _ in queries if math.prod(tables.sizes[column] for column in columns) <= _MOST_CELLS]
    cliques = {columns: tuple(names[column] for column in columns) for columns in small}
    project = projecting(model, list(dict.fromkeys(cliques.values())))
    return [
        _errors(tables, columns, of, np.asarray(project(cliques[columns]), np.float64), shapes)
        if columns in cliques
        else None
        for columns, of in queries
    ]


def _errors(
    tables: Coded, columns: tuple[int, ...], of: int | Sums | None, cells: Fractions, shapes: Sequence[int]
) -> Errors:
    """The errors of one marginal or family: the same as of drawn rows, see `dpsql.utility.answers`."""
    sizes, shape = (tuple(each[column] for column in columns) for each in (tables.sizes, shapes))
    rows = tables.marginals(columns)
    real = np.zeros(sizes)
    real[rows.places] = rows.real
    model = np.zeros(sizes)
    inside = tuple(slice(size) for size in shape)
    model[inside] = cells.reshape(shape)
    if isinstance(of, Sums):
        declared = tuple(slice(size) for size in of.shape)
        true, answered = (of.family.answers(each[declared].ravel()) / of.family.largest for each in (real, model))
        return errors_between(true, answered, len(true), is_marginal=False)
    true, answered = real.ravel(), model.ravel()
    if of is not None:
        true, answered = (threshold_counts(each, sizes, of) for each in (true, answered))
    return errors_between(true, answered, true.size, is_marginal=of is None)
