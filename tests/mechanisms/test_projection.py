"""`projection`: options that do not go together are refused, those that do are passed on."""

from __future__ import annotations

import itertools
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.mechanisms.base import explicit_options, make
from dpsql.mechanisms.matrix.hdmm import optimised_shares
from dpsql.mechanisms.projection import projection
from dpsql.mechanisms.projection.projection import Projection
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..adult import adult_codes, domain_of
from ..conftest import seeded_entropy
from ..counters import Journal

REFUSED = {
    "queries := 'cells'": "queries is 'cells', but projection measures whole marginals: .* rounds := 1",
    "weights := 'hdmm', memory := '2GB'": "weights is 'hdmm', which takes no memory",
    "weights := 'hdmm', all_cells := 77": "weights is 'hdmm', which takes no all_cells",
    "without := 'sleep'": "without is 'sleep': say one of 'smoothing', 'denoising'",
    "without := []": "without is \\[\\]: give names as a list, .* or leave it out",
    "steps := 0": "steps is 0",
    "relaxation := 'hard'": "relaxation is 'hard'",
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_would_be_ignored_cost_nothing(people, options):
    with pytest.raises(duckdb.Error, match=REFUSED[options]):
        people.sql(f"FROM dp_synthesize('people', epsilon := 1.0, {options})")
    assert people.budget().epsilon_spent.tolist() == [0.0]


@pytest.mark.parametrize("call", ["dp_synthesize", "dp_plan"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "mechanism := 'rap', rounds := 300, queries_per_round := 80",
            "would measure 24000 cells, .* give fewer rounds",
        ),
    ],
)
def test_too_many_cells_say_what_mends_it(db, options, message, call):
    """What the message advises is not what was asked for."""
    db.sql("CREATE TABLE t AS SELECT i % 90 AS a, i % 80 AS b, i % 7 AS c FROM range(500) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-6)
    for name, top in (("a", 89), ("b", 79), ("c", 6)):
        db.domain("t", name, lower=0, upper=top, bins=top + 1, nulls=False)
    with pytest.raises(duckdb.Error, match=message) as refused:
        db.sql(f"FROM {call}('t', epsilon := 1.0, workload := 'all 3-way', {options})")
    assert "rounds := 1" not in str(refused.value)
    assert db.budget().epsilon_spent.tolist() == [0.0]


def test_defaults_written_out_are_the_same_request():
    assert make("projection", {}) == make("projection", {"steps": 500, "relaxation": "softmax", "queries": "marginals"})


def test_the_memory_of_hdmm_s_strategy_is_that_of_its_own_cells(monkeypatch):
    """`all_cells` does not bound it, so neither does it bound what is asked of the machine."""
    domain = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(40)))) for i in range(4)))
    workload = Workload((domain.names[:3], domain.names[1:]))
    mechanism = make("projection", {"weights": "hdmm"})
    cells = sum(domain.size(c) for c, _ in optimised_shares(domain, workload, Fraction(1), mechanism.max_cells))
    joints = projection.joint_tuples(domain)
    needed = projection.fitting_bytes(domain, mechanism.relaxed_rows, cells, joints)
    assert mechanism.footprint(domain, workload) == needed
    monkeypatch.setattr(projection, "machine_memory", lambda: needed - 1)
    with pytest.raises(DomainTooLarge, match="of memory"):
        mechanism.check(domain, workload, Neighbours.ADD_REMOVE)


NAMES = ("workclass", "education-num", "marital-status", "relationship", "sex")
RHO = Fraction(1, 20_000)
TRIPLES = Workload((("workclass", "education-num", "sex"), ("education-num", "marital-status", "relationship")))


class Codes:
    """Exact counts of Adult, and which marginals were read."""

    def __init__(self) -> None:
        codes, sizes = adult_codes()
        self.rows = codes[:, [list(sizes).index(name) for name in NAMES]]
        self.domain, self.read = domain_of(NAMES), list[tuple[str, ...]]()

    def marginal(self, clique):
        from dpsql.core.marginal import Marginal

        self.read.append(clique)
        if not clique:
            return Marginal((), 1, np.zeros(1, np.int64), np.array([len(self.rows)]))
        places = [NAMES.index(name) for name in clique]
        packed = np.ravel_multi_index(tuple(self.rows[:, place] for place in places), self.domain.shape(clique))
        cells, counts = np.unique(packed, return_counts=True)
        return Marginal(clique, self.domain.size(clique), cells, counts)


def ran(journal: Journal, seed: int = 0, rho: Fraction = RHO, workload: Workload = TRIPLES, **options):
    """A run of 32 rows and 20 steps; its curator and what it returned."""
    counter = Codes()
    curator = Curator(counter, counter.domain, Neighbours.ADD_REMOVE, rho, journal, Quiet(), seeded_entropy(seed), rho)
    mechanism = Projection(relaxed_rows=32, steps=20, **options)
    return counter, curator, mechanism.run(curator, workload, rho, 0, Quiet())


def questions(journal: Journal) -> list[tuple[str, ...]]:
    return [answer.question.clique for answer in journal.answers]


@pytest.mark.medium
def test_strong_pairs_are_measured_twice_within_the_charge():
    journal = Journal()
    _, curator, outcome = ran(journal)
    asked = questions(journal)
    again = asked[len(set(asked)) :]
    assert ("marital-status", "relationship") in again
    assert outcome.report["measured_again"] == len(again)
    assert "marital-status, relationship" in outcome.report["strong_pairs"]
    assert curator.remaining == 0  # all of it was spent, and nothing beyond
    spent = sum(answer.question.rho for answer in journal.answers)
    assert spent == RHO


WEAK = (("workclass", "education-num"), ("workclass", "relationship"), ("education-num", "sex"), ("workclass", "sex"))
PAIR = ("marital-status", "relationship")


@pytest.mark.medium
@pytest.mark.parametrize("cliques", [WEAK, (*WEAK, PAIR)], ids=["weak pairs", "and a strong one"])
def test_a_second_stage_is_for_all_that_was_measured_and_half_for_the_pairs_where_one_tells_much(cliques):
    """All of these pairs stand out of the first noise, and only the last one has 0.1 nats or more."""
    journal = Journal()
    _, _, outcome = ran(journal, 0, Fraction(1, 4000), Workload(cliques))
    asked = questions(journal)
    first, again = asked[1 : len(set(asked))], asked[len(set(asked)) :]
    assert len(outcome.report["strong_pairs"]) == len(cliques)
    assert sorted(again) == sorted([*cliques, *first] if PAIR in cliques else first)


@pytest.mark.medium
@pytest.mark.parametrize(("cliques", "towards"), [(WEAK, False), ((*WEAK, PAIR), True)], ids=["nothing", "a pair"])
def test_rows_are_pulled_towards_a_table_of_the_pairs_where_one_tells_much(cliques, towards):
    """Where none does the refinement is not in use, so leaving it out changes no row."""
    tables = [
        ran(Journal(), 0, Fraction(1, 4000), Workload(cliques), **options)[2].model.project(WEAK[0]).tolist()
        for options in ({}, {"without": ("reference",)})
    ]
    assert (tables[0] != tables[1]) == towards


@pytest.mark.medium
def test_triples_help_to_find_strong_pairs():
    """With them a run of this noise finds six pairs or more on average, without them less than five."""
    every, found = Workload(tuple(itertools.combinations(NAMES, 3))), {(): 0, ("pooling",): 0}
    for seed in range(5):
        for without in found:
            options = {"without": without} if without else {}
            _, _, outcome = ran(Journal(), seed, Fraction(1, 5000), every, **options)
            found[without] += len(outcome.report["strong_pairs"])
    assert found[()] >= 30 > 25 > found["pooling",]


@pytest.mark.medium
def test_the_second_stage_can_be_left_out():
    journal = Journal()
    _, curator, outcome = ran(journal, without=("selection",))
    assert len(set(questions(journal))) == len(journal.answers)
    assert "measured_again" not in outcome.report
    assert curator.remaining == 0


@pytest.mark.medium
@pytest.mark.parametrize("kept", ["first stage", "both stages"])
def test_a_killed_run_goes_on_with_the_same_answers(kept):
    """It may be killed between the stages: the second one is then chosen from the first one's recorded answers."""
    journal = Journal()
    _, _, whole = ran(journal)
    first = len(set(questions(journal)))
    resumed = Journal(journal.answers[: first if kept == "first stage" else None])
    counter, curator, outcome = ran(resumed, seed=5)  # another noise, were any drawn anew
    assert questions(resumed) == questions(journal)
    assert resumed.answers[:first] == journal.answers[:first]
    assert curator.remaining == 0
    if kept == "both stages":
        assert counter.read == []
        assert outcome.report == whole.report
        assert outcome.model.project(NAMES).tolist() == whole.model.project(NAMES).tolist()


@pytest.mark.medium
def test_a_run_that_an_older_rule_began_asks_what_that_rule_asked():
    """Its answers were paid for and told; asking otherwise would be refused by the journal."""
    journal = Journal()
    ran(journal, without=("selection", "allocation", "smoothing"))
    counter, curator, _ = ran(Journal(journal.answers), seed=5)
    assert counter.read == []
    assert curator.remaining == 0


def test_an_option_younger_than_books_in_use_changes_no_key_by_being_there():
    assert "without" not in explicit_options(Projection())
    assert explicit_options(Projection(without=("smoothing",)))["without"] == ("smoothing",)


def test_the_plan_names_the_second_stage_and_its_cost():
    codes, domain = adult_codes()[0], domain_of(NAMES)
    planned = Projection().plan(domain, TRIPLES, Neighbours.ADD_REMOVE, RHO, len(codes))
    assert sum(one.rho for one in planned) == pytest.approx(float(RHO))
    (second,) = [one for one in planned if one.open]
    assert second.open == "strong pairs"
    assert second.rho == pytest.approx(0.3 * 0.99 * float(RHO))
    alone = Projection(without=("selection",)).plan(domain, TRIPLES, Neighbours.ADD_REMOVE, RHO, len(codes))
    assert not [one for one in alone if one.open]
