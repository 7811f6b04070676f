"""A wide table: 42,535 simulated rows × 48 columns, one-hot width 4,427, 64 random 3-way and 64 random 5-way marginals.

From a cold process, beside the product of 1-way marginals that had the whole budget. Marginals of up to 10¹² cells: only
cells that are not zero on either side are looked at.
"""

from __future__ import annotations

import time

BEGIN = time.monotonic()

import argparse  # noqa: E402
import resource  # noqa: E402

import accuracy  # noqa: E402
import numpy as np  # noqa: E402

import dpsql  # noqa: E402
from dpsql.books.ledger.store import Books  # noqa: E402
from dpsql.language.workloads import parse_workload  # noqa: E402
from dpsql.owner.protect import domain_of  # noqa: E402

SIZES = [2] * 8 + [4] * 8 + [8] * 8 + [16] * 6 + [40] * 4 + [80] * 4 + [100] * 6 + [200, 500, 900, 1539]
ROWS, CLASSES = 42_535, 25
THREE, FIVE = "64 random 3-way seed 0", "64 random 5-way seed 0"


def simulated() -> np.ndarray:
    """Codes, shape (rows, columns): columns independent within each of 25 hidden classes."""
    generator = np.random.default_rng(11)
    classes = generator.choice(CLASSES, ROWS, p=generator.dirichlet(np.ones(CLASSES)))
    codes = np.empty((ROWS, len(SIZES)), np.int64)
    for column, size in enumerate(SIZES):
        base = generator.dirichlet(np.full(size, 0.3)) + 1e-6
        within = generator.dirichlet(base / base.sum() * size * 0.15, size=CLASSES) + 1e-9
        cumulative = np.cumsum(within / within.sum(axis=1, keepdims=True), axis=1)
        codes[:, column] = np.minimum((generator.random(ROWS)[:, None] > cumulative[classes]).sum(axis=1), size - 1)
    return codes


def main() -> None:
    """Print errors, seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    codes = simulated()
    lines = []
    with dpsql.connect() as db:
        names = [f"c{k}" for k in range(len(SIZES))]
        db.connection.register("frame", dict(zip(names, codes.T, strict=True)))
        listed = ", ".join(f"{name}::SMALLINT AS {name}" for name in names)
        db.sql(f"CREATE TABLE t AS SELECT {listed} FROM frame")
        db.protect("t", epsilon=100, delta=1 / ROWS**2)
        for name, size in zip(names, SIZES, strict=True):
            db.domain("t", name, lower=0, upper=size - 1, bins=size, nulls=False)
        source = db._source(db.connection, "t")
        domain = domain_of(Books(db.connection, source.catalog), source)
        for epsilon in options.epsilon:
            for label, workload in (("projection", f"{THREE}; {FIVE}"), ("1-way marginals only", "all 1-way")):
                begin = time.monotonic()
                rows = db.synthesize("t", epsilon, workload=workload, reuse=False).df()[names].to_numpy()
                seconds = time.monotonic() - begin
                values = [f"{epsilon:g}", label]
                for asked in (THREE, FIVE):
                    cliques = parse_workload(asked, ("t",), domain).cliques
                    largest, l1, _ = accuracy.table_errors(domain, codes, rows, cliques)
                    values.append(f"{largest:.4f} / {l1:.3f}")
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                lines.append([*values, f"{seconds:.0f}", f"{peak:.2f}"])
                print("  ".join(lines[-1]), flush=True)
    print(f"{time.monotonic() - BEGIN:.0f} s in all")
    if options.write:
        import results

        header = ["ε", "measured", "3-way max / L1", "5-way max / L1", "seconds", "peak GiB"]
        results.write("A wide table", results.table(header, lines))


if __name__ == "__main__":
    main()
