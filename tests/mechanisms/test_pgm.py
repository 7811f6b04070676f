from __future__ import annotations

import itertools
import json
import subprocess
import sys
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, Interrupted, InvalidArgument
from dpsql.fitting.target import Target
from dpsql.mechanisms.base import make
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.pricing import price
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows

SELECTIONS = ("workload", "mst", "aim")
HUGE = Fraction(10**6)
# not importorskip: importing mbi turns 64-bit numbers on for the tests of everything else
needs_mbi = pytest.mark.skipif(find_spec("mbi") is None, reason="needs mbi")


def domain_of(*sizes: int) -> Domain:
    values = [tuple(map(str, range(size))) for size in sizes]
    return Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", v) for i, v in enumerate(values)))


def chain(rows: int, columns: int, size: int = 4, seed: int = 0) -> np.ndarray:
    """Each column repeats the one before it in two rows of three: the true tree is the chain."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, size, (rows, columns))
    for column in range(1, columns):
        same = generator.random(rows) < 0.67
        codes[same, column] = codes[same, column - 1]
    return codes


def run(selection, codes, domain, workload, rho=HUGE, neighbours=Neighbours.ADD_REMOVE, seed="pgm", **options):
    journal, progress = Journal(), Quiet()
    curator = Curator(Rows(domain, codes), domain, neighbours, rho, journal, progress, seeded_entropy(seed))
    mechanism = make("pgm", {"selection": selection, **options})
    mechanism.check(domain, workload, neighbours)
    return curator, journal, mechanism.run(curator, workload, rho, 0, progress)


def exact(codes, domain, clique):
    return Rows(domain, codes).marginal(clique).dense() / len(codes)


@pytest.mark.medium
@needs_mbi
def test_measured_marginals_are_met_and_the_rest_is_conditionally_independent():
    domain, codes = domain_of(3, 4, 2), chain(3000, 3, 2)
    workload = Workload((("c0", "c1"), ("c1", "c2")))
    model = run("workload", codes, domain, workload, steps=5000)[2].model
    for clique in (("c0",), ("c0", "c1"), ("c1", "c2")):
        np.testing.assert_allclose(model.project(clique), exact(codes, domain, clique), atol=2e-3)
    first, second = (exact(codes, domain, c).reshape(domain.shape(c)) for c in workload.cliques)
    middle = np.maximum(first.sum(axis=0), 1e-9)
    implied = np.einsum("ab,bc->ac", first, second / middle[:, None])
    np.testing.assert_allclose(model.project(("c0", "c2")), implied.ravel(), atol=3e-3)
    np.testing.assert_allclose(
        model.project(("c2", "c0")).reshape(2, 3), model.project(("c0", "c2")).reshape(3, 2).T, atol=1e-6
    )


@pytest.mark.medium
@needs_mbi
def test_marginals_across_the_tree_agree_with_the_whole_table():
    domain, codes = domain_of(2, 3, 2, 3, 2), chain(2000, 5, 2)
    model = run("mst", codes, domain, Workload((domain.names,)))[2].model
    nodes = model.tree.nodes
    assert max(len(node.clique) for node in nodes) == 2
    joint = np.ones(domain.shape(domain.names))
    for node in nodes:
        wanted = [node.clique.index(name) if name in node.clique else None for name in domain.names]
        index = tuple(slice(None) if place is not None else None for place in wanted)
        joint = joint * node.conditional[index]
    for order in (1, 2, 3, 5):
        for clique in itertools.combinations(range(5), order):
            away = tuple(k for k in range(5) if k not in clique)
            names = tuple(domain.names[k] for k in clique)
            np.testing.assert_allclose(model.project(names), joint.sum(axis=away).ravel(), atol=1e-6)


@pytest.mark.medium
@needs_mbi
def test_a_column_that_nothing_measures_is_uniform():
    from dpsql.fitting.graph.fit_graph import fit_graph

    domain = domain_of(2, 4)
    known = Target(("c0",), (2,), np.array([30.0, 10.0]), 1.0)
    tree = fit_graph(domain, [known], 40.0, 500, Quiet()).tree
    np.testing.assert_allclose(tree.project(("c0", "c1")), np.repeat([0.75, 0.25], 4) / 4, atol=1e-4)


@pytest.mark.medium
@needs_mbi
def test_mst_finds_the_true_edges():
    domain, codes = domain_of(4, 4, 4, 4, 4), chain(5000, 5)
    journal = run("mst", codes, domain, Workload((("c0", "c1"),)))[1]
    chosen = {answer.selection[0].clique for answer in journal.answers if answer.selection}
    assert chosen == {("c0", "c1"), ("c1", "c2"), ("c2", "c3"), ("c3", "c4")}


@pytest.mark.medium
@needs_mbi
def test_aim_measures_what_the_model_answers_worst():
    domain, codes = domain_of(4, 4, 4, 4), chain(5000, 4)
    codes[:, 3] = np.random.default_rng(5).integers(0, 4, 5000)
    workload = Workload((("c0", "c1"), ("c0", "c3"), ("c2", "c3")))
    outcome = run("aim", codes, domain, workload, Fraction(1))[2]
    assert "c0, c1" in outcome.report["selected"][:2]
    assert abs(outcome.model.project(("c0", "c1")) - exact(codes, domain, ("c0", "c1"))).sum() < 0.03


@needs_mbi
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_all_is_spent(selection, neighbours):
    domain, codes = domain_of(3, 3, 3), chain(300, 3, 3)
    curator, journal, outcome = run(selection, codes, domain, Workload((("c0", "c1"),)), Fraction(1, 7), neighbours)
    assert sum((answer.rho for answer in journal.answers), curator.remaining) == Fraction(1, 7)
    assert curator.remaining == 0
    assert json.loads(json.dumps(outcome.report)) == outcome.report


@needs_mbi
@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_run_goes_on_from_what_was_recorded(selection):
    domain, codes, workload = domain_of(3, 3, 3), chain(300, 3, 3), Workload((("c0", "c1", "c2"),))
    _, journal, first = run(selection, codes, domain, workload, Fraction(1, 10))
    replayed = Journal(journal.answers)
    curator = Curator(
        Rows(domain, codes[:0]), domain, Neighbours.ADD_REMOVE, Fraction(1, 10), replayed, Quiet(), seeded_entropy("x")
    )
    again = make("pgm", {"selection": selection}).run(curator, workload, Fraction(1, 10), 0, Quiet())
    assert len(replayed.answers) == len(journal.answers)
    np.testing.assert_array_equal(first.model.project(domain.names), again.model.project(domain.names))


@needs_mbi
@pytest.mark.parametrize("selection", SELECTIONS)
def test_one_column_and_no_rows(selection):
    domain = domain_of(3)
    curator, _, outcome = run(selection, np.zeros((0, 1), int), domain, Workload((("c0",),)), Fraction(1))
    assert curator.remaining == 0
    assert outcome.model.sample(5, np.random.default_rng(0), Quiet()).shape == (5, 1)


def test_the_gaussian_conversion_is_for_gaussian_noise_only():
    domain, workload = domain_of(2, 2), Workload((("c0", "c1"),))
    for selection in SELECTIONS:
        mechanism = make("pgm", {"selection": selection})
        questions = mechanism.questions(domain, workload, Neighbours.ADD_REMOVE)
        budget = price(questions, 1.0, 1e-9)
        assert (budget.gdp == budget.rho) == (selection == "workload") == (questions.kinds == (GAUSSIAN,))


@needs_mbi
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_plan_adds_up(selection, neighbours):
    domain = domain_of(5, 5, 5)
    plan = make("pgm", {"selection": selection}).plan(
        domain, Workload((("c0", "c1"),)), neighbours, Fraction(1, 10), 1000.0
    )
    assert sum(part.rho for part in plan) == pytest.approx(0.1)


@needs_mbi
def test_a_small_model_leaves_large_marginals_out():
    """100³ cells are 7.6 megabytes: with one megabyte only pairs are measured."""
    domain = domain_of(60, 60, 60, 2)
    workload = Workload((("c0", "c1", "c2"), ("c1", "c2", "c3")))
    mechanism = make("pgm", {"selection": "workload", "model_mb": 1, "max_cells": 10**6})
    plan = mechanism.plan(domain, workload, Neighbours.ADD_REMOVE, Fraction(100), 1e6)
    measured = {part.clique for part in plan if part.stddev is not None}
    assert ("c1", "c2", "c3") in measured
    assert ("c0", "c1", "c2") not in measured
    reasons = {part.clique: part.note for part in plan if part.stddev is None}
    assert "model_mb" in reasons[("c0", "c1", "c2")]


@pytest.mark.medium
@needs_mbi
def test_rows_are_spread_as_the_model_says():
    domain, codes = domain_of(4, 4, 4), chain(3000, 3)
    model = run("mst", codes, domain, Workload((("c0", "c1"),)))[2].model
    rows = model.sample(20_000, np.random.default_rng(0), Quiet())
    for clique in (("c0",), ("c0", "c1"), ("c1", "c2"), ("c0", "c2"), ("c0", "c1", "c2")):
        assert abs(exact(rows, domain, clique) - model.project(clique)).sum() < 0.035
    np.testing.assert_array_equal(rows, model.sample(20_000, np.random.default_rng(0), Quiet()))


@needs_mbi
def test_constraints_hold_in_every_row():
    domain, codes = domain_of(4, 4, 4), chain(2000, 3)
    model = run("mst", codes, domain, Workload((("c0", "c1"),)))[2].model
    tuples = np.array([(a, b) for a in range(4) for b in range(a + 1)])
    rule = Allowed(("c0", "c2"), ("c0", "c2"), ("c2 <= c0",), tuples, np.zeros(tuples.shape))
    nowhere = Allowed((), ("d",), ("d > 0",), np.zeros((0, 0), int), np.zeros((0, 0)))
    for count in (0, 1, 5000):
        rows = model.sample(count, np.random.default_rng(1), Quiet(), (rule, nowhere))
        assert rows.shape == (count, 3)
        assert (rows[:, 2] <= rows[:, 0]).all()


@pytest.mark.parametrize(
    "options",
    [{"selection": "best"}, {"model_mb": 0}, {"max_cells": 1}, {"steps": 0}, {"selection": "mst", "rounds": 3}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidArgument):
        make("pgm", options)


@needs_mbi
def test_too_large_a_table_is_refused():
    mechanism, workload = make("pgm", {"model_mb": 1}), Workload((("c0",),))
    with pytest.raises(DomainTooLarge, match="model_mb"):
        mechanism.check(domain_of(100_000, 100_000), workload, Neighbours.ADD_REMOVE)
    with pytest.raises(DomainTooLarge, match="columns"):
        mechanism.check(domain_of(*[2] * 101), workload, Neighbours.ADD_REMOVE)


def test_without_the_package_it_is_refused_before_the_charge(people, monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(InvalidArgument, match=r"pip install 'dpsql\[pgm\]'"):
        people.synthesize("people", 1.0, mechanism="pgm")
    assert people.budget().epsilon_spent.tolist() == [0.0]


@needs_mbi
def test_a_fit_can_be_interrupted_at_once():
    """Also while JAX compiles, in another thread."""
    from dpsql.fitting.graph.fit_graph import fit_graph

    domain, codes = domain_of(7, 7, 7, 7), chain(500, 4)
    known = [
        Target(c, domain.shape(c), np.rint(500 * exact(codes, domain, c)), 1.0)
        for c in itertools.combinations(domain.names, 2)
    ]
    asked = iter(range(10**9))
    with pytest.raises(Interrupted):
        fit_graph(domain, known, 500.0, 10**6, Quiet(lambda: next(asked) > 3))


@pytest.mark.medium
@needs_mbi
def test_numbers_elsewhere_stay_as_wide_as_they_were():
    """mbi turns 64-bit numbers on for all of JAX; the other fits are not to change with it."""
    script = """
import jax.numpy as jnp
from dpsql.fitting.graph.mbi_package import load_mbi
assert load_mbi().Factor
assert jnp.ones(1).dtype == jnp.float32
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.medium
@needs_mbi
def test_marginals_that_do_not_fit_in_memory_are_drawn(monkeypatch):
    """Columns far apart in the tree: of 200,000 rows, within sampling error of the exact ones."""
    domain, codes = domain_of(4, 4, 4, 4), chain(3000, 4, 4)
    pairs = Workload((("c0", "c1"), ("c1", "c2"), ("c2", "c3")))
    _, _, outcome = run("workload", codes, domain, pairs, Fraction(50))
    tree = outcome.model.tree
    whole = tree.project(("c0", "c3"))
    monkeypatch.setattr("dpsql.fitting.graph.junction_tree._MOST_JOINED", 3)
    drawn = tree.project(("c0", "c3"))
    assert drawn.sum() == pytest.approx(1)
    assert abs(drawn - whole).sum() < 0.05
    assert not np.array_equal(drawn, whole)
