r"""The iterates of MWEM, each computed from what was measured so far: see `dpsql.mechanisms.mwem.mwem`.

    A_0      uniform, or the product of noisy 1-way marginals
    A_i      A_{i−1} with the groups joined that the newest question touches, tilted by the newest answer, or `passes`
             times over by all answers inside the group that it touches

They are values of the measurements alone. So the average of all of them needs no iterate but the newest in memory: who
averages computes them once more, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dpsql.core.domain import Domain
from dpsql.core.marginal import Measurement
from dpsql.evidence.earlier_releases import combined, precise, usable
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.relaxed.table import simplex_projection
from dpsql.fitting.rows.multiplicative_weights import Factored, absorb
from dpsql.fitting.target import Target, targets_of
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Progress, Quiet

_MOST_REUSED: Final = 100  # marginals, each of which moves all of a group many times
_PASSES: Final = 20  # over what earlier releases measured: one moves A too little for all that it tells


@dataclass(frozen=True)
class Past:
    """What earlier releases measured, as far as this one uses it: all of it tells n, some tilts the distribution.

    Attributes:
        earlier: marginals, none where this release's measurements contradict them.
    """

    earlier: Sequence[Measurement] = ()

    @staticmethod
    def of(curator: Curator, total: Measurement, max_cells: int) -> Past:
        """What the number of rows does not contradict: the smallest marginals with the least noise."""
        measurements = usable(curator.earlier, [total], curator.domain, max_cells)
        measurements = precise(measurements, best_total(targets_of([total, *measurements])))
        return Past(sorted(measurements, key=lambda m: (len(m.clique), m.variance))[:_MOST_REUSED])

    def inside(self, now: Factored) -> list[Measurement]:
        """Those inside one group, so that they join no groups and take no candidate away."""
        return [m for m in self.earlier if any(set(m.clique) <= set(names) for names, _ in now.factors)]

    def entering(self, before: Factored, now: Factored) -> list[Target]:
        """Those that are inside one group now, and were not before."""
        cliques = {m.clique for m in self.inside(before)}
        return targets_of(m for m in self.inside(now) if m.clique not in cliques)

    def beside(self, now: Factored, measured: Sequence[Measurement]) -> list[Target]:
        """All measurements, of single cells too."""
        return targets_of([*self.inside(now), *measured])

    def fitting(self, now: Factored, measured: Sequence[Measurement]) -> list[Target]:
        """All measurements of whole marginals; with earlier ones each marginal once, the mean of all of it.

        Linear queries are as they were measured.
        """
        older = self.inside(now)
        if not older:
            return targets_of(measured)
        whole = [m for m in measured if m.linear is None]
        means = {m.clique: m for m in combined([], [*older, *whole])}
        marginals = [means[clique] for clique in dict.fromkeys(m.clique for m in [*older, *whole])]
        return [*marginals, *targets_of(m for m in measured if m.linear is not None)]


@dataclass(frozen=True)
class Iterates(Collection[Factored]):
    """A_0 … A_T, computed anew whenever they are gone through.

    Attributes:
        domain: of the table.
        past: what earlier releases measured.
        total: n, rows.
        passes: over all measurements in each round; 1 uses the newest one only.
        whole: whether whole marginals are measured, not cells.
        singles: the 1-way marginals that were measured first, by all that is known of them, because an update goes
            towards each answer as it is, whatever its noise; empty where A_0 is uniform.
        measured: what the rounds measured, oldest first.
    """

    domain: Domain
    past: Past
    total: float
    passes: int
    whole: bool
    singles: Sequence[Target] = ()
    measured: Sequence[Measurement] = field(default=())

    def __len__(self) -> int:
        return len(self.measured)

    def __contains__(self, member: object) -> bool:
        return any(member is part for part in self)

    def __iter__(self) -> Iterator[Factored]:
        """A_0 … A_{T−1}, which the lecture averages."""
        now = self.first(Quiet())
        yield now
        for count in range(1, len(self.measured)):
            now = self.after(now, self.measured[:count], Quiet())
            yield now

    def last(self, measured: Sequence[Measurement], progress: Progress) -> Factored:
        """A_i from what i rounds measured."""
        now = self.first(progress)
        for count in range(1, len(measured) + 1):
            now = self.after(now, measured[:count], progress)
        return now

    def first(self, progress: Progress) -> Factored:
        """A_0."""
        now = Factored.uniform(self.domain)
        if not self.singles:
            return absorb(now, self.past.fitting(now, []), self.total, max(self.passes, _PASSES), progress)
        singles = {target.clique: target for target in self.singles}
        floor = 0.1 / max(self.total, 10.0)  # a cell of no weight would stay empty for good
        factors = []
        for names, table in now.factors:
            share = simplex_projection(singles[names].values / self.total)
            factors.append((names, (share + floor) / (1 + floor * table.size)))
        return Factored(self.domain, tuple(factors))

    def after(self, now: Factored, measured: Sequence[Measurement], progress: Progress) -> Factored:
        """A_i from A_{i−1}: by what was measured before of the newest one's group, then by it, or by all."""
        newest, past = measured[-1].clique, self.past
        together = now.tilted(newest, np.zeros(now.domain.size(newest))) if past.earlier else now
        together = absorb(together, past.entering(now, together), self.total, max(self.passes, _PASSES), progress)
        if self.passes == 1:
            return absorb(together, targets_of(measured[-1:]), self.total, 1, progress)
        targets = [*self.singles, *(past.fitting if self.whole else past.beside)(together, measured)]
        if self.singles:  # the other groups have not moved since
            group = set(together.joined(newest))
            targets = [target for target in targets if set(target.clique) <= group]
        return absorb(together, targets, self.total, self.passes, progress)
