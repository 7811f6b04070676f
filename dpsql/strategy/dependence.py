r"""Which marginals to measure, from public rows only: by mutual information.

    I(a, b)   = Σ p_ab ln(p_ab/(p_a p_b)) − (K_ab − K_a − K_b + 1)/2n     K: occupied cells (Miller and Madow's bias)
    graph     an edge between two columns whose I is above the average of the positive ones
    gain(S)   = Σ_a max(0, I(a; S) − known_a) + Σ_{pairs of S in no chosen one} I − 40·noise(S)
                I(a; S) = H(a) for a in S, else max_{b in S} I(a, b);  known_a = max of I(a; S′) over the chosen S′

The candidates are the graph's triangles and edges and all 1-way marginals; the one of largest gain is next. So a
column that another one tells about need not be measured: that is what the prior is for. noise(S) is the expected L1
error (fraction) that noise brings to the marginal; a tenth of it weighs as much as 4 nats (found on Adult).

Source: Tao, Bater, Machanavajjhala 2021 (IDE), section 4.2, which names the method and leaves the details open.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Noise = Callable[[int], float]
"""The expected L1 error (fraction) that measuring a marginal of so many cells brings."""
_MOST_ROWS: Final = 50_000
_INDEPENDENT: Final = 0.1  # of the smaller entropy
_NOISE_PRICE: Final = 40.0  # nats for an L1 error of 1
_MOST_EDGES: Final = 300
_MOST_TRIANGLES: Final = 2000


def mutual_information(codes: Codes, weights: Floats, sizes: Sequence[int], progress: Progress) -> Floats:
    """I of all pairs of columns of weighted rows, in nats; the entropies on the diagonal.

    Args:
        codes: shape (rows, columns); the heaviest 50,000 rows are looked at.
        weights: of the rows; their sum is n.
        sizes: of the columns' domains.
        progress: notified of each column.
    """
    if len(codes) > _MOST_ROWS:
        heaviest = np.sort(np.argsort(-weights, kind="stable")[:_MOST_ROWS])
        codes, weights = codes[heaviest], weights[heaviest]
    columns, total = codes.shape[1], float(weights.sum())
    entropies, occupied = np.zeros(columns), np.zeros(columns)
    for place, size in enumerate(sizes):
        entropies[place], occupied[place] = _entropy(np.bincount(codes[:, place], weights, size) / total)
    information = np.diag(entropies)
    progress.stage("dependences of the prior", columns)
    for first in range(columns):
        for two in range(first + 1, columns):
            _, cells = np.unique(codes[:, first] * sizes[two] + codes[:, two], return_inverse=True)
            joint, filled = _entropy(np.bincount(cells, weights) / total)
            bias = (filled - occupied[first] - occupied[two] + 1) / (2 * total)
            information[first, two] = information[two, first] = max(
                0.0, entropies[first] + entropies[two] - joint - bias
            )
        progress.advance(1)
    return information


def _entropy(probabilities: Floats) -> tuple[float, int]:
    positive = probabilities[probabilities > 0]
    return float(-np.sum(positive * np.log(positive))), len(positive)


def dependent_cliques(
    names: Sequence[str], sizes: Sequence[int], information: Floats, count: int, most: int, noise: Noise
) -> tuple[Clique, ...]:
    """`count` marginals (or all 1-way ones and pairs, if those are fewer), by the rule at the top of this file.

    Args:
        names: of the columns.
        sizes: of their domains.
        information: by `mutual_information`.
        count: how many.
        most: cells of one marginal.
        noise: of a marginal of so many cells.
    """
    pairs = [p for p in itertools.combinations(range(len(names)), 2) if sizes[p[0]] * sizes[p[1]] <= most]
    candidates: list[tuple[int, ...]] = [(place,) for place in range(len(names)) if sizes[place] <= most]
    candidates += [c for c in _graph_cliques(information, pairs) if math.prod(sizes[place] for place in c) <= most]
    tells = np.array([information[list(clique)].max(axis=0) for clique in candidates])
    price = np.array([_NOISE_PRICE * noise(math.prod(sizes[place] for place in c)) for c in candidates])
    missing = {pair: float(information[pair]) for pair in pairs}
    covered, free = np.zeros(len(names)), np.ones(len(candidates), bool)
    chosen: list[tuple[int, ...]] = []
    while free.any() and len(chosen) < count:
        inside = [sum(missing.get(pair, 0.0) for pair in itertools.combinations(c, 2)) for c in candidates]
        gains = np.maximum(tells - covered, 0.0).sum(axis=1) + np.array(inside) - price
        best = int(np.argmax(np.where(free, gains, -np.inf)))
        free[best] = False
        chosen.append(candidates[best])
        covered = np.maximum(covered, tells[best])
        for pair in itertools.combinations(candidates[best], 2):
            missing.pop(pair, None)
    taken = set(chosen)
    rest = sorted((p for p in pairs if p not in taken), key=lambda p: (sizes[p[0]] * sizes[p[1]], p))
    chosen += rest[: count - len(chosen)]
    return tuple(sorted(tuple(names[place] for place in clique) for clique in chosen))


def _graph_cliques(information: Floats, pairs: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Edges and triangles of the graph of high mutual information."""
    positive = [float(information[pair]) for pair in pairs if information[pair] > 0]
    level = float(np.mean(positive)) if positive else math.inf
    edges = sorted((pair for pair in pairs if information[pair] >= level), key=lambda pair: -information[pair])
    edges = edges[:_MOST_EDGES]
    linked = set(edges)
    triangles = {
        tuple(sorted({*edge, *two}))
        for edge, two in itertools.combinations(edges, 2)
        if len({*edge, *two}) == 3 and set(itertools.combinations(sorted({*edge, *two}), 2)) <= linked
    }
    return [*edges, *sorted(triangles)[:_MOST_TRIANGLES]]


def independent_columns(
    names: Sequence[str], information: Floats, count: int, fits: Sequence[bool]
) -> tuple[Clique, ...]:
    """`count` 1-way marginals, nearly independent of each other, each as informative of the other columns as can be.

    While there is a column that shares at most a tenth of its entropy with every chosen one, the one of those with the
    largest Σ I is next; then the one that shares least.

    Args:
        names: of the columns.
        information: by `mutual_information`.
        count: how many, at most those that fit.
        fits: which columns may be taken.
    """
    entropies = np.diag(information)
    smaller = np.minimum(entropies[:, None], entropies[None, :])
    shared = np.divide(information, smaller, out=np.ones_like(information), where=smaller > 0)
    informative = information.sum(axis=1)
    left = [place for place in range(len(names)) if fits[place]]
    chosen: list[int] = []
    while left and len(chosen) < count:
        overlap = {place: float(shared[place, chosen].max()) if chosen else 0.0 for place in left}
        free = [place for place in left if overlap[place] <= _INDEPENDENT]
        best = max(free, key=lambda p: informative[p]) if free else min(left, key=lambda p: overlap[p])
        chosen.append(best)
        left.remove(best)
    return tuple((names[place],) for place in sorted(chosen))
