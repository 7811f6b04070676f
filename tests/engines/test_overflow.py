"""Bins over more steps than 64 bits count are refused; those that are allowed are counted, summed and drawn exactly."""

from __future__ import annotations

import numpy as np
import pytest

import dpsql

FAR = 2**62
REFUSED = {
    "one bin": {"lower": -FAR, "upper": FAR, "bins": 1},
    "many bins": {"lower": -FAR, "upper": FAR, "bins": 100},
    "edges": {"edges": [-FAR, 0, FAR]},
    "one step too many": {"lower": -FAR // 2, "upper": FAR // 2, "bins": 2},
}


@pytest.fixture
def silent(monkeypatch):
    for kind in ("gaussian", "laplace"):
        monkeypatch.setattr(f"dpsql.privacy.distributions.discrete_{kind}", lambda v, n, e=None: np.zeros(n, np.int64))


def prepare(db, kind: str = "BIGINT") -> None:
    db.sql(f"CREATE TABLE t AS SELECT ((i - 50) * (2::HUGEINT ** 54)::BIGINT)::{kind} AS a FROM range(100) r(i)")
    db.protect("t", epsilon=100.0, delta=1e-6)


@pytest.mark.parametrize("kind", ["BIGINT", "HUGEINT"])
@pytest.mark.parametrize("how", REFUSED)
def test_bins_of_too_many_steps_are_refused(db, how, kind):
    prepare(db, kind)
    with pytest.raises(dpsql.DpsqlError, match=r"steps of (BIGINT|HUGEINT), more than 2\^62: declare nearer bounds"):
        db.domain("t", "a", nulls=False, **REFUSED[how])


def test_too_wide_a_domain_of_an_earlier_version_is_refused_before_the_charge(db, monkeypatch):
    prepare(db)
    monkeypatch.setattr("dpsql.engines.duckdb.declare._MOST_TICKS", 2**64)
    db.domain("t", "a", nulls=False, **REFUSED["one bin"])
    monkeypatch.undo()
    for call in ("dp_query('SELECT sum(a) FROM t WHERE a > 0', epsilon := 1)", "dp_synthesize('t', epsilon := 1)"):
        with pytest.raises(Exception, match=r"more than 2\^62"):
            db.sql(f"FROM {call}").fetchall()
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
@pytest.mark.parametrize("bins", [1, 2, 64])
def test_the_widest_bins_that_are_allowed_answer_rightly(db, silent, bins):
    prepare(db)
    db.domain("t", "a", lower=-FAR // 2, upper=FAR // 2 - 1, bins=bins, nulls=False)
    call = "SELECT n FROM dp_query('SELECT sum(a) AS n FROM t', epsilon := 1)"
    ((found,),) = db.sql(call).fetchall()
    ((exact,),) = db.sql("SELECT sum(a) FROM t").fetchall()
    assert abs(int(found) - int(exact)) <= 100 * 2**31  # a step is 2^30, to which each row is rounded
    made = "SELECT min(a), max(a), count(*), count(DISTINCT a) FROM dp_synthesize('t', epsilon := 1, mechanism := 'direct')"
    low, high, rows, distinct = db.sql(made).fetchall()[0]
    assert -FAR // 2 <= low < high < FAR // 2
    assert (rows, distinct) == (100, 100)
