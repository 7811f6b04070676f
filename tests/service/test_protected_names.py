"""Who reads a protected table as if it were there is told what to ask; of other tables nothing is told."""

from __future__ import annotations

import psycopg
import pytest

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def alice(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM adult", "SELECT age FROM ADULT AS a", "SELECT 1 FROM shown JOIN main.adult USING (i)"]
)
@pytest.mark.parametrize("parameters", [None, [5]])
def test_a_protected_table_is_asked_about(alice, sql, parameters):
    text = sql if parameters is None else f"SELECT * FROM ({sql}) AS q LIMIT %s"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is protected") as raised:
        alice.execute(text, parameters)
    assert "FROM dp_query(" in str(raised.value)
    assert "FROM dp_synthesize(" in str(raised.value)


@pytest.mark.parametrize("name", ["secret", "nothing_of_the_kind", "bank.adult2"])
def test_of_other_tables_it_is_told_nothing(alice, name):
    """A table that the user has no limit on is as one that is not there; no other name is suggested."""
    with pytest.raises(psycopg.Error) as raised:
        alice.execute(f"SELECT * FROM {name}")
    assert "protected" not in str(raised.value)
    assert "Did you mean" not in str(raised.value)


def test_a_reader_is_told_nothing(served):
    with psycopg.connect(served.dsn("rita"), autocommit=True) as rita, pytest.raises(psycopg.errors.UndefinedTable):
        rita.execute("SELECT * FROM adult")
