"""Choices among cells or marginals by their scores: the exponential mechanism on exact counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.core.linear_family import LinearFamily, QueryFamily, columns_of, moved_by, moved_of_linear, number_of
from dpsql.core.marginal import Marginal
from dpsql.core.threshold import Family, clique_of
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import SELECTION
from dpsql.privacy.given import given_asked, given_cell, given_share, given_whole
from dpsql.privacy.journal import Answer, Choice, ChosenLinear, Query, SignedLinear, SignedQuery, WholeMarginal
from dpsql.privacy.noise import Integers
from dpsql.privacy.questions import CellSelection, MarginalSelection, Question, SignedSelection

LARGEST_ANSWER: Final = 2.0**52
LARGEST_SCORE: Final = 2.0**61
LARGEST_WEIGHT: Final = 10**6  # of a score; times a count it stays a 64-bit number
_ONE: Final = 1 << 20  # of a count's score beside linear queries


Named = TypeVar("Named", bound=Family)
Candidate = TypeVar("Candidate", bound=QueryFamily)
Answers = Callable[[QueryFamily], npt.NDArray[np.float64]]


class Selections(Asking):
    """Selects and draws."""

    def select_cells(
        self,
        families: Sequence[Candidate],
        answers: Callable[[Candidate], npt.NDArray[np.float64]],
        count: int,
        rho: Fraction,
        exclude: Sequence[Query] = (),
    ) -> list[tuple[Candidate, int]]:
        """The cells that a model answers worst: score |count − answer|, noisy maximum, without replacement.

        Answers are rounded to whole rows, or to steps of linear queries, so that scores are integers and no rounding
        touches the sensitivity. Beside linear queries all scores are multiplied by whole numbers that make them alike:
        2²⁰ for a count, 2²⁰/W rounded down for the error in steps where the largest weight is W.

        Privacy: count·ρ-zCDP, and Gaussian DP of 11/7 of that g; an exponential mechanism of range 2λΔ each,
        λ ≤ √(2ρ)/Δ, Δ = c (1 without privacy units); beside linear queries the largest of factor·Δ_q, with Δ_q = c of a
        count and `LinearFamily.moved_single` of a linear query.

        Args:
            families: the cliques, families of thresholds or linear queries whose cells or groups are the candidates.
            answers: the model's answers to a family (rows or steps), shape (cells,).
            count: how many to select.
            rho: of each selection.
            exclude: cells that are no candidates.
        """
        rho, count = given_share(rho), given_whole("count", count)
        families_given, given = tuple(given_asked(self.domain, family) for family in families), cast(Answers, answers)
        question = CellSelection(count, len(families_given), rho)
        winners = self._selection(
            question, rho, count, lambda: self._select(families_given, given, count, rho, exclude)
        )
        by_digest = _by_digest(families_given)
        chosen = [
            (by_digest(winner), winner.group) if isinstance(winner, ChosenLinear) else winner for winner in winners
        ]
        return cast(list[tuple[Candidate, int]], chosen)

    def select_marginals(
        self,
        cliques: Sequence[Named],
        answers: Callable[[Named], npt.NDArray[np.float64]],
        count: int,
        rho: Fraction,
        penalties: Sequence[float] | None = None,
        weights: Sequence[int] | None = None,
    ) -> list[Clique]:
        """The marginals that a model answers worst: score w·(Σ|count − answer| − penalty), without replacement.

        Of a family of thresholds the counts are those of its queries, and what is selected is its clique. Answers and
        penalties are rounded to whole rows; see `select_cells`.

        Privacy: count·ρ-zCDP, and Gaussian DP of 11/7 of that g; an exponential mechanism of range 2λΔ each,
        λ ≤ √(2ρ)/Δ, Δ = max w·Δ_f; 2√(2ρ)-DP each too. Δ_f of a marginal is c (add_remove) or 2 (replace_one). Of
        thresholds it is c·m, m the queries that count a row (add_remove), or the most queries that count exactly one of
        two rows (replace_one); see `dpsql.core.threshold`.

        Args:
            cliques: the candidates, or families of thresholds.
            answers: the model's answers to a clique or family (rows), shape (cells,).
            count: how many to select.
            rho: of each selection.
            penalties: taken from each score (rows), such as the noise that measuring would bring.
            weights: of the scores, positive; 1 by default.
        """
        winners = self._families(cliques, cast(Answers, answers), count, rho, penalties, weights)
        return cast(list[Clique], winners)

    def _families(
        self,
        candidates: Sequence[QueryFamily],
        answers: Answers,
        count: int,
        rho: Fraction,
        penalties: Sequence[float] | None,
        weights: Sequence[int] | None,
    ) -> list[Clique | LinearFamily]:
        """See `select_marginals`: the cliques that are selected, or families of linear queries.

        Of those the score is w·(Σ|answer − model's| − penalty) in steps, and Δ_f is `LinearFamily.moved`.
        """
        rho, count = given_share(rho), given_whole("count", count)
        families = tuple(given_asked(self.domain, family) for family in candidates)
        factors = (
            [1] * len(families) if weights is None else [given_whole("weight", w, LARGEST_WEIGHT) for w in weights]
        )
        dues = [0.0] * len(families) if penalties is None else np.nan_to_num(np.array(penalties, np.float64)).tolist()
        if not len(families) == len(factors) == len(dues):
            raise InvalidArgument(
                f"{len(families)} marginals have {len(factors)} weights, {len(dues)} penalties: give one each"
            )
        question = MarginalSelection(count, len(families), rho)

        def choose() -> list[Choice]:
            if count > len(families):
                raise InvalidArgument(f"{count} marginals cannot be selected from {len(families)}: ask for fewer")
            self._progress.stage("selecting", len(families))
            self._expect(list(map(columns_of, families)))
            scores = np.empty(len(families), np.int64)
            for place, (family, factor, due) in enumerate(zip(families, factors, dues, strict=True)):
                size = number_of(self.domain, family)
                most = min(LARGEST_ANSWER, LARGEST_SCORE / (size * factor))  # no sum overflows
                model = self._whole_answers(size, answers(family), most)
                penalty = round(min(max(due, 0.0), LARGEST_SCORE / factor))
                scores[place] = (distance(model, self._marginal(family), int(most)) - penalty) * factor
                self._progress.advance(1)
            winners = self._winners(scores, rho, self._most_moved(families, factors), count)
            return [_chosen(families[winner]) for winner in winners]

        by_digest = _by_digest(families)
        chosen_families = self._selection(question, rho, count, choose)
        return [
            by_digest(chosen_family)
            if isinstance(chosen_family, ChosenLinear)
            else cast(WholeMarginal, chosen_family).clique
            for chosen_family in chosen_families
        ]

    def sample_cells(
        self,
        families: Sequence[Candidate],
        answers: Callable[[Candidate], npt.NDArray[np.float64]],
        factor: int,
        count: int,
        rho: Fraction,
        sample: int | None = None,
    ) -> list[SignedQuery]:
        """Cells and signs drawn independently with P ∝ exp(λ·sign·(factor·count − answer)): DualQuery's query player.

        Of a family of thresholds its queries stand in place of cells; a row counts for each of them once at most, too.
        Scores of linear queries are divided by the span R of their weights, 0 among these, so that a row that is
        replaced moves them by 1 at most: beside them all scores are multiplied by whole numbers, 2²⁰ for a count, and
        2²⁰/R rounded down for a step, and cut off at ±2⁶¹.

        Privacy: count·ρ-zCDP, and Gaussian DP of 11/7 of that g; each draw is an exponential mechanism of range 2λΔ, λ
        ≤ √(2ρ)/Δ, Δ = c·factor (c = 1 without privacy units); beside linear queries factor times the largest of 2²⁰·c
        and of each one's whole number times `LinearFamily.moved_single`. The same where only a sample of the rows is
        counted: the samples of two neighbours can be paired so that they differ in one row, or one row replaced, or not
        at all, and Δ is the same for both; a sample is refused where units have several rows. That a sample hides more
        than that is no part of this statement, for zCDP does not show it.

        Args:
            families: the cliques, families of thresholds or linear queries, whose cells or groups, each with sign + or
                − (its negation), are the candidates.
            answers: what is taken off factor·count for each cell of a family (rows or steps), shape (cells,); public.
            factor: of the counts.
            count: how many draws, with replacement.
            rho: of each draw.
            sample: how many rows are counted, drawn uniformly without replacement, once in a run; None counts all.

        Returns:
            The cell and the sign of each draw.
        """
        if sample is not None and self.neighbours.unit_rows is not None:
            raise InvalidArgument("a sample of rows is no sample of privacy units: leave subsample out")
        rho, count, given = given_share(rho), given_whole("count", count), cast(Answers, answers)
        families_given = tuple(given_asked(self.domain, family) for family in families)
        factor = given_whole("factor", factor, LARGEST_WEIGHT)
        sample = None if sample is None else given_whole("sample", sample)
        question = SignedSelection(count, len(families_given), factor, rho, sample)

        by_digest = _by_digest(families_given)
        drawn = self._selection(
            question, rho, count, lambda: self._sample(families_given, given, factor, count, rho, sample)
        )
        return [
            SignedQuery((by_digest(query.chosen), cast(int, query.chosen.group)), query.sign)
            if isinstance(query, SignedLinear)
            else cast(SignedQuery, query)
            for query in drawn
        ]

    def _sample(
        self,
        families: Sequence[QueryFamily],
        answers: Answers,
        factor: int,
        count: int,
        rho: Fraction,
        sample: int | None,
    ) -> list[Choice]:
        """The draws of `sample_cells`."""
        self._progress.stage("sampling", len(families))
        self._expect([] if sample is not None else list(map(columns_of, families)))
        alike, moved = self._alike(families, lambda family: family.span)
        most, parts = int(LARGEST_SCORE) // factor, []
        for family, whole in zip(families, alike, strict=True):
            scores = -self._whole_answers(number_of(self.domain, family), answers(family))
            exact = self._marginal(family, sample)
            scores[exact.cells] += factor * np.clip(exact.counts, -most, most)  # a product never overflows
            parts.append(whole * np.clip(scores, -int(LARGEST_SCORE / whole), int(LARGEST_SCORE / whole)))
            self._progress.advance(1)
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        scores = np.concatenate(parts)
        chosen: list[Choice] = []
        signed = np.concatenate([scores, -scores])
        for drawn in self._draws(signed, rho, factor * moved, count):
            cell, negated = drawn % len(scores), drawn >= len(scores)
            number = int(np.searchsorted(starts, cell, side="right")) - 1
            chosen.append(_signed(families[number], int(cell - starts[number]), -1 if negated else 1))
        return chosen

    def _selection(
        self, question: Question, rho: Fraction, count: int, choose: Callable[[], Sequence[Choice]]
    ) -> list[Choice]:
        """Debit, then the recorded choice, or a new one, recorded before it is returned."""
        answer = self._answer(
            SELECTION, [rho] * count, question, lambda: Answer(question, count * rho, selection=tuple(choose()))
        )
        assert answer.selection is not None
        return list(answer.selection)

    def _most_moved(self, families: Sequence[QueryFamily], factors: Sequence[int]) -> int:
        """Δ: the most that two neighbours differ in a score w·Σ|count − answer|; see `select_marginals`."""
        distinct = dict[QueryFamily, int]()
        for family, factor in zip(families, factors, strict=True):
            distinct[family] = max(factor, distinct.get(family, 0))
        moved = {family: moved_by(self.domain, family, self.neighbours) for family in distinct}
        return max(max(1, moved[family]) * factor for family, factor in distinct.items())

    def _select(
        self,
        families: Sequence[QueryFamily],
        answers: Answers,
        count: int,
        rho: Fraction,
        exclude: Sequence[Query],
    ) -> list[Choice]:
        self._progress.stage("selecting", len(families))
        self._expect([columns_of(family) for family in families])
        factors, moved = self._alike(families, lambda family: family.largest)
        parts = []
        for family, factor in zip(families, factors, strict=True):
            size = number_of(self.domain, family)
            scores = self._whole_answers(size, answers(family))  # checked before a count is read
            exact = self._marginal(family)
            scores[exact.cells] -= exact.counts
            parts.append(factor * np.minimum(np.abs(scores), int(LARGEST_SCORE / factor)))
            self._progress.advance(1)
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        place = {family: int(start) for family, start in zip(families, starts[:-1], strict=True)}
        allowed = np.ones(int(starts[-1]), dtype=bool)
        for family, cell in exclude:
            if family in place:
                allowed[place[family] + given_cell(self.domain, family, cell)] = False
        candidates = np.flatnonzero(allowed)
        if count > len(candidates):
            raise InvalidArgument(f"{count} cells cannot be selected from {len(candidates)}: ask for fewer")
        winners = self._winners(np.concatenate(parts)[candidates], rho, moved, count)
        chosen = []
        for winner in candidates[winners]:
            number = int(np.searchsorted(starts, winner, side="right")) - 1
            chosen.append(_chosen(families[number], int(winner - starts[number])))
        return chosen

    def _alike(self, families: Sequence[QueryFamily], size: Callable[[LinearFamily], int]) -> tuple[list[int], int]:
        """What scores of single queries are multiplied by, and Δ of all of them then; see `select_cells`.

        Args:
            families: of the queries.
            size: what a score of a linear query is divided by, in steps.
        """
        cell = self.neighbours.cell
        if not any(isinstance(family, LinearFamily) for family in families):
            return [1] * len(families), cell
        factors, most = [], cell * _ONE
        for family in families:
            factors.append(max(1, _ONE // size(family)) if isinstance(family, LinearFamily) else _ONE)
            if isinstance(family, LinearFamily):
                most = max(most, factors[-1] * moved_of_linear(self.domain, family, self.neighbours, single=True))
        return factors, most

    def _whole_answers(self, size: int, answers: npt.NDArray[np.float64], most: float = LARGEST_ANSWER) -> Integers:
        """A model's answers as whole rows, so bounded that no score can overflow, whatever the model says."""
        given = np.array(answers, np.float64)  # an array of our own, whatever kind the mechanism's is
        if given.shape != (size,):
            raise InvalidArgument(f"the model has {given.shape} answers to a marginal of {size} cells")
        finite = np.nan_to_num(given, nan=0.0, posinf=most, neginf=-most)
        return np.rint(np.clip(finite, -most, most)).astype(np.int64)


def distance(answers: Integers, exact: Marginal, most: int) -> int:
    """Σ|answer − count|, each at most `most`.

    Args:
        answers: to a marginal (rows), shape (cells,).
        exact: its counts.
        most: so that no sum overflows.
    """
    errors = answers.copy()
    errors[exact.cells] -= exact.counts
    return int(np.minimum(np.abs(errors), most).sum())


def _chosen(family: QueryFamily, cell: int | None = None) -> Choice:
    """What was chosen, as journals have it: a family as a whole, or one of its cells or groups."""
    if isinstance(family, LinearFamily):
        return ChosenLinear(family.clique, family.digest, cell)
    return WholeMarginal(clique_of(family)) if cell is None else (family, cell)


def _signed(family: QueryFamily, cell: int, sign: int) -> Choice:
    """A cell or group with its sign, as journals have it."""
    if isinstance(family, LinearFamily):
        return SignedLinear(ChosenLinear(family.clique, family.digest, cell), sign)
    return SignedQuery((family, cell), sign)


def _by_digest(families: Sequence[QueryFamily]) -> Callable[[ChosenLinear], LinearFamily]:
    """Finds the linear queries that were chosen among the candidates; a recorded choice may be of others."""
    by_its_digest = {family.digest: family for family in families if isinstance(family, LinearFamily)}

    def find(chosen: ChosenLinear) -> LinearFamily:
        if chosen.digest not in by_its_digest:
            raise DpsqlError(
                "this release was begun with other linear queries and cannot be completed: give the release another "
                "name, which is charged anew"
            )
        return by_its_digest[chosen.digest]

    return find
