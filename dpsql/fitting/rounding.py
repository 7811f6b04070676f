r"""Rounding a relaxed table to rows of codes.

1. Stratified draws: m rows are dealt to the n′ relaxed rows as evenly as can be; within one relaxed row each attribute
   takes its values by a systematic draw (u, u + 1/q, u + 2/q, … through the cumulative probabilities), in random order.
2. Sweeps of single-value swaps: a row may change one attribute to a value drawn from its relaxed row, and does if the
   squared distance to the model's marginals falls,

       Δ = Σ_{S ∋ a} 2·(e_S[new cell] − e_S[old cell] + 1) < 0,      e_S = counts of the rows − m·M_S(P)

   Batches of rows decide at once, on the distances before the batch.

Rounding sees the model only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from dpsql.domain import Clique
from dpsql.fitting.relaxation import Codes, RelaxedTable
from dpsql.progress import Progress

SWEEPS: Final = 6
LARGEST_TARGET: Final = 200_000
MOST_TARGET_CELLS: Final = 8_000_000
_BATCHES_PER_SWEEP: Final = 1500  # of one attribute: larger batches decide on older distances
_BATCHES_AT_ONCE: Final = 1024


def round_table(
    model: RelaxedTable,
    rows: int,
    cliques: Sequence[Clique],
    generator: np.random.Generator,
    progress: Progress,
    sweeps: int = SWEEPS,
) -> Codes:
    """Draw a table of codes from a relaxed one.

    Args:
        model: the fit.
        rows: m, how many rows; any number, 0 too.
        cliques: the marginals that swaps bring nearer to the model; too large ones are left out.
        generator: of the draws.
        progress: told of each sweep; may raise `Interrupted`.
        sweeps: how often each value is offered a swap.

    Returns:
        Codes, shape (rows, attributes).
    """
    progress.stage("rounding", sweeps)
    parents = np.arange(rows) * model.probabilities.shape[1] // max(rows, 1)
    codes = _stratified(model, parents, generator)
    targets = _targets(model, cliques)
    if rows == 0 or not targets:
        return codes
    swaps = _Swaps(model, targets, rows, codes)
    for _ in range(sweeps):
        swaps.sweep(_proposals(model, parents, generator), generator, progress)
        progress.advance()
    return swaps.codes()


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


def _stratified(model: RelaxedTable, parents: Codes, generator: np.random.Generator) -> Codes:
    rows = len(parents)
    dealt = np.bincount(parents, minlength=model.probabilities.shape[1])
    rank = np.arange(rows) - np.concatenate([[0], np.cumsum(dealt)])[parents]
    codes = np.empty((rows, len(model.blocks.names)), np.int64)
    for column, name in enumerate(model.blocks.names):
        start = generator.random(len(dealt))[parents]
        values = model.draw(name, parents, (rank + start) / np.maximum(dealt[parents], 1))
        shuffled = np.argsort(parents + generator.random(rows), kind="stable")  # a random order within each parent
        codes[:, column] = values[shuffled]
    return codes


def _proposals(model: RelaxedTable, parents: Codes, generator: np.random.Generator) -> Codes:
    """A fresh value for every row and attribute, shape (attributes, rows)."""
    return np.stack([model.draw(name, parents, generator.random(len(parents))) for name in model.blocks.names])


class _Swaps:
    """The rows under change, with the distance of every target cell."""

    def __init__(self, model: RelaxedTable, targets: Sequence[Clique], rows: int, codes: Codes) -> None:
        names, sizes = model.blocks.names, model.blocks.sizes
        strides = np.zeros((len(targets), len(names)), np.int32)
        offsets = np.zeros(len(targets), np.int32)
        parts, cell = [], 0
        for number, clique in enumerate(targets):
            stride = 1
            for name in reversed(clique):
                strides[number, names.index(name)] = stride
                stride *= sizes[names.index(name)]
            offsets[number], cell = cell, cell + stride
            counts = np.bincount(codes @ strides[number], minlength=stride)
            parts.append(counts - model.project(clique).astype(np.float64) * rows)
        of_attribute = [np.flatnonzero(strides[:, a]) for a in range(len(names))]
        most = max(len(numbers) for numbers in of_attribute)
        # a missing clique points at one spare cell with stride 0, where a swap changes nothing
        self._strides = np.zeros((len(names), most, len(names)), np.int32)
        self._offsets = np.full((len(names), most), cell, np.int32)
        for a, numbers in enumerate(of_attribute):
            self._strides[a, : len(numbers)] = strides[numbers]
            self._offsets[a, : len(numbers)] = offsets[numbers]
        self._present = jnp.asarray([len(numbers) for numbers in of_attribute], jnp.float32)
        padding = (1 << max(0, cell).bit_length()) - cell
        self._error = jnp.asarray(np.concatenate([*parts, np.zeros(padding)]), jnp.float32)
        self._codes = jnp.asarray(codes, jnp.int32)
        self._batch = -(-rows // _BATCHES_PER_SWEEP)
        self._geometry = (jnp.asarray(self._strides), jnp.asarray(self._offsets), self._present)

    def sweep(self, proposals: Codes, generator: np.random.Generator, progress: Progress) -> None:
        """Offer every row a swap of every attribute once, in random order."""
        attributes, rows = proposals.shape
        offered = jnp.asarray(proposals, jnp.int32)
        orders = np.stack([generator.permutation(rows) for _ in range(attributes)]).astype(np.int32)
        usable = rows // self._batch * self._batch
        batches = orders[:, :usable].reshape(-1, self._batch)
        owners = np.repeat(np.arange(attributes, dtype=np.int32), usable // self._batch)
        mixed = generator.permutation(len(owners))
        run = _compiled()
        for begin in range(0, len(mixed), _BATCHES_AT_ONCE):
            part = mixed[begin : begin + _BATCHES_AT_ONCE]
            padded = np.resize(part, _BATCHES_AT_ONCE)
            self._codes, self._error = run(
                self._codes,
                self._error,
                offered,
                jnp.asarray(batches[padded]),
                jnp.asarray(owners[padded]),
                jnp.int32(len(part)),
                *self._geometry,
            )
            self._error.block_until_ready()
            progress.advance(0)

    def codes(self) -> Codes:
        """The rows as they are now."""
        return np.asarray(self._codes, np.int64)


@lru_cache(maxsize=1)
def _compiled() -> Any:
    return jax.jit(_run_batches, donate_argnums=(0, 1))


def _run_batches(
    codes: jax.Array,
    error: jax.Array,
    proposals: jax.Array,
    batches: jax.Array,
    owners: jax.Array,
    count: jax.Array,
    strides: jax.Array,
    offsets: jax.Array,
    present: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Decide `count` batches one after the other."""

    def batch(i: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        codes, error = carry
        rows, a = batches[i], owners[i]
        current, offered = codes[rows], proposals[a, rows]
        before = current[:, a]
        stride = strides[a]
        old = current @ stride.T + offsets[a]
        new = old + stride[:, a][None, :] * (offered - before)[:, None]
        gain = (error[new] - error[old]).sum(axis=1) + present[a]
        accepted = (gain < 0) & (offered != before)
        change = jnp.where(accepted, 1.0, 0.0)[:, None] * jnp.ones_like(old, jnp.float32)
        error = error.at[old.ravel()].add(-change.ravel()).at[new.ravel()].add(change.ravel())
        codes = codes.at[rows, a].set(jnp.where(accepted, offered, before))
        return codes, error

    done: tuple[jax.Array, jax.Array] = jax.lax.fori_loop(0, count, batch, (codes, error))
    return done
