"""Small trees of tables with generated rows, their units by plain loops, and a flat table of them counted by DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.tree import Link, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.engines.duckdb.catalog import find_source
from dpsql.engines.duckdb.unit_rows import UnitCounter

Row = dict[str, object]
Rows = dict[str, list[Row]]
SECRET = "5ec2e7"


@dataclass(frozen=True)
class Shape:
    """A tree and the types of its keys.

    Attributes:
        links: of each table below the root: itself, its parent, how many columns its key has, the largest number.
        type: of all columns of keys.
    """

    links: tuple[tuple[str, str, int, int], ...]
    type: str

    @property
    def tree(self) -> Tree:
        links = [
            Link(c, p, tuple(f"up{i}" for i in range(n)), tuple(f"k{i}" for i in range(n)), most)
            for c, p, n, most in self.links
        ]
        return Tree("root", tuple(links))

    @property
    def unit_row(self) -> UnitRow:
        value = Attribute("value", "INTEGER", "values", ("0", "1"), nullable=True, outside=True)
        return UnitRow(self.tree, dict.fromkeys(self.tree.tables, Domain((value,))))

    def load(self, con: duckdb.DuckDBPyConnection, rows: Rows) -> None:
        for table in self.tree.tables:
            names = ["up0", "up1", "k0", "k1"]
            con.execute(
                f"CREATE OR REPLACE TABLE {table} (value INTEGER, {', '.join(f'{n} {self.type}' for n in names)})"
            )
            given = [tuple(row.get(name) for name in ("value", *names)) for row in rows[table]]
            if given:
                con.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", given)

    def units(self, con: duckdb.DuckDBPyConnection, rows: Rows) -> Counter[int]:
        """How many units are in which cell of the product of all columns."""
        self.load(con, rows)
        sources = {table: find_source(con, table) for table in self.tree.tables}
        unit_row = self.unit_row
        counter = UnitCounter(con, sources, unit_row, exp.Literal.string(SECRET))
        whole = counter.marginal(unit_row.domain.names)
        assert counter.marginal(()).counts.tolist() == [len(rows["root"])]
        counter.close()
        return Counter(dict(zip(whole.cells.tolist(), whole.counts.tolist(), strict=True)))


KEYS: dict[str, Sequence[object]] = {
    "INTEGER": [1, 2, 3, None],
    "VARCHAR": ["a", "A", "a ", "", None],
    "DOUBLE": [0.0, -0.0, float("nan"), 1.5, None],
    "INTERVAL": ["1 month", "30 days", "2 days", None],
    "UUID": ["00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", None],
    "DATE": ["2020-01-01", "2020-01-02", None],
    "DECIMAL(4,1)": ["1.0", "2.5", "3", None],
    "ENUM('x', 'y')": ["x", "y", None],
}

SHAPES = [
    Shape((("a", "root", 1, 3),), "INTEGER"),
    Shape((("a", "root", 1, 1),), "VARCHAR"),
    Shape((("a", "root", 2, 4), ("b", "a", 1, 3)), "INTEGER"),
    Shape((("a", "root", 1, 2), ("b", "root", 1, 9)), "DOUBLE"),
    Shape((("a", "root", 1, 5), ("b", "a", 2, 2), ("c", "root", 1, 1)), "VARCHAR"),
    Shape((("a", "root", 1, 2), ("b", "a", 1, 2), ("c", "b", 1, 2)), "UUID"),
    *(Shape((("a", "root", 1, 3), ("b", "a", 1, 2)), kind) for kind in KEYS),
]


@st.composite
def databases(draw: st.DrawFn, unique: bool = True) -> tuple[Shape, Rows]:
    """A shape and rows of it; keys of a table differ, or need not."""
    shape = draw(st.sampled_from(SHAPES))
    keys = KEYS[shape.type]
    rows: Rows = {}
    for table in shape.tree.tables:
        cells = st.fixed_dictionaries(
            {
                "value": st.sampled_from([0, 1, 7, None]),
                **{n: st.sampled_from(keys) for n in ("up0", "up1", "k0", "k1")},
            }
        )
        listed: list[Row] = draw(st.lists(cells, max_size=5))
        if unique:
            listed = list({same(row, ("k0",)): row for row in listed}.values())
        rows[table] = listed
    return shape, rows


def same(row: Row, names: Sequence[str]) -> tuple[object, ...] | None:
    """What tells keys apart; None where a part of one is NULL."""
    parts = []
    for name in names:
        value = row[name]
        if value is None:
            return None
        if isinstance(value, float):
            value = "nan" if value != value else value + 0.0
        if value in ("1 month", "30 days"):
            value = "30 days"
        if value in ("3",):
            value = "3.0"
        parts.append(value)
    return tuple(parts)


def removals(shape: Shape, rows: Rows, number: int) -> list[Rows]:
    """The rows without those of one unit; of keys that several rows share, by every way to say whose children are."""
    found = [({"root": {number}}, 0)]
    tables = shape.tree.links
    results: list[dict[str, set[int]]] = []

    def follow(gone: dict[str, set[int]], step: int) -> None:
        if step == len(tables):
            results.append(gone)
            return
        link = tables[step]
        parents = rows[link.parent]
        holders: dict[tuple[object, ...], list[int]] = {}
        for place, row in enumerate(parents):
            if (key := same(row, link.references)) is not None:
                holders.setdefault(key, []).append(place)
        sure, open_ = set(), []
        for key, places in holders.items():
            inside = [place for place in places if place in gone[link.parent]]
            if len(inside) == len(places):
                sure.add(key)
            elif inside:
                open_.append(key)
        for choice in range(2 ** len(open_)):
            taken = sure | {key for bit, key in enumerate(open_) if choice >> bit & 1}
            below = {p for p, row in enumerate(rows[link.child]) if same(row, link.key) in taken}
            follow({**gone, link.child: below}, step + 1)

    follow(found[0][0], 0)
    return [
        {table: [r for p, r in enumerate(listed) if p not in gone[table]] for table, listed in rows.items()}
        for gone in results
    ]


def moved(before: Counter[int], after: Counter[int]) -> int:
    """The L1 distance of two counts."""
    return sum(abs(before[cell] - after[cell]) for cell in {*before, *after})
