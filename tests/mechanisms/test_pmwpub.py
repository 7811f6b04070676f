"""PMW-Pub: as it was published, recomputed from what it asked."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import packed
from dpsql.core.workload import Workload
from dpsql.mechanisms.base import make
from dpsql.mechanisms.defaults import make_for
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet
from tests.conftest import settle

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows
from .test_ide import prior_of, table_domain

DOMAIN = table_domain((3, 4, 2))
PAIRS = Workload((("c0", "c1"), ("c1", "c2")))


def run(options, neighbours=Neighbours.REPLACE_ONE, rho=Fraction(2)):
    """The journal and the model of a run on 500 rows."""
    random, journal, prior = np.random.default_rng(1), Journal(), prior_of(DOMAIN)
    rows = np.stack([random.integers(0, size, 500) ** 2 // size for size in DOMAIN.shape(DOMAIN.names)], axis=1)
    curator = Curator(
        Rows(DOMAIN, rows), DOMAIN, neighbours, rho, journal, Quiet(), seeded_entropy("pmwpub"), prior=prior
    )
    mechanism = make_for("pmwpub", options, pure=False)
    outcome = mechanism.run(curator, PAIRS, rho, 3, Quiet())
    return journal.answers, outcome, prior, curator, mechanism


@pytest.mark.parametrize("output", ["average", "last"])
def test_as_published_it_is_algorithm_1(output):
    """The iterates from the journal alone: one cell a round, the newest answer only, from the prior as it is."""
    answers, outcome, prior, _, _ = run({"faithful": True, "rounds": 6, "output": output})
    measured = [
        answer.measurement for answer in answers if answer.measurement is not None and answer.measurement.clique
    ]
    assert [len(one.values) for one in measured] == [1] * 6
    weights, sums = prior.weights / prior.weights.sum(), 0.0
    for one in measured:
        inside = packed(prior.codes, prior.names, DOMAIN, one.clique) == one.cells[0]
        weights = weights * np.exp(inside * (one.values[0] - 500 * weights[inside].sum()) / (2 * 500))
        weights = weights / weights.sum()
        sums = sums + weights
    expected = sums / 6 if output == "average" else weights
    np.testing.assert_allclose(outcome.model.weights, expected, rtol=1e-9)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_as_published_it_spends_its_charge(neighbours):
    """And the plan says so: a hundredth for the number of rows, where that is private."""
    answers, _, _, curator, mechanism = run({"faithful": True, "rounds": 5}, neighbours)
    assert curator.remaining == 0
    planned = mechanism.plan(DOMAIN, PAIRS, neighbours, Fraction(2), 500.0)
    assert sum(one.rho for one in planned) == pytest.approx(2.0)
    assert len(planned) == (1 if neighbours.total_is_public else 2)
    assert len(answers) == 11  # the number of rows, and two a round


def test_it_asks_for_marginals_by_default():
    """As before these options: 1-way marginals, then one marginal a round."""
    answers, outcome, _, _, _ = run({})
    sizes = [len(answer.measurement.values) for answer in answers if answer.measurement is not None]
    assert sizes[:3] == [3, 4, 2]
    assert set(sizes[-2:]) <= {12, 8}
    assert "uniform_part" in outcome.report
    assert make("pmwpub", {}).uses_earlier
    assert not make_for("pmwpub", {"faithful": True}, pure=False).uses_earlier


@pytest.mark.parametrize("option", ["queries", "output", "start"])
def test_words_are_checked(people, option):
    people.sql("CREATE TABLE public_people AS SELECT age, mood FROM people LIMIT 100")
    settle(people, "public_people")
    sql = f"FROM dp_synthesize('people', epsilon := 1.0, mechanism := 'pmwpub', prior := 'public_people', {option} := 'x')"
    with pytest.raises(Exception, match=f"{option} is 'x'"):
        people.sql(sql).fetchall()
    assert people.sql("SELECT epsilon_spent FROM dp_budget()").fetchone() == (0.0,)
