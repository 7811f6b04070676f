"""Inside their bins two dependent columns go together where bins are wide, and each by itself is as before."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from dpsql.core.domain import Attribute, Domain
from dpsql.release.drawing import coded, shuffled
from dpsql.release.tied_bins import tied

ROWS, WIDE = 40_000, (0, 10, 20, 40, 80, 160, 320, 1000)


def binned(name: str, ticks: tuple, kind: str = "DOUBLE") -> Attribute:
    return Attribute(name, kind, "bins", ticks=ticks, edges=tuple(map(str, ticks)), nullable=True)


def codes_of(values: np.ndarray, ticks: tuple) -> np.ndarray:
    return np.clip(np.searchsorted(ticks, values, side="right") - 1, 0, len(ticks) - 2)


def ridge(scatter: float, sign: int = 1) -> tuple[Domain, np.ndarray, np.ndarray]:
    """Skewed delays that differ by a scatter, in bins that grow; the values themselves come last."""
    draw = np.random.default_rng(5)
    first = np.minimum(draw.exponential(60.0, ROWS), 999.0)
    second = np.clip((first if sign > 0 else 999 - first) + draw.normal(0, scatter, ROWS), 0, 999)
    ticks = WIDE if sign > 0 else tuple(1000 - tick for tick in reversed(WIDE))
    domain = Domain((binned("a", tuple(map(float, WIDE))), binned("b", tuple(map(float, ticks)))))
    return domain, np.stack([codes_of(first, WIDE), codes_of(second, ticks)], axis=1), np.stack([first, second])


def places(rows: int, columns: int) -> dict[int, np.ndarray]:
    draw = np.random.default_rng(1)
    return {place: draw.random(rows) for place in range(columns)}


def tied_to(domain: Domain, codes: np.ndarray, uniform: dict, draw: np.random.Generator) -> dict[int, np.ndarray]:
    return dict(tied(domain, codes, sorted(uniform), uniform.__getitem__, draw))


@pytest.mark.parametrize("sign", [1, -1])
def test_rows_are_as_correlated_as_they_were(sign):
    domain, codes, values = ridge(10.0, sign)
    made = coded(domain, codes, np.random.default_rng(0))
    alone = [one.draw_ticks(codes[:, n], places(ROWS, 2)[n]) for n, one in enumerate(domain)]
    true, now, before = (np.corrcoef(*pair)[0, 1] for pair in (values, (made["t0"], made["t1"]), alone))
    assert sign * true > 0.95
    assert abs(now - true) < 0.5 * abs(before - true)


def test_each_column_by_itself_is_distributed_as_before():
    """Places of tied rows are uniform in every bin; fixed seeds."""
    domain, codes, _ = ridge(10.0)
    found = tied_to(domain, codes, places(ROWS, 2), np.random.default_rng(2))
    assert (found[0] == places(ROWS, 2)[0]).all()
    for code in range(len(WIDE) - 1):
        inside = found[1][codes[:, 1] == code]
        assert kstest(inside, "uniform").pvalue > 1e-3


def test_wide_bins_are_tied_and_narrow_ones_are_not():
    domain, codes, _ = ridge(20.0)
    found = tied_to(domain, codes, places(ROWS, 2), np.random.default_rng(2))
    narrow = (codes[:, 0] == 0) & (codes[:, 1] == 0)
    wide = (codes[:, 0] == 6) & (codes[:, 1] == 6)
    assert np.corrcoef(found[0][narrow], found[1][narrow])[0, 1] < 0.4
    assert np.corrcoef(found[0][wide], found[1][wide])[0, 1] > 0.7


def test_columns_that_depend_little_and_codes_without_a_bin_stay_apart():
    domain, codes, _ = ridge(500.0)
    before = places(ROWS, 2)
    found = tied_to(domain, codes, before, np.random.default_rng(2))
    assert (found[1] == before[1]).all()
    domain, codes, _ = ridge(5.0)
    codes[::2, 1] = len(WIDE) - 1  # NULL
    found = tied_to(domain, codes, before, np.random.default_rng(2))
    assert (found[1][::2] == before[1][::2]).all()


@given(
    st.integers(0, 40), st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=6, unique=True), st.integers(0, 2**32)
)
def test_any_bins_and_rows_give_places_in_bins(rows, ticks, seed):
    domain = Domain(tuple(binned(name, tuple(sorted(ticks))) for name in "abc"))
    draw = np.random.default_rng(seed)
    codes = np.repeat(draw.integers(0, len(ticks), (rows, 1)), 3, axis=1)
    found = tied_to(domain, codes, {place: draw.random(rows) for place in range(3)}, draw)
    assert all(((one >= 0) & (one < 1)).all() for one in found.values())


@pytest.mark.medium
def test_of_columns_that_nothing_is_tied_to_no_places_are_held():
    """What `coded` holds at once is what it returns, and some columns: not the places of all."""
    rows, columns = 200_000, 24
    domain = Domain(tuple(binned(f"x{n}", tuple(map(float, WIDE))) for n in range(columns)))
    drawn = np.random.default_rng(3).integers(0, len(WIDE) - 1, (rows, columns))
    codes = shuffled(domain, drawn, np.random.default_rng(3))
    tracemalloc.start()
    try:
        made = coded(domain, codes, np.random.default_rng(4))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    returned = sum(made[f"t{n}"].nbytes for n in range(columns))
    assert peak < returned + 16 * 8 * rows
    assert all(np.shares_memory(made[f"c{n}"], codes) for n in range(columns))
