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
the shape bucket (T, n′, and for each size class of c the number of tiles), not on the cliques. Only one tile of U is
there at a time, so memory does not grow with the number of cells but for the cells themselves.

With σ_r true, the weighted residual Σ_r ‖(N·M_r(P) − y_r)/σ_r‖²/cells is about 1 when only noise is left. While it is
clearly more than that, Λ was too strong for this table: it is divided by 4 and the fit goes on from where it is.

Several devices share the work as a grid: relaxed rows along one axis (answers are summed over it), tiles along the
other (gradients are summed over it).

Source: Aydore et al. 2021, Algorithm 1 (RP), with whole marginals, weights and the KL term added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.core.marginal import Measurement
from dpsql.errors import DpsqlError
from dpsql.fitting.compilation import MOST_PROGRAMS, keep_programs, own_program
from dpsql.fitting.loading import Mesh, NamedSharding, PartitionSpec, jax, jnp
from dpsql.fitting.relaxation import Blocks, RelaxedTable
from dpsql.fitting.settings import TILE_ROWS, Fit, Settings, one_way_prior
from dpsql.runtime.aside import aside
from dpsql.runtime.progress import Progress

_LEVELS: Final = (8, 16, 32, 64, 104, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_CHUNK_SECONDS: Final = 0.3
_ATTEMPTS: Final = 4
_WEAKER: Final = 4.0
_ONLY_NOISE: Final = 1.05
_FLOOR: Final = 1e-30
_SPARSEMAX_RATE: Final = 0.05  # of the rate for logits
_MICHELOT_STEPS: Final = 12
_ROWS, _CLIQUES = "rows", "cliques"  # the axes of a grid of devices
_BETA1: Final = 0.9
_BETA2: Final = 0.99


@dataclass
class _Tiles:
    """The tiles of one size class, as arrays with a leading axis of tiles (padded to a power of two)."""

    index: npt.NDArray[np.int32]  # (tiles, R, factors) rows of P
    offset: npt.NDArray[np.int32]  # (tiles,) first row of c's block
    size: npt.NDArray[np.int32]  # (tiles,) size of c
    weight: npt.NDArray[np.float32]  # (tiles, R)
    target: npt.NDArray[np.float32]  # (tiles, R, C)
    count: npt.NDArray[np.int32]  # (shards,) tiles in use, the first ones of each shard


def pull_rule(measurements: Sequence[Measurement], total: float, attributes: int) -> float:
    """Λ = 3.5·G^{2/3} with G = N·√(2ρ·d̄/K); see the module."""
    rho = sum(float(m.rho) for m in measurements if m.clique)
    order = sum(float(m.rho) * len(m.clique) for m in measurements) / rho
    return float(3.5 * (total * math.sqrt(2 * rho * order / attributes)) ** (2 / 3))


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
    keep_programs()
    return aside(progress, partial(_fit, domain, measurements, total, settings, seed))


def _fit(
    domain: Domain, measurements: Sequence[Measurement], total: float, settings: Settings, seed: int, progress: Progress
) -> Fit:
    blocks = Blocks.of(domain)
    used = [m for m in measurements if m.clique and m.cells is None and m.variance > 0]
    prior = one_way_prior(domain, used, total)
    by_rule = settings.strength * pull_rule(used, total, len(domain)) if used else 1.0
    pull = by_rule if settings.pull is None else settings.pull
    scale = 1 / max(1.0, max((total**2 / float(m.variance) for m in used), default=1.0))
    precise = jax.default_matmul_precision("highest")  # GPUs would multiply float32 with 10 bits
    with precise, jax.enable_x64(settings.kind == "float64"):
        mesh = device_grid(settings.rows)
        layout = _layout(blocks, used, total, scale, mesh.shape[_CLIQUES])
        bucket = tuple(sorted((level, tiles.target.shape[:2]) for level, tiles in layout.items()))
        program = _program(blocks.sizes, settings.rows, bucket, settings.relaxation, settings.kind, mesh)
        state = _start(blocks, prior, settings, seed)
        cells = sum(len(m.values) for m in used)
        most = _ONLY_NOISE + 3 * math.sqrt(2 / max(cells, 1))
        taken = 0
        for attempt in range(_ATTEMPTS):
            steps = settings.steps if attempt == 0 else max(1, settings.steps // 2)
            state, probabilities, loss = program.run(
                state, layout, np.log(prior), pull * scale, settings.rate, steps, progress
            )
            if not (math.isfinite(loss) and np.isfinite(probabilities).all()):
                raise DpsqlError(
                    "the fit did not stay finite; the same call tries again from the stored measurements, free"
                )
            taken += steps
            residual = loss / scale / (cells / 2) if cells else 0.0
            if residual <= most or attempt == _ATTEMPTS - 1:
                break
            pull /= _WEAKER
    model = RelaxedTable(blocks, probabilities.astype(np.float32), total)
    return Fit(model, residual, taken, pull, residual <= most)


def _start(blocks: Blocks, prior: npt.NDArray[np.float64], settings: Settings, seed: int) -> npt.NDArray[np.float64]:
    """The parameters to begin from: near the 1-way marginals, every row a little elsewhere."""
    noise = np.random.default_rng(seed).normal(size=(blocks.width, settings.rows)) * settings.spread
    theta = np.log(prior)[:, None] + noise
    if settings.relaxation == "softmax":
        return theta
    exponential = np.exp(theta)
    ends = np.cumsum(blocks.sizes)
    sums = [exponential[end - size : end].sum(axis=0) for end, size in zip(ends, blocks.sizes, strict=True)]
    return np.asarray(exponential / np.repeat(sums, blocks.sizes, axis=0))


def device_grid(rows: int) -> Mesh:
    """All devices as a grid of rows × cliques; as many along the rows as divide n′, up to half when there are four."""
    devices = np.array(jax.devices())
    along = len(devices) if len(devices) < 4 else len(devices) // 2
    while rows % along or len(devices) % along:
        along -= 1
    return Mesh(devices.reshape(along, -1), (_ROWS, _CLIQUES))


def _tile_rows() -> int:
    return TILE_ROWS if jax.default_backend() == "cpu" else 8192


def _layout(
    blocks: Blocks, measurements: Sequence[Measurement], total: float, scale: float, shards: int = 1
) -> dict[int, _Tiles]:
    """Put every measured cell into tiles, by the size class of the clique's largest attribute, dealt to `shards`."""
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
    return {level: _tiles(blocks, level, factors, by_place, shards) for level, by_place in stacks.items()}


def _tiles(
    blocks: Blocks, level: int, factors: int, by_place: dict[int, list[tuple[Any, Any, float]]], shards: int
) -> _Tiles:
    rows = _tile_rows()
    needed = sum(-(-sum(len(index) for index, _, _ in stack) // rows) for stack in by_place.values())
    each = 1 << max(0, -(-needed // shards) - 1).bit_length()
    padded = each * shards
    tiles = _Tiles(
        np.full((padded, rows, factors), blocks.width, np.int32),
        np.zeros(padded, np.int32),
        np.zeros(padded, np.int32),
        np.zeros((padded, rows), np.float32),
        np.zeros((padded, rows, level), np.float32),
        np.array([len(range(shard, needed, shards)) for shard in range(shards)], np.int32),
    )
    number = 0
    for place, stack in by_place.items():
        index = np.concatenate([index for index, _, _ in stack])
        target = np.concatenate([target for _, target, _ in stack])
        weight = np.concatenate([np.full(len(index), weight, np.float32) for index, _, weight in stack])
        for begin in range(0, len(index), rows):
            part = slice(begin, begin + rows)
            length, tile = len(index[part]), number % shards * each + number // shards
            tiles.index[tile, :length] = index[part]
            tiles.target[tile, :length, : target.shape[1]] = target[part]
            tiles.weight[tile, :length] = weight[part]
            tiles.offset[tile], tiles.size[tile] = blocks.offsets[place], blocks.sizes[place]
            number += 1
    return tiles


def _places(axes: tuple[str | None, ...]) -> PartitionSpec:
    return PartitionSpec(*axes)  # type: ignore[no-untyped-call]


def _sum_over(axis: str, values: Any) -> Any:
    return jax.lax.psum(values, axis)  # type: ignore[no-untyped-call]


class _Program:
    """The compiled steps of one shape bucket."""

    def __init__(
        self, sizes: tuple[int, ...], rows: int, levels: tuple[int, ...], relaxation: str, kind: str, mesh: Mesh
    ) -> None:
        self.width, self.rows, self._relaxation = sum(sizes), rows, relaxation
        self._kind = np.dtype(kind).type
        self._padding = max(levels, default=0)  # a slice of a whole level may reach past the last block
        self._block = np.repeat(np.arange(len(sizes)), sizes)
        self._membership = np.eye(len(sizes), dtype=self._kind)[:, self._block]
        self._mesh, self._shared = mesh, mesh.size > 1
        self._advance = own_program(self._spread(self._steps) if self._shared else self._steps, donate_argnums=0)
        self._finish = own_program(self._table)

    def _spread(self, steps: Any) -> Any:
        """The same steps, each device with its relaxed rows and its tiles."""
        state, tiles, whole = map(_places, ((None, _ROWS), (_CLIQUES,), ()))
        constants = (tiles, whole, whole, whole)
        return jax.shard_map(
            steps,
            mesh=self._mesh,
            in_specs=((state,) * 3, constants, whole, whole, whole),
            out_specs=((state,) * 3, whole),
            check_vma=False,
        )

    def run(
        self,
        theta: npt.NDArray[np.float64],
        layout: dict[int, _Tiles],
        log_prior: npt.NDArray[np.float64],
        pull: float,
        rate: float,
        steps: int,
        progress: Progress,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
        """Take all steps, in chunks short enough to be interrupted; returns the parameters, P and the data loss."""
        by_tile = NamedSharding(self._mesh, _places((_CLIQUES,)))
        by_row = NamedSharding(self._mesh, _places((None, _ROWS)))
        real = self._kind
        tiles = {
            level: tuple(
                jax.device_put(array, by_tile)
                for array in (t.index, t.offset, t.size, t.weight.astype(real), t.target.astype(real), t.count)
            )
            for level, t in layout.items()
        }
        theta = theta.astype(real)
        state = tuple(jax.device_put(array, by_row) for array in (theta, 0 * theta, 0 * theta))
        constants = (tiles, log_prior.astype(real), real(pull), real(self._first_rate(rate)))
        progress.stage("fitting", steps)
        done, chunk, loss = 0, 1, real(0)
        while done < steps:
            chunk = min(chunk, steps - done)
            begin = time.monotonic()
            state, loss = self._advance(state, constants, np.int32(done), np.int32(chunk), real(steps))
            loss.block_until_ready()
            seconds = time.monotonic() - begin
            done += chunk
            progress.advance(chunk, f"loss {float(loss):.4g}")
            if done > 1:  # the first chunk includes the compilation
                chunk = max(1, min(2 * chunk, int(chunk * _CHUNK_SECONDS / max(seconds, 1e-6))))
        return np.asarray(state[0]), np.asarray(self._finish(state[0])), float(loss)

    def _first_rate(self, rate: float) -> float:
        return rate if self._relaxation == "softmax" else rate * _SPARSEMAX_RATE

    def _of_block(self, values: jax.Array) -> jax.Array:
        """Sums within each block, for each of its rows."""
        return jnp.take(jnp.asarray(self._membership) @ values, self._block, axis=0)

    def _table(self, theta: jax.Array) -> jax.Array:
        """P of the parameters. For softmax θ is kept at most about 0, so the exponential does not overflow."""
        if self._relaxation == "sparsemax":
            return theta
        weights = jnp.exp(theta)
        return weights / self._of_block(weights)

    def _nearest(self, theta: jax.Array) -> jax.Array:
        """Parameters after a step: θ shifted to log P, or P projected onto the simplex of each block (SparseMax)."""
        if self._relaxation == "softmax":
            return theta - jnp.log(self._of_block(jnp.exp(theta)))

        def shrink(_: int, tau: jax.Array) -> jax.Array:  # Michelot's iteration, see `dpsql.fitting.cells`
            inside = (theta > tau).astype(theta.dtype)
            return (self._of_block(inside * theta) - 1) / jnp.maximum(self._of_block(inside), 1)

        start = (self._of_block(theta) - 1) / self._of_block(jnp.ones_like(theta))
        positive = jnp.maximum(theta - jax.lax.fori_loop(0, _MICHELOT_STEPS, shrink, start), 0)
        return positive / self._of_block(positive)

    def _pull_gradient(self, p: jax.Array, log_prior: jax.Array) -> jax.Array:
        """Of KL(P‖p1); with SparseMax of its second order, ½Σ(P − p1)²/p1, for the logarithm forbids zeros."""
        if self._relaxation == "sparsemax":
            return p / jnp.exp(log_prior) - 1
        return jnp.log(p + _FLOOR) - log_prior

    def _steps(self, state: Any, constants: Any, done: jax.Array, count: jax.Array, steps: jax.Array) -> Any:
        tiles, log_prior, pull, rate = constants

        def step(i: jax.Array, carry: Any) -> Any:
            theta, first, second, _ = carry
            p = self._table(theta)
            loss, gradient = self._data_gradient(p, tiles)
            gradient += pull / self.rows * self._pull_gradient(p, log_prior[:, None])
            if self._relaxation == "softmax":
                gradient = p * (gradient - self._of_block(gradient * p))
            t = (done + i + 1).astype(p.dtype)
            first = _BETA1 * first + (1 - _BETA1) * gradient
            second = _BETA2 * second + (1 - _BETA2) * gradient**2
            decay = rate * 0.5 * (1 + jnp.cos(jnp.pi * t / steps))
            direction = first / (1 - _BETA1**t) / (jnp.sqrt(second / (1 - _BETA2**t)) + 1e-20)
            return self._nearest(theta - decay * direction), first, second, loss

        *state, loss = jax.lax.fori_loop(0, count, step, (*state, jnp.zeros((), self._kind)))
        return tuple(state), loss

    def _data_gradient(self, p: jax.Array, tiles: Any) -> tuple[jax.Array, jax.Array]:
        """Loss Σ w·½(M − y)² and its gradient with respect to P."""
        ones = jnp.ones((1, p.shape[1]), p.dtype)
        padded = jnp.concatenate([p, ones, jnp.zeros((self._padding, p.shape[1]), p.dtype)])
        carry = (jnp.zeros((), p.dtype), jnp.zeros_like(padded))
        for level, arrays in sorted(tiles.items()):
            *stacked, count = arrays
            body = partial(self._tile, padded, level, stacked)
            carry = jax.lax.fori_loop(0, count[0], body, carry)
        loss, gradient = carry
        if self._shared:
            loss, gradient = _sum_over(_CLIQUES, (loss, gradient))
        return loss, gradient[: self.width]

    def _tile(self, p: jax.Array, level: int, stacked: Any, i: jax.Array, carry: Any) -> Any:
        index, offset, size, weight, target = (jax.lax.dynamic_index_in_dim(a, i, keepdims=False) for a in stacked)
        loss, gradient = carry
        inside = jnp.arange(level) < size
        first = jnp.int32(0)
        c = jax.lax.dynamic_slice(p, (offset, first), (level, p.shape[1])) * inside[:, None]
        gathered = [p[index[:, j]] for j in range(index.shape[1])]
        u = _product(gathered, weight.shape[0], p)
        answers = u @ c.T
        if self._shared:
            answers = _sum_over(_ROWS, answers)
        residual = answers / self.rows - target
        d = weight[:, None] * residual * inside[None, :]
        loss += 0.5 * jnp.vdot(d, residual)
        d /= self.rows
        block = jax.lax.dynamic_slice(gradient, (offset, first), (level, p.shape[1])) + d.T @ u
        gradient = jax.lax.dynamic_update_slice(gradient, block, (offset, first))
        back = d @ c
        for j in range(index.shape[1]):
            others = [g for k, g in enumerate(gathered) if k != j]
            gradient = gradient.at[index[:, j]].add(back * _product(others, weight.shape[0], p))
        return loss, gradient


def _product(factors: Sequence[jax.Array], rows: int, p: jax.Array) -> jax.Array:
    if not factors:
        return jnp.ones((rows, p.shape[1]), p.dtype)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


@lru_cache(maxsize=MOST_PROGRAMS)
def _program(
    sizes: tuple[int, ...],
    rows: int,
    bucket: tuple[tuple[int, tuple[int, ...]], ...],
    relaxation: str,
    kind: str,
    mesh: Mesh,
) -> _Program:
    return _Program(sizes, rows, tuple(level for level, _ in bucket), relaxation, kind, mesh)
