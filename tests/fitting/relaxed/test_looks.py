"""A fit with few noise is looked at between its steps: it ends where more of them would change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsql.fitting.relaxed.fit_marginals import fit_marginals
from dpsql.fitting.relaxed.rounding import round_table
from dpsql.fitting.relaxed.settings import Fit, Settings
from dpsql.runtime.progress import Quiet
from tests.fitting.relaxed.test_fit_marginals import CLIQUES, DOMAIN, ROWS, SIZES, counts, measured

pytestmark = pytest.mark.medium
STEPS, POLISH = 300, 600
SETTINGS = Settings(rows=32, steps=STEPS, thinned=1.0, polish=POLISH)


def fitted(settings: Settings) -> Fit:
    return fit_marginals(DOMAIN, measured(5.0), float(ROWS), settings, 0, Quiet())


def test_further_steps_end_where_they_change_nothing():
    fit = fitted(SETTINGS)
    assert STEPS < fit.steps < STEPS + POLISH
    assert fit.residual < fitted(replace(SETTINGS, polish=0)).residual


def test_an_attempt_that_is_pulled_too_much_is_given_up_early():
    far = fitted(replace(SETTINGS, pull=1e5))
    again = round(np.log(1e5 / far.pull) / np.log(4))  # attempts with a weaker pull
    assert again
    assert far.steps - POLISH <= 0.8 * (STEPS + (again - 1) * (STEPS // 2)) + STEPS // 2


def test_a_fit_that_is_looked_at_is_the_same_again():
    first, second = (fitted(SETTINGS) for _ in range(2))
    np.testing.assert_array_equal(first.model.probabilities, second.model.probabilities)


def test_rounding_knows_cliques_in_any_order():
    """Rows come as near to marginals whose attributes are named the other way round, beside each other or alone."""
    model = fitted(replace(SETTINGS, polish=0)).model
    turned = [clique[::-1] for clique in CLIQUES]
    gaps = []
    for cliques in (CLIQUES, turned, [*CLIQUES, *turned]):
        drawn = round_table(model, ROWS, cliques, np.random.default_rng(0), Quiet())
        assert (drawn < np.array(SIZES)).all()
        gaps.append(np.mean([np.abs(counts(drawn, c) / ROWS - model.project(c)).sum() for c in CLIQUES]))
    assert max(gaps) < 1.3 * min(gaps)
