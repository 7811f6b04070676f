"""Accuracy of the synthetic tables of Adult and Loans: the bounds that were promised.

The mean L1 and the RMSE of a run are means of thousands of cells and spread by 1 to 2 %; the largest error is that of one
cell and spreads by a fifth. The median of three largest errors is above 0.0095 at ε = 1 on Adult, where .0080 ± .0010 was
measured, in some of a hundred tests. So L1 is asked of the median of three runs, and the largest error of one of up to
seven, which a run that keeps the bound in six of seven cases fails once in a million tests.
`tests/benchmarks/RESULTS.md` has the medians.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from dpsql.language.workloads import parse_workload

pytestmark = [
    pytest.mark.slow,
    pytest.mark.audit,
    pytest.mark.timeout(1800),
    pytest.mark.chance(1e-6, "seven largest errors are all above a bound that one in seven passes"),
]


def load_benchmark():
    path = Path(__file__).parents[1] / "benchmarks" / "accuracy.py"
    spec = importlib.util.spec_from_file_location("accuracy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


accuracy = load_benchmark()


def errors(name: str, mechanism: str) -> Iterator[np.ndarray]:
    """The max, L1 and RMSE of one run after the other."""
    table, workload, epsilon = name.split("/")
    rows = {"adult": 48842, "loans": 39786}[table]
    db, domain, codes = accuracy.load(table, accuracy.NEIGHBOURS.get(mechanism, "add_remove"), 1 / rows**2)
    cliques = parse_workload(workload, ("t",), domain).cliques
    with db:
        for run in itertools.count():
            how = {"workload": workload, "mechanism": mechanism, "release": f"{run}", "reuse": False}
            _, synthetic = accuracy.release(db, float(epsilon), how)
            yield np.array(accuracy.table_errors(domain, codes, synthetic, cliques))


def one_keeps(bound: float, runs: Iterator[np.ndarray], done: Sequence[np.ndarray], most: int = 7) -> bool:
    """Whether the largest error of a run is within the bound, of those that are done and others, up to so many."""
    return any(largest <= bound for largest, *_ in itertools.chain(done, itertools.islice(runs, most - len(done))))


@pytest.mark.parametrize("name", [name for name, bound in accuracy.LINES.items() if bound[0] == bound[0]])
def test_projection(data, name):
    runs = errors(name, "projection")
    done = list(itertools.islice(runs, 3))
    print(name, np.array(done))
    assert np.median(done, axis=0)[1] <= accuracy.LINES[name][1]
    assert one_keeps(accuracy.LINES[name][0], runs, done)


def test_rap_is_as_good_as_the_papers(data):
    """T = 10, K = 10, n′ = 1000, the paper's conversion and neighbours: at most 20 % above 0.039."""
    runs = errors(f"adult/{accuracy.ADULT}/1", "rap")
    assert one_keeps(1.2 * 0.039, runs, [next(runs)])
