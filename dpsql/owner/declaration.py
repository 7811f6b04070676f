"""`Declaration`: what an owner says of one column, in the words of `dp_domain`, and the public domain that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from dpsql.books.reading.references import reference_values
from dpsql.core.column_types import column_type, kind_of, public_type
from dpsql.core.domain import Attribute, equal_width
from dpsql.core.readings import ALL as FORMS
from dpsql.core.readings import READINGS, Reading
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import declare_bins, declare_members, declare_values, of_ticks
from dpsql.engines.duckdb.declare_nulls import null_texts, with_nulls
from dpsql.engines.duckdb.declare_points import with_points
from dpsql.engines.duckdb.declare_readings import check_written
from dpsql.engines.duckdb.declare_steps import SCALES, calendar_ticks, log_ticks, with_step
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument
from dpsql.evaluation.computed import check_type
from dpsql.owner.stand_ins import check_fake, check_ids

_WAYS = (
    "\"values\" := […], lower := … with upper := … and bins := …, edges := […], reference := 'table.column', "
    "type := true, computed_as := 'a + b', exclude := true"
)

_OF_DOMAINS = ("points", "step", "nulls", "nulls_as", "read_as", "other", "ids", "fake", "exclude")
FLT_DIG: Final = 7
"""Digits of a whole number that a FLOAT surely holds."""


@dataclass(frozen=True)
class Declaration:
    """What an owner says of a column; see the parameters of `dp_domain`.

    Attributes:
        values: all values.
        lower, upper: the smallest and the largest value of bins.
        bins: how many, of equal width.
        scale: 'log' for bins whose edges grow by the same factor.
        every: a period of the calendar, for bins of dates.
        edges: of bins, the last one exclusive.
        points: values inside the bins that have a cell of their own.
        reference: 'table.column' of a public table that has the values.
        type: the members of the column's type are the values.
        exclude: no domain; NULL in synthetic rows.
        computed_as: an expression of other columns, by which synthetic rows get its values; it is not measured.
        ids, fake: of an excluded column: numbers, or what the Faker package writes, in place of NULL.
        step: of numbers in bins: synthetic values are multiples of it, as 1 for whole numbers and 0.01 for cents.
        nulls: whether NULL has a cell.
        nulls_as: values that stand for NULL.
        read_as: the type as which texts are read, such as 'DECIMAL(9,2)', with '%' behind it for percentages; or the
            form of times, such as 'HHMM'.
        other: the value that stands for all others.
        looked: whether it was read off the rows; None for what is recorded already of the same domain.
    """

    values: Sequence[Any] | None = None
    lower: Any = None
    upper: Any = None
    bins: int | None = None
    scale: str | None = None
    every: str | None = None
    edges: Sequence[Any] | None = None
    points: Sequence[Any] | None = None
    step: float | None = None
    reference: str | None = None
    type: bool = False
    exclude: bool = False
    computed_as: str | None = None
    ids: bool = False
    fake: str | None = None
    nulls: bool | None = None
    nulls_as: Sequence[Any] | None = None
    read_as: str | None = None
    other: Any = None
    looked: bool | None = None

    @property
    def is_excluded(self) -> bool:
        """Whether the column gets no domain."""
        return self.exclude or self.ids or self.fake is not None or self.computed_as is not None

    def attribute(self, cursor: Cursor, column: Column, search_path: str = "") -> Attribute:
        """The domain of a column; only a reference's rows are read.

        Raises:
            UnknownName: no such reference.
            InvalidArgument: not exactly one way to declare, or values that do not fit the column.
        """
        self._check_ways(column)
        if self.is_excluded:
            return self._excluded(column)
        if self.nulls is False and self.nulls_as:
            raise InvalidArgument("nulls is false, but the values of nulls_as count as NULL: leave one of them out")
        texts = () if self.nulls_as is None else null_texts(cursor, column, self.nulls_as)
        read, form = (column, {}) if self.read_as is None else read_column(column, self.read_as)
        plain = self._domain(cursor, read, search_path)
        if self.points is not None:
            plain = with_points(cursor, read, plain, self.points)
        if self.read_as is not None:
            if plain.kind != "bins":
                raise InvalidArgument("read_as goes with bins: say lower and upper, or edges; values are texts already")
            plain = replace(plain, **form)
            check_written(cursor, plain)
        if self.step is not None:
            plain = with_step(plain, self.step)
        return with_nulls(cursor, plain, texts) if texts else plain

    def _check_ways(self, column: Column) -> None:
        """Refuse what is not said in exactly one way, and what goes with another way."""
        ways = {
            "values": self.values is not None,
            "lower and upper": self.lower is not None or self.upper is not None,
            "edges": self.edges is not None,
            "reference": self.reference is not None,
            "exclude": self.is_excluded and self.computed_as is None,
            "computed_as": self.computed_as is not None,
            "type": self.type,
        }
        chosen = [way for way, given in ways.items() if given]
        if len(chosen) != 1:
            got = " and ".join(chosen) or "none"
            raise InvalidArgument(f"column {column.name!r}: say one of {_WAYS}; got {got}")
        for name in ("bins", "scale", "every"):
            if getattr(self, name) is not None and chosen != ["lower and upper"]:
                raise InvalidArgument(f"{name} goes with lower and upper, not with {chosen[0]}")
        if self.every is not None and (self.bins is not None or self.scale is not None):
            raise InvalidArgument(f"every is {self.every!r}, which tells the bins: leave bins and scale out")
        if self.scale is not None and self.scale not in SCALES:
            raise InvalidArgument(f"scale is {self.scale!r}: say {' or '.join(map(repr, SCALES))}")
        if chosen == ["lower and upper"] and (self.lower is None or self.upper is None):
            raise InvalidArgument(f"column {column.name!r}: lower and upper go together")

    def _excluded(self, column: Column) -> Attribute:
        for name in ("points", "step", "nulls_as", "read_as") if self.computed_as is None else _OF_DOMAINS:
            if getattr(self, name) not in (None, False):
                kind = "an excluded" if self.computed_as is None else "a computed"
                raise InvalidArgument(f"{name} is given, but {kind} column has no domain: leave one of them out")
        if self.ids and self.fake is not None:
            raise InvalidArgument("ids and fake are both given: a column gets one of them")
        kind = public_type(column.type)
        if self.ids:
            check_ids(column.name, kind)
        if self.fake is not None:
            check_fake(column.name, kind, self.fake)
        if self.computed_as is not None:
            check_type(column)
        return Attribute(
            column.name,
            kind,
            "excluded",
            ids=self.ids,
            fake=self.fake or "",
            computed_as=(self.computed_as or "").strip(),
        )

    def _domain(self, cursor: Cursor, column: Column, search_path: str) -> Attribute:
        """The domain without points and without values that stand for NULL."""
        nullable = column.nullable if self.nulls is None else self.nulls
        if self.type:
            if self.other is not None:
                raise InvalidArgument(
                    f"other is {self.other!r}, but with type := true all members have cells: leave it out"
                )
            return declare_members(column, nullable=nullable)
        if self.values is not None or self.reference is not None:
            origin = "declared" if self.values is not None else "reference"
            listed = reference_values(cursor, str(self.reference), search_path) if self.values is None else self.values
            return declare_values(cursor, column, listed, nullable=nullable, other=self.other, origin=origin)
        if self.every is not None:
            ticks = calendar_ticks(cursor, column, self.lower, self.upper, self.every)
            return of_ticks(cursor, column, ticks, nullable=nullable, other=self.other)
        if self.scale == "log":
            ticks = log_ticks(cursor, column, self.lower, self.upper, self.bins)
            return of_ticks(cursor, column, ticks, nullable=nullable, other=self.other)
        return declare_bins(
            cursor, column, self.edges, self.lower, self.upper, self.bins, nullable=nullable, other=self.other
        )

    def reconciled(self, draft: Attribute, entry: Attribute | None) -> Attribute:
        """The domain that is recorded already, where an earlier version made it of the same words; else the new one.

        Earlier versions divided the bounds by their number of values, so that edges were 0, 1001, 2001, …; who says the
        same again keeps those, because requests on other edges would be charged anew. A domain that was read off the
        rows stays one, whatever else of it is declared anew, until its owner says `looked := false`: who has read the
        rows has read them.
        """
        same = self._same(draft, entry)
        looked = entry is not None and entry.looked if self.looked is None else self.looked
        return replace(same, looked=looked)

    def _same(self, draft: Attribute, entry: Attribute | None) -> Attribute:
        """See `reconciled`, of the domain alone."""
        if entry is None or self.lower is None or draft.kind != "bins" or draft.is_float or entry.ticks == draft.ticks:
            return draft
        plain = self.scale in (None, "linear") and self.every is None and self.points is None and self.step is None
        earlier = equal_width(draft.ticks[0], int(draft.ticks[-1]) - 1, draft.regular, is_float=False)
        same = replace(entry.of_release, ticks=draft.ticks, edges=draft.edges) == draft
        return entry.of_release if plain and same and entry.ticks == earlier else draft


def read_column(column: Column, read_as: str) -> tuple[Column, dict[str, Any]]:
    """A column with the type as which it is read, and what its attribute says of that.

    Raises:
        InvalidArgument: no column of texts, a type that has no bins or whose values depend on the session, or a form
            that the column's type does not hold.
    """
    reading = READINGS.get(read_as.strip().upper())
    if reading is not None:
        return replace(column, type=reading.type), _form(column, reading)
    kind, suffix = (read_as[:-1].strip(), "%") if read_as.endswith("%") else (read_as.strip(), "")
    kind = _as_duckdb_writes(kind)
    read_type = column_type(kind)
    if public_type(column.type) != "VARCHAR" or column_type(column.type).members:
        raise InvalidArgument(
            f"read_as is {read_as!r}, but {column.name!r} is of type {kind_of(column.type)}: it goes with VARCHAR; "
            f"what numbers are read as is a form of times: {', '.join(form.name for form in FORMS if form.is_number)}"
        )
    if not read_type.has_bins or read_type.depends_on_session or (suffix and not read_type.is_number):
        raise InvalidArgument(
            f"read_as is {read_as!r}: give a type of numbers, dates or times, such as 'INTEGER', 'DECIMAL(9,2)', "
            f"'DOUBLE', 'DATE', or 'DECIMAL(5,2)%' for texts such as 13.5%; or a form of times: {', '.join(READINGS)}"
        )
    return replace(column, type=kind), {"text": True, "suffix": suffix}


def _form(column: Column, reading: Reading) -> dict[str, Any]:
    """What an attribute says of a column that is stored in a form of times.

    Raises:
        InvalidArgument: its type does not hold it.
    """
    stored_type, kind = column_type(column.type), public_type(column.type)
    if kind == "VARCHAR" and not stored_type.members:
        return {"text": True, "reading": reading.name}
    exact = stored_type.is_number and not (stored_type.float_type is np.float32 and reading.digits > FLT_DIG)
    if not reading.is_number or not exact:
        fits = "a column of numbers, or of texts of digits" if reading.is_number else "a column of texts"
        raise InvalidArgument(
            f"read_as is {reading.name!r}, but {column.name!r} is of type {kind_of(column.type)}: it goes with {fits}"
        )
    return {"reading": reading.name, "stored": kind}


def _as_duckdb_writes(kind: str) -> str:
    """The name of a type in capitals, without spaces behind commas.

    >>> _as_duckdb_writes("decimal(9, 2)"), _as_duckdb_writes("int")
    ('DECIMAL(9,2)', 'INTEGER')
    """
    upper = "".join(kind.upper().split(" ")) if "(" in kind else kind.upper()
    return {"INT": "INTEGER", "NUMERIC": "DECIMAL(18,3)", "DECIMAL": "DECIMAL(18,3)", "REAL": "FLOAT"}.get(upper, upper)
