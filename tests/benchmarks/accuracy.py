"""Accuracy on Adult coded: errors of the fitted model and of the table of n rows, in fractions."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

import dpsql
from dpsql.database.store import Books
from dpsql.domain import Domain
from dpsql.progress import Quiet
from dpsql.protection import domain_of
from dpsql.release import produce, resolve
from dpsql.workload import parse_workload

DATA = Path(__file__).parents[3] / "shared" / "data"
NEIGHBOURS = {"projection": "add_remove", "rap": "replace_one"}


def load(table: str, neighbours: str, delta: float) -> tuple[dpsql.Database, Domain, np.ndarray]:
    """A database with a coded table, protected and declared; its domain and its codes."""
    sizes = json.loads((DATA / f"{table}_coded_domain.json").read_text())
    db = dpsql.connect()
    db.sql(f"CREATE TABLE t AS FROM '{DATA}/{table}_coded.csv.gz'")
    db.protect("t", epsilon=1000, delta=delta, neighbours=neighbours)
    for name, size in sizes.items():
        db.domain("t", name, lower=0, upper=size - 1, bins=size, nulls=False)
    source = db._source(db.connection, "t")
    domain = domain_of(Books(db.connection, source.catalog), source)
    return db, domain, db.sql("FROM t").df()[list(domain.names)].to_numpy()


def fractions(domain: Domain, rows: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    """The marginal of a table of codes, divided by its rows."""
    columns = [domain.names.index(name) for name in clique]
    packed = np.ravel_multi_index(tuple(rows[:, c] for c in columns), domain.shape(clique))
    return np.bincount(packed, minlength=domain.size(clique)) / max(1, len(rows))


def errors(truth: dict, answer) -> tuple[float, float, float]:
    """Max cell error, mean L1 per marginal, RMSE over cells."""
    gaps = [np.abs(truth[clique] - answer(clique)) for clique in truth]
    cells = sum(gap.size for gap in gaps)
    return (
        max(float(gap.max()) for gap in gaps),
        float(np.mean([gap.sum() for gap in gaps])),
        math.sqrt(sum(float((gap**2).sum()) for gap in gaps) / cells),
    )


def release(db: dpsql.Database, epsilon: float, how: dict) -> tuple[object, np.ndarray, list[str]]:
    """One release; returns the fitted model, which the release itself does not keep, and the rows."""
    kept = []
    with db.instance.cursor() as cursor:
        resolved = resolve(cursor, db.request("t", epsilon, **how))
    run = type(resolved.mechanism).run

    def keep(self, *arguments):
        outcome = run(self, *arguments)
        kept.append(outcome.model)
        return outcome

    type(resolved.mechanism).run = keep
    try:
        entry = produce(db.instance.cursor, resolved, Quiet())
    finally:
        type(resolved.mechanism).run = run
    rows = dpsql.Release(db, resolved, entry).df()
    return kept[0], rows.to_numpy(), list(rows.columns)


def main() -> None:
    """Print one line for each ε and run, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="adult", choices=["adult", "loans"])
    parser.add_argument("--workload")
    parser.add_argument("--mechanism", default="projection")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    rows = {"adult": 48842, "loans": 39786}[options.table]
    workload = options.workload or f"64 random 3-way seed {0 if options.table == 'adult' else 17}"
    db, domain, codes = load(options.table, NEIGHBOURS[options.mechanism], 1 / rows**2)
    cliques = parse_workload(workload, ("t",), domain).cliques
    truth = {clique: fractions(domain, codes, clique) for clique in cliques}
    print(f"{options.table} coded, {len(codes)} rows, '{workload}', delta {1 / rows**2:.3g}, {options.mechanism}")
    print(
        f"{'epsilon':>8} {'run':>6}   {'model max / L1 / RMSE':^27}   {'table max / L1 / RMSE':^27} {'wall s':>7} {'cpu s':>6}"
    )
    for epsilon in options.epsilon:
        found = []
        for run in range(options.runs):
            wall, cpu = time.monotonic(), time.process_time()
            how = {"workload": workload, "mechanism": options.mechanism, "release": f"{run}"}
            model, table, _ = release(db, epsilon, how)
            wall, cpu = time.monotonic() - wall, time.process_time() - cpu
            found.append(
                (*errors(truth, model.project), *errors(truth, lambda c, t=table: fractions(domain, t, c)), wall, cpu)
            )
            print(line(epsilon, str(run + 1), found[-1]), flush=True)
        print(line(epsilon, "median", tuple(np.median(np.array(found), axis=0))), flush=True)


def line(epsilon: float, run: str, values: tuple[float, ...]) -> str:
    """One line of the table."""
    model, table, times = values[:3], values[3:6], values[6:]
    parts = [f"{m:.4f} / {l1:.4f} / {r:.1e}" for m, l1, r in (model, table)]
    return f"{epsilon:8g} {run:>6}   {parts[0]:>27}   {parts[1]:>27} {times[0]:7.1f} {times[1]:6.1f}"


if __name__ == "__main__":
    main()
