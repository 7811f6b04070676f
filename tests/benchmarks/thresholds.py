"""Families of 1-out-of-3 thresholds on Adult, coded: the largest error over all values, as a fraction of the rows.

    python tests/benchmarks/thresholds.py [--epsilon 0.1 0.25 0.5 1] [--runs 3] [--write]

The families are over the columns of '64 random 3-way seed 0'; δ = 1/n², replace_one, as in Figure 10 of the RAP paper.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import results
from accuracy import ADULT, load

from dpsql.core.threshold import threshold_counts
from dpsql.language.workloads import parse_workload

LEAST = 1
MECHANISMS = {
    "projection": {"mechanism": "projection"},
    "mwem": {"mechanism": "mwem"},
    "mwem, thresholds one by one": {"mechanism": "mwem", "queries": "cells"},
    "dualquery": {"mechanism": "dualquery"},
    "fem": {"mechanism": "fem"},
    "lp": {"mechanism": "lp"},
    "rap, softmax": {"mechanism": "rap", "relaxation": "softmax"},
    "rap": {"mechanism": "rap"},
}


def answers(domain, rows: np.ndarray, clique) -> np.ndarray:
    """The answers of a family, as fractions of the rows."""
    columns = [domain.names.index(name) for name in clique]
    shape = domain.shape(clique)
    packed = np.ravel_multi_index(tuple(rows[:, c] for c in columns), shape)
    counts = np.bincount(packed, minlength=domain.size(clique)).astype(float)
    return threshold_counts(counts, shape, LEAST) / len(rows)


def one(epsilon: float, name: str) -> tuple[float, float]:
    """The largest error of one release, and its seconds."""
    db, domain, codes = load("adult", "replace_one", 1 / 48842**2)
    cliques = parse_workload(ADULT, ("t",), domain).cliques
    listed = [", ".join(f'"{name}"' for name in clique) for clique in cliques]
    workload = ";".join(f"SELECT count(*) FROM t GROUP BY at_least({LEAST}, {names})" for names in listed)
    begin = time.monotonic()
    rows = db.synthesize("t", epsilon, workload=workload, **MECHANISMS[name]).df()
    seconds = time.monotonic() - begin
    made = rows[list(domain.names)].to_numpy()
    return max(float(np.abs(answers(domain, codes, c) - answers(domain, made, c)).max()) for c in cliques), seconds


def main() -> None:
    """Print a line for each ε and mechanism."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--mechanism", nargs="+", default=list(MECHANISMS), choices=list(MECHANISMS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    rows = []
    for epsilon in options.epsilon:
        for name in options.mechanism:
            runs = [one(epsilon, name) for _ in range(options.runs)]
            largest, seconds = np.median(np.array(runs), axis=0)
            rows.append([f"{epsilon:g}", name, f"{largest:.4f}", f"{seconds:.0f}"])
            print("  ".join(rows[-1]), flush=True)
    if options.write:
        results.write("Thresholds", results.table(["ε", "mechanism", "largest error", "seconds"], rows))


if __name__ == "__main__":
    main()
