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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from dpsql.core.domain import Domain
from dpsql.core.linear_family import LinearFamily, QueryFamily, columns_of
from dpsql.mechanisms.costs import TILTED_SECONDS, UPDATE_SECONDS
from dpsql.mechanisms.threshold_queries import expected_noise

_PLAYS: Final = 15
_ERROR: Final = 0.4
"""Up to which the L1 error of a marginal is drawn, for each column but the first."""
_KEPT: Final = 0.99
"""The part of an error that is left when a cell was measured."""
_READ_SECONDS: Final = 1e-9  # of a cell of a group that an answer is added up from
_ANSWER_SECONDS: Final = 1e-4  # of an answer, whatever the group
_DRAWN_SECONDS: Final = 4e-8  # of a cell of a group from which rows are drawn


@dataclass(frozen=True)
class Updates:
    """What the rounds update.

    Attributes:
        cells: of the groups, added up over all updates of one pass by all that was measured inside.
        number: of the updates of one pass.
        newest: of the groups, added up over one update a round, by the newest answer.
        held: of all groups, added up over the rounds.
        read: of the groups that each candidate's columns are in, added up over candidates and rounds.
    """

    cells: float = 0.0
    number: float = 0.0
    newest: float = 0.0
    held: float = 0.0
    read: float = 0.0

    def plus(self, other: Updates) -> Updates:
        """Both."""
        return Updates(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(Updates)))

    def tilting_seconds(self, through: int, passes: int, rounds: int, asked: int, *, averaged: bool) -> float:
        """About how long single updates take, answers to all candidates, and rows that are drawn from all groups.

        Args:
            through: how often the iterates are computed.
            passes: over all answers; 1 is of the newest one only.
            rounds: T.
            asked: how many answers scores take.
            averaged: whether rows are drawn from all iterates, or from the last one.
        """
        cells, number = (self.newest, rounds) if passes == 1 else (self.cells, self.number)
        moved = through * passes * (TILTED_SECONDS * cells + UPDATE_SECONDS * number)
        answered = _READ_SECONDS * self.read + _ANSWER_SECONDS * asked
        return moved + answered + _DRAWN_SECONDS * (self.held if averaged else self.held / rounds)

    @staticmethod
    def middle(plays: Sequence[Updates]) -> Updates:
        """The geometric mean of each, at least 1."""
        numbers = ([max(1.0, getattr(play, part.name)) for play in plays] for part in fields(Updates))
        return Updates(*map(statistics.geometric_mean, numbers))


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
    return Updates.middle(plays)


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
    inside = dict.fromkeys(group.values(), 0)  # how often something inside each group was selected
    sizes = {names: float(domain.size(domain.clique(names))) for names in inside}
    rounds_played, sums, read = 0, Updates(), _read(columns, group, sizes)
    while queue and rounds_played < rounds:
        score, place = heapq.heappop(queue)
        parts = {group[name] for name in columns[place]}
        joined = frozenset[str]().union(*parts)
        size = math.prod(sizes[part] for part in parts)
        if size > max_cells:  # for good, because groups only grow
            continue
        inside[joined] = 1 + sum(inside.pop(part) for part in parts)
        sizes[joined] = size
        if len(parts) > 1:
            group |= dict.fromkeys(joined, joined)
            read = _read(columns, group, sizes)
        updates = len(joined) + inside[joined]
        whole = sum(sizes[names] for names in inside)
        sums = sums.plus(Updates(size * updates, updates, size, whole, read))
        rounds_played += 1
        heapq.heappush(queue, (noise[place] - share * (noise[place] - score), place))
    return sums


def _read(
    columns: Sequence[frozenset[str]], group: Mapping[str, frozenset[str]], sizes: Mapping[frozenset[str], float]
) -> float:
    """Cells of the groups that an answer to each candidate is added up from."""
    return sum(sizes[names] for asked in columns for names in {group[name] for name in asked})
