"""Keeper or front killed at random moments under load: each question is charged once and has one answer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psycopg
import pytest

import dpsql
from dpsql.api import owner_door
from dpsql.errors import DpsqlError
from dpsql.service.supervisor import serve

COUNT = "SELECT a, n FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon => 0.01, release => '{}')"
DEADLINE = 120.0


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(6, marks=pytest.mark.slow),
        pytest.param(200, marks=[pytest.mark.slow, pytest.mark.audit, pytest.mark.timeout(7200)]),
    ],
)
def test_a_kill_loses_no_charge_and_tells_nothing_twice(tmp_path, kills):
    path, draw = tmp_path / "bank.duckdb", random.Random(11)
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(2000) r(i)")
        db.protect("t", epsilon=100.0, delta=1e-9)
        token = db.users.add("ann", limits={"t": 50.0})
    told: dict[str, list] = {}
    forgiven = threading.Lock()
    twice: list[str] = []
    ended = threading.Event()
    with serve(str(path), port=0) as running:
        where = f"host=127.0.0.1 port={running.port} user=ann password={token} dbname=dpsql sslmode=require"

        def ask(release):
            """Until there is an answer; one that was told before is the same."""
            until = time.monotonic() + DEADLINE
            while True:
                try:
                    with psycopg.connect(where, autocommit=True) as connection:
                        found = connection.execute(COUNT.format(release)).fetchall()
                    if told.setdefault(release, found) != found:
                        twice.append(release)
                    return
                except psycopg.Error as error:
                    if "were stopped" in str(error):  # as many as a table allows: the owner knows why
                        with forgiven, suppress(DpsqlError, OSError):
                            given = {"action": "forgive", "table": "t", "reason": "processes are killed"}
                            owner_door.ask(str(path), dpsql.connect, "change", given)
                assert time.monotonic() < until, "the service does not come back"
                time.sleep(0.05)

        def client(number):
            count = 0
            while not ended.is_set():
                count += 1
                ask(f"{number}-{count}")
                ask(f"{number}-{max(1, count - 1)}")  # free

        clients = [threading.Thread(target=client, args=[number]) for number in range(4)]
        for one in clients:
            one.start()
        for _ in range(kills):
            before, until = len(told), time.monotonic() + DEADLINE
            while len(told) == before and time.monotonic() < until:  # it is back
                time.sleep(0.01)
            time.sleep(draw.random())
            with suppress(ProcessLookupError):
                os.kill(running.process(draw.choice(["keeper", "front"])), signal.SIGKILL)
        ended.set()
        for one in clients:
            one.join()
    assert twice == []
    with dpsql.connect(path) as db:
        charges = db.ledger().dropna(subset=["release"])
        charges = charges[charges["kind"] == "charge"]
        assert sorted(charges["release"]) == sorted(set(charges["release"])), "none was charged twice"
        assert len(charges) == len(told)
    verified = subprocess.run(
        [sys.executable, "-m", "dpsql", "ledger", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stderr
