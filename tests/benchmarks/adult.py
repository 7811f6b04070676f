"""The main job on the raw Adult table, from a cold process: time, peak memory, and the free second call."""

from __future__ import annotations

import resource
import time

BEGIN = time.monotonic()

import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

import dpsql  # noqa: E402

DATA = Path(__file__).parents[3] / "shared" / "data"
CALL = "FROM dp_synthesize('adult', epsilon := 1.0)"


def main() -> None:
    """Print what docs/explanation/figures.md states."""
    path = Path(tempfile.mkdtemp()) / "adult.duckdb"
    with dpsql.connect(path) as db:
        db.sql(f"CREATE TABLE adult AS FROM '{DATA}/adult.csv.gz'")
        db.protect("adult", epsilon=3.0, delta=1e-9)
        for name, kind in db.sql(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'adult'"
        ).fetchall():
            if kind == "VARCHAR":
                listed = f'SELECT DISTINCT "{name}" FROM adult WHERE "{name}" IS NOT NULL ORDER BY 1'
                db.domain("adult", name, values=[value for (value,) in db.sql(listed).fetchall()])
            else:
                low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM adult').fetchall()[0]
                db.domain("adult", name, lower=low, upper=high)
        first = time.monotonic()
        rows = db.sql(CALL).fetchall()
        now = time.monotonic()
        print(
            f"cold process to rows   {now - BEGIN:6.1f} s, of which dp_synthesize {now - first:.1f} s, {len(rows)} rows"
        )
        spent = db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()
        same = db.sql(f"DESCRIBE {CALL}").fetchall() == db.sql("DESCRIBE adult").fetchall()
        begin = time.monotonic()
        again = db.sql(CALL).fetchall()
        print(
            f"the same call again    {time.monotonic() - begin:6.3f} s, rows identical: {again == rows}, schema the source's: {same}"
        )
        print(
            f"budget unchanged       {db.sql('SELECT epsilon_spent FROM dp_budget()').fetchall() == spent}, spent {spent[0][0]:g}"
        )
        print(f"peak memory            {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:6.2f} GiB")


if __name__ == "__main__":
    main()
