"""Rows in Postgres have one budget: parts, wholes, new names, other addresses of the server, and pins before."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.errors import DpsqlError, InvalidArgument

from .postgres_bank import bank

pytestmark = pytest.mark.medium
REFUSED = "registered as '{}' of 'bank' already"
CHANGED = r"not the one that dp_source looked at.*CALL dp_source"
TREE = (
    "CREATE TABLE whole (x int4 NOT NULL, land int4 NOT NULL) PARTITION BY LIST (land)",
    "CREATE TABLE middle PARTITION OF whole FOR VALUES IN (1, 2) PARTITION BY LIST (land)",
    "CREATE TABLE one PARTITION OF middle FOR VALUES IN (1)",
    "CREATE TABLE two PARTITION OF middle FOR VALUES IN (2)",
    "CREATE TABLE parent (x int4 NOT NULL)",
    "CREATE TABLE other_parent (y int4 NOT NULL)",
    "CREATE TABLE child () INHERITS (parent, other_parent)",
    "CREATE TABLE alone (x int4 NOT NULL)",
    "INSERT INTO whole SELECT i, 1 + i % 2 FROM generate_series(1, 100) i",
    "INSERT INTO alone SELECT i FROM generate_series(1, 100) i",
)
SHARED = [
    {"whole", "middle"},
    {"whole", "one"},
    {"whole", "two"},
    {"middle", "one"},
    {"middle", "two"},
    {"parent", "child"},
    {"other_parent", "child"},
    {"parent", "other_parent"},  # the rows of their child
]
"""Tables that have rows in common, and no others have."""


@pytest.fixture
def found(tmp_path):
    with bank(tmp_path) as found:
        found.sql(*TREE)
        yield found


def counted(found, name):
    """How many rows a release counts."""
    return found.db.sql(f"SELECT n FROM dp_query('SELECT count(*) AS n FROM {name}', epsilon := 5)").fetchall()[0][0]


def test_tables_that_share_rows_share_a_budget_and_no_others_do(found):
    """Every pair of tables of a tree, in both orders: parts and wholes are refused, siblings are not."""
    names = ["whole", "middle", "one", "two", "parent", "other_parent", "child", "alone"]
    for first in names:
        found.source("first", first)
        for second in names:
            if {first, second} in SHARED or first == second:
                with pytest.raises(InvalidArgument, match=REFUSED.format("first")):
                    found.source("second", second)
            else:
                found.source("second", second)
                found.db.sql("DROP TABLE second")
        found.db.sql("DROP TABLE first")


def test_a_table_is_the_same_under_a_new_name(found):
    """And in another schema; who swaps names gets neither a second budget nor the other table's rows."""
    found.source("alone")
    found.db.protect("alone", epsilon=50.0, delta=1e-9)
    found.sql("ALTER TABLE alone RENAME TO before", "CREATE SCHEMA archive", "ALTER TABLE before SET SCHEMA archive",
              "CREATE TABLE alone (x int4 NOT NULL)")  # fmt: skip
    with pytest.raises(InvalidArgument, match=REFUSED.format("alone")):
        found.source("again", "archive.before")
    with pytest.raises(DpsqlError, match=CHANGED):
        counted(found, "alone")
    found.source("alone")  # the usual swap of a load: one call
    assert abs(counted(found, "alone")) < 10
    with pytest.raises(InvalidArgument, match=REFUSED.format("alone")):
        found.source("again", "archive.before")  # its rows were counted


def test_names_that_are_swapped_lead_to_neither_table(found):
    for name in ("one", "two"):
        found.source(name)
        found.db.protect(name, epsilon=50.0, delta=1e-9)
    found.sql("ALTER TABLE one RENAME TO three", "ALTER TABLE two RENAME TO one", "ALTER TABLE three RENAME TO two")
    for name, other in (("one", "two"), ("two", "one")):
        with pytest.raises(DpsqlError, match=CHANGED):
            counted(found, name)
        with pytest.raises(InvalidArgument, match=REFUSED.format(other)):
            found.source(name)


def test_a_part_under_the_name_of_the_whole_is_not_the_whole(found):
    """Though its rows are all of the pinned ones: a release would be about fewer than the owner registered."""
    found.source("whole")
    found.db.protect("whole", epsilon=50.0, delta=1e-9)
    found.sql("ALTER TABLE whole RENAME TO before", "ALTER TABLE one RENAME TO whole")
    with pytest.raises(DpsqlError, match=CHANGED):
        counted(found, "whole")


def test_tables_that_join_later_are_looked_at(found):
    """A table with a budget that becomes a partition, one that is new, and one that was one once."""
    found.sql("CREATE TABLE three (x int4 NOT NULL, land int4 NOT NULL)")
    found.source("whole")
    found.db.protect("whole", epsilon=50.0, delta=1e-9)
    found.source("three")
    found.sql("ALTER TABLE whole ATTACH PARTITION three FOR VALUES IN (3)")
    with pytest.raises(DpsqlError, match=CHANGED):
        counted(found, "whole")
    with pytest.raises(InvalidArgument, match=REFUSED.format("three")):
        found.source("whole")
    found.sql("ALTER TABLE whole DETACH PARTITION three", "CREATE TABLE four PARTITION OF whole FOR VALUES IN (4)")
    with pytest.raises(DpsqlError, match=CHANGED):
        counted(found, "whole")
    with pytest.raises(InvalidArgument, match=REFUSED.format("whole")):
        found.source("four")
    found.source("whole")
    assert abs(counted(found, "whole") - 100) < 10
    found.sql("ALTER TABLE whole DETACH PARTITION four")
    assert abs(counted(found, "whole") - 100) < 10  # fewer tables than were looked at are no others
    with pytest.raises(InvalidArgument, match=REFUSED.format("whole")):
        found.source("four")
    found.source("whole")
    with pytest.raises(InvalidArgument, match=REFUSED.format("whole")):
        found.source("four")


def test_a_server_is_the_same_under_every_address(found, tmp_path, monkeypatch):
    """By another folder of its socket here, as by localhost beside 127.0.0.1, and by its database's new name."""
    (tmp_path / "socket").symlink_to(found.server.folder)
    words = found.server.words(found.database).replace(str(found.server.folder), f"{tmp_path}/socket")
    monkeypatch.setenv("DPSQL_TEST_OTHER", words)
    found.source("alone")
    with pytest.raises(InvalidArgument, match=REFUSED.format("alone")):
        found.db.source("again", engine="postgres", environment="DPSQL_TEST_OTHER", relation="alone")
    renamed = f"{found.database}_renamed"
    found.server.sql(f"ALTER DATABASE {found.database} RENAME TO {renamed}")
    try:
        monkeypatch.setenv("DPSQL_TEST_OTHER", found.server.words(renamed))
        with pytest.raises(InvalidArgument, match=REFUSED.format("alone")):
            found.db.source("again", engine="postgres", environment="DPSQL_TEST_OTHER", relation="alone")
    finally:
        found.server.sql(f"ALTER DATABASE {renamed} RENAME TO {found.database}")


def test_a_user_who_cannot_tell_the_server_is_refused(found):
    if not found.server.has_role("blind"):
        found.sql("CREATE ROLE blind LOGIN")
    found.sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "GRANT SELECT ON alone TO blind")
    found.connect_as("blind")
    with pytest.raises((InvalidArgument, duckdb.Error), match="GRANT EXECUTE ON FUNCTION pg_control_system"):
        found.source("alone")
    found.sql("GRANT EXECUTE ON FUNCTION pg_control_system() TO blind")
    found.source("alone")


def test_rows_on_another_server_are_no_part(found):
    if not found.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'postgres_fdw'"):
        pytest.skip("Postgres has no postgres_fdw")
    found.sql(
        "CREATE EXTENSION postgres_fdw",
        "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw",
        "CREATE FOREIGN TABLE five PARTITION OF whole FOR VALUES IN (5) SERVER far",
    )
    with pytest.raises(InvalidArgument, match="a part of 'public.whole' is a foreign table"):
        found.source("whole")


def test_rows_in_a_file_are_no_table(found):
    if not found.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'file_fdw'"):
        pytest.skip("Postgres has no file_fdw")
    found.sql(
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE listed (x int4) SERVER files OPTIONS (filename '/dev/null')",
    )
    with pytest.raises(InvalidArgument, match="a foreign table, .* or in a file: .*load the rows into a table"):
        found.source("listed")


def test_a_source_of_an_earlier_version_is_looked_at_once(found):
    """Its pin does not say which table it is: one call, and nothing is charged before."""
    found.source("alone")
    found.db.protect("alone", epsilon=50.0, delta=1e-9)
    found.db.sql(
        """UPDATE dpsql.source SET pin = json_object('cluster', pin ->> 'cluster', 'database', pin ->> 'database')"""
    )
    with pytest.raises(DpsqlError, match=CHANGED):
        counted(found, "alone")
    assert found.db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]
    found.db.source("alone")
    assert abs(counted(found, "alone") - 100) < 10
