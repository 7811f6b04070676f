r"""What HDMM's marginals lose against residual measurements, which are optimal for marginals under Gaussian noise.

A residual of A, a set of columns, is the part of marginal A that no smaller marginal has. Measured with variance σ_A² it
costs p_A/σ_A² and adds V_A σ_A² to the summed variance of a workload's cells:

    p_A = Π_{i∈A} (n_i − 1)/n_i        V_A = Σ_{S ⊇ A} Π_{i∈A} (n_i − 1) / Π_{j∈S∖A} n_j

so the least sum is (Σ_A √(V_A p_A))². A whole marginal S of weight θ measures each A ⊆ S with weight θ / Π_{j∈S∖A} n_j.

Source: Xiao, He, Zhang, Kifer 2023, An Optimal and Scalable Matrix Mechanism for Noisy Marginals (arXiv 2305.08175).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

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
