"""How time and memory grow with rows, columns, n′ and workload size: a table, and a plot in docs/images/growth.png.

Simulated tables of 16 columns × 10 values whose columns depend on a hidden class; each point is a cold process, from its
start to the synthetic table, everything included. Needs matplotlib for the plot.
"""

from __future__ import annotations

import time

BEGIN = time.monotonic()

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

PLOT = Path(__file__).parents[2] / "docs" / "images" / "growth.png"
BASE = {"rows": 100_000, "columns": 16, "relaxed_rows": 512, "marginals": 64}
AXES = {
    "rows": [10_000, 100_000, 1_000_000, 10_000_000],
    "columns": [8, 16, 32, 64],
    "relaxed_rows": [64, 256, 512, 1024, 2048],
    "marginals": [4, 16, 64, 256, 560],
}
LABELS = {
    "rows": "rows n",
    "columns": "columns (10 values each)",
    "relaxed_rows": "relaxed rows n′",
    "marginals": "3-way marginals",
}


def one(rows: int, columns: int, relaxed_rows: int, marginals: int) -> dict[str, float]:
    """One release of a table of that kind."""
    import dpsql

    with dpsql.connect() as db:
        value = (
            "((hash(i % 7, {0}) % 10 + (hash(i, {0}) % 100 < 40)::INT * (hash(i, {0}, 1) % 10)) % 10)::UTINYINT AS c{0}"
        )
        listed = ", ".join(value.format(k) for k in range(columns))
        db.sql(f"CREATE TABLE t AS SELECT {listed} FROM range({rows}) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-9)
        for k in range(columns):
            db.domain("t", f"c{k}", lower=0, upper=9, nulls=False)
        workload = f"{min(marginals, 56 if columns == 8 else marginals)} random 3-way seed 0"
        db.synthesize("t", 1.0, workload=workload, relaxed_rows=relaxed_rows)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall": time.monotonic() - BEGIN,
        "cpu": usage.ru_utime + usage.ru_stime,
        "gib": usage.ru_maxrss / 2**20,
    }


def plot(found: dict[str, list[dict[str, float]]]) -> None:
    """Two rows of panels: seconds and memory, one column for each axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, panels = plt.subplots(2, len(AXES), figsize=(13, 5.2), sharex="col", sharey="row", layout="constrained")
    for column, (axis, points) in enumerate(AXES.items()):
        for row, (keys, unit) in enumerate(((("wall", "cpu"), "seconds"), (("gib",), "peak memory, GiB"))):
            panel = panels[row][column]
            for key, style in zip(keys, ("o-", "s--"), strict=False):
                label = {"wall": "wall", "cpu": "CPU", "gib": "peak"}[key]
                panel.plot(points, [point[key] for point in found[axis]], style, label=label, markersize=4)
            panel.set_xscale("log")
            panel.set_xticks(points, [f"{p:,}" if p < 10_000 else f"{p:.0e}".replace("e+0", "e") for p in points])
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
            if column == 0:
                panel.set_ylabel(unit)
            if row:
                panel.set_xlabel(LABELS[axis])
    panels[0][0].legend()
    figure.suptitle(
        f"From a cold process to a synthetic table; n = {BASE['rows']:,}, {BASE['columns']} columns, "
        f"n′ = {BASE['relaxed_rows']}, {BASE['marginals']} marginals where not on the axis"
    )
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, dpi=110)


def main() -> None:
    """Run all points, print them, draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into RESULTS.md and docs/images/growth.png")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(one(**json.loads(options.worker))))
        return
    found: dict[str, list[dict[str, float]]] = {}
    lines = []
    for axis, points in AXES.items():
        found[axis] = []
        for point in points:
            asked = json.dumps(BASE | {axis: point})
            done = subprocess.run(
                [sys.executable, __file__, "--worker", asked], capture_output=True, text=True, check=True
            )
            result = json.loads(done.stdout)
            found[axis].append(result)
            values = [f"{result[key]:.1f}" for key in ("wall", "cpu")]
            lines.append([LABELS[axis], f"{point:,}", *values, f"{result['gib']:.2f}"])
            print("  ".join(lines[-1]), flush=True)
    if options.write:
        import results

        plot(found)
        results.write("Growth", results.table(["axis", "at", "wall s", "CPU s", "peak GiB"], lines))


if __name__ == "__main__":
    main()
