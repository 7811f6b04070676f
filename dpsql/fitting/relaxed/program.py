"""The compiled steps of a relaxed projection, on tiles (`dpsql.fitting.relaxed.tiles`).

    U_i = Π_j P[index_ij],    M = U·P_cᵀ/n′,    D = w·(M − y)

give answers, loss and gradient in three matrix products, whatever the clique. The compiled program depends only on the
shape bucket (T, n′, and for each size class of c the number of tiles), not on the cliques. Only one tile of U is there
at a time, so memory does not grow with the number of cells but for the cells themselves.

The first steps may be thinned: each sees every second tile with twice its weight, in turn. Adam averages over some ten
steps, so it hardly sees the difference, and such a step takes half the time. A size class of few tiles is seen whole.

Several devices share the work as a grid: relaxed rows along one axis (answers are summed over it), tiles along the
other (gradients are summed over it).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.fitting.compilation import MOST_PROGRAMS, own_program
from dpsql.fitting.loading import Mesh, NamedSharding, PartitionSpec, jax, jnp
from dpsql.fitting.relaxed.functionals import Functionals
from dpsql.fitting.relaxed.looks import Looks
from dpsql.fitting.relaxed.tiles import Tiles
from dpsql.runtime.progress import Progress

_CHUNK_SECONDS: Final = 0.3
_SPARSEMAX_RATE: Final = 0.05  # of the rate for logits
_MICHELOT_STEPS: Final = 12
_ROWS: Final = "rows"  # an axis of a grid of devices
CLIQUES: Final = "cliques"  # the other axis
_BETA1: Final = 0.9
_BETA2: Final = 0.99
_THINNED_BY: Final = 2
_FEW_TILES: Final = 8


def device_grid(rows: int) -> Mesh:
    """All devices as a grid of rows × cliques; as many along the rows as divide n′, up to half when there are four."""
    devices = np.array(jax.devices())
    along = len(devices) if len(devices) < 4 else len(devices) // 2
    while rows % along or len(devices) % along:
        along -= 1
    return Mesh(devices.reshape(along, -1), (_ROWS, CLIQUES))


@lru_cache(maxsize=MOST_PROGRAMS)
def program_of(
    sizes: tuple[int, ...],
    rows: int,
    bucket: tuple[tuple[int, tuple[int, ...]], ...],
    relaxation: str,
    kind: str,
    mesh: Mesh,
) -> TileProgram:
    """The compiled steps of a shape bucket: those of an earlier fit if there are some."""
    return TileProgram(sizes, rows, tuple(level for level, _ in bucket), relaxation, kind, mesh)


class TileProgram:
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
        state, tiles, whole = map(_places, ((None, _ROWS), (CLIQUES,), ()))
        constants = (tiles, (tiles, whole, whole), state, whole, whole, whole, whole)
        return jax.shard_map(
            steps,
            mesh=self._mesh,
            in_specs=((state,) * 3, constants, whole, whole, whole, whole),
            out_specs=((state,) * 3, whole),
            check_vma=False,
        )

    def run(
        self,
        theta: npt.NDArray[np.float64],
        layout: dict[int, Tiles],
        functionals: Functionals,
        log_prior: npt.NDArray[np.float64],
        sums: npt.NDArray[np.float32],
        smooth: npt.NDArray[np.float64],
        pull: float,
        rate: float,
        steps: int,
        thinned: float,
        looks: Looks,
        progress: Progress,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float, int]:
        """Take steps, in chunks short enough to be interrupted; returns the parameters, P, the data loss and how many.

        Args:
            theta: where to begin; log P, or P with SparseMax.
            layout: the measured cells.
            functionals: the linear queries.
            log_prior: of what each row is pulled to, shape (T, n′).
            sums: which of the first rows of P each further row adds up, 0 or 1 (`dpsql.fitting.relaxed.views`).
            smooth: κ·min(p1_v, p1_{v+1}) of each value and the next one, 0 for the last of a column, shape (T,).
            pull: Λ.
            rate: Adam's first.
            steps: how many at most.
            thinned: the part of them that are, the first ones; the last never is, so that the loss is of all tiles.
            looks: whether they end earlier; a step before a look is not thinned either.
            progress: notified of each chunk.
        """
        by_row, real = NamedSharding(self._mesh, _places((None, _ROWS))), self._kind
        theta = theta.astype(real)
        state = tuple(jax.device_put(array, by_row) for array in (theta, 0 * theta, 0 * theta))
        scalars = (real(pull), real(self._first_rate(rate)))
        pulled_to = jax.device_put(log_prior.astype(real), by_row)
        placed = self._placed(layout, functionals)
        constants = (*placed, pulled_to, sums.astype(real), smooth.astype(real), *scalars)
        progress.stage("fitting", steps)
        done, chunk, loss, whole = 0, 1, real(0), sorted({*looks.after(steps), steps})
        while done < steps:
            until = next(step for step in whole if step > done)
            chunk = min(chunk, max(1, until - 1 - done))
            first_whole = done if done == until - 1 else min(int(thinned * steps), steps - 1)
            begin = time.monotonic()
            counts = (np.int32(done), np.int32(chunk), real(steps), np.int32(first_whole))
            state, loss = self._advance(state, constants, *counts)
            loss.block_until_ready()
            seconds = time.monotonic() - begin
            done += chunk
            progress.advance(chunk, f"loss {float(loss):.4g}")
            if done == until < steps and looks.end(done, steps, float(loss)):
                break
            if done > 1:  # the first chunk includes the compilation
                chunk = max(1, min(2 * chunk, int(chunk * _CHUNK_SECONDS / max(seconds, 1e-6))))
        return np.asarray(state[0]), np.asarray(self._finish(state[0])), float(loss), done

    def _placed(self, layout: dict[int, Tiles], functionals: Functionals) -> tuple[Any, Any]:
        """The measured cells and the linear queries, on the devices."""
        by_tile, real = NamedSharding(self._mesh, _places((CLIQUES,))), self._kind

        def put(arrays: Sequence[npt.NDArray[Any]]) -> tuple[Any, ...]:
            return tuple(
                jax.device_put(array.astype(real) if array.dtype.kind == "f" else array, by_tile) for array in arrays
            )

        tiles = {level: put((t.index, t.offset, t.size, t.weight, t.target, t.count)) for level, t in layout.items()}
        linear = {level: put(arrays) for level, arrays in functionals.tiles.items()}
        return tiles, (linear, functionals.target.astype(real), functionals.weight.astype(real))

    def _first_rate(self, rate: float) -> float:
        return rate if self._relaxation == "softmax" else rate * _SPARSEMAX_RATE

    def _of_block(self, values: jax.Array) -> jax.Array:
        """Sums within each block, for each of its rows."""
        return jnp.take(jnp.asarray(self._membership) @ values, self._block, axis=0)

    def _table(self, theta: jax.Array) -> jax.Array:
        """P of the parameters. For softmax θ is log P, before and after each step: one exponential serves."""
        return theta if self._relaxation == "sparsemax" else jnp.exp(theta)

    def _nearest(self, theta: jax.Array) -> jax.Array:
        """Parameters after a step: θ shifted to log P, or P projected onto the simplex of each block (SparseMax)."""
        if self._relaxation == "softmax":
            return theta - jnp.log(self._of_block(jnp.exp(theta)))

        def shrink(_: int, tau: jax.Array) -> jax.Array:  # Michelot's iteration, see `dpsql.fitting.relaxed.fit_cells`
            inside = (theta > tau).astype(theta.dtype)
            return (self._of_block(inside * theta) - 1) / jnp.maximum(self._of_block(inside), 1)

        start = (self._of_block(theta) - 1) / self._of_block(jnp.ones_like(theta))
        positive = jnp.maximum(theta - jax.lax.fori_loop(0, _MICHELOT_STEPS, shrink, start), 0)
        return positive / self._of_block(positive)

    def _pulled(
        self,
        theta: jax.Array,
        p: jax.Array,
        gradient: jax.Array,
        log_prior: jax.Array,
        smooth: jax.Array,
        pull: jax.Array,
    ) -> jax.Array:
        """The gradient with respect to θ, the pull and the smoothness of ordered columns added.

        With SparseMax the pull is that of KL's second order, ½Σ(P − p1)²/p1, for the logarithm forbids zeros, and there
        is no smoothness.
        """
        if self._relaxation == "sparsemax":
            return gradient + pull * (p / jnp.exp(log_prior) - 1)
        ratio = theta - log_prior
        gradient += pull * ratio
        gradient = p * (gradient - self._of_block(gradient * p))
        steps = pull * smooth[:-1, None] * jnp.clip(ratio[1:] - ratio[:-1], -1, 1)
        end = jnp.zeros((1, p.shape[1]), p.dtype)
        return gradient + jnp.concatenate([end, steps]) - jnp.concatenate([steps, end])

    def _steps(
        self, state: Any, constants: Any, done: jax.Array, count: jax.Array, steps: jax.Array, thinned: jax.Array
    ) -> Any:
        tiles, linear, log_prior, sums, smooth, pull, rate = constants

        def step(i: jax.Array, carry: Any) -> Any:
            theta, first, second, _ = carry
            p = self._table(theta)
            every = jnp.where(done + i < thinned, _THINNED_BY, 1).astype(jnp.int32)
            loss, gradient = self._data_gradient(p, tiles, linear, sums, every, (done + i) % every)
            gradient = self._pulled(theta, p, gradient, log_prior, smooth, pull / self.rows)
            t = (done + i + 1).astype(p.dtype)
            first = _BETA1 * first + (1 - _BETA1) * gradient
            second = _BETA2 * second + (1 - _BETA2) * gradient**2
            decay = rate * 0.5 * (1 + jnp.cos(jnp.pi * t / steps))
            direction = first / (1 - _BETA1**t) / (jnp.sqrt(second / (1 - _BETA2**t)) + 1e-20)
            return self._nearest(theta - decay * direction), first, second, loss

        *state, loss = jax.lax.fori_loop(0, count, step, (*state, jnp.zeros((), self._kind)))
        return tuple(state), loss

    def _data_gradient(
        self, p: jax.Array, tiles: Any, linear: Any, sums: jax.Array, every: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Loss Σ w·½(M − y)² and its gradient with respect to P, by every so many-th tile from the `first` on.

        Linear queries, if there are some, come whole.
        """
        ones = jnp.ones((1, p.shape[1]), p.dtype)
        views = sums @ p[: sums.shape[1]]
        padded = jnp.concatenate([p, views, ones, jnp.zeros((self._padding, p.shape[1]), p.dtype)])
        carry = (jnp.zeros((), p.dtype), jnp.zeros_like(padded))
        for level, arrays in sorted(tiles.items()):
            *stacked, count = arrays
            few = count[0] < _FEW_TILES
            apart, begin = jnp.where(few, 1, every), jnp.where(few, 0, first)
            body = partial(self._tile, padded, level, stacked, apart, begin)
            carry = jax.lax.fori_loop(0, (count[0] - begin + apart - 1) // apart, body, carry)
        loss, gradient = carry
        of_linear = jnp.zeros((), p.dtype)
        if linear[0]:
            of_linear, gradient = self._functional_gradient(padded, linear, gradient)
        if self._shared:
            loss, gradient = _sum_over(CLIQUES, (loss, gradient))
        loss += of_linear
        of_views = sums.T @ gradient[self.width : self.width + sums.shape[0]]
        return loss, gradient[: self.width].at[: sums.shape[1]].add(of_views)

    def _tile(
        self, p: jax.Array, level: int, stacked: Any, apart: jax.Array, begin: jax.Array, i: jax.Array, carry: Any
    ) -> Any:
        index, offset, size, weight, target = (
            jax.lax.dynamic_index_in_dim(a, begin + i * apart, keepdims=False) for a in stacked
        )
        weight = weight * apart.astype(p.dtype)
        loss, gradient = carry
        inside = jnp.arange(level) < size
        c, gathered, u = self._factors(p, level, index, offset, size)
        answers = u @ c.T
        if self._shared:
            answers = _sum_over(_ROWS, answers)
        residual = answers / self.rows - target
        d = weight[:, None] * residual * inside[None, :]
        loss += 0.5 * jnp.vdot(d, residual)
        return loss, _moved_back(gradient, d / self.rows, c, gathered, u, index, offset, level)

    def _factors(
        self, p: jax.Array, level: int, index: jax.Array, offset: jax.Array, size: jax.Array
    ) -> tuple[jax.Array, list[jax.Array], jax.Array]:
        """P_c of a tile, the rows of P of the other attributes, and their product U."""
        inside = jnp.arange(level) < size
        c = jax.lax.dynamic_slice(p, (offset, jnp.int32(0)), (level, p.shape[1])) * inside[:, None]
        gathered = [p[index[:, j]] for j in range(index.shape[1])]
        return c, gathered, _product(gathered, index.shape[0], p)

    def _functional_gradient(self, p: jax.Array, linear: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The loss of linear queries, and the gradient with theirs: see `dpsql.fitting.relaxed.functionals`."""
        by_level, target, weight = linear

        def answered(level: int, stacked: Any, i: jax.Array, known: jax.Array) -> jax.Array:
            index, offset, size, phi, group = (jax.lax.dynamic_index_in_dim(a, i, keepdims=False) for a in stacked)
            c, _, u = self._factors(p, level, index, offset, size)
            return known.at[group].add(phi * (u @ c.T))

        def moved(level: int, stacked: Any, pushed: jax.Array, i: jax.Array, moving: jax.Array) -> jax.Array:
            index, offset, size, phi, group = (jax.lax.dynamic_index_in_dim(a, i, keepdims=False) for a in stacked)
            c, gathered, u = self._factors(p, level, index, offset, size)
            return _moved_back(moving, phi * pushed[group] / self.rows, c, gathered, u, index, offset, level)

        known = jnp.zeros_like(target)
        for level, (*stacked, count) in sorted(by_level.items()):
            known = jax.lax.fori_loop(0, count[0], partial(answered, level, stacked), known)
        if self._shared:
            known = _sum_over(CLIQUES, _sum_over(_ROWS, known))
        gap = known / self.rows - target
        for level, (*stacked, count) in sorted(by_level.items()):
            gradient = jax.lax.fori_loop(0, count[0], partial(moved, level, stacked, weight * gap), gradient)
        return 0.5 * jnp.vdot(weight * gap, gap), gradient


def _moved_back(
    gradient: jax.Array,
    d: jax.Array,
    c: jax.Array,
    gathered: Sequence[jax.Array],
    u: jax.Array,
    index: jax.Array,
    offset: jax.Array,
    level: int,
) -> jax.Array:
    """The gradient with that of a tile whose answers have the gradient d."""
    first, p = jnp.int32(0), gradient
    block = jax.lax.dynamic_slice(gradient, (offset, first), (level, p.shape[1])) + d.T @ u
    gradient = jax.lax.dynamic_update_slice(gradient, block, (offset, first))
    back = d @ c
    for j in range(index.shape[1]):
        others = [g for k, g in enumerate(gathered) if k != j]
        gradient = gradient.at[index[:, j]].add(back * _product(others, index.shape[0], p))
    return gradient


def _product(factors: Sequence[jax.Array], rows: int, p: jax.Array) -> jax.Array:
    if not factors:
        return jnp.ones((rows, p.shape[1]), p.dtype)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _places(axes: tuple[str | None, ...]) -> PartitionSpec:
    return PartitionSpec(*axes)  # type: ignore[no-untyped-call]


def _sum_over(axis: str, values: Any) -> Any:
    return jax.lax.psum(values, axis)  # type: ignore[no-untyped-call]
