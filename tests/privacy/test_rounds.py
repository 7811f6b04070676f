"""A selection and the measurement of what was selected: recorded at once, and never seen before they are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.neighbours import Neighbours
from dpsql.errors import InsufficientBudget
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import Journal, Rows
from .test_curator import DOMAIN, ROWS

EACH = Fraction(1, 8)


class Writes(Journal):
    """Keeps what was written together."""

    def __init__(self, recorded=()) -> None:
        super().__init__(recorded)
        self.writes = []

    def append(self, answers):
        self.writes.append([answer.selection is not None for answer in answers])
        super().append(answers)


def curator(journal, rho=1):
    return Curator(
        Rows(DOMAIN, ROWS), DOMAIN, Neighbours.ADD_REMOVE, Fraction(rho), journal, Quiet(), seeded_entropy("c")
    )


def nothing(clique):
    return np.zeros(DOMAIN.size(clique))


def test_both_answers_are_one_write():
    journal = Writes()
    asked = curator(journal)
    chosen, cells = asked.measure_selected_cells([("a",), ("b",)], nothing, 2, (EACH, EACH))
    whole = asked.measure_selected_marginal([("a",), ("b",)], nothing, (EACH, EACH))
    assert [write[0] for write in journal.writes] == [True, True]
    assert all(not any(write[1:]) and len(write) > 1 for write in journal.writes)
    assert {(m.clique, cell) for m in cells for cell in m.cells} == {(clique, cell) for clique, cell in chosen}
    assert whole.clique in {("a",), ("b",)}
    assert asked.remaining == 1 - 6 * EACH


def test_it_costs_and_says_what_the_two_questions_do():
    """So a release that an earlier version began, which wrote them one after the other, is completed."""
    journal = Writes()
    apart = curator(journal)
    chosen = apart.select_cells([("a",)], nothing, 1, EACH)
    measured = apart.measure_cells(chosen, EACH)
    assert len(journal.writes) == 2
    again = curator(Writes(journal.answers))
    found, noisy = again.measure_selected_cells([("a",)], nothing, 1, (EACH, EACH))
    assert found == chosen
    assert [m.values.tolist() for m in noisy] == [m.values.tolist() for m in measured]
    assert again.remaining == apart.remaining


def test_what_a_mechanism_asks_meanwhile_is_recorded_before_it_sees_it():
    journal = Writes()
    asked, seen = curator(journal), []

    def curious(clique):
        answer = asked.measure([(("b",), EACH)])[0]
        assert any(
            one.measurement is not None and (one.measurement.values == answer.values).all() for one in journal.answers
        )
        seen.append(answer)
        return nothing(clique)

    asked.measure_selected_cells([("a",)], curious, 1, (EACH, EACH))
    assert len(seen) == 1
    assert journal.writes == [[False], [True, False]]


def test_a_selection_is_recorded_though_its_measurement_fails():
    """Else the same call would draw it again, and whether it fails may depend on it."""
    journal = Writes()
    asked = curator(journal, 2 * EACH)
    with pytest.raises(InsufficientBudget):
        asked.measure_selected_cells([("a",)], nothing, 1, (EACH, 2 * EACH))
    assert journal.writes == [[True]]
