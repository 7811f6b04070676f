"""The journal of a release: many answers written by one statement, and read back as they were written."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal
from dpsql.books.releases.answers import digest
from dpsql.books.releases.journal import BooksJournal
from dpsql.books.releases.releases import find_release
from dpsql.core.marginal import Measurement
from dpsql.core.threshold import Threshold
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.errors import BooksError, Interrupted
from dpsql.privacy.journal import Answer, SignedQuery, WholeMarginal
from dpsql.privacy.questions import (
    CellsQuestion,
    MarginalQuestion,
    MarginalSelection,
    SignedSelection,
    ValuesQuestion,
)

RHO = Fraction(3, 7)
AT_LEAST = Threshold(("a", "größe"), 2)


def measured(clique, shape, values, cells=None, least=None, noise="gaussian", variance="9/2"):
    return Measurement(clique, shape, np.array(values), Fraction(variance), noise, RHO, cells, least)


TOTAL = Answer(MarginalQuestion((), Fraction(0), "none"), RHO, measured((), (), [100], noise="none", variance="0"))
MARGINAL = Answer(
    MarginalQuestion(("a", "größe"), RHO, "gaussian"), RHO, measured(("a", "größe"), (2, 3), [4, -1, 0, 7, 2, 9])
)
CELLS = Answer(
    CellsQuestion(("größe",), (2, 0), RHO, "laplace"), RHO, measured(("größe",), (3,), [5, -8], (2, 0), noise="laplace")
)
THRESHOLDS = Answer(
    CellsQuestion(AT_LEAST, (2, 0), RHO, "gaussian"), RHO, measured(AT_LEAST.clique, (2, 3), [4, 5], (2, 0), 2)
)
CHOSEN = Answer(MarginalSelection(1, 3, RHO), RHO, selection=(WholeMarginal(("a", "größe")),))
SIGNED = Answer(SignedSelection(8, 3, 5, RHO), RHO, selection=(SignedQuery((("a",), 5), -1),))
VALUES = Answer(ValuesQuestion("größe", 1e-6, RHO, None), RHO, values=("it's", "", "ü, [NULL]"))
KINDS = [TOTAL, MARGINAL, CELLS, THRESHOLDS, CHOSEN, SIGNED, VALUES]


@pytest.fixture
def charged(monkeypatch):
    """The books of a release that was charged, and nothing measured for; and the release."""

    def interrupted(*_, **__):
        raise Interrupted

    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
        with monkeypatch.context() as patch:
            patch.setattr(DuckDBCounter, "__init__", interrupted)
            with pytest.raises((dpsql.DpsqlError, duckdb.Error)):
                db.sql("FROM dp_query('SELECT count(*) AS n FROM t WHERE a', epsilon := 0.5)").fetchall()
        ((key,),) = db.sql("SELECT key FROM dpsql.release").fetchall()
        books = Books(db.connection.cursor(), "memory")
        yield books, find_release(books, key)


def same(found, wanted) -> bool:
    """Whether answers are to the same questions, and hold the same."""
    return [digest(one) for one in found] == [digest(one) for one in wanted]


@pytest.mark.parametrize("written", [KINDS, [TOTAL], [CHOSEN], [VALUES, CHOSEN], [CELLS, MARGINAL]], ids=len)
def test_answers_of_all_kinds_are_read_back_as_they_were_written(charged, written):
    """In one statement or in many; what the journal holds is what would be read."""
    books, entry = charged
    kept = BooksJournal(books, entry)
    assert kept.recorded() == ()
    kept.append(written)
    for answer in written:
        kept.append([answer])
    held, read = kept.whole(), journal.answers(books, entry.key)
    assert same(read, 2 * written)
    assert same(held, read)
    for one, other in zip(held, read, strict=True):
        assert one.question == other.question
        assert one.selection == other.selection
        assert (one.measurement is None) == (other.measurement is None)
        if one.measurement is not None:
            assert one.measurement.cells == other.measurement.cells
            assert one.measurement.values.tolist() == other.measurement.values.tolist()
            assert one.measurement.values.dtype == other.measurement.values.dtype


def test_another_run_finds_what_was_written(charged):
    books, entry = charged
    BooksJournal(books, entry).append(KINDS[:3])
    again = BooksJournal(books, find_release(books, entry.key))
    assert same(again.recorded(), KINDS[:3])
    again.append(KINDS[3:])
    assert same(again.whole(), KINDS)


def test_answers_that_are_not_those_held_are_read(charged):
    """Those of another run, and those that whoever got them has changed."""
    books, entry = charged
    kept = BooksJournal(books, entry)
    kept.append([MARGINAL])
    journal.append_answers(books, entry.key, [CELLS])
    assert same(kept.whole(), [MARGINAL, CELLS])
    resumed = BooksJournal(books, find_release(books, entry.key))
    resumed.recorded()[0].measurement.values[0] += 1
    assert same(resumed.whole(), [MARGINAL, CELLS])


CHANGED = {
    "a value": "UPDATE dpsql.cell SET value = value + 1 WHERE answer = 3 AND cell = 2",
    "a value of the last answer": "UPDATE dpsql.cell SET value = value + 1 WHERE answer = 7",
    "a cell lost": "DELETE FROM dpsql.cell WHERE answer = 2 AND cell = 5",
    "a cell twice": "INSERT INTO dpsql.cell FROM dpsql.cell WHERE answer = 2 AND cell = 5",
    "a cell of no answer": "INSERT INTO dpsql.cell SELECT release, 99, cell, value FROM dpsql.cell LIMIT 1",
    "a cell before all answers": "INSERT INTO dpsql.cell SELECT release, 0, cell, value FROM dpsql.cell LIMIT 1",
    "a cell of a selection": "INSERT INTO dpsql.cell SELECT release, 5, cell, value FROM dpsql.cell LIMIT 1",
    "a cell of another answer": "UPDATE dpsql.cell SET answer = 3 WHERE answer = 2 AND cell = 5",
    "an answer lost": "DELETE FROM dpsql.answer WHERE number = 4",
    "a digest": "UPDATE dpsql.answer SET digest = '' WHERE number = 6",
}


@pytest.mark.parametrize("at_once", [1, 4, 10**6])
@pytest.mark.parametrize("how", CHANGED)
def test_a_change_is_found_in_whatever_parts_answers_are_read(charged, monkeypatch, how, at_once):
    books, entry = charged
    monkeypatch.setattr(journal, "_CELLS_AT_ONCE", at_once)
    journal.append_answers(books, entry.key, [*KINDS[:6], MARGINAL])
    assert same(journal.answers(books, entry.key), [*KINDS[:6], MARGINAL])
    assert journal.digest_of_answers(books, entry.key) == journal.digest_of(map(digest, [*KINDS[:6], MARGINAL]))
    books.run(CHANGED[how])
    assert journal.digest_of_answers(books, entry.key) is None
    with pytest.raises(BooksError, match="not those that were recorded"):
        journal.answers(books, entry.key)


def test_no_answers_are_refused(charged):
    """A release that has none was never measured, or has lost them all."""
    books, entry = charged
    assert journal.digest_of_answers(books, entry.key) is None
    with pytest.raises(BooksError, match="not those that were recorded"):
        journal.answers(books, entry.key)
