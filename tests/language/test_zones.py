"""Times with a zone: parts, periods and comparisons, in UTC and on the clocks of zones, are those of every row."""

from __future__ import annotations

import os
import subprocess
import sys

import duckdb
import pytest

import dpsql
from dpsql.core.column_types import registered
from dpsql.errors import DpsqlError
from dpsql.evaluation.zones import step_of
from tests.release.test_query import plain, rows_of, silent

ZONES = ("Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Havana")
"""Offsets of hours, of halves and quarters; clocks that change by half an hour, and at midnight."""
KEYS = (
    "hour({clock})",
    "date_trunc('month', {clock})",
    "{clock}::DATE",
    "dayname({clock})",
    "strftime({clock}, '%Y-%m')",
    "extract(isodow FROM {clock})",
)
CONDITIONS = (
    "{clock} BETWEEN '2024-03-10' AND '2024-04-01'",
    "{clock} < TIMESTAMP '2024-03-31 01:33:21'",
    "{clock}::TIME >= TIME '22:15:00'",
    "{clock}::DATE = '2024-04-07' OR hour({clock}) IN (1, 2)",
)


@pytest.fixture(scope="module")
def declared():
    """Five weeks of events, an odd number of seconds after one another, in which four of the clocks change."""
    with dpsql.connect() as db:
        db.sql("SET TimeZone = 'UTC'")
        db.sql(
            "CREATE TABLE t AS SELECT (TIMESTAMPTZ '2024-03-05 00:00:00+00' + to_seconds(i * 151)) AS seen, "
            "seen::TIMESTAMP AS plain FROM range(20000) r(i)"
        )
        db.sql(
            "INSERT INTO t SELECT seen, seen::TIMESTAMP FROM (SELECT unnest(['2024-04-07 00:00:00', "
            "'2024-04-01 00:00:00', '2024-03-10 00:00:00', '2024-03-10 05:00:00'])::TIMESTAMPTZ AS seen)"
        )
        db.protect("t", epsilon=1000.0, delta=1e-9)
        for name, zone in (("seen", "+00"), ("plain", "")):
            lower, upper = f"2024-03-05 00:00:00{zone}", f"2024-04-08 23:59:59.999999{zone}"
            db.domain("t", name, lower=lower, upper=upper, every="month", nulls=False)
        yield db


def answered(db, sql: str):
    """The groups that have rows, as dp_query answers and as DuckDB does."""
    shown = "n" if sql.startswith("SELECT count") else "k, n"
    _, ours = rows_of(db, f"SELECT {shown} FROM dp_query(?, epsilon := 5)", [sql])
    _, raw = rows_of(db, sql)
    return [sorted((tuple(map(plain, row)) for row in rows if row[-1]), key=repr) for rows in (ours, raw)]


@pytest.mark.medium
@pytest.mark.parametrize("zone", ZONES)
def test_a_zones_clock_is_read_as_duckdb_reads_it(declared, monkeypatch, zone):
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    for place, words in enumerate(KEYS):
        clock = f"timezone('{zone}', seen)" if place % 2 else f"(seen AT TIME ZONE '{zone}')"
        ours, raw = answered(declared, f"SELECT {words.format(clock=clock)} AS k, count(*) AS n FROM t GROUP BY k")
        assert ours == raw, words
    for words in CONDITIONS:
        condition = words.format(clock=f"(seen AT TIME ZONE '{zone}')")
        ours, raw = answered(declared, f"SELECT count(*) AS n FROM t WHERE {condition}")
        assert ours == raw, words


@pytest.mark.medium
def test_without_a_zone_it_is_utc_whatever_the_session_and_the_process_say(declared, monkeypatch):
    """Also constants that name no zone, and what has no zone itself."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    expected = {}
    for words in (*KEYS, "seen >= '2024-04-05 12:00:00'", "{clock}::TIMESTAMP < '2024-04-05 12:00:07'"):
        sql = f"SELECT {words.format(clock='seen')} AS k, count(*) AS n FROM t GROUP BY k"
        ours, expected[words] = answered(declared, sql)
        assert ours == expected[words], words
        of_plain, _ = answered(declared, sql.replace("seen", "plain")) if "month" not in words else (ours, None)
        assert of_plain == ours, words
    script = (
        "import dpsql; db = dpsql.connect(); db.sql(\"SET TimeZone = 'Asia/Tokyo'\");"
        "db.sql(\"CREATE TABLE t AS SELECT TIMESTAMPTZ '2024-05-05 18:00:00+00' AS seen FROM range(1000)\");"
        "db.protect('t', epsilon=1000.0, delta=1e-9);"
        "db.domain('t', 'seen', lower='2024-05-01 00:00:00+00', upper='2024-05-31 00:00:00+00', every='day');"
        "found = db.query(\"SELECT strftime(seen, '%d %H') AS k, count(*) AS n FROM t GROUP BY k\", 100.0);"
        "print(found.k[found.n.idxmax()], '/', db.query(\"SELECT count(*) AS n FROM t WHERE seen < '2024-05-05 18:00:01'\", 100.0).n[0] > 500)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split("/")[0].strip() == "05 18"
    assert shown.stdout.split("/")[1].strip() == "True"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("hour(seen AT TIME ZONE 'Nowhere')", "Unknown TimeZone 'Nowhere'"),
        ("second(seen AT TIME ZONE 'Europe/Berlin')", "not known to be the same"),
        ("(seen AT TIME ZONE 'Europe/Berlin') = '2024-03-01 00:07:00.5'", "not known to be the same"),
        ("seen AT TIME ZONE 'Europe/Berlin'", "not known to be the same"),
    ],
)
def test_what_no_period_of_a_clock_tells_is_refused(declared, words, reason):
    before = len(declared.ledger())
    with pytest.raises(DpsqlError, match=reason):
        declared.query(f"SELECT {words} AS k, count(*) AS n FROM t GROUP BY k", 1.0)
    assert len(declared.ledger()) == before


def test_every_offset_is_a_multiple_of_the_step():
    """As DuckDB has the offsets, of every zone that it knows and Python does: at noon of each month since 1972."""
    with duckdb.connect() as own:
        own.execute("SET TimeZone = 'UTC'")
        names = [name for (name,) in own.execute("SELECT name FROM pg_timezone_names()").fetchall()]
        months = "SELECT TIMESTAMPTZ '1972-02-15 12:00:00+00' + to_months(6 * i) AS noon FROM range(130) r(i)"
        for name in names[::7]:
            sql = f"SELECT max(abs(epoch(noon AT TIME ZONE ?) - epoch(noon)) % {step_of(name)}) FROM ({months})"
            assert own.execute(sql, [name]).fetchall() == [(0.0,)], name


@pytest.mark.medium
@pytest.mark.parametrize("kind", [k.name for k in registered() if k.name.startswith("TIMESTAMP") and k.has_bins])
def test_every_type_of_timestamps_has_a_calendar(kind, monkeypatch):
    """A bin for each month, whatever a tick is."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    with dpsql.connect() as db:
        db.sql("SET TimeZone = 'UTC'")
        db.sql(
            f"CREATE TABLE t AS SELECT (TIMESTAMP '2024-01-01' + to_days(i::INT))::{kind} AS seen FROM range(365) r(i)"
        )
        db.protect("t", epsilon=10.0, delta=1e-9)
        db.domain("t", "seen", lower="2024-01-01", upper="2024-12-31", every="month", nulls=False)
        assert db.sql("SELECT size FROM dp_domains('t')").fetchall() == [(12,)]
        if kind == "TIMESTAMP_NS":  # whose last moment of a month rounds to the next where it becomes microseconds
            return
        sql = "SELECT date_trunc('month', seen) AS k, count(*) AS n FROM t GROUP BY k ORDER BY k"
        found = db.sql("SELECT n FROM dp_query(?, epsilon := 1)", [sql]).fetchall()
        assert [n for (n,) in found] == [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 30]


def test_a_system_without_zones_has_utc(monkeypatch):
    """Parts of times without a zone are taken by days as ever; of clocks by quarters of an hour."""

    def unknown(zone):
        raise KeyError(zone)

    monkeypatch.setattr("dpsql.evaluation.zones.ZoneInfo", unknown)
    assert step_of.__wrapped__("UTC") == 86_400
    assert step_of.__wrapped__("Europe/Berlin") == 900
