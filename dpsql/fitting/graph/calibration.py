"""Potentials to the marginals of a junction tree: messages up, then down, in logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.fitting.graph.junction_tree import Node, Potentials, Table, Tree
from dpsql.fitting.graph.mbi_package import mbi_domain


def calibrate(domain: Domain, theta: Potentials, mbi: Any) -> Tree:
    """The junction tree of potentials, each node with its marginal: messages up, then down, in logarithms."""
    graph = mbi.junction_tree.make_junction_tree(mbi_domain(mbi, domain), list(theta))[0]
    order, parents = _preorder(graph)
    logs = [np.zeros(domain.shape(clique)) for clique in order]
    for clique, table in theta.items():
        holders = [k for k, node in enumerate(order) if set(clique) <= set(node)]
        home = min(holders, key=lambda k: logs[k].size)
        logs[home] += spread(table, clique, order[home])
    separators = [_shared(order, k, parent) for k, parent in enumerate(parents)]
    upward: list[Table] = [np.zeros(())] * len(order)
    for k in reversed(range(len(order))):
        parent = parents[k]
        if parent is not None:
            upward[k] = _log_sum(logs[k], order[k], separators[k])
            logs[parent] += spread(upward[k], separators[k], order[parent])
    nodes = []
    for k, clique in enumerate(order):
        parent = parents[k]
        if parent is not None:
            above = _log_sum(logs[parent], order[parent], separators[k])
            logs[k] = logs[k] + spread(above - upward[k], separators[k], clique)
        belief = np.exp(logs[k] - logs[k].max())
        nodes.append(Node(clique, parent, separators[k], belief / belief.sum()))
    return Tree(domain, tuple(nodes), dict(theta))


def _preorder(graph: Any) -> tuple[list[Clique], list[int | None]]:
    """The nodes of a forest, parents first, and the number of each one's parent; None for a root."""
    order: list[Clique] = []
    parents: list[int | None] = []
    seen: set[Clique] = set()
    for root in sorted(graph.nodes):
        waiting: list[tuple[Clique, int | None]] = [] if root in seen else [(root, None)]
        while waiting:
            clique, parent = waiting.pop()
            seen.add(clique)
            order.append(clique)
            parents.append(parent)
            number = len(order) - 1
            waiting += [(near, number) for near in sorted(graph.neighbors(clique)) if near not in seen]
    return order, parents


def _shared(order: Sequence[Clique], number: int, parent: int | None) -> Clique:
    return () if parent is None else tuple(name for name in order[number] if name in order[parent])


def spread(table: Table, names: Clique, whole: Clique) -> Table:
    """A table over some names of `whole`, in the same order, with an axis of length 1 for each other one."""
    return np.expand_dims(table, tuple(k for k, name in enumerate(whole) if name not in names))


def _log_sum(logs: Table, names: Clique, summed_to: Clique) -> Table:
    """The logarithm of Σ exp over the axes that are not kept."""
    axes = tuple(k for k, name in enumerate(names) if name not in summed_to)
    top = logs.max(axis=axes, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=axes)) + top.squeeze(axes))
