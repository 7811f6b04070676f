"""What every engine must do, as properties of any engine: `tests/engines/test_conformance.py` runs them.

An engine joins by a `Place`: how a table is made in it. Tables are made of texts, None for NULL, which the engine reads
as values of a column's type. What is expected is computed here, by NumPy and Python, never by an engine.
"""

from __future__ import annotations

import re
import threading
from collections import Counter as Bag
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any, Protocol

import duckdb
import numpy as np
import pytest

from dpsql.core.column_types import column_type
from dpsql.core.counter import CountsTogether
from dpsql.core.domain import Attribute, Domain
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.declare import declare_bins
from dpsql.engines.protocol import CountingFailed, Engine, UnitBound
from dpsql.engines.source import Column, FoundView, Source
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument, UnknownName
from dpsql.owner.declaration import Declaration

from .spellings import EVERYWHERE, SPELLINGS, Spelled, is_there

Rows = Sequence[tuple[str | None, ...]]


class Place(Protocol):
    """An engine under test, and a place where it has tables."""

    marks: frozenset[str]
    """What it can say of a column: "NOT NULL", "GENERATED", "COLLATE"."""
    cannot: frozenset[str]
    """What it refuses, and says what works instead: "presence", "among", "codes", "units", "sums", "values of floats",
    and "read_as", texts as numbers."""

    more_types: frozenset[str]
    """Types that it has beside those of `EVERYWHERE`."""

    def open(self) -> Engine:
        """The engine."""

    def stored(self, kind: str) -> str:
        """The type of a column there that is made with that type."""

    def table(self, name: str, columns: Mapping[str, str], rows: Rows) -> None:
        """Make a table of columns with types or more (NOT NULL, GENERATED ALWAYS AS …) in place of one of that name."""

    def append(self, name: str, rows: Rows) -> None:
        """Add rows to a table."""

    def view(self, name: str, of: str) -> None:
        """Make a view of all of a table."""

    def long(self, name: str) -> Domain:
        """Make a table that takes a while to be counted; its domain."""

    def failing(self, name: str, value: str) -> Domain:
        """Make a table, a count of which fails in the engine with an error that quotes the value."""

    def bound(self, column: str, kind: str, rows: int, *, other: bool = False) -> UnitBound:
        """A bound with a secret that stays the same; with `other`, another secret."""

    def left(self) -> int:
        """How many things counters hold in the engine."""


# --- tables and what is expected of them ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A column: its type, how its domain is declared, and values in it, outside it and at its ends."""

    type: str
    declared: Mapping[str, Any]
    pool: tuple[str, ...]
    other: Any = None
    nullable: bool = True
    outside: bool = False


CASES = {
    "truth": Case("BOOLEAN", {"values": ["false", "true"]}, ("false", "true")),
    "listed": Case("INTEGER", {"values": [1, -7, 100]}, ("1", "-7", "100", "5", "-2147483648"), outside=True),
    "years": Case("TINYINT", {"lower": 0, "upper": 90}, ("0", "1", "45", "90", "91", "-1", "127", "-128"), other=-5),
    "wide": Case("INTEGER", {"lower": 0, "upper": 99, "bins": 7}, ("0", "13", "14", "15", "98", "99", "100", "-1")),
    "large": Case(
        "BIGINT",
        {"lower": -(2**40), "upper": 2**50, "bins": 5},
        ("-9223372036854775808", "9223372036854775807", "-1099511627776", "1125899906842624", "1125899906842625", "0"),
        outside=True,
    ),
    "money": Case(
        "DECIMAL(9,2)",
        {"lower": 0, "upper": 10, "bins": 4},
        ("0.00", "0.01", "2.50", "2.51", "9.99", "10.00", "10.01", "-0.01", "1234567.89"),
        nullable=False,
    ),
    "weight": Case(
        "DOUBLE",
        {"lower": -1.5, "upper": 2.5, "bins": 3},
        ("nan", "inf", "-inf", "-1.5", "2.5", "2.5000000000000004", "-0.0", "0.0", "1e308", "5e-324"),
        outside=True,
    ),
    "single": Case("FLOAT", {"lower": 0, "upper": 1, "bins": 4}, ("nan", "0", "1", "0.25", "0.1", "3e38", "-1e-45")),
    "exactly": Case("DOUBLE", {"values": [0.1, 1e20]}, ("0.1", "1e20", "0.30000000000000004"), other=-1),
    "born": Case(
        "DATE",
        {"lower": "1999-12-31", "upper": "2024-02-29", "bins": 9},
        ("1999-12-30", "1999-12-31", "2000-02-29", "2024-02-29", "2024-03-01", "1900-01-01"),
    ),
    "seen": Case(
        "TIMESTAMP",
        {"lower": "2020-01-01", "upper": "2020-01-02", "bins": 24},
        ("2020-01-01 00:00:00", "2020-01-01 00:59:59.999999", "2020-01-01 23:00:00", "2019-12-31 23:59:59.999999"),
        outside=True,
    ),
    "ward": Case(
        "VARCHAR",
        {"values": ["a", "A", "ä", "a\u0308", "", "😀", "NULL", "it's"]},
        ("a", "A", "ä", "a\u0308", "", " ", "😀", "NULL", "it's", "a ", "ß", "other"),
        other="other",
    ),
    "coded": Case(
        "INTEGER",
        {"lower": 0, "upper": 99, "bins": 7, "points": [0, 13, 50, 99], "nulls_as": [-9, 100]},
        ("0", "1", "12", "13", "14", "50", "98", "99", "-9", "100", "101"),
        outside=True,
    ),
    "spiky": Case(
        "DOUBLE",
        {"lower": 0, "upper": 1, "bins": 2, "points": [0, 0.75], "nulls_as": ["nan", -1]},
        ("0.0", "-0.0", "5e-324", "-5e-324", "0.75", "0.7500000000000001", "1", "nan", "-1", "0.5", "inf"),
    ),
    "told": Case("VARCHAR", {"values": ["a", "A"], "nulls_as": ["N", ""]}, ("a", "A", "N", "n", "", " "), other="rest"),
    "share": Case(
        "VARCHAR",
        {"lower": 0, "upper": 100, "bins": 10, "points": [0], "read_as": "DECIMAL(5,1)%", "nulls_as": ["N", "-9%"]},
        ("0%", "0", "0.1%", "13.5%", "100.0%", "100.1%", "-1", "-9%", "-9", "N", "n", "", "%", "x", "1e1", "99999%"),
        outside=True,
    ),
    "mood": Case("ENUM('sad', 'ok', 'happy')", {"values": ["ok", "sad"]}, ("sad", "ok", "happy"), outside=True),
}


@cache
def attribute_of(name: str, kind: str) -> Attribute:
    """The domain of a column of that type, as its case declares it; the host reads constants, whatever engine it is."""
    case, column = CASES[name], Column(name, kind, nullable=True)
    with duckdb.connect() as host:
        found = Declaration(**case.declared, nulls=case.nullable, other=case.other).attribute(host, column)
    return found.closed(never_null=False) if case.outside else found


def tick_of(text: str, kind: str) -> int | float:
    """A value as a number, in steps of its type."""
    if kind in ("DOUBLE", "FLOAT"):
        return float(np.float32(text)) if kind == "FLOAT" else float(text)
    if kind == "DATE":
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if kind == "TIMESTAMP":
        since = datetime.fromisoformat(text) - datetime(1970, 1, 1)
        return (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return int(Decimal(text).scaleb(int(kind[:-1].split(",")[1]) if kind.startswith("DECIMAL") else 0))


def shown(text: str, kind: str) -> str:
    """A value as DuckDB writes it, which is how domains list it."""
    return str(float(text)) if kind == "DOUBLE" else text


NUMBER = re.compile(r"-?\d+(\.\d+)?(e\d+)?")
"""A text that is read as a number."""


def _is_named(text: str, attribute: Attribute) -> bool:
    """Whether a value is one of those that stand for NULL: of numbers also one that equals it."""
    if attribute.stored_type == "VARCHAR" or attribute.kind == "values":
        return text in attribute.nulls_as
    numbers = [tick_of(one, attribute.type) for one in attribute.nulls_as]
    value = tick_of(text, attribute.type)
    return value in numbers or (value != value and any(one != one for one in numbers))


def code_of(attribute: Attribute, text: str | None) -> int | None:
    """The code of a value; None if it has none."""
    rest = attribute.outside_code if attribute.other_code is None else attribute.other_code
    if text is None or _is_named(text, attribute):
        return attribute.null_code if attribute.nullable else rest
    if attribute.kind == "values":
        known = shown(text, attribute.type)
        return attribute.values.index(known) if known in attribute.values else rest
    number = text.rstrip(attribute.suffix) if attribute.text else text
    if attribute.text and not NUMBER.fullmatch(number):
        return rest
    ticks, value = attribute.ticks, tick_of(number, attribute.type)
    last = ticks[-1] if attribute.is_float else ticks[-1] - 1
    if not ticks[0] <= value <= last:  # nor is what is no number
        return rest
    return min(attribute.regular - 1, int(np.searchsorted(np.array(ticks), value, side="right")) - 1)


@dataclass
class Table:
    """A table in a place, found by an engine, and its rows."""

    place: Place
    engine: Engine
    names: tuple[str, ...]
    rows: Rows
    source: Source = field(init=False)
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        kinds = {name: CASES[name].type for name in self.names} | {"unit": "VARCHAR"}
        self.place.table("t", kinds, self.rows)
        self.source = self.engine.find("t")
        found = {column.name: column.type for column in self.source.columns}
        self.domain = Domain(tuple(attribute_of(name, found[name]) for name in self.names))

    def append(self, rows: Rows) -> None:
        """Add rows, which the table has when it is found anew, because a source names the snapshot that counts."""
        self.place.append("t", rows)
        self.source = self.engine.find("t")

    def codes(self) -> list[tuple[int | None, ...]]:
        """Of each row."""
        return [tuple(code_of(a, text) for a, text in zip(self.domain, row, strict=False)) for row in self.rows]

    def cells(self, clique: Sequence[str]) -> list[int | None]:
        """Of each row its cell, None if it has none."""
        places = [self.names.index(name) for name in clique]
        found = []
        for row in self.codes():
            chosen = [row[place] for place in places]
            inside = None not in chosen
            found.append(int(np.ravel_multi_index(chosen, self.domain.shape(clique))) if inside else None)
        return found

    def units(self) -> list[str | None]:
        """Of each row."""
        return [row[-1] for row in self.rows]

    def cliques(self) -> list[tuple[str, ...]]:
        """Each column, each with the next, and the first three."""
        names = self.names
        pairs = [tuple(names[n : n + 2]) for n in range(len(names) - 1)]
        return [*((name,) for name in names), *pairs, *([tuple(names[:3])] if len(names) > 2 else [])]


ROWS = 90
FEW = ("truth", "listed", "wide", "ward")


def every_value(place: Place, names: Sequence[str] = FEW) -> Table:
    """A table with each value of some cases, and NULL; most units have several rows, some rows have no unit."""
    pools = [(None, *CASES[name].pool) for name in names]
    rows = []
    for number in range(ROWS):
        unit = None if number % 11 == 0 else f"u{number * 7 % 17}"
        rows.append((*(pool[number * (3 + n) % len(pool)] for n, pool in enumerate(pools)), unit))
    return Table(place, place.open(), tuple(names), rows)


def counted(cells: Sequence[int | None]) -> dict[int, int]:
    """How many rows each cell has."""
    return dict(Bag(cell for cell in cells if cell is not None))


def as_dict(marginal: Any) -> dict[int, int]:
    """The cells of a marginal with their counts."""
    return dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True))


# --- properties -------------------------------------------------------------------------------------------------------

PROPERTIES: dict[str, Callable[[Place], None]] = {}
"""By what they say."""


def covers(text: str) -> Callable[[Callable[[Place], None]], Callable[[Place], None]]:
    """Adds a property to the suite."""

    def add(check: Callable[[Place], None]) -> Callable[[Place], None]:
        PROPERTIES[text] = check
        return check

    return add


@covers("find: a name is found in any case, quoted or not, with its schema and database or without")
def names_in_any_case(place: Place) -> None:
    place.table("My Clients", {"Age": "INTEGER"}, [])
    place.table("plain", {"age": "INTEGER"}, [])
    engine = place.open()
    source = engine.find('"My Clients"')
    assert (source.name, [column.name for column in source.columns]) == ("My Clients", ["Age"])
    for text in (
        '"my clients"',
        "My Clients",
        f'"{source.schema}"."MY CLIENTS"',
        f'{source.catalog}.main."My Clients"',
    ):
        assert engine.find(text) == source
    assert engine.find("PLAIN") == engine.find_parts(["Plain"], source.parts[:2]) != source
    assert source.column("AGE").name == "Age"


@covers("find: columns come in order with their types; NOT NULL, generated and collated ones are marked")
def columns_as_they_are(place: Place) -> None:
    kinds = {f"c{number}": case.type for number, case in enumerate(CASES.values())}
    more = {"x": "INTEGER NOT NULL", "y": "INTEGER GENERATED ALWAYS AS (x + 1)", "z": "VARCHAR COLLATE NOCASE"}
    place.table("t", kinds | more, [])
    columns = place.open().find("t").columns
    assert [column.name for column in columns] == [*kinds, *more]
    assert {column.name: column.type.replace(" ", "") for column in columns[: len(kinds)]} == {
        name: place.stored(kind).replace(" ", "") for name, kind in kinds.items()
    }
    assert [column.name for column in columns if not column.nullable] == (["x"] if "NOT NULL" in place.marks else [])
    assert [column.name for column in columns if column.generated] == (["y"] if "GENERATED" in place.marks else [])
    assert [column.name for column in columns if column.collated] == (["z"] if "COLLATE" in place.marks else [])


@covers("find: what is not there is an UnknownName that quotes it, and a view is told from a table")
def what_is_not_there(place: Place) -> None:
    place.table("t", {"x": "INTEGER"}, [])
    place.view("v", "t")
    engine = place.open()
    for text in ("nowhere", "t.x.y", "main.nowhere", "nowhere.main.t"):
        with pytest.raises(UnknownName, match=text.replace(".", r"\.")):
            engine.find(text)
    with pytest.raises(FoundView):
        engine.find("V")


@covers("marginal: counts of every type are the reference's: NULL, NaN, ±∞, bins' ends, OTHER, OUTSIDE")
def marginals_are_right(place: Place) -> None:
    marginals_of(every_value(place, known_cases(place)))


def known_cases(place: Place) -> tuple[str, ...]:
    """The cases that an engine can count: all, but for those that it says it cannot."""

    def can(case: Case) -> bool:
        if "read_as" in case.declared:
            return "read_as" not in place.cannot
        return not ("values of floats" in place.cannot and case.type == "DOUBLE" and "values" in case.declared)

    return tuple(name for name, case in CASES.items() if can(case))


def refuses(place: Place, what: str, ask: Callable[[], object]) -> bool:
    """Whether an engine says that it cannot do something; then it refuses it, and says what works instead."""
    if what in place.cannot:
        with pytest.raises(InvalidArgument, match="copy the table"):
            ask()
    return what in place.cannot


def marginals_of(table: Table) -> None:
    """Of all cliques, from codes that are kept; of columns also from the rows."""
    kept = table.engine.counter(table.source, table.domain)
    if isinstance(kept, CountsTogether):
        kept.expect(table.cliques())
    for clique in table.cliques():
        assert as_dict(kept.marginal(clique)) == counted(table.cells(clique)), clique
    kept.close()
    for attribute in table.domain:
        once = table.engine.counter(table.source, Domain((attribute,)), once=True)
        assert as_dict(once.marginal((attribute.name,))) == counted(table.cells((attribute.name,))), attribute.name
        once.close()


@covers("marginal: the empty clique counts every row; cells are distinct and inside, no count is 0")
def counts_add_up(place: Place) -> None:
    table = every_value(place)
    counter = table.engine.counter(table.source, table.domain)
    assert counter.marginal(()).counts.tolist() == [len(table.rows)]
    for clique in table.cliques():
        found = counter.marginal(clique)
        assert found.clique == clique
        assert found.size == table.domain.size(clique)
        assert len(set(found.cells.tolist())) == len(found.cells)
        assert ((found.cells >= 0) & (found.cells < found.size)).all()
        assert (found.counts > 0).all()
        assert found.counts.sum() == sum(cell is not None for cell in table.cells(clique))
    counter.close()


@covers("an empty table has counts of nothing")
def empty_table(place: Place) -> None:
    table = Table(place, place.open(), ("truth", "weight"), [])
    for bound in bounds(place, 2):
        counter = table.engine.counter(table.source, table.domain, bound)
        assert as_dict(counter.marginal(("truth", "weight"))) == {}
        assert counter.marginal(()).counts.tolist() == [0]
        assert list(counter.values("truth")[0]) == []
        counter.close()


def bounds(place: Place, rows: int) -> list[UnitBound | None]:
    """None, and one of so many rows of a unit where the engine can choose them."""
    return [None] if "units" in place.cannot else [None, place.bound("unit", "VARCHAR", rows)]


def chooses(place: Place, table: Table) -> bool:
    """Whether an engine can choose rows of units; if it cannot, it refuses to."""
    bound = place.bound("unit", "VARCHAR", 2)
    return not refuses(place, "units", lambda: table.engine.counter(table.source, table.domain, bound))


@covers("units: of each unit at most so many rows count, all where there is room, none without a unit")
def units_are_bounded(place: Place) -> None:
    table = every_value(place)
    if not chooses(place, table):
        return
    sizes = Bag(unit for unit in table.units() if unit is not None)
    for most in (1, 2, 3, 1000):
        counter = table.engine.counter(table.source, table.domain, place.bound("unit", "VARCHAR", most))
        assert counter.marginal(()).counts.tolist() == [sum(min(size, most) for size in sizes.values())]
        if "presence" not in place.cannot:
            seen = counter.presence(("ward", "listed"))
            held = Bag(seen.units.tolist())
            assert max(held.values()) <= most
            assert seen.alike.sum() <= len(sizes)
        counter.close()
    everybody = [
        cell if unit is not None else None for cell, unit in zip(table.cells(("wide",)), table.units(), strict=True)
    ]
    counter = table.engine.counter(table.source, table.domain, place.bound("unit", "VARCHAR", 1000))
    assert as_dict(counter.marginal(("wide",))) == counted(everybody)
    counter.close()


@covers("units: the same rows count each time and in each marginal; another secret chooses others")
def one_choice(place: Place) -> None:
    table = every_value(place)
    if not chooses(place, table):
        return
    found = []
    for other in (False, False, True):
        counter = table.engine.counter(table.source, table.domain, place.bound("unit", "VARCHAR", 1, other=other))
        found.append([as_dict(counter.marginal(clique)) for clique in table.cliques()])
        pair = counter.marginal(("truth", "listed")).dense().reshape(table.domain.shape(("truth", "listed")))
        assert pair.sum(axis=1).tolist() == counter.marginal(("truth",)).dense().tolist()
        counter.close()
    assert found[0] == found[1]
    assert found[0] != found[2]


@covers("units: a unit that is added changes what is counted by its own rows, at most so many")
def a_unit_more(place: Place) -> None:
    table = every_value(place)
    if not chooses(place, table):
        return
    bound = place.bound("unit", "VARCHAR", 2)
    before = table.engine.counter(table.source, table.domain, bound, once=True).marginal(("truth", "ward"))
    table.append([(*table.rows[n][:-1], "somebody else") for n in (1, 2, 5, 7)])
    after = table.engine.counter(table.source, table.domain, bound, once=True).marginal(("truth", "ward"))
    change = after.dense() - before.dense()
    assert (change >= 0).all()
    assert change.sum() == 2


@covers("presence: each pair of a unit and a cell in which it has a row that counts, once")
def presence_is_right(place: Place) -> None:
    table = every_value(place)
    clique = ("truth", "ward")
    if "units" in place.cannot and not chooses(place, table):
        return
    counter = table.engine.counter(table.source, table.domain, place.bound("unit", "VARCHAR", 1000))
    if refuses(place, "presence", lambda: counter.presence(clique)):
        return
    found = counter.presence(clique)
    counter.close()
    pairs = {(u, c) for u, c in zip(table.units(), table.cells(clique), strict=True) if u is not None and c is not None}
    known = list(zip(found.units.tolist(), found.cells.tolist(), strict=True))
    assert len(set(known)) == len(known)

    def by_number(some: Any) -> list[list[int]]:
        held: dict[Any, list[int]] = {}
        for unit, cell in some:
            held.setdefault(unit, []).append(cell)
        return [sorted(held[unit]) for unit in sorted(held)]

    numbered = zip(by_number(known), found.alike.tolist(), strict=True)
    assert sorted(cells for cells, n in numbered for _ in range(n)) == sorted(by_number(pairs))


@covers("sums: steps of a formula, clamped to the bounds whatever a value is; what is outside adds its own")
def sums_are_right(place: Place) -> None:
    table = every_value(place, ("truth", "wide", "money", "weight"))
    twice = Formula("add", (COLUMN, COLUMN))
    for name, moment in {
        "wide": Moment("wide", 1.0, 10, 60, outside=-3, missing=4),
        "money": Moment("money", 4.0, -2, 17, outside=5, formula=twice),
        "weight": Moment("weight", 8.0, -9, 9, outside=2, missing=-1),
    }.items():
        attribute = table.domain.by_name[name]
        expected: dict[int, int] = {}
        for cell, row in zip(table.cells(("truth", name)), table.rows, strict=True):
            if cell is not None:
                expected[cell] = expected.get(cell, 0) + steps_of(attribute, moment, row[table.names.index(name)])
        counter = table.engine.counter(table.source, table.domain, once=True)
        if refuses(place, "sums", partial(counter.sums, ("truth", name), moment)):
            return
        assert as_dict(counter.sums(("truth", name), moment)) == expected, name
        counter.close()


@covers("sums: of products, the steps of each column multiplied, scaled, rounded and clamped")
def sums_of_products(place: Place) -> None:
    table = every_value(place, ("truth", "wide", "money", "weight"))
    wide, weight = Moment("wide", 1.0, 10, 60, missing=12), Moment("weight", 8.0, -9, 9, outside=2)
    for product in (Product(wide, weight, 1.0, -200, 300), Product(weight, wide, 0.125, -60, 60)):
        expected: dict[int, int] = {}
        for cell, row in zip(table.cells(("truth",)), table.rows, strict=True):
            if cell is not None:
                sides = [
                    steps_of(table.domain.by_name[one.column], one, row[table.names.index(one.column)])
                    for one in (product.first, product.second)
                ]
                scaled = sides[0] * sides[1] * product.multiplier
                whole = int(np.sign(scaled) * np.floor(abs(scaled) + 0.5))
                expected[cell] = expected.get(cell, 0) + min(max(whole, product.low), product.high)
        counter = table.engine.counter(table.source, table.domain, once=True)
        if refuses(place, "sums", partial(counter.sums, ("truth",), product)):
            return
        assert as_dict(counter.sums(("truth",), product)) == expected
        counter.close()


def steps_of(attribute: Attribute, moment: Moment, text: str | None) -> int:
    """What a row with that value adds."""
    if text is None:
        return moment.missing
    if code_of(attribute.inner, text) not in range(attribute.regular):
        return moment.outside
    value = float(text) * (1 if moment.formula == COLUMN else 2) * moment.multiplier
    return int(min(max(np.sign(value) * np.floor(abs(value) + 0.5), moment.low), moment.high))


@covers("bins: counts of any bins of a column, whatever the domain is")
def bins_of_any_kind(place: Place) -> None:
    table = every_value(place, ("wide", "born"))
    counter = table.engine.counter(table.source, Domain(()))
    with duckdb.connect() as host:
        for name, edges in {"wide": [0, 14, 15, 90], "born": ["1999-12-31", "2000-03-01", "2030-01-01"]}.items():
            parts = declare_bins(host, table.source.column(name), edges, None, None, None, nullable=False, other=None)
            found = counter.bins(parts)
            texts = [row[table.names.index(name)] for row in table.rows]
            assert as_dict(found) == counted([code_of(parts, text) for text in texts])
    counter.close()


@covers("equal: rows that DuckDB's = calls equal are in one cell, in listed values, points, bins, as NULL")
def equal_as_in_duckdb(place: Place) -> None:
    spelled = EVERYWHERE | {kind: SPELLINGS[kind] for kind in place.more_types if is_there(kind)}
    longest = max(map(len, spelled.values()))
    names = {f"x{number}": kind for number, kind in enumerate(spelled)}
    rows = [tuple(texts[n % len(texts)] for texts in spelled.values()) for n in range(longest + 7)]
    place.table("t", names, rows)
    engine = place.open()
    source = engine.find("t")
    with duckdb.connect() as host:
        for number, name in enumerate(names):
            column = Spelled(host, [row[number] for row in rows], source.column(name).type)
            listed = "values of floats" not in place.cannot or not column_type(column.kind).is_float
            for attribute, expected in column.attributes(listed=listed):
                named = replace(attribute, name=name)
                for once in (True, False):
                    counter = engine.counter(source, Domain((named,)), once=once)
                    found = as_dict(counter.marginal((name,)))
                    counter.close()
                    assert {code: found.get(code, 0) for code in expected} == expected, (column.kind, once, attribute)


@covers("values: those that two units have or more, in the order of their bytes, with how many; NULL is none")
def values_of_two(place: Place) -> None:
    table = every_value(place, ("ward",))
    more = [("only here", "one"), *[("of one unit", "one")] * 3, ("of no unit", None), ("of no unit", None)]
    table.append(more)
    held = [(text, unit, number) for number, (text, unit) in enumerate([*table.rows, *more]) if text is not None]
    for bound in bounds(place, 1000):
        pairs = {(text, number) for text, _, number in held}
        if bound is not None:
            pairs = {(text, unit) for text, unit, _ in held if unit is not None}
        expected = {text: count for text, count in Bag(text for text, _ in pairs).items() if count >= 2}
        counter = table.engine.counter(table.source, Domain(()), bound)
        texts, counts = counter.values("ward")
        counter.close()
        assert dict(zip(texts, counts.tolist(), strict=True)) == expected
        assert [text.encode() for text in texts] == sorted(text.encode() for text in texts)


@covers("among: a sample has the rows at its places: parts of them add up to the table, the same each time")
def samples_add_up(place: Place) -> None:
    table = every_value(place)
    counter = table.engine.counter(table.source, table.domain)
    clique = ("listed", "ward")
    whole = counter.marginal(clique).dense()
    places = np.arange(len(table.rows))
    if refuses(place, "among", lambda: counter.among(places)):
        return
    first, again, rest, one = (
        counter.among(some) for some in (places[::3], places[::3], np.delete(places, places[::3]), places[:1])
    )
    assert (first.marginal(clique).dense() + rest.marginal(clique).dense()).tolist() == whole.tolist()
    assert first.marginal(clique).dense().tolist() == again.marginal(clique).dense().tolist()
    assert [c.marginal(()).counts.tolist() for c in (first, rest, one)] == [[30], [60], [1]]
    counter.close()


@covers("codes: each row's codes, and of more rows than asked for a sample, the same each time")
def codes_of_rows(place: Place) -> None:
    table = every_value(place)
    names = table.names
    if refuses(place, "codes", lambda: table.engine.codes(table.source, table.domain, len(table.rows))):
        return
    whole, total = table.engine.codes(table.source, table.domain, len(table.rows))
    expected = [
        [code_of(table.domain.by_name[name], row[place]) for place, name in enumerate(names)] for row in table.rows
    ]
    assert total == len(table.rows)
    assert sorted(whole.tolist()) == sorted([-1 if code is None else code for code in row] for row in expected)
    nothing = (None,) * len(table.rows[0])
    table.append([nothing] * 3000)
    some, total = table.engine.codes(table.source, table.domain, 1000)
    again, _ = table.engine.codes(table.source, table.domain, 1000)
    assert total == len(table.rows) + 3000
    assert 800 <= len(some) <= 1000
    assert some.tolist() == again.tolist()
    usual = Bag(map(tuple, some.tolist())).most_common(1)[0][1]
    assert usual / len(some) > 0.94  # as among all of them


@covers("before: called once, before the first rows are read; what it raises stops the counting")
def before_rows_are_read(place: Place) -> None:
    table = every_value(place)
    called: list[int] = []
    for once in (False, True):
        counter = table.engine.counter(table.source, table.domain, once=once, before=lambda: called.append(1))
        assert len(called) == int(once)
        counter.marginal(("truth",))
        counter.marginal(("ward",))
        counter.close()
    assert len(called) == 2

    def refuse() -> None:
        raise DpsqlError("not now")

    counter = table.engine.counter(table.source, table.domain, before=refuse)
    with pytest.raises(DpsqlError, match="not now"):
        counter.marginal(("truth",))
    counter.close()


@covers("interrupt: ends a long count with Interrupted, from another thread; a later count works")
def interrupted_and_later(place: Place) -> None:
    domain = place.long("long")
    engine = place.open()
    source = engine.find("long")
    ended = threading.Event()

    def interrupt() -> None:  # again and again, because one that comes before the statement is lost
        while not ended.wait(0.001):
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    counter = engine.counter(source, domain)
    try:
        with pytest.raises(Interrupted):
            thread.start()
            counter.marginal(domain.names)
    finally:
        ended.set()
        thread.join()
    assert counter.marginal(domain.names[:1]).counts.sum() == counter.marginal(()).counts[0]
    counter.close()


@covers("a table that changes between two marginals: those of one counter are of the same rows, or it refuses")
def changes_between(place: Place) -> None:
    table = every_value(place)
    counter = table.engine.counter(table.source, table.domain)
    before = counter.marginal(("truth", "ward")).dense().reshape(table.domain.shape(("truth", "ward")))
    place.append("t", table.rows[:20])
    try:
        after = counter.marginal(("ward",)).dense()
    except DpsqlError:
        return
    known = [
        cell for cell, other in zip(table.cells(("ward",)), table.cells(("truth",)), strict=True) if other is not None
    ]
    assert before.sum(axis=0).tolist() == np.bincount(known, minlength=table.domain.size(("ward",))).tolist()
    assert {n: c for n, c in enumerate(after.tolist()) if c} == counted(table.cells(("ward",)))
    counter.close()


@covers("errors: an engine's own words, which quote a row, do not leave it")
def errors_quote_no_row(place: Place) -> None:
    domain = place.failing("t", "Ms Canary of 12 Row Street")
    engine = place.open()
    counter = engine.counter(engine.find("t"), domain)
    name = domain.names[0]
    for ask in (
        lambda: counter.marginal((name,)),
        lambda: counter.values(name),
        lambda: counter.bins(domain.by_name[name]),
    ):
        with pytest.raises(CountingFailed) as failed:
            ask()
        assert "Canary" not in str(failed.value)
        assert failed.value.__cause__ is None
        assert failed.value.__suppress_context__


@covers("close: counters leave nothing in the engine, nor do those of samples; other counters go on")
def nothing_is_left(place: Place) -> None:
    table = every_value(place)
    counter, other = (table.engine.counter(table.source, table.domain) for _ in range(2))
    for each in (counter, other):
        each.marginal(("truth", "ward"))
    if "among" not in place.cannot:
        counter.among(np.arange(10)).marginal(("truth",))
    held = place.left()
    assert held > 0
    counter.close()
    assert place.left() < held
    assert as_dict(other.marginal(("listed",))) == counted(table.cells(("listed",)))
    other.close()
    table.engine.close()
    assert place.left() == 0
