"""What counting in Postgres takes for tables of ten shapes, beside what a plan predicts.

    python -m tests.benchmarks.postgres_shapes

Each table has columns of one kind, or of all in turn, and its marginals are pairs of columns. CPU seconds are those of
this process and of the server's.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path
from typing import Final

from tests.engines.postgres_bank import Bank, bank
from tests.engines.postgres_server import remove

from .counting_cost import counted

MARGINALS: Final = 40
SHAPES: Final = (
    (10_000, 3, "whole", 20),
    (100_000, 10, "whole", 20),
    (1_000_000, 3, "text", 8),
    (300_000, 10, "numeric", 20),
    (100_000, 30, "numeric", 100),
    (300_000, 10, "text", 20),
    (100_000, 10, "text", 500),
    (300_000, 10, "date", 24),
    (100_000, 30, "all", 20),
    (1_000_000, 5, "all", 3),
)
"""Rows, columns, their kind, values or bins of each."""
KINDS: Final = {
    "whole": ("int4", "(random() * {0})::int4 % {0}"),
    "numeric": ("numeric(9,2)", "(random() * 1000)::numeric(9,2)"),
    "text": ("text", "'value ' || ((random() * {0})::int4 % {0})"),
    "date": ("date", "DATE '2020-01-01' + ((random() * 700)::int4)"),
}


def declared(kind: str, size: int) -> dict[str, object]:
    """The domain of a column."""
    match kind:
        case "whole":
            return {"lower": 0, "upper": size - 1}
        case "numeric":
            return {"lower": "0", "upper": "1000", "bins": size}
        case "text":
            return {"values": [f"value {n}" for n in range(size)]}
    return {"lower": "2020-01-01", "upper": "2021-12-31", "bins": size}


def measure(found: Bank, rows: int, columns: int, kind: str, size: int) -> None:
    """Print a line of the table."""
    kinds = list(itertools.islice(itertools.cycle(KINDS if kind == "all" else [kind]), columns))
    listed = ", ".join(f"{KINDS[one][1].format(size)} AS c{place}" for place, one in enumerate(kinds))
    found.sql(f"CREATE TABLE t AS SELECT {listed} FROM generate_series(1, {rows})")
    found.sql("VACUUM ANALYZE t")
    found.source("t")
    found.db.protect("t", epsilon=3.0, delta=1e-9)
    found.db.domains("t", {f"c{place}": declared(one, size) for place, one in enumerate(kinds)})
    _, marginals, figures = counted(found, "t", rows, 2, MARGINALS)
    print(f"| {rows:,} | {columns} {kind} | {size} | {marginals} | {figures} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    share = parser.parse_args().share
    print("| rows | columns | values | marginals | CPU s | predicted | within 3 |\n| --- |" + " --- |" * 6)
    for rows, *shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder, bank(Path(folder)) as found:
            measure(found, int(rows * share), *shape)
    remove()


if __name__ == "__main__":
    main()
