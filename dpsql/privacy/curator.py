"""The trusted kernel: the only part that sees private counts.

A mechanism holds a `Curator` and asks it questions, each with a share of the ρ that was charged, of the kinds that it
declared (see `dpsql.privacy.pricing`). What it hands over is copied to plain numbers first, for it is not believed. The
curator debits the share, then counts, adds exact noise, writes the answer to the journal, and only then returns it. So
the privacy proof of a mechanism is the list of its questions: their ρ and their g (see `dpsql.privacy.accounting`) add
up to at most the charge.

Answers already in the journal (of a run that was interrupted or killed) are returned again, at no cost, as long as the
mechanism asks the same questions in the same order. Nothing that was not journalled has been seen by anyone, so asking
afresh what is missing spends what was charged for it.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Choice, LinearQuery, Moment
from dpsql.core.marginal import Marginal, Measurement, NoiseName, Presence
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.threshold import Family, Threshold, clique_of, threshold_counts
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy.accounting import (
    OTHER_PRICE,
    discovery_threshold,
    gaussian_variance,
    plain_fraction,
    selection_rate,
)
from dpsql.privacy.noise import (
    Entropy,
    Integers,
    discrete_gaussian,
    discrete_laplace,
    exponential_mechanism,
    exponential_sample,
    system_entropy,
    uniform_subset,
)
from dpsql.privacy.pricing import KINDS, Kind
from dpsql.privacy.purse import Purse
from dpsql.runtime.progress import Progress

_LARGEST_ANSWER: Final = 2.0**52
_LARGEST_SCORE: Final = 2.0**61
_LARGEST_WEIGHT: Final = 10**6  # of a score; times a count it stays a 64-bit number
Query = tuple[Family, int]
"""One cell of a clique's marginal, or of a family of thresholds, by its row-major index."""


class Counter(Protocol):
    """Where exact counts come from (see `dpsql.engines.duckdb.counting`)."""

    def marginal(self, clique: Clique) -> Marginal:
        """The exact marginal of a clique; the empty clique counts all rows."""

    def presence(self, clique: Clique) -> Presence:
        """Which privacy units have a row in which cells of a clique."""

    def sums(self, clique: Clique, moment: Moment) -> Marginal:
        """The sum of a column's steps over the rows of each cell of a clique, in place of their number."""

    def bins(self, attribute: Attribute) -> Marginal:
        """The exact counts of the bins of one column, whatever its domain."""

    def values(self, column: str) -> tuple[Sequence[str], Integers]:
        """The values of a column that 2 units have or more, as text in order, and how many units; NULL is none."""

    def among(self, places: Integers) -> Counter:
        """A counter of some of the rows only: those at these places, from 0 on, in an order that does not change."""


@dataclass(frozen=True)
class Answer:
    """One entry of the journal.

    Attributes:
        question: what was asked, as JSON; tells whether a later run asks the same.
        measurement: the noisy counts, if it was a measurement.
        selection: the chosen (clique, cell) pairs, if it was a selection.
        values: of a column, if they were discovered.
        rho: what it cost, exact.
    """

    question: str
    rho: Fraction
    measurement: Measurement | None = None
    selection: tuple[Query, ...] | None = None
    values: tuple[str, ...] | None = None

    @property
    def of_cells(self) -> bool:
        """Whether the measurement is of a clique's cells; else of a query's groups, or of other bins of a column."""
        return json.loads(self.question)["ask"] not in ("query", "bins")


class Journal(Protocol):
    """Where answers are kept, durably, before they are used."""

    def recorded(self) -> Sequence[Answer]:
        """The answers of earlier runs, in order."""

    def append(self, answers: Sequence[Answer]) -> None:
        """Write answers; returns when they are durable."""


class Curator:
    """Answers questions about one protected table with noise, within one charge.

    Attributes:
        prior: a public table, if the request names one.
        earlier: measurements that earlier releases of the table paid for; free.
    """

    def __init__(
        self,
        counter: Counter,
        domain: Domain,
        neighbours: Neighbours,
        rho: Fraction,
        journal: Journal,
        progress: Progress,
        entropy: Entropy = system_entropy,
        gdp: Fraction | None = None,
        pure: Fraction | None = None,
        prior: Prior | None = None,
        earlier: Sequence[Measurement] = (),
        kinds: Sequence[Kind] = KINDS,
        failure: float = 0.0,
        *,
        for_mechanism: bool = False,
    ) -> None:
        """One charge and what it is spent on.

        Args:
            counter: where exact counts come from.
            domain: see the property.
            neighbours: see the property.
            rho: of the charge.
            journal: where answers are kept.
            progress: told of each step.
            entropy: of the noise.
            gdp: g of the charge; None for the most that ρ can cost.
            pure: ε of a charge for pure ε-DP; None for one by ρ and g only.
            prior: see the attribute.
            earlier: see the attribute.
            kinds: of the questions that the charge was made for.
            failure: the probability that a discovery of values may fail with; 0 where none was charged.
            for_mechanism: whether a mechanism holds it, which asks for no queries and no discoveries: what those take
                for true of a `LinearQuery` or an `Attribute` only the code that makes them ensures.
        """
        self._domain, self._neighbours = domain, neighbours
        self.prior: Final = prior
        self.earlier: Final = tuple(earlier)
        self._purse = Purse(rho, rho * OTHER_PRICE if gdp is None else gdp, pure, kinds, failure)
        self._for_mechanism = for_mechanism
        self._counter, self._journal, self._progress, self._entropy = counter, journal, progress, entropy
        self._recorded = list(journal.recorded())
        self._exact: dict[tuple[Family, int | None], Marginal] = {}
        self._samples: dict[int, Counter] = {}

    @property
    def domain(self) -> Domain:
        """The table's public domain."""
        return self._domain

    @property
    def neighbours(self) -> Neighbours:
        """Of the guarantee."""
        return self._neighbours

    @property
    def remaining(self) -> Fraction:
        """The ρ of the charge not yet debited, exact."""
        return self._purse.rho

    @property
    def remaining_gdp(self) -> Fraction:
        """The g of the charge not yet debited, exact."""
        return self._purse.gdp

    @property
    def remaining_pure(self) -> Fraction | None:
        """The ε of a charge for pure ε-DP not yet debited, exact; None for one by ρ and g only."""
        return self._purse.pure

    def total(self, rho: Fraction, noise: NoiseName = "gaussian") -> Measurement:
        """The number of rows, with noise N_Z(0, c²/2ρ + 1/8); exact and free where it is public (replace_one).

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ; sensitivity c, 1 without privacy units. Laplace noise as in
        `measure`.
        """
        if self.neighbours.total_is_public:
            question = _question("measure", (), Fraction(0), "none")
            answers = self._replay([question])
            if not answers:  # kept like any other, for the table may have grown when a killed run goes on
                answers = [Answer(question, Fraction(0), self._measurement((), Fraction(0), "none"))]
                self._record(answers)
            return _measured(answers[0])
        return self.measure([((), rho)], noise)[0]

    def measure(self, requests: Sequence[tuple[Clique, Fraction]], noise: NoiseName = "gaussian") -> list[Measurement]:
        """Whole marginals, every cell of the domain with independent noise.

        Privacy: Σρ-zCDP, and Gaussian DP of g = Σρ (Laplace: 11/7 of it). Gaussian noise has σ² = Δ₂²/2ρ + 1/8 with
        Δ₂² = c² (add_remove; c = 1 without privacy units) or 2 (replace_one); Laplace noise has b = Δ₁/ε with
        ε ≤ √(2ρ) and Δ₁ = c or 2, and is ε-DP too.

        Args:
            requests: cliques, each with its ρ (positive).
            noise: `gaussian` or `laplace`.

        Raises:
            InsufficientBudget: the shares exceed what remains; nothing was counted.
            DomainTooLarge: a marginal has too many cells.
        """
        _check_noise(noise)
        requests = [(clique, _share(rho)) for clique, rho in requests]
        for clique, _ in requests:
            self.domain.check_countable(clique)
        questions = [_question("measure", clique, rho, noise) for clique, rho in requests]
        self._purse.take(noise, [rho for _, rho in requests])
        answers = self._replay(questions)
        fresh = []
        self._progress.stage("measuring", len(requests))
        for question, (clique, rho) in list(zip(questions, requests, strict=True))[len(answers) :]:
            fresh.append(Answer(question, rho, self._measurement(clique, rho, noise)))
            self._progress.advance(1)
        self._record(fresh)
        return [_measured(answer) for answer in [*answers, *fresh]]

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
        _check_noise(noise)
        rho, grouped = _share(rho), dict[Family, list[int]]()
        for family, cell in queries:
            grouped.setdefault(family, []).append(operator.index(cell))
        kind = "cells" if noise == "gaussian" else f"cells {noise}"
        questions = [_question(kind, family, rho, ",".join(map(str, cells))) for family, cells in grouped.items()]
        self._purse.take(noise, [rho] * sum(map(len, grouped.values())))
        answers = self._replay(questions)
        fresh = []
        for question, (family, cells) in list(zip(questions, grouped.items(), strict=True))[len(answers) :]:
            drawn, variance = self._noise(len(cells), rho, noise, self.neighbours.cell, self.neighbours.cell**2)
            values = _counts(self._marginal(family), cells) + drawn
            clique, cost = clique_of(family), rho * len(cells)
            least = family.least if isinstance(family, Threshold) else None
            shape = self.domain.shape(clique)
            measured = Measurement(clique, shape, values, variance, noise, cost, tuple(cells), least)
            fresh.append(Answer(question, cost, measured))
        self._record(fresh)
        return [_measured(answer) for answer in [*answers, *fresh]]

    def measure_linear(self, query: LinearQuery, rho: Fraction, noise: NoiseName = "gaussian") -> list[Measurement]:
        """Weighted counts in groups, every group of the domain with independent noise; one measurement for each weight.

        With Δ² the most that one row, or one unit, changes Σ (change_a/s_a)² over groups and aggregates, s_a the
        largest weight, the noise of aggregate a has σ_a² = s_a²·Δ²/2ρ + 1/8; Laplace noise b_a = s_a·Δ₁/ε with ε ≤
        √(2ρ), Δ₁ of Σ |change|.

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ: a shift by w of discrete Gaussian noise is w shifts by 1, and so
        Gaussian DP of μ = w/√(σ² − 1/8). Laplace: ε-DP, and 11/7 of that g.

        Args:
            query: what to count; its clique's marginal is counted once.
            rho: of all answers together.
            noise: `gaussian` or `laplace`.

        Returns:
            For each aggregate its noisy answers, of one grouping set after the other; `shape` holds their numbers of
            groups.
        """
        self._check_may_ask("a query")
        _check_noise(noise)
        query.domain.check_countable(query.clique)
        rho = _share(rho)
        share = rho / query.aggregates
        told = hashlib.sha256(repr((noise, query.fingerprint)).encode()).hexdigest()
        questions = [_question("query", query.clique, share, f"{a}: {told}") for a in range(query.aggregates)]
        self._purse.take(noise, [rho])
        answers = self._replay(questions)
        if not answers:
            exact = exact_answers(self._counter, query)
            laplace = linear_scales(query, rho, self.neighbours) if noise == "laplace" else []
            variances = [2 * b**2 for b in laplace] or linear_variances(query, rho, self.neighbours)
            for a, (question, variance) in enumerate(zip(questions, variances, strict=True)):
                flat = np.concatenate([part[a] for part in exact])
                if noise == "laplace":
                    drawn = discrete_laplace(laplace[a], len(flat), self._entropy)
                else:
                    drawn = discrete_gaussian(variance, len(flat), self._entropy)
                answer = Measurement(query.clique, query.groups, flat + drawn, variance, noise, share)
                answers.append(Answer(question, share, answer))
            self._record(answers)
        return [_measured(answer) for answer in answers]

    def measure_bins(self, attribute: Attribute, rho: Fraction) -> Measurement:
        """The rows of one column in bins that need not be its domain, every bin with independent noise.

        Privacy: as a marginal in `measure`, ρ-zCDP and Gaussian DP of g = ρ.
        """
        self._check_may_ask("other bins of a column")
        rho = _share(rho)
        told = hashlib.sha256(repr((attribute.type, attribute.ticks)).encode()).hexdigest()
        question = _question("bins", (attribute.name,), rho, told)
        self._purse.take("gaussian", [rho])
        answers = self._replay([question])
        if not answers:
            exact = self._counter.bins(attribute)
            both = self.neighbours.marginal_l1, self.neighbours.marginal_l2_squared
            values, variance = self._noise(exact.size, rho, "gaussian", *both)
            values[exact.cells] += exact.counts
            measured = Measurement((attribute.name,), (attribute.size,), values, variance, "gaussian", rho)
            answers = [Answer(question, rho, measured)]
            self._record(answers)
        return _measured(answers[0])

    def discover_values(self, column: str, rho: Fraction, failure: float) -> tuple[str, ...]:
        """The values of a column that so many units have that no single unit makes one known.

        Of the values that 2 units have or more those are told whose number of units, with discrete Gaussian noise of
        σ² = Δ²/2ρ + 1/8, reaches `discovery_threshold`. Δ² = c, for a unit of c rows has at most c values (2 for
        replace_one).

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ, but for probability `failure`: a unit that comes or goes changes the
        numbers of values that others have too, which is what ρ pays for, and at most c values cross from 1 unit to 2,
        each of which stays untold with probability 1 − failure/c.

        Args:
            column: its name.
            rho: of it all.
            failure: δ′, of what the charge allows for.
        """
        self._check_may_ask("the values of a column")
        rho, failure = _share(rho), float(failure)
        question = _question("values", (column,), rho, f"but for {failure!r}")
        self._purse.take("gaussian", [rho], failure)
        answers = self._replay([question])
        if not answers:
            values, units = self._counter.values(column)
            variance = gaussian_variance(rho, self.neighbours.presence_l2_squared)
            least = discovery_threshold(variance, failure, self.neighbours.cell)
            noisy = units + discrete_gaussian(variance, len(units), self._entropy)
            told = tuple(value for value, count in zip(values, noisy, strict=True) if count >= least)
            answers = [Answer(question, rho, values=told)]
            self._record(answers)
        assert answers[0].values is not None
        return answers[0].values

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
        rho, count = _share(rho), _whole("count", count)
        question = _question("select", (), rho, f"{count} of {len(families)}")
        return self._selection(question, rho, count, lambda: self._select(families, answers, count, rho, exclude))

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
        rho, count, cliques = _share(rho), _whole("count", count), tuple(cliques)
        factors = [1] * len(cliques) if weights is None else [_whole("weight", w, _LARGEST_WEIGHT) for w in weights]
        dues = [0.0] * len(cliques) if penalties is None else np.nan_to_num(np.array(penalties, np.float64)).tolist()
        if not len(cliques) == len(factors) == len(dues):
            raise InvalidArgument(
                f"{len(cliques)} marginals have {len(factors)} weights, {len(dues)} penalties: give one each"
            )
        question = _question("select marginals", (), rho, f"{count} of {len(cliques)}")

        def choose() -> list[Query]:
            if count > len(cliques):
                raise InvalidArgument(f"{count} marginals cannot be selected from {len(cliques)}: ask for fewer")
            self._progress.stage("selecting", len(cliques))
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
            sensitivity = self.neighbours.marginal_l1 * heaviest
            winners = exponential_mechanism(
                scores, selection_rate(rho, sensitivity), count, self._entropy, self._progress.check
            )
            return [(cliques[winner], -1) for winner in winners]

        return [clique_of(clique) for clique, _ in self._selection(question, rho, count, choose)]

    def sample_cells(
        self,
        cliques: Sequence[Clique],
        answers: Callable[[Clique], npt.NDArray[np.float64]],
        factor: int,
        count: int,
        rho: Fraction,
        sample: int | None = None,
    ) -> list[tuple[tuple[Clique, int], int]]:
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
            For each draw the cell and its sign, 1 or −1.
        """
        if sample is not None and self.neighbours.unit_rows is not None:
            raise InvalidArgument("a sample of rows is no sample of privacy units: leave subsample out")
        rho, count, cliques = _share(rho), _whole("count", count), tuple(cliques)
        factor = _whole("factor", factor, _LARGEST_WEIGHT)
        sample = None if sample is None else _whole("sample", sample)
        among = "" if sample is None else f" among {sample} rows"
        question = _question("sample", (), rho, f"{count} of {len(cliques)} with factor {factor}{among}")

        def draw() -> list[Query]:
            self._progress.stage("sampling", len(cliques))
            parts = []
            for clique in cliques:
                scores = -self._whole_answers(clique, answers(clique))
                exact = self._marginal(clique, sample)
                scores[exact.cells] += factor * exact.counts
                parts.append(scores)
                self._progress.advance(1)
            starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
            scores = np.concatenate(parts)
            rate = selection_rate(rho, factor * self.neighbours.cell)
            chosen: list[Query] = []
            for drawn in exponential_sample(np.concatenate([scores, -scores]), rate, count, self._entropy):
                cell, negated = drawn % len(scores), drawn >= len(scores)
                number = int(np.searchsorted(starts, cell, side="right")) - 1
                place = int(cell - starts[number])
                chosen.append((cliques[number], -1 - place if negated else place))
            return chosen

        found = self._selection(question, rho, count, draw)
        cells = [(clique_of(family), cell) for family, cell in found]
        return [((clique, cell), 1) if cell >= 0 else ((clique, -1 - cell), -1) for clique, cell in cells]

    def _selection(self, question: str, rho: Fraction, count: int, choose: Callable[[], list[Query]]) -> list[Query]:
        """Debit, then the recorded choice, or a new one, recorded before it is returned."""
        self._purse.take("selection", [rho] * count)
        recorded = self._replay([question])
        if not recorded:
            recorded = [Answer(question, count * rho, selection=tuple(choose()))]
            self._record(recorded)
        assert recorded[0].selection is not None
        return list(recorded[0].selection)

    def _select(
        self,
        families: Sequence[Family],
        answers: Callable[[Family], npt.NDArray[np.float64]],
        count: int,
        rho: Fraction,
        exclude: Sequence[Query],
    ) -> list[Query]:
        self._progress.stage("selecting", len(families))
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
        rate = selection_rate(rho, self.neighbours.cell)
        scored = np.concatenate(parts)[candidates]
        winners = exponential_mechanism(scored, rate, count, self._entropy, self._progress.check)
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

    def _check_may_ask(self, what: str) -> None:
        """Refuse a question that is not for mechanisms."""
        if self._for_mechanism:
            raise InvalidArgument(f"a mechanism asks for {what}: it may ask for marginals, cells and selections")

    def _replay(self, questions: Sequence[str]) -> list[Answer]:
        """The recorded answers to the first of these questions; refuses a run that asks otherwise than recorded."""
        replayed, self._recorded = self._recorded[: len(questions)], self._recorded[len(questions) :]
        for answer, question in zip(replayed, questions, strict=False):
            if answer.question != question:
                raise DpsqlError(
                    "this release was begun by another version of the mechanism, or with other rows of the prior, and "
                    "cannot be completed: give the release another name, which is charged anew"
                )
        return replayed

    def _record(self, answers: Sequence[Answer]) -> None:
        if answers:
            self._journal.append(answers)

    def _marginal(self, family: Family, sample: int | None = None) -> Marginal:
        if (family, sample) not in self._exact:
            self._exact[family, sample] = self._count(family, sample)
        return self._exact[family, sample]

    def _sampled(self, rows: int) -> Counter:
        """A counter of that many rows, drawn at the first use; of all where there are not more."""
        if rows not in self._samples:
            total = int(self._marginal(()).counts[0])
            drawn = None if rows >= total else uniform_subset(total, rows, self._entropy)
            self._samples[rows] = self._counter if drawn is None else self._counter.among(drawn)
        return self._samples[rows]

    def _count(self, family: Family, sample: int | None) -> Marginal:
        if not isinstance(family, Threshold):
            return (self._counter if sample is None else self._sampled(sample)).marginal(family)
        exact = self._marginal(family.clique).dense().astype(np.float64)  # whole numbers below 2⁵³, so exact
        counts = np.rint(threshold_counts(exact, self.domain.shape(family.clique), family.least)).astype(np.int64)
        cells = np.flatnonzero(counts)
        return Marginal(family.clique, len(counts), cells, counts[cells])

    def _measurement(self, clique: Clique, rho: Fraction, noise: NoiseName) -> Measurement:
        exact = self._counter.marginal(clique)
        shape = self.domain.shape(clique)
        if noise == "none":
            return Measurement(clique, shape, exact.dense(), Fraction(0), noise, Fraction(0))
        both = self.neighbours.marginal_l1, self.neighbours.marginal_l2_squared
        values, variance = self._noise(exact.size, rho, noise, *both)
        values[exact.cells] += exact.counts
        return Measurement(clique, shape, values, variance, noise, rho)

    def _noise(
        self, count: int, rho: Fraction, noise: NoiseName, l1: int, l2_squared: int
    ) -> tuple[Integers, Fraction]:
        if noise == "laplace":
            scale = 1 / selection_rate(rho, l1)  # Δ₁/ε with ε ≤ √(2ρ)
            return discrete_laplace(scale, count, self._entropy), 2 * scale**2
        _check_noise(noise)
        variance = gaussian_variance(rho, l2_squared)
        return discrete_gaussian(variance, count, self._entropy), variance


def exact_answers(counter: Counter, query: LinearQuery) -> list[Integers]:
    """The answers without noise, of each grouping set, shape (aggregates, groups): for the curator alone."""
    presence = counter.presence(query.clique) if query.units else None
    sums = {a: _summed(counter, query, moment) for a, moment in query.moments.items()}
    return query.answers(counter.marginal(query.clique), presence, sums)


def _summed(counter: Counter, query: LinearQuery, moment: Moment | Choice) -> Marginal:
    if isinstance(moment, Moment):
        return counter.sums(query.clique, moment)
    return query.chosen(moment, [counter.sums(query.clique, one) for one in moment.moments])


def linear_variances(query: LinearQuery, rho: Fraction, neighbours: Neighbours) -> list[Fraction]:
    """σ_a² = s_a²·Δ²/2ρ + 1/8 of each aggregate's discrete Gaussian noise; see `Curator.measure_linear`."""
    change = Fraction(query.sensitivity(2, neighbours))
    return [scale**2 * change / (2 * rho) + Fraction(1, 8) for scale in query.scales]


def linear_scales(query: LinearQuery, rho: Fraction, neighbours: Neighbours) -> list[Fraction]:
    """b_a = s_a·Δ₁/ε, ε ≤ √(2ρ), of each aggregate's discrete Laplace noise; see `Curator.measure_linear`."""
    change = Fraction(query.sensitivity(1, neighbours))
    return [scale * change / selection_rate(rho, 1) for scale in query.scales]


def _share(rho: Fraction) -> Fraction:
    """A share of the budget that a mechanism gives, checked."""
    return plain_fraction("a share of the budget", rho)


def _check_noise(noise: str) -> None:
    """Refuse a word that names no noise: a declared kind of question, such as a selection, is none.

    Raises:
        InvalidArgument: it names none.
    """
    if type(noise) is not str or noise not in ("gaussian", "laplace"):
        raise InvalidArgument(f"noise of a measurement is {noise!r}: say 'gaussian' or 'laplace'")


def _whole(name: str, value: SupportsIndex, most: int | None = None) -> int:
    """A number that a mechanism gives, as a plain one from 1 on.

    Raises:
        InvalidArgument: it is none, or larger than `most`.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = 0
    if found < 1 or (most is not None and found > most):
        raise InvalidArgument(f"{name} is {value!r}: give a whole number from 1{'' if most is None else f' to {most}'}")
    return found


def _question(kind: str, family: Family, rho: Fraction, detail: str) -> str:
    asked: dict[str, object] = {"ask": kind, "clique": clique_of(family), "rho": str(rho), "detail": detail}
    if isinstance(family, Threshold):
        asked["least"] = family.least
    return json.dumps(asked, ensure_ascii=False)


def _measured(answer: Answer) -> Measurement:
    assert answer.measurement is not None
    return answer.measurement


def _counts(marginal: Marginal, cells: Sequence[int]) -> Integers:
    order = np.argsort(marginal.cells)
    support, counts = marginal.cells[order], marginal.counts[order]
    if not len(support):
        return np.zeros(len(cells), np.int64)
    place = np.minimum(np.searchsorted(support, cells), len(support) - 1)
    return np.where(support[place] == cells, counts[place], 0)
