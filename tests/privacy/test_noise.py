"""The noise has exactly the distribution that it claims.

Chi-squared tests at a false alarm rate of 1e-6 each; entropy is seeded, so a pass is a pass for ever. A twin with the
scale off by 3 % must be rejected.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsql.errors import InvalidArgument
from dpsql.privacy import noise
from dpsql.privacy.noise import PowerWeights, ScoreWeights, Table, discrete_gaussian, discrete_laplace, uniform_subset

from ..conftest import seeded_entropy

FALSE_ALARM = 1e-6
DRAWS = 1_000_000


def gaussian_pmf(variance: float, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1, dtype=float)
    weights = np.exp(-(x**2) / (2 * variance))
    return weights / weights.sum()


def laplace_pmf(scale: float, reach: int) -> np.ndarray:
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return weights / weights.sum()


def p_value(draws: np.ndarray, pmf: np.ndarray) -> float:
    """Chi-squared p-value; neighbouring values are pooled until each class expects at least 50."""
    reach = len(pmf) // 2
    counts = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=len(pmf))
    classes = np.floor(np.cumsum(pmf) * min(400, len(draws) / 50)).astype(int)
    expected, found = (np.bincount(classes, weights=w) for w in (pmf * len(draws), counts))
    kept = expected > 20
    found, expected = found[kept], expected[kept]
    return float(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue)


VARIANCES = [Fraction(1, 9), Fraction(1), Fraction(25), Fraction(12345, 7), Fraction(3000**2)]


@pytest.mark.parametrize("variance", VARIANCES)
def test_gaussian_matches_its_pmf(variance):
    draws = discrete_gaussian(variance, DRAWS, seeded_entropy(f"gaussian {variance}"))
    reach = max(8, int(9 * math.sqrt(variance)))
    pmf = gaussian_pmf(float(variance), reach)
    assert p_value(draws, pmf) > FALSE_ALARM
    true_variance = float((pmf * np.arange(-reach, reach + 1) ** 2).sum())
    assert abs(draws.var() / true_variance - 1) < 0.01


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(17, 2), Fraction(5000)])
def test_laplace_matches_its_pmf(scale):
    draws = discrete_laplace(scale, DRAWS, seeded_entropy(f"laplace {scale}"))
    reach = max(20, int(40 * scale))
    pmf = laplace_pmf(float(scale), reach)
    assert p_value(draws, pmf) > FALSE_ALARM
    true_variance = float((pmf * np.arange(-reach, reach + 1) ** 2).sum())
    assert abs(draws.var() / true_variance - 1) < 0.015  # of heavier tails: 7 standard deviations


@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize("variance", [Fraction(25), Fraction(3000**2)])
def test_a_wrong_scale_is_rejected(factor, variance):
    draws = discrete_gaussian(variance, DRAWS, seeded_entropy("wrong"))
    assert p_value(draws, gaussian_pmf(float(variance) * factor**2, int(9 * math.sqrt(variance)))) < FALSE_ALARM


@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize("scale", [Fraction(17, 2), Fraction(5000)])
def test_a_wrong_scale_of_laplace_noise_is_rejected(factor, scale):
    draws = discrete_laplace(scale, DRAWS, seeded_entropy("wrong"))
    assert p_value(draws, laplace_pmf(float(scale) * factor, int(40 * scale))) < FALSE_ALARM


@pytest.mark.medium
@pytest.mark.parametrize("word", [1, 3, 8])
def test_short_words_are_refined_to_the_same_distribution(word):
    """With so few leading bits nearly every draw is refined, so the refinement itself is under test."""
    table = Table(PowerWeights(Fraction(1, 18), 2), word=word, bits=80)
    draws = table.draw(60_000, seeded_entropy(f"word {word}"))
    weights = np.exp(-(np.arange(40) ** 2) / 18)
    expected = weights / weights.sum() * len(draws)
    counts = np.bincount(draws, minlength=40)[expected > 20]
    kept = expected[expected > 20]
    assert stats.chisquare(counts, kept * counts.sum() / kept.sum()).pvalue > FALSE_ALARM


def test_refinement_is_exact_where_words_touch():
    """A draw that starts with the leading word of some F_k is decided by further bits, at F_k's true place."""
    table = Table(PowerWeights(Fraction(1, 2), 2), word=8, bits=256)
    sums, _ = PowerWeights(Fraction(1, 2), 2).cumulative(256)
    threshold = sums[0] * 2**64 // sums[-1]  # F_0 in 64 bits
    for offset, expected in ((-2, 0), (2, 1)):
        bits = threshold + offset
        rest = (bits % 2**56) << 8

        def entropy(count: int, rest: int = rest) -> bytes:
            return rest.to_bytes(8, "big")[:count]

        assert table.refine(bits >> 56, 8, entropy) == expected


def test_precision_is_doubled_when_it_runs_out():
    """All-zero further bits keep the draw on a boundary until the table is refined; it must still end."""
    table = Table(PowerWeights(Fraction(1, 2), 2), word=64, bits=130)
    draws = [table.refine(int(table._leading[k]), 64, seeded_entropy(f"{k}")) for k in range(4)]
    assert draws == sorted(draws)
    assert set(draws) <= {0, 1, 2, 3, 4}


def test_bounds_enclose_the_truth():
    """L_k ≤ C_k ≤ L_k + E, against the same sums at four times the precision."""
    for weights in (
        PowerWeights(Fraction(1, 200), 2),
        PowerWeights(Fraction(1, 50), 1),
        ScoreWeights([0, 3, 4, 90], [1, 5, 2, 7], Fraction(1, 11)),
    ):
        low, error = weights.cumulative(128)
        fine, fine_error = weights.cumulative(512)
        for k, value in enumerate(low):
            assert value << 384 <= fine[k] + fine_error
            assert fine[k] <= (value + error) << 384


@pytest.mark.parametrize("t", [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), Fraction(7), Fraction(300)])
def test_exp_fixed_is_a_tight_lower_bound(t):
    for bits in (32, 64, 200):
        value = noise.exp_fixed(t, bits)
        reference = noise.exp_fixed(t, bits + 200)
        assert value << 200 <= reference + 2
        assert reference < (value + 2) << 200
    assert math.isclose(noise.exp_fixed(t, 600) / 2**600, math.exp(-t), rel_tol=1e-12)


def test_acceptance_is_exact_near_the_boundary():
    t = Fraction(1, 3)
    low = noise.exp_fixed(t, 64)
    assert noise._decide(low - 1, t, seeded_entropy("below"))
    assert not noise._decide(low + 2, t, seeded_entropy("above"))


@pytest.mark.medium
def test_agrees_with_opendp():
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    scale = 7.5
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    theirs = np.array((space >> opendp.m.then_gaussian(scale))([0] * 100_000))
    ours = discrete_gaussian(Fraction(scale) ** 2, 100_000, seeded_entropy("opendp"))
    both = np.stack([np.bincount(np.clip(x + 30, 0, 60), minlength=61) for x in (theirs, ours)])
    both = both[:, both.sum(axis=0) > 50]
    assert stats.chi2_contingency(both).pvalue > FALSE_ALARM


@pytest.mark.medium
def test_selection_has_the_softmax_distribution():
    scores = np.array([5, 5, 0, -3, 9, 2])
    rate = Fraction(1, 4)
    entropy = seeded_entropy("selection")
    winners = [noise.exponential_mechanism(scores, rate, 1, entropy)[0] for _ in range(20_000)]
    weights = np.exp(scores / 4)
    found = np.bincount(winners, minlength=6)
    assert stats.chisquare(found, weights / weights.sum() * len(winners)).pvalue > FALSE_ALARM
    wrong = np.exp(scores / 2.8)  # twice the privacy loss
    assert stats.chisquare(found, wrong / wrong.sum() * len(winners)).pvalue < FALSE_ALARM


@pytest.mark.parametrize(("size", "count"), [(6, 2), (6, 3), (5, 4)])
def test_every_subset_is_as_likely(size, count):
    """Chi-squared over all subsets, 4,000 draws. A twin that keeps the smallest numbers instead of the first fails."""
    entropy = seeded_entropy("subset")

    def uniform(draw) -> float:
        seen = Counter(tuple(draw().tolist()) for _ in range(4000))
        subsets = list(itertools.combinations(range(size), count))
        assert set(seen) <= set(subsets)
        return float(stats.chisquare([seen[subset] for subset in subsets]).pvalue)

    def broken():
        drawn = np.unique(np.frombuffer(entropy(16 * size), np.uint64) % size).astype(int)
        return drawn[:count] if len(drawn) >= count else broken()

    assert uniform(lambda: uniform_subset(size, count, entropy)) > FALSE_ALARM
    assert uniform(broken) < FALSE_ALARM


def test_a_subset_of_many():
    drawn = uniform_subset(10**12, 100_000, seeded_entropy("many"))
    assert len(np.unique(drawn)) == 100_000
    assert drawn.min() >= 0
    assert drawn.max() < 10**12
    assert abs(drawn.mean() / 10**12 - 0.5) < 0.006  # 6 standard errors
    assert uniform_subset(3, 0).tolist() == []


def test_selection_is_without_replacement():
    scores = np.array([1000, 0, 0, 0])
    for seed in range(50):
        chosen = noise.exponential_mechanism(scores, Fraction(1), 4, seeded_entropy(str(seed)))
        assert sorted(chosen) == [0, 1, 2, 3]
        assert chosen[0] == 0


def test_selection_of_far_scores():
    scores = np.array([0, 10**12, -(10**12)])
    assert noise.exponential_mechanism(scores, Fraction(1, 10), 2, seeded_entropy("far")) == [1, 0]


def test_none_and_too_wide():
    assert len(discrete_gaussian(Fraction(4), 0)) == 0
    with pytest.raises(InvalidArgument, match="larger epsilon"):
        discrete_gaussian(Fraction(10) ** 40, 1)


def test_releases_use_the_operating_system():
    import os

    assert noise.system_entropy is os.urandom
