"""The step of a column of times or timestamps: whole seconds, minutes, hours or days, if all rows are at such.

    step   =  the largest unit of which the ticks of every row between the bounds are a multiple, if there are ten;
              none where they are finer than a millisecond

Without it synthetic times have microseconds where the real ones have minutes, and a date that is stored as a timestamp
has a clock.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from sqlglot import exp

from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_parts import LEAST
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import column_type
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.duckdb.types import filled

_UNITS: Final = {
    86_400: "at midnight, in UTC where they have a zone",
    3600: "whole hours",
    60: "whole minutes",
    1: "whole seconds",
    0.001: "whole milliseconds",
}
"""Seconds, and what rows are that have no others."""


def with_step_of_rows(proposal: Proposal, source: Input, kind: str, sql: str) -> Proposal:
    """The proposal with the step that the rows have; itself for other types, and for times of any microsecond.

    Args:
        proposal: of a column, with bins.
        source: of the rows, which are read.
        kind: the type of the values.
        sql: the values.
    """
    of_type = column_type(kind)
    if not of_type.ticks_per_second or of_type.to_tick is None or not {"lower", "edges"} & {*(proposal.how or ())}:
        return proposal
    is_clock = kind in ("TIME", "TIME_NS")
    lengths = {unit: Fraction(str(unit)) * of_type.ticks_per_second for unit in _UNITS if not is_clock or unit < 86_400}
    longer = {unit: int(length) for unit, length in lengths.items() if length > 1}
    value: exp.Expr = exp.maybe_parse(sql, dialect="duckdb")
    values = {
        "t": filled(of_type.to_tick, x=value).sql(dialect="duckdb"),
        "real": "TRUE" if is_clock else f"isfinite({sql})",
        "inside": _inside(proposal, kind, sql),
    }
    whole = (f"bool_and(t % {length} = 0)" for length in longer.values())
    rows, *hold = source.ask(values, "count(*)", *whole, where="real AND inside AND t IS NOT NULL")[0]
    step = next((unit for unit, holds in zip(longer, hold, strict=True) if holds), None)
    if step is None or rows < LEAST:
        return proposal
    return proposal.each(lambda each: _stepped(each, step))


def _inside(proposal: Proposal, kind: str, sql: str) -> str:
    """SQL of whether a value is between the bounds: others, such as codes for never, have no step."""
    how = proposal.how or {}
    first, last = how.get("lower"), how.get("upper")
    if first is None or last is None:
        return "TRUE"
    return f"{sql} BETWEEN CAST({literal(first)} AS {kind}) AND CAST({literal(last)} AS {kind})"


def _stepped(proposal: Proposal, step: float) -> Proposal:
    previous = {name: value for name, value in (proposal.how or {}).items() if name != "looked"}
    how: dict[str, Any] = {**previous, "step": step, "looked": True}
    because = f"{proposal.because}; all are {_UNITS[step]}, as synthetic ones will be"
    return replace(proposal, ground=Ground.LOOKED, because=because, how=how)
