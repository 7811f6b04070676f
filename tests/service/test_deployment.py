"""The two processes apart, as two users of the system; metrics and health."""

from __future__ import annotations

import datetime as dt
import grp
import ipaddress
import os
import pwd
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import dpsql
from dpsql.errors import InvalidArgument
from dpsql.service import audit_log
from dpsql.service.certificate import certificate_beside
from dpsql.service.configuration import read_configuration
from dpsql.service.options import Options
from dpsql.service.process import most_tasks_of_front
from dpsql.service.supervisor import serve
from tests.service.conftest import free_port

pytestmark = pytest.mark.medium
COUNT = "SELECT n FROM dp_query('SELECT count(*) AS n FROM t', epsilon => {})"
EXAMPLES = Path(__file__).parents[2] / "examples" / "service"


def bank(folder: Path) -> tuple[Path, str]:
    """A database with a user, and the user's token."""
    path = folder / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        return path, db.users.add("ann", limits={"t": 1.0})


def asked(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def nobody() -> tuple[int, int]:
    """User and group of the system's who can run Python, and no more."""
    if os.geteuid() != 0:
        pytest.skip("starts a process as another user, which only root may")
    user = pwd.getpwnam("nobody")
    tried = None
    with suppress(PermissionError):
        command = [sys.executable, "-c", "import dpsql"]
        tried = subprocess.run(command, user=user.pw_uid, group=user.pw_gid, cwd="/", check=False)
    if tried is None or tried.returncode:
        pytest.skip("nobody may not read this environment")
    return user.pw_uid, user.pw_gid


@contextmanager
def front(nobody, folder: Path, path: Path, port: int):
    """The front alone, as nobody; what it says."""
    configuration = folder / "front.toml"
    configuration.write_text(
        f'database = "{path}"\nport = {port}\nsocket = "{folder}/run/keeper.sock"\naudit_folder = "{folder}/log"\n'
        f'certificate = "{folder}/tls/crt"\nkey = "{folder}/tls/key"\n'
    )
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsql", "serve", "--config", str(configuration), "--only", "front"],
        user=nobody[0], group=nobody[1], extra_groups=[], cwd="/", env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def test_front_and_keeper_are_two_users(nobody, tmp_path_factory):
    """The front's user asks the keeper, and can open neither the file nor the owner's socket."""
    folder = tmp_path_factory.mktemp("apart")
    for one in (folder, *folder.parents[:2]):
        one.chmod(one.stat().st_mode | 0o011)
    (folder / "private").mkdir(mode=0o700)
    path, token = bank(folder / "private")
    for name in ("run", "log", "tls"):
        (folder / name).mkdir()
        os.chown(folder / name, 0, nobody[1])
        (folder / name).chmod(0o2770 if name == "log" else 0o750)
    for source, name in zip(certificate_beside(str(path)), ("crt", "key"), strict=True):
        shutil.copy(source, folder / "tls" / name)
        os.chown(folder / "tls" / name, nobody[0], nobody[1])
    port, group = free_port(), grp.getgrgid(nobody[1]).gr_name
    keeper = serve(
        str(path), only="keeper", socket=str(folder / "run" / "keeper.sock"), socket_group=group,
        audit_folder=str(folder / "log"),
    )  # fmt: skip
    with keeper, front(nobody, folder, path, port) as started:
        said = started.stdout.readline()
        assert said.startswith("serving"), said or started.communicate()[1]
        dsn = f"host=127.0.0.1 port={port} user=ann password={token} dbname=dpsql sslmode=require"
        with psycopg.connect(dsn, autocommit=True) as ann:
            assert len(ann.execute(COUNT.format(0.1)).fetchall()) == 1
        script = f"""
import socket
def refused(work):
    try: work()
    except PermissionError: return True
print(refused(lambda: open({str(path)!r})), refused(lambda: open({str(folder / "log" / "keeper.jsonl")!r})),
      refused(lambda: socket.socket(socket.AF_UNIX).connect({str(folder / "run" / "owner.sock")!r})))
"""
        tried = subprocess.run(
            [sys.executable, "-c", script], user=nobody[0], group=nobody[1], extra_groups=[], capture_output=True,
            text=True, cwd="/", check=False,
        )  # fmt: skip
        assert tried.stdout.split() == ["True"] * 3, tried.stderr
        assert {event["event"] for event in audit_log.events(folder / "log")} >= {"login", "statement", "call"}
        listed = subprocess.run(
            [sys.executable, "-m", "dpsql", "user", "list", str(path)], capture_output=True, text=True, check=True
        )
        assert "ann" in listed.stdout, "the owner's commands reach the keeper"
    assert audit_log.verify(folder / "log")[1] == []


def test_one_process_alone_names_what_it_needs(tmp_path):
    path, _ = bank(tmp_path)
    with pytest.raises(InvalidArgument, match="keeper alone needs socket"):
        serve(str(path), only="keeper")
    with pytest.raises(InvalidArgument, match="front alone needs socket, certificate, key, audit_folder"):
        serve(str(path), only="front")
    with pytest.raises(InvalidArgument, match="keeper or front"):
        serve(str(path), only="both")


def dated(folder: Path, days: int) -> tuple[str, str]:
    """A certificate of localhost that ends in so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dpsql")]), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=400))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "tls.crt").write_bytes(made.public_bytes(pem))
    (folder / "tls.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return str(folder / "tls.crt"), str(folder / "tls.key")


def test_a_certificate_that_no_client_takes_is_refused(tmp_path):
    path, _ = bank(tmp_path)
    certificate, key = dated(tmp_path, days=-1)
    with pytest.raises(InvalidArgument, match="ended on"):
        serve(str(path), port=0, certificate=certificate, key=key)
    Path(certificate).write_text("nothing")
    with pytest.raises(InvalidArgument, match="cannot be used"):
        serve(str(path), port=0, certificate=certificate, key=key)


def test_a_new_certificate_is_read_on_sighup(tmp_path):
    path, _ = bank(tmp_path)
    certificate, key = dated(tmp_path, days=1)
    with serve(str(path), port=0, certificate=certificate, key=key) as running:

        def shown() -> str:
            return ssl_of(running.port)

        first = shown()
        dated(tmp_path, days=2)
        assert shown() == first
        os.kill(running.process("front"), signal.SIGHUP)
        until = time.monotonic() + 60
        while shown() == first:
            assert time.monotonic() < until
            time.sleep(0.1)
        Path(certificate).write_text("nothing")  # a mistake: the one that is used stays
        os.kill(running.process("front"), signal.SIGHUP)
        time.sleep(1.0)
        assert shown() != first


def ssl_of(port: int) -> str:
    """The certificate that a service shows."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(struct.pack("!ii", 8, 80877103))
        assert connection.recv(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(connection) as secure:
            return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True))


def test_metrics_and_health(tmp_path):
    path, token = bank(tmp_path)
    port = free_port()
    with serve(str(path), port=0, metrics=f"127.0.0.1:{port}") as running:
        place = f"http://127.0.0.1:{port}"
        dsn = f"host=127.0.0.1 port={running.port} user=ann password={token} dbname=dpsql sslmode=require"
        with psycopg.connect(dsn, autocommit=True) as ann:
            ann.execute(COUNT.format(0.5))
            with pytest.raises(psycopg.Error):
                ann.execute("DROP TABLE t")
            assert asked(f"{place}/health") == (200, "ok\n")
            code, text = asked(f"{place}/metrics")
            assert code == 200
            found = dict(re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, flags=re.MULTILINE))
            assert found["dpsql_up"] == "1.0"
            assert found["dpsql_connections"] == "1.0"
            assert found['dpsql_events_total{event="statement"}'] == "1.0"
            assert found['dpsql_events_total{event="refused"}'] == "1.0"
            assert found['dpsql_calls_waiting{function="dp_query"}'] == "0.0"
            assert found[next(
                name for name in found if name.startswith("dpsql_epsilon{"))] == "3.0"  # fmt: skip
            (left,) = [float(value) for name, value in found.items() if name.startswith("dpsql_epsilon_left{")]
            assert 0 < left < 3.0
            for line in text.splitlines():
                assert re.fullmatch(r"# (HELP|TYPE) dpsql_\w+ .+|dpsql_\w+(\{\w+=\".*\"\})? [0-9.e+-]+", line)
        assert asked(f"{place}/other")[0] == 404
        os.kill(running.process("keeper"), 19)  # stopped, not ended
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"GET /" + b"a" * 100_000)
        finally:
            os.kill(running.process("keeper"), 18)
        assert asked(f"{place}/health") == (200, "ok\n")


def test_the_examples_are_what_the_service_reads():
    """Each option of the example's configuration is one, and the units name files that are there."""
    found = read_configuration(EXAMPLES / "dpsql.toml")
    assert {"database", "socket", "socket_group", "audit_folder", "certificate", "key"} <= set(found)
    for name in ("dpsql-keeper.service", "dpsql-front.service"):
        text = (EXAMPLES / name).read_text()
        assert "ProtectSystem=strict" in text
        assert f"--only {name.removeprefix('dpsql-').removesuffix('.service')}" in text
    keeper = (EXAMPLES / "dpsql-keeper.service").read_text()
    assert "PrivateNetwork=true" in keeper
    assert "RestrictAddressFamilies=AF_UNIX" in keeper
    options = Options("x", **{name: found[name] for name in found if name in ("connections", "processes", "threads")})
    front = (EXAMPLES / "dpsql-front.service").read_text()
    assert most_tasks_of_front(options) < int(re.search(r"^TasksMax=(\d+)$", front, re.M)[1])
    assert most_tasks_of_front(replace(options, quack=9494)) < int(re.search(r"With quack: (\d+)", front)[1])
    assert re.search(r"^TasksMax=\d+$", keeper, re.M)
    assert '["dpsql", "serve",' in (EXAMPLES / "Dockerfile").read_text()
