r"""Multiplicative weights: distributions that move towards measured answers.

    A(x) ∝ A(x)·exp(q(x)·(m − q(A))/2n)          one query q with answer m, of n rows
    A(x) ∝ A(x)·exp((m − M_S(A))[cell of x]/2n)  a whole marginal M_S: all of its cells at once

where q may be a threshold, too, or a linear query, divided by its largest weight,

over one of two representations:

    Factored   a product of histograms over disjoint groups of attributes; a query joins the groups that it touches, so
               the domain is never enumerated, only the groups are
    Weighted   weights of given rows (the support of a public table)

Both are values: an update makes a new one and shares what did not change, so that iterates can be kept for averaging.

Source: Machanavajjhala, lecture 13 (Hardt, Ligett, McSherry 2012). The lecture's private update writes q(A_i) on the
right, a slip for q(A_{i−1}).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import packed
from dpsql.core.threshold import threshold_counts
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Progress

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Self = TypeVar("Self", bound="Distribution")


class Distribution(Protocol):
    """A distribution over rows that can be tilted."""

    @property
    def domain(self) -> Domain:
        """Of its attributes."""

    def project(self, clique: Clique) -> Floats:
        """The marginal of a clique in probabilities, flat, shape (cells,)."""

    def tilted(self: Self, clique: Clique, exponents: Floats) -> Self:
        """A(x)·exp(exponents[cell of x]), normalised; exponents of shape (cells,)."""


@dataclass(frozen=True)
class Factored:
    """A product of histograms over disjoint groups of attributes.

    Attributes:
        domain: of all attributes.
        factors: for each group, in column order, its probabilities of the shape of its sizes.
    """

    domain: Domain
    factors: tuple[tuple[Clique, Floats], ...]

    @staticmethod
    def uniform(domain: Domain) -> Factored:
        """Every attribute by itself and uniform, as A_0 is."""
        sizes = domain.shape(domain.names)
        return Factored(domain, tuple(((n,), np.full(s, 1 / s)) for n, s in zip(domain.names, sizes, strict=True)))

    def joined(self, clique: Clique) -> Clique:
        """The group that a clique would become part of."""
        touched = [names for names, _ in self.factors if set(names) & set(clique)]
        return self.domain.clique(name for names in touched for name in names)

    def project(self, clique: Clique) -> Floats:
        """See `Distribution.project`."""
        parts = []
        for names, table in self.factors:
            axes = [name for name in names if name in clique]
            if axes:
                parts.append((tuple(axes), table.sum(axis=tuple(i for i, n in enumerate(names) if n not in clique))))
        return _product(parts, clique).ravel()

    def tilted(self, clique: Clique, exponents: Floats) -> Factored:
        """See `Distribution.tilted`."""
        group = self.joined(clique)
        touched = [factor for factor in self.factors if set(factor[0]) & set(clique)]
        table = touched[0][1] if len(touched) == 1 else _product(touched, group)
        shape = [size if name in clique else 1 for name, size in zip(group, table.shape, strict=True)]
        mass = table.sum(axis=tuple(axis for axis, name in enumerate(group) if name not in clique)).ravel()
        moved = table * np.exp(np.minimum(exponents - exponents[mass > 0].max(), 0)).reshape(shape)
        others = tuple(factor for factor in self.factors if not set(factor[0]) & set(clique))
        return Factored(self.domain, (*others, (group, moved / moved.sum())))


def _product(parts: Sequence[tuple[Clique, Floats]], order: Clique) -> Floats:
    """The product of tables over disjoint attributes, axes in `order`."""
    letters = {name: chr(ord("a") + place) for place, name in enumerate(order)} if len(order) <= 26 else {}
    if letters:
        inputs = ",".join("".join(letters[name] for name in names) for names, _ in parts)
        return np.asarray(np.einsum(f"{inputs}->{''.join(letters.values())}", *(table for _, table in parts)))
    whole: Floats = np.ones(())
    names: list[str] = []
    for part, table in parts:
        whole = np.multiply.outer(whole, table)
        names += part
    return whole.transpose([names.index(name) for name in order])


@dataclass(frozen=True)
class Weighted:
    """Weights of given rows.

    Attributes:
        domain: of all attributes.
        codes: the rows, shape (rows, attributes).
        weights: probabilities, shape (rows,).
    """

    domain: Domain
    codes: Codes
    weights: Floats

    def project(self, clique: Clique) -> Floats:
        """See `Distribution.project`."""
        return np.bincount(self._cells(clique), self.weights, self.domain.size(clique)).astype(np.float64)

    def tilted(self, clique: Clique, exponents: Floats) -> Weighted:
        """See `Distribution.tilted`."""
        each = exponents[self._cells(clique)]
        moved = self.weights * np.exp(np.minimum(each - each[self.weights > 0].max(), 0))
        return Weighted(self.domain, self.codes, moved / moved.sum())

    def _cells(self, clique: Clique) -> Codes:
        return packed(self.codes, self.domain.names, self.domain, clique)


def absorb(distribution: Self, measurements: Sequence[Target], total: float, passes: int, progress: Progress) -> Self:
    """Update a distribution by each measurement, `passes` times over, the newest one first.

    Args:
        distribution: A_{i−1}.
        measurements: of whole marginals, of cells, thresholds or linear queries, oldest first.
        total: n, rows.
        passes: how often each one is used.
        progress: may raise `Interrupted`.
    """
    for _ in range(passes):
        for measured in reversed(measurements):
            answers = total * distribution.project(measured.clique)
            distribution = distribution.tilted(measured.clique, _gap(measured, answers) / (2 * total))
            progress.advance(0)
    return distribution


def _gap(measured: Target, answers: Floats) -> Floats:
    """Σ_q q(x)·(m_q − q(A)) in each cell, the queries with values from −1 to 1; `answers` is the marginal (rows)."""
    linear, cells = measured.linear, slice(None) if measured.cells is None else np.array(measured.cells)
    if linear is not None:
        query_answers = linear.answers(answers)
        gap = np.zeros(linear.count)
        gap[cells] = measured.values - query_answers[cells]
        return linear.spread(gap / linear.largest**2)
    gap = np.zeros(len(answers))
    if measured.least is not None:
        answers = threshold_counts(answers, measured.shape, measured.least)
    gap[cells] = measured.values - answers[cells]
    if measured.least is not None:
        gap = threshold_counts(gap, measured.shape, measured.least)  # of all queries that count the cell
    return gap
