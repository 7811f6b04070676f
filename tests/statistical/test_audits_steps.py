"""Audits of the parts of every mechanism: what it measures, and what it chooses, each attacked as well as can be.

A mechanism runs on two neighbouring tables but measures the first one in both, or chooses by the first one in both: then
only the other part tells them apart, and by composition it must tell no more than its own answers were charged. The
attacker knows both tables and the fits, and so the likelihood of every answer under either; no attack is better than that.
The tables are such that one row changes the two best candidates of a choice by Δ each, one up and one down, and all cells
of a measurement that it can: then noise that is too small by √2, or choices at twice the rate, are seen.

False alarms: Clopper–Pearson bounds at 1e-6 each, at thresholds chosen on runs of their own.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
from scipy.special import logsumexp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.threshold import clique_of
from dpsql.core.workload import Workload
from dpsql.mechanisms.base import make, registered
from dpsql.privacy.curator import Curator
from dpsql.privacy.pricing import price
from dpsql.runtime.progress import Quiet

from ..contract.test_mechanisms import FAST
from ..counters import Journal, Rows
from .attacks import Hits, replace_slow_fits, threshold
from .test_audits import _Done, log_likelihood_ratio
from .twins import choices_at, noise_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.audit,
    pytest.mark.chance(1e-9, "two Clopper–Pearson bounds of 1e-6 have to be off together by more than both allow"),
]

CALIBRATED = 300
SQUARE = Domain(tuple(Attribute(name, "BOOLEAN", "values", ("false", "true")) for name in "abcd"))
CUBE = Domain(SQUARE.attributes[:3])


@dataclass(frozen=True)
class Pair:
    """Two tables, of which the second has `moved` where the first has `row`."""

    domain: Domain
    cliques: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    row: tuple[int, ...]
    moved: tuple[int, ...]

    @cached_property
    def tables(self) -> tuple[Rows, Rows]:
        """Counters of both."""
        rest = list(self.rows)
        rest.remove(self.row)
        return Rows(self.domain, self.rows), Rows(self.domain, [*rest, self.moved])


def zipped(pairs: list[tuple[int, ...]], others: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Rows of two lists of halves."""
    return tuple(one + other for one, other in zip(pairs, others, strict=True))


CORNERS = list(itertools.product((0, 1), repeat=2))
PEAKS = Pair(  # of 60 rows: a, b = 1, 1 has 14 more than 15, which becomes 15; c, d = 1, 1 has 15 less, which becomes 14
    SQUARE,
    (("a", "b"), ("c", "d")),
    zipped(
        [corner for corner, count in zip(CORNERS, (10, 10, 11, 29), strict=True) for _ in range(count)],
        [corner for corner in CORNERS[:3] for _ in range(20)],
    ),
    (0, 0, 0, 0),
    (1, 1, 1, 1),
)
# of 81 rows those with b = a and those with c = a: the L1 errors of independent columns tie, and one row moves both by 2
_KINDS = {(0, 0): 35, (0, 1): 19, (1, 0): 20, (1, 1): 6}
CORRELATED = Pair(
    CUBE,
    (("a", "b"), ("a", "c")),
    tuple(
        (i % 2, (i + differs_b) % 2, (i + differs_c) % 2)
        for (differs_b, differs_c), count in _KINDS.items()
        for i in range(count)
    ),
    (0, 1, 0),
    (0, 0, 1),
)


def with_ties(record: tuple[int, ...]) -> Pair:
    """For DualQuery after a round that found a record: its two cells are the worst, at a tie, and one row moves both."""
    a, b, c, d = record
    rows = [row for row in itertools.product((0, 1), repeat=4) for _ in range(4)]
    return Pair(SQUARE, PEAKS.cliques, tuple(rows), (a, b, 1 - c, d), (1 - a, b, c, d))


class Parted(Curator):
    """Measures the rows of one table and chooses by those of another; adds up how much its choices tell.

    Attributes:
        tells: log P(choices | second table) − log P(choices | first table), of exponential mechanisms at the stated rate.
    """

    def __init__(self, measured: Rows, chosen_by: Rows, pair: tuple[Rows, Rows], most: int, *arguments, **how) -> None:
        super().__init__(measured, *arguments, **how)
        self._measured, self._chosen_by, self._pair, self._most = measured, chosen_by, pair, most
        self.tells = 0.0

    def _turn(self, table: Rows) -> None:
        self._counter = table
        self._exact = {}

    def _told(self, answer):
        """An answer; the last one ends the run, for what follows is post-processing."""
        if len(self._journal.answers) >= self._most:
            raise _Done
        return answer

    def total(self, rho, noise="gaussian"):
        """See `Curator`."""
        return self._told(super().total(rho, noise))

    def measure(self, requests, noise="gaussian"):
        """See `Curator`."""
        self._turn(self._measured)
        return self._told(super().measure(requests, noise))

    def measure_cells(self, queries, rho, noise="gaussian"):
        """See `Curator`."""
        self._turn(self._measured)
        return self._told(super().measure_cells(queries, rho, noise))

    def select_cells(self, families, answers, count, rho, exclude=()):
        """See `Curator`."""
        self._turn(self._chosen_by)
        chosen = super().select_cells(families, answers, count, rho, exclude)
        allowed = [(f, c) for f in families for c in range(self.domain.size(clique_of(f))) if (f, c) not in exclude]

        def scores(table: Rows) -> np.ndarray:
            off = {f: np.abs(table.marginal(clique_of(f)).dense() - np.rint(answers(f))) for f in families}
            return np.array([off[f][c] for f, c in allowed])

        self._weigh([allowed.index(query) for query in chosen], scores, rho, self.neighbours.cell)
        return self._told(chosen)

    def select_marginals(self, cliques, answers, count, rho, penalties=None, weights=None):
        """See `Curator`."""
        self._turn(self._chosen_by)
        chosen = super().select_marginals(cliques, answers, count, rho, penalties, weights)
        times = np.array(weights or [1] * len(cliques))

        def scores(table: Rows) -> np.ndarray:
            off = [np.abs(table.marginal(c).dense() - np.rint(answers(c))).sum() for c in cliques]
            return (np.array(off) - np.rint(penalties or 0)) * times

        sensitivity = self.neighbours.marginal_l1 * max(times)
        self._weigh([cliques.index(clique) for clique in chosen], scores, rho, sensitivity)
        return self._told(chosen)

    def select_source(self, cliques, public_cliques, answers, public, rho, penalties, weights):
        """See `Curator`."""
        self._turn(self._chosen_by)
        clique, is_public = super().select_source(cliques, public_cliques, answers, public, rho, penalties, weights)
        own, taken = np.array(weights[: len(cliques)]), np.array(weights[len(cliques) :])

        def scores(table: Rows) -> np.ndarray:
            def off(c, of) -> float:
                return np.abs(table.marginal(c).dense() - np.rint(of(c))).sum()

            gains = np.array([off(c, answers) for c in cliques]) - np.rint(penalties)
            nearer = np.array([off(c, answers) - off(c, public) for c in public_cliques])
            return np.concatenate([own * gains, taken * nearer])

        place = len(cliques) + public_cliques.index(clique) if is_public else cliques.index(clique)
        most = max(*own, *(2 * taken))
        self._weigh([place], scores, rho, self.neighbours.marginal_l1 * most)
        return self._told((clique, is_public))

    def sample_cells(self, cliques, answers, factor, count, rho, sample=None):
        """See `Curator`."""
        self._turn(self._chosen_by)
        drawn = super().sample_cells(cliques, answers, factor, count, rho, sample)
        cells = [(c, cell) for c in cliques for cell in range(self.domain.size(c))]

        def scores(table: Rows) -> np.ndarray:
            off = np.concatenate([factor * table.marginal(c).dense() - np.rint(answers(c)) for c in cliques])
            return np.concatenate([off, -off])

        places = [cells.index(query) + (0 if sign > 0 else len(cells)) for query, sign in drawn]
        self._weigh(places, scores, rho, factor * self.neighbours.cell)
        return self._told(drawn)

    def _weigh(self, chosen, scores, rho, sensitivity) -> None:
        """Add what choices tell, each of P ∝ exp(λ·score), λ = √(2ρ)/Δ."""
        rate = math.sqrt(2 * rho) / float(sensitivity)
        one, other = (rate * scores(table) for table in self._pair)
        self.tells += sum((other[c] - one[c]) - (logsumexp(other) - logsumexp(one)) for c in chosen)


@dataclass(frozen=True)
class Run:
    """How a mechanism is run.

    Attributes:
        most: answers, after which it ends: of rounds whose number follows from what they answer.
    """

    name: str
    options: tuple[tuple[str, object], ...]
    pair: Pair
    rho: Fraction = Fraction(1)
    most: int = 10**6

    @cached_property
    def _facts(self) -> tuple:
        """What is public: domain, workload, mechanism, (ρ, ε of a pure budget), and the prior if it needs one."""
        domain, workload = self.pair.domain, Workload(self.pair.cliques)
        mechanism = make(self.name, dict(self.options))
        budget = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), EPSILON, 1e-6)
        paid = (budget.rho, budget.exact_epsilon) if budget.pure else (self.rho, None)
        codes = np.array(list(itertools.product((0, 1), repeat=len(domain))))
        prior = Prior(domain.names, codes, np.ones(len(codes))) if registered()[self.name].needs_prior else None
        return domain, workload, mechanism, paid, prior

    def told(self, which: int, part: str, most: int) -> tuple[list, float]:
        """The answers of one run on a table, and how much they look like the second one's."""
        one, table = self.pair.tables[0], self.pair.tables[which]
        domain, workload, mechanism, (rho, pure), prior = self._facts
        tables = (table, one) if part == "measurements" else (one, table)
        journal, told = Journal(), (*tables, self.pair.tables, most)
        curator = Parted(*told, domain, Neighbours.REPLACE_ONE, rho, journal, Quiet(), pure=pure, prior=prior)
        with suppress(_Done):
            mechanism.run(curator, workload, rho, 1, Quiet())
        if part == "choices":
            return journal.answers, curator.tells
        return journal.answers, log_likelihood_ratio(journal.answers, *self.pair.tables)

    def audit(self, part: str, runs: int) -> Hits:
        """What an attack on one part finds, beside what its answers were charged."""
        most, journals = 0, []
        for _ in range(3):
            answers, _ = self.told(0, part, self.most)
            journals.append([a for a in answers if (a.selection is None) == (part == "measurements")])
            most = max(most, len(answers))
        asked = max(journals, key=lambda answers: sum(answer.rho for answer in answers))

        def scores(which: int, times: int) -> np.ndarray:
            return np.array([self.told(which, part, most)[1] for _ in range(times)])

        tried = [scores(which, CALIBRATED) for which in (0, 1)]
        best = threshold(*tried)
        hits = [int((scores(which, runs) > best).sum()) for which in (0, 1)]
        rho = float(sum(answer.rho for answer in asked))
        laplace = part == "measurements" and any(a.measurement.noise == "laplace" for a in asked)
        epsilon = sum(math.sqrt(2 * answer.rho) for answer in asked) if laplace else math.inf
        gdp = rho if part == "measurements" and not laplace else rho * 11 / 7
        return Hits(*hits, runs, rho, gdp, epsilon)


def run_of(name: str, pair: Pair, rho: Fraction = Fraction(2), most: int = 10**6, **options: object) -> Run:
    """One entry of the lists below."""
    return Run(name, tuple({**FAST[name], **options}.items()), pair, rho, most)


def first_round(name: str, pair: Pair, rho: int, *, measured: bool) -> Run:
    """The number of rows, the single columns, the first choice, and what is measured then.

    A single column has 9/160 of ρ over the number of columns, a choice 1/160 and what it measures 9/160.
    """
    return run_of(name, pair, Fraction(rho), len(pair.domain) + 2 + measured)


EPSILON = 2.0
MEASURING = [
    run_of("direct", PEAKS),
    run_of("hdmm", PEAKS),
    run_of("projection", PEAKS),
    run_of("pgm", PEAKS),
    run_of("pgm", PEAKS, Fraction(3), selection="mst"),
    run_of("pmwpub", PEAKS, Fraction(3)),
    run_of("mwem", PEAKS, Fraction(4), noise="gaussian", rounds=1),
    run_of("mwem", PEAKS, Fraction(4), noise="gaussian", queries="marginals", rounds=1),
    run_of("rap", PEAKS, Fraction(4), rounds=2, queries_per_round=1, relaxed_rows=4),
    run_of("lp", PEAKS, noise="gaussian"),
    run_of("ide", PEAKS, noise="gaussian"),
    first_round("residual", PEAKS, 28, measured=True),
    first_round("jam", PEAKS, 28, measured=True),
]
PURE = [
    run_of("direct", PEAKS, noise="laplace"),
    run_of("mwem", PEAKS, rounds=1),
    run_of("lp", PEAKS),
    run_of("barak", PEAKS),
    run_of("ide", PEAKS),
]
CHOOSING = [
    run_of("mwem", PEAKS, Fraction(1), noise="gaussian", rounds=1),
    run_of("mwem", CORRELATED, Fraction(1), noise="gaussian", queries="marginals", rounds=1),
    run_of("rap", PEAKS, Fraction(2), rounds=2, queries_per_round=1, relaxed_rows=4),
    run_of("fem", PEAKS, Fraction(1, 2), rounds=1, samples=1000),
    run_of("pmwpub", CORRELATED, Fraction(1), rounds=1),
    run_of("pgm", CORRELATED, Fraction(3), selection="mst"),
    first_round("residual", CORRELATED, 240, measured=False),
    first_round("jam", CORRELATED, 240, measured=False),
    run_of("dualquery", PEAKS, Fraction(1, 2), rounds=2, samples=1),
]
TIMES = {"pgm": 3, "jam": 4}


def first_record() -> tuple[int, ...]:
    """What DualQuery finds in its first round, which is public: it depends on the seed alone."""
    run = CHOOSING[-1]
    rows = Rows(SQUARE, PEAKS.rows)
    curator = Curator(rows, SQUARE, Neighbours.REPLACE_ONE, Fraction(1), Journal(), Quiet())
    made = make(run.name, dict(run.options)).run(curator, Workload(PEAKS.cliques), Fraction(1), 1, Quiet())
    return tuple(made.model.codes[0].tolist())


def named(run: Run) -> str:
    """A test's name."""
    words = {key: value for key, value in run.options if key in ("noise", "queries", "selection")}
    return "-".join([run.name, *map(str, words.values())])


@pytest.fixture(autouse=True)
def without_slow_fits(monkeypatch):
    replace_slow_fits(monkeypatch, SQUARE)


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("run", [*MEASURING, *PURE], ids=named)
def test_measurements_tell_what_they_cost(run, broken):
    """With noise too small by √2 they are caught; several answers with Laplace noise at a third of it.

    For the ε of several answers is reached in the farthest tail of their likelihoods only, and their g is 4/7 too dear.
    """
    several = run in PURE and run.name != "mwem"
    share = 1 / 3 if several else math.sqrt(1 / 2)
    with noise_of(share if broken else 1):
        found = run.audit("measurements", 4_000 if run.name == "mwem" else 3_000 if broken else 1_500)
    print(f"{named(run)}{f', {share:.2f} of the noise' * broken}: {found}")
    assert _caught(found) == broken


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("run", CHOOSING, ids=named)
def test_choices_tell_what_they_cost(run, broken):
    """At twice the rate they are caught.

    Those of pgm at thrice, for it pays for two of which one can tell anything. Those of jam at four times the rate, for
    it pays for what may be taken: that could move twice as far as what is measured here.
    """
    times = TIMES.get(run.name, 2)
    if run.name == "dualquery":
        run = replace(run, pair=with_ties(first_record()))
    with choices_at(times if broken else 1):
        found = run.audit("choices", 2_500)
    print(f"{named(run)}{f' at {times} times the rate' * broken}: {found}")
    assert _caught(found) == broken


def _caught(found: Hits) -> bool:
    return found.rho > found.claimed_rho or found.gdp > found.claimed_gdp or found.epsilon > found.claimed_epsilon
