"""The curator's questions, each attacked as well as can be: kinds of noise × neighbours, and broken twins.

What a mechanism tells is the curator's answers (`tests/contract/test_replay.py`), so what these may tell is all there is
to its privacy. The attacker knows two neighbouring tables and the likelihood of every answer under either; one call
often holds thousands of independent draws, as when a row is added to each cell of a marginal.

Thresholds are chosen on draws of their own. Bounds are Clopper–Pearson at a false-alarm rate of 1e-6 each. The noise of a
test is drawn from a seed of its own, so that a test that passes on some code passes on it always.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_query import LinearQuery, Moment, Part, Product
from dpsql.core.marginal import Marginal, Presence
from dpsql.core.neighbours import Neighbours
from dpsql.privacy.accounting import discovery_threshold, gaussian_variance
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows
from .attacks import Hits
from .twins import choices_at, noise_of

DRAWS = 20_000
CALLS = 1_500  # of questions that are asked once for each draw
CELLS = 2 * DRAWS  # a row that is replaced moves from one cell to the next
RHO = Fraction(1)
WIDE = Attribute(
    "a", "INTEGER", "bins", ticks=tuple(range(CELLS + 1)), edges=tuple(map(str, [*range(CELLS), CELLS - 1]))
)
LONG = Domain((WIDE,))
FAILURE = 1e-6
LARGEST = 7


class Counts:
    """A counter of one column, each of whose cells has so many rows, all of one unit."""

    def __init__(self, counts: np.ndarray) -> None:
        self._counts = counts

    def marginal(self, clique):
        cells = np.flatnonzero(self._counts)
        return Marginal(clique, len(self._counts), cells, self._counts[cells])

    def bins(self, attribute):
        return self.marginal((attribute.name,))

    def presence(self, clique):
        cells = np.flatnonzero(self._counts)
        return Presence(clique, cells, cells, np.ones(cells.max(initial=-1) + 1, np.int64))

    def sums(self, clique, moment):
        exact = self.marginal(clique)
        return replace(exact, counts=moment.high * exact.counts)

    def values(self, column):
        return [f"{cell:05}" for cell in range(len(self._counts))], self._counts


def neighbouring(neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Counts of pairs of cells, shape (draws, 2), of two tables that differ by one row or unit in each pair."""
    one, other = np.zeros((2, DRAWS, 2), np.int64)
    other[:, 0] = neighbours.cell
    if neighbours.total_is_public:
        one[:, 1] = 1
    return one, other


def ask(counter, domain: Domain, neighbours: Neighbours, rho: Fraction) -> Curator:
    return Curator(counter, domain, neighbours, rho, Journal(), Quiet(), ENTROPY, failure=FAILURE)


ENTROPY = seeded_entropy("questions")


@pytest.fixture(autouse=True)
def entropy(request, monkeypatch) -> None:
    """Each test has its own, so that nothing depends on which ran before it."""
    monkeypatch.setitem(globals(), "ENTROPY", seeded_entropy(request.node.name))


def likelier(values: np.ndarray, one: np.ndarray, other: np.ndarray, variance: float, noise: str) -> np.ndarray:
    """log P(values | other) − log P(values | one) of each pair of cells."""
    if noise == "laplace":
        each = (np.abs(values - one) - np.abs(values - other)) / math.sqrt(variance / 2)
    else:
        each = ((values - one) ** 2 - (values - other) ** 2) / (2 * variance)
    return each.reshape(len(values), -1).sum(axis=1)


# --- questions: what thousands of answers to each tell ---------------------------------------------------------------


def measured(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    pair = neighbouring(neighbours)
    (got,) = ask(Counts(pair[which].ravel()), LONG, claimed, RHO).measure([(("a",), RHO)], noise)
    return likelier(got.values.reshape(DRAWS, 2), *pair, float(got.variance), noise)


def measured_bins(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    pair = neighbouring(neighbours)
    got = ask(Counts(pair[which].ravel()), LONG, claimed, RHO).measure_bins(WIDE, RHO)
    return likelier(got.values.reshape(DRAWS, 2), *pair, float(got.variance), noise)


def measured_cells(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """Of each pair only the first cell: a row that is replaced changes one of them."""
    pair = [table[:, 0] for table in neighbouring(neighbours)]
    counter = Counts(np.stack([pair[which], pair[which]], axis=1).ravel())
    cells = [(("a",), 2 * draw) for draw in range(DRAWS)]
    (got,) = ask(counter, LONG, claimed, DRAWS * RHO).measure_cells(cells, RHO, noise)
    return likelier(got.values, *pair, float(got.variance), noise)


def measured_linear(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """A count and a sum with weights of 5, in groups of one cell."""
    pair, weights = neighbouring(neighbours), (1, 5)
    factors = np.repeat(np.array(weights)[:, None], CELLS, axis=1)
    query = LinearQuery(LONG, (Part(("a",), factors, np.arange(CELLS)[None, :], (CELLS,)),), frozenset())
    got = ask(Counts(pair[which].ravel()), LONG, claimed, RHO).measure_linear(query, RHO, noise)
    scores = np.zeros(DRAWS)
    for answer, weight in zip(got, weights, strict=True):
        scaled = [weight * table for table in pair]
        scores += likelier(answer.values.reshape(DRAWS, 2), *scaled, float(answer.variance), noise)
    return scores


def summed(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """Sums of a column whose value is as large as it may be."""
    pair = neighbouring(neighbours)
    part = Part(("a",), np.ones((1, CELLS), np.int64), np.arange(CELLS)[None, :], (CELLS,))
    query = LinearQuery(LONG, (part,), moments={0: Moment("a", 1.0, 0, LARGEST)})
    (got,) = ask(Counts(pair[which].ravel()), LONG, claimed, RHO).measure_linear(query, RHO, noise)
    scaled = [LARGEST * table for table in pair]
    return likelier(got.values.reshape(DRAWS, 2), *scaled, float(got.variance), noise)


def multiplied(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """A count, the sums of two columns and of their products, all as large as they may be: what a correlation takes."""
    pair, one = neighbouring(neighbours), Moment("a", 1.0, -LARGEST, LARGEST)
    part = Part(("a",), np.ones((4, CELLS), np.int64), np.arange(CELLS)[None, :], (CELLS,))
    moments = {1: one, 2: one, 3: Product(one, one, 1.0, -(LARGEST**2), LARGEST**2)}
    query = LinearQuery(LONG, (part,), moments=moments)
    got = ask(Counts(pair[which].ravel()), LONG, claimed, RHO).measure_linear(query, RHO, noise)
    scores = np.zeros(DRAWS)
    for answer, weight in zip(got, (1, LARGEST, LARGEST, LARGEST**2), strict=True):
        scaled = [weight * table for table in pair]
        scores += likelier(answer.values.reshape(DRAWS, 2), *scaled, float(answer.variance), noise)
    return scores


def counted_units(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """Distinct units of groups: one unit adds 1 to as many groups as it has rows."""
    groups = max(2, neighbours.cell)
    one, other = np.zeros((2, DRAWS, groups), np.int64)
    if neighbours.total_is_public:
        other[:, 0] = one[:, 1] = 1
    else:
        other[:, : neighbours.cell] = 1
    cells = DRAWS * groups
    column = replace(WIDE, ticks=tuple(range(cells + 1)), edges=tuple(map(str, [*range(cells), cells - 1])))
    domain = Domain((column,))
    query = LinearQuery(
        domain, (Part(("a",), np.ones((1, cells), np.int64), np.arange(cells)[None, :], (cells,)),), frozenset({0})
    )
    (got,) = ask(Counts((one, other)[which].ravel()), domain, claimed, RHO).measure_linear(query, RHO, noise)
    return likelier(got.values.reshape(DRAWS, groups), one, other, float(got.variance), noise)


def totals(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    draws, pair = CALLS, [np.zeros(1, np.int64), np.full(1, neighbours.cell)]
    asked = ask(Counts(pair[which]), LONG, claimed, draws * RHO)
    got = [asked.total(RHO, noise) for _ in range(draws)]
    return likelier(np.array([one.values for one in got]), *pair, float(got[0].variance), noise)


def discovered(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """How many more are told of the values that the second table has more of; a unit has up to c values."""
    many = discovery_threshold(gaussian_variance(RHO, claimed.presence_l2_squared), FAILURE, claimed.cell) - 1
    shift = max(2, neighbours.cell)
    change = np.zeros((DRAWS, shift), np.int64)
    change[:, : neighbours.cell] = 1
    if neighbours.total_is_public:
        change[:, 1] = -1
    counts = np.full((DRAWS, shift), many) + (change if which else 0)
    told = ask(Counts(counts.ravel()), LONG, claimed, RHO).discover_values("a", RHO, FAILURE)
    found = np.zeros(DRAWS * shift)
    found[[int(value) for value in told]] = 1
    return (found.reshape(DRAWS, shift) * change).sum(axis=1)


BOTH = Domain(tuple(Attribute(name, "BOOLEAN", "values", ("false", "true")) for name in "ab"))
ALIKE = [(0, 0)] * 9 + [(1, 1)] * 9


def two_tables(neighbours: Neighbours) -> tuple[Rows, Rows]:
    """Tables of which the second has a row more, or moved, that changes a and b alike."""
    less = ALIKE[1:] if neighbours.total_is_public else ALIKE
    return Rows(BOTH, ALIKE), Rows(BOTH, [*less, *[(1, 1)] * neighbours.cell])


def opposite(neighbours: Neighbours) -> Callable[[tuple[str, ...]], np.ndarray]:
    """A model that is below the counts of a and above those of b, and nearly as far off: one error grows, one shrinks."""
    change = neighbours.cell
    public = neighbours.total_is_public
    far = {"a": (9 + 50 * public, 9 - 50), "b": (9 - (50 + change) * public, 9 + 50 + change)}
    return lambda clique: np.array(far[clique[0]], float)


def selected(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours, kind: str = "cells") -> np.ndarray:
    draws, cliques = CALLS, [("a",), ("b",)]
    asked = ask(two_tables(neighbours)[which], BOTH, claimed, draws * RHO * 11 / 7)
    if kind == "cells":
        got = [asked.select_cells(cliques, opposite(neighbours), 1, RHO)[0][0] for _ in range(draws)]
    else:
        got = [asked.select_marginals(cliques, opposite(neighbours), 1, RHO, None, [3, 3])[0] for _ in range(draws)]
    return np.array([float(clique == ("a",)) for clique in got])


def selected_marginals(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    return selected(which, neighbours, noise, claimed, "marginals")


def selected_sources(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """Counts of a move from the model towards the public table, those of b back: a distance grows, the other shrinks."""
    change, replaced = neighbours.cell, neighbours.total_is_public
    low, high = (np.array([9 + first * replaced, second], float) for first, second in ((50, -41), (-51, 59 + change)))
    model, public = {"a": low, "b": high}, {"a": high, "b": low}
    asked = ask(two_tables(neighbours)[which], BOTH, claimed, CALLS * RHO * 11 / 7)
    answers, taken = (lambda clique: model[clique[0]]), (lambda clique: public[clique[0]])
    got = [asked.select_source([], [("a",), ("b",)], answers, taken, RHO, [], [3, 3]) for _ in range(CALLS)]
    return np.array([float(clique == ("a",)) for clique, _ in got])


def sampled(which: int, neighbours: Neighbours, noise: str, claimed: Neighbours) -> np.ndarray:
    """Cells and signs: that of the new row above and below what the model says."""
    factor, change = 4, neighbours.cell
    middle = np.array(
        [9 * factor - (factor // 2) * neighbours.total_is_public, 9 * factor + factor * change // 2], float
    )
    asked = ask(two_tables(neighbours)[which], BOTH, claimed, DRAWS * RHO * 11 / 7)
    got = asked.sample_cells([("a",)], lambda clique: middle, factor, DRAWS, RHO)
    return np.array([float(sign if cell else -sign * neighbours.total_is_public) for (_, cell), sign in got])


# --- the audit -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One question, with one kind of noise, for one kind of neighbours.

    Attributes:
        tells: scores of answers about the first or the second table, higher for the second.
        noise: gaussian, laplace, selection or values.
        neighbours: of the guarantee.
    """

    tells: Callable[..., np.ndarray]
    noise: str
    neighbours: Neighbours

    def __str__(self) -> str:
        return f"{self.tells.__name__}-{self.noise}-{self.neighbours}-{self.neighbours.cell}"

    def audit(self, claimed: Neighbours | None = None) -> Hits:
        """What an attack finds, beside what one answer costs."""
        drawn = [self.tells(which, self.neighbours, self.noise, claimed or self.neighbours) for which in (0, 1)]
        rho, half = float(RHO), len(drawn[0]) // 2
        gaussian = self.noise in ("gaussian", "values")
        each = {"laplace": 1, "selection": 2}.get(self.noise, math.inf)
        cost = (rho, rho if gaussian else rho * 11 / 7, each * math.sqrt(2 * rho))
        tried = [scores[:half] for scores in drawn]
        best = max(_places(*tried), key=lambda place: _excess(_hits(place, tried, cost)))
        return _hits(best, [scores[half:] for scores in drawn], cost)


def _hits(place: float, drawn: list[np.ndarray], cost: tuple[float, float, float]) -> Hits:
    return Hits(*(int((scores > place).sum()) for scores in drawn), len(drawn[0]), *cost)


def _places(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Thresholds between the scores, at most 30."""
    scores = np.unique(np.round([*first, *second], 9))
    places = (scores[1:] + scores[:-1]) / 2
    return places[:: max(1, len(places) // 30)]


def _excess(found: Hits) -> float:
    """The largest part of a claim that was found; above 1 it was wrong."""
    return max(found.rho / found.claimed_rho, found.gdp / found.claimed_gdp, found.epsilon / found.claimed_epsilon)


MEASURING = [measured, measured_cells, measured_linear, summed, multiplied, counted_units]
CHOOSING = [selected, selected_marginals, selected_sources, sampled]
QUESTIONS = [
    *(Question(tells, noise, n) for tells in MEASURING for noise in ("gaussian", "laplace") for n in RELATIONS),
    *(Question(totals, noise, n) for noise in ("gaussian", "laplace") for n in RELATIONS if not n.total_is_public),
    *(Question(measured_bins, "gaussian", n) for n in RELATIONS),
    *(Question(discovered, "values", n) for n in RELATIONS),
    *(Question(tells, "selection", n) for tells in CHOOSING for n in RELATIONS),
]


def broken(question: Question):
    """A curator with too little noise: by √2, a half for Laplace; choices at twice their rate, draws at thrice."""
    if question.noise == "selection":
        return choices_at(3 if question.tells is sampled else 2)
    if question.noise == "laplace":
        return noise_of(1 / 2)
    return noise_of(0.6 if question.tells in (totals, discovered) else math.sqrt(1 / 2))


@pytest.mark.medium
@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_an_answer_tells_what_it_costs(question):
    found = question.audit()
    print(f"{question}: {found}, {_excess(found):.2f}")
    assert _excess(found) <= 1


@pytest.mark.medium
@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_too_little_noise_is_caught(question):
    with broken(question):
        found = question.audit()
    print(f"{question}: {found}, {_excess(found):.2f}")
    assert _excess(found) > 1


@pytest.mark.parametrize("tells", [measured, measured_cells, measured_linear, summed, totals])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_unit_cap_that_is_ignored_is_caught(tells, noise):
    """Noise for one row, where a unit has three."""
    found = Question(tells, noise, Neighbours("add_remove", 3)).audit(claimed=Neighbours.ADD_REMOVE)
    assert _excess(found) > 1


@pytest.mark.parametrize("tells", [measured, measured_bins, measured_linear, summed])
def test_a_moved_row_that_counts_once_is_caught(tells):
    """Noise for a row that comes or goes, where one moves and changes two cells."""
    found = Question(tells, "gaussian", Neighbours.REPLACE_ONE).audit(claimed=Neighbours.ADD_REMOVE)
    assert _excess(found) > 1


def test_cells_left_without_noise_are_caught(monkeypatch):
    """No noise where nothing was counted."""
    measurement = Curator._measurement

    def sparse(self, clique, *how):
        made = measurement(self, clique, *how)
        return replace(made, values=np.where(self._counter.marginal(clique).dense() == 0, 0, made.values))

    monkeypatch.setattr(Curator, "_measurement", sparse)
    assert _excess(Question(measured, "gaussian", Neighbours.ADD_REMOVE).audit()) > 1


def test_a_sensitivity_that_forgets_the_product_is_caught(monkeypatch):
    """Noise for the count and the two sums, where a row changes the sum of products too."""
    row_of = LinearQuery._row_of
    monkeypatch.setattr(LinearQuery, "_row_of", lambda query, part, power, sums: row_of(query, part, power, sums[:3]))
    assert _excess(Question(multiplied, "gaussian", Neighbours.ADD_REMOVE).audit()) > 1
