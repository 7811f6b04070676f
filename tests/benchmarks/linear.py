"""64 random linear queries on Adult, coded, read back from synthetic tables with the same SQL.

    python tests/benchmarks/linear.py [--epsilon 0.1 1] [--runs 3] [--write]

A query is sum(CASE WHEN a >= i AND b < j THEN u WHEN c >= k THEN v ELSE w END) over three columns of at most 42 values,
drawn by a seed, with weights from −1 to 1. Errors are fractions of the rows times the query's largest weight; δ = 1e-9, add_remove. The same
mechanisms with the 64 marginals of the queries' columns as their workload stand beside.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import results
from accuracy import load

QUERIES, MOST_VALUES = 64, 42
MECHANISMS = ("mwem", "lp", "direct", "projection")


def statements(names: list[str], sizes: dict[str, int], count: int = QUERIES) -> list[tuple[str, str, float]]:
    """For each query its SQL, the SQL of its columns' marginal, and its largest weight."""
    generator, found = np.random.default_rng(0), []
    for _ in range(count):
        a, b, c = generator.choice(names, 3, replace=False)
        i, j, k = (int(generator.integers(1, sizes[name])) for name in (a, b, c))
        u, v, w = np.round(generator.uniform(-1, 1, 3), 2)
        case = f'CASE WHEN "{a}" >= {i} AND "{b}" < {j} THEN {u} WHEN "{c}" >= {k} THEN {v} ELSE {w} END'
        marginal = f'SELECT count(*) FROM t GROUP BY "{a}", "{b}", "{c}"'
        found.append((f"SELECT sum({case}) FROM t", marginal, float(np.abs([u, v, w]).max())))
    return found


def one(epsilon: float, mechanism: str, *, linear: bool) -> tuple[float, float, float]:
    """The mean and the largest error of one release, and its CPU seconds."""
    db, domain, _ = load("adult", "add_remove", 1e-9)
    sizes = {attribute.name: attribute.regular for attribute in domain if attribute.regular <= MOST_VALUES}
    asked = statements(list(sizes), sizes)
    workload = "; ".join(query if linear else marginal for query, marginal, _ in asked)
    begin = time.process_time()
    db.sql("CREATE TABLE s AS FROM t LIMIT 0")
    db.connection.register("made", db.synthesize("t", epsilon, mechanism=mechanism, workload=workload).df())
    db.sql("INSERT INTO s FROM made")
    seconds = time.process_time() - begin
    rows = db.sql("SELECT count(*) FROM t").fetchone()[0]
    errors = []
    for query, _, largest in asked:
        true, made = (float(db.sql(query.replace("FROM t", f"FROM {t}")).fetchone()[0] or 0) for t in ("t", "s"))
        errors.append(abs(true - made) / (rows * largest))
    return float(np.mean(errors)), float(np.max(errors)), seconds


def main() -> None:
    """Print a line for each ε, mechanism and workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--mechanism", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--workload", nargs="+", default=["queries", "marginals"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options, rows = parser.parse_args(), []
    for epsilon in options.epsilon:
        for mechanism in options.mechanism:
            for workload in options.workload:
                runs = [one(epsilon, mechanism, linear=workload == "queries") for _ in range(options.runs)]
                mean, largest, seconds = np.median(np.array(runs), axis=0)
                rows.append([f"{epsilon:g}", mechanism, workload, f"{mean:.5f}", f"{largest:.5f}", f"{seconds:.0f}"])
                print(
                    "  ".join(rows[-1]),
                    f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB",
                    flush=True,
                )
    if options.write:
        header = ["ε", "mechanism", "workload", "mean error", "largest error", "CPU seconds"]
        results.write("Linear queries", results.table(header, rows))


if __name__ == "__main__":
    main()
