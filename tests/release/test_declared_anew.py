"""A domain that is declared anew makes a call another request; what was released under the old one stays its answer."""

from __future__ import annotations

import builtins
import importlib.util
import json

import pytest

import dpsql

QUICK = {"relaxed_rows": 16, "steps": 10}


@pytest.fixture
def clients(db):
    db.sql("CREATE TABLE t AS SELECT i AS id, 'secret ' || i AS client, i % 30 AS visits FROM range(600) r(i)")
    db.protect("t", epsilon=30.0, delta=1e-9)
    db.domain("t", "visits", lower=0, upper=29, bins=3)
    db.domain("t", "id", exclude=True)
    db.domain("t", "client", exclude=True)
    return db


def spent(db: dpsql.Database) -> float:
    return float(db.budget().epsilon_spent[0])


@pytest.mark.medium
@pytest.mark.parametrize(
    ("column", "again"),
    [("id", {"ids": True}), ("visits", {"lower": 0, "upper": 29, "bins": 10}), ("visits", {"values": [0, 1]})],
    ids=["ids", "bins", "values"],
)
def test_another_domain_is_another_request(clients, column, again):
    before = clients.synthesize("t", 1.0, **QUICK)
    paid = spent(clients)
    clients.domain("t", column, **again)
    assert float(clients.plan("t", 1.0, **QUICK).epsilon_left[0]) < float(clients.budget().epsilon_left[0])
    after = clients.synthesize("t", 1.0, **QUICK)
    assert after.entry.number != before.entry.number
    assert spent(clients) > paid
    found = {a.name: a for a in (*after.entry.domain, *after.entry.domain.excluded)}[column]
    assert (found.ids, len(found.ticks), len(found.values)) in [(True, 0, 0), (False, 11, 0), (False, 0, 2)]
    # each is its own, and free from now on
    paid = spent(clients)
    assert clients.synthesize("t", 1.0, **QUICK).entry.key == after.entry.key
    clients.domain("t", "id", exclude=True)
    clients.domain("t", "visits", lower=0, upper=29, bins=3)
    assert clients.synthesize("t", 1.0, **QUICK).entry.key == before.entry.key
    assert spent(clients) == paid


@pytest.mark.medium
def test_the_key_of_a_first_request_holds_no_domain(clients):
    """So those of earlier versions are found."""
    release = clients.synthesize("t", 1.0, **QUICK)
    assert "domain" not in json.loads(release.entry.request)
    clients.domain("t", "visits", lower=0, upper=29, bins=2)
    assert "domain" in json.loads(clients.synthesize("t", 1.0, **QUICK).entry.request)


def without_faker(patch: pytest.MonkeyPatch) -> None:
    found, load = importlib.util.find_spec, builtins.__import__

    def loaded(name, *more, **kinds):
        if name == "faker":
            raise ImportError(name)
        return load(name, *more, **kinds)

    patch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "faker" else found(name, *more))
    patch.setattr(builtins, "__import__", loaded)


@pytest.mark.medium
def test_a_release_goes_on_once_the_package_is_there_again(clients, monkeypatch):
    pytest.importorskip("faker")
    clients.domain("t", "client", fake="city")

    def die(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.release.synthesis.stand_ins", die)
        with pytest.raises(ZeroDivisionError):
            clients.synthesize("t", 1.0, **QUICK)
    paid = spent(clients)
    assert paid > 0
    with monkeypatch.context() as patch:
        without_faker(patch)
        with pytest.raises(dpsql.DpsqlError, match=r"pip install 'dpsql\[faker\]', then the same call goes on"):
            clients.synthesize("t", 1.0, **QUICK)
    assert clients.synthesize("t", 1.0, **QUICK).df()["client"].notna().all()
    assert spent(clients) == paid
