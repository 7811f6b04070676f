"""A database that was written at commit 37ab9f7 stays valid: verified, told again free, completed where it was killed.

Three tables, nine published requests and two discoveries of every kind, a pure account, and two requests that were paid
for and then killed: a synthetic table and a sum. Whoever changes a key, a journal's question or the format of the books
makes people pay again for what they have; this test says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.ledger import heads

FIXTURES = Path(__file__).parents[1] / "fixtures"
GOLDEN = json.loads((FIXTURES / "golden.json").read_text())


@pytest.fixture
def old(tmp_path) -> Path:
    """The database, closed."""
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as con:
        for statement in GOLDEN["tables"]:
            con.execute(statement)
        con.execute((FIXTURES / "golden.sql").read_text())
    heads.file_beside(path).write_text((FIXTURES / "golden.dpsql-head").read_text())
    return path


def plain(rows: list) -> list:
    """Rows as JSON has them."""
    return json.loads(json.dumps([list(row) for row in rows], default=str))


@pytest.mark.medium
def test_it_is_verified(old):
    assert main(["ledger", "verify", str(old)]) == 0
    with dpsql.connect(old):
        pass
    assert main(["ledger", "verify", str(old)]) == 0


@pytest.mark.medium
def test_every_request_is_answered_again_the_same_and_free(old):
    with dpsql.connect(old) as db:
        spent = db.budget()
        for name, sql in GOLDEN["asked"].items():
            assert plain(db.sql(sql).fetchall()) == GOLDEN["told"][name], name
        assert db.discover("t", "ward", epsilon=0.5).values == ("w0", "w1")
        assert db.discover("t", "n", epsilon=0.3, lower=0, upper=8).ticks
        assert db.budget().equals(spent)


@pytest.mark.medium
@pytest.mark.parametrize("number", [0, 1], ids=["synthetic table", "sum"])
def test_what_was_killed_is_completed_free(old, number):
    with dpsql.connect(old) as db:
        before = db.sql("SELECT count(*) FROM dpsql.answer").fetchall()
        spent = db.budget()
        told = db.sql(GOLDEN["killed"][number]).fetchall()
        assert len(told) == (40, 2)[number]  # a group of NULL within noise is hidden
        assert db.sql("SELECT count(*) FROM dpsql.answer").fetchall() == before  # nothing was measured anew
        assert db.budget().equals(spent)
        assert db.sql(GOLDEN["killed"][number]).fetchall() == told
    assert main(["ledger", "verify", str(old)]) == 0
