"""What a user of Quack sends may end Quack's process: the other door stays as it is, and Quack is there again."""

from __future__ import annotations

import time
from contextlib import suppress

import duckdb
import psycopg
import pytest

from tests.service.conftest import free_port, need_quack, serving
from tests.service.test_quack import Client
from tests.service.test_workers import DEADLY, ENDLESS

ENDING = {"dies": DEADLY[0], "cannot be interrupted": ENDLESS}


@pytest.fixture(scope="module")
def quack(tmp_path_factory):
    need_quack()
    port = free_port()
    with serving(tmp_path_factory.mktemp("quack"), quack=port, statement_seconds=2.0) as served:
        yield served, port


@pytest.mark.medium
@pytest.mark.parametrize("sql", ENDING.values(), ids=ENDING)
def test_the_other_door_stays_and_quack_comes_back(quack, sql):
    served, port = quack
    front, before = served.service.process("front"), served.service.process("quack")
    with psycopg.connect(served.dsn("alice"), autocommit=True) as alice:
        client = Client(served, port)
        assert client.ask("SELECT 1 AS a") == [(1,)]
        with pytest.raises(duckdb.Error):
            client.ask(sql)
        assert alice.execute("SELECT 2").fetchall() == [(2,)], "in the session that was there"
        with suppress(duckdb.Error):
            client.db.close()
        deadline = time.monotonic() + 120
        while True:
            try:
                with Client(served, port) as again:
                    assert again.ask("SELECT 3 AS a") == [(3,)]
                break
            except duckdb.Error:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert alice.execute("SELECT 4").fetchall() == [(4,)]
    assert served.service.process("front") == front
    assert served.service.process("quack") != before
