"""How alike the pairs and triples of columns of two tables are.

    L1             Σ_x |p_S(x) − q_S(x)|, from 0 to 2; the mean over the sets S
    largest error  max |p_S(x) − q_S(x)| over the cells of all sets
    NMI(i, j)      I(i; j) / min(H(i), H(j)), from 0 (independent) to 1 (one determines the other); 0 where a column
                   has one value only; the mean of |NMI_real − NMI_synthetic|, and that over the tenth of the pairs
                   with the largest NMI_real
    dependence     D = (NMI − NMI₀) / (1 − NMI₀), at least 0; NMI₀ is that of the same rows when one column's values
                   are shuffled; |difference| as for NMI, and over the tenth with the largest D_real
    correlation    Pearson's, of the codes of two columns with an order, over the rows where both codes have it; 0
                   where one is constant; the mean of |difference|
    unseen         how many times a synthetic row has, on a pair of columns, values that no real row has together

I and H are those of the rows as they are. With few rows of many cells NMI is large by chance alone, of independent
columns too: a column of 800 values in 8,000 rows seems to predict every other. D takes that off, so it is the fairer
measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.utility.coded import Coded, Fractions, Marginals

MOST_PAIRS: Final = 2_000
MOST_TRIPLES: Final = 1_000


@dataclass(frozen=True)
class Associations:
    """The measures at the top of this file.

    Attributes:
        pairs, triples: how many were looked at.
        l1_pairs, l1_triples: mean L1.
        largest_error: of a cell of any of them.
        nmi: mean |difference| of normalised mutual information.
        nmi_top: the same of the tenth of the pairs with the largest one.
        dependence: mean |difference| of normalised mutual information beyond chance.
        dependence_top: the same of the most dependent tenth of the pairs.
        correlation: mean |difference| of the correlation of pairs of columns with an order; None without such a pair.
        unseen: times that a synthetic row has a pair of values that no real row has.
        impossible: synthetic rows with a pair of values that was said to be impossible; None where none was.
    """

    pairs: int
    triples: int
    l1_pairs: float
    l1_triples: float
    largest_error: float
    nmi: float
    nmi_top: float
    dependence: float
    dependence_top: float
    correlation: float | None
    unseen: int
    impossible: int | None


def associations(
    tables: Coded, impossible: Mapping[tuple[int, int], npt.NDArray[np.bool_]] | None = None
) -> Associations:
    """Compare pairs and triples.

    Args:
        tables: the real and the synthetic one.
        impossible: for pairs of columns, the smaller one first, which cells no row can have.
    """
    pairs = sorted({*tables.sets(2, MOST_PAIRS), *(impossible or {})})
    triples = tables.sets(3, MOST_TRIPLES)
    n, unseen = len(tables.real), 0
    never = np.zeros(len(tables.synthetic), bool)
    gaps, correlations = [], []
    information_of: list[tuple[float, float]] = []
    dependence_of: list[tuple[float, float]] = []
    for i, j in pairs:
        marginals = tables.marginals((i, j))
        gaps.append(np.abs(marginals.real - marginals.synthetic))
        chance = tables.marginals((i, j), by_chance=True)
        both_information = information(marginals, marginals.real), information(marginals, marginals.synthetic)
        alone = information(chance, chance.real), information(chance, chance.synthetic)
        information_of.append(both_information)
        dependence_of.append((_beyond(both_information[0], alone[0]), _beyond(both_information[1], alone[1])))
        if tables.ordered[i] and tables.ordered[j]:
            limits = (tables.ordered[i], tables.ordered[j])
            correlations.append(
                [correlation(marginals, shares, limits) for shares in (marginals.real, marginals.synthetic)]
            )
        made = marginals.of_rows[n:]
        unseen += int((marginals.real == 0)[made].sum())
        if impossible and (i, j) in impossible:
            never |= impossible[i, j][marginals.places][made]
    l1_pairs = float(np.mean([gap.sum() for gap in gaps])) if gaps else 0.0
    largest = max([float(gap.max()) for gap in gaps], default=0.0)
    l1_triples = []
    for gap in _gaps(tables, triples):
        l1_triples.append(float(gap.sum()))
        largest = max(largest, float(gap.max()))
    nmi, nmi_top = _differences(information_of)
    dependence, dependence_top = _differences(dependence_of)
    return Associations(
        pairs=len(pairs),
        triples=len(triples),
        l1_pairs=l1_pairs,
        l1_triples=float(np.mean(l1_triples)) if l1_triples else 0.0,
        largest_error=largest,
        nmi=nmi,
        nmi_top=nmi_top,
        dependence=dependence,
        dependence_top=dependence_top,
        correlation=float(np.mean([abs(a - b) for a, b in correlations])) if correlations else None,
        unseen=unseen,
        impossible=int(never.sum()) if impossible else None,
    )


def _differences(values: list[tuple[float, float]]) -> tuple[float, float]:
    """The mean |difference| of pairs of figures, and that of the tenth with the largest first ones."""
    if not values:
        return 0.0, 0.0
    real, synthetic = np.array(values).T
    top = np.argsort(-real, kind="stable")[: max(1, len(real) // 10)]
    apart = np.abs(real - synthetic)
    return float(apart.mean()), float(apart[top].mean())


def _beyond(strength: float, chance: float) -> float:
    """What is left of an information when what chance alone makes up is taken off."""
    return max(0.0, (strength - chance) / (1 - chance)) if chance < 1 else 0.0


def _gaps(tables: Coded, sets: list[tuple[int, ...]]) -> Iterator[Fractions]:
    for columns in sets:
        marginals = tables.marginals(columns)
        yield np.abs(marginals.real - marginals.synthetic)


def information(pair: Marginals, shares: Fractions) -> float:
    """The normalised mutual information of a pair of columns.

    Args:
        pair: its cells.
        shares: of the rows in each.
    """
    single = [np.asarray(np.bincount(place, weights=shares), np.float64) for place in pair.places]
    smaller = min(_entropy(axis_shares) for axis_shares in single)
    if smaller <= 0:
        return 0.0
    held = shares > 0
    p = shares[held]
    product = single[0][pair.places[0][held]] * single[1][pair.places[1][held]]
    return float(np.clip((p * np.log(p / product)).sum() / smaller, 0.0, 1.0))


def _entropy(shares: Fractions) -> float:
    held = shares[shares > 0]
    return 0.0 if len(held) < 2 else float(-(held * np.log(held)).sum())


def correlation(pair: Marginals, shares: Fractions, limits: tuple[int, int]) -> float:
    """Pearson's correlation of the codes of a pair of columns.

    Args:
        pair: its cells.
        shares: of the rows in each.
        limits: of each column how many codes have an order.
    """
    inside = (pair.places[0] < limits[0]) & (pair.places[1] < limits[1]) & (shares > 0)
    p = shares[inside]
    if not len(p):
        return 0.0
    p = p / p.sum()
    x, y = (place[inside].astype(float) for place in pair.places)
    x, y = x - (p * x).sum(), y - (p * y).sum()
    spread = float((p * x**2).sum() * (p * y**2).sum())
    constant = len(np.unique(pair.places[0][inside])) < 2 or len(np.unique(pair.places[1][inside])) < 2
    return 0.0 if constant or spread <= 0 else float((p * x * y).sum() / np.sqrt(spread))
