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


def test_who_waits_goes_on_when_another_ends_first_come_first_served():
    shares, order, threads = Shares(1), [], []

    def next_one(number):
        with shares.share("a", lambda: False):
            order.append(number)

    with shares.share("a", lambda: False):
        for number in range(20):
            threads.append(threading.Thread(target=next_one, args=[number]))
            threads[-1].start()
            while len(shares._of["a"]) < number + 2:
                time.sleep(0.001)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == list(range(20))
    assert shares._of == {}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.sampled_from(["keep", "get", "take"]))))
def test_what_was_looked_up_is_taken_once_and_few_of_a_user_are_kept(steps):
    lookups, newest = Lookups(3, 1000.0), {"a": {}, "b": {}}
    for count, (user, key, does) in enumerate(steps):
        if does == "keep":
            lookups.keep(user, str(key), count)
            newest[user].pop(key, None)
            newest[user][key] = count
            if len(newest[user]) > 3:
                del newest[user][next(iter(newest[user]))]
        else:
            wanted = newest[user].pop(key, None) if does == "take" else newest[user].get(key)
            assert getattr(lookups, does)(user, str(key)) == wanted, "another user's look-ups push none of it out"
        assert len(lookups) == sum(map(len, newest.values()))


def test_what_was_looked_up_long_ago_is_forgotten():
    lookups = Lookups(3, -1.0)
    lookups.keep("ann", "a", 1)
    assert lookups.take("ann", "a") is None


def test_what_nobody_comes_for_is_forgotten_by_itself():
    lookups = Lookups(3, 0.05)
    lookups.keep("ann", "a", 1)
    while len(lookups):
        time.sleep(0.01)


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
    file = path.with_name("looked-up")
    return Counter(file.read_text().splitlines() if file.exists() else ())


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
                while looked_up(path)["ann dp_plan"] < keeper._FREE_CALLS:
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


@pytest.mark.medium
def test_a_statement_that_is_described_before_it_runs_is_looked_up_once(bank):
    path, connected = bank
    with connected("ben") as ben:
        for number in range(3):
            before = looked_up(path)
            ben.pgconn.prepare(b"p%d" % number, PLAN.format(f"described {number}").encode())
            ben.pgconn.describe_prepared(b"p%d" % number)
            assert ben.pgconn.exec_prepared(b"p%d" % number, []).get_value(0, 0) == b"1"
            assert (looked_up(path) - before).total() == 1
            ben.pgconn.exec_prepared(b"p%d" % number, [])
            assert (looked_up(path) - before).total() == 2, "each run is a statement of its own"


@pytest.mark.medium
def test_what_was_described_is_as_the_ledger_is_when_it_runs(bank):
    _, connected = bank
    with connected("ben") as ben:
        sql = b"SELECT epsilon_spent FROM dp_budget()"
        ben.pgconn.prepare(b"b", sql)
        ben.pgconn.describe_prepared(b"b")
        before = ben.pgconn.exec_prepared(b"b", []).get_value(0, 0)
        ben.pgconn.describe_prepared(b"b")
        ben.execute("SELECT n FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1, release => 'meanwhile')")
        assert float(ben.pgconn.exec_prepared(b"b", []).get_value(0, 0)) > float(before)


@pytest.mark.medium
def test_users_who_work_together_keep_nobody_out(tmp_path):
    """Four users hold all processes, again and again. Who comes then has the next that ends: see the order of the pool."""
    path = tmp_path / "bank.duckdb"
    hostile = [f"mallory{number}" for number in range(workers._MOST // keeper._FREE_CALLS)]
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(2000) r(i)")
        db.protect("t", epsilon=10.0, delta=1e-9)
        tokens = {name: db.users.add(name, limits={"t": 1.0}) for name in (*hostile, "ben")}
    ended, refused = threading.Event(), []
    with serve(str(path), port=0, directory="tests.service.held:open_brief") as running:

        def connected(user):
            where = f"host=127.0.0.1 port={running.port} user={user} password={tokens[user]} dbname=dpsql"
            return psycopg.connect(f"{where} sslmode=require", autocommit=True)

        def hold(user):
            with connected(user) as connection:
                while not ended.is_set():
                    with pytest.raises(psycopg.Error, match="takes more than a second"):
                        connection.execute(PLAN.format("endless"))
                    refused.append(user)

        threads = [threading.Thread(target=hold, args=[user]) for user in hostile for _ in range(keeper._FREE_CALLS)]
        for thread in threads:
            thread.start()
        try:
            while set(refused) < set(hostile) and all(thread.is_alive() for thread in threads):  # they are all at it
                time.sleep(0.05)
            assert set(refused) == set(hostile)
            with connected("ben") as ben:
                for number in range(2):
                    assert ben.execute(PLAN.format(number)).fetchall() == [(1,)]
        finally:
            ended.set()
            for thread in threads:
                thread.join()
