"""A replica of Postgres: what it counts, and what is said where it stops a count for the sake of its primary."""

from __future__ import annotations

import os
from collections.abc import Iterator

import duckdb
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.postgres.counting import PostgresCounter
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.registry import engine_of, find_source
from dpsql.errors import DpsqlError

from .postgres_bank import Bank, bank
from .postgres_server import Standby, server

pytestmark = pytest.mark.medium
QUERY = "FROM dp_query('SELECT ward, count(*) FROM people GROUP BY ward', epsilon := 30)"
WARD = Domain((Attribute("ward", "VARCHAR", "values", ("w0", "w1", "w2"), nullable=True),))


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Iterator[tuple[Bank, Standby]]:
    """A table that was registered on the primary, and a standby to which the same variable leads now."""
    with bank(tmp_path_factory.mktemp("standby")) as found:
        found.people(1000.0)
        with server().standby() as standby:
            os.environ[found.variable] = standby.words(found.database)
            standby.catch_up()
            yield found, standby


def test_a_standby_is_the_same_table_and_counts_it(both):
    found, _ = both
    rows = found.db.sql(QUERY).fetchall()
    assert [round(count / 100) for _, count, *_ in rows[:3]] == [10, 10, 10]


def test_a_conflict_with_recovery_says_what_to_do(both):
    """VACUUM on the primary takes rows away that the standby's snapshot still has."""
    found, standby = both
    source = find_source(found.db.connection.cursor(), "bank.main.people")
    engine = engine_of(found.db.connection.cursor(), source)
    counter = engine.counter(source, WARD)
    assert counter.marginal(("ward",)).counts.sum() == 3000
    found.sql("UPDATE people SET note = note || '!'", "VACUUM people")
    standby.catch_up()
    with pytest.raises(CountingFailed, match="the same call goes on") as failed:
        counter.marginal(("ward",))
    assert "standby" in str(failed.value)
    assert "hot_standby_feedback" in str(failed.value)
    assert "Canary" not in str(failed.value)
    assert failed.value.__cause__ is None
    counter.close()
    engine.close()


def test_a_call_goes_on_after_a_conflict(both, monkeypatch):
    """The charge stands, and the same call is free."""
    found, standby = both
    numbered = PostgresCounter._number

    def after_vacuum(self):
        found.sql("UPDATE people SET note = note || '?'", "VACUUM people")
        standby.catch_up()
        return numbered(self)

    spent = "SELECT epsilon_spent FROM dp_budget()"
    ((before,),) = found.db.sql(spent).fetchall()
    other = QUERY.replace("30", "31")
    with monkeypatch.context() as patch:
        patch.setattr(PostgresCounter, "_number", after_vacuum)
        with pytest.raises((DpsqlError, duckdb.Error), match="hot_standby_feedback") as failed:
            found.db.sql(other).fetchall()
    assert "Canary" not in str(failed.value)
    ((charged,),) = found.db.sql(spent).fetchall()
    assert charged > before
    assert len(found.db.sql(other).fetchall()) >= 3
    assert found.db.sql(spent).fetchall() == [(charged,)]
