"""Points that are discovered: values of many rows, found beside the edges of bins; never one of a single person."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.privacy import distributions

DELTA = 1e-6


@pytest.fixture
def spiky(db):
    """Of 0 are 60 % of the rows, of 99999 10 %, of each other value a handful; -1 stands for NULL; one has a secret."""
    db.sql(
        """CREATE TABLE t AS SELECT
             CASE WHEN i % 10 < 6 THEN 0 WHEN i % 10 = 6 THEN 99999 WHEN i % 10 = 7 THEN -1 ELSE 7 * i % 2000 END AS gain
           FROM range(20000) r(i)"""
    )
    db.sql("INSERT INTO t VALUES (77777)")
    db.sql("CREATE TABLE f AS SELECT (gain / 4)::DOUBLE AS real, gain || '%' AS text, 'c' || gain % 3 AS word FROM t")
    for name in ("t", "f"):
        db.protect(name, epsilon=30.0, delta=DELTA)
    return db


@pytest.mark.medium
def test_heavy_values_become_points(spiky):
    """Noise is 30 rows at most, so values of 2,000 rows are far above 5 % of the rows, and those of 10 far below."""
    found = spiky.discover("t", "gain", epsilon=2.0, lower=0, upper=100_000, bins=8, nulls_as=[-1], heavy=0.05)
    assert (found.points, found.origin, found.nulls_as) == ((0, 99_999), "discovered", ("-1",))
    assert found.labels()[0] == "0"
    assert {"99999", "100000", "NULL"} <= {*found.labels()}
    assert sum(tick < 25_000 for tick in found.ticks) >= 6  # edges are where rows are that are no points
    shown = spiky.sql("SELECT mechanism, epsilon FROM dp_ledger() WHERE kind = 'charge'").fetchall()
    assert shown == [("discover (bins, points)", 2.0)]


@pytest.mark.medium
def test_of_floats_and_of_texts_that_are_numbers(spiky):
    real = spiky.discover("f", "real", epsilon=2.0, lower=-10, upper=30_000, bins=4, heavy=0.05)
    assert real.points == (-0.25, 0.0, 24_999.75)
    text = spiky.discover(
        "f", "text", epsilon=2.0, lower=0, upper=99_999, read_as="INTEGER%", nulls_as=["-1%"], heavy=0.05
    )
    assert (text.points, text.text, text.nulls_as) == ((0, 99_999), True, ("-1%",))


@pytest.mark.medium
def test_no_value_of_one_person_is_a_point(spiky, monkeypatch):
    """Even with noise that lifts the count of every value above every threshold, once the bins are measured."""
    lifted = itertools.chain([0, 0, 0], itertools.repeat(10**9))
    monkeypatch.setattr(distributions, "discrete_gaussian", lambda v, n, e=None: np.full(n, next(lifted)))
    found = spiky.discover("t", "gain", epsilon=1.0, lower=0, upper=100_000, heavy=0.05)
    assert len(found.points) > 300
    assert 77_777 not in found.points


@pytest.mark.medium
def test_a_heavy_value_of_few_people_is_no_point(db, monkeypatch):
    """A tenth of 40 rows are 4 people: too few to be published, even without noise."""
    monkeypatch.setattr(distributions, "discrete_gaussian", lambda v, n, e=None: np.zeros(n, np.int64))
    db.sql("CREATE TABLE few AS SELECT CASE WHEN i < 5 THEN 50 ELSE i END AS x FROM range(40) r(i)")
    db.protect("few", epsilon=3.0, delta=DELTA)
    assert db.discover("few", "x", epsilon=0.5, lower=0, upper=99, heavy=0.1).points == ()


@pytest.mark.medium
def test_the_same_call_again_is_free_and_other_calls_have_the_keys_that_they_had(spiky):
    call = "CALL dp_domain('t', 'gain', lower := 0, upper := 100000, discover := true, epsilon := 0.5{})"
    requests = "SELECT request FROM dpsql.release ORDER BY number"
    first = spiky.sql(call.format(", heavy := 0.1")).fetchall()
    assert spiky.sql(call.format(", heavy := 0.1")).fetchall() == first
    spiky.sql(call.format(""))
    with_heavy, without = (text for (text,) in spiky.sql(requests).fetchall())
    assert '"heavy": "0.1"' in with_heavy
    assert not {"heavy", "nulls_as", "read_as"} & {word for word in ("heavy", "nulls_as", "read_as") if word in without}


@pytest.mark.medium
def test_discovered_values_leave_out_what_stands_for_null(spiky):
    found = spiky.discover("f", "word", epsilon=1.0, nulls_as=["c1"])
    assert (found.values, found.nulls_as, found.nullable) == (("c-1", "c0", "c2"), ("c1",), True)


@pytest.mark.medium
def test_a_unit_is_counted_once_for_a_value(db):
    """20 units of 5 rows each have 5; one unit of 5 rows has 8, which is no point."""
    db.sql(
        "CREATE TABLE u AS SELECT i % 400 AS who, CASE WHEN i % 400 < 200 THEN 5 ELSE i % 1000 END AS x FROM range(2000) r(i)"
    )
    db.sql("UPDATE u SET x = 8 WHERE who = 399")
    db.protect("u", epsilon=30.0, delta=DELTA, privacy_unit="who", max_rows=5)
    assert db.discover("u", "x", epsilon=10.0, lower=0, upper=1000, heavy=0.2).points == (5,)
