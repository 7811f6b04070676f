r"""The L1 errors of a synthetic table's marginals, predicted from public facts only: what a plan says beforehand.

    e_a   = 7 for an ordered column of more than 64 values, else its number of values
    p_i   ∝ 1/i over the Π e_a usual cells of a marginal: how rows spread is private, so a long tail is assumed
    x_U   = Σ_i min(√(2/π)·σ_U/n̂, p_i)               the part of a marginal U that its noise hides; of one that is not
                                                      measured 1, of a column 0
    u_S   = Σ_i min(√(4p_i/πn̂), 2p_i)                 the L1 distance of two tables of n̂ rows of the same kind
    z_S   = Σ_{a ∈ S} x_a
    X_S   = Σ_{pairs U ⊂ S} x_U
    y(S)  = 1.6·z_S² + (0.35 + 0.52·(k − 2))·min(u_S, 3·X_S) + 4.4/max(11, K − 1)·X_S
    ŷ(S)  = y/(1 + 1.2·y)                              a marginal of k columns, of K in all
    d(S)  = (0.87·√x + 0.38·x²)·u_S                    x the mean of the pairs' x_U, with e_a the number of values
    L1(S) ≈ ŷ(S)/5 + 4/5·d(S)·Σŷ/Σd                    sums over the marginals of k columns; at least the columns' x_a

ŷ gives the mean. A marginal misses what noise hides of its columns and of the dependence of its pairs, and what the fit
and the rounding leave: a part of what drawing rows anew would change. The dependence of a pair is its L1 distance from
the product of its columns. On average that was 1.5 to 3.1 over K − 1 on every table looked at: a column goes with two
or three others, however many there are. d tells the marginals of one table apart.

Many bins are those of amounts, whose largest value lies far from most others, so few of them hold most of the rows. The
two constants of that rule come from Adult, most of all: without it Adult would have to be like Loans, which is twice as
far off.

On the nine tables of the benchmarks the mean over triples is within a factor of 1.34 of what was measured, at ε 0.1, 1
and 10, and that over pairs within 1.39. On a table left out of the fit triples are within 1.54, and on five to eight
columns of a table within 1.8. Eight skewed columns that follow each other had 2.2 (`tests/benchmarks/RESULTS.md`, "What
a plan predicts of errors"). What a release expects of its own pairs is nearer (`dpsql.strategy.reliability`).
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.strategy.allocation import Allocation, noise

Floats = npt.NDArray[np.float64]
_MANY: Final = 64
_USUAL: Final = 7.0
_COLUMNS: Final = 1.6
_DRAWN: Final = (0.35, 0.52)
_SEEN: Final = 3.0
_DEPENDENCE: Final = 4.4
_FEWEST_OTHERS: Final = 11
_BENT: Final = 1.2
_OWN: Final = 0.2
_EULER: Final = 0.57722


def predicted_errors(
    domain: Domain, allocation: Allocation, neighbours: Neighbours, workload: Workload, rows: float
) -> dict[Clique, float]:
    """About the L1 errors of the workload's marginals and of the pairs in them, as fractions.

    Of pairs and larger ones there are none where only the product is fitted.

    Args:
        domain: the columns.
        allocation: what is measured.
        neighbours: of the guarantee.
        workload: its marginals.
        rows: about how many there are.
    """
    levels = {
        clique: math.sqrt(2 / math.pi) * noise(neighbours, share) / rows
        for clique, share in allocation.shares
        if len(clique) <= 2
    }
    facts = _Facts(domain, levels, rows)
    by_order: dict[int, list[Clique]] = {}
    pairs = (clique for clique in workload.closure() if len(clique) == 2)
    for clique in dict.fromkeys((*workload.needed, *pairs)):
        by_order.setdefault(len(clique), []).append(clique)
    errors: dict[Clique, float] = {}
    for order, chosen in by_order.items():
        if order == 1:
            errors |= {single: float(facts.columns[facts.places[single[0]]]) for single in chosen if single in levels}
        elif order and not allocation.drowned:
            errors |= zip(chosen, facts.errors(chosen).tolist(), strict=True)
    return errors


class _Facts:
    """What is public of a table and of the measurements of its columns and pairs.

    Attributes:
        places: of the columns.
        columns: x_a of each; 0 of one that is not measured.
    """

    def __init__(self, domain: Domain, levels: dict[Clique, float], rows: float) -> None:
        self.places = {name: place for place, name in enumerate(domain.names)}
        self._sizes = np.array([attribute.size for attribute in domain], float)
        many = np.array([attribute.is_ordered and attribute.size > _MANY for attribute in domain], bool)
        self._usual = np.where(many, _USUAL, self._sizes)
        self._rows, self._pairs = rows, np.full((len(domain), len(domain)), np.inf)
        own = np.zeros(len(domain))
        for clique, level in levels.items():
            at = [self.places[name] for name in clique]
            if len(at) == 2:
                self._pairs[at[0], at[1]] = self._pairs[at[1], at[0]] = level
            elif at:
                own[at[0]] = level
        self.columns = hidden(self._usual, own)

    def errors(self, cliques: list[Clique]) -> Floats:
        """Of marginals of equally many columns, two or more."""
        order = len(cliques[0])
        at = np.array([[self.places[name] for name in clique] for clique in cliques])
        own, others = self.columns[at], max(_FEWEST_OTHERS, len(self.places) - 1)
        usual = self._hidden_of_pairs(at, self._usual).sum(axis=1)
        least, more = _DRAWN
        expected = _COLUMNS * own.sum(axis=1) ** 2 + _DEPENDENCE / others * usual
        drawn = np.minimum(sampled(self._usual[at].prod(axis=1), self._rows), _SEEN * usual)
        expected += (least + more * (order - 2)) * drawn
        bent = expected / (1 + _BENT * expected)
        whole = self._hidden_of_pairs(at, self._sizes).mean(axis=1)
        apart = (0.87 * np.sqrt(whole) + 0.38 * whole**2) * sampled(self._sizes[at].prod(axis=1), self._rows)
        mixed = _OWN * bent + (1 - _OWN) * apart * (bent.sum() / apart.sum())
        return np.asarray(np.maximum(mixed, own.max(axis=1)))

    def _hidden_of_pairs(self, at: npt.NDArray[np.int64], sizes: Floats) -> Floats:
        """x_U of all pairs of each marginal, shape (marginals, pairs)."""
        pairs = list(itertools.combinations(range(at.shape[1]), 2))
        firsts, two = at[:, [pair[0] for pair in pairs]], at[:, [pair[1] for pair in pairs]]
        return hidden(sizes[firsts] * sizes[two], self._pairs[firsts, two])


def hidden(cells: Floats, level: Floats) -> Floats:
    """Σ_i min(level, p_i) with p_i ∝ 1/i over so many cells, by the usual sums of 1/i.

    >>> hidden(np.array([1e3, 1e3, 1e3]), np.array([0.0, 1e-4, np.inf])).round(3).tolist()
    [0.0, 0.1, 1.0]
    """
    whole = _harmonic(cells)
    with np.errstate(divide="ignore"):
        apart = np.clip(1 / (level * whole), 0.0, cells)  # cells that stand out of the noise
    seen = np.maximum(apart, 1.0)
    part = np.where(np.isfinite(level), level, 0.0) * seen + 1 - _harmonic(seen) / whole
    return np.asarray(np.where(apart >= 1, part, 1.0))


def sampled(cells: Floats, rows: float) -> Floats:
    """u: the L1 distance of two tables of so many rows drawn alike, on so many cells with a long tail.

    >>> sampled(np.array([10.0, 1e4]), 1e4).round(3).tolist()
    [0.033, 0.636]
    """
    whole = _harmonic(cells)
    often = np.clip(math.pi * rows / whole, 1.0, cells)  # cells that are drawn more than once
    roots = 2 * np.sqrt(often) - 1.4604 + 1 / (2 * np.sqrt(often))  # Σ 1/√i
    return np.asarray(np.sqrt(4 / (math.pi * rows * whole)) * roots + 2 * (1 - _harmonic(often) / whole))


def _harmonic(cells: Floats) -> Floats:
    """Σ 1/i up to so many, for any number from 1 on."""
    return np.asarray(np.log(cells) + _EULER + 1 / (2 * cells) - 1 / (12 * cells**2))
