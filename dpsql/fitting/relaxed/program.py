"""The compiled steps of a relaxed projection: Adam on the parameters of P, by the gradient of tiles (`gradient`).

The compiled program depends only on the shape bucket (T, n′, and for each size class of c the number of tiles), not on
the cliques.

Several devices share the work as a grid: relaxed rows along one axis (answers are summed over it), tiles along the
other (gradients are summed over it).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.fitting.compilation import MOST_PROGRAMS, own_program
from dpsql.fitting.devices import devices_for
from dpsql.fitting.loading import Mesh, NamedSharding, PartitionSpec, jax, jnp
from dpsql.fitting.relaxed.functionals import Functionals
from dpsql.fitting.relaxed.gradient import CLIQUES, ROWS, Gradient
from dpsql.fitting.relaxed.looks import Looks
from dpsql.fitting.relaxed.settings import TILE_ROWS
from dpsql.fitting.relaxed.tiles import Tiles
from dpsql.runtime.progress import Progress

_CHUNK_SECONDS: Final = 0.3
_SPARSEMAX_RATE: Final = 0.05  # of the rate for logits
_MICHELOT_STEPS: Final = 12
_BETA1: Final = 0.9
_BETA2: Final = 0.99
_THINNED_BY: Final = 2
_BATCH: Final = 2**26  # numbers of U at once on a device that is no CPU


def device_grid(rows: int, work: float = math.inf) -> Mesh:
    """The devices of a fit as a grid of rows × cliques; as many along the rows as divide n′, at most half of four.

    Args:
        rows: n′.
        work: see `devices_for`.
    """
    devices = np.array(devices_for(work))
    along = len(devices) if len(devices) < 4 else len(devices) // 2
    while rows % along or len(devices) % along:
        along -= 1
    return Mesh(devices.reshape(along, -1), (ROWS, CLIQUES))


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
    batch = 0 if mesh.devices.flat[0].platform == "cpu" else _BATCH
    return TileProgram(sizes, rows, tuple(level for level, _ in bucket), relaxation, kind, mesh, batch)


class TileProgram:
    """The compiled steps of one shape bucket.

    Args:
        sizes: of the blocks of P.
        rows: n′.
        levels: the size classes of c.
        relaxation, kind: see `Settings`.
        mesh: the devices.
        batch: how many numbers of U may be there at once, in whole tiles; one tile at least.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        rows: int,
        levels: tuple[int, ...],
        relaxation: str,
        kind: str,
        mesh: Mesh,
        batch: int = 0,
    ) -> None:
        self.width, self.rows, self._relaxation = sum(sizes), rows, relaxation
        self._kind = np.dtype(kind).type
        self._block = np.repeat(np.arange(len(sizes)), sizes)
        self._membership = np.eye(len(sizes), dtype=self._kind)[:, self._block]
        self._mesh, self._shared = mesh, mesh.size > 1
        self._gradient = Gradient(rows, max(levels, default=0), max(1, batch // (TILE_ROWS * rows)), self._shared)
        self._advance = own_program(self._spread(self._steps) if self._shared else self._steps, donate_argnums=0)
        self._finish = own_program(self._table)

    def _spread(self, steps: Any) -> Any:
        """The same steps, each device with its relaxed rows and its tiles."""
        state, tiles, whole = map(_places, ((None, ROWS), (CLIQUES,), ()))
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
        sums: tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]],
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
            sums: `Views.sums`, and an array with as many rows as there are of V (`dpsql.fitting.relaxed.views`).
            smooth: κ·min(p1_v, p1_{v+1}) of each value and the next one, 0 for the last of a column, shape (T,).
            pull: Λ.
            rate: Adam's first.
            steps: how many at most.
            thinned: the part of them that are, the first ones; the last never is, so that the loss is of all tiles.
            looks: whether they end earlier; a step before a look is not thinned either.
            progress: notified of each chunk.
        """
        by_row, real = NamedSharding(self._mesh, _places((None, ROWS))), self._kind
        theta = theta.astype(real)
        state = tuple(jax.device_put(array, by_row) for array in (theta, 0 * theta, 0 * theta))
        scalars = (real(pull), real(self._first_rate(rate)))
        pulled_to = jax.device_put(log_prior.astype(real), by_row)
        placed = self._placed(layout, functionals)
        constants = (*placed, pulled_to, sums, smooth.astype(real), *scalars)
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
            loss, gradient = self._gradient.of(p, tiles, linear, sums, every, (done + i) % every)
            gradient = self._pulled(theta, p, gradient, log_prior, smooth, pull / self.rows)
            t = (done + i + 1).astype(p.dtype)
            first = _BETA1 * first + (1 - _BETA1) * gradient
            second = _BETA2 * second + (1 - _BETA2) * gradient**2
            decay = rate * 0.5 * (1 + jnp.cos(jnp.pi * t / steps))
            direction = first / (1 - _BETA1**t) / (jnp.sqrt(second / (1 - _BETA2**t)) + 1e-20)
            return self._nearest(theta - decay * direction), first, second, loss

        *state, loss = jax.lax.fori_loop(0, count, step, (*state, jnp.zeros((), self._kind)))
        return tuple(state), loss


def _places(axes: tuple[str | None, ...]) -> PartitionSpec:
    return PartitionSpec(*axes)  # type: ignore[no-untyped-call]
