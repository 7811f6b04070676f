"""The loss of measured cells and its gradient with respect to P, tile by tile (`dpsql.fitting.relaxed.tiles`).

    U_i = Π_j P[index_ij],    M = U·P_cᵀ/n′,    D = w·(M − y)

give answers, loss and gradient in three matrix products, whatever the clique. Only one tile of U is there at a time on
a CPU, and on other devices a batch of them, which keeps those busy. So memory does not grow with the number of cells
but for the cells themselves.

The first steps may be thinned: each sees every second tile with twice its weight, in turn. Adam averages over some ten
steps, so it hardly sees the difference, and such a step takes half the time. A size class of few tiles is seen whole.
Every fourth tile is too few: mean L1 of Adult at ε = 1 gets 1 % worse on the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dpsql.fitting.loading import jax, jnp

ROWS: Final = "rows"  # an axis of a grid of devices
CLIQUES: Final = "cliques"  # the other axis
_FEW_TILES: Final = 4


@dataclass(frozen=True)
class Gradient:
    """The loss and the gradient of one shape bucket.

    Attributes:
        rows: n′.
        padding: rows of zeros below P, because a slice of a whole level may reach past the last block.
        batch: tiles at once.
        shared: whether several devices share the work, each with its relaxed rows and its tiles.
    """

    rows: int
    padding: int
    batch: int
    shared: bool

    def of(
        self, p: jax.Array, tiles: Any, linear: Any, sums: Any, every: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Loss Σ w·½(M − y)² and its gradient with respect to P, by every so many-th tile from the `first` on.

        Linear queries, if there are some, come whole.
        """
        ones = jnp.ones((1, p.shape[1]), p.dtype)
        views = _summed(p, *sums) if sums[0].size else p[:0]
        padded = jnp.concatenate([p, views, ones, jnp.zeros((self.padding, p.shape[1]), p.dtype)])
        carry = (jnp.zeros((), p.dtype), jnp.zeros_like(padded))
        for level, arrays in sorted(tiles.items()):
            *stacked, count = arrays
            apart = jnp.clip(count[0] // _FEW_TILES, 1, every)
            begin = first % apart
            body: Callable[..., Any] = self._tile
            number = (count[0] - begin + apart - 1) // apart
            if self.batch > 1:
                number, body = (number + self.batch - 1) // self.batch, self._tiles
            carry = jax.lax.fori_loop(0, number, partial(body, padded, level, stacked, count[0], apart, begin), carry)
        loss, gradient = carry
        of_linear = jnp.zeros((), p.dtype)
        if linear[0]:
            of_linear, gradient = self._functional_gradient(padded, linear, gradient)
        if self.shared:
            loss, gradient = _sum_over(CLIQUES, (loss, gradient))
        loss += of_linear
        return loss, _summed_back(gradient, p.shape[0], *sums) if sums[0].size else gradient[: p.shape[0]]

    def _tile(
        self,
        p: jax.Array,
        level: int,
        stacked: Any,
        _: jax.Array,
        apart: jax.Array,
        begin: jax.Array,
        i: jax.Array,
        carry: Any,
    ) -> Any:
        """The loss and the gradient with those of one tile."""
        index, offset, size, weight, target = (
            jax.lax.dynamic_index_in_dim(a, begin + i * apart, keepdims=False) for a in stacked
        )
        loss, gradient = carry
        c, gathered, u = self._factors(p, level, index, offset, size)
        added, d = self._residual(c, u, size, weight * apart.astype(p.dtype), target)
        return loss + added, _moved_back(gradient, d, c, gathered, u, index, offset, level)

    def _tiles(
        self,
        p: jax.Array,
        level: int,
        stacked: Any,
        count: jax.Array,
        apart: jax.Array,
        begin: jax.Array,
        i: jax.Array,
        carry: Any,
    ) -> Any:
        """The loss and the gradient with those of a batch of tiles."""
        places = begin + (i * self.batch + jnp.arange(self.batch, dtype=jnp.int32)) * apart
        index, offset, size, weight, target = (jnp.take(a, places, axis=0, mode="clip") for a in stacked)
        weight = weight * jnp.where(places < count, apart, 0).astype(p.dtype)[:, None]

        def parts(index: jax.Array, offset: jax.Array, size: jax.Array, weight: jax.Array, target: jax.Array) -> Any:
            c, gathered, u = self._factors(p, level, index, offset, size)
            loss, d = self._residual(c, u, size, weight, target)
            back = d @ c
            return loss, d.T @ u, [back * _product(_without(gathered, j), u.shape[0], p) for j in range(len(gathered))]

        losses, blocks, backs = jax.vmap(parts)(index, offset, size, weight, target)
        loss, gradient = carry
        gradient = gradient.at[offset[:, None] + jnp.arange(level)].add(blocks)
        ones = p.shape[0] - self.padding - 1  # its gradient is nobody's, and all would wait for each other to add to it
        for j, back in enumerate(backs):
            rows = jnp.where(index[:, :, j] == ones, p.shape[0], index[:, :, j])
            gradient = gradient.at[rows].add(back, mode="drop")
        return loss + losses.sum(), gradient

    def _residual(
        self, c: jax.Array, u: jax.Array, size: jax.Array, weight: jax.Array, target: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The loss of a tile, and its gradient with respect to U·P_cᵀ."""
        answers = u @ c.T
        if self.shared:
            answers = _sum_over(ROWS, answers)
        residual = answers / self.rows - target
        d = weight[:, None] * residual * (jnp.arange(len(c)) < size)[None, :]
        return 0.5 * jnp.vdot(d, residual), d / self.rows

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

        def answered(level: int, stacked: Any, i: jax.Array, sums: jax.Array) -> jax.Array:
            index, offset, size, phi, group = (jax.lax.dynamic_index_in_dim(a, i, keepdims=False) for a in stacked)
            c, _, u = self._factors(p, level, index, offset, size)
            return sums.at[group].add(phi * (u @ c.T))

        def moved(level: int, stacked: Any, pushed: jax.Array, i: jax.Array, moving: jax.Array) -> jax.Array:
            index, offset, size, phi, group = (jax.lax.dynamic_index_in_dim(a, i, keepdims=False) for a in stacked)
            c, gathered, u = self._factors(p, level, index, offset, size)
            return _moved_back(moving, phi * pushed[group] / self.rows, c, gathered, u, index, offset, level)

        answers_so_far = jnp.zeros_like(target)
        for level, (*stacked, count) in sorted(by_level.items()):
            answers_so_far = jax.lax.fori_loop(0, count[0], partial(answered, level, stacked), answers_so_far)
        if self.shared:
            answers_so_far = _sum_over(CLIQUES, _sum_over(ROWS, answers_so_far))
        gap = answers_so_far / self.rows - target
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
        gradient = gradient.at[index[:, j]].add(back * _product(_without(gathered, j), index.shape[0], p))
    return gradient


def _summed(p: jax.Array, cells: jax.Array, rows: jax.Array) -> jax.Array:
    """V of P: see `dpsql.fitting.relaxed.views`."""
    parts = p[: cells.shape[1]]

    def with_view(j: jax.Array, v: jax.Array) -> jax.Array:
        return v.at[cells[j]].add(parts)

    start = jnp.zeros((rows.shape[0], p.shape[1]), p.dtype)
    views: jax.Array = jax.lax.fori_loop(0, cells.shape[0], with_view, start)
    return views


def _summed_back(gradient: jax.Array, width: int, cells: jax.Array, rows: jax.Array) -> jax.Array:
    """The gradient with respect to P alone, from that with respect to P and V."""
    of_views = gradient[width : width + rows.shape[0]]

    def with_view(j: jax.Array, moved: jax.Array) -> jax.Array:
        return moved + of_views[cells[j]]

    parts = jax.lax.fori_loop(0, cells.shape[0], with_view, gradient[: cells.shape[1]])
    return gradient[:width].at[: cells.shape[1]].set(parts)


def _without(factors: Sequence[jax.Array], j: int) -> list[jax.Array]:
    return [factor for k, factor in enumerate(factors) if k != j]


def _product(factors: Sequence[jax.Array], rows: int, p: jax.Array) -> jax.Array:
    if not factors:
        return jnp.ones((rows, p.shape[1]), p.dtype)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _sum_over(axis: str, values: Any) -> Any:
    return jax.lax.psum(values, axis)  # type: ignore[no-untyped-call]
