r"""Relaxed projection as in the RAP paper: a relaxed table nearest to noisy answers of single cells.

    minimise  Σ_q (q̂(D′) − â_q)²,     q̂(D′) = 1/n′ · Σ_r P(at least t_q of the events i ∈ S_q, of chances D′[y_i, r])

by Adam on D′ itself; after each step every block of every row goes through SparseMax, the Euclidean projection onto the
probability simplex (Martins and Astudillo 2016). With softmax instead, Adam moves the logarithms of D′. It stops when
the loss improves by less than a relative 10⁻⁷ from one step to the next; softmax, whose steps are long enough to pass
the minimum and come back, has 50 steps for that improvement. The best D′ of all steps is what is left.

t = |S| is a cell of a marginal, Π_i D′[y_i, r]; smaller t are thresholds, by tail[j] += x·(tail[j − 1] − tail[j])
column by column. A linear query is a sum of cells, Σ_y w_y·Π_i D′[y_i, r] over the cells y of its group, with weights
in units of the largest.

Source: Aydore et al. 2021, Algorithm 1 (RP) and section 5.1.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.linear_family import LinearFamily, QueryFamily
from dpsql.core.threshold import Family, Threshold, clique_of
from dpsql.fitting.compilation import MOST_PROGRAMS, keep_programs, own_program
from dpsql.fitting.devices import devices_for
from dpsql.fitting.loading import jax, jnp
from dpsql.fitting.relaxed.groups import groups_of
from dpsql.fitting.relaxed.rounding import draw_each
from dpsql.fitting.relaxed.table import Blocks, Codes, Floats, RelaxedTable
from dpsql.runtime.background import in_background
from dpsql.runtime.progress import Progress

_CHUNK_SECONDS: Final = 0.3
_MICHELOT_STEPS: Final = 8  # after one Adam step of rate 0.001 the support hardly changes
_START_STEPS: Final = 60
_SMALLEST: Final = 1e-6
_PATIENCE: Final = {"sparsemax": 1, "softmax": 50}


def sparsemax(values: jax.Array, blocks: Sequence[tuple[int, int]], steps: int = _START_STEPS) -> jax.Array:
    """Project each block of rows, in every column, onto the probability simplex.

    Michelot's iteration: τ ← (Σ_{v > τ} v − 1)/|{v > τ}| rises to the threshold with Σ max(v − τ, 0) = 1.

    Args:
        values: shape (T, n′).
        blocks: first row and size of each block.
        steps: iterations; the threshold is exact once the support no longer changes, and the result is normalised.
    """
    parts = []
    for offset, size in blocks:
        part = values[offset : offset + size]

        def shrink(_: int, tau: jax.Array, part: jax.Array = part) -> jax.Array:
            support = part > tau
            return (jnp.where(support, part, 0).sum(axis=0) - 1) / jnp.maximum(support.sum(axis=0), 1)

        tau = jax.lax.fori_loop(0, steps, shrink, (part.sum(axis=0) - 1) / size)
        positive = jnp.maximum(part - tau, 0)
        parts.append(positive / positive.sum(axis=0))
    return jnp.concatenate(parts)


def random_start(blocks: Blocks, rows: int, seed: int) -> Floats:
    """SparseMax of uniform numbers in [−1, 1], shape (T, n′)."""
    start = np.random.default_rng(seed).uniform(-1, 1, size=(blocks.width, rows)).astype(np.float32)
    return np.asarray(_sparsemax_program(places_of(blocks), rows)(start))


def fit_cells(
    blocks: Blocks,
    start: Floats,
    queries: Sequence[tuple[QueryFamily, int]],
    targets: npt.NDArray[np.float64],
    capacity: int,
    rate: float,
    steps: int,
    tolerance: float,
    progress: Progress,
    relaxation: str = "sparsemax",
) -> tuple[Floats, int]:
    """Project: the relaxed table near `start` whose answers to `queries` are nearest to `targets`.

    Args:
        blocks: the attributes.
        start: D′ to begin from, shape (T, n′).
        queries: (clique or family of thresholds, cell) or (linear queries, group) pairs.
        targets: noisy answers in fractions, of linear queries divided by the largest weight, shape (queries,).
        capacity: the most terms, see `terms_of`, that later calls will have; one compiled program serves them all.
        rate: Adam's learning rate.
        steps: the most Adam steps.
        tolerance: stop when the least loss falls by less than this fraction.
        progress: notified of each chunk; may raise `Interrupted`.
        relaxation: `sparsemax` or `softmax`.

    Returns:
        D′ and the number of steps taken.
    """
    keep_programs()
    terms = [(number, *term) for number, query in enumerate(queries) for term in terms_of(query)]
    order = max((len(clique_of(family)) for _, family, _, _ in terms), default=1)
    index = np.full((capacity, order), blocks.width, np.int32)
    least, owner = np.zeros(capacity, np.int32), np.arange(capacity, dtype=np.int32)
    factor = np.zeros(capacity, np.float32)
    weight, target = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)
    for number, (query, family, cell, of_cell) in enumerate(terms):
        clique, owner[number], factor[number] = clique_of(family), query, of_cell
        least[number] = family.least if isinstance(family, Threshold) else len(clique)
        places = [blocks.names.index(name) for name in clique]
        codes = np.unravel_index(cell, [blocks.sizes[place] for place in places])
        index[number, : len(places)] = [blocks.offsets[p] + int(code) for p, code in zip(places, codes, strict=True)]
    weight[: len(queries)], target[: len(queries)] = 1, targets
    summed = (owner, factor) if any(isinstance(family, LinearFamily) for family, _ in queries) else None
    constants = (index, least, weight, target, np.float32(rate), np.float32(tolerance), summed)
    return in_background(progress, partial(_descend, blocks, start, constants, steps, relaxation))


def terms_of(query: tuple[QueryFamily, int]) -> list[tuple[Family, int, float]]:
    """The cells or thresholds that a query is the sum of, with their weights: itself, or the cells of its group."""
    family, place = query
    if not isinstance(family, LinearFamily):
        return [(family, place, 1.0)]
    return [(family.clique, cell, weight / family.largest) for cell, weight in family.terms(place)]


def _descend(
    blocks: Blocks, start: Floats, constants: tuple[Any, ...], steps: int, relaxation: str, progress: Progress
) -> tuple[Floats, int]:
    """Adam, in chunks short enough to be interrupted."""
    with jax.default_device(devices_for(constants[0].size * start.shape[1] * steps)[0]):
        advance = _program(places_of(blocks), relaxation, start.shape[1], constants[0].shape)
        d = (start if relaxation == "sparsemax" else np.log(start + _SMALLEST)).astype(np.float32)
        zero = np.zeros_like(d)
        state = _State(d, zero, zero, np.int32(0), np.float32(np.inf), d, np.int32(0))
        chunk = 1
        progress.stage("projecting", steps)
        while int(state.done) < steps and int(state.waited) < _PATIENCE[relaxation]:
            begin, before = time.monotonic(), int(state.done)
            state = advance(state, constants, np.int32(min(steps, before + chunk)))
            taken = int(state.done) - before
            seconds = time.monotonic() - begin
            progress.advance(taken, f"loss {float(state.least):.3g}")
            if before > 0:
                chunk = max(1, min(2 * chunk, int(chunk * _CHUNK_SECONDS / max(seconds, 1e-6))))
        finish = _softmax_program(places_of(blocks), start.shape[1])
        table = state.best if relaxation == "sparsemax" else finish(state.best)
        return np.asarray(table), int(state.done)


class _State(NamedTuple):
    """Where Adam is: D′ or its logarithms, its two moments, the steps taken; the least loss, its D′, steps since."""

    table: Any
    first: Any
    second: Any
    done: Any
    least: Any
    best: Any
    waited: Any


def places_of(blocks: Blocks) -> tuple[tuple[int, int], ...]:
    """First row and size of each block."""
    return tuple(zip(blocks.offsets, blocks.sizes, strict=True))


def _softmax(theta: jax.Array, places: Sequence[tuple[int, int]]) -> jax.Array:
    return jnp.concatenate([jax.nn.softmax(theta[offset : offset + size], axis=0) for offset, size in places])


def _answers(padded: jax.Array, index: jax.Array, least: jax.Array) -> jax.Array:
    """P(at least `least` of the events) averaged over relaxed rows, shape (queries,); missing columns never happen."""
    tail = [jnp.ones((len(index), padded.shape[1]), padded.dtype)]
    tail += [jnp.zeros_like(tail[0]) for _ in range(index.shape[1])]
    for column in range(index.shape[1]):
        x = padded[index[:, column]]
        tail = [tail[0], *(tail[j] + x * (tail[j - 1] - tail[j]) for j in range(1, len(tail)))]
    return jnp.take_along_axis(jnp.stack(tail).mean(axis=2), least[None, :], axis=0)[0]


@lru_cache(maxsize=MOST_PROGRAMS)
def _sparsemax_program(places: tuple[tuple[int, int], ...], rows: int) -> Any:
    return own_program(lambda values: sparsemax(values, places))


@lru_cache(maxsize=MOST_PROGRAMS)
def _softmax_program(places: tuple[tuple[int, int], ...], rows: int) -> Any:
    return own_program(lambda theta: _softmax(theta, places))


@lru_cache(maxsize=MOST_PROGRAMS)
def _program(places: tuple[tuple[int, int], ...], relaxation: str, rows: int, questions: tuple[int, ...]) -> Any:
    def advance(state: _State, constants: Any, until: jax.Array) -> _State:
        index, least, weight, target, rate, tolerance, summed = constants

        def loss(d: jax.Array) -> jax.Array:
            table = d if relaxation == "sparsemax" else _softmax(d, places)
            padded = jnp.concatenate([table, jnp.zeros((1, d.shape[1]), d.dtype)])
            answers = _answers(padded, index, least)
            if summed is not None:  # what each query is a sum of
                answers = jnp.zeros_like(answers).at[summed[0]].add(summed[1] * answers)
            return jnp.vdot(weight, (answers - target) ** 2)

        def step(at: _State) -> _State:
            value, gradient = jax.value_and_grad(loss)(at.table)
            better = (value < at.least * (1 - tolerance)) | jnp.isinf(at.least)
            t = (at.done + 1).astype(jnp.float32)
            first = 0.9 * at.first + 0.1 * gradient
            second = 0.999 * at.second + 0.001 * gradient**2
            direction = first / (1 - 0.9**t) / (jnp.sqrt(second / (1 - 0.999**t)) + 1e-8)
            d = at.table - rate * direction
            if relaxation == "sparsemax":
                d = sparsemax(d, places, _MICHELOT_STEPS)
            return _State(
                d,
                first,
                second,
                at.done + 1,
                jnp.where(better, value, at.least),
                jnp.where(better, at.table, at.best),
                jnp.where(better, 0, at.waited + 1),
            )

        patience = _PATIENCE[relaxation]
        return jax.lax.while_loop(lambda at: (at.done < until) & (at.waited < patience), step, state)

    return own_program(advance)


def draw_rows(model: RelaxedTable, rows: int, generator: np.random.Generator, allowed: Sequence[Allowed] = ()) -> Codes:
    """Randomised rounding: each attribute of each row by itself, with the relaxed row's probabilities.

    Args:
        model: the relaxed table.
        rows: how many; relaxed rows take turns.
        generator: of the draws.
        allowed: constraints; the attributes of each are drawn together.
    """
    parents = np.arange(rows) % model.probabilities.shape[1]
    return draw_each(model, groups_of(model.blocks, allowed), parents, generator).astype(np.int64)
