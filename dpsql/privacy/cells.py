"""Single cells and thresholds, each counted with noise of its own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsql.core.marginal import Marginal, Measurement, NoiseName
from dpsql.core.threshold import Family, Threshold, clique_of
from dpsql.privacy.asking import Asking
from dpsql.privacy.given import check_noise, given_share
from dpsql.privacy.journal import Answer, Query, measured, question_text
from dpsql.privacy.noise import Integers


class Cells(Asking):
    """Measures cells."""

    def measure_cells(
        self, queries: Sequence[Query], rho: Fraction, noise: NoiseName = "gaussian"
    ) -> list[Measurement]:
        """Single cells, or thresholds, each with its own noise of σ² = c²/2ρ + 1/8.

        One measurement for each clique or family, in order of appearance.

        Privacy: len(queries)·ρ-zCDP, and Gaussian DP of that g; sensitivity c each (1 without privacy units).
        Laplace noise has b = c/ε with ε ≤ √(2ρ), costs 11/7 of that g, and is ε-DP each too.

        Args:
            queries: the cells, without repetition.
            rho: of each one.
            noise: `gaussian` or `laplace`.
        """
        check_noise(noise)
        rho, grouped = given_share(rho), dict[Family, list[int]]()
        for family, cell in queries:
            grouped.setdefault(family, []).append(operator.index(cell))
        kind = "cells" if noise == "gaussian" else f"cells {noise}"
        questions = [question_text(kind, family, rho, ",".join(map(str, cells))) for family, cells in grouped.items()]

        def fresh(known: int) -> list[Answer]:
            missing = list(zip(questions, grouped.items(), strict=True))[known:]
            return [
                Answer(q, rho * len(cells), self._cells(family, cells, rho, noise)) for q, (family, cells) in missing
            ]

        shares = [rho] * sum(map(len, grouped.values()))
        return [measured(answer) for answer in self._answered(noise, shares, questions, fresh)]

    def _cells(self, family: Family, cells: Sequence[int], rho: Fraction, noise: NoiseName) -> Measurement:
        drawn, variance = self._noise(len(cells), rho, noise, self.neighbours.cell, self.neighbours.cell**2)
        values = _counts(self._marginal(family), cells) + drawn
        clique, cost = clique_of(family), rho * len(cells)
        least = family.least if isinstance(family, Threshold) else None
        return Measurement(clique, self.domain.shape(clique), values, variance, noise, cost, tuple(cells), least)


def _counts(marginal: Marginal, cells: Sequence[int]) -> Integers:
    order = np.argsort(marginal.cells)
    support, counts = marginal.cells[order], marginal.counts[order]
    if not len(support):
        return np.zeros(len(cells), np.int64)
    place = np.minimum(np.searchsorted(support, cells), len(support) - 1)
    return np.where(support[place] == cells, counts[place], 0)
