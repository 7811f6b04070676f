"""Whatever a client's text is, it is answered or refused with a code, and its session goes on."""

from __future__ import annotations

import socket
import struct

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings

from dpsql.service.audit_log import events
from dpsql.service.calls import Login
from dpsql.service.copies import Macros
from dpsql.service.options import Options
from dpsql.service.parse_tree import TooDeep, open_parser, parsed
from dpsql.service.pgwire.holdings import OF_A_USER, Holdings
from dpsql.service.pgwire.messages import Channel, Closed
from dpsql.service.pgwire.session import Session
from dpsql.service.sqlstate import sqlstate
from dpsql.service.titles import titles
from tests.service.nests import LISTS, NESTS, nested, statements
from tests.service.test_workers import connected

LONGEST = 100_000
UNEXPECTED = "XX000"


@pytest.fixture(scope="module")
def session(served):
    with connected(served, "alice") as connection:
        yield connection


def code_of(connection, sql):
    """The code that a text is refused with; None where it is answered. Its session goes on in any case."""
    code, pgconn = None, connection.pgconn
    with connection.lock:
        result = pgconn.exec_(sql.encode(errors="replace").replace(b"\0", b"?"))
        if result.status == psycopg.pq.ExecStatus.COPY_OUT:
            while pgconn.get_copy_data(0)[0] > 0:
                pass
            result = pgconn.get_result()
        code = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
    assert pgconn.status == psycopg.pq.ConnStatus.OK, (sql[:200], result.error_message)
    return code and code.decode()


@pytest.mark.medium
@pytest.mark.parametrize("depth", [3, 60, 400])
def test_what_nests_ends_no_session(session, depth):
    if depth > 3 and duckdb.__version__ < "2":
        pytest.skip("DuckDB 1.5 plans 60 queries in one another until the process is ended, which another test shows")
    codes = {name: code_of(session, nested(name, depth)) for name in NESTS}
    assert UNEXPECTED not in codes.values(), codes
    assert code_of(session, "SELECT 1") is None
    if depth == 400:
        assert "54001" in codes.values()


@pytest.mark.medium
@pytest.mark.parametrize("count", [100, 3000])
def test_what_is_long_ends_no_session(session, count):
    codes = {name: code_of(session, LISTS[name](count)[:LONGEST]) for name in LISTS}
    assert UNEXPECTED not in codes.values(), codes
    assert code_of(session, LISTS["columns"](20_000)) == "54011"
    assert code_of(session, "SELECT 1") is None


@pytest.mark.medium
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(statements())
@example('SELECT 1 AS "\ud800"')
@example(
    "SELECT ltrim(s, s::JSON) FROM (SELECT string_agg(chr(769), '') || string_agg(chr(790), '') AS s FROM range(19)) t"
)
@example("EXPLAIN")
@example("DECLARE")
@example("DECLARE c")
@example("FETCH FROM")
@example("COPY (")
@example("CLOSE")
@example("SET TIME ZONE INTERVAL")
@example("SAVEPOINT")
@example('RELEASE "')
@example('SHOW "')
def test_random_trees_end_no_session(session, sql):
    assert code_of(session, sql) != UNEXPECTED, sql
    assert code_of(session, "ROLLBACK") is None


class Faulty:
    """An analyst whose every statement meets a fault of ours, and who keeps what the audit is told."""

    def __init__(self, fault):
        self.fault, self.login, self.events = fault, Login("ann", ""), []

    def check(self, sql):
        raise self.fault

    def parameter_types(self, checked, count):
        raise AssertionError("nothing was checked")

    def note(self, event):
        self.events.append(event)


FAULTS = [
    AssertionError(),
    AttributeError("x"),
    struct.error("x"),
    RecursionError(),
    StopIteration(),
    OSError(5),
    EOFError(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize(
    "message", [b"Q\0\0\0\rSELECT 1\0", b"P\0\0\0\x11\0SELECT $1\0\0\0"], ids=["simple", "extended"]
)
def test_a_fault_of_ours_ends_the_statement_alone(fault, message):
    """Its class and place are in the audit log, and not its text, which may quote what was sent."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        analyst = Faulty(fault)
        session = Session(Channel(theirs), analyst, Options(""), Holdings(OF_A_USER))
        ours.sendall(message * 2 + b"S\0\0\0\4X\0\0\0\4")
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(Closed):  # the client left, and nothing else ended it
            session.serve()
        answer = ours.recv(100_000)
    assert (b"54001" if isinstance(fault, RecursionError) else b"XX000") in answer
    assert answer.endswith(b"Z\0\0\0\5I")
    assert [one["event"] for one in analyst.events][:1] == ["fault"]
    assert type(fault).__name__ in analyst.events[0]["reason"]
    assert "x" not in analyst.events[0]["reason"].split()


def test_columns_are_called_as_postgresql_calls_them_however_deep():
    """A title is found in a loop; before, from about a thousand casts on Python called itself too often."""
    cast = {"class": "COLUMN_REF", "column_names": ["deep"]}
    for number in range(5000):
        cast = {"class": "CAST" if number % 2 else "COLLATE", "child": cast}
    column = {"type": "SELECT_NODE", "select_list": [cast]}
    assert titles([{"node": column}]).names == ("deep",)


def test_what_is_deeper_than_python_reads_is_refused():
    with pytest.raises(TooDeep) as failure:
        parsed(open_parser(), "SELECT " + "1 + " * 600 + "1")
    assert sqlstate(failure.value) == "54001"


def test_a_macro_that_could_not_be_read_is_read_again(monkeypatch):
    """Before, it counted as nothing from then on, so a text could call it in itself."""
    macros = Macros(["twice(x) AS list_concat([x], [x])"], frozenset({"pgx"}), open_parser())

    def short(*_):
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr("dpsql.service.copies.parsed", short)
        macros.written("twice", ours=True)
    assert macros.written("twice", ours=True).copies == 2


@pytest.mark.medium
@pytest.mark.parametrize("what", ["lambdas", "inner comprehensions"])
def test_lambdas_in_one_another_are_few(session, what):
    """DuckDB takes twice the time and memory for each of them; before, 18 filled a process."""
    assert code_of(session, nested(what, 8)) is None
    assert code_of(session, nested(what, 18)) == "42501"


@pytest.mark.medium
def test_the_owner_sees_what_the_door_itself_refuses(served):
    """A Bind with too few values is a line of the audit log, and so is what is no statement at all."""
    with connected(served, "alice") as alice:
        assert alice.pgconn.prepare(b"s", b"SELECT $1::int + $2::int", [23, 23]).error_message == b""
        assert b"the statement has 2" in alice.pgconn.exec_prepared(b"s", [b"1"]).error_message
    lines = [one for one in events(served.path) if one["event"] == "refused"]
    assert any("the statement has 2" in one["reason"] and "$1" in one["statement"] for one in lines)
