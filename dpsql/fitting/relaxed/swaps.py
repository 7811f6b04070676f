r"""Swaps that bring rows of codes near to wanted marginals; `rounding` says which are tried.

    Δ = Σ_S 2·(e_S[new cell] − e_S[old cell] + 1) < 0,      e_S = counts of the rows − wanted counts

Batches of rows decide at once, on the distances before them. A row that is offered the value that it has is in no
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from dpsql.core.domain import Clique
from dpsql.core.row_codes import RowCodes
from dpsql.fitting.compilation import MOST_PROGRAMS, own_program
from dpsql.fitting.loading import jax, jnp
from dpsql.fitting.relaxed.table import Blocks, Codes, Floats
from dpsql.fitting.relaxed.target_counts import SmallCodes, target_counts
from dpsql.runtime.progress import Progress

_BATCHES_PER_SWEEP: Final = 3000  # of one attribute: larger batches decide on older distances
_BATCHES_AT_ONCE: Final = 1024
_LEAST_PLACES: Final = 1024
_CLIQUES_AT_ONCE: Final = 64
"""Groups differ by how many cliques they are in; each takes as many parts of so many as it has."""
_INSIDE: Final = "promise_in_bounds"


class Swaps:
    """The rows under change, with the distance of every target cell.

    The number of rows is noisy, so each release has another one. All arrays are padded to one of a few lengths: then
    the next release finds the program that an earlier one compiled.
    """

    def __init__(
        self,
        codes: RowCodes,
        groups: Sequence[Sequence[int]],
        blocks: Blocks,
        targets: Sequence[Clique],
        wanted: Callable[[Clique], Floats],
        offers: int,
    ) -> None:
        """Of rows, and what is wanted of them.

        Args:
            codes: of the rows, shape (rows, attributes).
            groups: the attributes that change together.
            blocks: the attributes.
            targets: the marginals.
            wanted: the probabilities of one; each is asked for when it is its turn, because together they take much
                memory.
            offers: to how many rows a sweep offers a swap.
        """
        strides, offsets = _geometry(blocks, targets)
        self._error = jax.device_put(_distances(codes, strides, offsets, targets, wanted))
        self._rows, self._groups = len(codes), [list(places) for places in groups]
        self._codes = jax.device_put(_padded(codes))
        self._batch = -(-_places_for(offers) // _BATCHES_PER_SWEEP)
        of_group = [np.flatnonzero((strides[:, places] > 0).any(axis=1)) for places in self._groups]
        parts = [-(-len(cliques) // _CLIQUES_AT_ONCE) for cliques in of_group]
        most, together = max(parts) * _CLIQUES_AT_ONCE, max(map(len, self._groups))
        # a missing clique points at one spare cell with stride 0, where nothing ever changes
        steps = np.zeros((len(groups), strides.shape[1], most), np.float32)
        starts = np.full((len(groups), most), offsets[-1], np.int32)
        moved = np.zeros((len(groups), together), np.int32)
        moving = np.zeros((len(groups), together, most), np.float32)
        for number, (places, cliques) in enumerate(zip(self._groups, of_group, strict=True)):
            steps[number, :, : len(cliques)] = strides[cliques].T
            starts[number, : len(cliques)] = offsets[cliques]
            moved[number] = np.resize(places, together)
            moving[number, : len(places)] = steps[number, places]
        # strides are whole numbers below 2^24, which floats hold as they are and multiply many times faster
        geometry = (np.array(parts, np.int32), steps, starts, moved, moving)
        self._geometry = tuple(map(jax.device_put, geometry))

    def sweep(self, chosen: Codes, offered: RowCodes, generator: np.random.Generator, progress: Progress) -> None:
        """Offer each of the chosen rows a swap of every group once, in random order."""
        batch = self._batch
        orders, owners = self._batches(chosen, offered, generator)
        mixed = generator.permutation(len(owners))
        padded, ids = jax.device_put(_padded(offered)), jax.device_put(_padded(chosen.astype(np.int32)))
        del offered  # of a million rows and a hundred columns it takes hundreds of megabytes
        run = _program(self._codes.shape, padded.shape, batch, self._error.shape, self._geometry[-1].shape)
        for begin in range(0, len(mixed), _BATCHES_AT_ONCE):
            part = mixed[begin : begin + _BATCHES_AT_ONCE]
            some = np.resize(part, _BATCHES_AT_ONCE)
            self._codes, self._error = run(
                self._codes,
                self._error,
                ids,
                padded,
                orders[some],
                owners[some],
                np.int32(len(part)),
                *self._geometry,
            )
            self._error.block_until_ready()
            progress.advance(0)

    def _batches(
        self, chosen: Codes, offered: RowCodes, generator: np.random.Generator
    ) -> tuple[SmallCodes, SmallCodes]:
        """Places in `chosen`, a line for each batch, and the group of each: rows that are offered another value."""
        now, batch, filled = np.asarray(self._codes), self._batch, 0
        orders = np.empty((len(chosen) // batch * len(self._groups), batch), np.int32)
        owners = np.empty(len(orders), np.int32)
        for number, places in enumerate(self._groups):
            others = np.zeros(len(chosen), bool)
            for place in places:
                others |= now[chosen, place] != offered[:, place]
            mixed = generator.permutation(np.flatnonzero(others).astype(np.int32))
            end = filled + len(mixed) // batch
            orders[filled:end] = mixed[: len(mixed) // batch * batch].reshape(-1, batch)
            owners[filled:end], filled = number, end
        return orders[:filled], owners[:filled]

    def codes(self) -> RowCodes:
        """The rows as they are now."""
        return np.array(np.asarray(self._codes)[: self._rows])


def _geometry(blocks: Blocks, targets: Sequence[Clique]) -> tuple[SmallCodes, SmallCodes]:
    """The strides of each target, 0 for attributes that it has not, and its first cell; after the last, the spare one.

    The first has shape (targets, attributes), the second (targets + 1,).
    """
    strides = np.zeros((len(targets), len(blocks.names)), np.int32)
    offsets = np.zeros(len(targets) + 1, np.int32)
    for number, clique in enumerate(targets):
        stride = 1
        for name in reversed(clique):
            place = blocks.names.index(name)
            strides[number, place] = stride
            stride *= blocks.sizes[place]
        offsets[number + 1] = offsets[number] + stride
    return strides, offsets


def _distances(
    codes: RowCodes,
    strides: SmallCodes,
    offsets: SmallCodes,
    targets: Sequence[Clique],
    wanted: Callable[[Clique], Floats],
) -> Floats:
    """The counts of the rows less those that are wanted, of all targets, and room for the spare cell."""
    error = np.zeros(1 << int(offsets[-1]).bit_length(), np.float32)
    counts = target_counts(codes, strides, offsets)
    for target, begin, end in zip(targets, offsets, offsets[1:], strict=False):
        error[begin:end] = counts[begin:end] - wanted(target).astype(np.float64) * len(codes)
    return error


def _places_for(rows: int) -> int:
    """How many rows there is room for: at most an eighth more than `rows`, or 1024.

    >>> _places_for(5), _places_for(5000), _places_for(5020), _places_for(100_000)
    (1024, 5120, 5120, 106496)
    """
    step = max(_LEAST_PLACES, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step


def _padded(codes: RowCodes) -> RowCodes:
    """Codes with zeros after the last row."""
    padded = np.zeros((_places_for(len(codes)), *codes.shape[1:]), codes.dtype)
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
    offered: jax.Array,
    batches: jax.Array,
    owners: jax.Array,
    count: jax.Array,
    parts: jax.Array,
    steps: jax.Array,
    starts: jax.Array,
    moved: jax.Array,
    moving: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Decide `count` batches one after the other.

    Args:
        codes: of the rows.
        error: the distances.
        ids: the row of each offer.
        offered: codes.
        batches: offers, a line for each batch.
        owners: the group of each batch.
        count: of batches.
        parts: for each group how many times `_CLIQUES_AT_ONCE` hold its cliques.
        steps: for each group the strides of its cliques, shape (groups, attributes, cliques).
        starts: their first cells, shape (groups, cliques).
        moved: the attributes of each group, shape (groups, most in one).
        moving: their strides; 0 where a group has fewer.
    """
    size, width = batches.shape[1], _CLIQUES_AT_ONCE

    def batch(i: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        codes, error, old, new = carry
        offers, group = batches[i], owners[i]
        rows, places = ids[offers], moved[group]
        current, values = codes[rows], offered[offers[:, None], places]
        change = values - jnp.take(current, places, axis=1)
        gain, old, new = _judged(current, change, error, group, (parts, steps, starts, moving), (old, new))
        accepted = gain < 0
        first = jnp.nonzero(accepted, size=size, fill_value=0)[0]

        def move(k: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            codes, error, row = *carry, first[k]  # only rows that do change: most do not

            def count_again(part: jax.Array, error: jax.Array) -> jax.Array:
                left, joined = (jax.lax.dynamic_slice(of, (row, part * width), (1, width))[0] for of in (old, new))
                return error.at[left].add(-1, mode=_INSIDE).at[joined].add(1, mode=_INSIDE)

            error = jax.lax.fori_loop(0, parts[group], count_again, error)
            return codes.at[rows[row], places].set(values[row], mode=_INSIDE), error

        return *jax.lax.fori_loop(0, accepted.sum(), move, (codes, error)), old, new

    room = jnp.zeros((size, steps.shape[2]), jnp.int32)
    done: tuple[jax.Array, ...] = jax.lax.fori_loop(0, count, batch, (codes, error, room, room))
    return done[0], done[1]


def _judged(
    current: jax.Array,
    change: jax.Array,
    error: jax.Array,
    group: jax.Array,
    geometry: tuple[jax.Array, ...],
    cells: tuple[jax.Array, jax.Array],
) -> tuple[jax.Array, ...]:
    """Δ/2 of some rows if they change one group, and each clique's cell before and after, written into `cells`."""
    parts, steps, starts, moving = geometry

    def judge(part: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        gain, old, new = carry
        begin = part * _CLIQUES_AT_ONCE
        strides, more = (_slice(array, group, begin) for array in (steps, moving))
        first = jax.lax.dynamic_slice(starts, (group, begin), (1, _CLIQUES_AT_ONCE))
        before = _product(current, strides) + first
        after = before + _product(change, more)
        better = error.at[after].get(mode=_INSIDE) - error.at[before].get(mode=_INSIDE) + 1
        gain += jnp.where(after != before, better, 0).sum(axis=1)
        written = (jax.lax.dynamic_update_slice(to, what, (0, begin)) for to, what in ((old, before), (new, after)))
        return gain, *written

    none = jnp.zeros(len(current), error.dtype)
    judged: tuple[jax.Array, ...] = jax.lax.fori_loop(0, parts[group], judge, (none, *cells))
    return judged


def _slice(array: jax.Array, group: jax.Array, begin: jax.Array) -> jax.Array:
    """Of one group some cliques, all attributes."""
    return jax.lax.dynamic_slice(array, (group, 0, begin), (1, array.shape[1], _CLIQUES_AT_ONCE))[0]


def _product(codes: jax.Array, strides: jax.Array) -> jax.Array:
    """Codes × strides, exact: floats hold whole numbers of up to `MOST_TARGET_CELLS`."""
    if strides.shape[0] == 1:
        return codes * strides.astype(jnp.int32)
    floats = jnp.matmul(codes.astype(jnp.float32), strides, precision="highest")
    return jnp.asarray(floats.astype(jnp.int32))
