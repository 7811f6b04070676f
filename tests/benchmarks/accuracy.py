"""Errors of synthetic tables, ours and the peers', each from a cold process: on Adult and Loans, coded.

    python tests/benchmarks/accuracy.py                                     the lines of the table below, three runs each
    python tests/benchmarks/accuracy.py --line 'adult/64 random 3-way seed 0/1' --runs 1
    python tests/benchmarks/accuracy.py --peer opendp-mst=peers/bin/python  beside a peer, in an environment of its own
    python tests/benchmarks/accuracy.py --mechanism mwem mwem:noise=gaussian,queries=marginals     others, with options
    python tests/benchmarks/accuracy.py --mechanism all      every mechanism; one that cannot says why, uncharged
    python tests/benchmarks/accuracy.py --mechanism ide:prior=public   a random twentieth of the rows is public, not protected

Errors are fractions of the rows: the largest of all cells, Σ|error| of a marginal on average, root mean square over cells;
of the synthetic table (and of the fitted model behind it). Only cells that are not zero on either side are looked at.
"""

from __future__ import annotations

import time

BEGIN = time.monotonic()

import argparse  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
DATA = HERE.parents[2] / "shared" / "data"
NEIGHBOURS = {"rap": "replace_one"}  # add_remove, but where a paper has the other
ADULT, LOANS = "64 random 3-way seed 0", "64 random 3-way seed 17"
# table/workload/epsilon: what the table must reach, max and L1
LINES = {
    f"adult/{ADULT}/0.1": (0.035, 0.360),
    f"adult/{ADULT}/1": (0.0095, 0.160),
    f"adult/{ADULT}/10": (0.0025, 0.095),
    "adult/all 3-way/1": (0.018, 0.160),
    "adult/64 random 5-way seed 0/1": (math.nan, math.nan),
    f"loans/{LOANS}/0.1": (0.030, 0.515),
    f"loans/{LOANS}/1": (0.005, 0.335),
    f"loans/{LOANS}/10": (0.002, 0.220),
}
_LARGEST_DENSE = 10_000_000
LABELS = {"auto": "auto (projection, where no prior is given)"}
ALL = [
    "auto",
    "projection",
    "projection:weights=hdmm",
    "direct",
    "hdmm",
    "hdmm:reconstruct=least_squares",
    "pgm",
    "pgm:selection=mst",
    "pgm:selection=aim",
    "residual",
    "jam:prior=public",
    "mwem",
    "mwem:faithful=true",
    "rap",
    "rap:faithful=true",
    "lp",
    "lp:noise=laplace",
    "fem",
    "fem:faithful=true",
    "dualquery",
    "dualquery:faithful=true",
    "barak",
    "ide:prior=public",
    "pmwpub:prior=public",
    "projection:prior=public",
]


def load(table: str, neighbours: str, delta: float, *, public: bool = False):
    """A database with a coded table, protected and declared; its domain and its codes.

    With `public` a random twentieth of the rows is no part of it, but of the table `public`.
    """
    import dpsql
    from dpsql.books.ledger.store import Books
    from dpsql.owner.protect import domain_of

    sizes = json.loads((DATA / f"{table}_coded_domain.json").read_text())
    db = dpsql.connect()
    db.sql(f"CREATE TABLE t AS FROM '{DATA}/{table}_coded.csv.gz'")
    if public:
        db.sql("CREATE TABLE public AS FROM t WHERE hash(rowid) % 20 = 0; DELETE FROM t WHERE hash(rowid) % 20 = 0")
    db.protect("t", epsilon=1000, delta=delta, neighbours=neighbours)
    for name, size in sizes.items():
        db.domain("t", name, lower=0, upper=size - 1, bins=size, nulls=False)
    source = db._source(db.connection, "t")
    domain = domain_of(Books(db.connection, source.catalog), source)
    return db, domain, db.sql("FROM t").df()[list(domain.names)].to_numpy()


def support(domain, rows: np.ndarray, clique) -> tuple[np.ndarray, np.ndarray]:
    """The cells of a marginal of codes that are not zero, and their fractions."""
    columns = [domain.names.index(name) for name in clique]
    packed = np.ravel_multi_index(tuple(rows[:, c] for c in columns), domain.shape(clique))
    cells, counts = np.unique(packed, return_counts=True)
    return cells, counts / max(1, len(rows))


def gaps(p: tuple[np.ndarray, np.ndarray], q: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """|p − q| on the union of two supports."""
    cells, place = np.unique(np.concatenate([p[0], q[0]]), return_inverse=True)
    difference = np.zeros(len(cells))
    difference[place[: len(p[0])]] += p[1]
    difference[place[len(p[0]) :]] -= q[1]
    return np.abs(difference)


def summary(found: list[tuple[float, float, float]], cells: int) -> tuple[float, float, float]:
    """Max, mean L1 and RMSE from each marginal's largest error, Σ|error| and Σ error²."""
    largest, l1, squares = np.array(found).T
    return float(largest.max()), float(l1.mean()), math.sqrt(squares.sum() / cells)


def table_errors(domain, codes: np.ndarray, rows: np.ndarray, cliques) -> tuple[float, float, float]:
    """The errors of a table of codes."""
    found = []
    for clique in cliques:
        gap = gaps(support(domain, codes, clique), support(domain, rows, clique))
        found.append((gap.max(), gap.sum(), (gap**2).sum()))
    return summary(found, sum(domain.size(clique) for clique in cliques))


def model_errors(domain, codes: np.ndarray, model, cliques) -> tuple[float, float, float]:
    """The errors of a fitted model; NaN where a marginal is too large for all of its cells."""
    if max(domain.size(clique) for clique in cliques) > _LARGEST_DENSE:
        return (math.nan,) * 3
    found = []
    for clique in cliques:
        answers = model.project(clique).astype(float)
        cells, fractions = support(domain, codes, clique)
        answers[cells] -= fractions
        gap = np.abs(answers)
        found.append((gap.max(), gap.sum(), (gap**2).sum()))
    return summary(found, sum(domain.size(clique) for clique in cliques))


def release(db, epsilon: float, how: dict):
    """One release; returns the fitted model, which the release itself does not keep, and the rows."""
    import dpsql
    from dpsql.release.pipeline import produce
    from dpsql.release.synthesis import resolve
    from dpsql.runtime.progress import Quiet

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
        entry = produce(resolved, db.instance.cursor, Quiet())
    finally:
        type(resolved.mechanism).run = run
    rows = dpsql.Release(db.instance, db.connection, resolved.source.catalog, entry).df()
    return kept[0], rows.to_numpy()


def how_of(spec: str) -> dict:
    """The arguments that 'name:option=value,option=value' states."""
    name, _, given = spec.partition(":")
    options = dict(part.split("=") for part in given.split(",") if part)
    return {"mechanism": name, **{option: _value(text) for option, text in options.items()}}


def _value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def one(table: str, workload: str, epsilon: float, mechanism: str) -> dict:
    """One release in this process, with what it took from the start of the process on."""
    from dpsql.language.workloads import parse_workload

    rows, how = {"adult": 48842, "loans": 39786}[table], how_of(mechanism)
    neighbours = NEIGHBOURS.get(how["mechanism"], "add_remove")
    db, domain, codes = load(table, neighbours, 1 / rows**2, public="prior" in how)
    model, synthetic = release(db, epsilon, {"workload": workload, **how})
    usage = resource.getrusage(resource.RUSAGE_SELF)
    taken = {
        "wall_s": time.monotonic() - BEGIN,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
    }
    cliques = parse_workload(workload, ("t",), domain).cliques
    names = ("max", "l1", "rmse")
    of_model = model_errors(domain, codes, model, cliques)
    of_table = table_errors(domain, codes, synthetic, cliques)
    model_part = {f"model_{name}": value for name, value in zip(names, of_model, strict=True)}
    return {**model_part, **dict(zip(names, of_table, strict=True)), **taken}


def ask(command: list[str], seconds: float) -> dict:
    """Run a worker and read its last line; a run that does not end is a result too."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"did not finish in {seconds:.0f} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout[done.stdout.index("{") :])


def peer(system: str, python: str, table: str, workload: str, epsilon: str, seconds: float) -> dict:
    """One run of a peer in its own environment; see peers.py."""
    command = [python, str(HERE / "peers.py"), "--system", system, "--table", table, "--workload", workload]
    return ask([*command, "--epsilon", epsilon, "--output", "/dev/null"], seconds)


def several(run: Callable[[], dict], times: int) -> list[dict]:
    """The runs of one system: no second one after a run that failed."""
    runs: list[dict] = []
    while len(runs) < times and not (runs and runs[-1].get("error")):
        runs.append(run())
    return runs


def line(name: str, system: str, runs: list[dict]) -> list[str]:
    """One line of the table: the median of the runs."""
    table, workload, epsilon = name.split("/")
    failed = [run["error"] for run in runs if run.get("error")]
    if failed:
        return [table, workload, epsilon, system, failed[0], "", "", "", "", "", ""]

    def middle(key: str, form: str) -> str:
        value = float(np.median([run[key] for run in runs])) if key in runs[0] else math.nan
        return "–" if math.isnan(value) else form.format(value)

    errors = [middle(key, form) for key, form in (("max", "{:.4f}"), ("l1", "{:.4f}"), ("rmse", "{:.1e}"))]
    model = " / ".join(middle(key, form) for key, form in (("model_max", "{:.4f}"), ("model_l1", "{:.4f}")))
    taken = [middle(key, "{:.0f}") for key in ("wall_s", "cpu_s", "peak_mb")]
    return [table, workload, epsilon, system, *errors, model, *taken]


def asked(name: str, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict]]]:
    """The systems of one line, each with what makes one run of it."""
    table, workload, epsilon = name.split("/")
    for mechanism in options.mechanism:
        command = [sys.executable, __file__, "--worker", f"{name}/{mechanism}"]
        yield f"dpsql {LABELS.get(mechanism, mechanism)}", partial(ask, command, options.seconds)
    for system in options.peer:
        label, _, python = system.partition("=")
        yield label, partial(peer, label, python, table, workload, epsilon, options.seconds)


HEADER = ["on", "workload", "ε", "system", "max", "mean L1", "RMSE", "model max / L1", "wall s", "CPU s", "peak MB"]


def main() -> None:
    """Print one line for each table, workload, ε and system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--line", nargs="+", default=list(LINES), help="table/workload/epsilon")
    parser.add_argument("--mechanism", nargs="+", default=["projection"], help="name, or name:option=value,…")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer", nargs="+", default=[], help="system=python, see peers.py")
    parser.add_argument("--seconds", type=float, default=900, help="the most that one run may take")
    parser.add_argument("--write", metavar="SECTION", help="into RESULTS.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mechanism == ["all"]:
        options.mechanism = ALL
    if options.worker:
        table, workload, epsilon, mechanism = options.worker.split("/", 3)
        print(json.dumps(one(table, workload, float(epsilon), mechanism)))
        return
    rows = []
    for name in options.line:
        for system, run in asked(name, options):
            rows.append(line(name, system, several(run, options.runs)))
            print("  ".join(rows[-1]), flush=True)
    if options.write:
        import results

        results.write(options.write, results.table(HEADER, rows))


if __name__ == "__main__":
    main()
