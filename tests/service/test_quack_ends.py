"""What a user of Quack sends ends or fills their own process at most: others' sessions and the other door stay."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import duckdb
import psycopg
import pytest

from dpsql.service.options import Options
from dpsql.service.process import most_of_user
from dpsql.service.quack_messages import LONGEST
from tests.service import test_memory as memory
from tests.service.conftest import free_port, need_quack, serving
from tests.service.processes import children_of, workers_of
from tests.service.test_quack import HOST, Client
from tests.service.test_workers import DEADLY, ENDLESS

ENDING = {"dies": DEADLY[0], "cannot be interrupted": ENDLESS}
SECONDS = 5.0


@pytest.fixture(scope="module")
def quack(tmp_path_factory):
    need_quack()
    port = free_port()
    options = {"quack": port, "statement_seconds": SECONDS, "memory": memory.MEMORY, "login_seconds": 3.0}
    with serving(tmp_path_factory.mktemp("quack"), **options) as served:
        yield served, port


@pytest.mark.medium
@pytest.mark.parametrize("sql", ENDING.values(), ids=ENDING)
def test_a_statement_ends_the_sessions_of_its_own_user_at_most(quack, sql):
    served, port = quack
    door, front = served.service.process("quack"), served.service.process("front")
    with psycopg.connect(served.dsn("alice"), autocommit=True) as other, Client(served, port, "rita") as rita:
        answers, ended = [], threading.Event()

        def ask():
            while not ended.is_set():
                answers.append(rita.ask("SELECT count(*) FROM range(100000)"))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            alice, second = Client(served, port), Client(served, port)
            with pytest.raises(duckdb.Error, match="too large or too deep|twice its time limit"):
                alice.ask(sql)
            with pytest.raises(duckdb.Error, match="connect again"):
                second.ask("SELECT 1")
            for client in (alice, second):
                with suppress(duckdb.Error):
                    client.db.close()
            with Client(served, port) as again:  # at once: nobody waits for a start of the door
                assert again.ask("SELECT 3 AS a") == [(3,)]
        finally:
            ended.set()
            asking.join()
        assert set(map(tuple, answers)) == {((100_000,),)}
        assert rita.ask("SELECT 4") == [(4,)], "in the session that was there"
        assert other.execute("SELECT 2").fetchall() == [(2,)]
    assert (served.service.process("quack"), served.service.process("front")) == (door, front)


@pytest.mark.medium
def test_memory_is_bounded_for_each_user(quack):
    served, port = quack
    most = most_of_user(Options("x", memory=memory.MEMORY)) // (1 << 20)
    with Client(served, port, "rita") as rita, memory.weighed(served.service.process("quack")) as weight:
        client = Client(served, port)
        for name in ("lists of texts", "texts"):
            with suppress(duckdb.Error):
                client.ask(memory.statement(name))
        with suppress(duckdb.Error):
            client.db.close()
        assert rita.ask("SELECT 1") == [(1,)]
        assert 200 < weight() < most + memory.MAPPED


@pytest.mark.medium
def test_each_user_has_a_process_and_no_password_reaches_it(quack):
    served, port = quack
    door = served.service.process("quack")
    with Client(served, port), Client(served, port), Client(served, port, "rita"):
        assert 2 <= len(workers_of(door)) <= 3, "and that of the heartbeat"
        for process in (*children_of(door), *workers_of(door)):
            with open(f"/proc/{process}/environ") as file:
                assert "DPSQL_LEDGER_KEY" not in file.read()


@pytest.mark.medium
def test_the_bound_of_memory_is_set_when_the_threads_of_the_server_are_there(quack):
    """Its pool starts behind its back: a bound that was set before left some threads no stack, and a server none."""
    code = """
        import os
        from dpsql.service import quack_worker
        from dpsql.service.options import Options

        class Shared:
            options = Options("x", memory="100MB")

        class Line:
            def beat(self, at_work):
                pass

        quack_worker.QuackServer(Shared(), Line())
        print(len(os.listdir("/proc/self/task")), flush=True)
        os._exit(0)
    """
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, timeout=60)
        assert int(run.stdout) >= 128, run.stderr


def listening(processes):
    """The ports that processes listen on."""
    inodes = set()
    for process in processes:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(descriptor.readlink()))
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


@pytest.mark.medium
def test_what_comes_before_a_login_is_short_and_waits_for_nobody(quack):
    served, port = quack
    with socket.create_connection((HOST, port)) as long:
        long.sendall(b"POST /quack HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (LONGEST + 1))
        assert long.recv(1000).startswith(b"HTTP/1.1 413")
    with socket.create_connection((HOST, port)) as endless, suppress(OSError):
        for _ in range(1000):
            endless.sendall(b"x: " + b"a" * 1000 + b"\r\n")
        while endless.recv(1000):
            pass
    silent = [socket.create_connection((HOST, port)) for _ in range(200)]
    silent[-1].sendall(b"POST /quack HTTP/1.1\r\n")
    with Client(served, port) as client:
        assert client.ask("SELECT 1") == [(1,)]
    for one in silent:
        one.settimeout(60)
        with suppress(ConnectionError):
            assert one.recv(1) == b"", "it was sent away"
        one.close()


@pytest.mark.medium
def test_a_user_has_so_many_sessions_and_no_more(tmp_path):
    need_quack()
    port = free_port()
    with serving(tmp_path, quack=port, user_connections=2, connections=3, processes=2) as served:
        first, second = Client(served, port), Client(served, port)
        with pytest.raises(duckdb.Error, match="2 clients of alice are connected"):
            Client(served, port)
        with Client(served, port, "rita") as rita:
            assert rita.ask("SELECT 1") == [(1,)]
            with pytest.raises(duckdb.Error, match="3 clients are connected"):
                Client(served, port, "rita")
        for client in (first, second):
            client.db.close()
        deadline = time.monotonic() + 120
        while True:  # who has gone is noticed within seconds
            try:
                Client(served, port).db.close()
                break
            except duckdb.Error:
                assert time.monotonic() < deadline
                time.sleep(0.5)
