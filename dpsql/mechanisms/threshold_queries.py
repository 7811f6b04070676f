r"""What to measure for families of thresholds, and how noisy their answers are then; from public facts alone.

The answers of a family (t, S) follow from marginals (`dpsql.core.threshold`), which are measured in their place:

    whole     the marginal of S; a query adds up m of its cells, so its noise has m times the variance of a cell's
    subsets   the marginals of all U ⊆ S, |U| ≥ t; a query adds up one cell of each, with the coefficients c_U

What is selected is the family or one of its parts, (t, U) for U ⊆ S, by the error of its queries. A row moves the L1
score of a family by m, of two rows one moves it by the queries that count the other only; so scores of families are
weighted by the inverse of that, which makes them alike to the exponential mechanism.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import QueryFamily, moved_by
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Family, Threshold, clique_of, match_counts, most_counted
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument

_MOST_COLUMNS: Final = 8
"""Of a family whose subsets are looked at; there are 2^k."""
_FINENESS: Final = 100
"""Of weights, which are whole numbers: they are this far from the exact ones, as a part of 1, at most."""


def refuse_thresholds(name: str, workload: Workload, instead: str = "projection") -> None:
    """Refuse a workload with families of thresholds, for a mechanism that answers marginals only."""
    if workload.thresholds:
        raise InvalidArgument(f"{name} answers marginals, not at_least(…): say mechanism := '{instead}'")


def parts_of(family: Threshold) -> list[Family]:
    """(t, U) for all U ⊆ S of two columns or more that can match in t; where all of U must match it is the marginal.

    >>> parts_of(Threshold(("a", "b", "c"), 3))
    [('a', 'b', 'c')]
    """
    parts: list[Family] = []
    for order in range(max(2, family.least), len(family.clique) + 1):
        for part in itertools.combinations(family.clique, order):
            parts.append(part if order == family.least else Threshold(part, family.least))
    return parts


def candidates(workload: Workload) -> list[Family]:
    """What rounds select from, after the 1-way marginals: all larger parts of the workload's families."""
    marginals = Workload(workload.cliques).closure() if workload.cliques else ()
    families: list[Family] = [clique for clique in marginals if len(clique) > 1]
    for family in workload.thresholds:
        families += parts_of(family)
    return list(dict.fromkeys(families))


def weights(domain: Domain, families: Sequence[QueryFamily], neighbours: Neighbours) -> list[int] | None:
    """Of the L1 scores of families, so that one row moves all of them alike; None where there are marginals only."""
    if all(isinstance(family, tuple) for family in families):
        return None
    each = [max(1, moved_by(domain, family, neighbours)) for family in families]
    largest = max(each)
    scale = min(_FINENESS * largest, 10**6)
    return [max(1, scale // move) for move in each]


def noisy_cells(domain: Domain, family: Family) -> float:
    """How many cells' noise a query of a family has, if its marginal is measured beside sure 1-way marginals.

    Of a disjunction the 1-way marginals tell Σ_i n_i, so of a cell that matches in j columns the noise counts
    (1 − j)² times.

    >>> from dpsql.core.domain import Attribute
    >>> domain = Domain(tuple(Attribute(name, "BOOLEAN", "values", ("false", "true")) for name in "ab"))
    >>> noisy_cells(domain, Threshold(("a", "b"), 1)), noisy_cells(domain, ("a", "b"))
    (1.0, 1.0)
    """
    if not isinstance(family, Threshold):
        return 1.0
    counts = match_counts(domain.shape(family.clique))
    sure = int(family.least == 1)
    return float(sum(count * (1 - sure * j) ** 2 for j, count in enumerate(counts) if j >= family.least))


def expected_noise(domain: Domain, family: Family, stddev: float) -> float:
    """About Σ |noise| over the queries of a family (rows), if its marginal is measured with noise of σ in each cell."""
    each = stddev * math.sqrt(noisy_cells(domain, family))
    return math.sqrt(2 / math.pi) * each * domain.size(clique_of(family))


def coefficients(family: Threshold) -> Mapping[Clique, int]:
    """c_U of the marginals that a family's answers are put together from.

    >>> coefficients(Threshold(("a", "b"), 1))
    {('a',): 1, ('b',): 1, ('a', 'b'): -1}
    """
    factors = {}
    for order in range(family.least, len(family.clique) + 1):
        factor = (-1) ** (order - family.least) * math.comb(order - 1, family.least - 1)
        factors.update(dict.fromkeys(itertools.combinations(family.clique, order), factor))
    return factors


def to_measure(domain: Domain, workload: Workload, norm: int) -> tuple[tuple[Clique, ...], float]:
    """The marginals to measure with equal shares, whole ones or their subsets, whichever leave less noise.

    Args:
        domain: of the table.
        workload: of marginals and thresholds.
        norm: of the noise: with k marginals its variance in a cell is k times that of one (2), or k² times (1).

    Returns:
        The marginals, and by how much the noise of the noisiest query is larger than that of a cell.
    """
    if not workload.thresholds:
        return workload.needed, 1.0
    whole = max(most_counted(domain.shape(threshold.clique), threshold.least) for threshold in workload.thresholds)
    if any(len(threshold.clique) > _MOST_COLUMNS for threshold in workload.thresholds):
        return workload.needed, math.sqrt(whole)
    subsets = dict.fromkeys(workload.cliques)
    for family in workload.thresholds:
        subsets.update(dict.fromkeys(coefficients(family)))
    parts = max(sum(factor**2 for factor in coefficients(threshold).values()) for threshold in workload.thresholds)
    power = 2 if norm == 1 else 1
    if whole * len(workload.needed) ** power <= parts * len(subsets) ** power:
        return workload.needed, math.sqrt(whole)
    return tuple(subsets), math.sqrt(parts)
