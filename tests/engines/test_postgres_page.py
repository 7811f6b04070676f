"""The page "Count where the rows are: Postgres" runs as it is written, on both sides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .postgres_bank import bank

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "postgres.md").read_text(encoding="utf-8")


@pytest.mark.medium
def test_the_page_runs_as_it_is_written(tmp_path, monkeypatch):
    (grants,) = re.findall(r"```text\n\s*-- in Postgres\n(.*?)```", PAGE, re.DOTALL)
    (statements,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    with bank(tmp_path) as found:
        if found.server.has_role("counter"):
            found.sql("DROP OWNED BY counter", "DROP ROLE counter")
        found.sql(
            "CREATE SCHEMA clinic",
            "CREATE TABLE clinic.visits AS SELECT i AS id, 'p' || i % 400 AS patient, "
            "(ARRAY['surgery', 'children', 'eyes'])[1 + i % 3] AS ward, i % 100 AS age, "
            "(i % 5000)::numeric(9, 2) AS cost, 'a canary' AS note FROM generate_series(1, 2000) i",
            "ALTER TABLE clinic.visits ADD PRIMARY KEY (id)",
            *grants.replace("DATABASE bank", f"DATABASE {found.database}").strip().rstrip(";").split(";"),
        )
        monkeypatch.setenv("BANK_PG", found.server.words(found.database, "counter"))
        for statement in found.db.connection.extract_statements(statements):
            rows = found.db.connection.execute(statement).fetchall()
            if statement.query.lstrip().startswith("FROM dp_query"):
                assert sorted(ward for ward, *_ in rows) == ["children", "eyes", "surgery"]
        made = found.db.sql("SELECT DISTINCT ward FROM made ORDER BY 1").fetchall()
        assert made == [("children",), ("eyes",), ("surgery",)]
        assert "note" not in found.db.sql("FROM visits LIMIT 0").columns
        # what the table of troubles says
        found.sql("ALTER TABLE clinic.visits ADD room int4", "GRANT SELECT ON clinic.visits TO counter")
        found.db.sql("CALL dp_source('visits')")
        assert found.db.sql("FROM visits LIMIT 0").columns[-2:] == ["note", "room"]
        found.db.sql("DROP TABLE visits")
        found.source("visits", "clinic.visits")


def test_a_page_that_says_what_it_cannot_do_names_it_all():
    from dpsql.engines.postgres.engine import PostgresEngine

    assert {*PostgresEngine.cannot} == {"read_as"}
    for text in ("`read_as`", "`sample`"):
        assert text in PAGE
