"""What one release costs: CPU seconds and memory of a cold process, and of a second release in the same process.

    python tests/benchmarks/cold.py                    raw Adult at ε 1 and 10, every domain declared
    python tests/benchmarks/cold.py --rows 1000000     and a table of that many rows × 15 columns, at ε = 1

Each line is a process of its own. The seconds of a first release are those of the whole process, from its start to the stored
rows: DuckDB and JAX are loaded, the table is read and its domains are declared. Compiled programs may be in the user's
cache folder, as they are after the first release of a table's shape.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parents[3] / "shared" / "data"
HEADER = ["table", "ε", "first release, CPU s", "second, CPU s", "peak MB"]
SIZES = (100, 50, 40, 30, 20, 16, 12, 10, 8, 8, 6, 5, 4, 3, 2)


def cpu() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def work(rows: int, epsilon: float) -> dict[str, float]:
    """Two releases."""
    import raw

    import dpsql

    with dpsql.connect() as db:
        if rows:
            columns = ", ".join(
                f"((hash(range, {place}) % {size} + range % 7 * {place % 3}) % {size})::INTEGER AS c{place}"
                for place, size in enumerate(SIZES)
            )
            db.sql(f"CREATE TABLE t AS SELECT {columns} FROM range({rows})")
        else:
            db.sql(f"CREATE TABLE t AS FROM '{DATA}/adult.csv.gz'")
        db.protect("t", epsilon=100.0, delta=1e-9)
        raw.declare(db, "t", discover=False)
        db.synthesize("t", epsilon)
        first = cpu()
        db.synthesize("t", epsilon, release="again")
        return {
            "first": first,
            "second": cpu() - first,
            "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def main() -> None:
    """Print one line for each table and ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=0, help="of a further table; none by default")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(int(options.worker[0]), float(options.worker[1]))))
        return
    lines = []
    for rows, epsilon in ((0, 1), (0, 10), *(((options.rows, 1),) if options.rows else ())):
        command = [sys.executable, __file__, "--worker", str(rows), str(epsilon)]
        made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(made.splitlines()[-1])
        name = f"{rows:,} rows × {len(SIZES)} columns" if rows else "adult, raw"
        lines.append([name, str(epsilon), *(f"{found[key]:.1f}" for key in ("first", "second")), f"{found['mb']:.0f}"])
        print("  ".join(lines[-1]), flush=True)
    if options.write:
        import results

        results.write("What one release costs", results.table(HEADER, lines))


if __name__ == "__main__":
    main()
