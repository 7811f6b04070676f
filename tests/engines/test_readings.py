"""Times that are stored as numbers or texts: `read_as` with a form, from SQL to synthetic rows."""

from __future__ import annotations

import datetime

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.domain import Attribute, attribute_from, fields_of
from dpsql.core.readings import ALL, READINGS
from dpsql.engines.duckdb.reading import read, written
from dpsql.errors import InvalidArgument
from tests.depth import depth

DAY = {"lower": "00:00:00", "upper": "23:59:59.999999"}
YEARS = {"lower": "2012-01-01", "upper": "2014-12-31"}
PYTHON = {"YYYYMMDD": "%Y%m%d", "YYYYMM": "%Y%m", "YYYYDDD": "%Y%j", "HHMM": "%H%M", "HHMMSS": "%H%M%S"}
"""What Python's own parser reads the same forms by."""
CON = duckdb.connect()


def attribute(form: str, stored: str) -> Attribute:
    return Attribute("x", READINGS[form].type, "bins", reading=form, stored="" if stored == "VARCHAR" else stored, text=stored == "VARCHAR")  # fmt: skip


def asked(form: str, stored: str, values: list) -> list[tuple]:
    """Whether values are read, what as, and how that is written again, in one statement over a table of them."""
    of = attribute(form, stored)
    value = read(exp.column("x"), of)
    again = written(exp.column("v"), of)
    inner = exp.select("i", exp.alias_(exp.cast(value.copy(), "VARCHAR"), "shown"), exp.alias_(value, "v")).from_("t")
    query = exp.select("shown", again).from_(inner.subquery("r")).order_by("i").sql(dialect="duckdb")
    CON.execute(f"CREATE OR REPLACE TABLE t AS SELECT unnest(range(len(v))) AS i, unnest(v) AS x FROM (SELECT ?::{stored}[] AS v)", [values])  # fmt: skip
    return CON.execute(query).fetchall()


def in_python(form: str, number: int) -> str | None:
    """What a number of a form is, by Python; None where it is none."""
    digits = READINGS[form].digits
    if not 0 <= number < 10**digits:
        return None
    try:
        moment = datetime.datetime.strptime(f"{number:0{digits}d}", PYTHON[form])
    except ValueError:
        return None
    if moment.strftime(PYTHON[form]) != f"{number:0{digits}d}":  # its parser takes day 366 of a year of 365
        return None
    return str(moment.time() if READINGS[form].type == "TIME" else moment.date())


@pytest.mark.medium
@pytest.mark.parametrize("form", sorted(PYTHON))
def test_numbers_are_the_times_that_python_reads(form):
    """All numbers of the clock; of dates those around every month, and the largest and smallest of the type."""
    edges = [0, 1, 99, 100, 2**31, 2**63 - 1, -(2**63), -1, -517]
    years = (1000, 1899, 1900, 2000, 2012, 2013, 2100, 9999)
    numbers = {
        "HHMM": [*range(2400), *range(2401, 2600)],
        "HHMMSS": [h * 10000 + m * 100 + s for h in range(25) for m in (0, 7, 59, 60, 99) for s in (0, 59, 60, 99)],
        "YYYYMM": [y * 100 + m for y in years for m in range(100)],
        "YYYYMMDD": [y * 10000 + m * 100 + d for y in years for m in range(14) for d in (0, 1, 28, 29, 30, 31, 32)],
        "YYYYDDD": [y * 1000 + d for y in years for d in (0, 1, 59, 60, 365, 366, 367, 999)],
    }[form]
    values = [n for n in (*edges, *numbers) if n not in (2400, 240000) and (n < 0 or n >= 1001 * 1000 or form[0] == "H" or (form == "YYYYMM" and n >= 100_000) or n > 2**31)]  # fmt: skip
    found = asked(form, "BIGINT", values)
    for value, (shown, again) in zip(values, found, strict=True):
        assert shown == in_python(form, value), value
        assert again == (None if shown is None else value), value


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 3000) | st.integers(0, 10**8)
STORED = {
    "BIGINT": NUMBERS,
    "DOUBLE": st.floats() | NUMBERS.map(float),
    "HUGEINT": NUMBERS | st.integers(-(2**100), 2**100),
    "VARCHAR": st.text(max_size=12) | NUMBERS.map(str) | st.from_regex(r"\A\d{0,7}:\d{0,3}(:\d{0,3})?\Z"),
}


@pytest.mark.medium
@pytest.mark.parametrize("stored", sorted(STORED))
@settings(max_examples=depth(25), deadline=None)
@given(given_data=st.data())
def test_nothing_stored_fails_and_what_is_written_is_read_again(stored, given_data):
    drawn = given_data.draw(st.lists(STORED[stored] | st.none(), max_size=40))
    values = [value.replace("\0", "") if isinstance(value, str) else value for value in drawn]
    for form in ALL:
        if form.is_number or stored == "VARCHAR":
            kept = [again for shown, again in asked(form.name, stored, values) if shown is not None]
            assert [again for _, again in asked(form.name, stored, kept)] == kept


@pytest.fixture
def times(db):
    db.sql(
        """CREATE TABLE t AS SELECT CASE WHEN i % 10 = 0 THEN 9999 WHEN i % 10 = 1 THEN 1299 WHEN i % 50 = 2 THEN 2400
             ELSE i * 37 % 24 * 100 + i * 13 % 60 END::DOUBLE AS dep,
           lpad((i * 37 % 24 * 100 + i * 13 % 60)::VARCHAR, 4, '0') AS opens,
           strftime(DATE '2012-01-05' + (i % 900)::INTEGER, '%Y%m%d')::INTEGER AS day,
           (i % 9) || ':' || lpad((i % 60)::VARCHAR, 2, '0') || ':07' AS took, 1367385462 + i * 1000 AS at
           FROM range(4000) r(i)"""
    )
    db.protect("t", epsilon=1000, delta=1e-9)
    db.domain("t", "dep", **DAY, bins=24, read_as="HHMM", nulls_as=[9999])
    db.domain("t", "opens", **DAY, bins=8, read_as="hhmm")
    db.domain("t", "day", **YEARS, every="month", read_as="YYYYMMDD")
    db.domain("t", "took", lower=0, upper=36_000, bins=10, read_as="H:MM:SS")
    db.domain("t", "at", lower="2013-05-01", upper="2013-06-30 23:59:59.999999", every="week", read_as="EPOCH")
    return db


@pytest.mark.medium
def test_queries_read_them_as_times(times):
    """1299 is in no hour, 2400 in the last one."""
    row = times.sql(
        "SELECT * FROM dp_query('SELECT count(*) FILTER (WHERE dep IS NULL) AS a, "
        "count(*) FILTER (WHERE hour(dep) >= 12) AS b, count(*) FILTER (WHERE dep >= TIME ''23:00:00'') AS c, "
        "count(*) AS d FROM t', epsilon := 300)"
    ).fetchall()[0][0::4]
    truth = times.sql(
        "SELECT count(*) FILTER (dep = 9999), count(*) FILTER (dep BETWEEN 1200 AND 2400 AND dep <> 1299), "
        "count(*) FILTER (dep BETWEEN 2300 AND 2400), count(*) FILTER (dep <> 1299) FROM t"
    ).fetchall()[0]
    assert row == pytest.approx(truth, abs=6)
    mean, rows = times.sql(
        "SELECT * FROM dp_query('SELECT avg(took) AS d, count(*) FILTER (WHERE year(day) = 2013) AS e FROM t', "
        "epsilon := 300)"
    ).fetchall()[0][0::4]
    truth = times.sql("SELECT avg(took[1]::INT * 3600 + took[3:4]::INT * 60 + 7), count(*) FILTER (day // 10000 = 2013) FROM t").fetchall()[0]  # fmt: skip
    assert mean == pytest.approx(truth[0], rel=0.02)
    assert rows == pytest.approx(truth[1], abs=6)


@pytest.mark.medium
def test_synthetic_rows_hold_times_that_exist(times):
    rows = times.synthesize("t", 500.0, columns=["dep", "opens", "day"], mechanism="direct").df()
    dep = rows["dep"].dropna()
    assert ((dep % 100 < 60) & (dep >= 0) & (dep < 2400)).all()
    assert abs(rows["dep"].isna().mean() - 0.2) < 0.02
    assert rows["opens"].str.fullmatch(r"([01]\d|2[0-3])[0-5]\d").all()
    assert {in_python("YYYYMMDD", int(day)) for day in rows["day"]} >= {"2013-02-01"}
    assert all(in_python("YYYYMMDD", int(day)) for day in rows["day"])
    other = times.synthesize("t", 300.0, columns=["took", "at"], mechanism="direct").df()
    assert other["took"].str.fullmatch(r"\d:[0-5]\d:[0-5]\d|10:00:00").all()
    assert str(other["at"].dtype) == "int64"
    assert other["at"].between(1367366400, 1372636800).all()


@pytest.mark.medium
def test_a_domain_is_told_as_it_was_said(times):
    (told,) = times.sql("SELECT json FROM dp_domains('t', as_json := true)").fetchall()[0]
    before = times.sql("SELECT * EXCLUDE outside FROM dp_domains('t')").fetchall()
    times.sql("CALL dp_domains('t', from_json := ?)", [told])
    assert times.sql("SELECT * EXCLUDE outside FROM dp_domains('t')").fetchall() == before
    assert all("read_as" in statement for (statement,) in times.sql("SELECT statement FROM dp_domains('t')").fetchall())
    one = Attribute("x", "TIME", "bins", reading="HHMM", stored="DOUBLE")
    assert attribute_from(fields_of(one)) == one
    assert not {"reading", "stored"} & {*fields_of(Attribute("x", "TIME", "bins"))}


REFUSED = {
    "'dep', lower := '00:00:00', upper := '12:00:00', bins := 7, read_as := 'HHMM'": "cannot hold",
    "'small', lower := '00:00:00', upper := '00:59:59.999999', bins := 3, read_as := 'HHMM', other := '12:00'": "12:00.*the value of other",
    "'day', lower := '2012-01-01', upper := '2012-11-15', every := 'month', read_as := 'YYYYMM', other := '2013-11-20'": "the value of other",
    "'took', lower := 0, upper := 9, read_as := 'M:SS', other := -90": "the value of other",
    "'day', lower := '2012-01-01', upper := '2012-11-30', every := 'month', read_as := 'YYYYMMDD', other := 'infinity'": "the value of other",
    "'dep', lower := '00:00:00', upper := '23:59:59', points := ['12:00:00'], read_as := 'HHMM'": "cannot hold",
    "'dep', lower := 0, upper := 9, read_as := 'H:MM:SS'": "it goes with a column of texts",
    "'dep', lower := '00:00:00', upper := '23:59:59.999999', bins := 24, read_as := 'HHMM', nulls_as := [1200]": "in the bins too",
    "'took', lower := -7, upper := 8, read_as := 'M:SS'": "cannot hold -7",
    "'small', lower := '00:00:00', upper := '23:59:59.999999', bins := 24, read_as := 'HHMM'": "UTINYINT cannot hold",
    "'single', lower := '2012-01-01', upper := '2012-12-31', every := 'month', read_as := 'YYYYMMDD'": "it goes with",
    "'flag', lower := '00:00:00', upper := '23:59:59.999999', bins := 24, read_as := 'HHMM'": "a column of numbers",
    "'day', lower := '2012-01-01', upper := '12012-12-31', bins := 2, read_as := 'YYYYMMDD'": "cannot hold",
    "'dep', \"values\" := ['12:00:00'], read_as := 'HHMM'": "read_as goes with bins",
    "'dep', lower := '00:00:00', upper := '12:00:00', discover := true, epsilon := 0.1, read_as := 'HHMM'": "in place of discover",
    "'took', lower := '00:00:00', upper := '12:00:00', read_as := 'HHMN'": "HHMM, HMM, HHMMSS",
}  # fmt: skip


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_cannot_be_written_is_refused_when_it_is_declared(db, arguments):
    db.sql("CREATE TABLE t (dep DOUBLE, took VARCHAR, small UTINYINT, single FLOAT, flag BOOLEAN, day INTEGER)")
    db.protect("t", epsilon=1, delta=1e-9)
    with pytest.raises((InvalidArgument, duckdb.Error), match=REFUSED[arguments]):
        db.sql(f"CALL dp_domain('t', {arguments})")


def test_a_time_at_the_end_of_a_day_bounds_bins(db):
    """DuckDB's TIME reaches to 24:00:00; adding microseconds to midnight does not."""
    db.sql("CREATE TABLE t AS SELECT TIME '00:00:00' + INTERVAL (i % 1440) MINUTE AS at FROM range(2880) r(i)")
    db.protect("t", epsilon=1000, delta=1e-9)
    db.domain("t", "at", lower="00:00:00", upper="24:00:00", bins=24)
    (late,) = db.sql("SELECT n FROM dp_query('SELECT count(*) AS n FROM t WHERE hour(at) >= 12', epsilon := 300)").fetchall()[0]  # fmt: skip
    assert late == pytest.approx(1440, abs=6)
