r"""A choice between measuring a marginal and taking it from a public table: one exponential mechanism over both.

    measure S     w·(‖M_S(D) − model‖₁ − penalty)               what measuring it would bring, less its noise
    take S        w·(‖M_S(D) − model‖₁ − ‖M_S(D) − public‖₁)    what the public answer would bring

Rows that differ move each distance of the second score by Δ_S at most, so that score by 2·w·Δ_S. That is attained: a
count between the two answers moves towards one and away from the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.errors import InvalidArgument
from dpsql.privacy.given import given_clique, given_share, given_whole
from dpsql.privacy.journal import Choice, PublicMarginal, WholeMarginal
from dpsql.privacy.noise import Integers
from dpsql.privacy.questions import SourceSelection
from dpsql.privacy.selection import LARGEST_ANSWER, LARGEST_SCORE, LARGEST_WEIGHT, Selections, distance

CliqueAnswers = Callable[[Clique], npt.NDArray[np.float64]]


class Sources(Selections):
    """Selects a marginal, and where its answer is to come from."""

    def select_source(
        self,
        cliques: Sequence[Clique],
        public_cliques: Sequence[Clique],
        answers: CliqueAnswers,
        public: CliqueAnswers,
        rho: Fraction,
        penalties: Sequence[float],
        weights: Sequence[int],
    ) -> tuple[Clique, bool]:
        """The marginal that gains most by being measured, or by being taken from a public table; see the module.

        Answers and penalties are rounded to whole rows, so scores are integers and no rounding touches the sensitivity.

        Privacy: ρ-zCDP, and Gaussian DP of 11/7 of that g; an exponential mechanism of range 2λΔ, λ ≤ √(2ρ)/Δ, Δ = max
        over the candidates of w·Δ_S where S may be measured and 2·w·Δ_S where it may be taken. Δ_S is c (add_remove; c
        rows of a privacy unit, else 1) or 2 (replace_one). The public answers are public, and nothing is measured.

        Args:
            cliques: the marginals that may be measured.
            public_cliques: those that may be taken from the public table.
            answers: the model's answers to a clique (rows), shape (cells,).
            public: the public answers to a clique (rows), shape (cells,).
            rho: of the selection.
            penalties: of each that may be measured (rows), such as the noise that measuring would bring.
            weights: of the scores, positive: of the cliques, then of the public cliques.

        Returns:
            The clique, and whether it is taken from the public table.
        """
        rho, own, taken = given_share(rho), _given_cliques(cliques), _given_cliques(public_cliques)
        factors = [given_whole("weight", weight, LARGEST_WEIGHT) for weight in weights]
        dues = np.nan_to_num(np.array(penalties, np.float64)).tolist()
        if len(factors) != len(own) + len(taken) or len(dues) != len(own) or not factors:
            raise InvalidArgument(
                f"{len(own)} marginals and {len(taken)} public ones have {len(dues)} penalties and {len(factors)} "
                "weights: give one marginal or more, a penalty for each that may be measured, and all weights"
            )

        def choose() -> list[Choice]:
            most = LARGEST_SCORE / (4 * max(factors))
            gains = self._gains(own, taken, answers, public, most)
            for place, due in enumerate(dues):
                gains[place] -= round(min(max(due, 0.0), most))
            moved = self._most_moved(own, factors[: len(own)]) if own else 0
            if taken:
                moved = max(moved, 2 * self._most_moved(taken, factors[len(own) :]))
            (winner,) = self._winners(gains * np.array(factors, np.int64), rho, moved, 1)
            return [WholeMarginal(own[winner]) if winner < len(own) else PublicMarginal(taken[winner - len(own)])]

        (chosen,) = self._selection(SourceSelection(len(own), len(taken), rho), rho, 1, choose)
        return cast(WholeMarginal | PublicMarginal, chosen).clique, isinstance(chosen, PublicMarginal)

    def _gains(
        self,
        own: Sequence[Clique],
        taken: Sequence[Clique],
        answers: CliqueAnswers,
        public: CliqueAnswers,
        most: float,
    ) -> Integers:
        """‖M_S(D) − model‖₁ of what may be measured; of what may be taken ‖M_S(D) − public‖₁ less; `most` at most."""
        every, open_to_public = list(dict.fromkeys((*own, *taken))), set(taken)
        self._progress.stage("selecting", len(every))
        self._expect(every)
        errors, gained = dict[Clique, int](), dict[Clique, int]()
        for clique in every:
            size = self.domain.size(clique)
            largest = min(LARGEST_ANSWER, most / size)  # no sum overflows
            model = self._whole_answers(size, answers(clique), largest)
            given = self._whole_answers(size, public(clique), largest) if clique in open_to_public else None
            exact = self._marginal(clique)  # read when the answers are fixed
            errors[clique] = distance(model, exact, int(largest))
            if given is not None:
                gained[clique] = errors[clique] - distance(given, exact, int(largest))
            self._progress.advance(1)
        return np.array([*(errors[clique] for clique in own), *(gained[clique] for clique in taken)], np.int64)


def _given_cliques(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    return tuple(given_clique(clique) for clique in cliques)
