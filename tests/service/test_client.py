"""`dpsql.client`: the methods of `Database`, with the same results."""

from __future__ import annotations

import subprocess
import sys
import threading

import pandas as pd
import pytest

import dpsql
from dpsql.errors import InsufficientBudget, Interrupted, InvalidQuery, NotAllowed, UnknownName
from dpsql.service import arrow
from tests.service.conftest import SHOWN

pytestmark = pytest.mark.medium
QUERY = "SELECT sex, race, count(*) AS n, avg(age) AS mean FROM adult GROUP BY sex, race"
FIT = {"columns": ["sex", "race", "age"], "rows": 50, "mechanism": "direct", "release": "by a client"}


@pytest.fixture(scope="module")
def alice(served):
    url = f"postgresql://alice:{served.tokens['alice']}@127.0.0.1:{served.service.port}/dpsql"
    with dpsql.client(f"{url}?sslrootcert={served.service.certificate}") as one:
        yield one


@pytest.fixture(scope="module")
def local():
    """What the owner's side has of the table with every type."""
    with dpsql.connect() as db:
        db.sql(SHOWN)
        yield db


def test_every_type_is_what_it_is_for_the_owner(alice, local):
    theirs, ours = alice.sql("SELECT * FROM shown ORDER BY i"), local.sql("SELECT * FROM shown ORDER BY i")
    assert theirs.columns == ours.columns
    assert list(map(str, theirs.types)) == list(map(str, ours.types))
    assert theirs.fetchall() == ours.fetchall()
    plain = "SELECT i, b, x, n, d, t, s FROM shown ORDER BY i"
    pd.testing.assert_frame_equal(alice.sql(plain).df(), local.sql(plain).df())


def test_a_query_is_the_same_as_in_sql(alice):
    found = alice.query(QUERY, epsilon=0.2, release="by a client")
    assert list(found)[:3] == ["sex", "race", "n"]
    assert found["n"].dtype == "int64"
    again = alice.sql("SELECT * FROM dp_query($1, epsilon => 0.2, release => 'by a client')", [QUERY]).df()
    pd.testing.assert_frame_equal(found, again)
    assert "by a client" in str(alice.releases()["request"].tolist())
    assert alice.budget()["epsilon_spent"][0] > 0


def test_a_synthetic_table_has_the_tables_types(alice, data):
    made = alice.synthesize("adult", 0.2, **FIT)
    with dpsql.connect() as db:
        db.sql(f"CREATE TABLE adult AS FROM '{data}/adult.csv.gz'")
        types = dict(db.sql("SELECT column_name, data_type FROM duckdb_columns()").fetchall())
    assert {name: str(kind) for name, kind in zip(made.columns, made.types, strict=True)} == {
        name: types[name] for name in ("sex", "race", "age")
    }
    assert made.shape == (50, 3)
    assert alice.synthesize("adult", 0.2, **FIT).fetchall() == made.fetchall(), "a repeat is free, and the same"


def test_plan_tables_and_no_rows(alice):
    assert alice.plan("adult", 0.5)["epsilon"][0] == 0.5
    assert alice.plan(QUERY, max_error=100.0)["epsilon"][0] > 0
    assert alice.tables() == ["shown"]
    empty = alice.sql("SELECT i, s FROM shown WHERE false")
    assert (empty.fetchall(), list(map(str, empty.types))) == ([], ["BIGINT", "VARCHAR"])


def test_errors_are_those_of_the_owners_side(alice):
    with pytest.raises(InsufficientBudget, match="asks for 50 "):
        alice.query(QUERY, epsilon=50)
    with pytest.raises(UnknownName, match="nope"):
        alice.query("SELECT nope FROM adult", epsilon=0.1)
    with pytest.raises(InvalidQuery, match="syntax"):
        alice.sql("SELEKT 1")
    with pytest.raises(NotAllowed, match="may not be called"):
        alice.sql("SELECT * FROM dp_ledger()")
    assert alice.sql("SELECT 1 AS a").fetchall() == [(1,)], "the session goes on"


def test_an_interrupt_stops_it(alice):
    timer = threading.Timer(1.0, alice.interrupt)
    timer.start()
    with pytest.raises(Interrupted):
        alice.sql("SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x * y % 7 = 3")
    timer.join()
    assert alice.sql("SELECT 1 AS a").fetchall() == [(1,)]


def test_a_wrong_token_and_no_tls(served):
    where = f"127.0.0.1:{served.service.port}/dpsql"
    with pytest.raises(dpsql.DpsqlError, match="password authentication failed"):
        dpsql.client(f"postgresql://alice:guess@{where}?sslrootcert={served.service.certificate}")
    with pytest.raises(dpsql.DpsqlError, match="root certificate"):
        dpsql.client(f"postgresql://alice:{served.tokens['alice']}@{where}?sslrootcert=/nonexistent")
    with pytest.raises(dpsql.DpsqlError, match="TLS only|SSL"):
        dpsql.client(f"postgresql://alice:{served.tokens['alice']}@{where}?sslmode=disable")


def test_its_import_is_light():
    script = "import sys, dpsql.service.client; print({'jax', 'scipy', 'sqlglot', 'psycopg'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_columns_of_the_same_name(alice):
    assert arrow.unique([("a", "INTEGER"), ("A", "INTEGER")]) == [("a", "INTEGER"), ("A_1", "INTEGER")]
    assert alice.sql("SELECT 1 AS a, 2 AS a").columns == ["a", "a_1"]
