"""`residual`: rounds that measure what pooled residuals answer worst."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.mechanisms.annealed_rounds import overlaps
from dpsql.mechanisms.base import make
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN, SELECTION
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows

pytestmark = pytest.mark.medium  # of each the first fit is compiled
QUICK = {"relaxed_rows": 32, "steps": 60}


def domain_of(*sizes: int) -> Domain:
    values = [tuple(map(str, range(size))) for size in sizes]
    return Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", v) for i, v in enumerate(values)))


def chain(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Each column but the last repeats the one before it in two rows of three; the last one tells nothing."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 4, (rows, columns))
    for column in range(1, columns - 1):
        same = generator.random(rows) < 0.67
        codes[same, column] = codes[same, column - 1]
    return codes


def run(codes, domain, workload, rho, neighbours=Neighbours.ADD_REMOVE, seed="residual", **options):
    journal, progress = Journal(), Quiet()
    curator = Curator(Rows(domain, codes), domain, neighbours, rho, journal, progress, seeded_entropy(seed))
    mechanism = make("residual", {**QUICK, **options})
    mechanism.check(domain, workload, neighbours)
    return curator, journal, mechanism.run(curator, workload, rho, 0, progress)


def test_rounds_measure_what_the_model_answers_worst():
    """Pairs that depend on each other come first, and one that does not is measured by what is left, if at all."""
    domain, codes = domain_of(4, 4, 4, 4), chain(5000, 4)
    workload = Workload((("c0", "c1"), ("c1", "c2"), ("c0", "c3"), ("c2", "c3")))
    outcome = run(codes, domain, workload, Fraction(1), steps=300)[2]
    assert set(outcome.report["selected"][:2]) == {"c0, c1", "c1, c2"}
    for clique in workload.cliques[:2]:
        exact = Rows(domain, codes).marginal(clique).dense() / len(codes)
        assert np.abs(outcome.model.project(clique) - exact).sum() < 0.05


def test_a_triple_is_measured_where_its_pairs_do_not_tell_it():
    """c2 is the parity of the others, so that each pair of columns is independent."""
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 2, (4000, 3))
    codes[:, 2] = codes[:, 0] ^ codes[:, 1]
    outcome = run(codes, domain_of(2, 2, 2), Workload((("c0", "c1", "c2"),)), Fraction(1), steps=300)[2]
    assert outcome.report["selected"][0] == "c0, c1, c2"
    odd = np.array([sum(map(int, f"{cell:03b}")) % 2 for cell in range(8)])
    assert outcome.model.project(("c0", "c1", "c2")) @ odd < 0.03


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_all_is_spent_as_planned(neighbours):
    """A tenth of a round's ρ selects, the rest measures; the plan's rows add up to the charge."""
    domain, rho, workload = domain_of(4, 4, 4), Fraction(1, 7), Workload((("c0", "c1"),))
    curator, journal, outcome = run(chain(300, 3), domain, workload, rho, neighbours)
    assert curator.remaining == 0
    assert sum(answer.rho for answer in journal.answers) == rho
    selections = [place for place, answer in enumerate(journal.answers) if answer.selection]
    assert selections
    for place in selections:
        assert journal.answers[place + 1].rho == 9 * journal.answers[place].rho
    assert json.loads(json.dumps(outcome.report)) == outcome.report
    mechanism = make("residual", QUICK)
    assert {*mechanism.questions(domain, workload, neighbours).kinds} == {GAUSSIAN, SELECTION}
    assert sum(part.rho for part in mechanism.plan(domain, workload, neighbours, rho, 300.0)) == pytest.approx(1 / 7)


def test_rounds_get_more_where_noise_hides_what_they_measure():
    """Twice as much each time, and never less; without that there would be 48 rounds."""
    _, journal, outcome = run(chain(300, 3), domain_of(4, 4, 4), Workload((("c0", "c1"),)), Fraction(1, 7))
    shares = [answer.rho for answer in journal.answers if answer.selection]
    assert len(shares) == len(outcome.report["selected"]) < 30
    assert {later / one for one, later in itertools.pairwise(shares[:-1])} == {1, 2}


def test_a_run_goes_on_from_what_was_recorded():
    domain, workload, rho = domain_of(4, 4, 4), Workload((("c0", "c1", "c2"),)), Fraction(1, 10)
    _, journal, first = run(chain(300, 3), domain, workload, rho)
    replayed = Journal(journal.answers)
    rows = Rows(domain, np.zeros((0, 3), int))
    curator = Curator(rows, domain, Neighbours.ADD_REMOVE, rho, replayed, Quiet(), seeded_entropy("x"))
    again = make("residual", QUICK).run(curator, workload, rho, 0, Quiet())
    assert len(replayed.answers) == len(journal.answers)
    np.testing.assert_array_equal(first.model.project(domain.names), again.model.project(domain.names))


def test_weights_are_the_columns_shared_with_each_marginal_of_the_workload():
    names = "abcde"
    workload = Workload(tuple(itertools.combinations(names, 3))[::2])
    for clique, weight in overlaps(workload, workload.closure()).items():
        assert weight == sum(len({*clique} & {*asked}) for asked in workload.needed)


@pytest.mark.parametrize("rho", [Fraction(1, 10**6), Fraction(10**6)])
def test_one_column_no_rows_and_any_charge(rho):
    """Where noise is more than any error, and where there is none."""
    domain = domain_of(3)
    curator, _, outcome = run(np.zeros((0, 1), int), domain, Workload((("c0",),)), rho)
    assert curator.remaining == 0
    assert outcome.model.sample(5, np.random.default_rng(0), Quiet()).shape == (5, 1)


def test_what_is_too_large_is_left_out_or_refused():
    """A marginal above max_cells is no candidate; single columns always are; too many cells are refused."""
    domain = domain_of(30, 30, 30)
    workload = Workload((domain.names,))
    outcome = run(chain(200, 3) * 7, domain, workload, Fraction(1), max_cells=29)[2]
    assert all("," not in clique for clique in outcome.report["selected"])
    wide = domain_of(*[200] * 5)
    with pytest.raises(DomainTooLarge, match=r"residual scores 8\.04e\+07 cells .* max_cells than 10000000"):
        make("residual", {"max_cells": 10_000_000}).check(wide, Workload((wide.names,)), Neighbours.ADD_REMOVE)


def test_thresholds_are_refused_with_what_answers_them(db):
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(30) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-6)
    with pytest.raises(InvalidArgument, match="residual answers marginals, not at_least"):
        db.plan("t", 1.0, mechanism="residual", workload="SELECT count(*) FROM t GROUP BY at_least(1, a, b)")


def test_through_sql(db):
    """Its plan, its report and its rows; c is a + b."""
    db.sql("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b, i % 2 + i % 3 AS c FROM range(3000) r(i)")
    db.protect("t", epsilon=10.0, delta=1e-6)
    for name, top in (("a", 1), ("b", 2), ("c", 3)):
        db.domain("t", name, lower=0, upper=top, bins=top + 1, nulls=False)
    how = "epsilon := 5.0, mechanism := 'residual', workload := 'all 3-way', steps := 300"
    assert "(selected marginals)" in str(db.sql(f"FROM dp_plan('t', {how}, assume_rows := 3000)").fetchall())
    db.sql(f"CREATE TABLE s AS FROM dp_synthesize('t', {how})")
    (release,) = db.releases().itertuples()
    assert release.mechanism == "residual"
    wrong, rows = db.sql("SELECT count(*) FILTER (c <> a + b), count(*) FROM s").fetchone()
    assert wrong < 0.05 * rows
    assert abs(rows - 3000) < 60
