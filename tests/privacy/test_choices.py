"""The curator's noisy choices have the distribution that their privacy proofs are about; wrong ones are told apart.

χ² tests have a false-alarm rate of 1e-6 each.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Threshold, clique_of, family_counts, moved_of
from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.privacy.curator import Curator
from dpsql.privacy.noise import _descending, exponential_sample
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows

DOMAIN = Domain(tuple(Attribute(name, "BOOLEAN", "values", ("false", "true")) for name in "abc"))
TABLE = [(0, 0, 0)] * 4 + [(1, 1, 0)] * 3 + [(0, 1, 1)]
CLIQUES = [("a", "b"), ("a", "c"), ("b", "c")]
RUNS = 6_000
ENTROPY = seeded_entropy("choices")


@pytest.fixture(autouse=True)
def entropy(request, monkeypatch) -> None:
    """Each test has its own, so that nothing depends on which ran before it."""
    monkeypatch.setitem(globals(), "ENTROPY", seeded_entropy(request.node.name))


def fits(observed: dict, probabilities: dict) -> bool:
    """χ² of counts against probabilities, false alarm 1e-6."""
    total = sum(observed.values())
    expected = np.array([total * p for p in probabilities.values()])
    counts = np.array([observed.get(key, 0) for key in probabilities])
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(expected) - 1) > 1e-6


def softmax(scores: dict, rate: float) -> dict:
    weights = {key: math.exp(rate * score) for key, score in scores.items()}
    return {key: weight / sum(weights.values()) for key, weight in weights.items()}


def curator(neighbours, rho, pure=None) -> Curator:
    return Curator(Rows(DOMAIN, TABLE), DOMAIN, neighbours, Fraction(rho), Journal(), Quiet(), ENTROPY, pure=pure)


def uniform(clique):
    return np.full(4, 2.0)


def l1(clique) -> float:
    return float(np.abs(Rows(DOMAIN, TABLE).marginal(clique).dense() - 2).sum())


@pytest.mark.medium
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_marginals_are_chosen_by_the_exponential_mechanism(neighbours):
    """λ = √(2ρ)/Δ with Δ = 1 (add_remove), 2 (replace_one) or 3 (units of 3 rows); half or twice it is noticed."""
    rho, weights, penalties = Fraction(neighbours.marginal_l1**2, 50), [1, 2, 1], [1.0, 0.0, 2.0]
    scores = {c: w * (l1(c) - p) for c, w, p in zip(CLIQUES, weights, penalties, strict=True)}
    observed: dict = {}
    for _ in range(RUNS):
        asked = curator(neighbours, rho)
        (chosen,) = asked.select_marginals(CLIQUES, uniform, 1, rho, penalties, weights)
        assert asked.remaining == 0
        observed[chosen] = observed.get(chosen, 0) + 1
    right = math.sqrt(2 * rho) / (neighbours.marginal_l1 * max(weights))
    assert fits(observed, softmax(scores, right))
    assert not fits(observed, softmax(scores, 2 * right))
    assert not fits(observed, softmax(scores, 0.5 * right))


def public(clique):
    return np.array([3.0, 1.0, 1.0, 3.0])


@pytest.mark.medium
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_sources_are_chosen_by_the_exponential_mechanism(neighbours):
    """Δ is twice that of a distance for what may be taken, and once for what may only be measured."""
    taken, weights, penalties = CLIQUES[1:], [3, 1, 1, 2, 1], [1.0, 0.0, 2.0]
    rho = Fraction((4 * neighbours.marginal_l1) ** 2, 200)
    gaps = {c: float(np.abs(Rows(DOMAIN, TABLE).marginal(c).dense() - public(c)).sum()) for c in taken}
    scores = {(c, False): w * (l1(c) - p) for c, w, p in zip(CLIQUES, weights[:3], penalties, strict=True)}
    scores |= {(c, True): w * (l1(c) - gaps[c]) for c, w in zip(taken, weights[3:], strict=True)}
    observed: dict = {}
    for _ in range(RUNS):
        asked = curator(neighbours, rho)
        source = asked.select_source(CLIQUES, taken, uniform, public, rho, penalties, weights)
        assert asked.remaining == 0
        observed[source] = observed.get(source, 0) + 1
    right = math.sqrt(2 * rho) / (neighbours.marginal_l1 * 4)
    assert fits(observed, softmax(scores, right))
    assert not fits(observed, softmax(scores, 2 * right))
    assert not fits(observed, softmax(scores, 0.5 * right))


def test_a_source_is_charged_before_a_count_is_read():
    """A share that is not left reads nothing; of one that is, the charge is gone when the first count is read."""
    counts, left = Rows(DOMAIN, TABLE), Fraction(1, 4)
    asked = Curator(counts, DOMAIN, Neighbours.ADD_REMOVE, left, Journal(), Quiet(), ENTROPY)
    with pytest.raises(InsufficientBudget):
        asked.select_source(CLIQUES, CLIQUES, uniform, public, Fraction(1, 2), [0.0] * 3, [1] * 6)
    assert not counts.read
    assert asked.remaining == left
    seen = []

    def answers(clique):
        seen.append((asked.remaining, len(counts.read)))
        return uniform(clique)

    asked.select_source(CLIQUES, CLIQUES, answers, public, left, [0.0] * 3, [1] * 6)
    assert seen == [(0, 0), (0, 1), (0, 2)]
    assert counts.read == CLIQUES


FAMILIES = [Threshold(("a", "b", "c"), 1), Threshold(("a", "b"), 1), ("b", "c")]


@pytest.mark.medium
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_families_of_thresholds_are_chosen_by_the_exponential_mechanism(neighbours):
    """Δ is the largest w·Δ_f; that of a marginal, which is less, and twice it are noticed."""
    weights, answers = [3, 4, 5], {3: 5.0, 2: 4.0}
    shapes = [DOMAIN.shape(clique_of(family)) for family in FAMILIES]
    moved = [w * moved_of(DOMAIN, f, neighbours) for w, f in zip(weights, FAMILIES, strict=True)]
    rho, scores = Fraction(max(moved) ** 2, 2_000), {}
    for family, shape, weight in zip(FAMILIES, shapes, weights, strict=True):
        exact = Rows(DOMAIN, TABLE).marginal(clique_of(family)).dense().astype(float)
        gaps = np.abs(family_counts(exact, shape, family) - answers[len(shape)])
        scores[clique_of(family)] = weight * float(gaps.sum())
    observed: dict = {}
    for _ in range(RUNS):
        model = lambda family: np.full(2 ** len(clique_of(family)), answers[len(clique_of(family))])  # noqa: E731
        (chosen,) = curator(neighbours, rho).select_marginals(FAMILIES, model, 1, rho, None, weights)
        observed[chosen] = observed.get(chosen, 0) + 1
    right = math.sqrt(2 * rho) / max(moved)
    assert fits(observed, softmax(scores, right))
    assert not fits(observed, softmax(scores, 2 * right))
    assert not fits(observed, softmax(scores, 0.5 * right))
    assert max(moved) > neighbours.marginal_l1 * max(weights) or neighbours.total_is_public


@pytest.mark.medium
@pytest.mark.parametrize("families", [CLIQUES, [Threshold(("a", "b"), 1), ("b", "c")]])
@pytest.mark.parametrize("factor", [1, 3])
def test_cells_are_sampled_by_the_exponential_mechanism(factor, families):
    """P ∝ exp(λ·sign·(factor·count − answer)) with λ = √(2ρ)/factor; each draw by itself."""
    rho, draws = Fraction(1, 20), 4
    scores = {}
    for family in families:
        exact = Rows(DOMAIN, TABLE).marginal(clique_of(family)).dense().astype(float)
        for cell, count in enumerate(family_counts(exact, (2, 2), family)):
            for sign in (1, -1):
                scores[(family, cell), sign] = sign * (factor * int(count) - 2)
    observed: dict = {}
    for _ in range(RUNS // draws):
        asked = curator(Neighbours.ADD_REMOVE, draws * rho)
        for drawn in asked.sample_cells(families, uniform, factor, draws, rho):
            observed[drawn] = observed.get(drawn, 0) + 1
        assert asked.remaining == 0
    right = math.sqrt(2 * rho) / factor
    assert fits(observed, softmax(scores, right))
    assert not fits(observed, softmax(scores, 1.5 * right))


def test_independent_draws_may_repeat():
    scores, rate = np.array([3, 0, 3, -5]), Fraction(1, 2)
    drawn = exponential_sample(scores, rate, RUNS, ENTROPY)
    expected = softmax(dict(enumerate(scores.tolist())), 0.5)
    assert fits({k: drawn.count(k) for k in range(4)}, expected)
    pairs = list(itertools.pairwise(drawn))
    both = {(i, j): expected[i] * expected[j] for i in range(3) for j in range(3)}
    rest = 1 - sum(both.values())
    observed = {key: pairs.count(key) for key in both}
    observed["rest"] = len(pairs) - sum(observed.values())
    assert fits(observed, {**both, "rest": rest})


@given(scores=st.lists(st.integers(-3, 3) | st.integers(-(2**61), 2**61), min_size=1, max_size=30))
def test_scores_of_zero_are_put_where_a_sort_would_put_them(scores):
    """A sample's places are those of the sorted scores, the largest first, whatever scores there are."""
    array = np.array(scores, np.int64)
    np.testing.assert_array_equal(_descending(array), np.argsort(array, kind="stable")[::-1])


@pytest.mark.medium
def test_laplace_cells_have_the_variance_of_their_epsilon():
    """b = 1/ε for one cell, whichever neighbours; 2/ε for a whole marginal under replace_one."""
    rho = Fraction(1, 8)  # ε = 1/2
    kernel = curator(Neighbours.REPLACE_ONE, 4000 * rho)
    cells = [kernel.measure_cells([(("a",), 0)], rho, "laplace")[0] for _ in range(2000)]
    wholes = [kernel.measure([(("a",), rho)], "laplace")[0] for _ in range(2000)]
    for answers, scale in ((cells, 2.0), (wholes, 4.0)):
        values = np.array([m.values[0] - 5 for m in answers], float)
        t = math.exp(-1 / scale)
        assert np.var(values) == pytest.approx(2 * t / (1 - t) ** 2, rel=0.2)
        assert float(answers[0].variance) == pytest.approx(2 * scale**2)


def test_a_pure_charge_is_counted_in_epsilon():
    """Laplace noise √(2ρ), a selection 2√(2ρ); Gaussian noise proves none and is refused."""
    rho = Fraction(1, 8)
    kernel = curator(Neighbours.ADD_REMOVE, 10, pure=Fraction(3, 2))
    kernel.measure([(("a",), rho)], "laplace")
    assert float(kernel.remaining_pure) == pytest.approx(1.0)
    with pytest.raises(InvalidArgument, match="Gaussian noise proves no pure epsilon"):
        kernel.measure([(("a",), rho)])
    kernel.select_marginals(CLIQUES, uniform, 1, rho)
    assert 0 <= kernel.remaining_pure < 1e-20
    before = kernel.remaining
    with pytest.raises(InsufficientBudget, match="ε = "):
        kernel.measure_cells([(("a",), 0)], rho, "laplace")
    assert kernel.remaining == before


def test_scores_of_marginals_cannot_overflow():
    """Whatever a model says: its answers are clipped so that a sum over all cells stays a 64-bit number."""
    size = 64
    wide = Domain(tuple(Attribute(n, "INTEGER", "values", tuple(map(str, range(size)))) for n in "ab"))
    kernel = Curator(
        Rows(wide, [(0, 0)] * 5), wide, Neighbours.ADD_REMOVE, Fraction(2), Journal(), Quiet(), seeded_entropy("wide")
    )
    for bad in (np.inf, -np.inf, 1e300):
        cliques = [("a",), ("a", "b")]

        def answers(clique, bad=bad):
            return np.full(wide.size(clique), bad if len(clique) == 2 else 0.0)

        assert kernel.select_marginals(cliques, answers, 1, Fraction(1, 10), [1e300, 0.0], [3, 1]) == [("a", "b")]
