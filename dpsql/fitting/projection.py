r"""Relaxed projection: fit a relaxed table to noisy marginals.

    minimise  Σ_r (N²/σ_r²)·½‖M_r(P) − y_r/N‖²  +  Λ · mean over rows of Σ_a KL(P_a ‖ p1_a)

over P = softmax(θ) per attribute, by Adam with a cosine schedule. y_r are the measured marginals (counts) of variance
σ_r², N the total, p1 the measured 1-way marginals. The second term pulls towards the maximum-entropy solution, the
product of the 1-way marginals, with the strength (from experiments on Adult, Loans and a third table)

    Λ = 3.5·G^{2/3},   G = N·√(2ρ·d̄/K)

where d̄ is the budget-weighted mean order of what was measured and K the number of attributes.

All measured cells are laid out in tiles. A tile holds R rows times one attribute c: row i stands for the values of the
clique's other attributes, as indices into P (an index of constant ones where there are fewer). Then

    U_i = Π_j P[index_ij],    M = U·P_cᵀ/n′,    D = w·(M − y)

gives answers, loss and gradient in three matrix products, whatever the clique. The compiled program depends only on
the shape bucket (T, n′, and for each size class of c the number of tiles), not on the cliques.

Source: Aydore et al. 2021, Algorithm 1 (RP), with whole marginals, weights and the KL term added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from dpsql.domain import Domain
from dpsql.errors import DpsqlError
from dpsql.fitting.relaxation import Blocks, RelaxedTable, simplex_projection
from dpsql.marginal import Measurement
from dpsql.progress import Progress

_LEVELS: Final = (8, 16, 32, 64, 104, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_CHUNK_SECONDS: Final = 0.3
_BETA1: Final = 0.9
_BETA2: Final = 0.99


@dataclass(frozen=True)
class Settings:
    """How to fit. The defaults are one rule for every table and ε.

    Attributes:
        rows: n′, relaxed rows.
        steps: Adam steps.
        rate: Adam's first learning rate, decaying to 0 by a cosine.
        spread: standard deviation of the noise on θ that the rows start from.
        pull: Λ; None for the rule.
    """

    rows: int = 512
    steps: int = 500
    rate: float = 0.4
    spread: float = 0.3
    pull: float | None = None


@dataclass(frozen=True)
class Fit:
    """A fitted model and how well it meets the measurements.

    Attributes:
        model: the relaxed table.
        residual: mean over cells of (answer − measurement)²/σ²; about 1 when only noise is left.
        steps: steps taken.
        pull: Λ used.
    """

    model: RelaxedTable
    residual: float
    steps: int
    pull: float


@dataclass
class _Tiles:
    """The tiles of one size class, as arrays with a leading axis of tiles (padded to a power of two)."""

    index: npt.NDArray[np.int32]  # (tiles, R, factors) rows of P
    offset: npt.NDArray[np.int32]  # (tiles,) first row of c's block
    size: npt.NDArray[np.int32]  # (tiles,) size of c
    weight: npt.NDArray[np.float32]  # (tiles, R)
    target: npt.NDArray[np.float32]  # (tiles, R, C)
    count: int


def pull_rule(measurements: Sequence[Measurement], total: float, attributes: int) -> float:
    """Λ = 3.5·G^{2/3} with G = N·√(2ρ·d̄/K); see the module."""
    rho = sum(float(m.rho) for m in measurements if m.clique)
    order = sum(float(m.rho) * len(m.clique) for m in measurements) / rho
    return float(3.5 * (total * math.sqrt(2 * rho * order / attributes)) ** (2 / 3))


def best_total(measurements: Iterable[Measurement]) -> float:
    """The number of rows: the sums of all whole marginals, weighted by the inverse of their variances; at least 1.

    A marginal of c cells sums to the total with variance c·σ².
    """
    weights = total = 0.0
    for measurement in measurements:
        if measurement.cells is not None:
            continue
        variance = float(measurement.variance) * len(measurement.values)
        if variance == 0:
            return max(1.0, float(measurement.values.sum()))
        total += float(measurement.values.sum()) / variance
        weights += 1 / variance
    return max(1.0, total / weights) if weights else 1.0


def fit_marginals(
    domain: Domain, measurements: Sequence[Measurement], total: float, settings: Settings, seed: int, progress: Progress
) -> Fit:
    """Fit a relaxed table to whole marginals.

    Args:
        domain: the attributes.
        measurements: whole marginals; 1-way ones start the rows and pull them.
        total: N, rows.
        settings: how.
        seed: of the starting noise; it touches no private data.
        progress: told of each chunk of steps; may raise `Interrupted`.

    Raises:
        DpsqlError: the loss is not finite; NaN never leaves a fit.

    Returns:
        The fit; the same arguments give the same one on the same machine.
    """
    blocks = Blocks.of(domain)
    used = [m for m in measurements if m.clique and m.cells is None and m.variance > 0]
    prior = one_way_prior(domain, used, total)
    pull = settings.pull if settings.pull is not None else pull_rule(used, total, len(domain)) if used else 1.0
    scale = 1 / max(1.0, max((total**2 / float(m.variance) for m in used), default=1.0))
    layout = _layout(blocks, used, total, scale)
    start = np.random.default_rng(seed).normal(size=(blocks.width, settings.rows)) * settings.spread
    theta = np.log(prior)[:, None] + start
    program = _program(blocks.sizes, settings.rows, tuple(sorted((c, t.target.shape[:2]) for c, t in layout.items())))
    probabilities, loss = program.run(theta, layout, np.log(prior), pull * scale, settings, progress)
    if not math.isfinite(loss):
        raise DpsqlError("the fit did not stay finite; the same call tries again from the stored measurements, free")
    cells = sum(len(m.values) for m in used)
    residual = loss / scale / (cells / 2) if cells else 0.0
    return Fit(RelaxedTable(blocks, probabilities, total), residual, settings.steps, pull)


def one_way_prior(domain: Domain, measurements: Sequence[Measurement], total: float) -> npt.NDArray[np.float64]:
    """p1: each attribute's measured 1-way marginal as a positive probability vector; uniform if not measured.

    Shape (T,).
    """
    by_clique = {m.clique: m for m in measurements if len(m.clique) == 1}
    parts = []
    for attribute in domain:
        measured = by_clique.get((attribute.name,))
        if measured is None:
            parts.append(np.full(attribute.size, 1 / attribute.size))
            continue
        share = simplex_projection(measured.values / total)
        floor = 0.1 / max(total, 10.0)
        parts.append((share + floor) / (1 + floor * attribute.size))
    return np.concatenate(parts)


def _tile_rows() -> int:
    return 512 if jax.default_backend() == "cpu" else 8192


def _layout(blocks: Blocks, measurements: Sequence[Measurement], total: float, scale: float) -> dict[int, _Tiles]:
    """Put every measured cell into tiles, by the size class of the clique's largest attribute."""
    ones = blocks.width
    factors = max((len(m.clique) for m in measurements), default=1) - 1
    stacks: dict[int, dict[int, list[tuple[Any, Any, float]]]] = {}
    for measurement in measurements:
        places = [blocks.names.index(name) for name in measurement.clique]
        last = max(range(len(places)), key=lambda k: blocks.sizes[places[k]])
        others = [k for k in range(len(places)) if k != last]
        values = measurement.values.reshape(measurement.shape).transpose([*others, last])
        target = values.reshape(-1, measurement.shape[last]) / total
        index = np.full((len(target), factors), ones, np.int32)
        codes = np.unravel_index(np.arange(len(target)), [measurement.shape[k] for k in others]) if others else ()
        for column, (k, code) in enumerate(zip(others, codes, strict=True)):
            index[:, column] = code + blocks.offsets[places[k]]
        weight = scale * total**2 / float(measurement.variance)
        level = next(level for level in (*_LEVELS, blocks.sizes[places[last]]) if level >= blocks.sizes[places[last]])
        stacks.setdefault(level, {}).setdefault(places[last], []).append((index, target, weight))
    return {level: _tiles(blocks, level, factors, by_place) for level, by_place in stacks.items()}


def _tiles(blocks: Blocks, level: int, factors: int, by_place: dict[int, list[tuple[Any, Any, float]]]) -> _Tiles:
    rows = _tile_rows()
    needed = sum(-(-sum(len(index) for index, _, _ in stack) // rows) for stack in by_place.values())
    padded = 1 << max(0, needed - 1).bit_length()
    tiles = _Tiles(
        np.full((padded, rows, factors), blocks.width, np.int32),
        np.zeros(padded, np.int32),
        np.zeros(padded, np.int32),
        np.zeros((padded, rows), np.float32),
        np.zeros((padded, rows, level), np.float32),
        needed,
    )
    tile = 0
    for place, stack in by_place.items():
        index = np.concatenate([index for index, _, _ in stack])
        target = np.concatenate([target for _, target, _ in stack])
        weight = np.concatenate([np.full(len(index), weight, np.float32) for index, _, weight in stack])
        for begin in range(0, len(index), rows):
            part = slice(begin, begin + rows)
            length = len(index[part])
            tiles.index[tile, :length] = index[part]
            tiles.target[tile, :length, : target.shape[1]] = target[part]
            tiles.weight[tile, :length] = weight[part]
            tiles.offset[tile], tiles.size[tile] = blocks.offsets[place], blocks.sizes[place]
            tile += 1
    return tiles


class _Program:
    """The compiled steps of one shape bucket."""

    def __init__(self, sizes: tuple[int, ...], rows: int, levels: tuple[int, ...]) -> None:
        self.width, self.rows = sum(sizes), rows
        self._padding = max(levels, default=0)  # a slice of a whole level may reach past the last block
        block = np.repeat(np.arange(len(sizes)), sizes)
        self._block = jnp.asarray(block)
        self._membership = jnp.asarray(np.eye(len(sizes), dtype=np.float32)[:, block])
        self._advance = jax.jit(self._steps)

    def run(
        self,
        theta: npt.NDArray[np.float64],
        layout: dict[int, _Tiles],
        log_prior: npt.NDArray[np.float64],
        pull: float,
        settings: Settings,
        progress: Progress,
    ) -> tuple[npt.NDArray[np.float32], float]:
        """Take all steps, in chunks short enough to be interrupted; returns P and the data loss."""
        tiles = {
            level: tuple(map(jnp.asarray, (t.index, t.offset, t.size, t.weight, t.target, np.int32(t.count))))
            for level, t in layout.items()
        }
        zero = jnp.zeros((self.width, self.rows), jnp.float32)
        state = (jnp.asarray(theta, jnp.float32), zero, zero)
        constants = (tiles, jnp.asarray(log_prior, jnp.float32), jnp.float32(pull), jnp.float32(settings.rate))
        progress.stage("fitting", settings.steps)
        done, chunk, loss = 0, 1, jnp.float32(0)
        while done < settings.steps:
            chunk = min(chunk, settings.steps - done)
            begin = time.monotonic()
            state, loss = self._advance(
                state, constants, jnp.int32(done), jnp.int32(chunk), jnp.float32(settings.steps)
            )
            loss.block_until_ready()
            seconds = time.monotonic() - begin
            done += chunk
            progress.advance(chunk, f"loss {float(loss):.4g}")
            if done > 1:  # the first chunk includes the compilation
                chunk = max(1, min(2 * chunk, int(chunk * _CHUNK_SECONDS / max(seconds, 1e-6))))
        return np.asarray(self._softmax(state[0])), float(loss)

    def _softmax(self, theta: jax.Array) -> jax.Array:
        """Softmax within each block; θ is kept at most about 0, so the exponential does not overflow."""
        weights = jnp.exp(theta)
        return weights / jnp.take(self._membership @ weights, self._block, axis=0)

    def _steps(self, state: Any, constants: Any, done: jax.Array, count: jax.Array, steps: jax.Array) -> Any:
        tiles, log_prior, pull, rate = constants

        def step(i: jax.Array, carry: Any) -> Any:
            theta, first, second, _ = carry
            p = self._softmax(theta)
            loss, gradient = self._data_gradient(p, tiles)
            gradient += pull / self.rows * (jnp.log(p + 1e-30) - log_prior[:, None])
            inner = jnp.take(self._membership @ (gradient * p), self._block, axis=0)
            gradient = p * (gradient - inner)
            t = (done + i + 1).astype(jnp.float32)
            first = _BETA1 * first + (1 - _BETA1) * gradient
            second = _BETA2 * second + (1 - _BETA2) * gradient**2
            decay = rate * 0.5 * (1 + jnp.cos(jnp.pi * t / steps))
            direction = first / (1 - _BETA1**t) / (jnp.sqrt(second / (1 - _BETA2**t)) + 1e-20)
            theta = theta - decay * direction
            theta -= jnp.take(jnp.log(self._membership @ jnp.exp(theta)), self._block, axis=0)
            return theta, first, second, loss

        *state, loss = jax.lax.fori_loop(0, count, step, (*state, jnp.float32(0)))
        return tuple(state), loss

    def _data_gradient(self, p: jax.Array, tiles: Any) -> tuple[jax.Array, jax.Array]:
        """Loss Σ w·½(M − y)² and its gradient with respect to P."""
        ones = jnp.ones((1, self.rows), p.dtype)
        padded = jnp.concatenate([p, ones, jnp.zeros((self._padding, self.rows), p.dtype)])
        carry = (jnp.float32(0), jnp.zeros_like(padded))
        for level, arrays in sorted(tiles.items()):
            *stacked, count = arrays
            body = partial(self._tile, padded, level, stacked)
            carry = jax.lax.fori_loop(0, count, body, carry)
        loss, gradient = carry
        return loss, gradient[: self.width]

    def _tile(self, p: jax.Array, level: int, stacked: Any, i: jax.Array, carry: Any) -> Any:
        index, offset, size, weight, target = (jax.lax.dynamic_index_in_dim(a, i, keepdims=False) for a in stacked)
        loss, gradient = carry
        c = jax.lax.dynamic_slice(p, (offset, 0), (level, self.rows)) * (jnp.arange(level) < size)[:, None]
        gathered = [p[index[:, j]] for j in range(index.shape[1])]
        u = _product(gathered, weight.shape[0], self.rows)
        residual = (u @ c.T) / self.rows - target
        d = weight[:, None] * residual * (jnp.arange(level) < size)[None, :]
        loss += 0.5 * jnp.vdot(d, residual)
        d /= self.rows
        block = jax.lax.dynamic_slice(gradient, (offset, 0), (level, self.rows)) + d.T @ u
        gradient = jax.lax.dynamic_update_slice(gradient, block, (offset, 0))
        back = d @ c
        for j in range(index.shape[1]):
            others = [g for k, g in enumerate(gathered) if k != j]
            part = back * _product(others, weight.shape[0], self.rows)
            gradient = gradient.at[index[:, j]].add(part)
        return loss, gradient


def _product(factors: Sequence[jax.Array], rows: int, columns: int) -> jax.Array:
    if not factors:
        return jnp.ones((rows, columns), jnp.float32)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


@lru_cache(maxsize=8)
def _program(sizes: tuple[int, ...], rows: int, bucket: tuple[tuple[int, tuple[int, ...]], ...]) -> _Program:
    return _Program(sizes, rows, tuple(level for level, _ in bucket))
