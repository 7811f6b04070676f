"""Files of other writers, and settings for files: what is counted in a lake is what stands in the rows, nothing else."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql

from ..release.test_faults import kill_in
from .test_settings import named, tried

HOW_FILES_ARE_READ = {"parquet", "geoparquet", "cache", "file", "files", "binary"}
"""Words in names of settings; the others say which files and extensions there are, and some cannot be set back."""
WITHOUT_NAN = "SELECT count(*) FROM read_parquet(?) WHERE x <= 5"
"""Rows of `numbers`; DuckDB itself counts the NaN too, because no row group's statistics have it."""


def write_numbers(path, kind):
    """3,000 numbers of 1 to 3 and 100 times NaN, written as others write it: NaN is in no statistics."""
    numbers = np.append(np.tile([1.0, 2.0, 3.0], 1000), [np.nan] * 100)
    pq.write_table(pa.table({"x": pa.array(numbers, kind)}), path)


def groups(db, text):
    """The groups of a query, by how many hundreds of rows they have: the noise is of less than 30."""
    found = db.sql(f"FROM dp_query('{text}', epsilon := 20)").fetchall()
    return {row[0]: round(row[1] / 100) for row in found}


@pytest.mark.medium
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_nan_is_nan_whatever_the_statistics_of_a_file_say(tmp_path, kind):
    """A row's bin must not depend on other rows: they make the statistics, and could move every NaN at once."""
    write_numbers(tmp_path / "numbers.parquet", kind)
    with duckdb.connect() as own:
        own.execute("SET threads = 1")
        assert own.execute(WITHOUT_NAN, [str(tmp_path / "numbers.parquet")]).fetchall() == [(3100,)]
    with dpsql.connect() as db:
        db.source("numbers", files=str(tmp_path / "numbers.parquet"))
        db.protect("numbers", epsilon=1000.0, delta=1e-9)
        db.domain("numbers", "x", lower=0, upper=5, bins=5)
        assert groups(db, "SELECT x > 4 AS k, count(*) FROM numbers WHERE x <= 5 GROUP BY k") == {False: 30, True: 0}
        made = "FROM dp_synthesize('numbers', epsilon := 100, mechanism := 'direct')"
        counts = dict(db.sql(f"SELECT x IS NULL, count(*) {made} GROUP BY ALL").fetchall())
        assert counts[False] == pytest.approx(3000, abs=30)
        assert counts[True] == pytest.approx(100, abs=30)


@pytest.mark.medium
def test_no_setting_for_files_changes_a_count(tmp_path, monkeypatch):
    """Each is tried on a lake."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", lambda v, n, e=None: np.zeros(n, np.int64))
    write_numbers(tmp_path / "numbers.parquet", pa.float64())
    with duckdb.connect() as own:
        rows = f"SELECT *, encode('w' || i % 7) AS word FROM read_parquet('{tmp_path}/numbers.parquet') AS r, range(3) t(i)"
        own.execute(f"COPY ({rows}) TO '{tmp_path}/more.parquet'")
    db = dpsql.connect()
    db.source("numbers", files=str(tmp_path / "more.parquet"))
    db.protect("numbers", epsilon=1000.0, delta=1e-9)
    db.domains("numbers", {"x": {"lower": 0, "upper": 5, "bins": 5}, "i": {"lower": 0, "upper": 2}})
    text, tested = "SELECT x > 2 AS k, i, count(*) FROM numbers GROUP BY k, i ORDER BY ALL", 0
    without = db.sql(f"FROM dp_query('{text}', epsilon := 1)").fetchall()
    for name in (name for name in named("files") if "PRAGMA" not in name):
        for change, back in tried(db, name) if set(name.split("_")) & HOW_FILES_ARE_READ else ():
            db.connection.execute(change)
            assert db.sql(f"FROM dp_query('{text}', epsilon := 1, release := '{change}')").fetchall() == without, change
            db.connection.execute(back)
            tested += 1
    assert tested > 2


CALL = "FROM dp_synthesize('numbers', epsilon := 1.0, mechanism := 'direct')"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("module", "name"),
    [("dpsql.engines.lake.engine", "open_rows"), ("dpsql.release.synthesis", "coded")],
    ids=["after the charge", "before the rows are stored"],
)
def test_a_release_of_files_goes_on_after_kill_9(tmp_path, module, name):
    """It is charged once. A file that is gone meanwhile is said, costs nothing more, and the call goes on when it is back."""
    path, file = tmp_path / "bank.duckdb", tmp_path / "numbers.parquet"
    write_numbers(file, pa.float64())
    with dpsql.connect(path) as db:
        db.source("numbers", files=str(file))
        db.protect("numbers", epsilon=1.5, delta=1e-9)
        db.domain("numbers", "x", lower=0, upper=5, bins=5)
    kill_in(module, name, path, CALL)
    with dpsql.connect(path) as db:
        spent = db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall()
        assert spent == [(pytest.approx(1.0), 1)]
        file.rename(tmp_path / "elsewhere")
        with pytest.raises(duckdb.Error, match="restore|is gone|not there"):
            db.sql(CALL).fetchall()
        (tmp_path / "elsewhere").rename(file)
        assert len(db.sql(CALL).fetchall()) == pytest.approx(3100, abs=60)
        assert db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall() == spent
        assert db.sql("SELECT state FROM dp_releases()").fetchall() == [("published",)]
