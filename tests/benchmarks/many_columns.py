"""A table of many columns end to end: what a plan predicts, what it takes, and how far off pairs are.

    python -m tests.benchmarks.many_columns --columns 100 --rows 1e6
    python -m tests.benchmarks.many_columns --columns 40 --rows 2e4 --epsilon 5 --copied 26

Each column depends on the one before it, in a fifth to four fifths of the rows, and has 2 to 22 values. With `--copied` columns
go by pairs of so many values, one of which follows from the other in 97 % of the rows: all pairs would be joined. The table lies
in a file, as tables of that size do, or with `--in-memory` beside the synthetic rows. `--evaluate` compares the two at the end.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import tempfile
import time

import dpsql
from tests.benchmarks.cold import cpu

_STEP = 10  # columns that one statement adds


def make(db: dpsql.Database, columns: int, rows: int) -> None:
    """The table `wide`, protected and declared."""
    choose = random.Random(0)
    db.sql(f"CREATE TABLE part AS SELECT i, (hash(i, 0) % 10)::INTEGER AS c0 FROM range({rows}) r(i)")
    sizes = [10]
    for first in range(1, columns, _STEP):
        query = "FROM part"
        for n in range(first, min(first + _STEP, columns)):
            kept = choose.choice([2, 4, 8])
            sizes.append(choose.choice([2, 3, 5, 8, 12, 20]))
            value = f"CASE WHEN hash(i, {n}) % 10 < {kept} THEN hash(c{n - 1}, 'x{n}') ELSE hash(i, 'y{n}') END"
            query = f"SELECT *, ({value} % {sizes[n]})::INTEGER AS c{n} FROM ({query})"
        db.sql(f"CREATE TABLE next AS {query}; DROP TABLE part; ALTER TABLE next RENAME TO part")
    db.sql("CREATE TABLE wide AS SELECT * EXCLUDE (i) FROM part; DROP TABLE part")
    db.protect("wide", epsilon=100.0, delta=1e-12)
    db.domains("wide", {f"c{n}": {"lower": 0, "upper": size - 1} for n, size in enumerate(sizes)})


def make_copied(db: dpsql.Database, columns: int, rows: int, values: int) -> None:
    """The table `wide` of copied pairs."""
    made = []
    for n in range(0, columns, 2):
        first = f"hash(i, {n}) % {values}"
        second = f"CASE WHEN hash(i, 'n', {n}) % 100 < 97 THEN ({first} * 7 + 3) % {values} ELSE hash(i, 'z', {n}) % {values} END"
        made += [f"({first})::INTEGER AS c{n}", f"({second})::INTEGER AS c{n + 1}"]
    db.sql(f"CREATE TABLE wide AS SELECT {', '.join(made)} FROM range({rows}) r(i)")
    db.protect("wide", epsilon=100.0, delta=1e-9)
    db.domains("wide", {f"c{n}": {"lower": 0, "upper": values - 1} for n in range(columns)})


def error(db: dpsql.Database, a: int, b: int) -> float:
    """L1 of a pair."""
    counts = [f"SELECT c{a}, c{b}, count(*) AS n FROM {table} GROUP BY ALL" for table in ("wide", "made")]
    joined = f"({counts[0]}) x FULL JOIN ({counts[1]}) y USING (c{a}, c{b})"
    total = [f"(SELECT count(*) FROM {table})" for table in ("wide", "made")]
    l1 = f"sum(abs(coalesce(x.n, 0) / {total[0]} - coalesce(y.n, 0) / {total[1]}))"
    return float(db.sql(f"SELECT {l1} FROM {joined}").fetchall()[0][0])


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--copied", type=int, help="values of columns that go by copied pairs")
    parser.add_argument("--in-memory", action="store_true")
    parser.add_argument("--evaluate", action="store_true", help="as the owner does, and say how long that takes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, dpsql.connect() if arguments.in_memory else dpsql.connect(f"{folder}/wide.duckdb"))


def measure(arguments: argparse.Namespace, db: dpsql.Database) -> None:
    """Make the table and its synthetic twin, and print the lines."""
    columns, rows = arguments.columns, int(arguments.rows)
    if arguments.copied:
        make_copied(db, columns, rows, arguments.copied)
    else:
        make(db, columns, rows)
    plan = f"dp_plan('wide', epsilon := {arguments.epsilon}, assume_rows := {rows})"
    columns_of_plan = "count(*) FILTER (stddev IS NOT NULL), any_value(seconds), any_value(memory_mb)"
    ((marginals, seconds, memory),) = db.sql(f"SELECT {columns_of_plan} FROM {plan}").fetchall()
    begun, used = time.perf_counter(), cpu()
    db.sql(f"CREATE TABLE made AS FROM dp_synthesize('wide', epsilon := {arguments.epsilon})")
    taken, wall = cpu() - used, time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    pairs = list(itertools.combinations(range(columns), 2))
    some = [error(db, a, b) for a, b in random.Random(1).sample(pairs, min(60, len(pairs)))]
    near = [error(db, n, n + 1) for n in range(0, columns - 1, 2 if arguments.copied else 3)]
    print("| what | predicted | measured |\n| --- | --- | --- |")
    print(f"| marginals measured | {marginals:,} | |")
    print(f"| CPU seconds of the release ({wall:.0f} s) | {seconds:.0f} | {taken:.0f} |")
    print(f"| peak memory of the process, table included | {memory:,.0f} MB | {peak:,.0f} MB |")
    print(f"| mean L1 of {len(some)} random pairs | | {sum(some) / len(some):.4f} |")
    print(f"| mean L1 of {len(near)} pairs of neighbours | | {sum(near) / len(near):.4f} |")
    print(f"| rows | | {db.sql('SELECT count(*) FROM made').fetchall()[0][0]:,} |")
    if arguments.evaluate:
        begun, used = time.perf_counter(), cpu()
        evaluation = db.evaluate("wide", "made")
        taken, wall = cpu() - used, time.perf_counter() - begun
        print(f"| CPU seconds of `evaluate` ({wall:.0f} s) | | {taken:.0f} |")
        print(evaluation)


if __name__ == "__main__":
    main()
