"""A silent process of Quack's is ended, and a silent door is started again; nobody but the door reaches a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from textwrap import dedent

import duckdb
import psycopg
import pytest

from dpsql.service import quack_messages, wire
from dpsql.service.exchange import Exchange, LoggingIn
from dpsql.service.options import Options
from dpsql.service.quack_messages import Request
from dpsql.service.relay import Relay
from dpsql.service.workers import BEAT, Worker, Workers
from tests.service.conftest import free_port, need_quack
from tests.service.processes import workers_of
from tests.service.test_quack import HOST, Client, loading
from tests.service.test_quack_ends import listening
from tests.service.test_room import UNKNOWN, answer_of, sent
from tests.service.test_workers import bank, health, until

SESSION, SILENCE = 7, 1.0
MESSAGE = Request.written(quack_messages.statement(UNKNOWN.encode(), "SELECT 1"))
LOGGED_IN = b"HTTP/1.1 200 OK\r\n\r\n\x01\0\x02\x02\0 " + UNKNOWN.encode() + b"\xff\xff"


# --- a process that goes on beating, and answers nothing --------------------------------------------------------------


class Hung:
    """A process of a user's whose Python beats, and whose server answers nothing by itself."""

    def __init__(self) -> None:
        self.system = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        ours, self.theirs = socket.socketpair()
        self.at_work: list[int] = []
        self.noted: list[bytes] = []
        self.relay = Relay(lambda event: None, lambda pair: None)
        self.relay.workers = Workers(Options("x"), self.relay.watch)
        self.worker = Worker("alice", ours, self.system.pid)
        self.relay.start()
        self.relay.watch(self.worker)
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        """As a process that lives does; it ends with the process."""
        while self.system.poll() is None:
            with suppress(wire.Lost):
                wire.send_json(self.theirs, self.at_work, BEAT)
            time.sleep(SILENCE / 20)
        self.theirs.close()

    @contextmanager
    def asked(self, kind=Exchange):
        """Who asked, and the server's end of what they did."""
        client, front = socket.socketpair()
        server, ours = socket.socketpair()
        more = [lambda one: self.noted.append(one.session)] if kind is LoggingIn else []
        self.relay.add(kind((front, ours), SESSION, self.worker, MESSAGE, SILENCE, *more))
        for one in (client, server):
            one.settimeout(60)
        with client, server:
            assert server.recv(65536) == MESSAGE
            yield client, server


@pytest.fixture
def hung():
    found = Hung()
    yield found
    found.system.kill()
    found.system.wait()


@pytest.mark.medium
@pytest.mark.parametrize("kind", [Exchange, LoggingIn])
def test_a_server_that_answers_nothing_is_ended(hung, kind):
    with hung.asked(kind) as (client, server):
        if kind is LoggingIn:
            server.sendall(LOGGED_IN[:10])
        server_gone = threading.Thread(target=lambda: (hung.system.wait(60), server.close()))
        server_gone.start()
        answer = answer_of(client)
        server_gone.join()
    assert hung.system.returncode == -signal.SIGKILL
    assert b"did not end at twice its time limit" in answer or answer == LOGGED_IN[:10]


@pytest.mark.medium
def test_a_server_that_works_or_whose_client_is_slow_is_not_ended(hung):
    hung.at_work = [SESSION]
    with hung.asked() as (client, server):
        time.sleep(3 * SILENCE)
        piece = b"x" * (1 << 20)
        threading.Thread(target=lambda: (server.sendall(piece), server.shutdown(socket.SHUT_WR))).start()
        time.sleep(SILENCE)
        hung.at_work = []
        time.sleep(2 * SILENCE)  # nobody takes the answer away
        assert hung.system.poll() is None
        assert answer_of(client) == piece


def test_a_session_is_noted_before_its_client_hears_of_it(hung):
    with hung.asked(LoggingIn) as (client, server):
        server.sendall(LOGGED_IN)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        server.shutdown(socket.SHUT_RDWR)
        client.settimeout(60)
        assert answer_of(client) == LOGGED_IN
        assert hung.noted == [UNKNOWN.encode()]
    with hung.asked(LoggingIn) as (client, server):
        server.sendall(b"x" * 100_000)  # no login is so long
        assert client.recv(1) == b"x"


@pytest.mark.parametrize("said", [{"a": 1}, list(range(100_000)), "7", 7, [None]])
def test_a_beat_that_is_none_ends_its_process_alone(hung, said):
    hung.at_work = said
    assert hung.system.wait(60) == -signal.SIGKILL
    assert hung.relay.is_alive()


# --- a door that lets nobody in ---------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_door_of_quack_that_lets_nobody_in_is_started_again(tmp_path):
    need_quack()
    port = free_port()
    with bank(tmp_path, quack=port, silence_seconds=6.0) as served:
        until(lambda: health(served) == 200)
        door, front = served.service.process("quack"), served.service.process("front")
        with psycopg.connect(served.dsn("ann"), autocommit=True) as ann:
            os.kill(door, signal.SIGSTOP)  # it lives, and answers nobody
            until(lambda: health(served) == 503)
            until(lambda: served.service.process("quack") != door)
            until(lambda: health(served) == 200)
            with Client(served, port, "ben") as ben:
                assert ben.ask("SELECT 1") == [(1,)]
            assert ann.execute("SELECT 2").fetchall() == [(2,)]
            door, keeper = served.service.process("quack"), served.service.process("keeper")
            os.kill(keeper, signal.SIGSTOP)
            try:
                until(lambda: health(served) == 503)
                time.sleep(2.5 * 6.0)
            finally:
                os.kill(keeper, signal.SIGCONT)
            until(lambda: health(served) == 200)
        assert served.service.process("front") == front
        assert served.service.process("quack") == door, "it was the keeper who said nothing"


@pytest.mark.medium
def test_the_heart_leaves_no_sessions_behind(tmp_path):
    """Each beat is a session that ends; they take no place of a user's."""
    need_quack()
    port = free_port()
    with bank(tmp_path, quack=port, silence_seconds=2.0, connections=1, processes=1) as served:
        until(lambda: health(served) == 200)
        with Client(served, port, "ann") as ann:
            for _ in range(5):
                beat = served.service._beats["quack"]
                until(lambda beat=beat: served.service._beats["quack"] > beat)
            assert ann.ask("SELECT 1") == [(1,)]
            assert len(workers_of(served.service.process("quack"))) == 2


# --- who reaches a process --------------------------------------------------------------------------------------------


def leaves_network(user: int = os.geteuid(), before: str = "pass") -> bool:
    code = f"""
        import encodings.idna, fcntl, os
        from dpsql.runtime.children import can_leave_network

        if {user} != os.geteuid():
            os.setuid({user})
        {before}
        own = os.readlink("/proc/self/ns/net")
        print(can_leave_network())
        assert own == os.readlink("/proc/self/ns/net")
    """
    run = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True)
    return run.stdout.strip() == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no networks of a process")
def test_a_process_stays_where_it_could_not_reach_itself():
    """Some systems let who is not root make a network, and let nobody use its addresses."""
    refused = "fcntl.ioctl = lambda *given: (_ for _ in ()).throw(PermissionError(1, 'Operation not permitted'))"
    assert not leaves_network(before=refused)


@pytest.mark.parametrize("user", [os.geteuid(), 65534], ids=["as it is", "another user"])
def test_a_process_leaves_the_network(user):
    if user != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root may become another user")
    if not leaves_network(user):
        pytest.skip("this system lets no process of that user have a network of its own")
    code = """
        import encodings.idna, fcntl, json, os, socket, sys
        from dpsql.runtime.children import leave_network

        other, user = int(sys.argv[1]), int(sys.argv[2])
        pair = socket.socketpair()
        if user != os.geteuid():
            os.setuid(user)
        left = leave_network()
        pair[0].sendall(b"as before")
        reached = socket.socket().connect_ex(("127.0.0.1", other))
        own = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(own.getsockname()).close()
        able = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
        print(json.dumps([left, reached != 0, pair[1].recv(9) == b"as before", own.getsockname()[1], able]), flush=True)
        sys.stdin.read()
    """
    with socket.create_server((HOST, 0)) as other:
        command = [sys.executable, "-c", dedent(code), str(other.getsockname()[1]), str(user)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            left, is_apart, is_whole, port, able = json.loads(process.stdout.readline())
            with socket.socket() as from_here:
                assert from_here.connect_ex((HOST, port)) != 0
            process.stdin.close()
    assert left
    assert is_apart
    assert is_whole
    assert user == os.geteuid() or int(able[0], 16) == 0, "it may do no more than before"


@pytest.mark.medium
def test_nobody_reaches_a_process_of_a_user(tmp_path):
    need_quack()
    if not leaves_network():
        pytest.skip("this system lets no process have a network of its own")
    port = free_port()
    with bank(tmp_path, quack=port) as served, Client(served, port, "ann"), psycopg.connect(served.dsn("ben")):
        own = os.readlink("/proc/self/ns/net")
        processes = [one for door in ("front", "quack") for one in workers_of(served.service.process(door))]
        assert len(processes) >= 2
        assert listening(processes) == []
        assert own not in {os.readlink(f"/proc/{process}/ns/net") for process in processes}


@pytest.mark.medium
def test_who_reaches_a_process_gets_nothing_there():
    """Where the system allows no network of its own, programs of the machine find the port."""
    need_quack()
    code = """
        import sys
        from dpsql.service import quack_worker
        from dpsql.service.options import Options

        class Shared:
            options = Options("x")

        class Line:
            def beat(self, at_work):
                pass

        print(quack_worker.QuackServer(Shared(), Line()).port, flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        sessions = [UNKNOWN.encode(), b"F" * 32, b"\0" * 32]
        messages = [
            *(quack_messages.login(password) for password in ("", ":", "alice:x", UNKNOWN, "0", "' OR true --")),
            *(quack_messages.statement(session, "SELECT 42") for session in sessions),
            *(quack_messages.goodbye(session) for session in sessions),
            *(quack_messages.goodbye(session).replace(b"\x01\0\x0b", b"\x01\0\x07") for session in sessions),
        ]
        for message in messages:
            answer = answer_of(sent(port, message))
            assert not quack_messages.has_rows(answer), message
            assert quack_messages.session_of(answer) is None, message
        db = duckdb.connect()
        for statement in loading():
            db.execute(statement)
        db.execute("CREATE SECRET (TYPE quack, TOKEN 'alice:x')")
        with pytest.raises(duckdb.Error, match="Authentication failed"):
            db.execute(f"ATTACH 'quack:{HOST}:{port}' AS bank")
        db.close()
        process.kill()
