"""What a report says of numbers: its intervals hold the truth, and a broken twin is noticed."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.core.domain import Attribute
from dpsql.release.numbers import figures_of, is_of_numbers

AGE = Attribute("age", "INTEGER", "bins", ticks=tuple(range(0, 101, 5)), edges=tuple(map(str, range(0, 101, 5))))
FINE = Attribute("fine", "INTEGER", "bins", ticks=tuple(range(101)), edges=tuple(map(str, range(101))))
CODE = Attribute("code", "INTEGER", "values", ("3", "0", "1"))
PRICE = Attribute(
    "price", "DECIMAL(9,2)", "bins", ticks=(0, 100, 101, 5000), edges=("0", "1", "1.01", "49.99"), points=(100,)
)
FLOAT = Attribute(
    "x", "DOUBLE", "bins", ticks=(0.0, 1.0, np.nextafter(1.0, 2), 4.0), edges=("0", "1", "1", "4"), points=(1.0,)
)


def drawn(attribute: Attribute, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of a column and the code of each."""
    if attribute.kind == "values":
        codes = rng.choice(3, rows, p=[0.2, 0.5, 0.3])
        return np.array([3.0, 0.0, 1.0])[codes], codes
    share = rng.dirichlet(np.ones(attribute.regular))
    codes = rng.choice(attribute.regular, rows, p=share)
    ticks = attribute.draw_ticks(codes, rng.random(rows))
    return np.asarray(ticks, float) / 10.0 ** (attribute.of_type.scale or 0), codes


@pytest.mark.parametrize("attribute", [AGE, FINE, CODE, PRICE, FLOAT], ids=lambda one: one.name)
def test_intervals_of_means_spreads_and_medians_hold_the_truth(attribute):
    """95 % of them; of 300 fewer than 265 hold by chance with probability below 1e-5, at a fixed seed."""
    rng = np.random.default_rng(11)
    held = dict.fromkeys(("mean", "spread", "median"), 0)
    for _ in range(300):
        values, codes = drawn(attribute, rng, 3000)
        counts = np.bincount(codes, minlength=attribute.size).astype(float)
        noisy = counts + rng.normal(0, 15, counts.size)
        found = figures_of(attribute, noisy, np.full(counts.size, 15.0), values)
        truth = {"mean": values.mean(), "spread": values.std(), "median": np.median(values)}
        for name, value in truth.items():
            figure = getattr(found, name)
            held[name] += figure.low - 1e-9 <= value <= figure.high + 1e-9
            assert figure.synthetic == pytest.approx(value)
    assert min(held.values()) >= 265, held


def test_a_wrong_noise_is_noticed():
    """The broken twin: noise that is three times what is stated."""
    rng = np.random.default_rng(12)
    held = 0
    for _ in range(300):
        values, codes = drawn(AGE, rng, 3000)
        noisy = np.bincount(codes, minlength=AGE.size) + rng.normal(0, 45, AGE.size)
        found = figures_of(AGE, noisy, np.full(AGE.size, 15.0), values)
        held += found.mean.low <= values.mean() <= found.mean.high
    assert held < 265


def test_a_mean_lies_between_the_ends_of_its_cells_wherever_values_are():
    """Rows of a fit that lie elsewhere in their cells change the measured mean, and never its bounds."""
    rng = np.random.default_rng(13)
    values, codes = drawn(AGE, rng, 2000)
    counts = np.bincount(codes, minlength=AGE.size).astype(float)
    low = np.array(AGE.ticks[:-1], float)[codes]
    ends = [figures_of(AGE, counts, np.zeros(AGE.size), made) for made in (values, low, low + 4)]
    for found in ends:
        assert found.mean.least == pytest.approx(low.mean())
        assert found.mean.most == pytest.approx(low.mean() + 4)
        assert found.inside
    assert [one.mean.measured for one in ends[1:]] == pytest.approx([low.mean(), low.mean() + 4])


def test_what_noise_hides_and_what_is_no_number_has_no_figures():
    assert figures_of(AGE, np.zeros(AGE.size), np.full(AGE.size, 9.0), np.array([])) is None
    assert not is_of_numbers(Attribute("sex", "VARCHAR", "values", ("1", "2")))
    assert not is_of_numbers(Attribute("day", "DATE", "bins", ticks=(0, 1, 2)))
    assert not is_of_numbers(Attribute("n", "INTEGER", "values", ("1", "2"), other="99"))
    assert not is_of_numbers(Attribute("n", "DOUBLE", "values", ("1", "nan")))


def test_a_column_without_synthetic_values_is_shown_by_its_middle():
    found = figures_of(CODE, np.array([10.0, 20.0, 10.0]), np.zeros(3), np.array([]))
    assert found.mean.measured == pytest.approx(1.0)
    assert np.isnan(found.mean.synthetic)
