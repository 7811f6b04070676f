"""What is added up in each group: the distinct weights that the aggregates of a query are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.engines.duckdb.formulas import is_there
from dpsql.language.query import Aggregate


@dataclass(frozen=True)
class Weight:
    """One weight: the argument of a sum, or 1, where all filters hold; of rows, or of units that have such a row.

    Of a histogram: as many weights as the argument has bins, each 1 in one of them.
    """

    argument: exp.Expr | None
    filters: tuple[exp.Expr, ...]
    of_units: bool = False
    histogram: bool = False


def weights_of(aggregates: Sequence[Aggregate]) -> tuple[list[Weight], list[tuple[int, ...]]]:
    """The distinct weights of some aggregates, and for each aggregate which it is made of: one, or sum and count."""
    numbers: dict[Weight, int] = {}
    made_of = []
    for aggregate in aggregates:
        parts = []
        if aggregate.kind in ("sum", "avg"):
            parts.append(Weight(aggregate.argument, aggregate.filters))
        if aggregate.kind == "avg":
            assert aggregate.argument is not None
            there = is_there(aggregate.argument)
            always = isinstance(there, exp.Boolean) and there.this
            parts.append(Weight(None, aggregate.filters if always else (*aggregate.filters, there)))
        if aggregate.kind in ("count", "units"):
            parts.append(Weight(None, aggregate.filters, aggregate.kind == "units"))
        if aggregate.kind == "histogram":
            parts.append(Weight(aggregate.argument, aggregate.filters, histogram=True))
        made_of.append(tuple(numbers.setdefault(part, len(numbers)) for part in parts))
    return list(numbers), made_of
