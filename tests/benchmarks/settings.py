"""The rules of the fit beside their alternatives: L1 and largest error of the fitted model, several tables and ε.

What `dpsql/strategy/allocation.py` and the Λ of `dpsql/fitting/relaxed/fit_marginals.py` rest on. Same noise for all alternatives of
a line, so differences are the rules'.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import accuracy
import numpy as np

from dpsql.fitting.relaxed import fit_marginals as fitting
from dpsql.language.workloads import parse_workload
from dpsql.mechanisms.projection.projection import REFINEMENTS, Projection
from dpsql.privacy.accounting import make_budget
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet
from dpsql.strategy import allocation

TABLES = {
    "adult": ("adult", None),
    "adult, 3,000 rows": ("adult", 3000),
    "loans": ("loans", None),
    "loans, 8,000 rows": ("loans", 8000),
}
RULES = {
    "the rule": {},
    "pull / 2": {"pull": 0.5},
    "pull x 2": {"pull": 2.0},
    "f_1 x 0.7": {"first": 0.7},
    "f_1 x 1.4": {"first": 1.4},
    "1-way only": {"drowned": 0.0},
    "never 1-way only": {"drowned": 1e9},
    **{f"without {name}": {"without": (name,)} for name in REFINEMENTS},
    "without all of these": {"without": REFINEMENTS},
}


class Rows:
    """Exact counts of codes, in numpy."""

    def __init__(self, domain, codes: np.ndarray) -> None:
        self.domain, self.codes = domain, codes

    def marginal(self, clique):
        """See `Counter.marginal`."""
        from dpsql.core.marginal import Marginal

        if not clique:
            return Marginal((), 1, np.zeros(1, np.int64), np.array([len(self.codes)]))
        cells, fractions = accuracy.support(self.domain, self.codes, clique)
        counts = np.rint(fractions * len(self.codes)).astype(np.int64)
        return Marginal(clique, self.domain.size(clique), cells, counts)


class Forgetful:
    """A journal that keeps nothing."""

    def recorded(self):
        """Nothing."""
        return []

    def append(self, answers):
        """Forget."""


@contextmanager
def changed(pull: float = 1.0, first: float = 1.0, drowned: float | None = None) -> Iterator[None]:
    """The rules with a factor here or there; with another `drowned` for tables without ordered columns, and with some."""
    kept = (fitting.pull_rule, allocation._first_share, allocation._DROWNED, allocation._DROWNED_SMOOTH)
    fitting.pull_rule = lambda *a: kept[0](*a) * pull
    allocation._first_share = lambda error: min(
        Fraction(19, 20), kept[1](error) * Fraction(first).limit_denominator(10)
    )
    allocation._DROWNED, allocation._DROWNED_SMOOTH = kept[2:] if drowned is None else (drowned, drowned)
    try:
        yield
    finally:
        fitting.pull_rule, allocation._first_share, allocation._DROWNED, allocation._DROWNED_SMOOTH = kept


def errors(
    domain, codes: np.ndarray, cliques, workload, epsilon: float, seed: int, without=None
) -> tuple[float, float]:
    """Max and L1 of one fitted model."""
    budget = make_budget(epsilon, 1 / len(codes) ** 2, "gdp")
    counter = Rows(domain, codes)
    curator = Curator(
        counter,
        domain,
        allocation.Neighbours.ADD_REMOVE,
        budget.rho,
        Forgetful(),
        Quiet(),
        random.Random(seed).randbytes,
        budget.gdp,
    )
    outcome = Projection(without=without).run(curator, workload, budget.rho, seed, Quiet())
    largest, l1, _ = accuracy.model_errors(domain, codes, outcome.model, cliques)
    return largest, l1


def main() -> None:
    """Print one line for each table and ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    lines = []
    for label, (table, rows) in TABLES.items():
        db, domain, codes = accuracy.load(table, "add_remove", 1e-9)
        db.close()
        codes = np.random.default_rng(5).permutation(codes)[:rows]
        name = accuracy.ADULT if table == "adult" else accuracy.LOANS
        workload = parse_workload(name, ("t",), domain)
        for epsilon in options.epsilon:
            values = []
            for rule in RULES.values():
                without = rule.get("without")
                with changed(**{name: value for name, value in rule.items() if name != "without"}):
                    found = [
                        errors(domain, codes, workload.cliques, workload, epsilon, seed, without)
                        for seed in range(options.runs)
                    ]
                values.append("{:.4f} / {:.3f}".format(*np.median(np.array(found), axis=0)))
            lines.append([label, f"{epsilon:g}", *values])
            print("  ".join(lines[-1]), flush=True)
    if options.write:
        import results

        text = results.table(["table", "ε", *RULES], lines)
        results.write("Rules of the fit, beside alternatives (max / L1 of the fitted model)", text)


if __name__ == "__main__":
    main()
