"""The page "New rows every month", typed over six simulated months: whose budget is spent, to the last digit."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.errors import InsufficientBudget

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "months.md").read_text(encoding="utf-8")
FIRST = "2026-01"
MONTHS = {f"2026-{month:02}": 500 * month for month in range(1, 7)}
"""How many visits there are in each."""
EXACT = "epsilon := 40, mechanism := 'laplace'"
"""Of which an answer is not the exact count with a probability of 2·e⁻⁴⁰."""


def statements():
    """Those of the page: to protect and declare, to insert January and ask about it."""
    declared, january, *_ = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    inserted, asked = january.split("\n", 1)
    return declared, inserted, asked


def typed(db, month, epsilon=1.0):
    """Insert a month's rows and ask about it, as the page does about January."""
    _, inserted, asked = statements()
    inserted = inserted.replace("DATE '2026-01-01'", f"DATE '{month}-01'").replace("i % 31", "i % 28")
    db.sql(inserted.replace("range(3000)", f"range({MONTHS[month]})"))
    return {ward: n for ward, n, *_ in db.sql(asked.replace("'2026-01'", f"'{month}'")).fetchall()}


def standing(db):
    rows = db.sql("SELECT source, epsilon_pure, epsilon_left, releases FROM dp_budget()").fetchall()
    return {source: tuple(rest) for source, *rest in rows}


@pytest.mark.medium
def test_six_months_as_the_page_has_them():
    with dpsql.connect() as db:
        db.sql(statements()[0])
        for number, month in enumerate(MONTHS, 1):
            before = standing(db)
            typed(db, month)
            now = standing(db)
            assert now == {**before, f'visits."{month}"': (0.4, 0.6, 1)}  # no other line changed
            assert now["visits"] == (0.0, 1.0, 0)
            assert len(now) == number + 1
        spent: Counter[str] = Counter()
        for source, epsilon in db.sql("SELECT source, epsilon FROM dp_ledger() WHERE kind = 'charge'").fetchall():
            spent[source] += Fraction(str(epsilon))
        assert spent == {f'visits."{month}"': Fraction(2, 5) for month in MONTHS}
        with pytest.raises(InsufficientBudget, match=re.escape('visits."2026-01" has ε = 0.6 left')):
            db.query("SELECT count(*) FROM visits", epsilon=0.7, mechanism="laplace", period=FIRST)
        charges = db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall()
        for month in MONTHS:  # the same call again is free
            _, _, asked = statements()
            db.sql(asked.replace("'2026-01'", f"'{month}'")).fetchall()
        assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == charges


@pytest.mark.medium
def test_six_months_are_counted_exactly():
    """With a large ε: the rows of each month, and a quarter of them in ward a."""
    declared, _, asked = statements()
    with dpsql.connect() as db:
        db.sql(declared.replace("epsilon := 1.0", "epsilon := 100"))
        for month, rows in MONTHS.items():
            typed(db, month)
            exact = asked.replace("epsilon := 0.4, mechanism := 'laplace'", EXACT).replace("'2026-01'", f"'{month}'")
            assert {ward: n for ward, n, *_ in db.sql(exact).fetchall() if n} == {"a": rows // 4, "b": rows - rows // 4}
        for month, rows in MONTHS.items():  # once all are there
            sql = f"FROM dp_query('SELECT count(*) AS n FROM visits', {EXACT}, period := '{month}')"
            assert db.sql(sql).fetchall()[0][0] == rows


def test_the_page_shows_what_is_left():
    for line in ('| visits."2026-01" | 1.0 | 0.4 | 0.6 |', "| visits | 1.0 | 0.0 | 1.0 |"):
        assert line in PAGE
