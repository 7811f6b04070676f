"""What is looked up of links is what is charged; a table that is gone stops what needs it, and nothing else."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from dpsql.books.tables import write_table_ids
from dpsql.errors import DpsqlError, UnknownName
from dpsql.release import linked_rows
from tests.linked.test_release import charges, run

TABLES = """
    CREATE TABLE wards AS SELECT i AS ward, ['north', 'south'][1 + i % 2] AS name FROM range(3) r(i);
    CREATE TABLE patients AS SELECT i AS pid, i % 2 = 0 AS ill FROM range(40) r(i);
    CREATE TABLE visits AS SELECT i AS vid, i % 30 AS pid, i % 31 AS other, i % 3 AS ward FROM range(90) r(i);
    CREATE TABLE labs AS SELECT i % 80 AS vid, i % 2 = 0 AS bad FROM range(120) r(i);
    CALL dp_protect('patients', epsilon := 300.0, delta := 1e-9);
    CALL dp_link('visits', 'patients', key := ['pid'], "references" := ['pid'], most := 4, max_rows := 2);
    CALL dp_link('labs', 'visits', key := ['vid'], "references" := ['vid'], most := 4, max_rows := 3);
    CALL dp_domain('visits', 'ward', "values" := [0, 1, 2]);
    CALL dp_domain('visits', 'other', exclude := true);
"""
ROWS = "FROM dp_query('SELECT ward, count(*) AS n FROM visits GROUP BY ward', epsilon := 1)"
UNITS = "FROM dp_query('SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY n', epsilon := 1)"
TREE = "FROM dp_synthesize('patients', epsilon := 20.0, linked := true, steps := 20, relaxed_rows := 20)"
OTHERWISE = {
    "rows of another bound": (ROWS, {"max_rows": 50}),
    "another key": (ROWS, {"key": "other", "max_rows": 2}),
    "units of another key": (UNITS, {"key": "other", "max_rows": 2}),
    "a tree with another number of children": (TREE, {"most": 3, "max_rows": 2}),
}


@pytest.fixture
def clinic():
    with dpsql.connect() as db:
        run(db, TABLES)
        yield db


@pytest.mark.medium
@pytest.mark.parametrize("how", OTHERWISE)
def test_a_link_that_changes_right_before_the_charge_is_noticed(clinic, monkeypatch, how):
    """Noise is for the bound that was charged, and rows of a unit are those of the link that was looked up."""
    asked, link = OTHERWISE[how]
    mark = write_table_ids.mark

    def relinked(books, source):
        monkeypatch.setattr(write_table_ids, "mark", mark)
        other = clinic.cursor()
        for table in ("labs", "visits"):
            other.unprotect(table, reason="linked otherwise")
        other.link("visits", "patients", **{"key": "pid", "references": "pid", "most": 4, **link})
        other.link("labs", "visits", "vid", "vid", most=4, max_rows=3)
        other.domain("visits", "ward", values=[0, 1, 2])
        other.domain("visits", "other", exclude=True)
        mark(books, source)

    monkeypatch.setattr(write_table_ids, "mark", relinked)
    with pytest.raises(duckdb.Error, match="the links of .* changed since the request was made"):
        clinic.sql(asked).fetchall()
    assert charges(clinic) == 0
    if asked == ROWS:
        assert len(clinic.sql(asked).fetchall()) == 3
        assert charges(clinic) == 1


@pytest.mark.medium
def test_a_stopped_release_is_not_charged_anew_because_a_domain_changed(clinic, monkeypatch):
    store = linked_rows.publication.store_tables

    def stopped(*arguments):
        raise DpsqlError("stopped")

    monkeypatch.setattr(linked_rows.publication, "store_tables", stopped)
    with pytest.raises(duckdb.Error, match="stopped"):
        clinic.sql(TREE).fetchall()
    monkeypatch.setattr(linked_rows.publication, "store_tables", store)
    clinic.domain("visits", "ward", values=[0, 1])
    with pytest.raises(duckdb.Error, match="was charged and stopped, and since then domains, links or columns"):
        clinic.sql(TREE).fetchall()
    assert charges(clinic) == 1
    assert clinic.sql(TREE.replace("dp_synthesize", "dp_plan")).fetchall()  # which is free
    clinic.sql(TREE.replace("linked :=", "release := 'other', linked :=")).fetchall()
    assert charges(clinic) == 2
    clinic.domain("visits", "ward", values=[0, 1, 2])
    assert clinic.sql(TREE).fetchall()
    assert charges(clinic) == 2


@pytest.mark.medium
def test_a_table_that_was_dropped_stops_only_what_needs_it(clinic):
    clinic.sql("DROP TABLE labs")
    notes = dict(clinic.sql("SELECT source, note FROM dp_links()").fetchall())
    assert notes["patients"] is None
    assert "CREATE TABLE labs" in notes["labs"]
    assert len(clinic.sql(ROWS).fetchall()) == 3
    assert clinic.sql(UNITS).fetchall()
    clinic.sql("CREATE TABLE notes (vid BIGINT)")
    assert clinic.link("notes", "visits", "vid", "vid").parent == "visits"
    for call in ("dp_plan", "dp_synthesize"):
        with pytest.raises(duckdb.Error, match=r"table 'labs' .* is not there.*CREATE TABLE labs"):
            clinic.sql(TREE.replace("dp_synthesize", call))
    clinic.sql("CREATE TABLE labs AS SELECT 1 AS vid, true AS bad")
    assert clinic.sql("SELECT note FROM dp_links() WHERE source = 'labs'").fetchall() == [(None,)]
    clinic.sql("ALTER TABLE visits RENAME TO elsewhere")
    with pytest.raises((duckdb.Error, UnknownName), match=r"'visits'"):
        clinic.sql("FROM dp_query('SELECT bad, count(*) FROM labs GROUP BY bad', epsilon := 1)")


@pytest.mark.medium
def test_a_public_view_beside_linked_tables_is_named_as_what_it_is(clinic):
    clinic.sql("CREATE VIEW names AS FROM wards; CREATE VIEW again AS FROM names")
    clinic.sql("CREATE VIEW joined AS SELECT ward, ill FROM visits JOIN patients USING (pid)")
    for view in ("names", "again"):
        with pytest.raises(duckdb.Error, match=f"'{view}' is a view, and public tables are joined by their own names"):
            clinic.sql(
                f"FROM dp_query('SELECT name, count(*) FROM visits JOIN {view} USING (ward) GROUP BY 1', epsilon := 1)"
            )
    assert len(clinic.sql(ROWS.replace("FROM visits", "FROM joined")).fetchall()) == 3
