"""The audit log: whole lines in a chain, or none; whoever changes one is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import threading

import pytest

from dpsql.errors import InvalidArgument
from dpsql.service.audit_log import ALWAYS, AuditError, AuditLog, events, folder_of, heads, verify


@pytest.fixture
def bank(tmp_path):
    return tmp_path / "bank.duckdb"


def opened(bank, process="keeper", **options) -> AuditLog:
    """A chain; both processes have begun theirs, as in a service."""
    for other in ALWAYS:
        AuditLog(folder_of(bank), other).close()
    return AuditLog(folder_of(bank), process, **options)


def written(bank, lines: int = 5) -> None:
    log = opened(bank)
    for number in range(lines):
        log({"event": "call", "user": "alice" if number % 2 else "bob", "function": "dp_query", "epsilon": 0.1})
    log.close()


def test_lines_are_read_back_in_their_order(bank):
    written(bank)
    front = opened(bank, "front")
    front({"event": "login", "user": "alice", "address": "127.0.0.1"})
    found = list(events(bank))
    assert [(line["process"], line["number"]) for line in found] == [
        *(("keeper", n) for n in range(1, 6)),
        ("front", 1),
    ]
    assert [line["event"] for line in events(bank, user="alice")] == ["call", "call", "login"]
    assert [line["user"] for line in events(bank, process="front")] == ["alice"]
    assert verify(bank) == (6, [])


def test_a_chain_goes_on_after_a_restart(bank):
    written(bank)
    written(bank)
    assert [line["number"] for line in events(bank)] == list(range(1, 11))
    assert verify(bank) == (10, [])


def test_a_full_file_is_put_aside_and_the_chain_goes_on(bank):
    log = opened(bank, full=1000)
    for number in range(20):
        log({"event": "statement", "user": "alice", "statement": f"SELECT {number}"})
    log.close()
    files = sorted(path.name for path in folder_of(bank).glob("keeper*"))
    assert len(files) > 3
    assert all(path.stat().st_size <= 1000 for path in folder_of(bank).iterdir())
    opened(bank, full=1000)({"event": "last", "user": ""})
    assert [line["number"] for line in events(bank)] == list(range(1, 22))
    assert verify(bank) == (21, [])
    (folder_of(bank) / files[1]).unlink()
    assert "were removed" in verify(bank)[1][0]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("change", ["epsilon", "user", "removed", "twice", "swapped", "rehashed", "no JSON"])
def test_whoever_changes_a_line_is_noticed(bank, place, change):
    """Also who computes the hash of the changed line anew, unless it is the last: the next one names the old hash."""
    written(bank)
    path = folder_of(bank) / "keeper.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    line = json.loads(lines[place])
    if change == "epsilon":
        lines[place] = lines[place].replace("0.1", "0.2")
    elif change == "user":
        lines[place] = lines[place].replace(line["user"], "carol")
    elif change == "removed":
        del lines[place]
    elif change == "twice":
        lines.insert(place, lines[place])
    elif change == "swapped":
        lines[place], lines[place - 1] = lines[place - 1], lines[place]
    elif change == "rehashed":
        other = opened(bank.with_name("other"))
        other._number, other._hash = line["number"] - 1, line["previous"]
        other({"event": "call", "user": "carol"})
        lines[place] = (folder_of(bank.with_name("other")) / "keeper.jsonl").read_text()
    else:
        lines[place] = "nothing\n"
    path.write_text("".join(lines))
    last = place == 4 and change in ("removed", "rehashed")  # what the docstring of the module says
    assert (verify(bank)[1] == []) == last


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"event":"call"', '"event":"login","event":"call"'),
        ('"number":3', '"number":"x"'),
        ('"number":3', '"number":NaN'),
        ('"number":3', '"number": 3'),
        ('"number":3', '"number":3.0'),
    ],
)
def test_a_line_is_as_it_is_written(bank, old, new):
    """What two readers could read differently is no line."""
    written(bank)
    path = folder_of(bank) / "keeper.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace(old, new)
    path.write_text("".join(lines))
    assert verify(bank)[1]


def test_a_chain_that_was_removed_or_made_anew(bank):
    """Without a key nobody can tell who made it anew; the newest hash can, if it was noted elsewhere."""
    written(bank)
    noted = heads(bank)
    assert noted["keeper"][0] == 5
    (folder_of(bank) / "keeper.jsonl").unlink()
    assert verify(bank)[1] == ["keeper.jsonl is not there: it was removed"]
    written(bank)
    assert verify(bank) == (5, [])
    assert heads(bank) != noted


def test_what_is_asked_after_many_spaces_is_in_the_line(bank):
    log = opened(bank)
    log({"event": "statement", "user": "alice", "statement": " " * 90_000 + "SELECT * FROM dp_query('x')"})
    (line,) = events(bank)
    assert "SELECT * FROM dp_query('x')" in line["statement"]


def test_a_torn_line_is_removed_and_said(bank):
    """What a machine that stopped in the middle of a line leaves."""
    written(bank)
    path = folder_of(bank) / "keeper.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    opened(bank)({"event": "start", "user": ""})
    found = list(events(bank))
    assert [(line["number"], line["event"]) for line in found[-2:]] == [(5, "torn line removed"), (6, "start")]
    assert verify(bank) == (6, [])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_what_cannot_be_written_is_an_error(bank):
    """A full disk. The chain goes on from the last line that is whole."""
    written(bank)
    path = folder_of(bank) / "keeper.jsonl"
    log = opened(bank)
    descriptor, log._descriptor = log._descriptor, os.open("/dev/full", os.O_RDWR)
    with pytest.raises(AuditError, match="No space left"):
        log({"event": "call", "user": "alice"})
    log._descriptor = descriptor
    log({"event": "call", "user": "alice"})
    assert verify(bank) == (6, [])
    path.unlink()
    path.mkdir()
    with pytest.raises(AuditError, match="cannot be written"):
        opened(bank)


def test_threads_share_a_chain(bank):
    log = opened(bank)
    threads = [
        threading.Thread(target=lambda: [log({"event": "statement", "user": "alice"}) for _ in range(25)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(bank) == (200, [])


def test_long_texts_are_cut(bank):
    log = opened(bank)
    log({"event": "statement", "user": "alice", "statement": "é" * 100_000, "rows": 7})
    log({"event": "call", "user": "alice", "arguments": {str(n): "\x00" * 2000 for n in range(50)}})
    one, two = events(bank)
    assert f"of 100000 characters with SHA-256 {hashlib.sha256('é'.encode() * 100_000).hexdigest()}" in one["statement"]
    assert len(one["statement"]) < 2100
    assert one["rows"] == 7
    assert (two["event"], two["user"], two["cut"]) == ("call", "alice", True)
    opened(bank)({"event": "start", "user": ""})
    assert verify(bank) == (3, [])


def test_only_the_owner_can_read_it(bank):
    written(bank, 1)
    assert folder_of(bank).stat().st_mode & 0o777 == 0o700
    assert (folder_of(bank) / "keeper.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_event_cannot_forge_the_chain(bank):
    """Whatever names it has: number, time and hashes are the log's."""
    log = opened(bank)
    log({"event": "call", "user": "alice", "number": 77, "previous": "x", "hash": "y", "process": "front"})
    (line,) = events(bank)
    assert (line["number"], line["process"]) == (1, "keeper")
    assert verify(bank) == (1, [])


def test_a_database_without_a_log(bank):
    with pytest.raises(InvalidArgument, match="dpsql serve"):
        verify(bank)
    written(bank)
    with pytest.raises(InvalidArgument, match="keeper, front"):
        list(events(bank, process="x"))
