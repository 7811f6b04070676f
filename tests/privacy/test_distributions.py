"""A distribution is one value: what is written of it in one place is what is planned, charged, drawn and published."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy import distributions
from dpsql.privacy.accounting import gaussian_gdp
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE, SELECTION, Distribution, find_kind, find_noise
from dpsql.privacy.noise import discrete_gaussian

from ..conftest import seeded_entropy

DELTA = 1e-6


class Wide(Distribution):
    """Gaussian noise of twice the variance that its share of ρ asks for."""

    __slots__ = ()
    name = "wide"
    gdp = Fraction(1)
    span = None
    norm = 2
    is_normal = True

    def scale(self, rho, sensitivity):
        return 2 * GAUSSIAN.scale(rho, sensitivity)

    def variance(self, scale):
        return scale

    def draw(self, scale, count, entropy):
        return discrete_gaussian(scale, count, entropy)

    def reach(self, failure):
        return GAUSSIAN.reach(failure)

    def tail(self, stddev, distance):
        return GAUSSIAN.tail(stddev, distance)


@pytest.fixture
def wide(monkeypatch) -> Distribution:
    """A third distribution, in the register of this process."""
    found = Wide()
    monkeypatch.setattr(distributions, "_register", (*distributions.distributions(), found))
    return found


@pytest.fixture
def db():
    with dpsql.connect() as found:
        found.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(600) r(i)")
        found.protect("t", epsilon=9.0, delta=DELTA)
        yield found


QUERY = "SELECT a, count(*) AS n FROM t GROUP BY a"


def planned(db, mechanism: str) -> tuple[float, str]:
    (row,) = db.sql(
        f"SELECT stddev, note FROM dp_plan('{QUERY}', epsilon := 1.0, mechanism := '{mechanism}')"
    ).fetchall()
    return row


@pytest.mark.medium
def test_a_query_takes_a_new_distribution(db, wide):
    """Planned, charged, drawn and published by its one value: √2 of Gaussian noise and of its interval, the same price."""
    stddev, note = planned(db, "wide")
    usual, _ = planned(db, "gaussian")
    assert stddev == pytest.approx(math.sqrt(2) * usual)
    reach = math.ceil(1.959964 * stddev)
    assert f"± {reach}" in note
    rows = db.sql(f"SELECT n, n_stderr, n_low, n_high FROM dp_query('{QUERY}', epsilon := 1.0, mechanism := 'wide')")
    for value, stderr, low, high in rows.fetchall():
        assert stderr == pytest.approx(stddev)
        assert (high - value, value - low) == (reach, reach)
        assert abs(value - 300) < 8 * stddev
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchone()[0] == pytest.approx(1.0, rel=1e-6)
    assert db.sql("SELECT DISTINCT noise FROM dpsql.answer").fetchall() == [("wide",)]
    (charged,) = db.sql("SELECT rho FROM dp_releases()").fetchone()
    assert charged == pytest.approx(float(gaussian_gdp(1.0, DELTA)), rel=1e-6)


@pytest.mark.medium
def test_direct_takes_a_new_distribution(db, wide):
    how = "mechanism := 'direct', noise := 'wide', steps := 5, relaxed_rows := 8"
    (first, *_) = db.sql(f"SELECT stddev, rho FROM dp_plan('t', epsilon := 1.0, {how})").fetchall()
    db.sql(f"FROM dp_synthesize('t', epsilon := 1.0, {how})").fetchall()
    (found,) = db.sql("SELECT DISTINCT noise, stddev, variance FROM dpsql.answer").fetchall()
    share = Fraction(found[2])
    assert found[0] == "wide"
    assert found[1] == pytest.approx(first[0]) == pytest.approx(math.sqrt(share))
    assert first[0] == pytest.approx(math.sqrt(2 * (1 / (2 * first[1]) + 1 / 8)))


def test_it_is_gone_with_the_register(db):
    with pytest.raises(DpsqlError, match=r"mechanism is 'wide': a query takes 'gaussian' or 'laplace' noise"):
        db.query(QUERY, epsilon=1.0, mechanism="wide")
    with pytest.raises(DpsqlError, match=r"noise is 'wide'"):
        db.synthesize("t", epsilon=1.0, mechanism="direct", noise="wide")
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchone()[0] == 0


@pytest.mark.parametrize("noise", distributions.distributions(), ids=distributions.noise_names())
@pytest.mark.parametrize("rho", [Fraction(1, 300), Fraction(2)], ids=["wide", "narrow"])
def test_what_it_says_of_itself_is_what_it_draws(noise, rho):
    """Variance, reach and tail, of 200,000 draws; within 1 % of what is drawn at most, or an upper bound."""
    scale = noise.scale(rho, 2)
    stddev = noise.stddev(rho, 2)
    draws = noise.draw(scale, 200_000, seeded_entropy(f"{noise.name} {rho}"))
    assert draws.std() <= stddev * 1.02
    assert draws.std() >= stddev * 0.9
    for failure in (0.05, 0.025, 0.01):
        outside = np.mean(np.abs(draws) > math.ceil(noise.reach(failure) * stddev))
        assert outside <= failure * 1.1
        distance = math.ceil(noise.reach(failure) * stddev)
        assert np.mean(np.abs(draws) >= distance) <= noise.tail(stddev, distance) * 1.1


@pytest.mark.parametrize("kind", [LAPLACE, SELECTION], ids=["laplace", "selection"])
def test_epsilon_and_rho_are_inverse(kind):
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(7, 3)):
        back = kind.epsilon(kind.rho(epsilon))
        assert 0 <= epsilon - back < Fraction(1, 2**90)


def test_gaussian_noise_proves_no_pure_epsilon():
    with pytest.raises(InvalidArgument, match="Gaussian noise proves no pure epsilon"):
        GAUSSIAN.epsilon(Fraction(1))
    assert not GAUSSIAN.pure


class Word(str):
    """A text that equals every other."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("gaussian")


class Free(type(GAUSSIAN)):
    """Gaussian noise of which there is none, and that costs nothing."""

    gdp = Fraction(0)

    def draw(self, scale, count, entropy):
        return np.zeros(count, np.int64)

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash(GAUSSIAN)


@pytest.mark.parametrize(
    "given", [Wide(), type(GAUSSIAN)(), Free(), type(GAUSSIAN), Word("gaussian"), "none", "mixed", None, 1, b"gaussian"]
)
def test_what_is_not_in_the_register_is_refused(given):
    """By identity or a plain name: not by what a value says of itself, nor by what it says that it equals."""
    for find in (find_noise, lambda value: find_kind(value, "a kind")):
        with pytest.raises(InvalidArgument, match=r"say one of 'gaussian', 'laplace'"):
            find(given)


@pytest.mark.parametrize("kind", distributions.kinds())
def test_values_of_the_register_cannot_be_changed(kind):
    with pytest.raises(AttributeError):
        kind.gdp = Fraction(0)
    with pytest.raises(AttributeError):
        object.__setattr__(kind, "gdp", Fraction(0))


def test_what_is_too_wide_goes_by_what_is_drawn():
    """A release that an earlier version made stays what it is: σ of Gaussian noise, but b of Laplace noise."""
    assert GAUSSIAN.width(Fraction(9)) == 3.0
    assert LAPLACE.width(Fraction(9)) == 9.0
