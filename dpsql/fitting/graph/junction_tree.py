"""A distribution as a calibrated junction tree: its marginals, and rows drawn from it, in float64.

p(x) = Π_nodes p(x_node) / Π_edges p(x_separator)
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.runtime.progress import Progress, Quiet

Table = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Potentials = Mapping[Clique, Table]
_MOST_JOINED: Final = 200_000_000  # cells of the product of two tables of the junction tree
_DRAWN: Final = 200_000


class _TooWide(Exception):
    """A message between nodes would have too many cells."""


@dataclass(frozen=True)
class Node:
    """One node of a calibrated junction tree; a forest's roots have no parent.

    Attributes:
        clique: its columns, in the domain's order.
        parent: the number of its parent, which comes before it; None for a root.
        separator: the columns that it shares with its parent, likewise in order.
        belief: p(x_clique), an array with one axis for each column.
    """

    clique: Clique
    parent: int | None
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

    def project(self, clique: Clique) -> Table:
        """The marginal of a clique in probabilities, flat, in the order given, shape (cells,)."""
        holder = min(
            (node for node in self.nodes if set(clique) <= set(node.clique)),
            key=lambda node: node.belief.size,
            default=None,
        )
        if holder is not None:
            table, names = _summed(holder.belief, holder.clique, clique)
        else:
            try:
                table, names = self._across(clique)
            except _TooWide:
                return self._drawn(clique)
        ordered = np.transpose(table, [names.index(name) for name in clique])
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
            wanted_names = {*clique}
            onward = None if node.parent is None else messages.get(node.parent)
            inside = onward is not None
            table: tuple[Table, Clique] = (node.conditional if inside else node.belief, node.clique)
            above = {*node.separator} if inside else set()
            waiting = messages[number]
            while waiting:
                message = waiting.pop()
                needed = wanted_names | above | {name for _, names in waiting for name in names}
                table = _product(table, message, needed)
            table = _summed(*table, tuple(name for name in table[1] if name in wanted_names | above))
            if onward is not None:
                onward.append(table)
            else:
                result = _product(result, table, wanted_names)
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
                parent = self.nodes[number].parent
                if parent is not None and parent in alive:
                    near.append(parent)
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


def _summed(table: Table, names: Clique, summed_to: Clique) -> tuple[Table, Clique]:
    """A table without the axes that are not kept."""
    axes = tuple(k for k, name in enumerate(names) if name not in summed_to)
    return table.sum(axis=axes), tuple(name for name in names if name in summed_to)


def _product(first_table: tuple[Table, Clique], two: tuple[Table, Clique], needed: set[str]) -> tuple[Table, Clique]:
    """Two tables multiplied, and summed over what is not needed further."""
    letter = dict(zip(dict.fromkeys((*first_table[1], *two[1])), string.ascii_letters, strict=False))
    left_names = tuple(name for name in letter if name in needed)
    sizes = dict(zip((*first_table[1], *two[1]), (*first_table[0].shape, *two[0].shape), strict=True))
    if math.prod(sizes[name] for name in left_names) > _MOST_JOINED:
        raise _TooWide
    first, second, last = ("".join(letter[name] for name in names) for names in (first_table[1], two[1], left_names))
    return np.asarray(np.einsum(f"{first},{second}->{last}", first_table[0], two[0], optimize=True)), left_names
