"""`dpsql demo --linked`: simulated clients, accounts and payments, linked, synthesized at once and compared.

The tables are drawn from public rules (see `sql/bank.sql`), so comparing the synthetic ones with them harms nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pandas as pd

from dpsql.api.cli_report import said_of
from dpsql.api.database import Database, connect
from dpsql.api.demo import BUDGET, DELTA, shown
from dpsql.api.output import folded
from dpsql.api.release import Release
from dpsql.books.ledger.statements import read_text
from dpsql.errors import InvalidArgument

_SCRIPT: Final = f"""\
CALL dp_protect('clients', epsilon := {BUDGET:g}, delta := {DELTA:g});
CALL dp_link('accounts', 'clients', most := 5);
CALL dp_link('payments', 'accounts', most := 7);
CALL dp_domain('clients', 'age', lower := 18, upper := 87, bins := 7);
CALL dp_domain('clients', 'region', "values" := ['North', 'East', 'South', 'West']);
CALL dp_domain('accounts', 'kind', "values" := ['current', 'savings', 'loan']);
CALL dp_domain('payments', 'purpose', "values" := ['food', 'travel', 'interest']);
"""
_CLIENTS: Final = 30_000
_QUESTIONS: Final = {
    "How many clients have so many accounts?": (
        "SELECT accounts, count(*) AS clients "
        "FROM (SELECT count(account) AS accounts FROM {0}clients LEFT JOIN {0}accounts USING (client) GROUP BY client) "
        "GROUP BY ALL"
    ),
    "Accounts by region and kind": (
        "SELECT region, kind, count(*) AS accounts FROM {0}clients JOIN {0}accounts USING (client) GROUP BY ALL"
    ),
    "Payments by kind of account and purpose": (
        "SELECT kind, purpose, count(*) AS payments FROM {0}accounts JOIN {0}payments USING (account) GROUP BY ALL"
    ),
}


def run(path: str, epsilon: float, echo: Callable[[str], None]) -> None:
    """Run the demonstration and say what happens.

    Args:
        path: of the DuckDB file to make.
        epsilon: of the release.
        echo: prints a line.
    """
    begin = time.monotonic()
    if Path(path).exists():
        raise InvalidArgument(f"{path} exists already: give another --database, or remove it")
    with connect(path) as db:
        db.sql("SET enable_progress_bar = false")  # dpsql shows its own
        echo(f"1. Simulated clients of a bank, {_CLIENTS:,} of them, with accounts and payments\n")
        _run_all(db, read_text("bank"))
        echo("2. The owner protects the clients, links the tables below, and declares what is public\n")
        _run_all(db, _SCRIPT)
        echo("\n".join(f"   {line}" for line in _SCRIPT.splitlines()))
        script = Path(path).with_suffix(".sql")
        script.write_text(_SCRIPT, encoding="utf-8")
        release = _release(db, epsilon, echo)
        echo("\n6. How good it is, by what was released\n")
        for line in said_of(release):
            echo(folded(line, "   "))
    echo("\n" + folded(f"Done in {time.monotonic() - begin:.1f} s. Open the file with dpsql.connect({path!r})."))
    echo(folded(f"The script that protects and links the tables is {script}."))


def _run_all(db: Database, text: str) -> None:
    for part in db.connection.extract_statements(text):
        db.sql(part.query)


def _release(db: Database, epsilon: float, echo: Callable[[str], None]) -> Release:
    """Synthesize all tables at once, and ask both databases the same questions."""
    call = f"FROM dp_synthesize('clients', epsilon := {epsilon:g}, linked := true)"
    echo(f"\n3. The synthetic database, in one release\n\n   {call};")
    started = time.monotonic()
    release = db.synthesize("clients", epsilon, linked=True)
    rows = release.to_schema("synthetic")
    echo(f"   CALL dp_publish({release.entry.number}, 'synthetic');\n")
    made = ", ".join(f"{count:,} {table}" for table, count in rows.items())
    echo(f"   {made} in {time.monotonic() - started:.1f} s, with PRIMARY and FOREIGN KEYs\n")
    echo("4. The budget, which is one for the three tables\n")
    echo(shown(db.budget()))
    echo("\n5. The same joins over the simulated and over the synthetic tables")
    for title, question in _QUESTIONS.items():
        echo(f"\n   {title}\n")
        echo(shown(_compared(db, question)))
    return release


def _compared(db: Database, question: str) -> pd.DataFrame:
    """The answers of both databases, side by side."""
    simulated, synthetic = (db.sql(question.format(schema)).df() for schema in ("main.", "synthetic."))
    *groups, count = simulated.columns
    both = simulated.merge(synthetic, on=groups, how="outer", suffixes=(" simulated", " synthetic"))
    for name in both.columns.difference(groups):
        both[name] = both[name].fillna(0).astype(int)
    return both.sort_values(groups).rename(columns=lambda name: name.removeprefix(f"{count} "))
