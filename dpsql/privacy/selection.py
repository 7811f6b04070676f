"""Choices among cells or marginals by their scores: the exponential mechanism on exact counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.core.threshold import Family, clique_of
from dpsql.errors import InvalidArgument
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import SELECTION
from dpsql.privacy.given import given_clique, given_family, given_share, given_whole
from dpsql.privacy.journal import Answer, Choice, Query, SignedQuery, WholeMarginal
from dpsql.privacy.noise import Integers
from dpsql.privacy.questions import CellSelection, MarginalSelection, Question, SignedSelection

_LARGEST_ANSWER: Final = 2.0**52
_LARGEST_SCORE: Final = 2.0**61
_LARGEST_WEIGHT: Final = 10**6  # of a score; times a count it stays a 64-bit number


class Selections(Asking):
    """Selects and draws."""

    def select_cells(
        self,
        families: Sequence[Family],
        answers: Callable[[Family], npt.NDArray[np.float64]],
        count: int,
        rho: Fraction,
        exclude: Sequence[Query] = (),
    ) -> list[Query]:
        """The cells that a model answers worst: score |count − answer|, noisy maximum, without replacement.

        Answers are rounded to whole rows, so that scores are integers and no rounding touches the sensitivity.

        Privacy: count·ρ-zCDP, and Gaussian DP of 11/7 of that g; an exponential mechanism of range 2λΔ each,
        λ ≤ √(2ρ)/Δ, Δ = c (1 without privacy units).

        Args:
            families: the cliques, or families of thresholds, whose cells are the candidates.
            answers: the model's answers to a family (rows), shape (cells,).
            count: how many to select.
            rho: of each selection.
            exclude: cells that are no candidates.
        """
        rho, count, families = given_share(rho), given_whole("count", count), tuple(map(given_family, families))
        question = CellSelection(count, len(families), rho)
        found = self._selection(question, rho, count, lambda: self._select(families, answers, count, rho, exclude))
        return cast(list[Query], found)

    def select_marginals(
        self,
        cliques: Sequence[Clique],
        answers: Callable[[Clique], npt.NDArray[np.float64]],
        count: int,
        rho: Fraction,
        penalties: Sequence[float] | None = None,
        weights: Sequence[int] | None = None,
    ) -> list[Clique]:
        """The marginals that a model answers worst: score w·(Σ|count − answer| − penalty), without replacement.

        Answers and penalties are rounded to whole rows; see `select_cells`.

        Privacy: count·ρ-zCDP, and Gaussian DP of 11/7 of that g; an exponential mechanism of range 2λΔ each,
        λ ≤ √(2ρ)/Δ, Δ = c·max w (add_remove) or 2·max w (replace_one); 2√(2ρ)-DP each too.

        Args:
            cliques: the candidates.
            answers: the model's answers to a clique (rows), shape (cells,).
            count: how many to select.
            rho: of each selection.
            penalties: taken from each score (rows), such as the noise that measuring would bring.
            weights: of the scores, positive; 1 by default.
        """
        rho, count, cliques = given_share(rho), given_whole("count", count), tuple(map(given_clique, cliques))
        factors = (
            [1] * len(cliques) if weights is None else [given_whole("weight", w, _LARGEST_WEIGHT) for w in weights]
        )
        dues = [0.0] * len(cliques) if penalties is None else np.nan_to_num(np.array(penalties, np.float64)).tolist()
        if not len(cliques) == len(factors) == len(dues):
            raise InvalidArgument(
                f"{len(cliques)} marginals have {len(factors)} weights, {len(dues)} penalties: give one each"
            )
        question = MarginalSelection(count, len(cliques), rho)

        def choose() -> list[WholeMarginal]:
            if count > len(cliques):
                raise InvalidArgument(f"{count} marginals cannot be selected from {len(cliques)}: ask for fewer")
            self._progress.stage("selecting", len(cliques))
            self._expect(cliques)
            scores = np.empty(len(cliques), np.int64)
            heaviest = max(factors)
            for place, (clique, factor, due) in enumerate(zip(cliques, factors, dues, strict=True)):
                most = min(_LARGEST_ANSWER, _LARGEST_SCORE / (self.domain.size(clique) * heaviest))  # of each cell
                errors = self._whole_answers(clique, answers(clique), most)
                exact = self._marginal(clique)
                errors[exact.cells] -= exact.counts
                penalty = round(min(max(due, 0.0), _LARGEST_SCORE / heaviest))
                scores[place] = (int(np.abs(errors).sum()) - penalty) * factor
                self._progress.advance(1)
            winners = self._winners(scores, rho, self.neighbours.marginal_l1 * heaviest, count)
            return [WholeMarginal(cliques[winner]) for winner in winners]

        found = cast(list[WholeMarginal], self._selection(question, rho, count, choose))
        return [marginal.clique for marginal in found]

    def sample_cells(
        self,
        cliques: Sequence[Clique],
        answers: Callable[[Clique], npt.NDArray[np.float64]],
        factor: int,
        count: int,
        rho: Fraction,
        sample: int | None = None,
    ) -> list[SignedQuery]:
        """Cells and signs drawn independently with P ∝ exp(λ·sign·(factor·count − answer)): DualQuery's query player.

        Privacy: count·ρ-zCDP, and Gaussian DP of 11/7 of that g; each draw is an exponential mechanism of range 2λΔ, λ
        ≤ √(2ρ)/Δ, Δ = c·factor (c = 1 without privacy units). The same where only a sample of the rows is counted: the
        samples of two neighbours can be paired so that they differ in one row, or one row replaced, or not at all, and
        Δ is the same for both; a sample is refused where units have several rows. That a sample hides more than that is
        no part of this statement, for zCDP does not show it.

        Args:
            cliques: whose cells, each with sign + or − (its negation), are the candidates.
            answers: what is taken off factor·count for each cell of a clique (rows), shape (cells,); public.
            factor: of the counts.
            count: how many draws, with replacement.
            rho: of each draw.
            sample: how many rows are counted, drawn uniformly without replacement, once in a run; None counts all.

        Returns:
            The cell and the sign of each draw.
        """
        if sample is not None and self.neighbours.unit_rows is not None:
            raise InvalidArgument("a sample of rows is no sample of privacy units: leave subsample out")
        rho, count, cliques = given_share(rho), given_whole("count", count), tuple(map(given_clique, cliques))
        factor = given_whole("factor", factor, _LARGEST_WEIGHT)
        sample = None if sample is None else given_whole("sample", sample)
        question = SignedSelection(count, len(cliques), factor, rho, sample)

        def draw() -> list[SignedQuery]:
            self._progress.stage("sampling", len(cliques))
            if sample is None:
                self._expect(cliques)
            parts = []
            for clique in cliques:
                scores = -self._whole_answers(clique, answers(clique))
                exact = self._marginal(clique, sample)
                scores[exact.cells] += factor * exact.counts
                parts.append(scores)
                self._progress.advance(1)
            starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
            scores = np.concatenate(parts)
            chosen = []
            signed = np.concatenate([scores, -scores])
            for drawn in self._draws(signed, rho, factor * self.neighbours.cell, count):
                cell, negated = drawn % len(scores), drawn >= len(scores)
                number = int(np.searchsorted(starts, cell, side="right")) - 1
                place = int(cell - starts[number])
                chosen.append(SignedQuery((cliques[number], place), -1 if negated else 1))
            return chosen

        return cast(list[SignedQuery], self._selection(question, rho, count, draw))

    def _selection(
        self, question: Question, rho: Fraction, count: int, choose: Callable[[], Sequence[Choice]]
    ) -> list[Choice]:
        """Debit, then the recorded choice, or a new one, recorded before it is returned."""
        answer = self._answer(
            SELECTION, [rho] * count, question, lambda: Answer(question, count * rho, selection=tuple(choose()))
        )
        assert answer.selection is not None
        return list(answer.selection)

    def _select(
        self,
        families: Sequence[Family],
        answers: Callable[[Family], npt.NDArray[np.float64]],
        count: int,
        rho: Fraction,
        exclude: Sequence[Query],
    ) -> list[Query]:
        self._progress.stage("selecting", len(families))
        self._expect([clique_of(family) for family in families])
        parts = []
        for family in families:
            scores = self._whole_answers(clique_of(family), answers(family))  # checked before a count is read
            exact = self._marginal(family)
            scores[exact.cells] -= exact.counts
            parts.append(np.abs(scores))
            self._progress.advance(1)
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        place = {family: int(start) for family, start in zip(families, starts[:-1], strict=True)}
        allowed = np.ones(int(starts[-1]), dtype=bool)
        for family, cell in exclude:
            if family in place:
                allowed[place[family] + cell] = False
        candidates = np.flatnonzero(allowed)
        if count > len(candidates):
            raise InvalidArgument(f"{count} cells cannot be selected from {len(candidates)}: ask for fewer")
        winners = self._winners(np.concatenate(parts)[candidates], rho, self.neighbours.cell, count)
        chosen = []
        for winner in candidates[winners]:
            number = int(np.searchsorted(starts, winner, side="right")) - 1
            chosen.append((families[number], int(winner - starts[number])))
        return chosen

    def _whole_answers(
        self, clique: Clique, answers: npt.NDArray[np.float64], most: float = _LARGEST_ANSWER
    ) -> Integers:
        """A model's answers as whole rows, so bounded that no score can overflow, whatever the model says."""
        given = np.array(answers, np.float64)  # an array of our own, whatever kind the mechanism's is
        if given.shape != (self.domain.size(clique),):
            raise InvalidArgument(
                f"the model has {given.shape} answers to a marginal of {self.domain.size(clique)} cells"
            )
        finite = np.nan_to_num(given, nan=0.0, posinf=most, neginf=-most)
        return np.rint(np.clip(finite, -most, most)).astype(np.int64)
