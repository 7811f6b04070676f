"""The curator: never beyond its charge, noise on every cell, sensitivities, and replay of what was journalled."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Marginal
from dpsql.core.neighbours import Neighbours
from dpsql.errors import DomainTooLarge, DpsqlError, InsufficientBudget, InvalidArgument
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import Journal, Rows

DOMAIN = Domain(
    (
        Attribute("a", "INTEGER", "values", ("0", "1", "2")),
        Attribute("b", "INTEGER", "values", ("0", "1")),
    )
)
ROWS = np.array([[0, 0], [0, 0], [1, 1], [2, 1], [2, 1], [2, 1]])


def curator(rho=1, *, counter=None, journal=None, neighbours=Neighbours.ADD_REMOVE, seed="c"):
    return Curator(
        counter or Rows(DOMAIN, ROWS),
        DOMAIN,
        neighbours,
        Fraction(rho),
        journal or Journal(),
        Quiet(),
        seeded_entropy(seed),
    )


def test_measures_every_cell_with_the_stated_noise():
    measured = curator().measure([(("a", "b"), Fraction(1, 4)), (("a",), Fraction(1, 8))])
    assert [m.variance for m in measured] == [2 + Fraction(1, 8), 4 + Fraction(1, 8)]
    assert [len(m.values) for m in measured] == [6, 3]
    assert measured[0].shape == (3, 2)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("neighbours", "noise", "variance"),
    [
        (Neighbours.ADD_REMOVE, "gaussian", 2.125),
        (Neighbours.REPLACE_ONE, "gaussian", 4.125),
        (Neighbours.ADD_REMOVE, "laplace", 4),
        (Neighbours.REPLACE_ONE, "laplace", 16),
    ],
)
def test_noise_scale_follows_the_sensitivity(neighbours, noise, variance):
    """ρ = 1/4: Gaussian σ² = Δ₂²/2ρ + 1/8; Laplace ε = √(2ρ), variance 2b², b = Δ₁/ε. Within 6 standard errors."""
    runs = np.array(
        [
            curator(neighbours=neighbours, seed=f"{i}").measure([(("b",), Fraction(1, 4))], noise)[0].values
            for i in range(4000)
        ]
    )
    errors = runs - [2, 4]
    stated = float(curator(neighbours=neighbours).measure([(("b",), Fraction(1, 4))], noise)[0].variance)
    assert stated == pytest.approx(variance, rel=1e-9)
    discrete = errors.var() / variance  # discrete Laplace varies a little less than 2b²
    assert 0.85 < discrete < 1.15
    assert abs(errors.mean()) < 6 * (variance / errors.size) ** 0.5


def test_empty_cells_get_noise():
    values = np.array([curator(seed=f"{i}").measure([(("a", "b"), Fraction(1, 8))])[0].values for i in range(200)])
    assert (values.std(axis=0) > 1).all()


def test_total():
    assert curator().total(Fraction(1, 2)).variance == 1 + Fraction(1, 8)
    public = curator(neighbours=Neighbours.REPLACE_ONE)
    total = public.total(Fraction(1, 2))
    assert (total.values[0], total.variance, public.remaining) == (6, 0, 1)


def test_never_beyond_the_charge():
    counter = Rows(DOMAIN, ROWS)
    kernel = curator(counter=counter)
    kernel.measure([(("a",), Fraction(2, 3))])
    with pytest.raises(InsufficientBudget):
        kernel.measure([(("b",), Fraction(1, 6)), (("a",), Fraction(1, 6) + Fraction(1, 10**30))])
    assert counter.read == [("a",)]
    assert kernel.remaining == Fraction(1, 3)
    kernel.measure_cells([(("a",), 0)], Fraction(1, 3))
    assert kernel.remaining == 0
    with pytest.raises(InsufficientBudget):
        kernel.select_cells([("a",)], lambda c: np.zeros(3), 1, Fraction(1, 10**9))
    with pytest.raises(InsufficientBudget):
        kernel.total(Fraction(1, 10**9))


@pytest.mark.parametrize("rho", [Fraction(0), Fraction(-1, 2)])
def test_shares_are_positive(rho):
    with pytest.raises(InvalidArgument):
        curator().measure([(("a",), rho)])


def test_selection_prefers_the_worst_cell_and_skips_excluded_ones():
    def model(clique):
        return np.zeros(DOMAIN.size(clique))

    kernel = curator(10**6)
    chosen = kernel.select_cells([("a",), ("b",)], model, 2, Fraction(10**4))
    assert chosen[0] == (("b",), 1)
    assert set(chosen) == {(("b",), 1), (("a",), 2)}
    again = kernel.select_cells([("a",), ("b",)], model, 1, Fraction(10**4), exclude=chosen)
    assert again[0] not in chosen
    with pytest.raises(InvalidArgument, match="cannot be selected"):
        kernel.select_cells([("b",)], model, 3, Fraction(1))


def test_a_selection_debits_each_choice():
    kernel = curator(1)
    kernel.select_cells([("a",)], lambda c: np.zeros(3), 2, Fraction(1, 4))
    assert kernel.remaining == Fraction(1, 2)


def test_cells_are_counted_exactly_before_the_noise():
    kernel = curator(10**9)
    measured = kernel.measure_cells([(("a", "b"), 5), (("a", "b"), 1), (("b",), 0)], Fraction(10**6))
    assert [m.clique for m in measured] == [("a", "b"), ("b",)]
    assert measured[0].cells == (5, 1)
    assert measured[0].values.tolist() == [3, 0]
    assert measured[1].values.tolist() == [2]


def test_replay_returns_the_same_answers_and_reads_nothing():
    journal, counter = Journal(), Rows(DOMAIN, ROWS)

    def ask(kernel):
        first = kernel.measure([(("a",), Fraction(1, 4)), (("b",), Fraction(1, 4))])
        chosen = kernel.select_cells([("a",)], lambda c: np.zeros(3), 1, Fraction(1, 8))
        second = kernel.measure_cells(chosen, Fraction(1, 8))
        return [m.values.tolist() for m in first], chosen, second[0].values.tolist(), kernel.remaining

    begun = ask(curator(journal=journal))
    assert ask(curator(journal=Journal(journal.answers), counter=counter, seed="other")) == begun
    assert counter.read == []


def test_a_killed_run_goes_on_where_it_stopped():
    journal, counter = Journal(), Rows(DOMAIN, ROWS)
    requests = [(("a",), Fraction(1, 4)), (("b",), Fraction(1, 4))]
    whole = curator(journal=journal).measure(requests)
    resumed = curator(journal=Journal(journal.answers[:1]), counter=counter, seed="other").measure(requests)
    assert resumed[0].values.tolist() == whole[0].values.tolist()
    assert counter.read == [("b",)]


def test_replay_refuses_other_questions():
    journal = Journal()
    curator(journal=journal).measure([(("a",), Fraction(1, 4))])
    with pytest.raises(DpsqlError, match="another version"):
        curator(journal=journal).measure([(("b",), Fraction(1, 4))])


def test_the_journal_is_written_before_the_answer_is_seen():
    class Full(Journal):
        def append(self, answers):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        curator(journal=Full()).measure([(("a",), Fraction(1, 4))])


def test_too_large_is_refused_before_reading():
    wide = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(50)))) for i in range(12)))
    counter = Rows(DOMAIN, ROWS)
    kernel = Curator(counter, wide, Neighbours.ADD_REMOVE, Fraction(1), Journal(), Quiet())
    with pytest.raises(DomainTooLarge, match=r"2\.44e\+20"):
        kernel.measure([(wide.names, Fraction(1, 2))])
    assert counter.read == []
    assert kernel.remaining == 1


@pytest.mark.parametrize("answer", [np.nan, np.inf, -np.inf, 1e300, -1e300])
def test_no_answer_of_a_model_can_break_the_scores(answer):
    """A mechanism is not trusted: scores stay whole numbers of sensitivity 1 whatever it answers."""
    kernel = curator(10**9)
    seen = set()
    for _ in range(30):
        chosen = kernel.select_cells([("a",)], lambda c: np.full(3, answer), 1, Fraction(1, 10**6))
        seen.add(chosen[0][1])
    assert seen == {0, 1, 2}  # at so little budget every cell comes up, the occupied and the empty


def test_a_model_must_answer_every_cell_before_a_count_is_read():
    counter = Rows(DOMAIN, ROWS)
    with pytest.raises(InvalidArgument, match=r"answers to a marginal of 3 cells"):
        curator(counter=counter).select_cells([("a",)], lambda c: np.zeros(2), 1, Fraction(1, 4))
    assert counter.read == []


@pytest.mark.parametrize("share", [float("nan"), 0.25, 1])
def test_shares_are_fractions(share):
    """NaN compares false with everything and would switch the debit off."""
    kernel = curator()
    with pytest.raises(InvalidArgument, match="positive Fraction"):
        kernel.measure([(("a",), share)])
    assert kernel.remaining == 1


def test_a_public_total_is_replayed_although_the_table_grew():
    class Grown(Rows):
        def marginal(self, clique):
            found = super().marginal(clique)
            return found if clique else Marginal((), 1, np.array([0]), np.array([1000]))

    journal = Journal()
    first = curator(neighbours=Neighbours.REPLACE_ONE, journal=journal).total(Fraction(1, 100))
    again = curator(neighbours=Neighbours.REPLACE_ONE, journal=journal, counter=Grown(DOMAIN, ROWS)).total(
        Fraction(1, 100)
    )
    assert again.values.tolist() == first.values.tolist() == [6]
