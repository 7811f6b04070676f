"""What a run of a comparison measures: a release of the copy, its errors answer by answer, and how it came about."""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from dpsql.api.comparing.before import errors_before, fitted_models
from dpsql.api.comparing.copied import Copied, restore
from dpsql.api.database import connect
from dpsql.api.release import Release
from dpsql.core.names import quote
from dpsql.models.model import Model
from dpsql.owner.evaluate import Compared, compared, evaluation_of
from dpsql.utility.answers import Errors, PlacedQuery, Sums, errors_of

_ACCOUNT: Final = 1000.0
"""ε of the copy's account, the most there is: Laplace noise takes far more of an (ε, δ) account than its own ε."""
_MEGABYTE: Final = 1024 if sys.platform == "linux" else 1024**2
"""Of what the system counts memory in."""
_COUNTED: Final = ("rounds", "queries_per_round", "steps", "passes", "relaxed_rows")
"""Of a report, else of the options: how often something was done, as T, K and the steps of the papers."""


def figures(
    copied: Copied, epsilon: float, arguments: Mapping[str, Any], measured: Mapping[str, Any]
) -> dict[str, int | float | Mapping[str, Any] | None]:
    """Make a release of the copy and compare it with the copy.

    Args:
        copied: the table.
        epsilon: of the release.
        arguments: the other arguments of `Database.synthesize`.
        measured: the arguments of `dpsql.owner.evaluate.evaluate`.

    Returns:
        The figures of an evaluation by name, `before_largest`, `before_l1` and `before_rmse` of the model before rows
        were drawn, `seconds`, `cpu_seconds` and `peak_mb` of the release, how many rounds and steps it had, and
        `details`: its report, its options as they were resolved, the errors of each answer.
    """
    with connect() as db:
        with db.instance.cursor() as cursor:
            source = restore(cursor, copied, _ACCOUNT)
        table = ".".join(map(quote, copied.source))
        if copied.prior is not None:
            arguments = {**arguments, "prior": ".".join(map(quote, copied.prior))}
        began, used = time.monotonic(), time.process_time()
        with fitted_models() as models:
            release = db.synthesize(table, epsilon, **arguments)
        taken = {
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - used,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MEGABYTE,
        }
        with db.instance.cursor() as cursor:
            tables = compared(cursor, source, release.entry.key)
        answers = _Answers(tables, tables.queries_of(measured["workload"]), models[-1] if models else None)
        described, counted = _described(release), _counted(release)
        return {
            **evaluation_of(tables, **measured).figures(),
            **answers.before,
            **taken,
            **counted,
            "details": {**described, "answers": list(answers.each())},
        }


def _described(release: Release) -> dict[str, Any]:
    """The promise, the request as it was resolved, and the report."""
    entry = release.entry
    return {"guarantee": entry.guarantee, "request": json.loads(entry.request), "report": dict(entry.report)}


def _counted(release: Release) -> dict[str, int | float]:
    """How often a release did what it repeats."""
    options, report = json.loads(release.entry.request)["options"], release.entry.report
    numbers = {name: report.get(name, options.get(name)) for name in _COUNTED}
    return {name: value for name, value in numbers.items() if isinstance(value, int | float)}


@dataclass(frozen=True)
class _Answers:
    """The errors of a release answer by answer, and of its model.

    Attributes:
        tables: real and synthetic rows.
        queries: what is compared.
        model: before rows were drawn; None if nobody has it.
    """

    tables: Compared
    queries: Sequence[PlacedQuery]
    model: Model | None

    @property
    def before(self) -> dict[str, float | None]:
        """The errors of the model over all answers; nothing where some have too many cells."""
        errors = [errors_of_query for errors_of_query in self._of_model if errors_of_query is not None]
        if not errors or len(errors) < len(self.queries):
            return {}
        l1 = [query.l1 for query in errors if query.l1 is not None]
        return {
            "before_largest": max(query.largest for query in errors),
            "before_l1": float(np.mean(l1)) if l1 else None,
            "before_rmse": math.sqrt(sum(query.squares for query in errors) / sum(query.number for query in errors)),
        }

    @cached_property
    def _of_model(self) -> Sequence[Errors | None]:
        if self.model is None:
            return [None] * len(self.queries)
        declared = self.tables.declared
        sizes = [attribute.size for attribute in declared]
        return errors_before(self.model, self.tables.tables, self.queries, declared.names, sizes)

    def each(self) -> Iterator[dict[str, Any]]:
        """What was asked, with the errors of the rows and of the model."""
        for (columns, of), before in zip(self.queries, self._of_model, strict=True):
            words = "marginal" if of is None else "linear queries" if isinstance(of, Sums) else f"at least {of} match"
            errors = errors_of(self.tables.tables, columns, of)
            named = {"columns": _names(self.tables, columns), "kind": words, **_stated(errors)}
            yield named if before is None else {**named, "before": _stated(before)}


def _names(tables: Compared, columns: Iterable[int]) -> list[str]:
    return [tables.domain.names[column] for column in columns]


def _stated(errors: Errors) -> dict[str, Any]:
    rmse = math.sqrt(errors.squares / errors.number)
    return {"queries": errors.number, "largest": errors.largest, "l1": errors.l1, "rmse": rmse}
