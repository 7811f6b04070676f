"""What functions build is not in DuckDB's account of its memory: the process of a user has a bound of its own."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpsql.service.options import Options
from dpsql.service.process import most_of_user
from dpsql.service.sqlstate import message, sqlstate
from tests.service.processes import workers_of
from tests.service.test_workers import bank, connected

pytestmark = pytest.mark.medium
MEMORY = "100MB"
MAPPED = 150
"""MiB of files, such as libraries, that a process has beside its own data."""
LONG = "(SELECT string_agg('ab', '') AS s FROM range(8000000)) t"
BUILT = {
    "texts": ("length(upper(s || '{}'))", 80, LONG),
    "lists of texts": ("len(string_split(s || '{}', 'a'))", 12, LONG),
    "texts of lists": ("length(string_split(s || '{}', 'a')::VARCHAR)", 8, LONG),
    "JSON": ("json_array_length(('[\"' || s || '{}\"]')::JSON)", 80, LONG),
    "lists": (
        "len(list_transform(s, lambda x: x::VARCHAR || '{}'))",
        8,
        "(SELECT list(i) AS s FROM range(2000000) r(i)) t",
    ),
}
"""Something long, many times in one row, which is more than the process may have."""


def statement(name):
    part, times, source = BUILT[name]
    return f"SELECT {' + '.join(part.format(number) for number in range(times))} FROM {source}"


def largest(process):
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) // 1024
    return 0


@contextmanager
def weighed(front):
    """The most MiB that a process of a user has had, while this goes on."""
    seen, ended = [0], threading.Event()

    def look():
        while not ended.wait(0.02):
            seen.append(max(map(largest, workers_of(front)), default=0))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(seen)
    finally:
        ended.set()
        thread.join()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with bank(tmp_path_factory.mktemp("memory"), memory=MEMORY, statement_seconds=60.0) as served:
        yield served


@pytest.mark.parametrize("name", BUILT)
def test_what_is_built_takes_no_more_than_the_process_may(small, name):
    front = small.service.process("front")
    most = most_of_user(Options("x", memory=MEMORY)) // (1 << 20)
    with connected(small, "ben") as ben, connected(small, "ann") as other, weighed(front) as weight:
        with connected(small, "ann") as ann:
            for _ in range(2):  # what the first one freed is there for the second
                with suppress(psycopg.errors.OutOfMemory, psycopg.errors.StatementTooComplex):
                    ann.execute(statement(name))
                if ann.broken:
                    break
            assert ann.broken or ann.execute("SELECT 1").fetchall() == [(1,)]
        assert ben.execute("SELECT 2").fetchall() == [(2,)], "nothing of it reaches another user"
        try:
            assert other.execute("SELECT 3").fetchall() == [(3,)]
        except psycopg.errors.StatementTooComplex:  # the process ended: this session is told, and may come again
            with connected(small, "ann") as again:
                assert again.execute("SELECT 4").fetchall() == [(4,)]
        assert 200 < weight() < most + MAPPED
    assert small.service.process("front") == front


def test_one_statement_is_refused_for_its_memory(small):
    with connected(small, "ann") as ann, pytest.raises(psycopg.errors.OutOfMemory):
        ann.execute(statement("lists of texts"))


def test_too_little_memory_has_one_name():
    """Arrow's stream says it in words of another error; a text of the user's is no such error."""
    for error in (
        MemoryError(),
        duckdb.InvalidInputException("exporting a stream of rows failed: MemoryError"),
        duckdb.IOException("std::bad_alloc"),
    ):
        assert (sqlstate(error), message(error)[:13]) == ("53200", "out of memory")
    wrong = duckdb.ConversionException("Could not convert string 'failed: MemoryError' to INT32")
    assert (sqlstate(wrong), message(wrong)) == ("22P02", str(wrong))


def test_the_bound_is_small_and_grows_with_the_setting():
    small, large = (most_of_user(Options("x", memory=memory)) for memory in ("200MB", "1GB"))
    assert small < 1_050 << 20
    assert large - small == 2 * 800_000_000
