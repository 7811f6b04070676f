"""Errors of other systems' synthetic tables, on the tables, workloads and (ε, δ) of `accuracy.py`.

Each system lives in an environment of its own, so this script imports numpy, pandas and that system only:

    opendp-aim, opendp-mst:                          pip install 'opendp[mbi]==0.16.0' pandas
    smartnoise-aim, smartnoise-mst, smartnoise-mwem: pip install smartnoise-synth==1.0.8
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import re
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

START = time.monotonic()
DATA = Path(__file__).parents[3] / "shared" / "data"
Clique = tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """A coded table with its public domain, the workload and the privacy budget."""

    frame: pd.DataFrame
    sizes: dict[str, int]
    cliques: list[Clique]
    epsilon: float
    delta: float


@dataclass(frozen=True)
class System:
    """A peer: its packages, how it is asked for a table, and what it says it protects."""

    packages: tuple[str, ...]
    synthesize: Callable[[Task], np.ndarray]
    neighbours: str
    settings: str


def load(table: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """The codes of a table, and the size of each column's public domain in table order."""
    frame = pd.read_csv(DATA / f"{table}_coded.csv.gz")
    sizes = json.loads((DATA / f"{table}_coded_domain.json").read_text())
    return frame, {name: sizes[name] for name in frame.columns}


def parse(workload: str, names: list[str]) -> list[Clique]:
    """The cliques of 'N random K-way seed S', the same as dpsql draws, or of 'all K-way'."""
    if every := re.fullmatch(r"all (\d+)-way", workload):
        return list(itertools.combinations(names, int(every[1])))
    found = re.fullmatch(r"(\d+) random (\d+)-way seed (\d+)", workload)
    if found is None:
        raise SystemExit(f"expected a workload like '64 random 3-way seed 0' or 'all 3-way', got {workload!r}")
    count, order, seed = (int(part) for part in found.groups())
    chosen = np.random.default_rng(seed).choice(math.comb(len(names), order), count, replace=False)
    every = list(itertools.combinations(names, order))
    return [every[index] for index in chosen]


def gaps(task: Task, rows: np.ndarray, clique: Clique) -> np.ndarray:
    """|p - q| on the union of the supports of the two marginals, in fractions; elsewhere both are zero."""
    columns = [task.frame.columns.get_loc(name) for name in clique]
    shape = [task.sizes[name] for name in clique]
    both = (task.frame.to_numpy(), rows)
    packed = [np.ravel_multi_index(tuple(table[:, c] for c in columns), shape) for table in both]
    cells, place = np.unique(np.concatenate(packed), return_inverse=True)
    n = len(packed[0])
    p, q = (np.bincount(part, minlength=len(cells)) / max(1, len(part)) for part in (place[:n], place[n:]))
    return np.abs(p - q)


def errors(task: Task, rows: np.ndarray) -> dict[str, float]:
    """Max cell error, mean L1 per marginal, RMSE over all cells of the workload."""
    found = [gaps(task, rows, clique) for clique in task.cliques]
    cells = sum(math.prod(task.sizes[name] for name in clique) for clique in task.cliques)
    return {
        "max": max(float(gap.max()) for gap in found),
        "l1": float(np.mean([gap.sum() for gap in found])),
        "rmse": math.sqrt(sum(float((gap**2).sum()) for gap in found) / cells),
    }


def opendp_table(task: Task, algorithm: object, rho: float) -> np.ndarray:
    """A table by OpenDP. Cuts between the codes, not keys: keys would add a null to every column."""
    import opendp.prelude as dp
    import polars as pl

    context = dp.Context.compositor(
        data=pl.LazyFrame({name: task.frame[name].to_numpy() for name in task.sizes}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    cuts = {name: list(range(size - 1)) for name, size in task.sizes.items()}
    table = context.query().contingency_table(cuts=cuts, algorithm=algorithm).release()
    synthetic = table.synthesize(len(task.frame))
    return np.column_stack([synthetic[name].to_numpy() for name in task.sizes]).astype(np.int64)


def opendp_rho(epsilon: float, delta: float) -> float:
    """The ρ of zCDP whose (ε, δ) is the one asked for, by OpenDP's own conversion."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def approximate(scale: float) -> dp.Measurement:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta)

    scale = dp.binary_search_param(approximate, d_in=1.0, d_out=(epsilon, delta))
    return dp.m.make_gaussian(*space, scale).map(1.0)


def opendp_accepts(rho: float, selections: int) -> bool:
    """Whether OpenDP 0.16's MST can spend ρ: it refuses where its equal shares, added rounding up, pass their sum."""

    def below(x: float) -> float:
        return math.nextafter(x, -math.inf)

    pairs = below(below(rho - rho * 0.5))
    budget = below(below(pairs - pairs * 0.9))
    share, spent = below(budget / selections), 0.0
    for _ in range(selections):
        exact = Fraction(spent) + Fraction(share)
        spent = float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)
    return spent <= budget


def opendp_aim(task: Task) -> np.ndarray:
    """AIM told the workload."""
    import opendp.prelude as dp

    algorithm = dp.mbi.AIM(queries=[dp.mbi.Count(clique) for clique in task.cliques])
    return opendp_table(task, algorithm, opendp_rho(task.epsilon, task.delta))


def opendp_mst(task: Task) -> np.ndarray:
    """MST, which chooses pairs of columns by itself."""
    import opendp.prelude as dp

    rho = opendp_rho(task.epsilon, task.delta)
    while not opendp_accepts(rho, len(task.sizes) - 1):
        rho *= 1 - 1e-12
    return opendp_table(task, dp.mbi.MST(), rho)


def smartnoise_table(task: Task, synthesizer: object) -> np.ndarray:
    """A table by SmartNoise; its labels are fitted to the public domain, so they cost no budget."""
    from snsynth.transform import LabelTransformer, TableTransformer

    codes = np.arange(max(task.sizes.values()))
    domain = pd.DataFrame({name: codes % size for name, size in task.sizes.items()})
    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in task.sizes])
    transformer.fit(domain)
    synthesizer.fit(task.frame, transformer=transformer, preprocessor_eps=0.0)
    return np.asarray(synthesizer.sample(len(task.frame)), dtype=np.int64)


def smartnoise_aim(task: Task) -> np.ndarray:
    """AIM told the workload: its own choice is every pair of columns with at most 10000 cells."""
    from snsynth.aim import AIMSynthesizer

    place = {name: f"col{i}" for i, name in enumerate(task.sizes)}

    class Told(AIMSynthesizer):
        """AIM with this workload; the constructor has no argument for one."""

        @staticmethod
        def get_workload(*_: object, **__: object) -> list[Clique]:
            return [tuple(place[name] for name in clique) for clique in task.cliques]

    return smartnoise_table(task, Told(epsilon=task.epsilon, delta=task.delta))


def smartnoise_mst(task: Task) -> np.ndarray:
    """MST, which chooses pairs of columns by itself."""
    from snsynth.mst import MSTSynthesizer

    return smartnoise_table(task, MSTSynthesizer(epsilon=task.epsilon, delta=task.delta))


def smartnoise_mwem(task: Task) -> np.ndarray:
    """MWEM on groups of two columns: by default it allocates the whole contingency table."""
    from snsynth.mwem import MWEMSynthesizer

    return smartnoise_table(task, MWEMSynthesizer(epsilon=task.epsilon, split_factor=2))


OPENDP = ("opendp", "mbi")
SMARTNOISE = ("smartnoise-synth", "mbi")
ADD_REMOVE = "add/remove one row"
SYSTEMS = {
    "opendp-aim": System(OPENDP, opendp_aim, ADD_REMOVE, "the workload as queries, else defaults; public domain"),
    "opendp-mst": System(OPENDP, opendp_mst, ADD_REMOVE, "defaults; public domain"),
    "smartnoise-aim": System(
        SMARTNOISE, smartnoise_aim, f"{ADD_REMOVE}, rows sampled as the exact count", "the workload, else defaults"
    ),
    "smartnoise-mst": System(SMARTNOISE, smartnoise_mst, f"{ADD_REMOVE}, but fits to the exact row count", "defaults"),
    "smartnoise-mwem": System(
        SMARTNOISE[:1],
        smartnoise_mwem,
        f"{ADD_REMOVE}, but uses the exact row count and each column's exact range; pure epsilon",
        "split_factor=2, else defaults",
    ),
}


def used() -> dict[str, float]:
    """Wall and CPU seconds and the peak memory of this process until now, imports included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_s": round(time.monotonic() - START, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024, 1),
    }


def measure(system: System, task: Task) -> dict[str, object]:
    """Errors of one table, the resources it took (evaluation excluded), or why there is none."""
    nothing = {"max": None, "l1": None, "rmse": None}
    try:
        with contextlib.redirect_stdout(sys.stderr):
            rows = system.synthesize(task)
        taken = used()
        if rows.shape != task.frame.shape:
            raise ValueError(f"the table has shape {rows.shape}, not {task.frame.shape}")
        return {**errors(task, rows), **taken, "error": None}
    except Exception as error:
        return {**nothing, **used(), "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Run one system once; print and write one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", required=True, choices=list(SYSTEMS))
    parser.add_argument("--table", default="adult", choices=["adult", "loans"])
    parser.add_argument("--workload", default="64 random 3-way seed 0")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    frame, sizes = load(options.table)
    task = Task(frame, sizes, parse(options.workload, list(sizes)), options.epsilon, 1 / len(frame) ** 2)
    system = SYSTEMS[options.system]
    outcome = {
        "system": options.system,
        "version": ", ".join(f"{package} {version(package)}" for package in system.packages),
        "table": options.table,
        "workload": options.workload,
        "epsilon": options.epsilon,
        "delta": task.delta,
        "neighbours": system.neighbours,
        "settings": system.settings,
        **measure(system, task),
    }
    text = json.dumps(outcome, indent=1)
    options.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
