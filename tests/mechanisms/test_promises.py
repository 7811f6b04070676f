"""What is proven of errors, beside what happens: bounds hold, and those of less noise than there is do not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import nnls

from dpsql.mechanisms.promises import Bound, dualquery_bound, mwem_bound, rap_bound

SIZES = (3, 2, 3, 2)
CLIQUES = list(itertools.combinations(range(4), 2))
RECORDS = np.array(list(itertools.product(*map(range, SIZES))))


def answers() -> np.ndarray:
    """The cells of all pairs of columns, a row each, of every record."""
    cells = []
    for i, j in CLIQUES:
        for a, b in itertools.product(range(SIZES[i]), range(SIZES[j])):
            cells.append((RECORDS[:, i] == a) & (RECORDS[:, j] == b))
    return np.array(cells, float)


def projected_error(noise: float, draw: np.random.Generator) -> float:
    """The root mean square error of the point of the hull that is nearest to noisy answers."""
    queries = answers()
    real = queries @ draw.dirichlet(np.full(len(RECORDS), 0.1))
    measured = real + draw.normal(0, noise, len(real))
    heavy = 1e4  # makes the weights sum to 1
    weights, _ = nnls(np.vstack([queries, np.full(len(RECORDS), heavy)]), np.append(measured, heavy))
    return float(np.sqrt(np.mean((queries @ weights - real) ** 2)))


@pytest.mark.parametrize("noise", [0.0005, 0.01])
def test_rap(noise):
    draw = np.random.default_rng(3)
    bound = rap_bound(math.log(len(RECORDS)), len(answers()), len(CLIQUES), noise, 10**12)
    errors = [projected_error(noise, draw) for _ in range(40)]
    assert max(errors) <= bound.error
    least = rap_bound(math.log(len(RECORDS)), len(answers()), len(CLIQUES), noise / 10**4, 10**12)
    assert min(errors) > least.error, "a bound that knows of less noise than there is does not hold"


def test_few_relaxed_rows_are_part_of_it():
    many, few = (rap_bound(5.0, 100, 10, 0.0, rows).error for rows in (1000, 10))
    assert few == pytest.approx(10 * many) == pytest.approx(math.sqrt(10 / 10 / 100))


def test_mwem_needs_rounds_and_rows():
    found = [mwem_bound(20.0, 10**6, rounds, 1.0, 10**7) for rounds in (30, 1000, 100_000)]
    assert found[1].error < min(found[0].error, found[2].error), "the best number of rounds is in between"
    assert found[0].probability > found[2].probability
    assert mwem_bound(20.0, 10_000, 30, 1.0, 1000).error > 1 > mwem_bound(20.0, 10_000, 4000, 1.0, 10**9).error


def test_dualquery_promises_less_with_fewer_draws_or_rounds():
    whole = dualquery_bound(30.0, 2000, 3000, 50_000, 0.05)
    assert whole.error < dualquery_bound(30.0, 2000, 3000, 5_000, 0.05).error
    assert whole.error < dualquery_bound(30.0, 2000, 300, 50_000, 0.05).error
    assert not dualquery_bound(30.0, 2000, 30, 50, 0.05).is_useful


def test_nothing_is_promised_with_no_probability():
    assert not Bound(0.1, -0.5).is_useful
    assert "promises nothing here" in Bound(0.1, -0.5).words("all cells", "Claim 3")


@pytest.mark.parametrize("name", ["lp", "barak"])
def test_nothing_is_promised_of_a_sum_of_errors(people, name):
    """The least largest error is what the theorem is about; with the table's own rows its density is one that has it."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    said = {objective: promises(people, name, objective=objective) for objective in ("max", "l1")}
    (largest,) = (words for words in said["max"] if "Theorem 2.3" in words or "before rows are drawn" in words)
    assert "as many" in largest
    assert any("nothing is proven of objective := 'l1'" in words for words in said["l1"])
    assert not any("within" in words for words in said["l1"])


def promises(people, mechanism: str, **options: object) -> list[str]:
    """What a plan says is proven."""
    plan = people.plan("people", epsilon=1.0, workload="all 2-way", mechanism=mechanism, **options)
    return [row.note for row in plan.itertuples() if "(promise)" in list(row.marginal)]


@pytest.mark.medium
def test_plans_tell_them(people):
    (mwem,) = promises(people, "mwem", delta=0.0, faithful=True)
    assert mwem.startswith("Claim 3: all cells (if max_cells leaves out none, for a public number of rows) within 0.9")
    assert promises(people, "mwem") == [], "the claim is about the lecture's own algorithm"
    (dualquery,) = promises(people, "dualquery", faithful=True)
    assert dualquery.startswith("Gaboardi et al. 2014")
    (rap,) = promises(people, "rap", rounds=1, start="uniform", neighbours="add_remove")
    assert rap.startswith("Theorem 4.1: the root mean square error of all cells (if the projection is exact) within 0.")
    assert promises(people, "rap", neighbours="add_remove") == [], "it is about one round"
