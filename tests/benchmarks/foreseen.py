"""What a plan foresees of seconds and memory beside what a release took, each from a cold process.

    python tests/benchmarks/foreseen.py --line 'adult/64 linear/1' --mechanism lp direct [--runs 1] [--write SECTION]

A line is table/workload/ε, on Adult or Loans, coded. '64 linear' stands for so many random linear queries, see `linear.py`.
CPU seconds are of the release and of reading it, without the process' start and the loading of the table. The peak is that of
the process. δ = 1/n², as in `accuracy.py`.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys

import numpy as np
import results
from accuracy import ADULT, LOANS, NEIGHBOURS, ask, how_of, load
from linear import MOST_VALUES, statements

ROWS = {"adult": 48842, "loans": 39786}
LINES = [
    f"{on}/{workload}/{epsilon}" for on, workload in (("adult", ADULT), ("loans", LOANS)) for epsilon in (0.1, 1, 10)
]
HEADER = ["on", "workload", "ε", "mechanism", "CPU s", "planned s", "factor", "peak MB", "planned MB", "factor"]


def workload_of(domain, words: str) -> str:
    """The workload's text; of linear queries their SQL."""
    if not words.endswith(" linear"):
        return words
    sizes = {attribute.name: attribute.regular for attribute in domain if attribute.regular <= MOST_VALUES}
    return "; ".join(query for query, _, _ in statements(list(sizes), sizes, int(words.split()[0])))


def cpu() -> float:
    """Seconds of this process, all threads together."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def one(table: str, words: str, epsilon: float, mechanism: str, *, planned_only: bool = False) -> dict:
    """One release, with what its plan said."""
    how = how_of(mechanism)
    neighbours = NEIGHBOURS.get(how["mechanism"], "add_remove")
    db, domain, _ = load(table, neighbours, 1 / ROWS[table] ** 2, public="prior" in how)
    how["workload"] = workload_of(domain, words)
    plan = db.plan("t", epsilon, assume_rows=ROWS[table], **how)
    found = {"planned_s": float(plan.seconds[0]), "planned_mb": float(plan.memory_mb[0])}
    if not planned_only:
        begin = cpu()
        db.synthesize("t", epsilon, **how).df()
        found["cpu_s"] = cpu() - begin
        found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return found


def row(name: str, mechanism: str, runs: list[dict]) -> list[str]:
    """One line of the table: the median of the runs."""
    failed = [run["error"] for run in runs if run.get("error")]
    if failed:
        return [*name.split("/"), mechanism, failed[0], *[""] * 5]
    line = [*name.split("/"), mechanism]
    for taken, planned, form in (("cpu_s", "planned_s", "{:.1f}"), ("peak_mb", "planned_mb", "{:.0f}")):
        value, predicted = (float(np.median([run[key] for run in runs])) for key in (taken, planned))
        line += [form.format(value), form.format(predicted), f"{predicted / value:.2f}"]
    return line


def main() -> None:
    """Print one line for each table, workload, ε and mechanism."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--line", nargs="+", default=LINES, help="table/workload/epsilon")
    parser.add_argument("--mechanism", nargs="+", default=["projection"], help="name, or name:option=value,…")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=900, help="the most that one run may take")
    parser.add_argument("--plan", action="store_true", help="print plans alone, as JSON")
    parser.add_argument("--write", metavar="SECTION", help="into RESULTS.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        table, words, epsilon, mechanism = options.worker.split("/", 3)
        print(json.dumps(one(table, words, float(epsilon), mechanism, planned_only=options.plan)))
        return
    rows = []
    for name in options.line:
        for mechanism in options.mechanism:
            worker = [sys.executable, __file__, "--worker", f"{name}/{mechanism}"]
            if options.plan:
                print(
                    json.dumps({"line": name, "mechanism": mechanism, **ask([*worker, "--plan"], options.seconds)}),
                    flush=True,
                )
                continue
            rows.append(row(name, mechanism, [ask(worker, options.seconds) for _ in range(options.runs)]))
            print("  ".join(rows[-1]), flush=True)
    if options.write:
        results.write(options.write, results.table(HEADER, rows))


if __name__ == "__main__":
    main()
