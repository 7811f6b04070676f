r"""Which marginals to measure, and the share of ρ for each: from public facts and a noisy number of rows only.

    A          = √(2/π)·(T/K)·√(K/2ρ)/n̂          the L1 error of a 1-way marginal if all of ρ went to the 1-way ones
    drowned    A > 0.32: only the 1-way marginals are measured, the table is their product
    f_1        = clip(1.2·√A, 0.1, 0.8)            share of the 1-way marginals
    f_2, f_3…  two thirds of the rest to pairs, the rest of that shared by the larger orders (all to one that is alone)
    inside     ρ ∝ cells^{2/3} among 1-way marginals; in a larger order half of it equally, half so that the predicted
               error Σ_r x_r is least; triples no more than pairs on average
    predicted  x_r = Σ_i min(√(2/π)·σ_r/n̂, p_i), noise where a cell stands out of it, else what is left unmeasured
    weighted   each share by w^{2/3}, w the largest weight of what the marginal is a part of
    pull       where A > 0.1, 0.7 of the rule's Λ: the largest errors fall by a sixth, L1 stays
    left out   marginals of more than `max_cells`; in each order the largest ones while σ·cells > clip(0.7/A, 5, 10)·n̂,
               or while more than `all_cells` remain; what an order leaves goes to the others. Of weight w ≥ 9
               it counts as of cells/w^{1/3} there, for its share has so much less noise

Where there are ordered columns, whose neighbouring values a fit sees together (`dpsql.fitting.relaxed.smoothness`),
more noise in each cell does less harm:

    left out   while σ·cells > clip(1/A, 5, 30)·n̂
    covered    pairs inside a measured triple have clip(2.5·√A, 0.25, 1) of their share; what is freed goes to triples
    drowned    A > 3
    pull       0.8 of the rule's Λ beside that

T is the one-hot width, K the number of columns. cells^{2/3} is what minimises Σ cells·√(2/π)·σ subject to
Σ 1/2σ² = ρ.

The errors that a plan predicts are in `dpsql.strategy.predicted_error`.

Where the rule comes from: errors on Adult, Loans, thousands of their rows, and simulated tables, at ε 0.1, 1 and 10
(`tests/benchmarks/settings.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.unit_row import FOLLOWING
from dpsql.core.workload import Workload
from dpsql.privacy.accounting import gaussian_variance

_LARGEST_ORDER: Final = 3
_DROWNED: Final = 0.32
_DROWNED_SMOOTH: Final = 3.0
_NOISY: Final = 0.1
_SMOOTH_PULL: Final = 0.8


@dataclass(frozen=True)
class Allocation:
    """What to measure.

    Attributes:
        shares: the marginals, each with its part of ρ; they add up to all of it.
        left_out: marginals of the workload that are not measured themselves, each with the reason.
        one_way_error: A.
        smooth: whether the rule is that of tables with ordered columns.
    """

    shares: tuple[tuple[Clique, Fraction], ...]
    left_out: tuple[tuple[Clique, str], ...]
    one_way_error: float
    smooth: bool = False

    @property
    def pull_strength(self) -> float:
        """The factor of the rule's Λ (see `dpsql.fitting.relaxed.fit_marginals`)."""
        return (0.7 if self.one_way_error > _NOISY else 1.0) * (_SMOOTH_PULL if self.smooth else 1.0)

    @property
    def drowned(self) -> bool:
        """Noise hides every dependence: only 1-way marginals are measured."""
        return self.one_way_error > _drowned_above(smooth=self.smooth)


def allocate(
    domain: Domain,
    workload: Workload,
    neighbours: Neighbours,
    rho: Fraction,
    rows: float,
    max_cells: int,
    all_cells: int,
    *,
    smooth: bool = False,
) -> Allocation:
    """Choose the marginals and their shares, by the rule at the top of this file.

    Args:
        domain: the columns.
        workload: what the table should answer well.
        neighbours: of the guarantee; they decide the noise.
        rho: to share out.
        rows: about how many there are, public or noisy.
        max_cells: of one marginal.
        all_cells: of all marginals together.
        smooth: whether the rule of tables with ordered columns is taken.
    """
    rows = max(rows, 1.0)
    error = one_way_error(domain, neighbours, float(rho), rows)
    by_order, reasons = _candidates(domain, workload, max_cells, drowned=error > _drowned_above(smooth=smooth))
    room, pair = all_cells, None
    chosen: list[tuple[Clique, Fraction]] = []
    for order, part in _order_shares(sorted(by_order), _first_share(error)).items():
        most = rows * (min(30.0, max(5.0, 1 / error)) if smooth else min(10.0, max(5.0, 0.7 / error)))
        measured = (
            by_order[order]
            if order == 1
            else _keep(domain, by_order[order], workload, neighbours, rho * part, most, room)
        )
        for clique in set(by_order[order]) - set(measured):
            reasons[clique] = "too much noise for its cells, or more than all_cells: through its subsets"
        sizes = [domain.size(clique) for clique in measured]
        if order == 1:
            weights = [Fraction(round(1000 * size ** (2 / 3))) for size in sizes]
        else:
            weights = _least_error(sizes, float(rho * part), neighbours, rows)
        if workload.weights:  # Σ w·σ under Σ 1/2σ² = ρ is least with ρ ∝ w^{2/3}
            weights = [w * _factor(workload.weight(c)) for c, w in zip(measured, weights, strict=True)]
        if order > 2 and pair is not None:
            part = min(part, pair * len(measured))  # on average
        weights = [stepped(weight) for weight in weights]
        whole = sum(weights, Fraction(0))
        chosen += [(c, rho * part * w / whole) for c, w in zip(measured, weights, strict=True)]
        room -= sum(sizes)
        if order == 2 and measured:
            pair = part / len(measured)
    if smooth:
        chosen = _less_on_covered(chosen, Fraction(min(1.0, max(0.25, 2.5 * math.sqrt(error)))).limit_denominator(100))
    spent = sum((share for _, share in chosen), Fraction(0))
    shares = tuple((clique, share * rho / spent) for clique, share in chosen)
    return Allocation(
        shares, tuple((clique, reasons[clique]) for clique in workload.needed if clique in reasons), error, smooth
    )


def stepped(weight: Fraction) -> Fraction:
    """The nearest of 1, 2^¼, 2^½, 2^¾, 2, …: marginals of like size have the same noise, whose tables are made once.

    >>> [float(stepped(Fraction(weight))) for weight in (1000, 1100, 1200)]
    [1024.0, 1024.0, 1217.748]
    """
    return Fraction(round(1000 * 2.0 ** (round(4 * math.log2(weight)) / 4)), 1000)


def _factor(weight: float) -> Fraction:
    """What the share of a marginal is multiplied by for its weight."""
    return Fraction(round(1000 * weight ** (2 / 3)), 1000)


def _drowned_above(*, smooth: bool) -> float:
    return _DROWNED_SMOOTH if smooth else _DROWNED


def _less_on_covered(chosen: Sequence[tuple[Clique, Fraction]], factor: Fraction) -> list[tuple[Clique, Fraction]]:
    """That part of the shares of pairs inside a chosen triple; what is freed goes to the triples in proportion."""
    triples = [share for clique, share in chosen if len(clique) == 3]
    inside = {pair for clique, _ in chosen if len(clique) == 3 for pair in itertools.combinations(clique, 2)}
    freed = sum((share * (1 - factor) for clique, share in chosen if clique in inside), Fraction(0))
    more = 1 + freed / sum(triples, Fraction(0)) if triples else Fraction(1)
    return [
        (clique, share * (factor if clique in inside else more if len(clique) == 3 else 1)) for clique, share in chosen
    ]


def _candidates(
    domain: Domain, workload: Workload, max_cells: int, *, drowned: bool
) -> tuple[dict[int, list[Clique]], dict[Clique, str]]:
    """The marginals that may be measured, by their order, and why the others may not."""
    reasons: dict[Clique, str] = {}
    by_order: dict[int, list[Clique]] = {}
    for clique in workload.closure():
        if len(clique) > 1 and drowned:
            reasons[clique] = "noise would drown it; the table is the product of the 1-way marginals"
        elif len(clique) > _LARGEST_ORDER:
            reasons[clique] = f"more than {_LARGEST_ORDER} columns: through its subsets"
        elif len(clique) > 1 and domain.size(clique) > max_cells:
            reasons[clique] = f"{domain.size(clique)} cells, max_cells is {max_cells}: through its subsets"
        else:
            by_order.setdefault(len(clique), []).append(clique)
    return by_order, reasons


def _least_error(sizes: Sequence[int], rho: float, neighbours: Neighbours, rows: float) -> list[Fraction]:
    """Weights of marginals of one order: half equal, half by the least predicted error Σ x_r with Σ ρ_r = ρ.

    With p_i ∝ 1/i, u = √(2/π)/n̂ and H = Σ 1/i, all c cells stand out of the noise while uσ ≤ 1/(H·c); then dx/dσ = uc,
    else dx/dσ = 1/(Hσ). As dσ/dρ ∝ −σ³, the least error has, for one λ for all,

        uc·σ³ = λ  where all cells stand out,   σ²/H = λ  elsewhere

    The equal half keeps the error of the largest single cells, which are those of the small marginals.
    """
    if not sizes:
        return []
    cells = np.array(sizes, float)
    harmonic = np.array([(1 / np.arange(1, size + 1)).sum() for size in sizes])
    unit = math.sqrt(2 / math.pi) / rows

    def shares(log_level: float) -> npt.NDArray[np.float64]:
        level = math.exp(log_level)
        resolved = (level / (unit * cells)) ** (1 / 3)
        stddev = np.where(unit * resolved * harmonic * cells <= 1, resolved, np.sqrt(level * harmonic))
        return np.asarray(neighbours.marginal_l2_squared / (2 * stddev**2))

    low, high = -200.0, 200.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if shares(middle).sum() > rho else (low, middle)
    best = shares(high)
    mixed = 0.5 * best / best.mean() + 0.5
    return [Fraction(round(1000 * float(weight))) for weight in mixed]  # few digits: the same on every machine


def noise(neighbours: Neighbours, rho: Fraction) -> float:
    """The standard deviation of a marginal's noise (rows)."""
    return math.sqrt(gaussian_variance(rho, neighbours.marginal_l2_squared))


def one_way_error(domain: Domain, neighbours: Neighbours, rho: float, rows: float) -> float:
    """A, for the neighbours' own noise."""
    attributes = len(domain)
    stddev = math.sqrt(neighbours.marginal_l2_squared * attributes / (2 * rho))
    return math.sqrt(2 / math.pi) * domain.width / attributes * stddev / rows


def _first_share(error: float) -> Fraction:
    """f_1: the share of the 1-way marginals."""
    return Fraction(min(0.8, max(0.1, 1.2 * math.sqrt(error)))).limit_denominator(1000)


def _keep(
    domain: Domain,
    cliques: Sequence[Clique],
    workload: Workload,
    neighbours: Neighbours,
    rho: Fraction,
    most: float,
    room: int,
) -> list[Clique]:
    """The cliques of one order worth measuring: the largest ones are dropped while their σ·cells exceeds `most`."""

    def counted(clique: Clique) -> float:
        weight = workload.weight(clique)
        return domain.size(clique) / (weight ** (1 / 3) if weight >= FOLLOWING else 1.0)

    measured = sorted(cliques, key=lambda clique: (counted(clique), clique))
    cells = sum(domain.size(clique) for clique in measured)
    while measured:
        if noise(neighbours, rho / len(measured)) * counted(measured[-1]) <= most and cells <= room:
            break
        cells -= domain.size(measured.pop())
    return measured


def _order_shares(orders: Sequence[int], first: Fraction) -> dict[int, Fraction]:
    """The share of each order present; they add up to 1.

    >>> {k: str(v) for k, v in _order_shares([1, 2, 3], Fraction(1, 10)).items()}
    {1: '1/10', 2: '3/5', 3: '3/10'}
    """
    if list(orders) == [1]:
        return {1: Fraction(1)}
    larger = [order for order in orders if order > 1]
    rest = 1 - first
    if len(larger) == 1:
        return {1: first, larger[0]: rest}
    others = {order: rest / 3 / (len(larger) - 1) for order in larger[1:]}
    return {1: first, larger[0]: rest * 2 / 3, **others}
