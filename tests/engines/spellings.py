"""Values of each type in several spellings, equal ones and near ones, and what DuckDB itself counts of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import duckdb
import numpy as np

from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.ticks import tick
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument
from dpsql.owner.declaration import Declaration

WHOLE = ("0", "-0", "007", "7", "8")
MOMENTS = ("2020-02-29", "2020-02-29 00:00:00", "2020-02-29 00:00:01", "2020-03-01 12:00:00", "2020-03-01 12:00:00.0")
ZONED = ("2024-03-31 02:30:00+01", "2024-03-31 01:30:00+00", "2024-03-31 01:30:00.000001+00", "2024-03-31 02:30:00+00")
FLOATS = ("0.0", "-0.0", "5e-324", "1", "1.0", "1e0", "-1", "nan", "NaN", "inf", "-inf", "0.1", "0.10000000000000001")
EVERYWHERE = {
    "BOOLEAN": ("true", "t", "false"),
    "TINYINT": WHOLE,
    "INTEGER": WHOLE,
    "BIGINT": (*WHOLE, "9007199254740992", "9007199254740993"),
    "DECIMAL(9,2)": ("1", "1.0", "1.00", "1.01", "-0.00", "0"),
    "DOUBLE": (*FLOATS, "1.0000000000000002"),
    "FLOAT": (*(text for text in FLOATS if text != "5e-324"), "1.0000001"),
    "DATE": ("2020-02-29", "2020-2-29", "2020-03-01"),
    "TIMESTAMP": (*MOMENTS, "2020-02-29 00:00:00.000001"),
    "VARCHAR": ("a", "A", "a ", "ä", "a\u0308", "", "0", "-0", "0.0"),
    "ENUM('sad', 'ok', 'happy')": ("sad", "ok", "happy"),
}
"""Of the types that every engine has, or has one like it."""
MORE = {
    "TIMESTAMP WITH TIME ZONE": ZONED,
    "TIME": ("12:00:00", "12:00:00.000", "12:00:00.000001", "24:00:00", "00:00:00"),
    "UUID": ("00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000A", *(f"{'0' * 31}b",)),
}
"""Of types that DuckDB, files and Postgres have."""
ONLY_DUCKDB = {
    "INTERVAL": (
        *("1 month", "30 days", "720 hours", "29 days 24 hours", "1 month -1 day", "29 days", "1 year", "12 months"),
        *(
            "360 days",
            "365 days",
            "1 day",
            "24 hours",
            "23 hours 60 minutes",
            "0 days",
            "-1 day",
            "-24 hours",
            "1 second",
        ),
    ),
    "TIME WITH TIME ZONE": ("12:00:00+00", "13:00:00+01", "12:00:00+00:00", "12:00:00+01", "12:00:00.000+00"),
    "BIGNUM": ("0", "-0", "007", "7", f"1{'0' * 40}", f"1{'0' * 39}1"),
    "TIME_NS": ("12:00:00", "12:00:00.000000000", "12:00:00.000000001"),
    "TIMESTAMP_S": (*MOMENTS, "2020-02-29 00:00:00.4"),
    "TIMESTAMP_MS": (*MOMENTS, "2020-02-29 00:00:00.001", "2020-02-29 00:00:00.0004"),
    "TIMESTAMP_NS": (*MOMENTS, "2020-02-29 00:00:00.000000001"),
    "DECIMAL(38,20)": ("1", "1.0", "1.00000000000000000001"),
    "ENUM('a', 'b')": ("a", "b"),
    **dict.fromkeys(("SMALLINT", "HUGEINT"), WHOLE),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), ("0", "007", "7", "8")),
}
SPELLINGS = EVERYWHERE | MORE | ONLY_DUCKDB


class Spelled:
    """A column of texts in one type, and what DuckDB's own `=` and `<` say of it.

    Attributes:
        texts: of the rows.
        kind: the type.
        distinct: one text of each value, the last of its spellings.
    """

    def __init__(self, host: duckdb.DuckDBPyConnection, texts: Sequence[str], kind: str) -> None:
        self._host, self.texts, self.kind = host, list(texts), kind
        self.distinct: list[str] = []
        for text in dict.fromkeys(reversed(self.texts)):
            if not any(self._holds("=", text, other) for other in self.distinct):
                self.distinct.append(text)

    @property
    def column(self) -> Column:
        return Column("x", self.kind, nullable=True)

    def count(self, condition: str, *values: str) -> int:
        """The rows for which a condition of x and of values, written ?, holds."""
        typed = condition.replace("?", f"CAST(? AS {self.kind})")
        rows = f"SELECT CAST(unnest(CAST(? AS VARCHAR[])) AS {self.kind}) AS x"
        sql = f"WITH rows AS MATERIALIZED ({rows}) SELECT count(*) FROM rows WHERE {typed}"
        return int(self._host.execute(sql, [self.texts, *values]).fetchall()[0][0])

    def _holds(self, operator: str, one: str, other: str) -> bool:
        sql = f"SELECT CAST(? AS {self.kind}) {operator} CAST(? AS {self.kind})"
        return bool(self._host.execute(sql, [one, other]).fetchall()[0][0])

    def ordered(self) -> list[str]:
        """One text of each value that can be an edge, in order."""
        if not column_type(self.kind).has_bins:
            return []
        ticks = {}
        for text in self.distinct:
            try:
                ticks[text] = tick(self._host, text, self.kind, "edges")
            except InvalidArgument:  # infinite, or no number
                continue
        return sorted(ticks, key=ticks.__getitem__)

    def attributes(self, *, listed: bool = True) -> list[tuple[Attribute, dict[int, int]]]:
        """Domains of the column as an owner declares them, and what DuckDB counts in each cell."""
        found = []
        if listed:
            found.append(self._declared(dict(enumerate(self.distinct)), values=self.distinct))
            rest, first = dict(enumerate(self.distinct[1:])), self.distinct[0]
            found.append(self._declared({**rest, len(rest): first}, values=self.distinct[1:], nulls_as=[first]))
        edges = self.ordered()
        if len(edges) > 2:
            found.append(self._binned(edges))
            points = edges[: -2 if column_type(self.kind).is_float else -1]
            attribute = self._attribute(edges=[edges[0], edges[-1]], points=points)
            places = np.searchsorted(np.array(attribute.ticks), [tick(self._host, p, self.kind, "x") for p in points])
            found.append((attribute, {int(n): self.count("x = ?", p) for n, p in zip(places, points, strict=True)}))
        return found

    def _attribute(self, **how: object) -> Attribute:
        return Declaration(**how).attribute(self._host, self.column)  # type: ignore[arg-type]

    def _declared(self, cells: dict[int, str], **how: object) -> tuple[Attribute, dict[int, int]]:
        return self._attribute(**how), {code: self.count("x = ?", text) for code, text in cells.items()}

    def _binned(self, edges: list[str]) -> tuple[Attribute, dict[int, int]]:
        counts = {n: self.count("x >= ? AND x < ?", *edges[n : n + 2]) for n in range(len(edges) - 1)}
        if column_type(self.kind).is_float:  # whose last bin has its upper end
            counts[len(edges) - 2] += self.count("x = ?", edges[-1])
        return self._attribute(edges=edges), counts


@cache
def is_there(kind: str) -> bool:
    """Whether this version of DuckDB has the type."""
    with duckdb.connect() as host:
        try:
            host.execute(f"SELECT CAST(NULL AS {kind})")
        except duckdb.Error:
            return False
    return True
