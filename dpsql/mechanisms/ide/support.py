"""The rows that IDE's weights are on: those of the prior, or more, where its rows do not reach what was measured.

    prior    the prior's distinct rows; columns that it lacks are filled uniformly
    cells    and, for each measured cell with a positive noisy count in which no row lies, some rows with the cell's
             values: half of them have their other columns from a row of the prior, half each column by itself from the
             noisy counts; as many rows have no column fixed. Together they have as much prior weight as rows lie in
             such cells, by these counts
    domain   every record of the domain, where there are few enough; those that the prior lacks have weight 0

In the paper a cell without prior mass is spread evenly over all of its records (case 2 of Definition 3.1). `domain`
does that; `cells` keeps what the prior knows of the other columns, and needs no list of all records. Weight 0 would not
do for its rows: one that shares a cell with a row of the prior would never get any.

Source: Tao, Bater, Machanavajjhala 2021 (IDE), section 3.2 and Definition 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import Prior, packed
from dpsql.core.workload import Workload
from dpsql.evidence.prior_reach import reach_words
from dpsql.mechanisms.base import Remark
from dpsql.models.weighted_rows import systematic

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
REACHES: Final = ("prior", "cells", "domain")
MEND: Final = "give a prior that has some, or say reach := 'cells'"
_FEWEST_ROWS: Final = 100
_MOST_EXACT: Final = 2_000
_MOST_NEW: Final = 200_000
_MOST_BEYOND: Final = 0.99
_LEAST_BEYOND: Final = 1e-4


def remarks(
    prior: Prior, domain: Domain, workload: Workload, reach: str, copies: int | None, most: int
) -> list[Remark]:
    """What a plan says of the prior: which values it lacks, and how far an estimate can be from it.

    A row of weight w of W becomes rows of w/copies where the prior lacks columns, and of 1/most at least where a part
    of them is drawn. KL(q‖p) is largest for a q that is on the lightest row alone.

    Args:
        prior: the public table.
        domain: the columns.
        workload: of the request.
        reach: which rows there are beside the prior's.
        copies: see `support_of`; None where there are regions or groups, of which no distance is said.
        most: rows that are kept.
    """
    mend = MEND if reach == "prior" else f"reach is {reach!r}, which makes such rows where counts ask for them"
    prior_remarks = [Remark("prior", words) for words in reach_words(prior, domain, workload.cliques, mend)]
    if reach != "prior" or copies is None:
        return prior_remarks
    copies = 1 if prior.covers(domain.names) else copies
    lightest = float(prior.weights.min()) / prior.total / copies
    if len(prior.codes) * copies > most:
        lightest = min(lightest, 1 / most)
    distance = abs(math.log(lightest))
    words = (
        "Theorem 3.1: each step is the one of least relative entropy to the estimate before it; whatever is measured, "
        f"KL(q‖prior) is at most {distance:.3g} nats. The release says it as distance, beside the least_distance that "
        "the measured answers need"
    )
    return [*prior_remarks, Remark("promise", words)]


def most_rows(support: int, *, exact: bool) -> int:
    """How many rows of the prior are kept, with room for `support` of them; two exact stages take few."""
    rows = max(_FEWEST_ROWS, support)
    return min(rows, _MOST_EXACT) if exact else rows


def support_of(
    prior: Prior, domain: Domain, features: Clique, copies: int, most: int, generator: np.random.Generator
) -> tuple[Codes, Floats]:
    """The prior's distinct rows over some columns, those that it lacks filled in; at most `most`, and their weights."""
    names = tuple(name for name in features if name in prior.names)
    places = [prior.names.index(name) for name in names]
    codes, weights = prior.codes, prior.weights
    if names != prior.names:  # else they are distinct already
        codes, back = np.unique(codes[:, places], axis=0, return_inverse=True)
        weights = np.bincount(back.ravel(), weights, len(codes)).astype(np.float64)
    smaller = Prior(names, codes, weights)
    lacking = Domain(tuple(domain.by_name[name] for name in features))
    filled, parents = smaller.completed(lacking, generator, copies)
    filled_weights = weights[parents] / np.bincount(parents, minlength=len(codes))[parents]
    if len(filled) > most:
        rows, times = np.unique(systematic(filled_weights, most, generator), return_counts=True)
        filled, filled_weights = filled[rows], times.astype(np.float64)
    return filled, filled_weights / filled_weights.sum()


def every_record(domain: Domain, codes: Codes, weights: Floats) -> tuple[Codes, Floats]:
    """All records of a domain, with the weights of the rows that there are, and 0 for the others."""
    size = domain.size(domain.names)
    records = np.stack(np.unravel_index(np.arange(size), domain.shape(domain.names)), axis=1).astype(np.int64)
    return records, np.bincount(packed(codes, domain.names, domain, domain.names), weights, size).astype(np.float64)


def with_cells(
    domain: Domain,
    codes: Codes,
    weights: Floats,
    measured: Sequence[tuple[Clique, Floats]],
    copies: int,
    generator: np.random.Generator,
) -> tuple[Codes, Floats]:
    """The rows, and further ones in cells with a positive count that none of them lies in, with their weights.

    Args:
        domain: of the rows' columns.
        codes: the rows, shape (rows, attributes).
        weights: of the rows.
        measured: cliques with their noisy counts; the cells of the largest counts come first.
        copies: rows for each such cell.
        generator: what their other columns are.
    """
    added, margins = [codes], _margins(domain, codes, weights, measured)
    room, beyond = _MOST_NEW, 0.0
    for clique, values in measured:
        empty = np.array(values, np.float64)
        whole = max(1.0, float(empty.sum()))
        empty[packed(codes, domain.names, domain, clique)] = 0.0
        beyond = max(beyond, float(empty.sum()) / whole)
        for rows in added:
            empty[packed(rows, domain.names, domain, clique)] = 0.0
        cells = np.flatnonzero(empty > 0)
        cells = cells[np.argsort(-empty[cells], kind="stable")][: room // copies]
        if not len(cells):
            continue
        fresh = codes[systematic(weights, len(cells) * copies, generator)].copy()
        fresh[1::2] = _drawn(domain, margins, len(fresh) // 2, generator)
        for name, column in zip(clique, np.unravel_index(np.repeat(cells, copies), domain.shape(clique)), strict=True):
            fresh[:, domain.names.index(name)] = column
        added.append(fresh)
        room -= len(fresh)
    if len(added) == 1:
        return codes, weights
    added.append(_drawn(domain, margins, sum(map(len, added[1:])), generator))
    distinct = np.unique(np.concatenate(added[1:]), axis=0)
    is_present = np.isin(_keys(distinct), _keys(codes))
    fresh, share = distinct[~is_present], min(_MOST_BEYOND, max(_LEAST_BEYOND, beyond))
    even = np.full(len(fresh), share / max(1, len(fresh)))
    return np.concatenate([codes, fresh]), np.append((1 - share) * weights, even) if len(fresh) else weights


def _margins(
    domain: Domain, codes: Codes, weights: Floats, measured: Sequence[tuple[Clique, Floats]]
) -> dict[str, Floats]:
    """How probable each value of each column is: by positive noisy counts, by the prior where there are none."""
    margins = {}
    for name in domain.names:
        sums = np.zeros(domain.size((name,)))
        for clique, values in measured:
            if name in clique:
                axes = tuple(axis for axis, other in enumerate(clique) if other != name)
                sums += np.maximum(values, 0.0).reshape(domain.shape(clique)).sum(axis=axes)
        if not sums.any():
            sums = np.bincount(codes[:, domain.names.index(name)], weights, len(sums)).astype(np.float64)
        margins[name] = sums / sums.sum()
    return margins


def _drawn(domain: Domain, margins: Mapping[str, Floats], count: int, generator: np.random.Generator) -> Codes:
    """Rows with each column by itself."""
    columns = [generator.choice(domain.size((name,)), count, p=margins[name]) for name in domain.names]
    return np.stack(columns, axis=1).astype(np.int64)


def _keys(codes: Codes) -> npt.NDArray[np.void]:
    """Rows as values that can be compared."""
    held = np.ascontiguousarray(codes)
    return held.view(np.dtype((np.void, held.dtype.itemsize * held.shape[1]))).ravel()
