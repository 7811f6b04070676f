r"""Rounding a relaxed table to rows of codes.

1. Stratified draws: m rows are dealt to the n′ relaxed rows as evenly as can be; within one relaxed row each attribute
   takes its values by a systematic draw (u, u + 1/q, u + 2/q, … through the cumulative probabilities), in random order.
2. Sweeps of swaps: a row may change one attribute to a value drawn from its relaxed row, and does if the squared
   distance to the model's marginals falls,

       Δ = Σ_S 2·(e_S[new cell] − e_S[old cell] + 1) < 0,      e_S = counts of the rows − m·M_S(P),

   over the targets S in which the row's cell changes (`swaps`); another estimate may stand in for M_S(P).

Attributes tied by a constraint are drawn and changed together (`dpsql.fitting.relaxed.groups`). So every row satisfies
every constraint, before and after each swap.

Rounding sees the model only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique
from dpsql.core.row_codes import RowCodes, code_type
from dpsql.fitting.compilation import keep_programs
from dpsql.fitting.relaxed.groups import Group, Together, groups_of
from dpsql.fitting.relaxed.swaps import Swaps
from dpsql.fitting.relaxed.table import Codes, Floats, RelaxedTable
from dpsql.runtime.background import in_background
from dpsql.runtime.memory import give_back
from dpsql.runtime.progress import Progress

_SWEEPS: Final = 4
_SWEEPS_OF_FEW: Final = 6
_FEW: Final = 25_000  # rows, whose swaps are cheap
LARGEST_TARGET: Final = 200_000
MOST_TARGET_CELLS: Final = 8_000_000
MOST_OFFERS: Final = 1_500_000  # of one attribute: with more rows, drawing alone comes near enough
_OFFERS_AT_ONCE: Final = 64_000_000
"""Of all attributes together, made before they are decided: 6 bytes each."""


def round_table(
    model: RelaxedTable,
    rows: int,
    cliques: Sequence[Clique],
    generator: np.random.Generator,
    progress: Progress,
    allowed: Sequence[Allowed] = (),
    sweeps: int | None = None,
    nearer: Mapping[Clique, Floats] = MappingProxyType({}),
) -> RowCodes:
    """Draw a table of codes from a relaxed one.

    Args:
        model: the fit.
        rows: m, how many rows; any number, 0 too.
        cliques: the marginals that swaps bring nearer to the model; too large ones are left out.
        generator: of the draws.
        progress: notified of each sweep; may raise `Interrupted`.
        allowed: constraints; every row satisfies them.
        sweeps: how often each value is offered a swap; None for a number that is less where there are many rows.
        nearer: what swaps bring some marginals near to, in place of the model's (`dpsql.fitting.relaxed.shrinkage`).

    Returns:
        Codes, shape (rows, attributes).
    """
    keep_programs()
    if sweeps is None:
        sweeps = _SWEEPS_OF_FEW if rows < _FEW else min(_SWEEPS, max(1, MOST_OFFERS // rows))
    progress.stage("rounding", sweeps)
    parents = np.arange(rows) * model.probabilities.shape[1] // max(rows, 1)
    groups = groups_of(model.blocks, allowed)
    targets = _targets(model, cliques)
    offers = min(rows, MOST_OFFERS)
    parts = -(-offers * len(groups) // _OFFERS_AT_ONCE)
    if rows == 0 or not targets:
        return _stratified(model, groups, parents, generator)

    def swap(progress: Progress) -> RowCodes:
        swaps = Swaps(
            _stratified(model, groups, parents, generator),
            [group.places for group in groups],
            model.blocks,
            targets,
            lambda clique: nearer[clique] if clique in nearer else model.project(clique),
            -(-offers // parts),
        )
        for _ in range(sweeps):
            every = _some(rows, MOST_OFFERS, generator)
            for chosen in (every[part::parts] for part in range(parts)):  # each of rows from all over the table
                swaps.sweep(chosen, draw_each(model, groups, parents[chosen], generator), generator, progress)
            progress.advance()
        return swaps.codes()

    try:
        return in_background(progress, swap)
    finally:
        give_back()


def _targets(model: RelaxedTable, cliques: Sequence[Clique]) -> list[Clique]:
    """The cliques small enough, smaller ones first, up to a total of cells."""
    sizes = dict(zip(model.blocks.names, model.blocks.sizes, strict=True))
    cells = {clique: int(np.prod([float(sizes[name]) for name in clique])) for clique in cliques if clique}
    chosen, total = [], 0
    for clique in sorted(cells, key=lambda c: cells[c]):
        total += cells[clique]
        if cells[clique] > LARGEST_TARGET or total > MOST_TARGET_CELLS:
            break
        chosen.append(clique)
    return chosen


def _some(rows: int, most: int, generator: np.random.Generator) -> Codes:
    """At most so many of the rows, in order, because values of neighbours are drawn from the same relaxed row."""
    return np.arange(rows) if rows <= most else np.sort(generator.permutation(rows)[:most])


def _stratified(
    model: RelaxedTable, groups: Sequence[Group | Together], parents: Codes, generator: np.random.Generator
) -> RowCodes:
    rows = len(parents)
    dealt = np.bincount(parents, minlength=model.probabilities.shape[1])
    rank = np.arange(rows) - np.concatenate([[0], np.cumsum(dealt)])[parents]
    codes = np.empty((rows, len(model.blocks.names)), code_type(model.blocks.sizes))
    for group in groups:
        start = generator.random(len(dealt))[parents]
        values = group.draw(model, parents, (rank + start) / np.maximum(dealt[parents], 1), generator)
        shuffled = np.argsort(parents + generator.random(rows))  # a random order within each parent
        codes[:, group.places] = values[shuffled]
    return codes


def draw_each(
    model: RelaxedTable, groups: Sequence[Group | Together], parents: Codes, generator: np.random.Generator
) -> RowCodes:
    """A value for every row and group, each drawn by itself, shape (rows, attributes)."""
    codes = np.empty((len(parents), len(model.blocks.names)), code_type(model.blocks.sizes))
    for group in groups:
        codes[:, group.places] = group.draw(model, parents, generator.random(len(parents)), generator)
    return codes
