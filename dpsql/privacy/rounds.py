"""Selections and the measurement of what was selected, as one question with two answers and one durable write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from dpsql.core.linear_family import LinearFamily, QueryFamily
from dpsql.core.marginal import Measurement
from dpsql.privacy.cells import Cells
from dpsql.privacy.distributions import GAUSSIAN, Distribution
from dpsql.privacy.journal import Query
from dpsql.privacy.linear_families import LinearFamilies
from dpsql.privacy.marginals import Marginals
from dpsql.privacy.selection import Answers
from dpsql.privacy.sources import Sources

Given = TypeVar("Given", bound=QueryFamily)


class Rounds(Marginals, LinearFamilies, Cells, Sources):
    """Selects and measures.

    Privacy: that of the two questions, asked one after the other. Nobody sees the selection before both are recorded.
    """

    def measure_selected_cells(
        self,
        families: Sequence[Given],
        answers: Callable[[Given], npt.NDArray[np.float64]],
        count: int,
        rho: tuple[Fraction, Fraction],
        noise: Distribution | str = GAUSSIAN,
        exclude: Sequence[Query] = (),
    ) -> tuple[list[tuple[Given, int]], list[Measurement]]:
        """The cells that a model answers worst, and noisy counts of them; see `select_cells` and `measure_cells`.

        Args:
            families: see `select_cells`.
            answers: see `select_cells`.
            count: how many.
            rho: of each selection, and of each measurement.
            noise: of the measurements.
            exclude: see `select_cells`.
        """
        select, measure = rho
        with self._in_one_write():
            chosen = self.select_cells(families, self._apart(answers), count, select, exclude)
            measured = self.measure_cells(chosen, measure, noise)
        return chosen, measured

    def measure_selected_marginal(
        self,
        cliques: Sequence[Given],
        answers: Callable[[Given], npt.NDArray[np.float64]],
        rho: tuple[Fraction, Fraction],
        noise: Distribution | str = GAUSSIAN,
        penalties: Sequence[float] | None = None,
        weights: Sequence[int] | None = None,
    ) -> Measurement:
        """The marginal that a model answers worst, with noise; see `select_marginals` and `measure`.

        Where linear queries are candidates, too, their family may be the one; see `measure_linear_families`. Its score
        is its error in steps, and its sensitivity `LinearFamily.moved`.

        Args:
            cliques: see `select_marginals`.
            answers: see `select_marginals`.
            rho: of the selection, and of the measurement.
            noise: of the measurement.
            penalties: see `select_marginals`.
            weights: see `select_marginals`.
        """
        select, measure = rho
        with self._in_one_write():
            (chosen,) = self._families(cliques, cast(Answers, self._apart(answers)), 1, select, penalties, weights)
            if isinstance(chosen, LinearFamily):
                (measured,) = self.measure_linear_families([chosen], measure, noise)
            else:
                (measured,) = self.measure([(chosen, measure)], noise)
        return measured

    def _apart(self, answers: Callable[[Given], npt.NDArray[np.float64]]) -> Callable[[Given], npt.NDArray[np.float64]]:
        """The same answers; what a mechanism asks while it gives them is recorded before it sees it, as ever."""

        def given(family: Given) -> npt.NDArray[np.float64]:
            held, self._held = self._held, None
            try:
                return answers(family)
            finally:
                self._held = held

        return given
