"""Columns without a domain: ids that are new, what Faker writes, and nothing of the rows in either."""

from __future__ import annotations

import importlib.util

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.owner.stand_ins import FAKES, stand_ins

QUICK = {"relaxed_rows": 64, "steps": 60}
OPTIONS = "relaxed_rows := 64, steps := 60"
KEYS = {"small": "INTEGER", "large": "HUGEINT", "text": "VARCHAR", "unique": "UUID"}


@pytest.fixture
def clients(db):
    """Rows whose keys and names are secrets of their own."""
    made = {"INTEGER": "-1 - i", "HUGEINT": "-1 - i", "VARCHAR": "'secret ' || i", "UUID": "uuid()"}
    keys = ", ".join(f"({made[kind]})::{kind} AS {name}" for name, kind in KEYS.items())
    db.sql(
        f"CREATE TABLE t AS SELECT {keys}, 'secret ' || i AS client, 'secret ' || i AS note, i % 3 AS visits FROM range(600) r(i)"
    )
    db.protect("t", epsilon=30.0, delta=1e-9)
    for name in KEYS:
        db.domain("t", name, ids=True)
    db.domain("t", "note", exclude=True)
    db.domain("t", "visits", lower=0, upper=2)
    return db


@pytest.mark.medium
def test_ids_are_new_unique_and_of_the_columns_own_type(clients):
    clients.domain("t", "client", exclude=True)
    release = clients.synthesize("t", 5.0, **QUICK)
    table = release.df()
    rows = len(table)
    assert rows > 500
    assert table["small"].tolist() == table["large"].astype(int).tolist() == list(range(1, rows + 1))
    assert table["text"].tolist() == [str(number) for number in range(1, rows + 1)]
    assert table["unique"].nunique() == rows
    assert {str(one)[14] for one in table["unique"]} == {"4"}  # the version of random UUIDs
    assert {str(one)[19] for one in table["unique"]} <= set("89ab")
    assert table["note"].isna().all()
    shown = clients.sql(f"SELECT typeof(COLUMNS(*)) FROM dp_synthesize('t', epsilon := 5.0, {OPTIONS}) LIMIT 1")
    assert dict(zip(shown.columns, shown.fetchall()[0], strict=True)).items() >= KEYS.items()
    real = {str(one) for (one,) in clients.sql('SELECT "unique" FROM t').fetchall()}
    assert real.isdisjoint(map(str, table["unique"]))


@pytest.mark.medium
def test_faker_fills_a_column(clients):
    pytest.importorskip("faker")
    clients.domain("t", "client", fake="city")
    names = clients.synthesize("t", 5.0, **QUICK).df()["client"]
    assert names.notna().all()
    assert names.nunique() > 100
    assert not names.str.contains("secret").any()


def test_every_word_is_one_of_faker():
    pytest.importorskip("faker")
    excluded = tuple(Attribute(word, "VARCHAR", "excluded", fake=word) for word in FAKES)
    frame = stand_ins(Domain((), excluded), 3, np.random.default_rng(1))
    assert {*frame} == {f"s{place}" for place in range(len(FAKES))}
    assert all(text for texts in frame.values() for text in texts)


def test_a_table_without_rows_has_no_ids():
    excluded = tuple(Attribute(name, kind, "excluded", ids=True) for name, kind in KEYS.items())
    frame = stand_ins(Domain((), excluded), 0, np.random.default_rng(1))
    assert {len(column) for column in frame.values()} == {0}


@pytest.fixture
def without_faker(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "faker" else found(name, *more)
    )


def test_without_the_package_a_declaration_is_refused(clients, without_faker):
    with pytest.raises(dpsql.DpsqlError, match=r"pip install 'dpsql\[faker\]'"):
        clients.domain("t", "client", fake="name")


@pytest.mark.medium
def test_without_the_package_a_release_is_refused_before_its_charge(clients, monkeypatch):
    pytest.importorskip("faker")
    clients.domain("t", "client", fake="name")
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "faker" else found(name, *more)
    )
    with pytest.raises(dpsql.DpsqlError, match="not installed"):
        clients.synthesize("t", 5.0, **QUICK)
    assert clients.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    {
        "'flag', ids := true": "it goes with|say it of INTEGER",
        "'tiny', ids := true": "say it of INTEGER",
        "'tiny', fake := 'name'": "it goes with VARCHAR",
        "'text', fake := 'secret'": "fake is 'secret': say one of name, first_name",
        "'text', fake := 'name', ids := true": "a column gets one of them",
        "'text', ids := true, points := [1]": "an excluded column has no domain",
        "'text', ids := true, \"values\" := ['a']": "values and exclude",
        "'text', ids := true, discover := true, epsilon := 1": "leave one of them out",
    }.items(),
)
def test_refused_at_bind(db, arguments, words):
    db.sql("CREATE TABLE t (flag BOOLEAN, tiny TINYINT, text VARCHAR)")
    db.protect("t", epsilon=1, delta=1e-6)
    with pytest.raises(duckdb.Error, match=words):
        db.sql(f"EXPLAIN FROM dp_domain('t', {arguments})")


def test_a_privacy_unit_may_get_ids(db):
    """New ones, one for each row: whose rows belong together is not in a synthetic table."""
    db.sql("CREATE TABLE t AS SELECT i % 50 AS who, i % 2 = 0 AS sick FROM range(100) r(i)")
    db.protect("t", epsilon=1, delta=1e-6, privacy_unit="who", max_rows=2)
    assert db.sql("SELECT kind, size FROM dp_domain('t', 'who', ids := true)").fetchall() == [("excluded", 0)]
