"""Raw tables with missing and undeclared values: rows, NULLs, and what an incomplete domain costs.

    python tests/benchmarks/raw.py --write

Adult with every domain declared. Loans twice: every text column declared with all of its values, which stands for a
code book; or discovered with ε = 0.05 each. Then one release at the same ε each. The total variation is between the
pairs (addr_state, first three letters of zip_code) of the rows and of the synthetic table: as they are, and with all
that the discovery did not find counted as one value, for both ways to declare. As they are, no release after a
discovery can be better than the share of rows whose values were not found: it knows no other values.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import dpsql

DATA = Path(__file__).parents[3] / "shared" / "data"
DISCOVERY = 0.05
HEADER = ["table", "domains", "ε", "rows", "synthetic", "NULLs in columns without", "outside", "TV", "TV, found values"]


def discovered(db: dpsql.Database, table: str, name: str) -> tuple[str, ...]:
    """The values of a column that a discovery finds; where it finds none it is asked again, and charged again."""
    for again in range(4):
        try:
            return db.discover(table, name, epsilon=DISCOVERY + again * 1e-9).values
        except dpsql.DpsqlError as error:
            print(f"{name}: {error}")
    raise SystemExit(f"nothing found of {name}")


def declare(db: dpsql.Database, table: str, *, discover: bool) -> dict[str, tuple[str, ...]]:
    """Numbers between their bounds in at most 100 bins; texts as they are in the rows, or as they are discovered.

    Returns:
        The values that were discovered, by column.
    """
    found = {}
    columns = db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall()
    for name, kind in columns:
        if kind == "VARCHAR" and discover:
            found[name] = discovered(db, table, name)
        elif kind == "VARCHAR":
            rows = db.sql(f'SELECT DISTINCT "{name}" FROM {table} WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
            db.domain(table, name, values=[value for (value,) in rows])
        else:
            low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM {table}').fetchall()[0]
            db.domain(table, name, lower=low, upper=high)
    return found


def variation(db: dpsql.Database, known: dict[str, tuple[str, ...]] | None = None) -> float:
    """The total variation between the pairs of state and zip code of the rows and of the synthetic table.

    Args:
        known: values of either column; all others count as one value, on both sides.
    """
    state, code = "addr_state", "zip_code"
    if known is not None:
        state, code = (
            f"CASE WHEN {name} IN ({', '.join(repr(value) for value in known[name])}) THEN {name} END"
            for name in (state, code)
        )
    pairs = f"SELECT {state} AS s, left({code}, 3) AS z, count(*) / sum(count(*)) OVER () AS p FROM {{}} GROUP BY 1, 2"
    first, second = (pairs.format(table) for table in ("t", "synthetic"))
    sql = (
        f"SELECT sum(abs(coalesce(a.p, 0) - coalesce(b.p, 0))) / 2 FROM ({first}) a FULL JOIN ({second}) b "
        "ON a.s IS NOT DISTINCT FROM b.s AND a.z IS NOT DISTINCT FROM b.z"
    )
    return float(db.sql(sql).fetchall()[0][0])


def measure(table: str, epsilon: float, found: dict[str, tuple[str, ...]], *, discover: bool) -> list[str]:
    """One release; a line of the table. Keeps in `found` what values of state and zip code a discovery finds."""
    with dpsql.connect() as db:
        db.sql(f"CREATE TABLE t AS FROM '{DATA}/{table}.csv.gz'")
        db.protect("t", epsilon=100.0, delta=1e-6)
        found |= declare(db, "t", discover=discover)
        release = db.synthesize("t", epsilon)
        release.to_table("synthetic")
        names = [
            name for (name,) in db.sql("SELECT column_name FROM duckdb_columns() WHERE table_name = 't'").fetchall()
        ]
        nulls = [f'count(*) FILTER ("{name}" IS NULL)' for name in names]
        real, made = (db.sql(f"SELECT count(*), {', '.join(nulls)} FROM {t}").fetchall()[0] for t in ("t", "synthetic"))
        inside = set(names) - set(release.outside)
        wrong = sum(b for name, a, b in zip(names, real[1:], made[1:], strict=True) if a == 0 and name in inside)
        outside = ", ".join(f"{name} {share:.0%}" for name, share in release.outside.items()) or "–"
        same = [f"{variation(db):.3f}", f"{variation(db, found):.3f}"] if table == "loans" else ["–", "–"]
        domains = f"discovered, ε = {DISCOVERY} each" if discover else "declared"
        return [table, domains, f"{epsilon:g}", f"{real[0]:,}", f"{made[0]:,}", str(wrong), outside, *same]


def main() -> None:
    """Print one line for each table, way to declare and ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    options = parser.parse_args()
    rows = []
    found: dict[str, tuple[str, ...]] = {}
    for table, epsilon, discover in (
        ("adult", 1.0, False),
        *(("loans", e, d) for e in (0.05, 1.0) for d in (True, False)),
    ):
        rows.append(measure(table, epsilon, found, discover=discover))
        print("  ".join(rows[-1]), flush=True)
    if options.write:
        import results

        results.write("Raw tables", results.table(HEADER, rows))


if __name__ == "__main__":
    main()
