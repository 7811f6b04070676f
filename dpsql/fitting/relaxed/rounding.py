r"""Rounding a relaxed table to rows of codes.

1. Stratified draws: m rows are dealt to the n′ relaxed rows as evenly as can be; within one relaxed row each attribute
   takes its values by a systematic draw (u, u + 1/q, u + 2/q, … through the cumulative probabilities), in random order.
2. Sweeps of swaps: a row may change one attribute to a value drawn from its relaxed row, and does if the squared
   distance to the model's marginals falls,

       Δ = Σ_S 2·(e_S[new cell] − e_S[old cell] + 1) < 0,      e_S = counts of the rows − m·M_S(P),

   over the targets S in which the row's cell changes; another estimate may stand in for M_S(P). Batches of rows decide
   at once, on the distances before them. A row that was drawn the value that it has is in no batch.

Attributes tied by a constraint are drawn and changed together: the allowed tuples are their values, with probabilities
Π_a P_a in proportion. So every row satisfies every constraint, before and after each swap.

Rounding sees the model only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique
from dpsql.fitting.compilation import MOST_PROGRAMS, keep_programs, own_program
from dpsql.fitting.loading import jax, jnp
from dpsql.fitting.relaxed.table import Blocks, Codes, Floats, RelaxedTable, draw_codes
from dpsql.runtime.aside import aside
from dpsql.runtime.memory import give_back
from dpsql.runtime.progress import Progress

_SWEEPS: Final = 4
_SWEEPS_OF_FEW: Final = 6
_FEW: Final = 25_000  # rows, whose swaps are cheap
LARGEST_TARGET: Final = 200_000
MOST_TARGET_CELLS: Final = 8_000_000
MOST_OFFERS: Final = 1_500_000  # of one attribute: with more rows, drawing alone comes near enough
_BATCHES_PER_SWEEP: Final = 3000  # of one attribute: larger batches decide on older distances
_BATCHES_AT_ONCE: Final = 1024
_LEAST_PLACES: Final = 1024
_WEIGHTS_AT_ONCE: Final = 20_000_000
_INSIDE: Final = "promise_in_bounds"


def round_table(
    model: RelaxedTable,
    rows: int,
    cliques: Sequence[Clique],
    generator: np.random.Generator,
    progress: Progress,
    allowed: Sequence[Allowed] = (),
    sweeps: int | None = None,
    nearer: Mapping[Clique, Floats] = MappingProxyType({}),
) -> Codes:
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
    codes = _stratified(model, groups, parents, generator)
    targets = _targets(model, cliques)
    if rows == 0 or not targets:
        return codes

    def swap(progress: Progress) -> Codes:
        wanted = (nearer[clique] if clique in nearer else model.project(clique) for clique in targets)
        swaps = _Swaps(model.blocks, targets, wanted, groups, rows, codes)
        for _ in range(sweeps):
            chosen = generator.permutation(rows)[:MOST_OFFERS]
            swaps.sweep(chosen, draw_each(model, groups, parents[chosen], generator), generator, progress)
            progress.advance()
        return swaps.codes()

    try:
        return aside(progress, swap)
    finally:
        give_back()


@dataclass(frozen=True)
class Group:
    """Attributes whose values are drawn and changed together.

    Attributes:
        places: which attributes.
        tuples: the codes that they may take together, shape (tuples, attributes); None for one attribute by itself.
        joint: where they are a joint of the table, which of its tuples those are, shape (tuples,).
    """

    places: tuple[int, ...]
    tuples: Codes | None = None
    joint: Codes | None = None

    def draw(self, model: RelaxedTable, parents: Codes, uniform: npt.NDArray[np.float64]) -> Codes:
        """Codes of the group at places of the relaxed rows' cumulative probabilities, shape (rows, attributes)."""
        blocks = model.blocks
        if self.tuples is not None and self.joint is not None:
            rows = model.probabilities[blocks.block(tuple(blocks.names[place] for place in self.places))]
            return self.tuples[draw_codes(rows[self.joint] + np.float32(1e-30), parents, uniform)]
        probabilities = [model.part((blocks.names[place],)) for place in self.places]
        if self.tuples is None:
            return draw_codes(probabilities[0], parents, uniform)[:, None]
        chosen = np.zeros(len(parents), np.int64)
        chunk = max(1, _WEIGHTS_AT_ONCE // len(self.tuples))
        for begin in range(0, model.probabilities.shape[1], chunk):
            mine = np.flatnonzero((parents >= begin) & (parents < begin + chunk))
            logs = [np.log(p[:, begin : begin + chunk] + 1e-30) for p in probabilities]
            weight = np.sum([log[codes] for log, codes in zip(logs, self.tuples.T, strict=True)], axis=0)
            weight = np.exp(weight - weight.max(axis=0))
            chosen[mine] = draw_codes(weight, parents[mine] - begin, uniform[mine])
        return self.tuples[chosen]


def groups_of(blocks: Blocks, allowed: Sequence[Allowed]) -> list[Group]:
    """The groups of a table: one for each constraint's clique and each joint, one for each attribute that is in none.

    A joint has the constraints within it. One that shares attributes with other constraints is no group: it is drawn
    attribute by attribute.
    """
    tied, left = list[Group](), [part for part in allowed if part.clique]
    for joint in blocks.joints:
        inside = [part for part in left if set(part.clique) <= set(joint.names)]
        kept = np.arange(len(joint.tuples))
        for part in inside:
            shape = blocks.shape(part.clique)
            cells = np.ravel_multi_index(tuple(part.codes.T), shape)
            kept = kept[np.isin(joint.cells(part.clique, shape)[kept], cells)]
        apart = not any(set(part.clique) & set(joint.names) for part in left if part not in inside)
        if apart and len(kept):
            tied.append(Group(tuple(map(blocks.names.index, joint.names)), joint.tuples[kept], kept))
            left = [part for part in left if not any(part is one for one in inside)]
    tied += [Group(tuple(blocks.names.index(name) for name in part.clique), part.codes) for part in left]
    known = {place for group in tied for place in group.places}
    return [*tied, *(Group((place,)) for place in range(len(blocks.names)) if place not in known)]


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


def _stratified(model: RelaxedTable, groups: Sequence[Group], parents: Codes, generator: np.random.Generator) -> Codes:
    rows = len(parents)
    dealt = np.bincount(parents, minlength=model.probabilities.shape[1])
    rank = np.arange(rows) - np.concatenate([[0], np.cumsum(dealt)])[parents]
    codes = np.empty((rows, len(model.blocks.names)), np.int64)
    for group in groups:
        start = generator.random(len(dealt))[parents]
        values = group.draw(model, parents, (rank + start) / np.maximum(dealt[parents], 1))
        shuffled = np.argsort(parents + generator.random(rows), kind="stable")  # a random order within each parent
        codes[:, group.places] = values[shuffled]
    return codes


def draw_each(model: RelaxedTable, groups: Sequence[Group], parents: Codes, generator: np.random.Generator) -> Codes:
    """A value for every row and group, each drawn by itself, shape (rows, attributes)."""
    codes = np.empty((len(parents), len(model.blocks.names)), np.int64)
    for group in groups:
        codes[:, group.places] = group.draw(model, parents, generator.random(len(parents)))
    return codes


class _Swaps:
    """The rows under change, with the distance of every target cell.

    The number of rows is noisy, so each release has another one. All arrays are padded to one of a few lengths: then
    the next release finds the program that an earlier one compiled.
    """

    def __init__(
        self,
        blocks: Blocks,
        targets: Sequence[Clique],
        wanted: Iterable[Floats],
        groups: Sequence[Group],
        rows: int,
        codes: Codes,
    ) -> None:
        """Of targets with their wanted probabilities, each made when it is its turn: together they take much memory."""
        names, sizes = blocks.names, blocks.sizes
        strides = np.zeros((len(targets), len(names)), np.int32)
        offsets = np.zeros(len(targets), np.int32)
        cell, columns = 0, np.ascontiguousarray(codes.T)
        most_cells = sum(int(np.prod(blocks.shape(clique))) for clique in targets)
        error = np.zeros(1 << most_cells.bit_length(), np.float32)
        for number, (clique, probabilities) in enumerate(zip(targets, wanted, strict=True)):
            stride = 1
            for name in reversed(clique):
                strides[number, names.index(name)] = stride
                stride *= sizes[names.index(name)]
            offsets[number], cell = cell, cell + stride
            cells = sum(columns[names.index(name)] * strides[number, names.index(name)] for name in clique)
            counts = np.bincount(cells, minlength=stride)
            error[cell - stride : cell] = counts - probabilities.astype(np.float64) * rows
        moved = np.zeros((len(groups), len(names)), bool)
        for number, group in enumerate(groups):
            moved[number, list(group.places)] = True
        of_group = [np.flatnonzero((strides[:, mask] > 0).any(axis=1)) for mask in moved]
        most = max(len(numbers) for numbers in of_group)
        # a missing clique points at one spare cell with stride 0, where nothing ever changes
        padded = np.zeros((len(groups), most, len(names)), np.int32)
        starts = np.full((len(groups), most), cell, np.int32)
        for number, numbers in enumerate(of_group):
            padded[number, : len(numbers)] = strides[numbers]
            starts[number, : len(numbers)] = offsets[numbers]
        self._error = jax.device_put(error)
        self._rows, self._codes = rows, jax.device_put(_padded(codes))
        self._batch = -(-min(_places_for(rows), MOST_OFFERS) // _BATCHES_PER_SWEEP)
        self._places = [list(group.places) for group in groups]
        # whole numbers below 2^24, which floats hold as they are and multiply many times faster
        self._geometry = tuple(jax.device_put(array) for array in (padded.astype(np.float32), starts, moved))

    def sweep(self, chosen: Codes, proposals: Codes, generator: np.random.Generator, progress: Progress) -> None:
        """Offer each of the chosen rows a swap of every group once, in random order."""
        batch, now = self._batch, np.asarray(self._codes)[chosen]
        offered, ids = jax.device_put(_padded(proposals)), jax.device_put(_padded(chosen))
        batches = []
        for places in self._places:
            others = np.flatnonzero((now[:, places] != proposals[:, places]).any(axis=1)).astype(np.int32)
            mixed = generator.permutation(others)
            batches.append(mixed[: len(mixed) // batch * batch].reshape(-1, batch))
        owners = np.repeat(np.arange(len(batches), dtype=np.int32), [len(one) for one in batches])
        orders = np.concatenate(batches)
        mixed = generator.permutation(len(owners))
        run = _program(self._codes.shape, offered.shape, batch, self._error.shape, self._geometry[0].shape)
        for begin in range(0, len(mixed), _BATCHES_AT_ONCE):
            part = mixed[begin : begin + _BATCHES_AT_ONCE]
            padded = np.resize(part, _BATCHES_AT_ONCE)
            self._codes, self._error = run(
                self._codes,
                self._error,
                ids,
                offered,
                orders[padded],
                owners[padded],
                np.int32(len(part)),
                *self._geometry,
            )
            self._error.block_until_ready()
            progress.advance(0)

    def codes(self) -> Codes:
        """The rows as they are now."""
        return np.asarray(self._codes, np.int64)[: self._rows]


def _places_for(rows: int) -> int:
    """How many rows there is room for: at most an eighth more than `rows`, or 1024.

    >>> _places_for(5), _places_for(5000), _places_for(5020), _places_for(100_000)
    (1024, 5120, 5120, 106496)
    """
    step = max(_LEAST_PLACES, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step


def _padded(codes: Codes) -> npt.NDArray[np.int32]:
    """Codes with zeros after the last row, in 32 bits."""
    padded = np.zeros((_places_for(len(codes)), *codes.shape[1:]), np.int32)
    padded[: len(codes)] = codes
    return padded


@lru_cache(maxsize=MOST_PROGRAMS)
def _program(*shapes: Any) -> Any:
    """The compiled sweep of these shapes."""
    return own_program(_run_batches, donate_argnums=(0, 1))


def _run_batches(
    codes: jax.Array,
    error: jax.Array,
    ids: jax.Array,
    proposals: jax.Array,
    batches: jax.Array,
    owners: jax.Array,
    count: jax.Array,
    strides: jax.Array,
    offsets: jax.Array,
    moved: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Decide `count` batches one after the other."""

    def batch(i: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        codes, error = carry
        places, group = batches[i], owners[i]
        rows = ids[places]
        current = codes[rows]
        offered = jnp.where(moved[group], proposals[places], current)
        stride = strides[group].T
        old = _product(current, stride) + offsets[group]
        new = old + _product(offered - current, stride)
        gain = error.at[new].get(mode=_INSIDE) - error.at[old].get(mode=_INSIDE) + 1
        accepted = jnp.where(new != old, gain, 0).sum(axis=1) < 0
        first, cells = jnp.argsort(~accepted), jnp.concatenate([old, new], axis=1)
        change = jnp.repeat(jnp.array([-1, 1], jnp.float32), old.shape[1])

        def move(k: jax.Array, error: jax.Array) -> jax.Array:  # only rows that do change: most do not
            return error.at[cells[first[k]]].add(change, mode=_INSIDE)

        error = jax.lax.fori_loop(0, accepted.sum(), move, error)
        codes = codes.at[rows].set(jnp.where(accepted[:, None], offered, current))
        return codes, error

    done: tuple[jax.Array, jax.Array] = jax.lax.fori_loop(0, count, batch, (codes, error))
    return done


def _product(codes: jax.Array, strides: jax.Array) -> jax.Array:
    """Codes × strides, exact: floats hold whole numbers of up to `MOST_TARGET_CELLS`."""
    floats = jnp.matmul(codes.astype(jnp.float32), strides, precision="highest")
    return jnp.asarray(floats.astype(jnp.int32))
