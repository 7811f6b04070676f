"""What the rows of a column are like: read for `--owner-looks`, and for nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dpsql.api.proposing.inputs import Input
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal

MOST_VALUES: Final = 1000
"""Values of a column that are looked at one by one, the most frequent first."""
_SHAPE: Final = "CASE WHEN length(v) <= 64 THEN regexp_replace(v, '[0-9]', '9', 'g') END AS s"
"""What texts share that differ in digits alone; of long ones, which nobody takes for numbers, there is one shape."""


@dataclass(frozen=True)
class Profile:
    """A column as SQL computes it, with counts of its rows.

    Attributes:
        source: of the rows.
        sql: the expression of its values.
        type: of those.
        rows, known, distinct: of the table, of those not NULL, and different values.
        top: the most frequent values as text, with their counts.
    """

    source: Input
    sql: str
    type: str
    rows: int
    filled: int
    distinct: int
    top: tuple[tuple[str, int], ...]

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The most frequent values as text."""
        return tuple(value for value, _ in self.top)

    @cached_property
    def rarer(self) -> tuple[str, ...]:
        """Where there are more texts than `top` has: of each shape, whose texts differ in digits alone, two examples.

        How numbers are written shows only in all of them: small amounts, which are frequent, have no thousands.
        """
        if self.is_whole or self.type != "VARCHAR":
            return ()
        shapes = self.source.ask(
            {"v": self.sql}, _SHAPE, "min(v)", "max(v)", where="v IS NOT NULL", group=True, most=MOST_VALUES
        )
        texts = (text for _, least, greatest in shapes for text in (least, greatest))
        return tuple(dict.fromkeys(text for text in texts if text not in {*self.values}))

    def rows_of(self, texts: Sequence[str]) -> dict[str, int]:
        """How many rows have each of some texts."""
        counts = dict(self.top)
        unseen = [text for text in texts if text not in counts]
        if unseen:
            where = f"v IN ({', '.join(map(literal, unseen))})"
            counts |= dict(self.source.ask({"v": self.sql}, "v", "count(*)", where=where, group=True))
        return {text: counts.get(text, 0) for text in texts}

    @property
    def is_whole(self) -> bool:
        """Whether `top` has every value."""
        return self.distinct == len(self.top)

    @property
    def nearly_unique(self) -> bool:
        """Whether nearly each row has a value of its own, of more rows than a short list has."""
        return self.filled > MOST_VALUES // 10 and self.distinct > 0.9 * self.filled

    def quantiles(self, parts: Sequence[float], condition: str) -> list[str]:
        """Values at some quantiles of the rows that meet a condition over `v`, the value; as text."""
        select = f"CAST(quantile_disc(v, {literal(list(parts))}) AS VARCHAR[])"
        return list(self.source.ask({"v": self.sql}, select, where=condition)[0][0] or [])


def profile(source: Input, name: str, type_name: str, sql: str | None = None) -> Profile:
    """Look at a column, or at an expression of it.

    Args:
        source: of the rows.
        name: of the column.
        type_name: of the values.
        sql: the expression; by default the column itself.
    """
    sql = quote(name) if sql is None else sql
    rows, filled, distinct = source.ask({"v": sql}, "count(*)", "count(v)", "count(DISTINCT v)")[0]
    most = MOST_VALUES
    top = source.ask(
        {"v": sql}, "CAST(v AS VARCHAR) AS t", "count(*) AS n", where="v IS NOT NULL", group=True, most=most
    )
    return Profile(source, sql, type_name, rows, filled, distinct, tuple((text, n) for text, n in top))
