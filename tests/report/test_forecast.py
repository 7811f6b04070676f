"""Before the charge: what a plan predicts, the command that stops, and advice that was planned before it is given."""

from __future__ import annotations

import re

import pytest

import dpsql
from dpsql.api.cli import main

WIDE = "SELECT " + ", ".join(f"(hash(i, {n}) % 90)::INTEGER AS c{n}" for n in range(8)) + " FROM range({rows}) r(i)"


def wide(db: dpsql.Database, rows: int = 1500) -> None:
    """Eight columns of numbers of which little is seen at a small ε."""
    db.sql(f"CREATE TABLE t AS {WIDE.format(rows=rows)}")
    db.protect("t", epsilon=3.0, delta=1e-9)
    for number in range(8):
        db.domain("t", f"c{number}", lower=0, upper=89, bins=30)


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        wide(db)
    return path


def charged(path) -> int:
    with dpsql.connect(path) as db:
        return int((db.ledger()["kind"] == "charge").sum()) + len(db.releases())


@pytest.mark.medium
def test_the_command_stops_where_no_pair_will_be_reliable(bank, tmp_path, capsys):
    made = tmp_path / "s.csv"
    asked = ["synthesize", str(bank), "t", "--epsilon", "0.2", "--assume-rows", "1500", "--output", str(made)]
    assert main(asked) != 0
    said = capsys.readouterr()
    error = said.out + said.err
    assert "none of 28 pairs of columns will be reliable" in error
    assert "Nothing was charged" in error
    assert "--anyway" in error
    assert "eclare about 4 bins a column of c0, c1, c2 and 5 more" in error
    assert "by the plan" in error.partition("Nothing was charged")[2]
    assert not made.exists()
    assert charged(bank) == 0


@pytest.mark.medium
def test_anyway_makes_it_and_a_paid_release_is_made_again_without_a_question(bank, tmp_path, capsys):
    made = tmp_path / "s.csv"
    asked = ["synthesize", str(bank), "t", "--epsilon", "0.2", "--assume-rows", "1500", "--output", str(made)]
    quick = ["--option", "steps=5", "--option", "relaxed_rows=16"]
    assert main([*asked, *quick, "--anyway"]) == 0
    assert "the plan predicts that none of 28 pairs of columns will be reliable" in capsys.readouterr().out
    made.unlink()
    assert main([*asked, *quick]) == 0
    assert "predicts" not in capsys.readouterr().out
    assert made.exists()
    assert charged(bank) == 1 or made.stat().st_size > 0


def test_without_a_number_of_rows_the_forecast_is_of_several(db):
    """The number of rows is private, so nothing that is said may depend on it."""
    wide(db)
    before = str(db.forecast("t", 1.0))
    db.sql("CREATE OR REPLACE TABLE other AS SELECT 1")
    assert re.search(r"with 1,000 rows, .* with 10,000 rows, .* with 100,000 rows\. assume_rows says", before)
    with dpsql.connect() as empty:
        wide(empty, rows=1)
        assert str(empty.forecast("t", 1.0)) == before
    assert "with about 5,000 rows" in str(db.forecast("t", 1.0, assume_rows=5000))


@pytest.mark.medium
def test_each_remedy_is_as_good_as_it_says(db):
    """What is advised is done, and the plan of what was done says the same."""
    wide(db)
    forecast = db.forecast("t", 0.4, assume_rows=20_000)
    advice = " ".join(forecast.advice)
    base = forecast.reliable
    said = {
        words: int(re.search(words + r".*?by the plan (?:about |all )?(\d+)", advice)[1])
        for words in ("Declare about 4 bins", "Say workload")
        if words in advice
    }
    assert said, advice
    if "Say workload" in said:
        found = db.forecast("t", 0.4, assume_rows=20_000, workload="all 2-way").reliable
        assert found == said["Say workload"] > base
    (dearer,) = re.findall(r"Ask for epsilon := ([\d.]*\d): by the plan (?:about |all )?(\d+)", advice) or [("", "")]
    if dearer[0]:
        found = db.forecast("t", float(dearer[0]), assume_rows=20_000).reliable
        assert found == int(dearer[1]) > base
    for number in range(8):
        db.domain("t", f"c{number}", edges=[0, 24, 45, 69, 89])
    coarse = db.forecast("t", 0.4, assume_rows=20_000).reliable
    if "Declare about 4 bins" in said:
        assert coarse == said["Declare about 4 bins"] > base


def test_nothing_is_advised_that_does_not_help(db):
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(100) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-9)
    forecast = db.forecast("t", 1.0, assume_rows=100_000)
    assert (forecast.reliable, forecast.pairs, forecast.advice) == (1, 1, [])
    assert not forecast.is_hopeless
    assert "the only pair of columns will be reliable" in str(forecast)


def test_a_mechanism_that_predicts_nothing_says_nothing(db, tmp_path, capsys):
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(100) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-9)
    forecast = db.forecast("t", 0.01, mechanism="direct")
    assert str(forecast) == ""
    assert not forecast.is_hopeless


def test_constant_columns_are_no_pairs(db):
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b, 7 AS c FROM range(100) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-9)
    db.domain("t", "c", values=[7])
    assert db.forecast("t", 1.0).pairs == 1
