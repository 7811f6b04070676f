"""Spark as a cluster: a master, two workers, an executor for each, and a session that dpsql starts from a variable.

The suite's properties hold there, and whatever is killed while it counts is charged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

import dpsql

from . import spark_cluster
from .conformance import PROPERTIES
from .spark_cluster import VARIABLE, Cluster, cluster
from .spark_killed import QUERY, ROWS, bank, exact, fails, goes_on, is_right, kills, meanwhile, spent, waits
from .spark_place import InSpark, spark_place

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there() -> Iterator[Cluster]:
    """The cluster; other modules find their own Spark again."""
    yield cluster()
    spark_cluster.remove()


@pytest.fixture(autouse=True)
def workers(there) -> None:
    """Both, whatever a test before did."""
    there.start_workers()


class InCluster(InSpark):
    """Tables of the session in the cluster."""

    environment: ClassVar[str] = VARIABLE


@pytest.mark.medium  # too: a third of them a run
@pytest.mark.parametrize("claim", PROPERTIES)
def test_a_cluster_conforms(claim, there, tmp_path):
    with spark_place(tmp_path, InCluster, there.session()) as place:
        PROPERTIES[claim](place)


MOMENTS = {
    "rows are counted": ({}, lambda statements: statements.last),
    "rows of units are chosen": ({"privacy_unit": "patient", "max_rows": 6}, lambda statements: statements.shown),
    "chosen rows are counted": ({"privacy_unit": "patient", "max_rows": 6}, lambda statements: statements.last),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_executor_that_is_killed_while(moment, there, tmp_path, monkeypatch):
    """Spark tries its tasks again, and no row counts twice or not at all."""
    protected, when = MOMENTS[moment]
    there.session()
    with bank(tmp_path, **protected) as db:
        before = {process.pid for process in there.executors()}
        monkeypatch.setattr("dpsql.engines.spark.in_tasks.in_task", kills(tmp_path / "marker", when=when))
        rows = db.sql(QUERY).fetchall()
        assert (tmp_path / "marker").exists()
        assert before - {process.pid for process in there.executors()}, "an executor was killed"
        assert is_right(rows, 400 * 6 // 3 if protected else ROWS // 3)


def test_all_workers_are_killed_and_start_again(there, tmp_path, monkeypatch, capfd):
    there.session()
    with bank(tmp_path) as db:
        exact(db, "people")  # executors are there from here on
        monkeypatch.setattr("dpsql.engines.spark.in_tasks.in_task", waits(tmp_path / "marker"))
        monkeypatch.setattr("dpsql.engines.spark.executors.PATIENCE", 3.0)
        with meanwhile(tmp_path / "marker", there.kill_workers):
            fails("no executor for minutes.*what was charged is kept", lambda: db.sql(QUERY).fetchall(), capfd)
        before = spent(db)
        more = QUERY.replace("epsilon := 4", "epsilon := 5")
        fails("no executor for minutes", lambda: db.sql(more).fetchall(), capfd)
        assert spent(db) == before, "Spark looks at the files first"
        monkeypatch.undo()
        there.start_workers()
        goes_on(db)


# --- inputs that nobody named -----------------------------------------------------------------------------------------

AWKWARD = """SELECT i % 3 AS "a b", (i % 5)::TINYINT AS "x.y", (i % 7)::DECIMAL(38, 2) AS "`tick`", i % 2 = 0 AS "SELECT",
    DATE '2020-01-01' + (i % 4)::INTEGER AS "ä", (i % 2)::FLOAT / 0 AS "1", NULL::INTEGER AS "--", ['x'] AS "list" FROM range(900) r(i)"""
TEXTS = (
    "it's",
    '"',
    "\\",
    "\\n",
    "a\nb",
    "\r",
    "\t",
    "${spark.master}",
    "%s",
    "{}",
    "\u2028",
    "\ufeff",
    "😀",
    "NULL",
    "",
    " ",
    "x" * 70_000,
)
HOSTILE = "SELECT unnest(CAST($1 AS VARCHAR[])) AS t, unnest(range(len($1))) AS n"


def of_both(db: dpsql.Database, folder: str, declare: Callable[[str], None]) -> None:
    """The cluster counts files as DuckDB here does."""
    counted = []
    db.sql(f"CREATE TABLE here AS FROM '{folder}/*.parquet'")
    for table in ("here", "in_spark"):
        if table == "in_spark":
            db.source(table, engine="spark", files=folder, environment=VARIABLE)
        db.protect(table, epsilon=1.0, delta=1e-6)
        declare(table)
        counted.append(exact(db, table))
    assert counted[0] == counted[1]
    assert all(counted[0])


def test_awkward_names_and_types(there, tmp_path):
    there.session()
    (tmp_path / "rows").mkdir()

    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        db.sql(f"COPY ({AWKWARD}) TO '{tmp_path}/rows/0.parquet'")

        def declare(table: str) -> None:
            for name, domain in {
                "a b": {"values": [0, 1]},
                "x.y": {"lower": 0, "upper": 4},
                "`tick`": {"lower": 0, "upper": 6, "bins": 3},
                "SELECT": {"values": ["false", "true"]},
                "ä": {"values": ["2020-01-01", "2020-01-03"]},
                "1": {"values": ["inf", "nan"]},
                "--": {"values": [1]},
                "list": {"exclude": True},
            }.items():
                db.domain(table, name, **domain)

        of_both(db, f"{tmp_path}/rows", declare)


def test_hostile_texts_in_one_partition_beside_empty_ones(there, tmp_path):
    """All rows in one of 20 files, and the others have none."""
    there.session()
    (tmp_path / "rows").mkdir()
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        db.connection.execute("CREATE TABLE texts (t VARCHAR, n BIGINT)")
        db.connection.execute(f"INSERT INTO texts {HOSTILE}", [list(TEXTS)])
        for number in range(20):
            rows = f"FROM texts, range(50) WHERE {number} = 7"
            db.sql(f"COPY (SELECT t, n {rows}) TO '{tmp_path}/rows/{number}.parquet'")

        def declare(table: str) -> None:
            db.domain(table, "t", values=list(TEXTS))
            db.domain(table, "n", lower=0, upper=len(TEXTS) - 1)

        of_both(db, f"{tmp_path}/rows", declare)
        assert exact(db, "in_spark")[1] == dict.fromkeys(range(len(TEXTS)), 50)
