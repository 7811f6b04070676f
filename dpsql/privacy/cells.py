"""Single cells and thresholds, each counted with noise of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpsql.core.linear_family import LinearFamily, QueryFamily, columns_of, moved_of_linear
from dpsql.core.marginal import Marginal, Measurement
from dpsql.core.threshold import Threshold
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise
from dpsql.privacy.given import given_asked, given_cell, given_share
from dpsql.privacy.journal import Answer, Query, measured
from dpsql.privacy.noise import Integers
from dpsql.privacy.questions import CellsQuestion, LinearQuestion, Question


class Cells(Asking):
    """Measures cells."""

    def measure_cells(
        self, queries: Sequence[Query], rho: Fraction, noise: Distribution | str = GAUSSIAN
    ) -> list[Measurement]:
        """Single cells, thresholds or linear queries, each with its own noise of σ² = c²/2ρ + 1/8.

        One measurement for each clique or family, in order of appearance. Of linear queries c is the most that one of
        them moves, in steps (`LinearFamily.moved_single`).

        Privacy: len(queries)·ρ-zCDP, and Gaussian DP of that g; sensitivity c each (1 without privacy units).
        Laplace noise has b = c/ε with ε ≤ √(2ρ), costs 11/7 of that g, and is ε-DP each too.

        Args:
            queries: the cells, without repetition.
            rho: of each one.
            noise: of each cell, by its value or by its name.
        """
        distribution = find_noise(noise)
        rho, by_family = given_share(rho), dict[QueryFamily, list[int]]()
        for family, cell in queries:
            key = given_asked(self.domain, family)
            by_family.setdefault(key, []).append(given_cell(self.domain, key, cell))
        questions = [_question(family, cells, rho, distribution) for family, cells in by_family.items()]

        def fresh(count: int) -> list[Answer]:
            missing = list(zip(questions, by_family.items(), strict=True))[count:]
            self._expect([columns_of(family) for _, (family, _) in missing])
            return [
                Answer(q, rho * len(cells), self._cells(family, cells, rho, distribution))
                for q, (family, cells) in missing
            ]

        shares = [rho] * sum(map(len, by_family.values()))
        answers = self._answered(distribution, shares, questions, fresh)
        return [_named(measured(a), *pair) for a, pair in zip(answers, by_family.items(), strict=True)]

    def _moved(self, family: QueryFamily) -> int:
        """c: the most that one answer differs between neighbours."""
        if isinstance(family, LinearFamily):
            return moved_of_linear(self.domain, family, self.neighbours, single=True)
        return self.neighbours.cell

    def _cells(self, family: QueryFamily, cells: Sequence[int], rho: Fraction, noise: Distribution) -> Measurement:
        scale = noise.scale(rho, self._moved(family) ** noise.norm)
        values = _counts(self._marginal(family), cells) + self._draw(noise, scale, len(cells))
        clique, cost = columns_of(family), rho * len(cells)
        if isinstance(family, LinearFamily):  # which groups they are of, the question says
            return Measurement(clique, (len(cells),), values, noise.variance(scale), noise.name, cost)
        least = family.least if isinstance(family, Threshold) else None
        shape, variance = self.domain.shape(clique), noise.variance(scale)
        return Measurement(clique, shape, values, variance, noise.name, cost, tuple(cells), least)


def _question(family: QueryFamily, cells: Sequence[int], rho: Fraction, noise: Distribution) -> Question:
    if isinstance(family, LinearFamily):
        detail = f"{noise.name} in groups {','.join(map(str, cells))}"
        return LinearQuestion(family.clique, family.digest, detail, rho)
    return CellsQuestion(family, tuple(cells), rho, noise.name)


def _named(measurement: Measurement, family: QueryFamily, cells: Sequence[int]) -> Measurement:
    """A measurement of linear queries with what it is of, which the books do not hold."""
    if not isinstance(family, LinearFamily):
        return measurement
    return replace(measurement, shape=(family.count,), cells=tuple(cells), linear=family)


def _counts(marginal: Marginal, cells: Sequence[int]) -> Integers:
    order = np.argsort(marginal.cells)
    occupied, counts = marginal.cells[order], marginal.counts[order]
    if not len(occupied):
        return np.zeros(len(cells), np.int64)
    place = np.minimum(np.searchsorted(occupied, cells), len(occupied) - 1)
    return np.where(occupied[place] == cells, counts[place], 0)
