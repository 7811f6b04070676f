"""Plans of published mechanisms foresee the work that their runs do: calls and cells are counted, and no clock is read.

The seconds of a plan are numbers of calls and cells, each times a constant. Here a run counts them.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.fitting.rows.best_records import best_record, perturbed_leaders
from dpsql.fitting.rows.multiplicative_weights import Factored
from dpsql.mechanisms import cell_queries
from dpsql.mechanisms.costs import (
    QUESTION_SECONDS,
    SCORED_SECONDS,
    TILTED_SECONDS,
    UPDATE_SECONDS,
    base_seconds,
)
from dpsql.mechanisms.defaults import make_for
from dpsql.mechanisms.mwem import groups, mwem
from dpsql.mechanisms.query_games import dualquery, fem
from dpsql.models import mixture
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet
from tests.depth import depth

from ..conftest import seeded_entropy
from ..counters import Journal, Rows
from .test_ide import table_domain

pytestmark = pytest.mark.medium
ROWS, RHO = 200, Fraction(1, 2)
SIZES = st.tuples(st.integers(2, 9), st.integers(2, 9), st.integers(2, 9))


class Counted:
    """How often something was called, and with how much."""

    def __init__(self) -> None:
        self.calls, self.amount = 0, 0.0

    def wrap(self, function, amount):
        """The same function, which counts the `amount` of its arguments."""

        def counting(*arguments, **named):
            result = function(*arguments, **named)
            self.calls += 1
            self.amount += amount(arguments)
            return result

        return counting


def ran(mechanism, sizes):
    """A run on one clique of all columns: the seconds that its plan foresees, without those of any table; its domain."""
    domain = table_domain(sizes)
    workload = Workload((domain.names,))
    codes = np.random.default_rng(0).integers(0, sizes, (ROWS, len(sizes)))
    curator = Curator(
        Rows(domain, codes), domain, Neighbours.REPLACE_ONE, RHO, Journal(), Quiet(), seeded_entropy("work")
    )
    outcome = mechanism.run(curator, workload, RHO, 0, Quiet())
    outcome.model.sample(ROWS, np.random.default_rng(0), Quiet())
    return mechanism.duration(domain, workload, ROWS, RHO) - base_seconds(ROWS), domain


def faithful(name, **options):
    return make_for(name, {"faithful": True, **options}, pure=False)


def cells_of_all(given):
    """Cells of what `sample_cells` draws from."""
    return sum(map(given[0].domain.size, given[1]))


def drawing(drawn):
    """The seconds of draws from so many cells."""
    return QUESTION_SECONDS * drawn.calls + cell_queries._DRAWN_SECONDS * drawn.amount


@settings(max_examples=depth(20), deadline=None)
@given(sizes=SIZES, rounds=st.integers(2, 12), samples=st.integers(41, 300))
def test_searches_and_draws_of_dualquery_are_those_of_its_plan(sizes, rounds, samples):
    """Each round finds a record for what was drawn, however often; each but the first draws from all cells."""
    searched, drawn = Counted(), Counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dualquery, "best_record", searched.wrap(best_record, lambda given: abs(given[0].weights).sum()))
        patch.setattr(Curator, "sample_cells", drawn.wrap(Curator.sample_cells, cells_of_all))
        mechanism = faithful("dualquery", rounds=rounds, samples=samples)
        foreseen, _ = ran(mechanism, sizes)
    assert searched.calls == rounds == drawn.calls + 1
    assert searched.amount <= rounds * samples
    most = min(samples, 2 * math.prod(sizes))
    work = rounds * (dualquery._SEARCH_SECONDS + dualquery._SEARCHED_SECONDS * most)
    assert foreseen == pytest.approx(work + rounds * drawing(drawn) / drawn.calls)


@settings(max_examples=depth(20), deadline=None)
@given(sizes=SIZES, rounds=st.integers(1, 12), samples=st.integers(1, 9))
def test_records_and_draws_of_fem_are_those_of_its_plan(sizes, rounds, samples):
    """Each round draws one cell; its records hear of half of all cells on average."""
    led, drawn = Counted(), Counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fem, "perturbed_leaders", led.wrap(perturbed_leaders, lambda given: given[1]))
        patch.setattr(Curator, "sample_cells", drawn.wrap(Curator.sample_cells, cells_of_all))
        mechanism = faithful("fem", rounds=rounds, samples=samples, search="local")
        foreseen, _ = ran(mechanism, sizes)
    assert drawn.calls == rounds
    assert led.amount == (rounds - 1) * samples  # the paper outputs D_0, which is drawn, to D_{T−1}
    heard = cell_queries._CONJUNCTION_SECONDS * rounds / 2 + cell_queries._RECORD_SECONDS * sum(sizes)
    assert foreseen == pytest.approx(drawing(drawn) + rounds * samples * heard)


@settings(max_examples=depth(20), deadline=None)
@given(sizes=SIZES, rounds=st.integers(1, 9))
def test_updates_and_drawn_cells_of_mwem_are_those_of_its_plan(sizes, rounds):
    """One clique joins all columns in the first round: then all groups are known, and so is all that is done to them."""
    tilted, drawn = Counted(), Counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Factored, "tilted", tilted.wrap(Factored.tilted, lambda given: given[0].domain.size(given[1])))
        patch.setattr(mixture, "systematic", drawn.wrap(mixture.systematic, lambda given: len(given[0])))
        mechanism = faithful("mwem", rounds=rounds)
        foreseen, domain = ran(mechanism, sizes)
    workload, whole = Workload((domain.names,)), math.prod(sizes)
    updates = mechanism._updates(domain, workload, ROWS, RHO)
    assert (updates.newest, updates.held, updates.read) == pytest.approx((rounds * whole,) * 3)
    assert tilted.amount == tilted.calls * whole
    assert rounds <= tilted.calls <= mwem._GOING_THROUGH * rounds
    assert drawn.amount == pytest.approx(updates.held - whole + sum(sizes))  # A_0 joins no columns, and A_T is no part
    work = mwem._GOING_THROUGH * (TILTED_SECONDS * updates.newest + UPDATE_SECONDS * rounds)
    work += groups._DRAWN_SECONDS * updates.held + (groups._READ_SECONDS + SCORED_SECONDS) * rounds * whole
    assert foreseen == pytest.approx(work + rounds * (QUESTION_SECONDS + groups._ANSWER_SECONDS))


@settings(max_examples=depth(20), deadline=None)
@given(sizes=SIZES, rounds=st.integers(1, 200), more=st.integers(1, 200))
def test_more_rounds_are_foreseen_to_take_longer(sizes, rounds, more):
    domain = table_domain(sizes)
    for name in ("dualquery", "fem", "mwem"):
        few, many = (
            faithful(name, rounds=count).duration(domain, Workload((domain.names,)), ROWS, RHO)
            for count in (rounds + 1, rounds + 1 + more)
        )
        assert few < many
