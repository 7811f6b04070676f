"""The page "Count where the rows are: Spark" runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .spark_bank import lot

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.medium
def test_the_page_runs_as_it_is_written(tmp_path, monkeypatch):
    (statements,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    monkeypatch.setenv("BANK_SPARK", "local[1]")  # the session that runs, where there is one
    with lot(tmp_path) as found:
        found.sql(
            "CREATE SCHEMA IF NOT EXISTS clinic",
            "DROP TABLE IF EXISTS clinic.visits",
            "CREATE TABLE clinic.visits USING parquet AS SELECT concat('p', id % 400) AS patient, "
            "element_at(array('surgery', 'children', 'eyes'), 1 + CAST(id % 3 AS INT)) AS ward, CAST(id % 100 AS INT) AS age, "
            "CAST(id % 5000 AS DECIMAL(9, 2)) AS cost FROM range(2000)",
        )
        for statement in found.db.connection.extract_statements(statements):
            rows = found.db.connection.execute(statement).fetchall()
            if statement.query.lstrip().startswith("FROM dp_query"):
                assert sorted(ward for ward, *_ in rows) == ["children", "eyes", "surgery"]
        made = found.db.sql("SELECT DISTINCT ward FROM made ORDER BY 1").fetchall()
        assert made == [("children",), ("eyes",), ("surgery",)]


def test_a_page_that_says_what_it_cannot_do_names_it_all():
    from dpsql.engines.spark.engine import SparkSqlEngine, SparkTaskEngine

    assert {*SparkTaskEngine.cannot} == {"among"}
    assert {*SparkSqlEngine.cannot} == {"presence", "among", "read_as"}
    for text in ("count(DISTINCT", "`read_as`", "a sample of rows", "`privacy_unit`"):
        assert text in PAGE
