"""Where values lie in their bins: by the neighbours' slope, never outside, and nearer to the truth than flat ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from dpsql.core.domain import Attribute, Domain
from dpsql.release.drawing import coded
from dpsql.release.inside_bins import lean, thin_out

ROWS = 40_000


def binned(name: str, ticks: tuple, kind: str = "INTEGER", points: tuple = ()) -> Attribute:
    return Attribute(name, kind, "bins", ticks=ticks, edges=tuple(map(str, ticks)), points=points, nullable=True)


def drawn(attribute: Attribute, truth: np.ndarray, *, flat: bool = False) -> np.ndarray:
    """Values drawn in the bins of true ones."""
    codes = np.minimum(np.searchsorted(attribute.ticks, truth, side="right") - 1, attribute.regular - 1)
    generator = np.random.default_rng(7)
    if flat:
        return attribute.draw_ticks(codes, generator.random(len(codes)))
    return coded(Domain((attribute,)), codes[:, None], generator)["t0"]


def test_every_value_stays_in_its_bin():
    edges = (0, 1, 7, 100, 105, 5000, 5002)
    wide = tuple(float(edge) for edge in (-9e306, -8e306, -7e306, 0, 1, 2, 9e306))
    codes = np.repeat(np.arange(6), [900, 50, 1, 2000, 3, 800])
    ticks = coded(Domain((binned("a", wide, "DOUBLE"),)), codes[:, None], np.random.default_rng(1))["t0"]
    assert ((ticks >= np.array(wide)[codes]) & (ticks <= np.array(wide)[codes + 1])).all()
    for attribute in (
        binned("a", edges),
        binned("a", tuple(map(float, edges)), "DOUBLE"),
        binned("a", edges, points=(0,)),
    ):
        codes = np.repeat(np.arange(attribute.size), [900, 50, 1, 2000, 3, 800, 11])
        ticks = coded(Domain((attribute,)), codes[:, None], np.random.default_rng(1))["t0"]
        inside = codes < attribute.regular
        again = np.searchsorted(edges, ticks[inside], side="right") - 1
        assert (again.clip(max=attribute.regular - 1) == codes[inside]).all()


def test_a_point_has_no_slope_and_gives_none():
    """Zeros of nine tenths of the rows do not pull what is above them down."""
    ticks = (0, 1, 1000, 2000, 3000)
    rows = np.array([9000.0, 400.0, 300.0, 200.0])
    assert lean(binned("a", ticks), rows)[1] == -1.0
    assert lean(binned("a", ticks, points=(0,)), rows)[:2].tolist() == [0.0, 0.0]
    assert lean(binned("a", ticks, points=(0,)), rows)[2] == pytest.approx(-1 / 6, abs=1e-3)


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_last_bin_of_a_skewed_number_has_most_rows_at_its_beginning(mirrored):
    """Bins at quantiles leave a wide one at the end, nearly empty but for its beginning."""
    truth = np.random.default_rng(4).exponential(100.0, ROWS)
    ticks = (0.0, 30.0, 70.0, 120.0, 200.0, 300.0, 5000.0)
    if mirrored:
        truth, ticks = 5000 - truth, tuple(5000 - tick for tick in reversed(ticks))
    attribute = binned("a", ticks, "DOUBLE")
    flat, thin = drawn(attribute, truth, flat=True), drawn(attribute, truth)
    assert abs(flat.mean() - truth.mean()) > 100
    assert abs(thin.mean() - truth.mean()) < 0.25 * abs(flat.mean() - truth.mean())


def test_an_end_that_is_no_thinner_or_empty_or_beside_a_point_is_even():
    even = (0, 10, 20, 30)
    assert not thin_out(binned("a", even), np.array([5.0, 5.0, 5.0]))
    assert not thin_out(binned("a", even), np.array([0.0, 5.0, 0.0]))
    assert not thin_out(binned("a", (0, 1, 10, 20), points=(0,)), np.array([5.0, 0.8, 1.0]))
    found = thin_out(binned("a", even), np.array([1.0, 5.0, 1.0]))
    assert sorted(found) == [0, 2]
    assert found[0] == replace(found[2], is_first=True)
    uniform = np.linspace(0.0, 1.0, 101)
    assert found[2].places(uniform).mean() < 0.45
    assert found[0].places(uniform) == pytest.approx(1 - found[2].places(1 - uniform))
    assert (np.diff(found[0].places(uniform)) > 0).all()  # so that ties of columns keep their order


def test_a_tail_is_that_of_many_bins_where_the_next_one_is_lost_in_noise():
    """A bin without rows before the last one, as noise leaves it at times, does not make the last one even."""
    income = binned("a", (0.0, 20e3, 40e3, 60e3, 80e3, 130e3, 250e3, 500e3, 720e3, 7e6), "DOUBLE")
    rows = np.array([3000, 9000, 10000, 7000, 6000, 3000, 600, 0, 66.0])
    assert income.ticks[-2] + 6.28e6 * thin_out(income, rows)[8].places(np.linspace(0, 1, 1001)).mean() < 1.8e6


@settings(deadline=None)
@given(st.floats(1.5, 8.0), st.floats(0.0, 2.0))
def test_a_tail_of_any_power_has_its_mean(power, start):
    """Of amounts whose tail is a power: what lies in the last bin has about the mean of the truth."""
    beyond = (np.arange(8000) + 0.5) / 8000
    truth = start + beyond[::-1] ** (-1 / power)
    ticks = (*np.quantile(truth, (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99)).tolist(), float(truth.max()) * 1.2)
    attribute = binned("a", ticks, "DOUBLE")
    flat, thin = drawn(attribute, truth, flat=True), drawn(attribute, truth)
    assert abs(thin.mean() - truth.mean()) < 0.3 * abs(flat.mean() - truth.mean())


def test_few_rows_and_empty_bins_give_no_error():
    attribute = binned("a", (0, 10, 20, 30, 40))
    for codes in (np.zeros(0, np.int64), np.array([1]), np.array([3, 3, 4])):
        ticks = coded(Domain((attribute,)), codes[:, None], np.random.default_rng(1))["t0"]
        assert len(ticks) == len(codes)


@pytest.mark.parametrize(("scale", "bins"), [(400, 8), (2000, 8), (2000, 16)])
def test_skewed_values_are_nearer_to_the_truth(scale, bins):
    """An exponential distribution in few bins: its mean, and the distance of the distributions."""
    truth = np.random.default_rng(3).exponential(scale, ROWS).astype(np.int64).clip(max=9999)
    attribute = binned("a", (*range(0, 10_000, 10_000 // bins), 10_000))
    flat, leaning = drawn(attribute, truth, flat=True), drawn(attribute, truth)
    assert abs(leaning.mean() - truth.mean()) <= abs(flat.mean() - truth.mean())
    assert wasserstein_distance(leaning, truth) <= wasserstein_distance(flat, truth)


@pytest.mark.medium
def test_ages_and_amounts_are_nearer_to_the_truth(db, data):
    """Adult's ages in ten bins and incomes of loans in ten: half, and three quarters, of the distance at most."""
    files = {"age": ("adult.csv.gz", 0, 120, 0.6), "annual_inc": ("loans.csv.gz", 0, 300_000, 0.9)}
    for name, (file, low, high, share) in files.items():
        sql = f"SELECT {name}::BIGINT AS x FROM '{data}/{file}' WHERE {name} BETWEEN {low} AND {high - 1}"
        truth = db.sql(sql).fetchnumpy()["x"]
        attribute = binned(name, tuple(range(low, high + 1, (high - low) // 10)))
        flat, leaning = (wasserstein_distance(drawn(attribute, truth, flat=flat), truth) for flat in (True, False))
        assert leaning < share * flat


@given(
    st.integers(-(2**62), 2**62 - 2**20),
    st.lists(st.integers(1, 2**19), min_size=1, max_size=6),
    st.lists(st.integers(0, 200), min_size=6, max_size=6),
    st.sampled_from(["BIGINT", "HUGEINT", "UBIGINT", "DECIMAL(38,10)", "TIMESTAMP", "TIMESTAMP_NS"]),
)
def test_whole_numbers_of_any_size_stay_in_their_bins(first, widths, rows, kind):
    """Also where a bin is narrower than the floats near its edges are apart."""
    ticks = tuple(np.cumsum([first, *widths], dtype=object).tolist())
    codes = np.repeat(np.arange(len(widths)), rows[: len(widths)])
    attribute = binned("a", ticks, kind)
    drawn = coded(Domain((attribute,)), codes[:, None], np.random.default_rng(1))["t0"]
    low, high = np.array(ticks[:-1], np.int64)[codes], np.array(ticks[1:], np.int64)[codes]
    assert ((drawn >= low) & (drawn < high)).all()


@given(st.floats(-1e306, 1e306), st.integers(1, 40), st.sampled_from(["DOUBLE", "FLOAT"]))
def test_floats_of_any_size_stay_in_their_bins(first, steps, kind):
    """Edges that are one float apart, or a few."""
    number = np.float64 if kind == "DOUBLE" else np.float32
    edges = [number(first if kind == "DOUBLE" else first / 1e275)]
    for _ in range(steps):
        edges.append(np.nextafter(edges[-1], number(np.inf)))
    chosen = edges[:: max(1, steps // 4)]
    ticks = tuple(map(float, chosen if len(chosen) > 1 else edges[:2]))
    codes = np.repeat(np.arange(len(ticks) - 1), 50)
    drawn = coded(Domain((binned("a", ticks, kind),)), codes[:, None], np.random.default_rng(1))["t0"]
    assert ((drawn >= np.array(ticks)[codes]) & (drawn <= np.array(ticks)[codes + 1])).all()


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("BIGINT", "2305843009213693952"),
        ("HUGEINT", "-2305843009213693952"),
        ("UBIGINT", "4611686018427387800"),
        ("DECIMAL(38,2)", "23058430092136939::DECIMAL(38,2)"),
        ("TIMESTAMP", "TIMESTAMP '9000-01-01'"),
        ("TIMESTAMP_NS", "TIMESTAMP '2100-01-01'"),
    ],
)
def test_large_numbers_come_out_of_their_bins_in_sql(db, kind, first):
    """Through the public door: bins of three and of five steps near the end of what bins reach."""
    steps = (0, 3, 8, 11, 16)
    values = [
        f"({first}) + to_microseconds({i})" if kind.startswith("TIMESTAMP") else f"({first}) + {i}" for i in range(17)
    ]
    edges = [db.sql(f"SELECT CAST({values[step]} AS VARCHAR)").fetchall()[0][0] for step in steps]
    db.sql(f"CREATE TABLE t (x {kind} NOT NULL, i INTEGER NOT NULL)")
    for i, value in enumerate(values[:16]):
        db.sql(f"INSERT INTO t SELECT {value}, i % 2 FROM range({100 * (1 + i // 4)}) r(i)")
    db.protect("t", epsilon=20.0, delta=1e-6)
    db.domain("t", "x", edges=edges)
    db.domain("t", "i", values=[0, 1])
    release = db.synthesize("t", 10.0, mechanism="direct", workload="all 2-way")
    release.to_table("made")
    inside = f"x >= '{edges[0]}'::{kind} AND x < '{edges[-1]}'::{kind}"
    assert db.sql(f"SELECT count(*) > 3000 AND bool_and({inside}) FROM made").fetchall() == [(True,)]


@given(st.integers(-(2**61), 2**61), st.lists(st.integers(1, 50), min_size=3, max_size=6))
def test_bins_lean_as_bins_of_small_numbers_do(first, widths):
    """The same bins elsewhere have the same widths, however far from 0."""
    ticks = [int(tick) for tick in np.cumsum([0, *widths])]
    rows = np.arange(1.0, len(widths) + 1)
    here, there = (binned("a", tuple(start + tick for tick in ticks), "BIGINT") for start in (0, first))
    assert lean(there, rows).tolist() == lean(here, rows).tolist()
    assert thin_out(there, rows) == thin_out(here, rows)
