r"""What HDMM's marginals lose against residual measurements, which are optimal for marginals under Gaussian noise.

A residual of A, a set of columns, is the part of marginal A that no smaller marginal has. Measured with variance σ_A² it
costs p_A/σ_A² and adds V_A σ_A² to the summed variance of a workload's cells:

    p_A = Π_{i∈A} (n_i − 1)/n_i        V_A = Σ_{S ⊇ A} Π_{i∈A} (n_i − 1) / Π_{j∈S∖A} n_j

so the least sum is (Σ_A √(V_A p_A))². A whole marginal S of weight θ measures each A ⊆ S with weight θ / Π_{j∈S∖A} n_j.

Source: Xiao, He, Zhang, Kifer 2023, An Optimal and Scalable Matrix Mechanism for Noisy Marginals (arXiv 2305.08175); Li,
Hay, Rastogi, Miklau, McGregor 2010, Optimizing linear counting queries under differential privacy (the strategies).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.workload import Workload
from dpsql.language.workloads import parse_workload
from dpsql.mechanisms.matrix.hdmm import optimised_shares

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
LOANS = (32, 2, 12, 5, 32, 3, 823, 50, 12, 9, 50, 5, 32, 33, 32, 2)
"""How many values the columns of the papers' tables have."""


def domain_of(sizes: tuple[int, ...]) -> Domain:
    columns = (
        Attribute(f"c{place}", "INTEGER", "bins", ticks=tuple(range(size + 1)), edges=tuple(map(str, range(size + 1))))
        for place, size in enumerate(sizes)
    )
    return Domain(tuple(columns))


def lost(domain: Domain, workload: Workload, shares: list[tuple[tuple[str, ...], Fraction]]) -> float:
    """The root of the summed variance of whole marginals, over the least that residuals have."""
    sizes = dict(zip(domain.names, domain.shape(domain.names), strict=True))
    added: dict[tuple[str, ...], float] = {}
    for clique in workload.cliques:
        for part in itertools.chain.from_iterable(itertools.combinations(clique, k) for k in range(len(clique) + 1)):
            rest = math.prod(sizes[name] for name in clique if name not in part)
            added[part] = added.get(part, 0) + math.prod(sizes[name] - 1 for name in part) / rest
    price = {part: math.prod((sizes[name] - 1) / sizes[name] for name in part) for part in added}
    least = sum(math.sqrt(added[part] * price[part]) for part in added) ** 2
    weight = {
        part: sum(
            float(share) / math.prod(sizes[name] for name in clique if name not in part)
            for clique, share in shares
            if {*part} <= {*clique}
        )
        for part in added
    }
    return math.sqrt(sum(added[part] / weight[part] for part in added) / least)


@pytest.mark.medium
@pytest.mark.parametrize(("sizes", "seed"), [(ADULT, 0), (LOANS, 17)])
def test_whole_marginals_lose_little_against_residuals(sizes, seed):
    """And nothing is below the least; shares that do not fit the workload are far above it."""
    domain = domain_of(sizes)
    workload = parse_workload(f"64 random 3-way seed {seed}", ("t",), domain)
    shares = optimised_shares(domain, workload, Fraction(1), 10_000_000)
    assert sum(share for _, share in shares) == 1
    assert 1 <= lost(domain, workload, shares) < 1.02
    alone = [(clique, Fraction(1, len(workload.cliques))) for clique in workload.cliques]
    assert lost(domain, workload, alone) > 1.1


# --- ranges and prefixes of one ordered column -----------------------------------------------------------------------


def asked_of(bins: int, kind: str) -> np.ndarray:
    """The queries: all ranges of so many bins, or all prefixes."""
    ends = np.arange(bins)
    starts = [0] if kind == "prefixes" else range(bins)
    return np.array([(ends >= start) & (ends <= end) for start in starts for end in range(start, bins)], float)


def gains(bins: int, kind: str) -> tuple[float, float]:
    """How many times less the best strategy errs (RMSE) than noise on each bin; and how many times less any could.

    A strategy of sensitivity 1 has X = AᵀA with a diagonal of at most 1, and errs by tr(G·X⁻¹), G = WᵀW. With Λ = diag(λ)
        X = Λ^(−½)·(Λ^½·G·Λ^½)^½·Λ^(−½)
    is the best one where its diagonal is 1, and for every λ no strategy errs less than (tr (Λ^½·G·Λ^½)^½)²/Σλ.
    """
    queries = asked_of(bins, kind)
    gram, multipliers = queries.T @ queries, np.ones(bins)
    for _ in range(200):
        scales = np.sqrt(multipliers)
        values, vectors = np.linalg.eigh(scales[:, None] * gram * scales)
        root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
        strategy = root / scales[:, None] / scales
        bound = float(np.trace(root)) ** 2 / multipliers.sum()
        multipliers = multipliers * np.diag(strategy)
    error = float(np.trace(gram @ np.linalg.inv(strategy))) * float(np.diag(strategy).max())
    return math.sqrt(np.trace(gram) / error), math.sqrt(np.trace(gram) / bound)


@pytest.mark.parametrize(
    ("bins", "kind", "gain"),
    [
        (50, "ranges", 1.894),
        (60, "ranges", 1.998),
        (61, "ranges", 2.008),
        (100, "ranges", 2.339),
        (50, "prefixes", 2.493),
        (100, "prefixes", 3.179),
    ],
)
def test_what_ranges_could_gain_over_noise_on_each_bin(bins, kind, gain):
    """For all ranges of up to 60 bins no unbiased strategy halves the error; for 61 to 100 the best one does."""
    reached, bound = gains(bins, kind)
    assert reached == pytest.approx(gain, abs=1e-3)
    assert reached <= bound <= reached * (1 + 1e-6)


@pytest.mark.parametrize("bins", [50, 61, 100])
def test_hdmm_puts_noise_on_each_bin_of_one_column(bins):
    """All of its share is the marginal's, so the factors above are those over what `hdmm` has."""
    domain = domain_of((bins,))
    shares = optimised_shares(domain, Workload((domain.names,)), Fraction(1), 10_000)
    assert shares == [(domain.names, 1)]


def test_one_bin_gains_nothing():
    assert gains(1, "ranges") == pytest.approx((1, 1))
