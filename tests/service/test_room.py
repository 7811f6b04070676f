"""Who has not logged in fills no threads, at no door: a fixed number serves them, and a good login goes through."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from dpsql.api.owner_door import is_served
from dpsql.service import quack, quack_messages, room
from dpsql.service.calls import Calls
from dpsql.service.front import LONGEST_NAME
from dpsql.service.options import Options
from dpsql.service.quack_messages import Request
from dpsql.service.room import Room
from tests.service.conftest import free_port, need_quack
from tests.service.processes import threads
from tests.service.test_quack import HOST, Client
from tests.service.test_workers import bank, health, until

FLOOD = 400
UNKNOWN = "0" * 32


def sent(port: int, message: bytes) -> socket.socket:
    """A connection over which a message was sent."""
    connection = socket.create_connection((HOST, port), timeout=60)
    connection.sendall(Request.written(message))
    return connection


def answer_of(connection: socket.socket) -> bytes:
    with connection:
        answer = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
        return answer


# --- the room ---------------------------------------------------------------------------------------------------------


class Guest:
    """Reads a line, and answers it; who says `no` is refused later."""

    def __init__(self, where: Room, connection: socket.socket) -> None:
        self.room, self.connection = where, connection

    def run(self) -> None:
        line = self.connection.recv(100)
        if line == b"no":
            self.room.refuse_later(self.connection.close)
            return
        with self.connection:
            if line == b"much":
                raise MemoryError
            self.connection.sendall(line)

    def end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def small(request, monkeypatch):
    """The port of a room of three places, in which a login may take so many seconds."""
    monkeypatch.setattr(room, "_LEAST_SECONDS", 0.1)
    where = Room(request.param, 3)
    listening = socket.create_server((HOST, 0))
    serving = threading.Thread(target=where.serve, args=[listening, lambda one, _: Guest(where, one)], daemon=True)
    serving.start()
    return listening.getsockname()[1]


@pytest.mark.parametrize("small", [600.0], indirect=True)
@pytest.mark.parametrize("said", [b"", b"no", b"much"], ids=["silent", "refused", "no memory"])
def test_nobody_keeps_others_out_of_a_room(small, said):
    with ExitStack() as stack:
        for _ in range(20):
            one = stack.enter_context(socket.create_connection((HOST, small), timeout=60))
            one.sendall(said)
        for _ in range(5):
            with socket.create_connection((HOST, small), timeout=120) as good:
                good.sendall(b"hello")
                assert good.recv(100) == b"hello"


@pytest.mark.parametrize("small", [1.0], indirect=True)
def test_a_silent_guest_has_its_time(small):
    with socket.create_connection((HOST, small), timeout=60) as silent:
        assert silent.recv(1) == b""


# --- the doors --------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_wrong_passwords_take_no_threads_at_quack(tmp_path):
    need_quack()
    port = free_port()
    with bank(tmp_path, quack=port) as served, ExitStack() as stack:
        until(lambda: health(served) == 200)  # both doors have let somebody in
        door = served.service.process("quack")
        before = threads(door)
        wrong = [stack.enter_context(sent(port, quack_messages.login("ann:wrong"))) for _ in range(FLOOD)]
        most = 0
        for _ in range(5):
            most = max(most, threads(door))
            with Client(served, port, "ann") as ann:
                assert ann.ask("SELECT 1") == [(1,)]
        assert most <= before + 5
        answers = [answer_of(one) for one in wrong]  # on a slow machine the room is full, and some are sent away
        assert all(b"Authentication failed" in answer or not answer for answer in answers)
        assert any(answers)
        assert served.service.process("quack") == door


@pytest.mark.medium
@pytest.mark.parametrize("door", ["front", "owner"])
def test_a_full_queue_is_no_end_of_the_keeper(tmp_path, door):
    with bank(tmp_path) as served, ExitStack() as stack:
        owners = served.path.with_name(f"{served.path.name}.dpsql-service").read_text().strip()
        path = str(Path(owners).with_name("keeper.sock")) if door == "front" else owners
        ask = Calls(path).hello if door == "front" else partial(is_served, str(served.path))
        keeper = served.service.process("keeper")
        os.kill(keeper, signal.SIGSTOP)
        try:
            until(
                lambda: all(
                    thread.read_text().rpartition(")")[2].split()[0] == "T"
                    for thread in Path(f"/proc/{keeper}/task").glob("*/stat")
                )
            )
            with pytest.raises(BlockingIOError):
                while True:
                    waits = stack.enter_context(socket.socket(socket.AF_UNIX))
                    waits.settimeout(0)
                    waits.connect(path)
            with ThreadPoolExecutor() as pool:
                answer = pool.submit(ask)
                with pytest.raises(TimeoutError):
                    answer.result(0.5)
                os.kill(keeper, signal.SIGCONT)
                stack.close()
                assert answer.result(60)
        finally:
            os.kill(keeper, signal.SIGCONT)


@pytest.mark.medium
def test_statements_of_users_take_no_threads_at_quack(tmp_path):
    need_quack()
    port = free_port()
    with bank(tmp_path, quack=port, user_connections=5) as served:
        until(lambda: health(served) == 200)
        door = served.service.process("quack")
        before = threads(door)
        session = quack_messages.session_of(answer_of(sent(port, quack_messages.login(f"ann:{served.tokens['ann']}"))))
        slow = quack_messages.statement(session, "SELECT count(*) FROM range(1000000) a, range(1000000) b")
        asked = [sent(port, slow) for _ in range(30)]
        assert threads(door) <= before + 5
        told = [answer_of(one) for one in asked]
        assert sum(b"statements of ann run already" in answer for answer in told) >= 25
        with Client(served, port, "ben") as ben:
            assert ben.ask("SELECT 1") == [(1,)]


@pytest.mark.medium
def test_metrics_are_told_whoever_else_is_silent(tmp_path):
    with bank(tmp_path) as served, ExitStack() as stack:
        until(lambda: health(served) == 200)
        front = served.service.process("front")
        before = threads(front)
        place = served.metrics.split(":")[0], int(served.metrics.split(":")[1])
        for _ in range(FLOOD // 4):
            stack.enter_context(socket.create_connection(place, timeout=60))
        assert health(served) == 200
        assert threads(front) <= before + 2


@pytest.mark.medium
def test_wrong_passwords_keep_nobody_out_of_the_front(tmp_path):
    with bank(tmp_path) as served:
        until(lambda: health(served) == 200)
        front, ended = served.service.process("front"), threading.Event()
        before = threads(front)

        def guess():
            while not ended.is_set():
                with suppress(psycopg.OperationalError):
                    psycopg.connect(served.dsn("ann", "wrong"))

        guessing = [threading.Thread(target=guess) for _ in range(30)]
        for one in guessing:
            one.start()
        try:
            for _ in range(5):
                with psycopg.connect(served.dsn("ann")) as ann:
                    assert ann.execute("SELECT 1").fetchall() == [(1,)]
            assert threads(front) <= before + 2
        finally:
            ended.set()
            for one in guessing:
                one.join()


# --- one request ------------------------------------------------------------------------------------------------------


@pytest.fixture
def door(tmp_path):
    """The port of a door of Quack whose keeper is not there."""
    options = Options("x", socket=str(tmp_path / "nobody.sock"))
    listening = socket.create_server((HOST, 0))
    serving = quack.QuackDoor(options, lambda event: None)
    threading.Thread(target=serving.serve, args=[listening], daemon=True).start()
    return listening.getsockname()[1]


@pytest.mark.parametrize("error", [MemoryError, RecursionError, ValueError, OverflowError])
def test_whatever_a_message_does_its_sender_is_told(door, error, monkeypatch):
    def fails(body):
        raise error

    good = quack_messages.goodbye(UNKNOWN.encode())
    with monkeypatch.context() as patch:
        patch.setattr(quack, "head_of", fails)
        for _ in range(3):
            assert b"too little memory" in answer_of(sent(door, good))
    assert b"connect again" in answer_of(sent(door, good))


def test_a_name_that_no_user_can_have_is_refused_before_anything_is_asked(door, monkeypatch):
    asked = []
    monkeypatch.setattr(quack, "proven", lambda calls, user, password: asked.append(user))
    for name in ("a" * (LONGEST_NAME + 1), "é" * 100_000):
        assert b"Authentication failed" in answer_of(sent(door, quack_messages.login(f"{name}:x")))
    assert asked == []
    assert b"Authentication failed" in answer_of(sent(door, quack_messages.login("a" * LONGEST_NAME + ":x")))
    assert len(asked) == 1
