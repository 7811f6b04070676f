"""Windows over groups work on answers: they are free, they say nothing of their error, and they mean what SQL means."""

from __future__ import annotations

import pytest

import dpsql
from tests.release.test_query import plain, rows_of, silent


@pytest.fixture
def declared():
    with dpsql.connect() as db:
        db.sql(
            """
            CREATE TABLE t AS
            SELECT ((i + i // 7) % 5)::INTEGER AS a, (i % 3)::INTEGER AS b, TIMESTAMP '2024-01-01' + to_minutes(i * 17) AS seen
            FROM range(2000) r(i)
            """
        )
        db.protect("t", epsilon=1000.0, delta=1e-9)
        db.domain("t", "a", lower=0, upper=4, nulls=False)
        db.domain("t", "b", lower=0, upper=2, nulls=False)
        db.domain("t", "seen", lower="2024-01-01", upper="2024-01-31", bins=30, nulls=False)
        yield db


WINDOWS = (
    "sum(count(*)) OVER ()",
    "100.0 * count(*) / sum(count(*)) OVER ()",
    "round(avg(sum(b)) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), 2)",
    "count(*) - lag(count(*), 1, 0) OVER (ORDER BY a DESC)",
    "first_value(a) OVER (ORDER BY count(*) DESC, a)",
    "dense_rank() OVER (ORDER BY count(*))",
    "max(count(*)) OVER (PARTITION BY a > 1) - min(count(*)) OVER (PARTITION BY a > 1)",
    "ntile(2) OVER (ORDER BY a)",
)
RESULTS = (
    "",
    "HAVING sum(b) > 399",
    "QUALIFY row_number() OVER (ORDER BY count(*) DESC, a) <= 2",
    "HAVING count(*) > 300 QUALIFY x >= 1 OR count(*) = max(count(*)) OVER ()",
    "HAVING sum(b) > 1 ORDER BY sum(count(*)) OVER (ORDER BY a) DESC LIMIT 2",
)


def shown(window: str, rest: str) -> str:
    return f"SELECT a, {window} AS x, count(*) AS n FROM t WHERE a <> 3 GROUP BY a {rest}"


@pytest.mark.medium
def test_windows_are_those_of_sql_and_cost_nothing_more(declared, monkeypatch):
    """With the noise switched off; a window with a rank, HAVING and QUALIFY ask for nothing that was not measured."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    for window in WINDOWS:
        for rest in RESULTS:
            sql = shown(window, rest)
            _, raw = rows_of(declared, sql)
            _, found = rows_of(declared, "SELECT a, x, n FROM dp_query(?, epsilon := 5)", [sql])
            ours, theirs = ([tuple(map(plain, row)) for row in rows if row[2]] for rows in (found, raw))
            assert sorted(ours, key=repr) == sorted(theirs, key=repr), sql
    assert len(declared.releases()) <= 4  # of count(*), and with sum(b) beside it


def test_nothing_is_said_of_the_error_of_what_several_groups_make(declared):
    for window in WINDOWS[:-1]:
        columns = "x_stderr, x_low, x_high"
        rows = declared.sql(f"SELECT {columns} FROM dp_query(?, epsilon := 5)", [shown(window, "")]).fetchall()
        assert set(rows) == {(None, None, None)}, window
    names, _ = rows_of(declared, "FROM dp_query(?, epsilon := 5)", [shown(WINDOWS[-1], "")])
    assert "x_low" not in names  # made of keys alone


@pytest.mark.medium
@pytest.mark.parametrize(
    "condition",
    [
        "strftime(seen, '%H') IN ('00', '23')",
        "date_trunc('hour', seen)::TIME IN (TIME '00:00:00', TIME '23:00:00')",
        "hour(time_bucket(INTERVAL '6 hours', seen)) IN (0, 18)",
        "seen::DATE > DATE '2024-01-05' AND seen < TIMESTAMP '2024-01-21 12:00:00' - INTERVAL '3 days'",
        "strftime(seen::DATE, '%a') = 'Mon'",
    ],
)
def test_parts_of_times_in_wide_bins_are_those_of_each_time(declared, monkeypatch, condition):
    """An expression that is alike at both ends of a day may differ at noon."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    sql = f"SELECT count(*) AS n FROM t WHERE {condition}"
    _, raw = rows_of(declared, sql)
    _, found = rows_of(declared, "SELECT n FROM dp_query(?, epsilon := 5)", [sql])
    assert found == raw
    assert raw[0][0] > 0
