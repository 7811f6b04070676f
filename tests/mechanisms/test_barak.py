"""Fourier coefficients of `barak`, against the paper's formulas, all neighbours of small tables, and broken twins."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.mechanisms.asks import Total
from dpsql.mechanisms.defaults import Meaning, make_for
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.reduced_space.barak import Barak
from dpsql.mechanisms.reduced_space.fourier import Coefficients, coefficients, count_of
from dpsql.mechanisms.reduced_space.lp import all_points
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import find_noise
from dpsql.privacy.linear_families import family_scales
from dpsql.privacy.pricing import price
from dpsql.release.plan import plan_table
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows


def domain_of(*sizes: int) -> Domain:
    names = (f"c{place}" for place in range(len(sizes)))
    values = (tuple(map(str, range(size))) for size in sizes)
    return Domain(tuple(Attribute(name, "INTEGER", "values", of) for name, of in zip(names, values, strict=True)))


def pairs(domain: Domain) -> Workload:
    return Workload(tuple(itertools.combinations(domain.names, 2)))


DOMAIN = domain_of(2, 3, 2, 4)
FOURIER = Barak(queries="fourier", rounding="nearest")


def run(mechanism, epsilon: float, rows, neighbours=Neighbours.REPLACE_ONE, domain=DOMAIN, workload=None):
    """A release, and its journal."""
    workload, journal = workload or pairs(domain), Journal()
    budget = price(mechanism.questions(domain, workload, neighbours), epsilon, 1e-6)
    pure, source = budget.exact_epsilon if budget.pure else None, Rows(domain, rows)
    curator = Curator(source, domain, neighbours, budget.rho, journal, Quiet(), seeded_entropy("fourier"), pure=pure)
    return mechanism.run(curator, workload, budget.rho, 0, Quiet()), journal


def table(count: int, domain=DOMAIN) -> np.ndarray:
    generator = np.random.default_rng(5)
    return np.stack([generator.binomial(size - 1, 0.3, count) for size in domain.shape(domain.names)], axis=1)


def basis(domain: Domain) -> np.ndarray:
    """2^{k/2}·f^β of all β, by the bits of a whole record written one after the other; shape (2^k, records)."""
    records, sizes = all_points(domain), domain.shape(domain.names)
    widths = [math.ceil(math.log2(size)) for size in sizes]
    shifts = np.concatenate([[0], np.cumsum(widths)[:-1]])
    words = (records << shifts).sum(axis=1)
    sets = np.arange(2 ** sum(widths))
    return np.array([[(-1) ** int(beta & word).bit_count() for word in words] for beta in sets])


def written(domain: Domain, workload: Workload) -> np.ndarray:
    """The coefficients that are measured, on all records; shape (|B| − 1, records)."""
    shape, records = domain.shape(domain.names), all_points(domain)
    rows = []
    for family in coefficients(domain, workload):
        places = [domain.names.index(name) for name in family.clique]
        rows.append(family.weights.reshape([shape[place] for place in places])[tuple(records[:, places].T)])
    return np.array(rows)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4), (5, 3), (2, 1, 3)])
def test_coefficients_are_the_downward_closure_of_the_basis(sizes):
    """Each is one of the basis, none twice; every cell of every marginal is a combination of them and the total."""
    domain = domain_of(*sizes)
    workload = pairs(domain)
    found = written(domain, workload)
    every = {tuple(row) for row in basis(domain)}
    assert {tuple(row) for row in found} <= every
    assert len({tuple(row) for row in found}) == len(found) == count_of(domain, workload) - 1
    span = np.vstack([np.ones(found.shape[1]), found]).T
    for clique in workload.cliques:
        places = [domain.names.index(name) for name in clique]
        cells = np.ravel_multi_index(tuple(all_points(domain)[:, places].T), domain.shape(clique))
        member = (cells[:, None] == np.arange(domain.size(clique))[None]).astype(float)
        assert np.abs(span @ np.linalg.lstsq(span, member, rcond=None)[0] - member).max() < 1e-9


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_no_neighbour_moves_more_than_the_noise_covers(neighbours, noise, outside):
    """All single rows, all pairs of rows, all c rows of a unit: the loss of all coefficients is within ε, or ρ."""
    domain, epsilon = domain_of(2, 2, 2), 1.5
    domain = Domain(tuple(replace(attribute, outside=outside) for attribute in domain))
    workload, mechanism = pairs(domain), replace(FOURIER, noise=noise)
    budget = price(mechanism.questions(domain, workload, neighbours), epsilon, 1e-6)
    facts = Facts(domain, workload, neighbours, budget.rho, 100.0)
    course, kind = mechanism.course(facts), find_noise(noise)
    course.check("barak")
    ((asked,), (total,)) = course.of(Coefficients), course.of(Total)
    of_row = written(domain, workload).T
    if neighbours.total_is_public:
        moves = [one - other for one in of_row for other in of_row]  # rows of no cell are replaced, too
        moves += [] if outside else [*of_row, *-of_row]
        scale_of_total = math.inf
    else:
        rows = itertools.combinations_with_replacement(of_row, neighbours.cell)
        moves = [np.sum(several, axis=0) for several in rows]
        scale_of_total = float(kind.scale(course.cost(total.share), neighbours.cell**kind.norm))
    scales = family_scales(domain, asked.families, course.cost(asked.share), neighbours, kind)
    assert len(set(scales)) == 1
    scale, count = float(scales[0]), len(scales) + 1
    if noise == "laplace":
        losses = [np.abs(move).sum() / scale + neighbours.cell / scale_of_total for move in moves]
        assert max(losses) <= epsilon * (1 + 1e-9)
        assert scale <= 2 * count * neighbours.cell / epsilon * (1 + 1e-9)  # the paper's, of a row that is replaced
    else:
        losses = [np.square(move).sum() / (2 * scale) + neighbours.cell**2 / (2 * scale_of_total) for move in moves]
        assert max(losses) <= float(budget.rho)
    if not neighbours.total_is_public and noise == "laplace":
        assert max(losses) > 0.999 * epsilon
        assert scale == pytest.approx(count * neighbours.cell / epsilon)
        assert scale == pytest.approx(scale_of_total)


@dataclass(frozen=True)
class TotalForNothing(Barak):
    """A broken twin: the coefficients take all of ε, and the number of rows its part beside that."""

    def course(self, facts):
        right = super().course(facts)
        asks = [ask if isinstance(ask, Total) else replace(ask, share=Fraction(1)) for ask in right.asks]
        return replace(right, asks=tuple(asks))


def test_a_twin_that_asks_for_more_is_refused():
    with pytest.raises(InvalidArgument, match="add up to"):
        TotalForNothing(queries="fourier").questions(DOMAIN, pairs(DOMAIN), Neighbours.ADD_REMOVE)


def test_the_program_is_the_paper_s():
    """The least largest error of the coefficients, over densities on all records, by a dense program of its own."""
    outcome, journal = run(FOURIER, 2.0, table(300))
    noisy = np.array([float(a.measurement.values[0]) for a in journal.answers if a.measurement.clique]) / 300
    rows = written(DOMAIN, pairs(DOMAIN))
    sides = np.vstack([np.column_stack([rows, -np.ones(len(rows))]), np.column_stack([-rows, -np.ones(len(rows))])])
    cost = np.append(np.zeros(rows.shape[1]), 1.0)
    sums = np.append(np.ones(rows.shape[1]), 0.0)[None]
    best = linprog(cost, sides, np.concatenate([noisy, -noisy]), sums, [1.0])
    assert outcome.report["error"] == pytest.approx(best.fun, abs=2e-6)
    assert outcome.report["coefficients"] == len(rows) + 1 == count_of(DOMAIN, pairs(DOMAIN))


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_much_budget_gives_the_table(neighbours):
    """A marginal of all columns: the coefficients are all of the basis, and the whole weights are the table."""
    rows, workload = table(40), Workload((DOMAIN.names,))
    outcome, _ = run(FOURIER, 1e3, rows, neighbours, workload=workload)
    counts = outcome.model.total * outcome.model.project(DOMAIN.names)
    truth = np.bincount(np.ravel_multi_index(tuple(rows.T), DOMAIN.shape(DOMAIN.names)), minlength=len(counts))
    np.testing.assert_allclose(counts, truth, atol=1e-4)


def test_an_even_share_is_rounded_as_the_paper_rounds():
    """Whole numbers of rows that need not add up to the number of rows; weights by themselves add up to it."""
    found = {}
    for rounding in ("draw", "nearest"):
        outcome, _ = run(replace(FOURIER, rounding=rounding), 0.5, table(60))
        counts = outcome.model.total * outcome.model.project(DOMAIN.names)
        found[rounding] = counts, outcome.report
    counts, report = found["nearest"]
    np.testing.assert_allclose(counts, np.rint(found["draw"][0]), atol=1e-3)
    assert report["rounded"] == round(float(counts.sum()))
    assert "rounded" not in found["draw"][1]
    assert found["draw"][0].sum() == pytest.approx(60, abs=1e-3)


HOSTILE = """CREATE TABLE "o'dd; t" AS SELECT i % 2 = 0 AS "a, ""b", 'ü' || i % 3 AS "select", i % 5 < 2 AS "β 1" FROM range({rows}) r(i)"""


@pytest.mark.medium
@pytest.mark.parametrize("rows", [1, 900])
def test_columns_of_any_name_and_a_table_of_one_row(rows):
    """Through the public door: plan, table, measurements with names of coefficients, and a count that is whole."""
    with dpsql.connect() as db:
        db.sql(HOSTILE.format(rows=rows))
        db.protect("o'dd; t", epsilon=1000.0, delta=1e-6)
        db.domain("o'dd; t", "select", values=["ü0", "ü1", "ü2"])
        how = "('o''dd; t', epsilon := 900.0, mechanism := 'barak', faithful := true, workload := 'all 2-way')"
        plan = db.sql(f"FROM dp_plan{how}").df()
        assert sum("Fourier coefficients" in str(one) for one in plan["marginal"]) == 6
        made = db.sql(f"FROM dp_synthesize{how}").df()
        report = json.loads(db.sql("SELECT report FROM dp_releases()").fetchall()[-1][0])
        assert len(made) == report["rounded"] == pytest.approx(rows, abs=2)
        assert list(made.columns) == ['a, "b', "select", "β 1"]
        number = db.sql("SELECT max(release) FROM dp_releases()").fetchone()[0]
        listed = db.sql(f"SELECT query, answer FROM dp_measurements({number}) WHERE query IS NOT NULL").fetchall()
        assert len(listed) == report["coefficients"] - 1
        assert all(query.startswith("Fourier coefficient of ") for query, _ in listed)
        again = db.sql(f"FROM dp_synthesize{how}").df()
        assert again.equals(made)
        if rows > 1:
            truth = db.sql('SELECT "select", count(*) FROM "o\'dd; t" GROUP BY ALL ORDER BY ALL').fetchall()
            counted = made.groupby("select").size()
            assert all(abs(counted[value] - count) <= 12 for value, count in truth)


@pytest.mark.parametrize(
    ("domain", "workload", "error", "words"),
    [
        (domain_of(*[2] * 12), None, None, ""),
        (domain_of(*[2] * 12), 3, DomainTooLarge, "Fourier coefficients of 4096 records"),
        (domain_of(*[3] * 9), None, DomainTooLarge, "barak weights every one of at most 5000"),
        (domain_of(1, 1), None, InvalidArgument, "one value only"),
    ],
)
def test_what_is_too_much_is_refused_before_the_charge(domain, workload, error, words):
    asked = pairs(domain) if workload is None else Workload(tuple(itertools.combinations(domain.names, workload)))
    if error is None:
        FOURIER.check(domain, asked, Neighbours.ADD_REMOVE)
        return
    with pytest.raises(error, match=words):
        FOURIER.check(domain, asked, Neighbours.ADD_REMOVE)


def test_too_many_coefficients_are_refused_before_they_are_listed():
    """A plan of larger columns would have no end."""
    domain = domain_of(40, 40)
    with pytest.raises(DomainTooLarge, match="Fourier coefficients of 1600 records"):
        FOURIER.course(Facts(domain, pairs(domain), Neighbours.ADD_REMOVE))


@pytest.mark.medium
def test_what_cells_were_measured_for_is_told_again_where_coefficients_are_too_many(monkeypatch):
    """A new request of such a table is refused uncharged; a release with the settings of before is free."""
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 7 AS a, i % 5 AS b FROM range(200) r(i)")
        db.protect("t", epsilon=20.0, delta=1e-6)
        for name in ("a", "b"):
            db.domain("t", name, lower=0, upper=23, bins=24)
        how = {"epsilon": 5.0, "mechanism": "barak", "faithful": True, "workload": "all 2-way"}
        for call in (db.plan, db.synthesize):
            with pytest.raises(DomainTooLarge, match="Fourier coefficients of"):
                call("t", **how)
        assert db.budget().epsilon_spent[0] == 0
        with monkeypatch.context() as before:
            settings = {"meaning": Meaning.BEFORE}
            before.setattr("dpsql.release.synthesis.plan_table", lambda *given, **_: plan_table(*given, **settings))
            then = db.synthesize("t", **how)
        assert db.synthesize("t", **how).entry.key == then.entry.key
        assert db.budget().epsilon_spent[0] == pytest.approx(5.0)


@pytest.mark.parametrize("option", [{"queries": "fourrier"}, {"rounding": "up"}])
def test_words_that_mean_nothing_are_refused(option):
    with pytest.raises(InvalidArgument, match=next(iter(option))):
        Barak(**option)


def test_the_paper_s_settings_are_taken_by_faithful():
    """Laplace noise on coefficients, and whole weights, of what this release measures only."""
    mechanism = make_for("barak", {"faithful": True}, pure=False)
    assert (mechanism.queries, mechanism.rounding, mechanism.noise) == ("fourier", "nearest", "laplace")
    assert not mechanism.uses_earlier
    assert Barak().uses_earlier
    assert make_for("barak", {}, pure=False) == Barak(noise="gaussian")
