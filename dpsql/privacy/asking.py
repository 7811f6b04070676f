"""The core of the curator: one charge, the exact counts, the journal, the entropy, and the one way to an answer.

Every question goes through `_answered`: its cost is debited, the recorded answers are taken, what is missing is counted
and noise added, written to the journal, and only then returned. All noise is drawn here, from the entropy given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

import numpy as np

from dpsql.core.constraint import Allowed
from dpsql.core.counter import Counter, CountsTogether
from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import LinearFamily, QueryFamily
from dpsql.core.marginal import Marginal, Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.threshold import Threshold, threshold_counts
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy.accounting import OTHER_PRICE, selection_rate
from dpsql.privacy.distributions import Distribution, Kind
from dpsql.privacy.journal import Answer, Journal
from dpsql.privacy.noise import (
    Entropy,
    Integers,
    exponential_mechanism,
    exponential_sample,
    system_entropy,
    uniform_subset,
)
from dpsql.privacy.purse import Purse
from dpsql.privacy.questions import Question
from dpsql.runtime.progress import Progress


class Asking:
    """Answers questions about one protected table with noise, within one charge; which ones, its children say.

    Attributes:
        prior: a public table, if the request names one.
        earlier: measurements that earlier releases of the table paid for; free.
        allowed: what declared constraints allow, which is public.
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
        allowed: Sequence[Allowed] = (),
        kinds: Sequence[Kind] | None = None,
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
            progress: notified of each step.
            entropy: of the noise.
            gdp: g of the charge; None for the most that ρ can cost.
            pure: ε of a charge for pure ε-DP; None for one by ρ and g only.
            prior: see the attribute.
            earlier: see the attribute.
            allowed: see the attribute.
            kinds: of the questions that the charge was made for; None for all.
            failure: the probability that a discovery of values may fail with; 0 where none was charged.
            for_mechanism: whether a mechanism holds it, which asks for no queries and no discoveries: what those take
                for true of a `LinearQuery` or an `Attribute` only the code that makes them ensures.
        """
        self._domain, self._neighbours = domain, neighbours
        self.prior: Final = prior
        self.earlier: Final = tuple(earlier)
        self.allowed: Final = tuple(allowed)
        self._purse = Purse(rho, rho * OTHER_PRICE if gdp is None else gdp, pure, kinds, failure)
        self._for_mechanism = for_mechanism
        self._counter, self._journal, self._progress, self._entropy = counter, journal, progress, entropy
        self._recorded = list(journal.recorded())
        self._held: list[Answer] | None = None
        self._exact: dict[tuple[QueryFamily, int | None], Marginal] = {}
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

    def _check_may_ask(self, what: str) -> None:
        """Refuse a question that is not for mechanisms."""
        if self._for_mechanism:
            raise InvalidArgument(f"a mechanism asks for {what}: it may ask for marginals, cells and selections")

    def _answered(
        self,
        kind: Kind,
        shares: Sequence[Fraction],
        questions: Sequence[Question],
        fresh: Callable[[int], list[Answer]],
        failure: float = 0.0,
    ) -> list[Answer]:
        """Debit, then the recorded answers and the missing ones, which are recorded before they are returned.

        Args:
            kind: of the questions.
            shares: of ρ, one for each debit.
            questions: in the order of their answers.
            fresh: counts and adds noise: the answers to the questions without so many first ones, which are recorded.
            failure: the probability that a discovery of values may fail with.

        Raises:
            InsufficientBudget: the shares exceed what remains; nothing was counted.
        """
        self._purse.take(kind, shares, failure)
        recorded = self._replay(questions)
        made = fresh(len(recorded))
        self._record(made)
        return [*recorded, *made]

    def _answer(
        self,
        kind: Kind,
        shares: Sequence[Fraction],
        question: Question,
        fresh: Callable[[], Answer],
        failure: float = 0.0,
    ) -> Answer:
        """The answer to one question; see `_answered`."""
        return self._answered(kind, shares, [question], lambda count: [] if count else [fresh()], failure)[0]

    def _replay(self, questions: Sequence[Question]) -> list[Answer]:
        """The recorded answers to the first of these questions; refuses a run that asks otherwise than recorded."""
        replayed, self._recorded = self._recorded[: len(questions)], self._recorded[len(questions) :]
        for answer, question in zip(replayed, questions, strict=False):
            if answer.question.text != question.text:
                raise DpsqlError(
                    "this release was begun by another version of the mechanism, or with other rows of the prior, and "
                    "cannot be completed: give the release another name, which is charged anew"
                )
        return replayed

    def _record(self, answers: Sequence[Answer]) -> None:
        if self._held is not None:
            self._held += answers
        elif answers:
            self._journal.append(answers)

    @contextmanager
    def _in_one_write(self) -> Iterator[None]:
        """Answers inside are recorded together, at the end, because a durable write takes longer than many an answer.

        Only the curator sees them before, so it is as if they had been asked at once. They are recorded too where the
        last one fails: a second try must not draw again what the failure may depend on.
        """
        held: list[Answer] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            self._record(held)

    def _expect(self, cliques: Sequence[Clique]) -> None:
        """Let the counter know which marginals are counted next, all of them charged for; reads nothing."""
        wanted = [clique for clique in cliques if (clique, None) not in self._exact]
        if wanted and isinstance(self._counter, CountsTogether):
            self._counter.expect(wanted)

    def _marginal(self, family: QueryFamily, sample: int | None = None) -> Marginal:
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

    def _count(self, family: QueryFamily, sample: int | None) -> Marginal:
        if isinstance(family, LinearFamily):
            whole = self._marginal(family.clique, sample)
            answers = family.exact(whole.cells, whole.counts)
            groups = np.flatnonzero(answers)
            return Marginal(family.clique, family.count, groups, answers[groups])
        if not isinstance(family, Threshold):
            return (self._counter if sample is None else self._sampled(sample)).marginal(family)
        exact = self._marginal(family.clique, sample).dense().astype(np.float64)  # whole numbers below 2⁵³, so exact
        counts = np.rint(threshold_counts(exact, self.domain.shape(family.clique), family.least)).astype(np.int64)
        cells = np.flatnonzero(counts)
        return Marginal(family.clique, len(counts), cells, counts[cells])

    def _draw(self, noise: Distribution, scale: Fraction, count: int) -> Integers:
        """So much noise of that parameter."""
        return noise.draw(scale, count, self._entropy)

    def _winners(self, scores: Integers, rho: Fraction, sensitivity: int, count: int) -> Sequence[int]:
        """The places of so many scores, without replacement, each chosen at a rate that costs ρ."""
        rate = selection_rate(rho, sensitivity)
        return exponential_mechanism(scores, rate, count, self._entropy, self._progress.check)

    def _draws(self, scores: Integers, rho: Fraction, sensitivity: int, count: int) -> Sequence[int]:
        """The places of so many scores, with replacement, each drawn at a rate that costs ρ."""
        return exponential_sample(scores, selection_rate(rho, sensitivity), count, self._entropy)
