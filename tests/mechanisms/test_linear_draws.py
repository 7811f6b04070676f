"""Linear queries in games and in rap: how they are drawn, what a record gains by them, and that answers come near.

χ² tests have a false-alarm rate of 1e-6 each, and a fixed seed.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_family import LinearFamily
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.fitting.relaxed.fit_cells import fit_cells, terms_of
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.rows.best_records import Goal
from dpsql.mechanisms.cell_queries import RecordCounts, check_cells, conjunctions_of, unsatisfied
from dpsql.mechanisms.rap.rap import RAP
from dpsql.privacy.curator import Curator
from dpsql.privacy.journal import SignedQuery
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows

DOMAIN = Domain(tuple(Attribute(n, "INTEGER", "values", ("0", "1", "2")) for n in "ab"))
SIGNED = LinearFamily(("a", "b"), np.array([4, 0, -2, 1, 1, 1, 0, 3, 4]), np.zeros(9, int), 1, Fraction(1, 4))
GROUPS = LinearFamily(("b",), np.array([5, 1, 2]), np.array([0, 1, 1]), 2, Fraction(1))
FAMILIES = (("a",), SIGNED, GROUPS)
TABLE = np.random.default_rng(0).integers(0, 3, (12, 2))


def curator(rows, neighbours, rho=Fraction(1)) -> Curator:
    source, entropy = Rows(DOMAIN, rows), seeded_entropy("drawn")
    return Curator(source, DOMAIN, neighbours, rho, Journal(), Quiet(), entropy, for_mechanism=True)


def nothing(family) -> np.ndarray:
    return np.zeros(3 if family == ("a",) else family.count)


def truth(rows) -> dict:
    """Each query's answer, of linear ones divided by the span of weights: 4 − (−2), and 5 − 0."""
    cells = np.bincount(3 * rows[:, 0] + rows[:, 1], minlength=9).astype(float)
    found = {(("a",), code): float(count) for code, count in enumerate(cells.reshape(3, 3).sum(axis=1))}
    found[SIGNED, 0] = float(SIGNED.answers(cells)[0]) / 6
    return found | {
        (GROUPS, group): float(GROUPS.answers(cells.reshape(3, 3).sum(axis=0))[group]) / 5 for group in (0, 1)
    }


@pytest.mark.medium
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_queries_are_drawn_by_the_exponential_mechanism(neighbours):
    """λ = √(2ρ)/(factor·c) of what is divided by its span; half or twice of it is noticed."""
    rho, draws, factor = Fraction(neighbours.cell**2, 40), 20_000, 3
    drawn = curator(TABLE, neighbours, rho * draws).sample_cells(FAMILIES, nothing, factor, draws, rho)
    assert all(type(one) is SignedQuery for one in drawn)
    observed = Counter((query, sign) for query, sign in drawn)
    scores = {(query, sign): sign * factor * value for query, value in truth(TABLE).items() for sign in (1, -1)}

    def fits(rate: float) -> bool:
        weights = np.array([math.exp(rate * score) for score in scores.values()])
        expected = draws * weights / weights.sum()
        found = np.array([observed[key] for key in scores])
        return stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1) > 1e-6

    right = math.sqrt(2 * rho) / (factor * neighbours.cell)
    assert fits(right)
    assert not fits(2 * right)
    assert not fits(right / 2)


def scored(rows, neighbours, factor, monkeypatch) -> tuple[np.ndarray, int]:
    """The scores that the curator draws by, and the sensitivity that it says they have."""
    seen = []
    with monkeypatch.context() as patched:
        patched.setattr(Curator, "_draws", lambda _, scores, rho, moved, count: seen.append((scores, moved)) or [0])
        curator(rows, neighbours).sample_cells(FAMILIES, nothing, factor, 1, Fraction(1))
    return seen[0]


@pytest.mark.parametrize("factor", [1, 7])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_no_neighbour_moves_a_score_by_more_than_is_said(neighbours, factor, monkeypatch):
    """Every row, every replaced row, every c rows of a unit; a row of weight 4 is replaced by one of weight −2, too."""
    cells = np.array(list(itertools.product(range(3), repeat=2)))
    units = [[cell] for cell in cells]
    if neighbours.cell > 1:
        units = [list(several) for several in itertools.combinations_with_replacement(cells, neighbours.cell)]
    tables = [np.concatenate([TABLE, np.array(unit)]) for unit in units]
    found = [scored(rows, neighbours, factor, monkeypatch) for rows in tables]
    scores, (moved,) = [one for one, _ in found], {said for _, said in found}
    if neighbours.total_is_public:
        gaps = [np.abs(one - other).max() for one, other in itertools.combinations(scores, 2)]
    else:
        alone, said = scored(TABLE, neighbours, factor, monkeypatch)
        gaps = [np.abs(one - alone).max() for one in scores]
        assert said == moved
    assert max(gaps) <= moved
    assert max(gaps) > 0.99 * moved


def test_scores_of_heavy_rows_do_not_overflow(monkeypatch):
    """Rows of the largest weights there are, with the largest factor: what is cut off keeps its sign and its bound."""
    heavy = LinearFamily(("a",), np.array([1 << 16, 0, -(1 << 16)]), np.zeros(3, int), 1, Fraction(1))
    for code, sign in ((0, 1), (2, -1)):
        rows, seen = np.full((5_000, 2), code), []  # 1.83e8 rows: 1.2e19 in all, which 64 bits take for another sign
        source = Rows(DOMAIN, rows)
        monkeypatch.setattr(source, "marginal", lambda clique, source=source: _many(source, clique))
        kernel = Curator(source, DOMAIN, RELATIONS[0], Fraction(1), Journal(), Quiet(), for_mechanism=True)
        monkeypatch.setattr(Curator, "_draws", lambda *given, seen=seen: seen.append(given[1]) or [0])
        kernel.sample_cells([heavy], lambda family: np.zeros(1), 10**6, 1, Fraction(1))
        (plus, minus) = seen[0]
        assert plus == -minus
        assert np.sign(plus) == sign
        assert abs(plus) > 2**60


def _many(source, clique):
    from dataclasses import replace

    found = type(source).marginal(source, clique)
    return replace(found, counts=found.counts * 36_600)


def test_a_record_gains_what_the_queries_answer_on_it():
    """By conjunctions of cells: the goal's value of each record is the sum of the drawn queries' answers on it."""
    queries = [(SIGNED, 0), (GROUPS, 0), (GROUPS, 1), (("a",), 2), (("a", "b"), 4)]
    weights = [1.0, -2.0, 0.5, 1.5, -1.0]
    records = np.array(list(itertools.product(range(3), repeat=2)))
    goal = Goal.of(DOMAIN, *conjunctions_of(zip(queries, weights, strict=True)))
    for record, value in zip(records, goal.values(records), strict=True):
        cell = 3 * record[0] + record[1]
        own = [SIGNED.weights[cell] / 6, 5 / 5 * (record[1] == 0), (0, 1 / 5, 2 / 5)[record[1]]]
        own += [float(record[0] == 2), float(cell == 4)]
        assert value == pytest.approx(float(np.dot(weights, own)))
    counts = RecordCounts(DOMAIN, [query[0] for query in queries])
    counts.add(records[[0, 0, 2]])
    assert counts.of(SIGNED).tolist() == [4 + 4 - 2]
    assert counts.of(GROUPS).tolist() == [10.0, 2.0]


def test_what_drawn_queries_lack_is_a_part_of_the_span():
    """0 where a record answers as much as a record can, 1 where it answers the least."""
    best, worst = np.array([[0, 0]]), np.array([[0, 2]])
    drawn = [SignedQuery((SIGNED, 0), 1)]
    assert unsatisfied(DOMAIN, best, drawn) == pytest.approx(0)
    assert unsatisfied(DOMAIN, worst, drawn) == pytest.approx(1)
    assert unsatisfied(DOMAIN, worst, [SignedQuery((SIGNED, 0), -1)]) == pytest.approx(0)


@pytest.mark.parametrize("relaxation", ["sparsemax", "softmax"])
def test_a_projection_meets_sums_of_cells(relaxation):
    """Answers of the relaxed table, put together cell by cell, are near those that it was fitted to.

    Rows of sparsemax come to rest in a single cell each, some of them in the wrong one.
    """
    blocks = Blocks.of(DOMAIN)
    start = np.random.default_rng(3).dirichlet(np.ones(3), size=(2, 60)).transpose(0, 2, 1).reshape(6, 60)
    queries = [(SIGNED, 0), (GROUPS, 1), (("a",), 1)]
    targets = np.array([0.7, 0.2, 0.3])
    capacity = sum(len(terms_of(query)) for query in queries) + 3
    rate = 0.001 if relaxation == "sparsemax" else 0.05
    table, _ = fit_cells(
        blocks, start.astype(np.float32), queries, targets, capacity, rate, 3000, 1e-7, Quiet(), relaxation
    )
    made = RelaxedTable(blocks, table, 1.0)
    found = [made.counts(SIGNED)[0] / 4, made.counts(GROUPS)[1] / 5, made.counts(("a",))[1]]
    np.testing.assert_allclose(found, targets, atol=0.1 if relaxation == "sparsemax" else 0.01)


def wide(cells: int) -> Workload:
    family = LinearFamily(("a",), np.ones(cells, int), np.zeros(cells, int), 1, Fraction(1))
    return Workload((("a",),), linear=(family,))


def test_too_many_cells_of_sums_are_refused_before_the_charge():
    domain = Domain((Attribute("a", "INTEGER", "bins", tuple(map(str, range(60_001)))),))
    with pytest.raises(DomainTooLarge, match="dualquery looks at each one by itself: at most 50000"):
        check_cells("dualquery", domain, wide(60_000))
    with pytest.raises(InvalidArgument, match="at most 20000. Use fewer columns in one sum"):
        RAP().check(domain, wide(60_000), RELATIONS[0])
    with pytest.raises(InvalidArgument, match="queries is 'marginals', and the workload has linear queries"):
        RAP(rounds=1, queries="marginals").check(DOMAIN, wide(3), RELATIONS[0])


ASKED = """SELECT sum(CASE WHEN "it's; é" >= 2 THEN -1 ELSE 0.5 END) FROM "t t";
           SELECT k, sum(2 * "it's; é") FROM "t t" GROUP BY k; SELECT count(*) FROM "t t" GROUP BY k"""
HOW = {
    "rap": "rounds := 4, relaxed_rows := 64, steps := 800",
    "dualquery": "rounds := 40",
}


@pytest.mark.medium
@pytest.mark.parametrize("rows", [1, 4000])
@pytest.mark.parametrize("name", HOW)
def test_columns_of_any_name_and_a_table_of_one_row(name, rows):
    """Plan, table, the same again for nothing, and answers that are near where there are rows to answer of."""
    with dpsql.connect() as db:
        db.sql(
            f"""CREATE TABLE "t t" AS SELECT (i * i % 4)::INT AS "it's; é", i % 3 = 0 AS k FROM range({rows}) r(i)"""
        )
        db.protect("t t", epsilon=100.0, delta=1e-6)
        db.domain("t t", "it's; é", lower=0, upper=3, bins=4)
        call = f"('t t', epsilon := 30.0, mechanism := '{name}', workload := $w, {HOW[name]})"
        plan = db.sql(f"FROM dp_plan{call}", {"w": ASKED}).df()
        assert "linear quer" in " ".join([*plan["note"].astype(str), *map(str, plan["marginal"])])
        db.sql(f"CREATE TABLE made AS FROM dp_synthesize{call}", {"w": ASKED})
        spent = db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()
        db.sql(f"FROM dp_synthesize{call}", {"w": ASKED}).fetchall()
        assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == spent
        assert json.loads(db.sql("SELECT report FROM dp_releases()").fetchall()[-1][0])["total"] >= 1
        if rows > 1:
            first = ASKED.partition(";\n")[0]
            right, made = (db.sql(first.replace('"t t"', of)).fetchall()[0][0] for of in ('"t t"', "made"))
            assert abs(float(right) - float(made)) < 0.05 * rows
