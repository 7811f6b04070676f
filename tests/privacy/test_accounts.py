"""Accounts through the public door: Gaussian releases and others in one table, never more than the promise."""

from __future__ import annotations

import math

import pytest

import dpsql
from dpsql.errors import InsufficientBudget
from dpsql.privacy.accounting import gaussian_epsilon, gaussian_gdp, zcdp_epsilon, zcdp_rho

DELTA = 1e-6


@pytest.fixture
def db():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a, i % 4 = 0 AS b FROM range(500) r(i)")
        db.protect("t", epsilon=2.0, delta=DELTA)
        yield db


def spend(db, epsilon: float, number: int, **how) -> None:
    rounds = {"rounds": 2, "queries_per_round": 1} if how.get("mechanism") == "rap" else {}
    options = {"steps": 2, "relaxed_rows": 16, **rounds}
    db.synthesize("t", epsilon, release=f"{number} {how}", **options, **how)


def sums(db) -> tuple[float, float]:
    return db.sql("SELECT sum(rho), sum(gdp) FROM dp_ledger()").fetchall()[0]


@pytest.mark.medium
def test_gaussian_releases_add_up_by_their_exact_profile(db):
    """As many as Gaussian DP allows, which is more than zCDP would; dp_budget is between the truth and the promise."""
    each = 0.5
    fitting = int(gaussian_gdp(2.0, DELTA) / gaussian_gdp(each, DELTA))
    assert fitting > int(zcdp_rho(2.0, DELTA) / gaussian_gdp(each, DELTA))
    for number in range(fitting):
        spend(db, each, number)
    rho, gdp = sums(db)
    assert rho == pytest.approx(gdp)
    spent = db.budget().epsilon_spent[0]
    assert gaussian_epsilon(gdp, DELTA) * (1 - 1e-9) <= spent <= 2.0
    assert spent < zcdp_epsilon(rho, DELTA)
    with pytest.raises(InsufficientBudget, match="has ε = "):
        spend(db, each, fitting)
    left = db.budget().epsilon_left[0]
    spend(db, left, fitting + 1)
    assert db.budget().epsilon_left[0] < 0.01
    assert db.budget().epsilon_spent[0] <= 2.0


@pytest.mark.medium
@pytest.mark.parametrize("first", ["projection", "rap"])
def test_a_mixture_is_held_to_the_sum_that_the_first_release_fixed(db, first):
    """A selection costs 11/7 of its ρ as Gaussian DP. To allow either sum, whichever fits, would prove only 2δ."""
    other = "rap" if first == "projection" else "projection"
    tight = {"conversion": "tight"}
    spend(db, 1.0, 0, mechanism=first, **(tight if first == "rap" else {}))
    spend(db, 0.8, 1, mechanism=other, **(tight if other == "rap" else {}))
    rho, gdp = sums(db)
    ratio = 1 if first == "projection" else 11 / 7
    charged = db.ledger().query("kind == 'charge'").iloc[0]
    assert charged.gdp == pytest.approx(charged.rho * ratio)
    for number in range(2, 100):
        epsilon = min(0.7, db.budget().epsilon_left[0])
        if epsilon == 0:
            break
        spend(db, epsilon, number)
    rho, gdp = sums(db)
    spent = db.budget().epsilon_spent[0]
    rho_budget, gdp_budget = float(zcdp_rho(2.0, DELTA)), float(gaussian_gdp(2.0, DELTA))
    if first == "projection":
        assert gdp <= gdp_budget * (1 + 1e-12)
        assert spent >= gaussian_epsilon(gdp, DELTA) * (1 - 1e-9)
    else:
        assert rho <= rho_budget * (1 + 1e-12)
        assert gdp > gdp_budget * 0.9  # the other sum is not what holds
        assert spent >= zcdp_epsilon(rho, DELTA) * (1 - 1e-9)
    for how in ({}, {"mechanism": "rap", **tight}):
        with pytest.raises(InsufficientBudget):
            spend(db, 0.5, 1000, **how)


@pytest.mark.medium
def test_the_guarantee_names_the_proof(db):
    spend(db, 0.5, 0)
    spend(db, 0.5, 1, mechanism="rap")
    guarantees = db.releases().guarantee.tolist()
    mu = math.ceil(1e6 * math.sqrt(2 * gaussian_gdp(0.5, DELTA))) / 1e6
    assert f"by {mu:.6g}-Gaussian DP, for neighbours that differ by one row added or removed" in guarantees[0]
    assert "-zCDP, for neighbours" in guarantees[1]


@pytest.mark.medium
def test_another_delta_is_charged_in_the_same_units(db):
    """A release may have a smaller δ than the table; its g adds up with the others at the table's δ."""
    db.synthesize("t", 0.5, delta=1e-9, steps=2)
    _, gdp = sums(db)
    assert gdp == pytest.approx(float(gaussian_gdp(0.5, 1e-9)))
    assert db.budget().epsilon_spent[0] < 0.5


@pytest.mark.medium
def test_the_advice_for_a_pure_release_fits():
    """What the refusal says is the largest ε does fit, and hardly more does."""
    import re

    from dpsql.errors import InsufficientBudget

    for spent in (0.1, 0.37, 1.234):
        with dpsql.connect() as db:
            db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(100) r(i)")
            db.protect("t", epsilon=2.0, delta=1e-6)
            how = {"mechanism": "mwem", "rounds": 2, "reuse": False}
            db.synthesize("t", spent, mechanism="rap", rounds=1, relaxed_rows=4, steps=2)
            with pytest.raises(InsufficientBudget) as refused:
                db.synthesize("t", 500.0, **how)
            advised = float(re.search(r"has ε = ([0-9.]+) left", str(refused.value))[1])
            with pytest.raises(InsufficientBudget):
                db.synthesize("t", advised * 1.001, **how)
            db.synthesize("t", advised, **how)
