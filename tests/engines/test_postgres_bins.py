"""The bin of a numeric: the same in Postgres as in DuckDB and by whole numbers in Python, at and beside every edge."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.dialect import encode as encode_in_duckdb
from dpsql.engines.postgres.dialect import POSTGRES, native_of
from dpsql.engines.source import Column
from dpsql.engines.sql.codes import encode
from dpsql.engines.sql.types import Native
from dpsql.owner.declaration import Declaration
from tests.depth import depth

from .postgres_bank import Bank, bank

pytestmark = pytest.mark.medium
HOST = duckdb.connect()
LARGEST = 2**62
MANY = settings(max_examples=depth(60), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Both databases, without a table."""
    with bank(tmp_path_factory.mktemp("bins")) as both:
        yield both


def numeric(precision: int, scale: int) -> Native:
    return native_of("numeric", ((precision << 16) | scale) + 4)


def attribute_of(native: Native, **declared) -> Attribute:
    attribute = Declaration(**declared, nulls=True).attribute(HOST, Column("x", native.in_duckdb, nullable=True))
    return attribute.closed(never_null=False)


def in_postgres(found: Bank, attribute: Attribute, native: Native, values: list[str | None]) -> list[int]:
    """The codes of some values."""
    listed = ", ".join("NULL" if value is None else f"'{value}'" for value in values)
    code = encode(attribute, native, POSTGRES).sql(dialect="postgres")
    rows = f"unnest(CAST(ARRAY[{listed}] AS numeric[])) WITH ORDINALITY AS t(x, place)"
    return [code for (code,) in found.sql(f"SELECT {code} FROM {rows} ORDER BY place")]


def in_duckdb(attribute: Attribute, values: list[str | None]) -> list[int]:
    code = encode_in_duckdb(attribute).sql(dialect="duckdb")
    rows = f"SELECT unnest($1::{attribute.type}[]) AS x, generate_subscripts($1::{attribute.type}[], 1) AS place"
    return [code for (code,) in HOST.execute(f"SELECT {code} FROM ({rows}) ORDER BY place", [values]).fetchall()]


def of_tick(attribute: Attribute, tick: int | float) -> int:
    """The code by its meaning: Bin i holds ticks[i] ≤ x < ticks[i + 1], of floats the last one its upper edge, too."""
    inside = attribute.ticks[0] <= tick < attribute.ticks[-1] or (attribute.is_float and tick == attribute.ticks[-1])
    if not inside:
        assert attribute.outside_code is not None
        return attribute.outside_code
    return min(bisect_right(attribute.ticks, tick) - 1, attribute.regular - 1)


def beside(ticks) -> list[int]:
    """Every edge and the ticks beside it, the middles of bins, and what no bin holds."""
    middles = {(a + b) // 2 for a, b in itertools.pairwise(ticks)}
    return sorted({t + d for t in ticks for d in (-1, 0, 1)} | middles | {-(10**37), 10**37, 0})


def as_decimal(tick: int, scale: int) -> str:
    """The value of a tick, without an exponent; of 38 digits, which Python's context would round."""
    return f"{Decimal((tick < 0, tuple(map(int, str(abs(tick)))), -scale)):f}"


@st.composite
def declarations(draw):
    """Equal widths that are whole or not, uneven edges, single values; up to 38 digits."""
    scale = draw(st.integers(0, 18))
    low = draw(st.integers(-LARGEST, LARGEST - 1) | st.integers(-1000, 1000))
    kind = draw(st.sampled_from(["bins", "edges", "single"]))
    if kind == "edges":
        far = min(LARGEST - 1, low + draw(st.integers(20, 10**18)))
        inner = draw(st.lists(st.integers(low + 1, far), min_size=1, max_size=12, unique=True))
        return scale, {"edges": [as_decimal(t, scale) for t in sorted({low, *inner})]}
    bins = draw(st.integers(1, 12))
    high = low + bins - 1 if kind == "single" else low + bins + draw(st.integers(0, 10**18) | st.integers(0, 100))
    high = min(high, LARGEST - 1)
    ends = {"lower": as_decimal(low, scale), "upper": as_decimal(high, scale)}
    return scale, ends | {"bins": min(bins, high - low + 1)}


@MANY
@given(declarations())
def test_decimals_have_the_bins_of_duckdb(found, declared):
    scale, how = declared
    native = numeric(38, scale)
    attribute = attribute_of(native, **how)
    ticks = beside(attribute.ticks)
    values: list[str | None] = [*(as_decimal(tick, scale) for tick in ticks), None]
    expected = [*(of_tick(attribute, tick) for tick in ticks), attribute.null_code]
    assert in_duckdb(attribute, values) == expected
    more = {"NaN": attribute.outside_code, "Infinity": attribute.outside_code, "-Infinity": attribute.outside_code}
    more["-0"] = of_tick(attribute, 0)
    assert in_postgres(found, attribute, native, [*values, *more]) == [*expected, *more.values()]


FREE = {
    "whole": {"lower": 0, "upper": 1e6, "bins": 8},
    "tenths": {"lower": 0, "upper": 1, "bins": 10},
    "halves": {"lower": -2, "upper": 1.5, "bins": 7},
    "thirds": {"lower": -1, "upper": 1, "bins": 3},
    "tiny": {"lower": 0, "upper": 1e-300, "bins": 4},
    "huge": {"lower": -1e300, "upper": 1e300, "bins": 5},
    "uneven": {"edges": [0, 0.1, 0.7, 30, 1e10]},
    "ceiled": {"edges": [0, 2.6, 5.1, 7.7, 10.2]},
    "ends": {"edges": [-7, 0, 10, 20, 21]},
    "points": {"lower": 0, "upper": 100, "bins": 4, "points": [0, 50]},
}


@pytest.mark.parametrize("name", FREE)
def test_numerics_of_any_digits_have_the_bins_of_doubles(found, name):
    """For every value that is a double; what lies between two doubles is compared as it is."""
    native = native_of("numeric")
    attribute = attribute_of(native, **FREE[name])
    middles = [(a + b) / 2 for a, b in itertools.pairwise(attribute.ticks)]
    floats: list[str | None] = [*map(repr, sorted({*attribute.ticks, *middles, 0.0, 1e308})), None]
    assert in_postgres(found, attribute, native, floats) == in_duckdb(attribute, floats)
    texts = ["NaN", "Infinity", "-Infinity", "-0", "0"]
    assert in_postgres(found, attribute, native, texts) == in_duckdb(attribute, [*texts[:3], "-0.0", "0"])
    edges = [Fraction(text) for text in attribute.edges]
    for place, text in enumerate(attribute.edges[1:-1], 1):  # a hair below an edge and above it, beyond 38 digits
        hair = abs(edges[place]) * Fraction(1, 10**60) or Fraction(1, 10**400)
        near = [exactly(edges[place] - hair), text, exactly(edges[place] + hair)]
        assert in_postgres(found, attribute, native, near) == [place - 1, place, place]


def exactly(number: Fraction) -> str:
    """A number of finitely many digits."""
    digits = 500
    return f"{number.numerator * 10**digits // number.denominator}e-{digits}"


def test_ten_thousand_bins_of_each_kind(found):
    """Arithmetic is written in a line, and a search tree of as many edges is no deeper than fourteen comparisons."""
    native = numeric(9, 2)
    even = attribute_of(native, lower="0", upper="9999.99", bins=10_000)
    uneven = attribute_of(native, edges=[as_decimal(t * t, 2) for t in range(10_001)])
    for attribute in (even, uneven):
        ticks = beside(attribute.ticks[::97])
        values: list[str | None] = [as_decimal(tick, 2) for tick in ticks if abs(tick) < 10**9]
        expected = [of_tick(attribute, tick) for tick in ticks if abs(tick) < 10**9]
        assert in_postgres(found, attribute, native, values) == expected
    assert len(encode(even, native, POSTGRES).sql(dialect="postgres")) < 500
    text = encode(uneven, native, POSTGRES).sql(dialect="postgres")
    deepest = depth = 0
    for word in text.split():
        depth += (word == "CASE") - (word == "END")
        deepest = max(deepest, depth)
    assert deepest <= 1 + 14
