"""Single cells and thresholds, each counted with noise of its own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsql.core.marginal import Marginal, Measurement
from dpsql.core.threshold import Family, Threshold, clique_of
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise
from dpsql.privacy.given import given_family, given_share
from dpsql.privacy.journal import Answer, Query, measured
from dpsql.privacy.noise import Integers
from dpsql.privacy.questions import CellsQuestion


class Cells(Asking):
    """Measures cells."""

    def measure_cells(
        self, queries: Sequence[Query], rho: Fraction, noise: Distribution | str = GAUSSIAN
    ) -> list[Measurement]:
        """Single cells, or thresholds, each with its own noise of σ² = c²/2ρ + 1/8.

        One measurement for each clique or family, in order of appearance.

        Privacy: len(queries)·ρ-zCDP, and Gaussian DP of that g; sensitivity c each (1 without privacy units).
        Laplace noise has b = c/ε with ε ≤ √(2ρ), costs 11/7 of that g, and is ε-DP each too.

        Args:
            queries: the cells, without repetition.
            rho: of each one.
            noise: of each cell, by its value or by its name.
        """
        distribution = find_noise(noise)
        rho, by_family = given_share(rho), dict[Family, list[int]]()
        for family, cell in queries:
            by_family.setdefault(given_family(family), []).append(operator.index(cell))
        questions = [CellsQuestion(family, tuple(cells), rho, distribution.name) for family, cells in by_family.items()]

        def fresh(known: int) -> list[Answer]:
            missing = list(zip(questions, by_family.items(), strict=True))[known:]
            self._expect([clique_of(family) for _, (family, _) in missing])
            return [
                Answer(q, rho * len(cells), self._cells(family, cells, rho, distribution))
                for q, (family, cells) in missing
            ]

        shares = [rho] * sum(map(len, by_family.values()))
        return [measured(answer) for answer in self._answered(distribution, shares, questions, fresh)]

    def _cells(self, family: Family, cells: Sequence[int], rho: Fraction, noise: Distribution) -> Measurement:
        scale = noise.scale(rho, self.neighbours.cell**noise.norm)
        values = _counts(self._marginal(family), cells) + self._draw(noise, scale, len(cells))
        clique, cost = clique_of(family), rho * len(cells)
        least = family.least if isinstance(family, Threshold) else None
        shape, variance = self.domain.shape(clique), noise.variance(scale)
        return Measurement(clique, shape, values, variance, noise.name, cost, tuple(cells), least)


def _counts(marginal: Marginal, cells: Sequence[int]) -> Integers:
    order = np.argsort(marginal.cells)
    occupied, counts = marginal.cells[order], marginal.counts[order]
    if not len(occupied):
        return np.zeros(len(cells), np.int64)
    place = np.minimum(np.searchsorted(occupied, cells), len(occupied) - 1)
    return np.where(occupied[place] == cells, counts[place], 0)
