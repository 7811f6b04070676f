"""`projection`: options that do not go together are refused, those that do are passed on."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.mechanisms import projection
from dpsql.mechanisms.base import make
from dpsql.mechanisms.hdmm import optimised_shares

REFUSED = {
    "queries := 'cells', weights := 'hdmm'": "queries is 'cells', which takes no weights: leave weights out",
    "queries := 'cells', memory := '2GB'": "queries is 'cells', which takes no memory",
    "queries := 'cells', max_cells := 77": "queries is 'cells', which takes no max_cells",
    "queries := 'cells', all_cells := 77": "queries is 'cells', which takes no all_cells",
    "weights := 'hdmm', memory := '2GB'": "weights is 'hdmm', which takes no memory",
    "weights := 'hdmm', all_cells := 77": "weights is 'hdmm', which takes no all_cells",
    "queries := 'cells', steps := 0": "steps is 0",
    "queries := 'cells', relaxation := 'hard'": "relaxation is 'hard'",
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_would_be_ignored_cost_nothing(people, options):
    with pytest.raises(duckdb.Error, match=REFUSED[options]):
        people.sql(f"FROM dp_synthesize('people', epsilon := 1.0, {options})")
    assert people.budget().epsilon_spent.tolist() == [0.0]


def test_cells_take_no_prior(people):
    people.sql("CREATE TABLE p AS FROM people WHERE sex IS NOT NULL LIMIT 50")
    with pytest.raises(duckdb.Error, match="queries is 'cells', which makes no use of a prior: say queries"):
        how = "epsilon := 1.0, queries := 'cells', prior := 'p'"
        people.sql(f"FROM dp_synthesize('people', {how}, mechanism := 'projection')")
    assert people.budget().epsilon_spent.tolist() == [0.0]
    with pytest.raises(InvalidArgument, match="queries is 'cells', which makes no use of a prior: say queries := "):
        make("projection", {"queries": "cells"}).check_prior(given=True)


@pytest.mark.parametrize("call", ["dp_synthesize", "dp_plan"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("queries := 'cells'", r"queries is 'cells', and the workload has \d+ cells, .* say queries := 'marginals'"),
        ("mechanism := 'rap', rounds := 1", r"rounds is 1, and the workload has \d+ cells, .* give rounds and"),
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


def test_cells_use_the_options_that_apply():
    one = make("projection", {"queries": "cells", "steps": 7, "relaxation": "softmax", "relaxed_rows": 9})._of_cells()
    assert (one.rounds, one.steps, one.relaxation, one.relaxed_rows) == (1, 7, "softmax", 9)
    usual = make("projection", {"queries": "cells"})._of_cells()
    assert (usual.steps, usual.relaxation) == (5000, "sparsemax")


def test_defaults_written_out_are_the_same_request():
    assert make("projection", {}) == make("projection", {"steps": 500, "relaxation": "softmax"})
    assert make("projection", {"queries": "cells"}) == make(
        "projection", {"queries": "cells", "steps": 5000, "relaxation": "sparsemax"}
    )


@pytest.mark.medium
def test_steps_reach_the_fit_of_cells(people):
    release = people.synthesize("people", 1.0, queries="cells", steps=3, workload="all 1-way")
    assert release.entry.report["steps"] <= 3


def test_the_memory_of_hdmm_s_strategy_is_that_of_its_own_cells(monkeypatch):
    """`all_cells` does not bound it, so neither does it bound what is asked of the machine."""
    domain = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(40)))) for i in range(4)))
    workload = Workload((domain.names[:3], domain.names[1:]))
    mechanism = make("projection", {"weights": "hdmm"})
    cells = sum(domain.size(c) for c, _ in optimised_shares(domain, workload, Fraction(1), mechanism.max_cells))
    needed = projection.fitting_bytes(domain, mechanism.relaxed_rows, cells)
    assert mechanism.footprint(domain, workload) == needed
    monkeypatch.setattr(projection, "machine_memory", lambda: needed - 1)
    with pytest.raises(DomainTooLarge, match="of memory"):
        mechanism.check(domain, workload, Neighbours.ADD_REMOVE)
