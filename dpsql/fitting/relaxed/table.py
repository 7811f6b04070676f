r"""The relaxed table: n′ rows, each one a product of probability vectors, one for each attribute.

    P ∈ [0, 1]^{T × n′},   Σ_{v ∈ block a} P[v, r] = 1   for every attribute a and row r

with T the one-hot width. Its answer to the marginal of a clique S is the mean over rows of products,

    M_S(P)[y] = 1/n′ · Σ_r Π_{a ∈ S} P[y_a, r]

which on one-hot rows is the exact marginal divided by n. Columns of P are rows of the table: products over rows are
then contiguous in memory.

Some attributes may be joined (`Joint`): a row then has one probability vector over the tuples of their values, and each
of them the sums of it. So a pair that nearly determines each other is held by one row as well as by many, and a tuple
that is left out of the joint has probability 0.

Source: Aydore et al. 2021, section 3 (RAP).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import LinearFamily, QueryFamily
from dpsql.core.threshold import Threshold, threshold_counts

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


_CELLS_AT_ONCE: Final = 16_384
_FOR_ONE_THREAD: Final = 250_000  # multiplications


@dataclass(frozen=True, eq=False)
class Joint:
    """Attributes that have one probability vector together.

    Attributes:
        names: the attributes.
        tuples: the codes that they may take together, shape (tuples, attributes).
        prior: about how probable each tuple is, shape (tuples,).
        kappa: how smooth each tuple and the next one are (`dpsql.fitting.relaxed.smoothness`), shape (tuples,).
    """

    names: Clique
    tuples: Codes
    prior: npt.NDArray[np.float64]
    kappa: npt.NDArray[np.float64]

    def cells(self, names: Clique, sizes: Sequence[int]) -> Codes:
        """For each tuple, the cell of the marginal of some of the attributes that it lies in, shape (tuples,)."""
        return np.ravel_multi_index([self.tuples[:, self.names.index(name)] for name in names], tuple(sizes))


@dataclass(frozen=True)
class Blocks:
    """Where the probabilities of each unit, which is a joint or an attribute in none, stand among the T rows of P.

    Attributes:
        names: of the attributes.
        sizes: of the attributes.
        joints: attributes that are joined; no attribute is in two.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    joints: tuple[Joint, ...] = ()

    @staticmethod
    def of(domain: Domain, joints: Sequence[Joint] = ()) -> Blocks:
        """The blocks of a domain's attributes: joints first, the others in their order."""
        return Blocks(domain.names, domain.shape(domain.names), tuple(joints))

    @cached_property
    def joint_of(self) -> Mapping[str, Joint]:
        """The joint of each attribute that is in one."""
        return {name: joint for joint in self.joints for name in joint.names}

    @cached_property
    def units(self) -> tuple[Clique, ...]:
        """The attributes of each unit, in the order of P."""
        return (*(joint.names for joint in self.joints), *((n,) for n in self.names if n not in self.joint_of))

    @cached_property
    def unit_sizes(self) -> tuple[int, ...]:
        """How many rows of P each unit has."""
        alone = (size for name, size in zip(self.names, self.sizes, strict=True) if name not in self.joint_of)
        return (*(len(joint.tuples) for joint in self.joints), *alone)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first row of each unit."""
        return tuple(int(offset) for offset in np.concatenate([[0], np.cumsum(self.unit_sizes)[:-1]]))

    @property
    def width(self) -> int:
        """T, the number of rows."""
        return sum(self.unit_sizes)

    def block(self, unit: Clique | str) -> slice:
        """The rows of a unit, or of an attribute that is in no joint."""
        index = self.units.index((unit,) if isinstance(unit, str) else unit)
        return slice(self.offsets[index], self.offsets[index] + self.unit_sizes[index])

    def by_unit(self, values: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        """One vector along P: the joints' `values`, one for each, and those of every attribute in none.

        Args:
            values: for each joint, and after them for each attribute.
        """
        alone = zip(self.names, values[len(self.joints) :], strict=True)
        return np.concatenate([*values[: len(self.joints)], *(v for name, v in alone if name not in self.joint_of)])

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Sizes of a clique's attributes."""
        return tuple(self.sizes[self.names.index(name)] for name in clique)

    def parts(self, clique: Clique) -> tuple[Clique, ...]:
        """A clique's attributes by unit, in the order in which the clique has them first."""
        by_unit: dict[Clique, list[str]] = {}
        for name in clique:
            joint = self.joint_of.get(name)
            by_unit.setdefault((name,) if joint is None else joint.names, []).append(name)
        return tuple(tuple(names) for names in by_unit.values())


@dataclass(frozen=True)
class RelaxedTable:
    """A fitted model of a table.

    Attributes:
        blocks: the attributes.
        probabilities: P, shape (T, n′).
        total: the number of rows that it stands for.
    """

    blocks: Blocks
    probabilities: Floats
    total: float

    def project(self, clique: Clique) -> Floats:
        """The answers to a marginal in probabilities, flat and row-major over the clique's codes, shape (cells,)."""
        if not clique:
            return np.ones(1, np.float32)
        of_part = {part: self.part(part) for part in self.blocks.parts(clique)}
        parts = sorted(of_part, key=lambda part: len(of_part[part]))  # the largest is no factor of the product
        blocks = [of_part[part] for part in parts]
        rows = blocks[0].shape[1]
        if len(blocks) == 1:
            return np.asarray(blocks[0].mean(axis=1), np.float32)
        product = blocks[0] / np.float32(rows)
        for block in blocks[1:-1]:
            product = (product[:, None, :] * block[None, :, :]).reshape(-1, rows)
        return in_order(_product(product, blocks[-1]), self.blocks, parts, clique)

    def part(self, part: Clique) -> Floats:
        """The probabilities of the cells of one unit's attributes, in every relaxed row, shape (cells, n′)."""
        if part[0] not in self.blocks.joint_of:
            return self.probabilities[self.blocks.block(part[0])]
        if part not in self._parts:
            joint, shape = self.blocks.joint_of[part[0]], self.blocks.shape(part)
            sums = np.zeros((int(np.prod(shape)), self.probabilities.shape[1]), np.float32)
            np.add.at(sums, joint.cells(part, shape), self.probabilities[self.blocks.block(joint.names)])
            self._parts[part] = sums
        return self._parts[part]

    @cached_property
    def _parts(self) -> dict[Clique, Floats]:
        """Parts of joints that were asked for: every marginal with some of a joint's attributes asks again."""
        return {}

    def answers(self, clique: Clique, cells: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The answers to some cells of a marginal in probabilities, without the others, shape (cells,).

        With them errors need only the cells that are not zero: Σ|p − q| = Σ_support |p − q| + 1 − Σ_support q.

        Args:
            clique: of the marginal, however large.
            cells: row-major indices, shape (cells,).
        """
        sizes = self.blocks.shape(clique)
        parts = {part: self.part(part) for part in self.blocks.parts(clique)}
        answers = np.empty(len(cells))
        for begin in range(0, len(cells), _CELLS_AT_ONCE):
            some = slice(begin, begin + _CELLS_AT_ONCE)
            codes = dict(zip(clique, np.unravel_index(cells[some], sizes), strict=True))
            product: Floats | float = 1.0
            for part, probabilities in parts.items():
                place = np.ravel_multi_index([codes[name] for name in part], self.blocks.shape(part))
                product = product * probabilities[place]
            answers[some] = np.asarray(product).mean(axis=1)
        return answers

    def threshold(self, clique: Clique, least: int) -> npt.NDArray[np.float64]:
        """The answers to a family of thresholds in probabilities, shape (cells,); see `dpsql.core.threshold`.

        P(at least t of the events) is linear in the cells of the clique's marginal, also for each relaxed row.
        """
        return threshold_counts(self.project(clique).astype(np.float64), self.blocks.shape(clique), least)

    def counts(self, family: QueryFamily) -> npt.NDArray[np.float64]:
        """The answers to a marginal or thresholds in rows, shape (cells,), or to linear queries in steps, (groups,)."""
        if isinstance(family, LinearFamily):
            return family.answers(self.project(family.clique).astype(np.float64)) * self.total
        if isinstance(family, Threshold):
            return self.threshold(family.clique, family.least) * self.total
        return self.project(family).astype(np.float64) * self.total


def _product(rows: Floats, columns: Floats) -> Floats:
    """`rows @ columns.T`, in pieces that OpenBLAS gives to one thread: more threads spin for longer than they work."""
    step = _FOR_ONE_THREAD // max(1, columns.size)
    if step < 2:
        return np.asarray(rows @ columns.T, np.float32)
    product = np.empty((len(rows), len(columns)), np.float32)
    for begin in range(0, len(rows), step):
        np.matmul(rows[begin : begin + step], columns.T, out=product[begin : begin + step])
    return product


def in_order(values: npt.NDArray[Any], blocks: Blocks, parts: Sequence[Clique], clique: Clique) -> npt.NDArray[Any]:
    """Values over the cells of a clique's parts, as they are over the clique's codes, flat and row-major."""
    names = [name for part in parts for name in part]
    if names == list(clique):
        return values.ravel()
    shaped = values.reshape(blocks.shape(tuple(names)))
    return shaped.transpose([names.index(name) for name in clique]).ravel()


def draw_codes(probabilities: Floats, parents: Codes, uniform: npt.NDArray[np.float64]) -> Codes:
    """Codes at places of the relaxed rows' cumulative probabilities, one search for all.

    Args:
        probabilities: of each code in each relaxed row, shape (codes, n′); they need not add up to 1.
        parents: the relaxed row of each draw, shape (rows,).
        uniform: the place of each draw, in [0, 1), shape (rows,).
    """
    cumulative = np.cumsum(probabilities, axis=0, dtype=np.float64)
    cumulative /= cumulative[-1]
    stacked = (cumulative + np.arange(cumulative.shape[1])).T.ravel()  # increasing over codes, then over relaxed rows
    place = np.searchsorted(stacked, uniform + parents, side="right") - parents * len(cumulative)
    return np.asarray(np.clip(place, 0, len(cumulative) - 1), np.int64)


def simplex_projection(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probability vector nearest to `values` in Euclidean distance (Duchi et al. 2008).

    >>> simplex_projection(np.array([0.5, 0.9, -2.0])).round(6).tolist()
    [0.3, 0.7, 0.0]
    """
    descending = np.sort(values)[::-1]
    excess = np.cumsum(descending) - 1
    support = np.flatnonzero(descending - excess / np.arange(1, len(values) + 1) > 0)[-1]
    return np.asarray(np.maximum(values - excess[support] / (support + 1), 0))
