"""Dates and times of day that a CSV file writes as people do: `25.12.22`, `Dec 25, 2022 2:05 PM`, `9:05 PM`."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

import dpsql
from dpsql.api.proposing.propose import propose
from dpsql.api.proposing.written_dates import FORMATS, formats_of

ROWS = 600


def moment(row: int) -> datetime:
    return datetime(2019, 1, 3, 0, 7, tzinfo=UTC) + timedelta(days=row * 71 % 1700, minutes=row * 37 % 1440)


def written(path, names, texts) -> str:
    """A CSV file of columns, whose texts may have commas."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *zip(*texts, strict=True)])
    return str(path)


def run(script) -> dpsql.Database:
    db = dpsql.connect()
    for part in db.connection.extract_statements(script.text):
        db.sql(part.query)
    return db


@pytest.mark.medium
@pytest.mark.parametrize("turn", range(6))
def test_each_format_is_read_as_what_it_writes(tmp_path, turn):
    """A sixth of the formats at a time, each in a column of its own; what is read back is the moment, cut to the format."""
    formats = FORMATS[turn::60] if turn else [each for each in FORMATS if each.type != "TIMESTAMP"][::3]
    texts = [[moment(row).strftime(each.text) for row in range(ROWS)] for each in formats]
    names = [f"c{place}" for place in range(len(formats))]
    script = propose(written(tmp_path / "t.csv", names, texts), owner_looks=True)
    with run(script) as db:
        types = dict(db.sql("SELECT column_name, column_type FROM (DESCRIBE t)").fetchall())
        for name, each, column in zip(names, formats, texts, strict=True):
            assert types[name] in (each.type, "TIMESTAMP"), each
            read = [value for (value,) in db.sql(f'SELECT "{name}" FROM t').fetchall()]
            whole = datetime(1900, 1, 1, tzinfo=UTC)
            again = [
                (datetime.combine(whole, value) if each.type == "TIME" else value).strftime(each.text) for value in read
            ]
            assert again == column, each


def test_the_order_of_days_and_months_is_what_all_rows_allow(tmp_path):
    """Days up to 12 may be months; one row later than the 12th decides, wherever it stands."""
    first = [f"{1 + row % 12:02d}/{1 + row % 11:02d}/22" for row in range(ROWS)]
    for last, expected in (("25/12/22", "2022-12-25"), ("12/25/22", "2022-12-25"), ("05/03/22", "2022-03-05")):
        path = written(tmp_path / "t.csv", ["seen"], [[*first, last]])
        with run(propose(path, owner_looks=True)) as db:
            assert str(db.sql("SELECT last(seen) FROM t").fetchall()[0][0]) == expected


def test_a_text_that_is_no_date_keeps_a_column_a_text(tmp_path):
    texts = [moment(row).strftime("%d.%m.%y") for row in range(ROWS)]
    texts[400] = "32.02.22"
    script = propose(written(tmp_path / "t.csv", ["seen"], [texts]), owner_looks=True)
    assert "32.02.22" not in script.text
    with run(script) as db:
        assert db.sql("SELECT typeof(seen), count(seen) FROM t GROUP BY 1").fetchall() == [("VARCHAR", ROWS)]


def test_dates_in_texts_of_a_table_are_a_question(tmp_path, monkeypatch):
    """Its first line makes a table that holds them as dates."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            "CREATE TABLE t AS SELECT strftime(DATE '2019-01-03' + (i * 71 % 1700)::INT, '%d.%m.%y') AS seen FROM range(600) r(i)"
        )
    script = propose("bank.duckdb:t", owner_looks=True).text
    assert "dates that are written like 25.12.24: protect a table" in " ".join(script.replace("\n--  ", "").split())
    made = re.search(r"CREATE TABLE dates AS .*?;", script, re.DOTALL)
    assert made is not None
    with duckdb.connect("bank.duckdb") as con:
        con.execute(made[0].replace("\n--", " "))
        assert con.execute("SELECT typeof(seen), count(seen) FROM dates GROUP BY 1").fetchall() == [("DATE", 600)]


def test_months_and_other_texts_are_no_dates():
    """A month without a day is a value; ranges, pressures and versions are none either."""
    for text in ("Dec-22", "2022-W03", "120/80", "1.2", "10-20", "12:30", "2022-12-25", "1h 05m"):
        assert formats_of([text, text]) == []
