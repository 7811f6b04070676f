"""`dpsql demo`: a simulated census (or a file of one's own), protected, planned, synthesised and compared.

The census is drawn from public rules (see `sql/census.sql`), so comparing the synthetic table with it harms nobody. For
a file of one's own only the noisy measurements and the synthetic table are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pandas as pd
from sqlglot import exp

from dpsql.api.cli_report import said_of
from dpsql.api.database import Database, connect
from dpsql.books.statements import read_text
from dpsql.core.column_types import column_type
from dpsql.errors import DpsqlError, InvalidArgument

BUDGET: Final = 3.0
DELTA: Final = 1e-9
_MOST_VALUES: Final = 100
_QUESTIONS: Final = {
    "How many people are there of each employment?": ["employment"],
    "Employment by sex": ["sex", "employment"],
    "Smokers by region": ["region", "smoker"],
}


def load_census(db: Database) -> None:
    """Create the table `census` of 50,000 simulated people."""
    db.sql(read_text("census"))


def declare_census(db: Database) -> None:
    """Declare what everybody knows of the census' columns; BOOLEAN columns declare themselves."""
    for name in ("sex", "education"):
        db.domain("census", name, type=True)  # ENUM types that `sql/census.sql` lists, whoever is in the census
    db.domain("census", "age", lower=0, upper=99, bins=50)
    db.domain("census", "region", values=["North", "East", "South", "West", "Capital"])
    db.domain("census", "employment", values=["child", "student", "employed", "unemployed", "retired"])
    db.domain("census", "income", edges=[0, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 7500, 10000, 20000, 50000])
    db.domain("census", "hours", lower=0, upper=80, bins=16)
    db.domain("census", "height", lower=40.0, upper=220.0, bins=36)
    db.domain("census", "born", lower="1926-01-01", upper="2026-12-31", bins=50)
    db.domain("census", "last_visit", lower="2025-01-01 00:00:00", upper="2025-12-31 23:59:59", bins=12)
    db.domain("census", "children", lower=0, upper=8)


def load_file(db: Database, path: str) -> str:
    """Load a CSV or Parquet file as the table `input`; returns the name."""
    source = Path(path)
    reader = {".csv": "read_csv", ".gz": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}.get(source.suffix)
    if reader is None or not source.is_file():
        raise InvalidArgument(f"--input is {path!r}: give an existing .csv, .csv.gz or .parquet file")
    call = exp.func(reader, exp.Literal.string(str(source)), dialect="duckdb")
    create = exp.Create(
        this=exp.to_table("input"), kind="TABLE", expression=exp.select("*").from_(exp.Table(this=call)), replace=True
    )
    db.sql(create.sql(dialect="duckdb"))
    return "input"


def declare_file(db: Database, table: str) -> list[str]:
    """Guess domains from a file, for a first look only, and return warnings.

    Reading a domain off private rows is not private; the demo says so for each column that it does it for.
    """
    warnings = []
    for name, kind in db.sql(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]
    ).fetchall():
        column = exp.column(exp.to_identifier(name, quoted=True))
        if column_type(kind).declares_itself:
            continue
        distinct = exp.select(exp.Count(this=exp.Distinct(expressions=[column]))).from_(table)
        few = db.sql(distinct.sql(dialect="duckdb")).fetchall()[0][0] <= _MOST_VALUES
        if column_type(kind).has_bins and not few:
            text = exp.select(*(exp.cast(exp.func(f, column.copy()), "VARCHAR") for f in ("min", "max"))).from_(table)
            low, high = db.sql(text.sql(dialect="duckdb")).fetchall()[0]
            db.domain(table, name, lower=low, upper=high)
        elif few:
            listed = exp.select(exp.cast(column, "VARCHAR")).distinct().from_(table).order_by("1")
            rows = db.sql(listed.sql(dialect="duckdb")).fetchall()
            db.domain(table, name, values=[value for (value,) in rows if value is not None] or ["-"])
        else:
            db.domain(table, name, exclude=True)
            warnings.append(f"{name}: more than {_MOST_VALUES} texts, excluded")
            continue
        warnings.append(f"{name}: its domain was read off the data, which is not private; declare it with dp_domain")
    return warnings


def run(path: str, input_file: str | None, epsilon: float, echo: Callable[[str], None]) -> None:
    """Run the demonstration and say what happens.

    Args:
        path: of the DuckDB file to make.
        input_file: a CSV or Parquet file instead of the census.
        epsilon: of the release.
        echo: prints a line.
    """
    begin = time.monotonic()
    if Path(path).exists():
        raise InvalidArgument(f"{path} exists already: give another --database, or remove it")
    with connect(path) as db:
        db.sql("SET enable_progress_bar = false")  # dpsql shows its own
        if input_file is None:
            echo("1. A simulated census of 50,000 people, in a DuckDB file\n")
            table = "census"
            load_census(db)
        else:
            echo(f"1. {input_file}, loaded into a DuckDB file\n")
            table = load_file(db, input_file)
        echo(_text(db.sql(f"SELECT column_name, column_type FROM (DESCRIBE {table})").df()))  # noqa: S608 - our own name
        _protect(db, table, is_census=input_file is None, echo=echo)
        _plan(db, table, epsilon, echo)
        _synthesize(db, table, epsilon, echo)
        echo("\n5. The budget\n\n   FROM dp_budget();\n")
        echo(_text(db.budget()))
        echo("\n6. The same questions to the noisy measurements and to the synthetic table")
        questions = _QUESTIONS if input_file is None else _first_columns(db)
        for title, columns in questions.items():
            echo(f"\n   {title}\n")
            echo(_text(compare(db, columns, "census" if input_file is None else None)))
        echo("\n7. How good it is, by what was released\n")
        for line in (*said_of(db.release(2)), *_reported(db, path)):
            echo(f"   {line}")
    echo(f"\nDone in {time.monotonic() - begin:.1f} s. Open the file with dpsql.connect({path!r}).")


def _protect(db: Database, table: str, *, is_census: bool, echo: Callable[[str], None]) -> None:
    echo("\n2. The owner protects it and declares what is public\n")
    echo(f"   CALL dp_protect('{table}', epsilon := {BUDGET:g}, delta := {DELTA:g});")
    db.protect(table, epsilon=BUDGET, delta=DELTA)
    if is_census:
        echo(f"   CALL dp_domain('{table}', 'age', lower := 0, upper := 99, bins := 50);  and so on")
        declare_census(db)
        return
    for warning in declare_file(db, table):
        echo(f"   warning: {warning}")


def _plan(db: Database, table: str, epsilon: float, echo: Callable[[str], None]) -> None:
    echo(f"\n3. What a release would measure (free)\n\n   FROM dp_plan('{table}', epsilon := {epsilon:g});\n")
    plan = db.plan(table, epsilon, assume_rows=50_000)
    plan = plan[plan["stddev"].notna()]  # without what is left out
    plan = plan.assign(columns=plan["marginal"].map(len))
    summary = plan.groupby("columns").agg(
        marginals=("cells", "size"), cells=("cells", "sum"), stddev=("stddev", "mean"), noise_l1=("noise_l1", "median")
    )
    echo(_text(summary.round(4).reset_index()))


def _synthesize(db: Database, table: str, epsilon: float, echo: Callable[[str], None]) -> None:
    call = f"FROM dp_synthesize('{table}', epsilon := {epsilon:g})"
    echo(f"\n4. The synthetic table\n\n   CREATE TABLE synthetic AS {call};\n")
    started = time.monotonic()
    db.sql(f"CREATE TABLE synthetic AS {call}")
    echo(f"   {time.monotonic() - started:.1f} s; the same call again is free:")
    started = time.monotonic()
    rows = len(db.sql(call).df())
    echo(f"   {rows:,} rows in {time.monotonic() - started:.2f} s\n")
    echo(_text(db.sql("FROM synthetic LIMIT 5").df()))


def _reported(db: Database, path: str) -> list[str]:
    """Write the report beside the database, and say where; how to get one, where its packages are not installed."""
    target = str(Path(path).with_suffix(".html"))
    try:
        db.release(2).report().save(target)
    except DpsqlError as error:
        return [f"There is a page to look at, too: {error}"]
    return [f"The report, a page to look at: {target}"]


def _first_columns(db: Database) -> dict[str, list[str]]:
    """A few columns of few values, to show."""
    sql = (
        "SELECT columns FROM dp_measurements(2) WHERE len(columns) = 1 GROUP BY measurement, columns "
        "HAVING count(*) <= 12 ORDER BY measurement LIMIT 3"
    )
    return {f"Rows by {columns[0]}": list(columns) for (columns,) in db.sql(sql).fetchall()}


def compare(db: Database, columns: Sequence[str], simulated: str | None) -> pd.DataFrame:
    """Counts by some columns, given in the table's order: measured with noise, synthetic, and as simulated.

    Args:
        db: with the table `synthetic`, made from release 2.
        columns: of a measured marginal whose cells are single values.
        simulated: the source, if it is not private; None leaves its column out.
    """
    measured = db.sql(
        "SELECT cell, value, stddev FROM dp_measurements(2) WHERE columns = ?", [list(columns)]
    ).fetchall()
    found = pd.DataFrame([(*cell, value, round(stddev, 1)) for cell, value, stddev in measured])
    found.columns = pd.Index([*columns, "measured", "stddev"])
    for name, table in (("synthetic", "synthetic"), ("simulated", simulated)):
        if table is None:
            continue
        texts = [exp.func("coalesce", exp.cast(_column(c), "VARCHAR"), exp.Literal.string("NULL")) for c in columns]
        counts = exp.select(*texts, exp.Count(this=exp.Star())).from_(table).group_by("ALL")
        known = {tuple(key): count for *key, count in db.sql(counts.sql(dialect="duckdb")).fetchall()}
        found[name] = [known.get(tuple(cell), 0) for cell in found[list(columns)].itertuples(index=False)]
    shown = found if simulated is None else found[(found["simulated"] > 0) | (found["synthetic"] > 0)]
    return shown.head(12)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _text(frame: pd.DataFrame) -> str:
    shown = frame.astype(object).where(frame.notna(), "NULL").map(lambda x: f"{x:g}" if isinstance(x, float) else x)
    return "\n".join("   " + line for line in shown.to_string(index=False, max_colwidth=28).splitlines())
