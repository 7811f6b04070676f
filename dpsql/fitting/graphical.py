r"""Graphical models: the distribution of largest entropy that is nearest to measured marginals.

    loss       L(μ) = ½·Σ_r (N/σ_r)²·‖M_r(μ) − y_r/N‖²         over the marginals μ of some distribution
    descent    μ(θ) = marginals of p_θ(x) ∝ exp Σ_C θ_C(x_C);    θ ← θ − α·∇L(μ(θ)), from θ = 0
    step       α halves until L falls by half of α·⟨∇L, μ − μ'⟩, and grows after each step that does
    tree       p(x) = Π_nodes p(x_node) / Π_edges p(x_separator)

C runs over the measured cliques of largest scope. μ(θ) is exact: message passing on a junction tree, by the package
`mbi`, which is asked for in functions only and may be missing. What is read off the fitted tree afterwards, marginals
and rows, is computed here, in float64.

`mbi` turns 64-bit numbers on for all of JAX when it is imported. That would change the other fits of the process, so
the setting is put back, and turned on only around the calls, in the thread that makes them.

Source: McKenna, Sheldon, Miklau 2019 (arXiv:1901.09136), Algorithm 1 with the line search of `mbi`.
"""

from __future__ import annotations

import importlib
import math
import string
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.fitting.compilation import MOST_PROGRAMS, keep_programs, own_program
from dpsql.runtime.aside import aside
from dpsql.runtime.progress import Progress, Quiet

Table = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Potentials = Mapping[Clique, Table]

_MOST_JOINED: Final = 200_000_000  # cells of the product of two tables of the junction tree
_DRAWN: Final = 200_000
_GROWTH: Final = 1.3
_WATCH: Final = 25  # steps between looks at the loss
_ENOUGH: Final = 1e-3  # relative fall of the loss over that many steps at which the fit has converged
_MOST_HALVINGS: Final = 60


def load_mbi() -> Any:
    """The package `mbi`, with JAX's setting of 64-bit numbers as it was before.

    Raises:
        ImportError: it is not installed.
    """
    from dpsql.fitting.loading import jax

    before = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():  # mbi 2 gives advice on JAX's settings, which are ours
            warnings.simplefilter("ignore", UserWarning)
            return importlib.import_module("mbi")
    finally:
        if jax.config.jax_enable_x64 != before:  # type: ignore[attr-defined]
            jax.config.update("jax_enable_x64", before)  # type: ignore[no-untyped-call]


def _wide_numbers() -> AbstractContextManager[Any]:
    """64-bit numbers, in this thread only."""
    from dpsql.fitting.loading import jax

    wide: AbstractContextManager[Any] = jax.enable_x64(True)
    return wide


def maximal(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """The cliques that lie in no other, in the domain's order, with every column in one.

    >>> from dpsql.core.domain import Attribute
    >>> domain = Domain(tuple(Attribute(n, "BOOLEAN", "values", ("false", "true")) for n in "abc"))
    >>> maximal(domain, [("b", "a"), ("a",)])
    [('a', 'b'), ('c',)]
    """
    everything = {domain.clique(clique) for clique in cliques} | {(name,) for name in domain.names}
    kept: list[Clique] = []
    for clique in sorted(everything, key=lambda c: (-len(c), [domain.names.index(name) for name in c])):
        if not any(set(clique) <= set(other) for other in kept):
            kept.append(clique)
    return kept


def model_megabytes(domain: Domain, cliques: Sequence[Clique]) -> float:
    """The size of the junction tree of these cliques, 8 bytes a cell."""
    mbi = load_mbi()
    return float(mbi.junction_tree.hypothetical_model_size(_mbi_domain(mbi, domain), maximal(domain, cliques)))


def _mbi_domain(mbi: Any, domain: Domain) -> Any:
    return mbi.Domain(domain.names, domain.shape(domain.names))


class _TooWide(Exception):
    """A message between nodes would have too many cells."""


@dataclass(frozen=True)
class Node:
    """One node of a calibrated junction tree; a forest's roots have no parent.

    Attributes:
        clique: its columns, in the domain's order.
        parent: the number of its parent, which comes before it; −1 for a root.
        separator: the columns that it shares with its parent, likewise in order.
        belief: p(x_clique), an array with one axis for each column.
    """

    clique: Clique
    parent: int
    separator: Clique
    belief: Table

    @cached_property
    def conditional(self) -> Table:
        """p(x_clique | x_separator); 0 where the separator has probability 0."""
        if not self.separator:
            return self.belief
        axes = tuple(k for k, name in enumerate(self.clique) if name not in self.separator)
        below = self.belief.sum(axis=axes, keepdims=True)
        return np.asarray(np.divide(self.belief, below, out=np.zeros_like(self.belief), where=below > 0))


@dataclass(frozen=True)
class Tree:
    """A distribution as a calibrated junction tree.

    Attributes:
        domain: of the table.
        nodes: parents before children.
        potentials: θ, from which a later fit may start.
    """

    domain: Domain
    nodes: tuple[Node, ...]
    potentials: Potentials

    def supports(self, clique: Clique) -> bool:
        """Whether one node holds all columns of a clique."""
        return any(set(clique) <= set(node.clique) for node in self.nodes)

    def project(self, clique: Clique) -> Table:
        """The marginal of a clique in probabilities, flat, in the order given, shape (cells,)."""
        holder = min(
            (node for node in self.nodes if set(clique) <= set(node.clique)),
            key=lambda node: node.belief.size,
            default=None,
        )
        if holder is not None:
            found, names = _summed(holder.belief, holder.clique, clique)
        else:
            try:
                found, names = self._across(clique)
            except _TooWide:
                return self._drawn(clique)
        ordered = np.transpose(found, [names.index(name) for name in clique])
        return np.asarray(ordered / ordered.sum(), np.float64).ravel()

    def _drawn(self, clique: Clique) -> Table:
        """About the marginal of a clique: of rows that are drawn, where messages would not fit in memory."""
        places = [self._sample[:, self.domain.names.index(name)] for name in clique]
        cells = np.ravel_multi_index(places, self.domain.shape(clique))
        counts = np.bincount(cells, minlength=self.domain.size(clique))
        return np.asarray(counts / len(self._sample), np.float64)

    @cached_property
    def _sample(self) -> Codes:
        return self.draw(_DRAWN, np.random.default_rng(0), Quiet())

    def _across(self, clique: Clique) -> tuple[Table, Clique]:
        """The marginal of columns in several nodes: messages up the part of the forest that joins them."""
        joined = self._joining(clique)
        messages: dict[int, list[tuple[Table, Clique]]] = {number: [] for number in joined}
        result: tuple[Table, Clique] = (np.ones(()), ())
        for number in reversed(joined):
            node = self.nodes[number]
            kept = {*clique}
            inside = node.parent in messages
            table: tuple[Table, Clique] = (node.conditional if inside else node.belief, node.clique)
            above = {*node.separator} if inside else set()
            waiting = messages[number]
            while waiting:
                message = waiting.pop()
                needed = kept | above | {name for _, names in waiting for name in names}
                table = _product(table, message, needed)
            table = _summed(*table, tuple(name for name in table[1] if name in kept | above))
            if inside:
                messages[node.parent].append(table)
            else:
                result = _product(result, table, kept)
        return result

    def _joining(self, clique: Clique) -> list[int]:
        """The nodes of the smallest part of the forest that holds a clique, parents first."""
        wanted = {*clique}
        alive = set(range(len(self.nodes)))
        changed = True
        while changed:
            changed = False
            for number in sorted(alive, reverse=True):
                near = [k for k in alive if self.nodes[k].parent == number]
                if self.nodes[number].parent in alive:
                    near.append(self.nodes[number].parent)
                mine = wanted & {*self.nodes[number].clique}
                if len(near) <= 1 and all(mine <= {*self.nodes[k].clique} for k in near) and (near or not mine):
                    alive.discard(number)
                    changed = True
        return sorted(alive)

    def draw(self, rows: int, generator: np.random.Generator, progress: Progress) -> Codes:
        """Rows of codes: down the tree, for all rows with equal parents at once, as evenly as probabilities allow."""
        codes = np.zeros((rows, len(self.domain)), np.int64)
        if rows == 0:
            return codes
        names = self.domain.names
        for node in self.nodes:
            progress.advance(0)
            new = tuple(name for name in node.clique if name not in node.separator)
            ordered = np.transpose(node.belief, [node.clique.index(name) for name in (*node.separator, *new)])
            shape = self.domain.shape(new)
            table = ordered.reshape(-1, int(np.prod(shape)))
            groups = np.zeros(rows, np.int64)
            for name, size in zip(node.separator, self.domain.shape(node.separator), strict=True):
                groups = groups * size + codes[:, names.index(name)]
            drawn = _draw_each(table, groups, generator)
            for name, part in zip(new, np.unravel_index(drawn, shape), strict=True):
                codes[:, names.index(name)] = part
        return codes


def _draw_each(table: Table, groups: Codes, generator: np.random.Generator) -> Codes:
    """For each row a column of its group's line of a table, by stratified draws within each group.

    Ranks within a group are in random order, so that the draw does not depend on what the rows hold already.
    """
    present, mine, counts = np.unique(groups, return_inverse=True, return_counts=True)
    lines = np.maximum(table[present], 0.0)
    sums = lines.sum(axis=1, keepdims=True)
    fallback = np.maximum(table.sum(axis=0), 0.0)  # of a group that has no probability: never drawn, but for rounding
    lines = np.where(sums > 0, lines / np.where(sums > 0, sums, 1.0), fallback / fallback.sum())
    cumulative = np.cumsum(lines, axis=1)
    cumulative /= cumulative[:, -1:]
    order = np.lexsort((generator.random(len(groups)), mine))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - starts[mine[order]]
    uniform = (rank + generator.random(len(groups))) / counts[mine]
    # one search for all: line g of the cumulative probabilities is moved to g … g + 1
    keys = (cumulative + np.arange(len(present))[:, None]).ravel()
    places = np.searchsorted(keys, mine + uniform, side="right") - mine * table.shape[1]
    last = table.shape[1] - 1 - np.argmax(lines[:, ::-1] > 0, axis=1)  # no column after it has any probability
    return np.asarray(np.clip(places, 0, last[mine]), np.int64)


def _summed(table: Table, names: Clique, kept: Clique) -> tuple[Table, Clique]:
    """A table without the axes that are not kept."""
    axes = tuple(k for k, name in enumerate(names) if name not in kept)
    return table.sum(axis=axes), tuple(name for name in names if name in kept)


def _product(one: tuple[Table, Clique], two: tuple[Table, Clique], needed: set[str]) -> tuple[Table, Clique]:
    """Two tables multiplied, and summed over what is not needed further."""
    letter = dict(zip(dict.fromkeys((*one[1], *two[1])), string.ascii_letters, strict=False))
    kept = tuple(name for name in letter if name in needed)
    sizes = dict(zip((*one[1], *two[1]), (*one[0].shape, *two[0].shape), strict=True))
    if math.prod(sizes[name] for name in kept) > _MOST_JOINED:
        raise _TooWide
    first, second, last = ("".join(letter[name] for name in names) for names in (one[1], two[1], kept))
    return np.asarray(np.einsum(f"{first},{second}->{last}", one[0], two[0], optimize=True)), kept


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes:
        tree: the model.
        residual: √(2·loss/cells); noise alone leaves about 1.
        steps: taken.
        converged: the loss fell no more.
    """

    tree: Tree
    residual: float
    steps: int
    converged: bool


def fit_graph(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    steps: int,
    progress: Progress,
    start: Tree | None = None,
) -> Fit:
    """The model of largest entropy that is nearest to whole marginals.

    Args:
        domain: the columns; one that is in no measurement is uniform.
        measurements: whole marginals, each of at least one column.
        total: N, rows.
        steps: the most steps of the descent.
        progress: told of each step; may raise `Interrupted`, within a tenth of a second even while JAX compiles.
        start: a model of fewer cliques, from which to go on.
    """
    keep_programs()
    progress.stage("fitting", steps)
    descent = _Descent(domain, measurements, total, start)
    return aside(progress, partial(descent.run, steps))


class _Descent:
    """The fit."""

    def __init__(self, domain: Domain, measurements: Sequence[Measurement], total: float, start: Tree | None) -> None:
        self._taken = 0
        self._domain, self._mbi = domain, load_mbi()
        self._cliques = maximal(domain, [m.clique for m in measurements])
        self._loss = _Loss(domain, self._cliques, measurements, total)
        self._theta = {clique: np.zeros(domain.shape(clique)) for clique in self._cliques}
        for clique, table in (start.potentials if start is not None else {}).items():
            home = next(c for c in self._cliques if set(clique) <= set(c))
            self._theta[home] = self._theta[home] + _spread(table, clique, home)

    def run(self, steps: int, progress: Progress) -> Fit:
        """Descend, then calibrate the tree."""
        with _wide_numbers():
            residual, converged = self._descend(steps, progress)
        tree = calibrate(self._domain, self._theta, self._mbi)
        return Fit(tree, residual, self._taken, converged)

    def _marginals(self, theta: Potentials) -> dict[Clique, Table]:
        sizes = tuple(zip(self._domain.names, self._domain.shape(self._domain.names), strict=True))
        found = _marginals_program(sizes, tuple(self._cliques))([theta[clique] for clique in self._cliques])
        return {clique: np.asarray(table) for clique, table in zip(self._cliques, found, strict=True)}

    def _descend(self, steps: int, progress: Progress) -> tuple[float, bool]:
        marginals = self._marginals(self._theta)
        value, slope = self._loss(marginals)
        rate, watched, converged = 4 / self._loss.largest, value, False
        while self._taken < steps and not converged:
            for _ in range(_MOST_HALVINGS):
                theta = {c: self._theta[c] - rate * slope[c] for c in self._cliques}
                moved = self._marginals(theta)
                value_there, slope_there = self._loss(moved)
                gain = sum(float(np.vdot(slope[c], marginals[c] - moved[c])) for c in self._cliques)
                if value - value_there >= 0.5 * rate * gain:
                    break
                rate /= 2
                progress.check()
            else:
                converged = True
                break
            self._theta, marginals, value, slope = theta, moved, value_there, slope_there
            rate *= _GROWTH
            self._taken += 1
            progress.advance()
            if self._taken % _WATCH == 0:
                converged = watched - value <= _ENOUGH * value
                watched = value
        return float(np.sqrt(2 * value / self._loss.cells)), converged


@lru_cache(maxsize=MOST_PROGRAMS)
def _marginals_program(sizes: tuple[tuple[str, int], ...], cliques: tuple[Clique, ...]) -> Any:
    """The compiled function from potentials to marginals, both one table for each clique."""
    mbi = load_mbi()
    domain = mbi.Domain(*zip(*sizes, strict=True))

    def marginals(theta: Sequence[Any]) -> list[Any]:
        arrays = {c: mbi.Factor(domain.project(c), table) for c, table in zip(cliques, theta, strict=True)}
        potentials = mbi.CliqueVector(domain, list(cliques), arrays)
        found = mbi.marginal_oracles.message_passing_fast(potentials, 1.0)
        return [found[clique].values for clique in cliques]

    return own_program(marginals)


class _Loss:
    """L(μ) and its gradient.

    Attributes:
        cells: how many noisy counts.
        largest: a bound of the weights (N/σ)² on one cell.
    """

    def __init__(
        self, domain: Domain, cliques: Sequence[Clique], measurements: Sequence[Measurement], total: float
    ) -> None:
        self._parts: list[tuple[Clique, tuple[int, ...], Table, float]] = []
        self._cliques = cliques
        weights = dict.fromkeys(cliques, 0.0)
        for measured in measurements:
            target, names = measured.values.reshape(measured.shape) / total, domain.clique(measured.clique)
            target = np.transpose(target, [measured.clique.index(name) for name in names])
            home = next(c for c in cliques if set(names) <= set(c))
            summed = tuple(k for k, name in enumerate(home) if name not in names)
            weight = total**2 / max(float(measured.variance), 1e-6)
            self._parts.append((home, summed, np.expand_dims(target, summed), weight))
            weights[home] += weight
        self.cells = max(1, sum(target.size for _, _, target, _ in self._parts))
        self.largest = max(weights.values(), default=1.0) or 1.0

    def __call__(self, marginals: Mapping[Clique, Table]) -> tuple[float, dict[Clique, Table]]:
        value, slope = 0.0, {clique: np.zeros_like(marginals[clique]) for clique in self._cliques}
        for home, summed, target, weight in self._parts:
            gap = marginals[home].sum(axis=summed, keepdims=True) - target
            value += 0.5 * weight * float(np.vdot(gap, gap))
            slope[home] += weight * gap
        return value, slope


def calibrate(domain: Domain, theta: Potentials, mbi: Any) -> Tree:
    """The junction tree of potentials, each node with its marginal: messages up, then down, in logarithms."""
    graph = mbi.junction_tree.make_junction_tree(_mbi_domain(mbi, domain), list(theta))[0]
    order, parents = _preorder(graph)
    logs = [np.zeros(domain.shape(clique)) for clique in order]
    for clique, table in theta.items():
        holders = [k for k, node in enumerate(order) if set(clique) <= set(node)]
        home = min(holders, key=lambda k: logs[k].size)
        logs[home] += _spread(table, clique, order[home])
    separators = [_shared(order, k, parent) for k, parent in enumerate(parents)]
    upward: list[Table] = [np.zeros(())] * len(order)
    for k in range(len(order) - 1, -1, -1):
        if parents[k] >= 0:
            upward[k] = _log_sum(logs[k], order[k], separators[k])
            logs[parents[k]] += _spread(upward[k], separators[k], order[parents[k]])
    nodes = []
    for k, clique in enumerate(order):
        if parents[k] >= 0:
            above = _log_sum(logs[parents[k]], order[parents[k]], separators[k])
            logs[k] = logs[k] + _spread(above - upward[k], separators[k], clique)
        belief = np.exp(logs[k] - logs[k].max())
        nodes.append(Node(clique, parents[k], separators[k], belief / belief.sum()))
    return Tree(domain, tuple(nodes), dict(theta))


def _preorder(graph: Any) -> tuple[list[Clique], list[int]]:
    """The nodes of a forest, parents first, and the number of each one's parent."""
    order: list[Clique] = []
    parents: list[int] = []
    seen: set[Clique] = set()
    for root in sorted(graph.nodes):
        waiting = [] if root in seen else [(root, -1)]
        while waiting:
            clique, parent = waiting.pop()
            seen.add(clique)
            order.append(clique)
            parents.append(parent)
            number = len(order) - 1
            waiting += [(near, number) for near in sorted(graph.neighbors(clique)) if near not in seen]
    return order, parents


def _shared(order: Sequence[Clique], number: int, parent: int) -> Clique:
    return tuple(name for name in order[number] if parent >= 0 and name in order[parent])


def _spread(table: Table, names: Clique, whole: Clique) -> Table:
    """A table over some names of `whole`, in the same order, with an axis of length 1 for each other one."""
    return np.expand_dims(table, tuple(k for k, name in enumerate(whole) if name not in names))


def _log_sum(logs: Table, names: Clique, kept: Clique) -> Table:
    """The logarithm of Σ exp over the axes that are not kept."""
    axes = tuple(k for k, name in enumerate(names) if name not in kept)
    top = logs.max(axis=axes, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=axes)) + top.squeeze(axes))
