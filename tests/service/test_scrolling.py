"""Cursors that go back give the rows that PostgreSQL gives, wherever they were; others go forward only, as there."""

from __future__ import annotations

import random

import psycopg
import pytest

pytestmark = pytest.mark.medium
PLACES = ["NEXT", "PRIOR", "FIRST", "LAST", "ALL", "0", "3", "-2", "FORWARD", "FORWARD 4", "FORWARD ALL", "FORWARD 0"]
PLACES += ["BACKWARD", "BACKWARD 3", "BACKWARD ALL", "BACKWARD -2", "ABSOLUTE 5", "ABSOLUTE -3", "ABSOLUTE 0"]
PLACES += ["ABSOLUTE 99", "ABSOLUTE -99", "RELATIVE 2", "RELATIVE -4", "RELATIVE 0", "RELATIVE 50"]
ONLY_FORWARD = ["NEXT", "3", "ABSOLUTE 12", "PRIOR", "RELATIVE 2", "BACKWARD 2", "ABSOLUTE 2", "ALL", "-1"]


def walked(connection, kind, words):
    """What each statement gives: rows and tag, or the code of its error."""
    found = []
    connection.execute("BEGIN")
    connection.execute(f"DECLARE c {kind} CURSOR FOR SELECT i, 't' || i FROM generate_series(1, 20) AS g(i) ORDER BY i")
    for word in words:
        connection.execute("SAVEPOINT s")
        try:
            cursor = connection.execute(f"{word} FROM c")
            found.append((cursor.fetchall() if cursor.description else None, cursor.statusmessage))
        except psycopg.Error as error:
            found.append(error.sqlstate)
            break
    connection.execute("ROLLBACK")
    return found


def test_rows_are_those_of_postgresql(browsed, real):
    draw = random.Random(35)
    for _ in range(12):
        words = [f"{draw.choice(('FETCH', 'FETCH', 'MOVE'))} {draw.choice(PLACES)}" for _ in range(25)]
        assert walked(browsed, "SCROLL", words) == walked(real, "SCROLL", words), words


@pytest.mark.parametrize("word", ONLY_FORWARD)
def test_others_go_forward_only(browsed, real, word):
    words = ["FETCH 5", f"FETCH {word}"]
    assert walked(browsed, "NO SCROLL", words) == walked(real, "NO SCROLL", words)


def test_rows_that_are_kept_are_bounded(browsed):
    with browsed.transaction(force_rollback=True):
        browsed.execute("DECLARE c SCROLL CURSOR FOR SELECT md5(i::VARCHAR) || md5(i::VARCHAR) FROM range(500000) r(i)")
        assert len(browsed.execute("FETCH 10 FROM c").fetchall()) == 10
        with pytest.raises(psycopg.errors.ProgramLimitExceeded), browsed.transaction():
            browsed.execute("MOVE ALL FROM c")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="cannot be run"), browsed.transaction():
            browsed.execute("FETCH ALL FROM c")  # rows that were read when it failed are lost, so none is given
