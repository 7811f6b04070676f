"""Pooled residuals, and marginals that are answered each by itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.least_squares import Pool, subsets
from dpsql.fitting.local_marginals import LocalMarginals
from dpsql.fitting.relaxed.table import simplex_projection
from dpsql.fitting.target import Target

DOMAIN = Domain(
    tuple(
        Attribute(name, "INTEGER", "values", tuple(map(str, range(size))))
        for name, size in (("a", 2), ("b", 3), ("c", 4))
    )
)
CLIQUES = [clique for order in range(1, 4) for clique in itertools.combinations(DOMAIN.names, order)]
SINGLES = CLIQUES[:3]


def target(clique, values, variance=4.0) -> Target:
    return Target(clique, DOMAIN.shape(clique), np.asarray(values, float).ravel(), variance)


def summed(table: np.ndarray, clique) -> np.ndarray:
    return table.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique))


def query(clique) -> np.ndarray:
    """The matrix that makes a marginal of all cells of the domain."""
    cells = np.eye(DOMAIN.size(DOMAIN.names)).reshape(*DOMAIN.shape(DOMAIN.names), -1)
    return summed(cells, clique).reshape(DOMAIN.size(clique), -1)


noisy = st.tuples(st.sampled_from(CLIQUES), st.floats(0.5, 200.0), st.integers(0, 2**32 - 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(noisy, min_size=1, max_size=6))
def test_pooled_residuals_are_the_dense_least_squares(drawn):
    """Of the same marginals, some measured more than once, each with its variance; as they come, one after the other."""
    pool, rows, values = Pool(DOMAIN), [], []
    for clique, variance, seed in drawn:
        measured = target(clique, np.random.default_rng(seed).integers(-20, 60, DOMAIN.size(clique)), variance)
        pool.add(measured)
        rows.append(query(clique) / math.sqrt(variance))
        values.append(measured.values / math.sqrt(variance))
        solved = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values), rcond=1e-10)[0]
        for asked in subsets(clique)[1:]:
            np.testing.assert_allclose(pool.estimate.answer(asked), query(asked) @ solved, atol=1e-6)


def test_columns_alone_are_independent_and_a_measured_marginal_is_its_projection():
    rng = np.random.default_rng(2)
    table = rng.integers(0, 40, DOMAIN.shape(DOMAIN.names)).astype(float)
    rows = table.sum()
    model = LocalMarginals(DOMAIN, [target(one, summed(table, one)) for one in SINGLES], rows)
    product = np.einsum("a,b,c->abc", *(summed(table, one) / rows for one in SINGLES))
    np.testing.assert_allclose(model.answer(("a", "b", "c")), rows * product.ravel(), rtol=1e-3)
    newest = target(("a", "b"), summed(table, ("a", "b")) + rng.normal(0, 30, (2, 3)), 900.0)
    model.add(newest, rows)
    pool = Pool(DOMAIN)
    for one in (*(target(one, summed(table, one)) for one in SINGLES), newest):
        pool.add(one)
    wanted = rows * simplex_projection(pool.estimate.answer(("a", "b")) / rows)
    np.testing.assert_allclose(model.answer(("a", "b")), wanted)


def test_what_was_not_measured_together_is_conditionally_independent():
    """Of the marginals of ab and bc the table of largest entropy is p(a|b)·p(b)·p(c|b)."""
    table = np.random.default_rng(3).integers(1, 40, DOMAIN.shape(DOMAIN.names)).astype(float)
    pairs = [("a", "b"), ("b", "c")]
    measured = [target(one, summed(table, one), 1e-3) for one in (*SINGLES, *pairs)]
    answer = LocalMarginals(DOMAIN, measured, table.sum()).answer(("a", "b", "c")).reshape(2, 3, 4)
    first, second = (summed(table, pair) for pair in pairs)
    np.testing.assert_allclose(answer, np.einsum("ab,bc->abc", first, second / first.sum(axis=0)[:, None]), rtol=1e-3)


def test_the_pairs_of_a_triple_are_met():
    """All three at once, for which one pass is not enough."""
    table = np.random.default_rng(3).integers(1, 40, DOMAIN.shape(DOMAIN.names)).astype(float) ** 2
    pairs = CLIQUES[3:6]
    measured = [target(one, summed(table, one), 1e-3) for one in (*SINGLES, *pairs)]
    answer = LocalMarginals(DOMAIN, measured, table.sum()).answer(DOMAIN.names).reshape(table.shape)
    for pair in pairs:
        np.testing.assert_allclose(summed(answer, pair), summed(table, pair), rtol=0.02)


def test_subsets_that_contradict_each_other_lose_no_rows():
    """Where noise makes one empty a cell that another needs; of all three pairs, in 60 tables of noise."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        measured = [target(one, rng.normal(50 / DOMAIN.size(one), 20, DOMAIN.size(one)), 400.0) for one in CLIQUES[:6]]
        answer = LocalMarginals(DOMAIN, measured, 50.0).answer(DOMAIN.names)
        assert answer.min() >= 0
        assert answer.sum() == pytest.approx(50, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(noisy, max_size=5), st.integers(0, 2**32 - 1))
def test_answers_are_never_negative_and_add_up(drawn, seed):
    """Whatever noise does to them; and those that share a column with the newest marginal are made anew."""
    rng, rows = np.random.default_rng(seed), 50.0
    begun = [target(one, rng.normal(rows / DOMAIN.size(one), 20, DOMAIN.size(one)), 400.0) for one in SINGLES]
    model, known = LocalMarginals(DOMAIN, begun, rows), list(begun)
    for clique, variance, more in drawn:
        for asked in CLIQUES:
            model.answer(asked)
        newest = target(clique, np.random.default_rng(more).integers(-40, 60, DOMAIN.size(clique)), variance)
        known.append(newest)
        model.add(newest, rows)
        fresh = LocalMarginals(DOMAIN, known, rows)
        for asked in CLIQUES:
            assert model.answer(asked).min() >= 0
            assert model.answer(asked).sum() == pytest.approx(rows, rel=1e-6)
            if set(clique) & set(asked):
                np.testing.assert_allclose(model.answer(asked), fresh.answer(asked), atol=1e-6)
