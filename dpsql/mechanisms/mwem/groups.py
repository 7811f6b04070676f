"""How large the groups of MWEM become, foreseen from public facts and the charge; see `dpsql.mechanisms.mwem.mwem`.

A round joins the columns of what it selects into one group, and updates the group by all that was measured inside it.
Which candidates are selected is private, and how large a group is decides what an update takes. So the selections are
played with errors drawn at random, from which the expected noise is taken off as from the real scores: much noise makes
small marginals the better ones, and groups stay small. A marginal that is selected whole has no error left; one of
which a cell is has most of it, and is soon selected again.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpsql.core.domain import Domain
from dpsql.core.linear_family import LinearFamily, QueryFamily, columns_of
from dpsql.mechanisms.threshold_queries import expected_noise

_PLAYS: Final = 15
_ERROR: Final = 0.4
"""Up to which the L1 error of a marginal is drawn, for each column but the first."""
_KEPT: Final = 0.99
"""The part of an error that is left when a cell was measured."""


@dataclass(frozen=True)
class Updates:
    """What the rounds update.

    Attributes:
        cells: of the groups, added up over all updates of one pass.
        number: of the updates of one pass.
    """

    cells: float
    number: float


def foreseen_updates(
    domain: Domain, candidates: Sequence[QueryFamily], spread: float, rounds: int, max_cells: int, *, whole: bool
) -> Updates:
    """The geometric mean of some plays, which are the same for the same facts.

    Args:
        domain: of the columns.
        candidates: what rounds select from.
        spread: of a cell's noise, a fraction of the rows.
        rounds: T.
        max_cells: of a group.
        whole: whether marginals are measured whole, or cells of them.
    """
    columns = [frozenset(columns_of(ask)) for ask in candidates]
    noise = [
        0.0 if isinstance(ask, LinearFamily) or not whole else expected_noise(domain, ask, spread) for ask in candidates
    ]
    share = 0.0 if whole else _KEPT
    plays = [_play(domain, columns, noise, rounds, max_cells, share, random.Random(seed)) for seed in range(_PLAYS)]
    return Updates(*(statistics.geometric_mean(getattr(play, name) for play in plays) for name in ("cells", "number")))


def _play(
    domain: Domain,
    columns: Sequence[frozenset[str]],
    noise: Sequence[float],
    rounds: int,
    max_cells: int,
    share: float,
    generator: random.Random,
) -> Updates:
    """One course of selections. A candidate that is selected has a part `share` of its error left."""
    errors = [_ERROR * max(1, len(names) - 1) * generator.random() for names in columns]
    queue = [(noise[place] - error, place) for place, error in enumerate(errors)]
    heapq.heapify(queue)
    group = {name: frozenset((name,)) for name in domain.names}
    held = dict.fromkeys(group.values(), 0)  # how often something inside each group was selected
    selected, cells, number = 0, 0.0, 0.0
    while queue and selected < rounds:
        score, place = heapq.heappop(queue)
        parts = {group[name] for name in columns[place]}
        joined = frozenset[str]().union(*parts)
        size = math.prod(domain.by_name[name].size for name in joined)
        if size > max_cells:  # for good, because groups only grow
            continue
        if len(parts) > 1:
            group |= dict.fromkeys(joined, joined)
        held[joined] = 1 + sum(held.pop(part) for part in parts)
        inside = len(joined) + held[joined]
        selected, cells, number = selected + 1, cells + size * inside, number + inside
        heapq.heappush(queue, (noise[place] - share * (noise[place] - score), place))
    return Updates(cells, number)
