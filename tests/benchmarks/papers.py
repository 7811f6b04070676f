"""The tables on which the figures of the papers are remade, protected in one file, for `dpsql compare`.

    python tests/benchmarks/papers.py papers.duckdb
    dpsql compare papers.duckdb adult --mechanisms rap fem projection --epsilons 0.1 0.3 1 --runs 2 \\
        --workload '64 random 3-way seed 0' --output figure2

Adult and Loans, coded, in the papers' setting: replace_one and δ = 1/n². `people` are the private rows of Adult whose
public part is `public` (add_remove). docs/explanation/claims.md has all commands.
"""

from __future__ import annotations

import argparse
import json

from accuracy import DATA

import dpsql

TABLES = {
    "adult": ("adult_coded", "replace_one"),
    "loans": ("loans_coded", "replace_one"),
    "people": ("adult_priv", "add_remove"),
}
DOMAINS = {"adult": "adult_coded_domain", "loans": "loans_coded_domain", "people": "adult_pub_domain"}


def make(path: str) -> None:
    """Write the tables and protect them; nothing is released of them here."""
    with dpsql.connect(path) as db:
        for table, (file, neighbours) in TABLES.items():
            db.sql(f"CREATE TABLE {table} AS FROM '{DATA}/{file}.csv.gz'")
            rows = db.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            db.protect(table, epsilon=10.0, delta=1 / rows**2, neighbours=neighbours)
            for name, size in json.loads((DATA / f"{DOMAINS[table]}.json").read_text()).items():
                db.domain(table, name, lower=0, upper=size - 1, bins=size, nulls=False)
            print(f"{table}: {rows:,} rows", flush=True)
        db.sql(f"CREATE TABLE public AS FROM '{DATA}/adult_pub.csv.gz'")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a new DuckDB file")
    make(parser.parse_args().file)
