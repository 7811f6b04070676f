"""Two exact stages: least relative entropy over *all* distributions of the least sum of errors, not for one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from dpsql.core.domain import Attribute, Domain
from dpsql.core.prior import packed
from dpsql.fitting.rows.two_stages import two_stages
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet

SIZES = (2, 2, 3)
DOMAIN = Domain(
    tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(size)))) for i, size in enumerate(SIZES))
)
RECORDS = np.stack(np.unravel_index(np.arange(12), SIZES), axis=1).astype(np.int64)


def kl(q, p):
    some = q > 1e-13
    return float(np.sum(q[some] * np.log(q[some] / p[some])))


def matrix_of(rows, cliques):
    """W of the cells that a row reaches, and which they are."""
    parts, reached = [], []
    for clique in cliques:
        cells = packed(rows, DOMAIN.names, DOMAIN, clique)
        found = np.unique(cells)
        parts.append((found[:, None] == cells[None, :]).astype(float))
        reached.append(found)
    return np.vstack(parts), reached


def least_sum(matrix, noisy):
    """min ‖W z − ỹ‖₁ over distributions, by the simplex method, with one variable for each error."""
    cells, rows = matrix.shape
    cost = np.append(np.zeros(rows), np.ones(cells))
    upper = np.block([[matrix, -np.eye(cells)], [-matrix, -np.eye(cells)]])
    total = np.append(np.ones(rows), np.zeros(cells))[None]
    found = linprog(cost, upper, np.append(noisy, -noisy), total, [1.0], method="highs-ds")
    assert found.status == 0
    return found.fun, found.x[:rows]


def nearest(prior, matrix, noisy, least, start):
    """min KL(q‖p) with Σ|W q − ỹ| ≤ L*, slack variables, by SLSQP: another formulation, and another solver."""
    cells, rows = matrix.shape

    def value(x):
        q = np.maximum(x[:rows], 1e-300)
        return float(np.sum(q * np.log(q / prior)))

    def slope(x):
        return np.append(np.log(np.maximum(x[:rows], 1e-300) / prior) + 1, np.zeros(cells))

    upper = np.block([[-matrix, np.eye(cells)], [matrix, np.eye(cells)]])
    right = np.append(-noisy, noisy)
    sums = np.append(np.zeros(rows), -np.ones(cells))
    total = np.append(np.ones(rows), np.zeros(cells))
    limits = [
        {"type": "ineq", "fun": lambda x: upper @ x - right, "jac": lambda x: upper},
        {"type": "ineq", "fun": lambda x: least + sums @ x, "jac": lambda x: sums},
        {"type": "eq", "fun": lambda x: total @ x - 1, "jac": lambda x: total},
    ]
    first = np.append(start, np.abs(matrix @ start - noisy))
    how = {"maxiter": 2000, "ftol": 1e-13}
    bounds = [(0, 1)] * rows + [(0, None)] * cells
    found = minimize(value, first, jac=slope, bounds=bounds, constraints=limits, method="SLSQP", options=how)
    return found.x[:rows]


@st.composite
def cases(draw):
    """Rows with a prior, and contradicting noisy marginals, multiples of 1/32, some of them below 0."""
    count = draw(st.integers(3, 8))
    places = draw(st.lists(st.integers(0, 11), min_size=count, max_size=count, unique=True))
    shares = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    cliques = draw(
        st.sampled_from([(("c0", "c1"),), (("c0",), ("c2",)), (("c0", "c1"), ("c1", "c2")), (("c0", "c2"), ("c1",))])
    )
    answers = [
        draw(st.lists(st.integers(-8, 24), min_size=DOMAIN.size(clique), max_size=DOMAIN.size(clique)))
        for clique in cliques
    ]
    prior = np.array(shares, float) / sum(shares)
    return RECORDS[sorted(places)], prior, cliques, [np.array(one) / 32 for one in answers]


def solved(case):
    rows, prior, cliques, answers = case
    targets = [
        Target(clique, DOMAIN.shape(clique), 1000 * one, 1.0) for clique, one in zip(cliques, answers, strict=True)
    ]
    matrix, reached = matrix_of(rows, cliques)
    noisy = np.concatenate([one[cells] for one, cells in zip(answers, reached, strict=True)])
    return two_stages(DOMAIN, rows, prior, targets, 1000.0, 20.0, Quiet()), matrix, noisy


@pytest.mark.medium
@given(cases())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_no_distribution_of_the_least_sum_is_nearer_to_the_prior(case):
    """Neither the one of the simplex method, nor what a general solver finds from there, nor mixtures of these."""
    found, matrix, noisy = solved(case)
    prior = case[1]
    least, one = least_sum(matrix, noisy)
    assert found.optimal
    assert found.least == pytest.approx(least, abs=1e-7)
    assert found.weights.sum() == pytest.approx(1)
    assert np.abs(matrix @ found.weights - noisy).sum() <= least + 1e-5
    other = nearest(prior, matrix, noisy, least, one)
    for rival in (one, other, (one + other) / 2):
        if abs(rival.sum() - 1) < 1e-9 and np.abs(matrix @ rival - noisy).sum() <= least + 1e-9:
            assert kl(found.weights, prior) <= kl(rival, prior) + 1e-4
    # and a general solver that starts from it finds no better one
    again = nearest(prior, matrix, noisy, least + 1e-6, found.weights)
    if np.abs(matrix @ again - noisy).sum() <= least + 2e-6:
        assert kl(found.weights, prior) <= kl(again, prior) + 1e-3


def test_the_answers_of_one_solution_are_not_the_nearest():
    """Two marginals of one column that contradict each other: all between them have the least sum, and the prior is one."""
    rows, prior = np.array([[0, 0, 0], [1, 0, 0]]), np.array([0.45, 0.55])
    targets = [
        Target(("c0",), (2,), np.array([20.0, 80.0]), 1.0),
        Target(("c0", "c1"), (2, 2), np.array([70.0, 0, 30, 0]), 1.0),
    ]
    found = two_stages(DOMAIN, rows, prior, targets, 100.0, 10.0, Quiet())
    assert found.least == pytest.approx(1.0)
    np.testing.assert_allclose(found.weights, prior, atol=1e-8)
