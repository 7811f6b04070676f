"""What is measured, and how the plan says it: the rule, what is left out, and memory."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.language.workloads import default_workload
from dpsql.mechanisms.projection.projection import Projection
from dpsql.runtime.memory import parse_size
from dpsql.strategy.allocation import allocate


def domain_of(sizes) -> Domain:
    return Domain(
        tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(s)))) for i, s in enumerate(sizes))
    )


def chosen(domain, rows, rho=Fraction(1, 64), neighbours=Neighbours.ADD_REMOVE, max_cells=60_000, all_cells=1_500_000):
    return allocate(domain, default_workload(domain), neighbours, rho, rows, max_cells, all_cells)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=7),
    st.floats(0, 1e7),
    st.integers(1, 2**70),
    st.integers(2, 100_000),
    st.integers(2, 200_000),
    st.sampled_from([Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE]),
)
def test_shares_add_up_exactly_and_keep_the_limits(sizes, rows, rho, max_cells, all_cells, neighbours):
    domain, rho = domain_of(sizes), Fraction(rho, 2**66)
    found = chosen(domain, rows, rho, neighbours, max_cells, all_cells)
    assert sum(share for _, share in found.shares) == rho
    assert all(share > 0 for _, share in found.shares)
    cliques = [clique for clique, _ in found.shares]
    assert {c for c in cliques if len(c) == 1} == {(name,) for name in domain.names}
    assert len(set(cliques)) == len(cliques)
    larger = [domain.size(c) for c in cliques if len(c) > 1]
    assert all(size <= max_cells for size in larger)
    assert sum(larger) + domain.width <= max(all_cells, domain.width)
    measured, left = set(cliques), {clique for clique, _ in found.left_out}
    assert set(default_workload(domain).cliques) == left | (set(default_workload(domain).cliques) & measured)
    assert not left & measured


def test_noise_that_drowns_dependences_leaves_the_one_way_marginals():
    domain = domain_of([10] * 8)
    assert {len(clique) for clique, _ in chosen(domain, 100_000.0).shares} == {1, 2, 3}
    drowned = chosen(domain, 100.0)
    assert drowned.drowned
    assert {len(clique) for clique, _ in drowned.shares} == {1}
    assert "noise would drown" in drowned.left_out[0][1]


@pytest.fixture
def db():
    with dpsql.connect() as db:
        columns = ", ".join(f"(hash(i // 3, {k}) % {5 + 4 * k})::INTEGER AS c{k}" for k in range(6))
        db.sql(f"CREATE TABLE t AS SELECT {columns} FROM range(6000) r(i)")
        db.protect("t", epsilon=50.0, delta=1e-6)
        for k in range(6):
            db.domain("t", f"c{k}", lower=0, upper=4 + 4 * k, nulls=False)
        yield db


@pytest.mark.medium
def test_the_plan_is_what_is_measured(db):
    """dp_plan's noise and marginals, for the true number of rows, are those of the release."""
    plan = db.plan("t", 5.0, assume_rows=6000)
    release = db.synthesize("t", 5.0, relaxed_rows=16, steps=20)
    asked = release.measurements.assign(columns=lambda f: f["columns"].map(tuple))
    measured = asked.groupby("columns").stddev.first()
    planned = plan[plan.stddev.notna()].assign(columns=lambda f: f.marginal.map(tuple)).set_index("columns").stddev
    assert set(planned.index) == set(measured.index)
    np.testing.assert_allclose(planned.sort_index(), measured.sort_index(), rtol=0.02)
    assert (plan.memory_mb > 100).all()
    assert (plan.seconds > 4).all()


def test_the_plan_says_what_is_left_out_and_why(db):
    plan = db.plan("t", 1.0, assume_rows=6000, max_cells=300)
    left = plan[plan.stddev.isna()]
    assert len(left) > 0
    assert left.note.str.contains("max_cells is 300: through its subsets").any()
    few = db.plan("t", 0.002, assume_rows=6000)
    assert few[few.stddev.isna()].note.str.contains("noise would drown it").all()
    assert few[few.stddev.notna()].marginal.map(len).max() == 1


@pytest.mark.medium
def test_a_drowned_release_is_the_product_of_its_one_way_marginals(db):
    release = db.synthesize("t", 0.01, without=["smoothing"])
    assert "product" in release.entry.report["fit"]
    assert set(release.measurements["columns"].map(len)) == {0, 1}


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 * 10**9), ("500 mb", 5 * 10**8), ("1.5GiB", 3 << 29), ("7", 7)])
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.medium
@pytest.mark.parametrize("text", ["", "4 apples", "-1GB", "GB", "1e9"])
def test_bad_sizes_are_refused_before_any_charge(db, text):
    with pytest.raises(InvalidArgument, match="memory is"):
        db.synthesize("t", 1.0, memory=text)
    assert db.budget().epsilon_spent[0] == 0


def test_what_cannot_fit_in_memory_is_refused_with_what_would(db):
    for call in ("dp_plan", "dp_synthesize"):
        with pytest.raises(duckdb.Error, match=r"needs about .* of memory.*relaxed_rows := 512 fits"):
            db.sql(f"FROM {call}('t', epsilon := 1.0, relaxed_rows := 90000, memory := '1GB')").fetchall()
    assert db.budget().epsilon_spent[0] == 0
    with pytest.raises(DomainTooLarge, match="memory := '"):
        db.synthesize("t", 1.0, memory="100MB")


@pytest.mark.medium
def test_little_memory_measures_fewer_cells(db):
    """It changes what is measured, so it is part of the request; the machine's own memory is not."""
    domain = domain_of([60] * 30)
    workload = Workload(tuple((a, b) for i, a in enumerate(domain.names) for b in domain.names[:i]))
    share = (Neighbours.ADD_REMOVE, Fraction(100), 1e7)
    much = Projection(memory="4GB").allocation(domain, workload, *share)
    little = Projection(memory="490MB").allocation(domain, workload, *share)
    assert sum(domain.size(c) for c, _ in little.shares) < 0.5 * sum(domain.size(c) for c, _ in much.shares)
    assert much == Projection().allocation(domain, workload, *share)
