"""The projection on the same noise before and after a change: what of a difference is no chance.

    python tests/benchmarks/paired.py adult loans --epsilons 0.1 1 --seeds 1 2 3 >> now.jsonl
    PYTHONPATH=another-checkout python tests/benchmarks/paired.py adult loans --epsilons 0.1 1 --seeds 1 2 3 >> before.jsonl
    python tests/benchmarks/paired.py --compare before.jsonl now.jsonl
    python tests/benchmarks/paired.py linked --without pooling >> without.jsonl          a refinement, beside without it

Noise is drawn from a seed instead of the system, by clique, so two versions that measure alike see the same answers. That
is no release: it is for research on public tables. Adult and Loans are those of `utility.py`, and so are the figures. 'adult64'
and 'loans64' are those of `accuracy.py` with its 64 marginals, by largest error and mean L1 alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
SHOWN = ("max", "l1", "nmi", "nmi_top", "auc_linear", "auc_boosting", "fit_s", "rounding_s")


class Seeded:
    """What a `Curator` says, with noise from a seed."""

    def __init__(self, domain, neighbours, codes: np.ndarray, rho: Fraction, seed: int) -> None:
        self.domain, self.neighbours, self.remaining = domain, neighbours, rho
        self.earlier, self.prior, self.allowed = (), None, ()
        self._codes, self._seed, self._times = codes, seed, {}

    def begun(self) -> list:
        """Nothing was asked before."""
        return []

    def total(self, rho: Fraction, noise=None):
        """The noisy number of rows."""
        return self.measure([((), rho)])[0]

    def measure(self, requests, noise=None) -> list:
        """Noisy marginals; the noise is Gaussian, as `projection` asks for."""
        return [self._measured(clique, rho) for clique, rho in requests]

    def _measured(self, clique, rho: Fraction):
        from dpsql.core.marginal import Measurement
        from dpsql.privacy.accounting import gaussian_variance

        self.remaining -= rho
        self._times[clique] = self._times.get(clique, 0) + 1
        shape = self.domain.shape(clique)
        size, cells = int(np.prod(shape)), np.zeros(len(self._codes), np.int64)
        if clique:
            cells = np.ravel_multi_index([self._codes[:, self.domain.names.index(name)] for name in clique], shape)
        variance = gaussian_variance(rho, self.neighbours.marginal_l2_squared)
        draw = np.random.default_rng([self._seed, self._times[clique], zlib.crc32("|".join(clique).encode())])
        noise = draw.standard_normal(size) * float(variance) ** 0.5
        values = np.rint(np.bincount(cells, minlength=size) + noise).astype(np.int64)
        return Measurement(clique, shape, values, Fraction(variance), "gaussian", rho)


def opened(name: str):
    """A database with a table, its codes, its workload (None for the default), and the table of `utility.py`."""
    import accuracy
    import utility

    import dpsql

    if name in ("adult64", "loans64"):
        of, rows = {"adult64": ("adult", 48842), "loans64": ("loans", 39786)}[name]
        db, _, codes = accuracy.load(of, "add_remove", 1 / rows**2)
        return db, codes, {"adult": accuracy.ADULT, "loans": accuracy.LOANS}[of], None
    table = utility.load(name)
    db = dpsql.connect()
    utility.protect(db, table)
    return db, table.rows, None, table


def one(name: str, epsilon: float, seed: int, without: tuple[str, ...] | None = None) -> dict:
    """The figures of one fit."""
    import accuracy
    import cold
    import utility

    from dpsql.mechanisms.projection.projection import Projection
    from dpsql.release.synthesis import resolve
    from dpsql.runtime.progress import Quiet

    db, codes, workload, table = opened(name)
    with db, db.instance.cursor() as cursor:
        how = {"mechanism": "projection", **({"workload": workload} if workload else {})}
        resolved = resolve(cursor, db.request("t", epsilon, **how))
        domain, rho = resolved.domain, resolved.budget.rho
        plan = db.plan("t", epsilon, assume_rows=len(codes), **how)
    curator, begin = Seeded(domain, resolved.account.neighbours, codes, rho, seed), cold.cpu()
    outcome = Projection(without=without).run(curator, resolved.workload, rho, seed, Quiet())
    middle = cold.cpu()
    drawn = round(outcome.model.total) if table is None else len(codes)
    rows = outcome.model.sample(drawn, np.random.default_rng(seed), Quiet())
    taken = {"fit_s": middle - begin, "rounding_s": cold.cpu() - middle}
    largest, l1, _ = accuracy.table_errors(domain, codes, rows, resolved.workload.cliques)
    said = predicted(plan, outcome.report, lambda cliques: accuracy.table_errors(domain, codes, rows, cliques)[1])
    figures = (
        {} if table is None else utility.measured(table, np.minimum(rows, [size - 1 for size in table.sizes.values()]))
    )
    kept = {key: figures[key] for key in SHOWN if figures.get(key) is not None}
    return {"table": name, "epsilon": epsilon, "seed": seed, "max": largest, "l1": l1, **said, **kept, **taken}


def predicted(plan, report: dict, l1_of) -> dict:
    """What the plan and the report say of errors, the mean L1 of the plan's pairs, how often it is right of them."""
    lines = zip(plan.marginal, plan.predicted_l1, plan.note, strict=True)
    known = {tuple(clique): (error, note) for clique, error, note in lines}
    pairs = {clique: said for clique, said in known.items() if len(clique) == 2 and said[0] == said[0]}
    right = [("likely a reliable" in note) == (l1_of([clique]) <= 0.1) for clique, (_, note) in pairs.items()]
    return {
        "predicted": float(plan.overall_l1.iloc[0]),
        "pairs": l1_of(list(pairs)),
        "predicted_pairs": float(np.mean([error for error, _ in pairs.values()])),
        "right": float(np.mean(right)),
        "reported_pairs": report.get("expected_l1_pairs"),
    }


def compare(before: Path, after: Path) -> None:
    """Print the means of two outputs over the seeds that both have."""
    found = [
        {(r["table"], r["epsilon"], r["seed"]): r for r in map(json.loads, path.read_text().splitlines())}
        for path in (before, after)
    ]
    lines: dict[tuple, list[tuple]] = {}
    for key in sorted(set(found[0]) & set(found[1])):
        lines.setdefault(key[:2], []).append((found[0][key], found[1][key]))
    print("| table | ε | seeds |", " | ".join(SHOWN), "|")
    for (table, epsilon), pairs in lines.items():
        shown = [
            " → ".join(f"{np.mean([pair[side][name] for pair in pairs]):.4f}" for side in (0, 1))
            if name in pairs[0][0]
            else "–"
            for name in SHOWN
        ]
        print(f"| {table} | {epsilon:g} | {len(pairs)} |", " | ".join(shown), "|")


def main() -> None:
    """Print a line of JSON for each table, ε and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--without", nargs="+", help="refinements to leave out")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        compare(*options.compare)
        return
    for table in options.tables:
        for epsilon in options.epsilons:
            for seed in options.seeds:
                print(json.dumps(one(table, epsilon, seed, options.without and tuple(options.without))), flush=True)


if __name__ == "__main__":
    main()
