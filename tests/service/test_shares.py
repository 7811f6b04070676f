"""What is free takes room too: of one user at once it takes a part, and a statement is looked up once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.errors import Interrupted
from dpsql.evaluation import workers
from dpsql.service import keeper
from dpsql.service.supervisor import serve
from dpsql.service.turns import Lookups, Shares

PLAN = "SELECT count(*) FROM dp_plan('SELECT count(*) AS n FROM t', epsilon => 0.1, release => '{}')"
COUNT = "SELECT n FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1)"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans())))
def test_never_more_of_a_user_than_may_be(steps):
    shares, inside = Shares(2), {"a": [], "b": []}
    for user, leaves in steps:
        if leaves:
            if inside[user]:
                inside[user].pop().__exit__(None, None, None)
            continue
        share = shares.share(user, lambda: True)
        if len(inside[user]) < 2:
            share.__enter__()
            inside[user].append(share)
        else:
            with pytest.raises(Interrupted):
                share.__enter__()


def test_who_waits_goes_on_when_another_ends():
    shares, order = Shares(1), []

    def second():
        with shares.share("a", lambda: False):
            order.append("second")

    with shares.share("a", lambda: False):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans())))
def test_what_was_looked_up_is_taken_once_and_few_are_kept(steps):
    lookups, newest = Lookups(3, 1000.0), {}
    for count, (key, takes) in enumerate(steps):
        if takes:
            taken = lookups.take(str(key))
            assert taken in (None, newest.pop(key, None))
        else:
            lookups.keep(str(key), count)
            newest[key] = count
        assert len(lookups._kept) <= 3


def test_what_was_looked_up_long_ago_is_forgotten():
    lookups = Lookups(3, -1.0)
    lookups.keep("a", 1)
    assert lookups.take("a") is None


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    path = tmp_path_factory.mktemp("shares") / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(2000) r(i)")
        db.protect("t", epsilon=10.0, delta=1e-9)
        tokens = {name: db.users.add(name, limits={"t": 5.0}) for name in ("ann", "ben")}
    with serve(str(path), port=0, directory="tests.service.held:open_held") as running:

        def connected(user):
            where = f"host=127.0.0.1 port={running.port} user={user} password={tokens[user]} dbname=dpsql"
            return psycopg.connect(f"{where} sslmode=require", autocommit=True)

        yield path, connected


def looked_up(path):
    return Counter(path.with_name("looked-up").read_text().splitlines())


@pytest.mark.medium
def test_a_users_free_calls_leave_room_for_others(bank):
    """Plans of one user hang while they are looked up; as many processes as there are would be theirs."""
    path, connected = bank

    def ask(number):
        with connected("ann") as ann:
            return ann.execute(PLAN.format(f"held{number}")).fetchall()

    with ThreadPoolExecutor(workers._MOST) as pool:
        asked = [pool.submit(ask, number) for number in range(workers._MOST)]
        try:
            with connected("ben") as ben:
                while not path.with_name("looked-up").exists() or looked_up(path)["ann dp_plan"] < keeper._FREE_CALLS:
                    time.sleep(0.01)
                assert len(ben.execute(COUNT).fetchall()) == 1
                for number in range(3):
                    assert ben.execute(PLAN.format(number)).fetchall() == [(1,)]
            assert looked_up(path)["ann dp_plan"] == keeper._FREE_CALLS < workers._MOST
            assert not any(one.done() for one in asked)
        finally:
            path.with_name("go").touch()
        assert [one.result(120) for one in asked] == [[(1,)]] * workers._MOST, "they waited, and lost nothing"


@pytest.mark.medium
@pytest.mark.parametrize("sql", [PLAN.format("once"), "SELECT count(*) FROM dp_budget()"])
def test_a_statement_is_looked_up_once(bank, sql):
    path, connected = bank
    with connected("ben") as ben:
        ben.execute("SELECT 1")
        before = looked_up(path)
        ben.execute(sql).fetchall()
        assert (looked_up(path) - before).total() == 1
        ben.execute(sql).fetchall()
        assert (looked_up(path) - before).total() == 2, "the next statement sees what is there now"
