"""Iceberg tables of a Spark's catalogue: which snapshot counts, what an owner does with it, and what is refused.

They run where Iceberg for Spark 3.5 is: `python -m tests.engines.spark_lake` makes such an environment. How the engines
count there is in the conformance suite.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql
from dpsql.errors import DpsqlError

from .spark_bank import WAYS, Lot, lot
from .spark_session import iceberg_jar

pytestmark = [
    pytest.mark.medium,
    pytest.mark.skipif(iceberg_jar() is None, reason="no Iceberg for Spark 3.5: python -m tests.engines.spark_lake"),
]
ROWS = "SELECT id, concat('w', id % 3) AS ward, CAST(id % 90 AS INT) AS age, concat('p', id % 50) AS who FROM range"
QUERY = "FROM dp_query('SELECT ward, count(*) FROM visits GROUP BY ward ORDER BY ward', epsilon := 50)"


@pytest.fixture
def visits(tmp_path) -> Iterator[Lot]:
    """A table of three snapshots of 300 rows each, partitioned."""
    with lot(tmp_path) as found:
        found.schema = f"lake.{found.schema}"
        found.sql(
            "CREATE TABLE {s}.visits (id BIGINT, ward STRING, age INT, who STRING) USING iceberg PARTITIONED BY (ward)"
        )
        for number in range(3):
            found.sql(f"INSERT INTO {{s}}.visits {ROWS}({300 * number}, {300 * number + 300})")
        yield found


def snapshots(found: Lot) -> list[int]:
    return [row[0] for row in found.sql("SELECT snapshot_id FROM {s}.visits.snapshots ORDER BY committed_at")]


def declare(db: dpsql.Database, **unit: object) -> None:
    db.protect("visits", epsilon=1000.0, delta=1e-9, **unit)
    db.domains(
        "visits",
        {
            "id": {"exclude": True},
            "ward": {"values": ["w0", "w1", "w2"]},
            "age": {"lower": 0, "upper": 89, "bins": 9},
            "who": {"exclude": True},
        },
    )


def counted(db: dpsql.Database, query: str = QUERY) -> list[int]:
    """To tens, as the noise is small."""
    return [int(round(row[1], -1)) for row in db.sql(query).fetchall()]


def spent(db: dpsql.Database) -> float:
    return db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0]


@pytest.mark.parametrize("way", WAYS)
def test_a_pin_is_a_snapshot(visits, way):
    """New rows count when the pin is moved, which the ledger records; an old one can be named."""
    old, _, new = snapshots(visits)
    visits.source("visits", way)
    declare(visits.db)
    assert counted(visits.db) == [300] * 3
    visits.sql(
        "INSERT INTO {s}.visits SELECT id, 'w0', 1, 'p0' FROM range(90)", "DELETE FROM {s}.visits WHERE ward = 'w2'"
    )
    assert counted(visits.db, QUERY.replace("50", "51")) == [300] * 3
    visits.db.source("visits")
    assert counted(visits.db, QUERY.replace("50", "52")) == [390, 300, 0]
    visits.db.source("visits", snapshot=old)
    assert counted(visits.db, QUERY.replace("50", "53")) == [100] * 3
    pins = [row[0] for row in visits.db.sql("SELECT reason FROM dp_ledger() WHERE kind = 'source'").fetchall()]
    assert pins[0] == f"iceberg snapshot {new}"
    assert pins[-1] == f"iceberg snapshot {old}"
    assert len(set(pins)) == 3


def test_what_an_owner_does(visits):
    """A unit, a plan, a discovery, a synthetic table."""
    visits.source("visits")
    declare(visits.db, privacy_unit="who", max_rows=6)
    db = visits.db
    assert db.discover("visits", "ward", epsilon=50.0, delta=1e-10).values == ("w0", "w1", "w2")
    assert sum(counted(db)) == 300  # 50 people
    assert db.sql("SELECT count(*) FROM dp_plan('visits', epsilon := 1)").fetchall()[0][0] > 4
    made = "dp_synthesize('visits', epsilon := 200, mechanism := 'direct')"
    ((rows, wards),) = db.sql(f"SELECT count(*), count(DISTINCT ward) FROM {made}").fetchall()
    assert (round(rows, -1), wards) == (300, 3)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_deleted_rows_do_not_count(visits, mode):
    modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))
    visits.sql(
        f"ALTER TABLE {{s}}.visits SET TBLPROPERTIES ({modes})",
        "DELETE FROM {s}.visits WHERE ward = 'w0' AND id % 2 = 0",
        "UPDATE {s}.visits SET ward = 'w1' WHERE ward = 'w2' AND id < 450",
    )
    held = dict(visits.sql("SELECT ward, count(*) FROM {s}.visits GROUP BY ward"))
    deleted = visits.sql("SELECT count(*) FROM {s}.visits.delete_files")[0][0]
    assert (deleted > 0) == (mode == "merge-on-read")
    visits.source("visits")
    declare(visits.db)
    assert counted(visits.db) == [held[f"w{number}"] for number in range(3)]


@pytest.mark.parametrize("way", WAYS)
def test_a_snapshot_that_expired(visits, way):
    """Is refused before the charge, and cannot be pinned."""
    old = snapshots(visits)[0]
    visits.source("visits", way, snapshot=old)
    declare(visits.db)
    catalog, _, schema = visits.schema.partition(".")
    expired = f"older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1, table => '{schema}.visits'"
    visits.sql(f"CALL {catalog}.system.expire_snapshots({expired})")
    with pytest.raises(duckdb.Error, match="are not those that were pinned.*CALL dp_source"):
        visits.db.sql(QUERY)
    assert spent(visits.db) == 0
    with pytest.raises(DpsqlError, match=f"snapshot is {old}: Spark has no such version"):
        visits.db.source("visits", snapshot=old)
    visits.db.source("visits")
    assert counted(visits.db) == [300] * 3


def test_columns_are_those_of_the_snapshot(visits):
    """Whatever the table became: a renamed column counts on, until the pin moves."""
    visits.source("visits")
    declare(visits.db)
    visits.sql(
        "ALTER TABLE {s}.visits RENAME COLUMN ward TO unit",
        "ALTER TABLE {s}.visits ADD COLUMN more INT",
        "ALTER TABLE {s}.visits DROP COLUMN who",
    )
    assert counted(visits.db) == [300] * 3
    old = visits.db.source("visits", snapshot=snapshots(visits)[0])
    assert old.columns == ("id", "ward", "age", "who")
    visits.sql("INSERT INTO {s}.visits SELECT id, 'w0', 1, 2 FROM range(30)")
    assert visits.db.source("visits").columns == ("id", "unit", "age", "more")


def test_a_table_in_place_of_the_pinned_one(visits):
    visits.source("visits")
    declare(visits.db)
    visits.sql("DROP TABLE {s}.visits", f"CREATE TABLE {{s}}.visits USING iceberg AS {ROWS}(60)")
    with pytest.raises(duckdb.Error, match="are not those that were pinned"):
        visits.db.sql(QUERY)
    assert spent(visits.db) == 0


def test_parts_of_a_table_are_refused(visits):
    """They are other rows under another name, or no rows of people at all; a branch's snapshot can be named."""
    visits.sql("ALTER TABLE {s}.visits CREATE BRANCH audit", "ALTER TABLE {s}.visits CREATE TAG first")
    visits.sql("INSERT INTO {s}.visits.branch_audit SELECT id, 'w1', 1, 'p0' FROM range(60)")
    at = snapshots(visits)[0]
    for part in ("branch_audit", "tag_first", "files", "snapshots", f"snapshot_id_{at}"):
        for snapshot in (None, at):
            with pytest.raises(DpsqlError, match="is a part of a table.*snapshot := "):
                visits.db.source("part", engine="spark", relation=f"{visits.schema}.visits.{part}", snapshot=snapshot)
    ((branch,),) = visits.sql("SELECT snapshot_id FROM {s}.visits.refs WHERE name = 'audit'")
    visits.source("visits", snapshot=branch)
    declare(visits.db)
    assert counted(visits.db) == [300, 360, 300]


def test_the_table_has_one_budget_with_and_without_spark(visits):
    """The engine `iceberg` reads the files of the same table, which the books know by its id."""
    visits.source("visits")
    visits.db.protect("visits", epsilon=1.0, delta=1e-9)
    (metadata,) = visits.sql("SELECT max_by(file, timestamp) FROM {s}.visits.metadata_log_entries")[0]
    with pytest.raises(DpsqlError, match="registered as 'visits'.*one budget"):
        visits.db.source("again", engine="iceberg", relation=metadata)


@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_is_cached(visits, way):
    """Spark would count the cached rows, whatever snapshot is pinned."""
    visits.source("visits", way, snapshot=snapshots(visits)[0])
    declare(visits.db)
    visits.sql("CACHE TABLE {s}.visits")
    with pytest.raises(duckdb.Error, match="is cached.*UNCACHE TABLE"):
        visits.db.sql(QUERY)
    assert spent(visits.db) == 0
    visits.sql("UNCACHE TABLE {s}.visits")
    assert counted(visits.db) == [100] * 3


def test_a_table_without_rows(tmp_path):
    with lot(tmp_path) as found:
        found.schema = f"lake.{found.schema}"
        found.sql("CREATE TABLE {s}.visits (x INT) USING iceberg")
        with pytest.raises(DpsqlError, match="no snapshot yet: write rows"):
            found.source("visits")
