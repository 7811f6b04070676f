"""What `dpsql init --owner-looks` sees of order and of steps: facts such as admitted <= discharged, times in minutes."""

from __future__ import annotations

import re

import duckdb
import pytest

import dpsql
from dpsql.api.proposing.propose import propose

STAYS = """
    CREATE TABLE stays AS
    SELECT day AS admitted, CAST(day + (hash(i + 1) % 9)::INTEGER AS DATE) AS discharged,
        (day + INTERVAL (hash(i + 2) % 1440) MINUTE)::TIMESTAMP AS seen_at,
        (CAST(day + (hash(i + 1) % 9)::INTEGER AS DATE))::TIMESTAMP AS billed,
        least_rate AS least_rate, least_rate + hash(i + 3) % 20 AS usual_rate, least_rate + 20 + hash(i + 4) % 40 AS most_rate,
        TIME '08:00:00' + INTERVAL (hash(i + 5) % 36 * 15) MINUTE AS opened,
        TIME '08:00:00' + INTERVAL (hash(i + 5) % 36 * 15 + hash(i + 6) % 5 * 15) MINUTE AS closed,
        (hash(i + 7) % 50)::INTEGER AS ward, 1000 + (hash(i + 8) % 900)::INTEGER AS cost
    FROM (SELECT i, DATE '2023-01-01' + (hash(i) % 700)::INTEGER AS day, (40 + hash(i + 9) % 60)::INTEGER AS least_rate
          FROM range(12000) r(i))
"""


@pytest.fixture
def bank(tmp_path, monkeypatch):
    """A function that makes the bank anew, with further statements, and proposes its script."""
    monkeypatch.chdir(tmp_path)

    def proposed(*further: str):
        with duckdb.connect("bank.duckdb") as con:
            con.execute(STAYS.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"))
            for statement in further:
                con.execute(statement)
        return propose("bank.duckdb:stays", owner_looks=True)

    return proposed


def facts(script) -> set[str]:
    """The constraints that the script states, and those of numbers, which wait for the owner's word."""
    stated = re.findall(r"^(?:-- )?CALL dp_constraint\('stays', '(.*?)', looked := true\);", script.text, re.MULTILINE)
    return {text.replace('"', "") for text in stated}


def declared(script, column: str) -> str:
    part = next(part for part in script.text.split("\n\n") if f"'stays', '{column}'" in part)
    return " ".join(part.replace("\n--  ", "").split())


# --- orders -----------------------------------------------------------------------------------------------------------

ORDERS = {
    "least_rate <= usual_rate",
    "usual_rate <= most_rate",
    "opened <= closed",
    "admitted <= discharged",
    "CAST(seen_at AS DATE) <= discharged",
}
BROKEN = (
    "discharged = admitted - 1, billed = admitted - 1",
    "seen_at = discharged + INTERVAL 1 DAY",
    "usual_rate = least_rate - 1",
    "closed = TIME '07:00:00'",
)


@pytest.mark.medium
def test_orders_that_all_rows_have_are_stated(bank):
    """Of numbers, dates, timestamps, both together, and times; a missing value breaks none.

    What follows from two others is not said, nor is what holds of columns whose values hardly overlap.
    """
    stated = facts(bank("UPDATE stays SET discharged = NULL WHERE rowid % 3 = 0"))
    assert stated >= ORDERS
    assert not {one for one in stated if "least_rate <= most_rate" in one or "cost" in one or "ward" in one}


@pytest.mark.medium
def test_an_order_that_one_row_breaks_is_not_stated(bank):
    """Each is broken by a row of its own, which a look at some rows would hardly see."""
    updates = (f"UPDATE stays SET {row} WHERE rowid = {11_999 - place}" for place, row in enumerate(BROKEN))
    assert facts(bank(*updates)) & ORDERS == {"usual_rate <= most_rate"}


@pytest.mark.medium
def test_what_follows_only_in_some_rows_is_stated_too(bank):
    """Where the day of the bill is missing, nothing else says that who left had come before."""
    stated = facts(bank("UPDATE stays SET billed = NULL WHERE rowid % 4 > 0", "ALTER TABLE stays DROP seen_at"))
    assert {"admitted <= CAST(billed AS DATE)", "admitted <= discharged"} <= stated
    stated = facts(bank("UPDATE stays SET usual_rate = NULL WHERE rowid % 4 > 0"))
    assert {"least_rate <= usual_rate", "usual_rate <= most_rate", "least_rate <= most_rate"} <= stated


@pytest.mark.medium
def test_no_type_and_no_value_keeps_a_script_from_being_written(bank):
    """Types that have no letters, and a moment that another precision does not hold, in a row that a sample misses."""
    script = bank(
        "ALTER TABLE stays ADD COLUMN lasted INTERVAL",
        "ALTER TABLE stays ADD COLUMN zoned TIMETZ",
        "ALTER TABLE stays ADD COLUMN precise TIMESTAMP_NS",
        "UPDATE stays SET lasted = to_seconds(rowid), zoned = (opened::VARCHAR || '+02')::TIMETZ, precise = billed",
        "UPDATE stays SET seen_at = TIMESTAMP '5000-01-01', billed = TIMESTAMP '5000-01-01' WHERE rowid = 11999",
    )
    assert {"admitted <= discharged", "opened <= closed"} <= facts(script)


@pytest.mark.medium
def test_few_rows_suggest_no_order(bank):
    assert not any("<=" in one for one in facts(bank("DELETE FROM stays WHERE rowid >= 60")))


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_one_row_makes_a_step_finer(bank):
    """The last row alone differs in each column: a look at some rows would not see it."""
    spans = {"SECOND": 1, "MILLISECOND": 0.001, "MICROSECOND": None, "HOUR": 3600, "MINUTE": 60}
    never = "UPDATE stays SET billed = TIMESTAMP '9999-12-31 23:59:59' WHERE rowid < 12"  # outside the bounds
    added = (f"ALTER TABLE stays ADD COLUMN by_{span} TIMESTAMP" for span in spans)
    filled = (f"UPDATE stays SET by_{span} = billed" for span in spans)
    later = (f"UPDATE stays SET by_{span} = by_{span} + INTERVAL 1 {span} WHERE rowid = 11999" for span in spans)
    script = bank(*added, *filled, *later, never)
    assert "step := 86400, looked := true" in declared(script, "billed")
    for span, step in spans.items():
        text = declared(script, f"by_{span}")
        assert (f"step := {step}, looked := true" in text) if step else ("step" not in text), span


@pytest.mark.medium
def test_synthetic_rows_are_in_order_and_in_steps(bank):
    """Minutes of a timestamp, quarters of hours as minutes, midnight of a date that is stored as a timestamp."""
    script = bank()
    steps = {"seen_at": 60, "opened": 60, "billed": 86_400}
    for column, step in steps.items():
        assert f"step := {step}, looked := true" in declared(script, column)
    assert "step" not in declared(script, "admitted")
    with dpsql.connect("bank.duckdb") as db:
        for part in db.connection.extract_statements(script.text):
            db.sql(part.query)
        db.synthesize("stays", epsilon=1.0).to_table("made")
        kept = f"bool_and({' AND '.join(text for text in facts(script) if 'rate' not in text)})"
        whole = (f"bool_and(epoch_us({column}) % {step}000000 = 0)" for column, step in steps.items())
        asked = ", ".join([kept, *whole, "count(DISTINCT minute(seen_at))"])
        assert db.sql(f"SELECT {asked} FROM made").fetchall() == [(True, True, True, True, 60)]
