"""`dpsql demo`: a simulated census (or a file of one's own), protected, planned, synthesized and compared.

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
from dpsql.api.output import folded, terminal_width
from dpsql.api.proposing.propose import propose
from dpsql.api.proposing.script import Script
from dpsql.books.ledger.statements import read_text
from dpsql.engines.duckdb.calls import literal
from dpsql.errors import DpsqlError, InvalidArgument

BUDGET: Final = 3.0
DELTA: Final = 1e-9
_MOST_SHOWN: Final = 4
_WIDTH: Final = 120
_FACTS: Final = ("age >= 10 OR height < 120", "age >= 15 OR height < 170")
"""What everybody knows of children, so that noise makes none of them as tall as a man."""
_PAIRS: Final = ", workload := 'all 2-way'"
_QUESTIONS: Final = {
    "How many people are there of each employment?": ["employment"],
    "Employment by sex": ["sex", "employment"],
    "Smokers by region": ["region", "smoker"],
}


def load_census(db: Database) -> None:
    """Create the table `census` of 50,000 simulated people."""
    db.sql(read_text("census"))


def declare_census(db: Database) -> None:
    """Declare what everybody knows: of columns (BOOLEAN ones declare themselves), and how tall children are."""
    for name in ("sex", "education"):
        db.domain("census", name, type=True)  # ENUM types that `sql/census.sql` lists, whoever is in the census
    db.domain("census", "age", lower=0, upper=99, bins=20)
    db.domain("census", "region", values=["North", "East", "South", "West", "Capital"])
    db.domain("census", "employment", values=["child", "student", "employed", "unemployed", "retired"])
    db.domain("census", "income", edges=[0, 500, 1000, 1500, 2000, 3000, 5000, 10000, 50000])
    db.domain("census", "hours", lower=0, upper=80, bins=8)
    db.domain("census", "height", lower=40.0, upper=220.0, bins=18)
    db.domain("census", "born", lower="1926-07-01", upper="2026-06-30", bins=20)
    db.domain("census", "last_visit", lower="2025-01-01 00:00:00", upper="2025-12-31 23:59:59", bins=4)
    db.domain("census", "children", lower=0, upper=8)
    for fact in _FACTS:
        db.constraint("census", fact)


def load_file(db: Database, script: Script) -> None:
    """Run the script that loads a file, protects it and declares its columns; it was read off the file's rows.

    Reading a domain off private rows is not private; the script says so for each column that it does it for.
    """
    for part in db.connection.extract_statements(script.text):
        db.sql(part.query)


def run(
    path: str, input_file: str | None, epsilon: float, echo: Callable[[str], None], nullstr: Sequence[str] = ()
) -> None:
    """Run the demonstration and say what happens.

    Args:
        path: of the DuckDB file to make.
        input_file: a CSV or Parquet file instead of the census.
        epsilon: of the release.
        echo: prints a line.
        nullstr: texts of a CSV file that mean NULL.
    """
    begin = time.monotonic()
    if Path(path).exists():
        raise InvalidArgument(f"{path} exists already: give another --database, or remove it")
    made = None if input_file is None else _proposed(input_file, nullstr)
    with connect(path) as db:
        db.sql("SET enable_progress_bar = false")  # dpsql shows its own
        if made is None:
            echo("1. A simulated census of 50,000 people, in a DuckDB file\n")
            load_census(db)
            script = _protect_census(db, echo)
        else:
            echo(f"1. {input_file}, loaded into a DuckDB file, protected and declared by this script\n")
            script = made.text
            echo(_shortened(script))
            load_file(db, made)
        table = "census" if made is None else made.table
        written = Path(path).with_suffix(".sql")
        written.write_text(script, encoding="utf-8")
        if made is not None and not made.keeps_columns:
            echo("\nNo column has a domain, so there is nothing to release: read the script, and declare one.")
        else:
            _release(db, table, path, epsilon, is_census=made is None, echo=echo)
    echo("\n" + folded(f"Done in {time.monotonic() - begin:.1f} s. Open the file with dpsql.connect({path!r})."))
    echo(folded(f"The script that protects {table} and declares its columns is {written}."))


def _proposed(input_file: str, nullstr: Sequence[str]) -> Script:
    if not Path(input_file).is_file():
        raise InvalidArgument(f"--input is {input_file!r}: give an existing .csv, .csv.gz or .parquet file")
    return propose(input_file, epsilon=BUDGET, delta=DELTA, owner_looks=True, nullstr=nullstr)


def _shortened(text: str) -> str:
    """A script for the terminal: a line that is longer than most are is cut."""
    return "\n".join("   " + (line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…") for line in text.splitlines())


def _protect_census(db: Database, echo: Callable[[str], None]) -> str:
    """Protect the census and declare its columns; returns the script that does so."""
    echo(shown(db.sql("SELECT column_name, column_type FROM (DESCRIBE census)").df()))
    echo("\n2. The owner protects it and declares what is public\n")
    protection = f"CALL dp_protect('census', epsilon := {BUDGET:g}, delta := {DELTA:g});"
    db.protect("census", epsilon=BUDGET, delta=DELTA)
    declare_census(db)
    declared = [statement for statement in db.domains("census")["statement"] if isinstance(statement, str)]
    facts = [f"CALL dp_constraint('census', {literal(fact)});" for fact in _FACTS]
    for line in (protection, *declared[:_MOST_SHOWN], *facts):
        echo(folded(_shortened(line).strip(), "   "))
    echo(f"   and {len(declared) - _MOST_SHOWN} more columns")
    return "\n".join((protection, *declared, *facts)) + "\n"


def _release(
    db: Database, table: str, path: str, epsilon: float, *, is_census: bool, echo: Callable[[str], None]
) -> None:
    """Plan, synthesize, compare and judge; the release is the second event of the books."""
    target = "synthetic" if table != "synthetic" else "synthetic_rows"
    arguments = f"epsilon := {epsilon:g}{_PAIRS if is_census else ''}"
    _plan(db, table, arguments, echo)
    if is_census:
        words = str(db.forecast(table, epsilon, assume_rows=50_000, workload="all 2-way"))
        echo("\n" + folded(words, "   "))
    _synthesize(db, table, target, arguments, echo)
    echo("\n5. The budget\n\n   FROM dp_budget();\n")
    echo(shown(db.budget()))
    echo("\n6. The same questions to the noisy measurements and to the synthetic table")
    for title, columns in (_QUESTIONS if is_census else _first_columns(db)).items():
        echo(f"\n   {title}\n")
        echo(shown(compare(db, columns, target, "census" if is_census else None)))
    echo("\n7. How good it is, by what was released\n")
    for line in (*said_of(db.release(2)), *_reported(db, path)):
        echo(folded(line, "   "))


def _plan(db: Database, table: str, arguments: str, echo: Callable[[str], None]) -> None:
    call = f"FROM dp_plan({literal(table)}, {arguments}, assume_rows := 50000)"
    echo(f"\n3. What a release would measure (free)\n\n   {call};\n")
    plan = db.sql(call).df()
    plan = plan[plan["stddev"].notna()]  # without what is left out
    plan = plan.assign(columns=plan["marginal"].map(len))
    summary = plan.groupby("columns").agg(
        marginals=("cells", "size"), cells=("cells", "sum"), stddev=("stddev", "mean"), noise_l1=("noise_l1", "median")
    )
    echo(shown(summary.round(4).reset_index()))


def _synthesize(db: Database, table: str, target: str, arguments: str, echo: Callable[[str], None]) -> None:
    call = f"FROM dp_synthesize({literal(table)}, {arguments})"
    echo(f"\n4. The synthetic table\n\n   CREATE TABLE {target} AS {call};\n")
    started = time.monotonic()
    db.sql(f"CREATE TABLE {target} AS {call}")
    echo(f"   {time.monotonic() - started:.1f} s; the same call again is free:")
    started = time.monotonic()
    rows = db.sql(f"SELECT count(*) {call}").fetchall()[0][0]
    echo(f"   {rows:,} rows in {time.monotonic() - started:.2f} s\n")
    echo(shown(db.sql(f"FROM {target} LIMIT 5").df()))


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


def compare(db: Database, columns: Sequence[str], target: str, simulated: str | None) -> pd.DataFrame:
    """Counts by some columns, given in the table's order: measured with noise, synthetic, and as simulated.

    Args:
        db: with a synthetic table, made from release 2.
        columns: of a measured marginal whose cells are single values.
        target: the synthetic table.
        simulated: the source, if it is not private; None leaves its column out.
    """
    measured = db.sql(
        "SELECT cell, value, stddev FROM dp_measurements(2) WHERE columns = ?", [list(columns)]
    ).fetchall()
    counts_frame = pd.DataFrame([(*cell, value, round(stddev, 1)) for cell, value, stddev in measured])
    counts_frame.columns = pd.Index([*columns, "measured", "stddev"])
    best = counts_frame.sort_values("stddev", kind="stable").drop_duplicates(list(columns))  # what was measured twice
    counts_frame = best.sort_index().reset_index(drop=True)
    for name, table in (("synthetic", target), ("simulated", simulated)):
        if table is None:
            continue
        texts = [exp.func("coalesce", exp.cast(_column(c), "VARCHAR"), exp.Literal.string("NULL")) for c in columns]
        counts = exp.select(*texts, exp.Count(this=exp.Star())).from_(table).group_by("ALL")
        row_counts = {tuple(key): count for *key, count in db.sql(counts.sql(dialect="duckdb")).fetchall()}
        counts_frame[name] = [
            row_counts.get(tuple(cell), 0) for cell in counts_frame[list(columns)].itertuples(index=False)
        ]
    rows = (
        counts_frame
        if simulated is None
        else counts_frame[(counts_frame["simulated"] > 0) | (counts_frame["synthetic"] > 0)]
    )
    return rows.head(12)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def shown(frame: pd.DataFrame) -> str:
    """A table for the terminal."""
    texts = frame.astype(object).where(frame.notna(), "NULL").map(lambda x: f"{x:g}" if isinstance(x, float) else x)
    width = (terminal_width() or 1000) - 3
    lines = texts.to_string(index=False, max_colwidth=28, line_width=width).splitlines()
    return "\n".join("   " + line for line in lines)
