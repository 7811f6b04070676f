"""What a synthetic table is good for: associations, models and impossible rows, on six tables; ours and the peers'.

    python tests/benchmarks/utility.py --output utility.jsonl          the default at ε 0.1, 1 and 10, `pgm` and OpenDP's MST at 1
    python tests/benchmarks/utility.py --tables linked --epsilons 1 --mechanisms projection pgm:selection=aim --runs 3
    python tests/benchmarks/utility.py --mechanisms smartnoise-mst=peers/bin/python     a peer, in an environment of its own
    python tests/benchmarks/utility.py --before old.jsonl --output new.jsonl            ratios to what an older version got

Each run is a cold process, so its CPU seconds are its own. A run that the output has already is not made again, so the same
command goes on after it was stopped. Rows are kept in `--keep`, if given, to be measured again later.

Tables: Adult and Loans as coded, of which a random fifth is held out for the AUC; 3,000 rows of Adult and 8,000 of Loans, with
10,000 others held out; the three of `simulated.py`, with a fifth held out. Columns with an order are declared by bounds, the
others by their values, as text. δ = 1/n², the workload is the default, and the synthetic table has n rows, for every system.

The system `real` is the held-out rows in place of a synthetic table: what sampling alone makes up for so many rows, which are
mostly fewer than n. AUC of models trained on the real rows stands in its line. A star marks the tables on which the rules of the fit were tuned (`--tuned-on`).
"""

from __future__ import annotations

import time

BEGIN = time.monotonic()

import argparse  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
DATA = HERE.parents[2] / "shared" / "data"
ADULT = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
LOANS = (
    *("loan_amnt", "annual_inc", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec"),
    *("revol_bal", "revol_util", "total_acc"),
)
FILES = {"adult": (ADULT, "income>50K"), "loans": (LOANS, "loan_status")}
TUNED_ON = ("adult", "loans", "adult@3000", "loans@8000")  # see settings.py
TABLES = ("adult@3000", "loans@8000", "survey", "linked", "adult", "loans", "long")
_HELD_OUT, _MOST_HELD_OUT = 0.2, 10_000


@dataclass(frozen=True)
class Table:
    """A coded table: protected rows, held-out rows, and what is public or known of it."""

    rows: np.ndarray
    held_out: np.ndarray
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    target: str
    impossible: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)


def load(name: str) -> Table:
    """A table by its name: 'adult', 'loans', one of them @ a number of rows, or one of `simulated.py`."""
    file, _, number = name.partition("@")
    if file not in FILES:
        import simulated

        made = {"linked": simulated.linked, "long": simulated.long, "survey": simulated.survey}[name]()
        return Table(*_parted(made.codes), made.sizes, made.ordered, "target", made.impossible)
    ordered, target = FILES[file]
    sizes = json.loads((DATA / f"{file}_coded_domain.json").read_text())
    path = DATA / f"{file}_coded.csv.gz"
    head = list(np.loadtxt(path, delimiter=",", dtype=str, max_rows=1))
    codes = np.loadtxt(path, delimiter=",", dtype=np.int64, skiprows=1)[:, [head.index(column) for column in sizes]]
    if not number:
        return Table(*_parted(codes), sizes, ordered, target)
    shuffled = np.random.default_rng(5).permutation(codes)
    n = int(number)
    return Table(shuffled[:n], shuffled[n : n + _MOST_HELD_OUT], sizes, ordered, target)


def _parted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = np.random.default_rng(5).random(len(codes)) < _HELD_OUT
    return codes[~held], codes[held]


# --- one run, in a process of its own ---------------------------------------------------------------------------------


def ours(table: Table, epsilon: float, spec: str) -> np.ndarray:
    """The rows of one release; 'name:option=value,…' says which."""
    import accuracy

    import dpsql

    with dpsql.connect() as db:
        protect(db, table)
        release = db.synthesize("t", epsilon, rows=len(table.rows), **accuracy.how_of(spec))
        return release.df()[list(table.sizes)].astype(np.int64).to_numpy()


def protect(db, table: Table) -> None:
    """The table as `t` of a database, protected and declared."""
    names = list(table.sizes)
    db.connection.register("frame", dict(zip(names, table.rows.T, strict=True)))
    listed = (f'"{name}"::{"INTEGER" if name in table.ordered else "VARCHAR"} AS "{name}"' for name in names)
    db.connection.execute(f"CREATE TABLE t AS SELECT {', '.join(listed)} FROM frame")
    db.connection.unregister("frame")
    db.protect("t", epsilon=1000, delta=1 / len(table.rows) ** 2)
    for name, size in table.sizes.items():
        if name in table.ordered:
            db.domain("t", name, lower=0, upper=size - 1, bins=size, nulls=False)
        else:
            db.domain("t", name, values=[str(code) for code in range(size)], nulls=False)


def peer(table: Table, epsilon: float, system: str) -> np.ndarray:
    """The rows of a peer; see `peers.py`."""
    import pandas as pd
    import peers

    cliques = list(itertools.combinations(table.sizes, 3))
    frame = pd.DataFrame(table.rows, columns=list(table.sizes))
    task = peers.Task(frame, table.sizes, cliques, epsilon, 1 / len(frame) ** 2)
    return peers.SYSTEMS[system].synthesize(task)


def is_peer(system: str) -> bool:
    """Whether it is one of `peers.py`."""
    return system.startswith(("opendp-", "smartnoise-"))


def work(table: str, epsilon: float, system: str, output: Path) -> None:
    """Make one synthetic table and write it, with what the process took; nothing of `dpsql` is loaded for a peer."""
    loaded = load(table)
    rows = (peer if is_peer(system) else ours)(loaded, epsilon, system)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    taken = {
        "wall_s": round(time.monotonic() - BEGIN, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }
    np.savez_compressed(output, rows=rows.astype(np.int32), taken=json.dumps(taken))


# --- all runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One table by one system."""

    table: str
    epsilon: float
    system: str
    number: int
    python: str = field(default=sys.executable, compare=False)

    def key(self) -> dict:
        """What tells it from others in the output."""
        return {"table": self.table, "epsilon": self.epsilon, "system": self.system, "run": self.number}

    def file(self, folder: Path) -> Path:
        """Where its rows are kept."""
        system = self.system.replace(":", "-").replace("=", "-")
        return folder / f"{self.table}_{self.epsilon:g}_{system}_{self.number}.npz"

    def make(self, folder: Path, seconds: float) -> str:
        """Make its rows in a process of its own; why there are none, or nothing."""
        command = [
            self.python,
            __file__,
            "--worker",
            self.table,
            str(self.epsilon),
            self.system,
            str(self.file(folder)),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"did not finish in {seconds:.0f} s"
        return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def measured(table: Table, rows: np.ndarray, *, reference: bool = False) -> dict:
    """The figures of a synthetic table, with those of models trained on real rows or not."""
    from dpsql.utility.coded import Coded
    from dpsql.utility.utility import measure

    names = list(table.sizes)
    ordered = tuple(size if name in table.ordered else 0 for name, size in table.sizes.items())
    tables = Coded(table.rows, rows, tuple(table.sizes.values()), ordered)
    impossible = {tuple(names.index(name) for name in pair): cells for pair, cells in table.impossible.items()}
    target = names.index(table.target)
    return measure(tables, target=target, held_out=table.held_out, reference=reference, impossible=impossible).figures()


def result(run: Run, table: Table, folder: Path, seconds: float) -> dict:
    """The line of a run in the output."""
    if run.system == "real":
        return {**run.key(), **measured(table, table.held_out, reference=True)}
    file = run.file(folder)
    if not file.exists():
        error = run.make(folder, seconds)
        if error:
            return {**run.key(), "error": error}
    with np.load(file) as found:
        return {**run.key(), **json.loads(str(found["taken"])), **measured(table, found["rows"].astype(np.int64))}


def asked(options: argparse.Namespace) -> Iterator[Run]:
    """The runs that the options ask for, `real` first for each table."""
    for table in options.tables:
        yield Run(table, 0.0, "real", 0)
        for epsilon in options.epsilons:
            for given in options.mechanisms:
                system, _, python = given.partition("=") if is_peer(given) else (given, "", "")
                system, _, only = system.partition("@")
                if only and float(only) != epsilon:
                    continue
                for number in range(options.runs):
                    yield Run(table, epsilon, system, number, python or sys.executable)


def read(path: Path | None) -> list[dict]:
    """The lines of an output; none where there is none yet."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


# --- the table that is printed ----------------------------------------------------------------------------------------

HEADER = [
    *("table", "ε", "system", "L1 pairs", "L1 triples", "max", "NMI", "NMI top", "dep", "dep top", "corr"),
    *("AUC linear", "AUC boost", "unseen/row", "impossible", "CPU s"),
]
_SHOWN = ("l1_pairs", "l1_triples", "largest_error", "nmi", "nmi_top", "dependence", "dependence_top", "correlation")
_FORMS = {"l1_pairs": "{:.3f}", "l1_triples": "{:.3f}"}


def table_of(lines: Sequence[dict], before: Sequence[dict], tuned_on: Sequence[str]) -> list[list[str]]:
    """Means of the runs, each with its ratio to the same line of another version, or to the first system's."""
    found = []
    systems: dict[tuple, list[dict]] = {}
    for line in lines:
        systems.setdefault((line["table"], line["epsilon"], line["system"]), []).append(line)
    older: dict[tuple, list[dict]] = {}
    for line in before:
        older.setdefault((line["table"], line["epsilon"], line["system"]), []).append(line)
    first: dict[tuple, list[dict]] = {}
    for (table, epsilon, system), runs in systems.items():
        head = [f"{table}*" if table in tuned_on else table, f"{epsilon:g}" if epsilon else "–", system]
        failed = [run["error"] for run in runs if run.get("error")]
        if failed:
            found.append([*head, failed[0], *[""] * (len(HEADER) - 4)])
            continue
        base = older.get((table, epsilon, system), []) if before else first.setdefault((table, epsilon), runs)
        found.append([*head, *_cells(runs, [] if base is runs else [run for run in base if not run.get("error")])])
    return found


def _cells(runs: list[dict], base: list[dict]) -> list[str]:
    cells = []
    for name in _SHOWN:
        value, beside = _mean(runs, name), _mean(base, name)
        text = "–" if value is None else _FORMS.get(name, "{:.4f}").format(value)
        ratio = f" (×{value / beside:.2f})" if value is not None and beside else ""
        cells.append(text + ratio)
    is_real = runs[0]["system"] == "real"
    cells += [
        "{:.3f}".format(_mean(runs, f"auc_{kind}_real" if is_real else f"auc_{kind}"))
        for kind in ("linear", "boosting")
    ]
    cells.append(f"{_mean(runs, 'unseen') / _mean(runs, 'synthetic_rows'):.2f}")
    for name in ("impossible", "cpu_s"):
        value = _mean(runs, name)
        cells.append("–" if value is None else f"{value:,.0f}")
    return cells


def _mean(runs: list[dict], name: str) -> float | None:
    values = [run[name] for run in runs if run.get(name) is not None]
    return float(np.mean(values)) if values else None


def main() -> None:
    """Make the runs that are asked for and are not there yet; print all as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument(
        "--mechanisms",
        nargs="+",
        default=["projection", "pgm:selection=mst@1", "opendp-mst@1"],
        help="name, or name:option=value,…, or a peer[=python]; @ε for that ε only",
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--output", type=Path, default=Path("utility.jsonl"), help="a line for each run; what is there stays"
    )
    parser.add_argument("--before", type=Path, help="an output to show ratios to, in place of the first mechanism's")
    parser.add_argument("--keep", type=Path, help="a folder for the synthetic rows")
    parser.add_argument("--seconds", type=float, default=900, help="the most that one run may take")
    parser.add_argument("--tuned-on", nargs="*", default=list(TUNED_ON), help="the tables that get a star")
    parser.add_argument("--write", metavar="SECTION", help="into RESULTS.md")
    parser.add_argument("--show", action="store_true", help="make no run, print all that the output has")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        table, epsilon, system, output = options.worker
        work(table, float(epsilon), system, Path(output))
        return
    if options.show:
        lines = sorted(
            read(options.output), key=lambda line: ((*TABLES, line["table"]).index(line["table"]), line["epsilon"])
        )
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            lines = make_all(list(asked(options)), options.output, folder, options.seconds)
    rows = table_of(lines, read(options.before), options.tuned_on)
    import results

    print(results.table(HEADER, rows))
    if options.write:
        results.write(options.write, results.table(HEADER, rows))


def make_all(runs: Sequence[Run], output: Path, folder: Path, seconds: float) -> list[dict]:
    """The lines of all runs, those that the output has and those that are made now; each is written when it is there."""
    there = read(output)
    lines = []
    loaded: dict[str, Table] = {}
    for run in runs:
        known = [line for line in there if run.key().items() <= line.items()]
        if not known:
            if run.table not in loaded:
                loaded = {run.table: load(run.table)}
            known = [result(run, loaded[run.table], folder, seconds)]
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[0]) + "\n")
                file.flush()
                os.fsync(file.fileno())
            print(json.dumps(known[0]), file=sys.stderr, flush=True)
        lines.append(known[-1])
    return lines


if __name__ == "__main__":
    main()
