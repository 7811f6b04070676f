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


@pytest.mark.medium
def test_texts_are_numbers_of_a_generated_column(tmp_path):
    """Whatever the texts are, and what DuckDB reads of those that the page calls numbers."""
    (columns,) = re.findall(r"```text\n-- a column in Postgres\n(.*?);\n```", PAGE, re.DOTALL)
    texts = [
        "7",
        "-7",
        "007",
        "999999999",
        "9999999999",
        "",
        " 7",
        "7 ",
        "7.5",
        "1e3",
        "--7",
        "x'; DROP TABLE t; --",
        "٧",
    ]
    clocks = ["0", "517", "2359", "2400", "575", "-1", "59", "60", None, "2147483647", "1", "99", "-517"]
    with bank(tmp_path) as found:
        found.sql("CREATE SCHEMA clinic", "CREATE TABLE clinic.visits (score text, at int4)")
        found.server.fill(
            found.database,
            "clinic.visits",
            [(text, at) for text, at in zip(texts, clocks, strict=True) for _ in range(50)],
        )
        found.sql(*columns.split(";"))
        found.source("visits", "clinic.visits")
        found.db.protect("visits", epsilon=1000.0, delta=1e-6)
        found.db.domain("visits", "points", values=[7, -7, 999999999])
        found.db.domain("visits", "begins", lower="00:00:00", upper="23:59:59.999999", bins=24)
        for name in ("score", "at"):
            found.db.domain("visits", name, exclude=True)
        query = "SELECT hour(begins), count(*) FROM visits GROUP BY 1"
        hours = {hour: n for hour, n, *_ in found.db.sql(f"FROM dp_query('{query}', epsilon := 90)").fetchall()}
        assert {hour: n for hour, n in hours.items() if n > 20} == {0: 150, 5: 50, 23: 50, None: 400}
        rows = found.db.sql(
            "FROM dp_query('SELECT points, count(*) FROM visits GROUP BY 1', epsilon := 900)"
        ).fetchall()
        counts = {points: n for points, n, *_ in rows}
        assert (counts[7], counts[-7], counts[999999999]) == (100, 50, 50)


def test_a_page_that_says_what_it_cannot_do_names_it_all():
    from dpsql.engines.postgres.engine import PostgresEngine

    assert {*PostgresEngine.cannot} == {"read_as"}
    for text in ("`read_as`", "`sample`"):
        assert text in PAGE
