"""The step of a column of times or timestamps: whole seconds, minutes, hours or days, if all rows are at such.

    step   =  the largest unit of which every row's ticks are a multiple; none where they are finer than a millisecond

Without it synthetic times have microseconds where the real ones have minutes, and a date that is stored as a timestamp
has a clock.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from sqlglot import exp

from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.duckdb.types import filled
from dpsql.engines.source import Column

_UNITS: Final = {
    86_400: "at midnight",
    3600: "whole hours",
    60: "whole minutes",
    1: "whole seconds",
    0.001: "whole milliseconds",
}
"""Seconds, and what rows are that have no others."""


def with_step_of_rows(proposal: Proposal, column: Column, source: Input) -> Proposal:
    """The proposal with the step that the rows have; itself for other types, and for times of any microsecond.

    Args:
        proposal: of a column, with bins.
        column: of them.
        source: of the rows, which are read.
    """
    known = column_type(column.type)
    if not known.ticks_per_second or known.to_tick is None or not {"lower", "edges"} & {*(proposal.how or ())}:
        return proposal
    units = [unit for unit in _UNITS if column.type not in ("TIME", "TIME_NS") or unit < 86_400]
    unit = _unit(column, source, units)
    if unit is None:
        return proposal

    def stepped(each: Proposal) -> Proposal:
        said = {name: value for name, value in (each.how or {}).items() if name != "looked"}
        how: dict[str, Any] = {**said, "step": unit, "looked": True}
        because = f"{each.because}; all are {_UNITS[unit]}, as synthetic ones will be"
        return replace(each, ground=Ground.LOOKED, because=because, how=how)

    return proposal.each(stepped)


def _unit(column: Column, source: Input, units: list[float]) -> float | None:
    """The largest unit that all rows have, if it is longer than what the type tells apart."""
    known = column_type(column.type)
    ticks = {unit: Fraction(str(unit)) * known.ticks_per_second for unit in units}
    longer = {unit: int(length) for unit, length in ticks.items() if length > 1}
    of_day = "TRUE" if column.type in ("TIME", "TIME_NS") else f"isfinite({quote(column.name)})"
    values = {
        "t": filled(known.to_tick or "", x=exp.column(column.name, quoted=True)).sql(dialect="duckdb"),
        "real": of_day,
    }
    whole = (f"bool_and(t % {length} = 0)" for length in longer.values())
    hold = source.ask(values, *whole, where="real AND t IS NOT NULL")[0]
    return next((unit for unit, holds in zip(longer, hold, strict=True) if holds), None)
