"""Seconds, memory and residual of relaxed fits on JAX's device: all pairs of simulated columns, and real tables by a mechanism.

    python tests/benchmarks/device.py --columns 40 100 300 --relaxed 512 4096
    JAX_PLATFORMS=cpu python tests/benchmarks/device.py --columns 40 100 300 --relaxed 512 4096
    python tests/benchmarks/device.py --table adult --mechanism rap projection

A fit is timed twice in one process: the first time it is compiled, too. The simulated rows hang together in a chain (each
column repeats its neighbour in two of three rows); noise is that of ε = 1 over all pairs of 10⁶ rows.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
ROWS = 1_000_000
RHO = 0.0125  # of ε = 1 at δ = 10⁻⁹, about
SAMPLED = 20_000  # rows whose shares stand for those of all


def simulated(columns: int, values: int) -> tuple:
    """A domain, and noisy marginals of all columns and all pairs."""
    from dpsql.core.domain import Attribute, Domain
    from dpsql.fitting.target import Target

    draw = np.random.default_rng(1)
    codes = np.empty((SAMPLED, columns), np.int64)
    codes[:, 0] = draw.integers(values, size=SAMPLED)
    for column in range(1, columns):
        fresh = np.minimum(draw.geometric(0.2, SAMPLED) - 1, values - 1)
        codes[:, column] = np.where(draw.random(SAMPLED) < 2 / 3, codes[:, column - 1], fresh)
    names = [f"c{column}" for column in range(columns)]
    constants = tuple(map(str, range(values)))
    domain = Domain(tuple(Attribute(name, "INTEGER", "values", constants, nullable=False) for name in names))
    pairs = [*itertools.combinations(range(columns), 2)]
    cliques = [(column,) for column in range(columns)] + pairs
    share = RHO / len(cliques)
    variance = 1 / (2 * share)
    targets = []
    for clique in cliques:
        shape = (values,) * len(clique)
        cells = np.ravel_multi_index([codes[:, place] for place in clique], shape)
        counts = np.bincount(cells, minlength=values ** len(clique)) * (ROWS / SAMPLED)
        noisy = np.rint(counts + draw.standard_normal(len(counts)) * variance**0.5)
        targets.append(Target(tuple(names[place] for place in clique), shape, noisy, float(variance), rho=share))
    return domain, targets


def fits(columns: int, values: int, relaxed: list[int], steps: int) -> None:
    """Print a line for each number of relaxed rows."""
    from dpsql.fitting.loading import jax
    from dpsql.fitting.relaxed.fit_marginals import fit_marginals
    from dpsql.fitting.relaxed.settings import Settings
    from dpsql.runtime.progress import Quiet

    domain, targets = simulated(columns, values)
    cells = sum(len(target.values) for target in targets)
    device = jax.devices()[0]
    for rows in relaxed:
        took, made = [], []
        for _ in range(2):
            begin = time.perf_counter()
            fit = fit_marginals(domain, targets, ROWS, Settings(rows=rows, steps=steps), 1, Quiet())
            took.append(time.perf_counter() - begin)
            made.append(fit.model.probabilities)
        peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
        print(
            f"{device.device_kind} | {columns} x {values} | {cells} cells | n' {rows} | {fit.steps} steps | "
            f"first {took[0]:.1f} s, then {took[1]:.1f} s | residual {fit.residual:.3f} | "
            f"peak {peak:.1f} GB | apart {np.abs(made[0] - made[1]).max():.1e}",
            flush=True,
        )


def tables(name: str, mechanisms: list[str], epsilon: float) -> None:
    """Print a line for each mechanism: a synthetic table of a real one, the second of two."""
    import accuracy

    from dpsql.fitting.loading import jax
    from dpsql.release.synthesis import resolve

    workload, rows = {"adult": (accuracy.ADULT, 48842), "loans": (accuracy.LOANS, 39786)}[name]
    for mechanism in mechanisms:
        took = []
        for _ in range(2):
            db, domain, codes = accuracy.load(name, "add_remove", 1 / rows**2)
            with db, db.instance.cursor() as cursor:
                how = {"mechanism": mechanism, "workload": workload}
                cliques = resolve(cursor, db.request("t", epsilon, **how)).workload.cliques
                begin = time.perf_counter()
                made = db.synthesize("t", epsilon, **how).df()[list(domain.names)].to_numpy()
                took.append(time.perf_counter() - begin)
        largest, l1, _ = accuracy.table_errors(domain, codes, made.astype(np.int64), cliques)
        print(
            f"{jax.devices()[0].device_kind} | {name} {mechanism} epsilon {epsilon:g} | first {took[0]:.1f} s, then "
            f"{took[1]:.1f} s | max {largest:.4f}, mean L1 {l1:.4f}",
            flush=True,
        )


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", nargs="+", type=int, default=[100])
    parser.add_argument("--values", type=int, default=20)
    parser.add_argument("--relaxed", nargs="+", type=int, default=[512])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--table", choices=("adult", "loans"))
    parser.add_argument("--mechanism", nargs="+", default=["projection", "rap"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    if options.table:
        tables(options.table, options.mechanism, options.epsilon)
        return
    for columns in options.columns:
        fits(columns, options.values, options.relaxed, options.steps)


if __name__ == "__main__":
    main()
