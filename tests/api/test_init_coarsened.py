"""Columns that another one decides by intervals or turns: `dpsql init --owner-looks` states that as a constraint."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.api.proposing.propose import propose

pytestmark = pytest.mark.medium

DAYS = """
    SELECT day, monthname(DATE '2022-12-31' + day) AS month, (day + 5) % 7 AS turn, CASE WHEN day < 80 OR day >= 355 THEN 'winter' WHEN day < 172 THEN 'spring' WHEN day < 266 THEN 'summer' ELSE 'autumn' END AS season,
        weekday, free, free = 0 AND weekday BETWEEN 1 AND 5 AS work, bmi, CASE WHEN bmi < 18.5 THEN 'low' WHEN bmi < 25 THEN 'usual' WHEN bmi IS NOT NULL THEN 'high' END AS class,
        coalesce(bmi >= 30, false) AS obese
    FROM (SELECT i, (1 + hash(i) % 365)::INTEGER AS day, (hash(i + 1) % 7)::INTEGER AS weekday, (hash(i + 2) % 9 = 0)::INTEGER AS free,
        CASE WHEN i % 20 > 0 THEN round((1400 + hash(i + 3) % 2500) / 100, 1) END AS bmi FROM range(6000) r(i))
"""
DECIDED = {"month": "day", "turn": "day", "season": "day", "work": "weekday", "class": "bmi", "obese": "bmi"}


@pytest.fixture
def path(tmp_path):
    """A file of days."""
    duckdb.sql(DAYS).write_parquet(str(tmp_path / "days.parquet"))
    return tmp_path / "days.parquet"


def decided(script) -> dict[str, str]:
    """Of each column that another one decides how; only what the script states, not what it asks."""
    stated = re.findall(r"^CALL dp_constraint\('\w+', '(.*)', looked := true\);$", script.text, re.MULTILINE)
    facts = [text.replace("''", "'").split(" IS NOT DISTINCT FROM ") for text in stated if " DISTINCT FROM " in text]
    return {name.strip('"'): text for name, text in facts}


def test_what_another_column_decides_is_stated_and_holds(path):
    """In all real rows, and in the synthetic ones; nothing else is said to follow."""
    script = propose(str(path), owner_looks=True)
    texts = decided(script)
    assert {*texts} == {*DECIDED}
    assert all(re.search(rf"\b{by}\b", texts[name]) for name, by in DECIDED.items())
    assert 'NOT ("month"' not in script.text
    wrong = " OR ".join(f'("{name}" IS DISTINCT FROM ({text}))' for name, text in texts.items())
    assert duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE {wrong}").fetchall() == [(0,)]
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(script.text):
            db.sql(statement.query)
        db.synthesize("days", 3.0, mechanism="direct", workload="all 1-way").to_table("made")
        assert db.sql(f"SELECT count(*) FROM made WHERE {wrong}").fetchall() == [(0,)]
        shares = "SELECT count(*) FILTER (WHERE month = 'February') / count(*), count(DISTINCT month) FROM made"
        assert db.sql(shares).fetchall() == [(pytest.approx(28 / 365, abs=0.05), 12)]


@pytest.mark.parametrize(
    ("column", "denial"),
    [
        ("month", "'May'"),
        ("class", "'low'"),
        ("obese", "NOT obese"),
        ("work", "NOT work"),
        ("season", "NULL"),
        ("turn", "3 - turn"),
    ],
)
def test_what_a_single_row_denies_is_not_stated(path, column, denial):
    """The twin: a sample hardly has the row, all rows have it."""
    with duckdb.connect() as con:
        con.sql(f"CREATE TABLE t AS FROM '{path}'")
        row = "(SELECT min(rowid) FROM t WHERE day = 300 AND bmi > 30)"
        assert con.sql(f"UPDATE t SET {column} = {denial} WHERE rowid = {row} RETURNING 1").fetchall() == [(1,)]
        con.sql("FROM t").write_parquet(str(path.with_name("denied.parquet")))
    texts = decided(propose(str(path.with_name("denied.parquet")), owner_looks=True))
    assert column not in texts
    assert {*texts} == {*DECIDED} - {column}


def test_by_chance_nothing_is_decided(tmp_path):
    """Columns of few values, some of them rare, beside columns of many values that have nothing to do with them."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame({f"x{place}": random.normal(size=4000) for place in range(8)})
    for place, share in enumerate((0.5, 0.1, 0.02, 0.003)):
        frame[f"flag{place}"] = (random.random(4000) < share).astype(int)
        frame[f"few{place}"] = random.integers(0, 3 + place, 4000)
    duckdb.sql("FROM frame").write_parquet(str(tmp_path / "chance.parquet"))
    assert decided(propose(str(tmp_path / "chance.parquet"), owner_looks=True)) == {}
