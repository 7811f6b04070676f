"""The page "Rows in a bucket" runs as it is written, against a server on this machine that speaks S3."""

from __future__ import annotations

import re
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import dpsql
from dpsql.engines.lake.addresses import is_in_bucket

from .s3_server import MISSING, httpfs, s3_server

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "bucket.md").read_text(encoding="utf-8")


@pytest.mark.medium
@pytest.mark.skipif(httpfs() is None, reason=MISSING)
def test_the_page_runs_as_it_is_written(tmp_path):
    first, delta, second = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    server = s3_server()
    server.make("lake")
    changes = {
        "INSTALL httpfs;\n": "",
        "LOAD httpfs": f"LOAD '{httpfs()}'",
        "'s3.example.org'": f"'{server.endpoint}', USE_SSL false",
    }
    for text, instead in changes.items():
        assert text in first
        first = first.replace(text, instead)
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        load, secret, rest = first.split(";\n", 2)
        db.sql(load)
        db.sql(secret)
        for year in (2025, 2026):
            rows = f"SELECT i % 100 AS age FROM range({year - 1925}) r(i)"
            db.sql(f"COPY ({rows}) TO 's3://lake/visits/year={year}/0.parquet'")
        deltalake.write_deltalake(tmp_path / "stays", pa.table({"age": [40] * 500}))
        server.put_folder("lake/stays", tmp_path / "stays")
        db.sql(delta.rpartition("FROM dp_query")[0])
        ((stays, *_),) = db.sql("FROM dp_query" + delta.rpartition("FROM dp_query")[2]).fetchall()
        assert abs(stays - 500) < 200
        found = []
        for block in (rest, second):
            for statement in db.connection.extract_statements(block):
                rows = db.connection.execute(statement).fetchall()
                if statement.query.lstrip().startswith("FROM dp_query"):
                    assert [year for year, *_ in rows] == ["2025", "2026"]
                    found.append(rows)
        assert found[0] == found[1]
        assert sorted(rows) == [("delta, version 0",), *[("parquet files",)] * 2]


def test_the_page_names_the_schemes_that_are_read():
    for scheme in ("s3", "s3a", "s3n", "gs", "r2"):
        assert f"`{scheme}://" in PAGE
        assert is_in_bucket(f"{scheme}://bucket/key")
    for other in ("https", "az"):
        assert f"`{other}://" in PAGE
        assert not is_in_bucket(f"{other}://bucket/key")
