"""SDMetrics' quality report on the owner's page: every column is scored. CI installs the package beside DuckDB 1.5.5."""

from __future__ import annotations

import html
import importlib.util
import re
import warnings

import pytest

import dpsql

QUICK = {"relaxed_rows": 64, "steps": 60}
SCORE = "SDMetrics quality score, 1 is best"


def figures(release: dpsql.Release, **how) -> str:
    """The text of the page."""
    page = re.sub(r"<[^>]+>", " ", release.report(private=True, **how).html)
    return re.sub(r"\s+", " ", html.unescape(page))


@pytest.fixture
def stays(db):
    """Columns of all kinds: dates, times, decimals, texts that are numbers, codes that mean NULL."""
    db.sql("""
        CREATE TABLE stays AS
        SELECT (hash(i) % 60)::INTEGER AS age, hash(i) % 60 > 30 AS old, CASE WHEN i % 9 = 0 THEN 'NA' ELSE 'F' END AS sex,
            DATE '2020-01-01' + (hash(i, 1) % 700)::INTEGER AS day, TIME '00:00:00' + INTERVAL (i % 86000) SECOND AS clock,
            (hash(i, 2) % 1000 / 10)::DECIMAL(9, 2) AS cost, (hash(i) % 60) || '%' AS part, 'note ' || i AS note
        FROM range(1000) r(i)
    """)
    db.protect("stays", epsilon=30.0, delta=1e-9)
    db.domain("stays", "age", lower=0, upper=59, bins=6)
    db.domain("stays", "sex", values=["F", "M"], nulls_as=["NA"])
    db.domain("stays", "day", lower="2020-01-01", upper="2021-12-31", every="year")
    db.domain("stays", "clock", lower="00:00:00", upper="23:59:59", bins=4)
    db.domain("stays", "cost", lower=0, upper=100, bins=5)
    db.domain("stays", "part", read_as="INTEGER%", lower=0, upper=59, bins=6)
    db.domain("stays", "note", exclude=True)
    return db.synthesize("stays", 20.0, workload="all 2-way", **QUICK)


@pytest.mark.medium
def test_its_scores_are_on_the_private_page(stays, capfd):
    pytest.importorskip("sdmetrics", reason="pip install sdmetrics, which needs pandas 2")
    text = figures(stays)
    scores = re.search(rf"{SCORE} ([\d.]+) column shapes ([\d.]+) column pair trends ([\d.]+)", text)
    assert scores, text[text.find("SDMetrics") :][:200]
    assert all(0.5 < float(score) <= 1 for score in scores.groups())
    assert "is not installed" not in text
    assert capfd.readouterr().err == ""


@pytest.mark.medium
def test_no_column_is_left_out(stays, monkeypatch):
    """What it cannot score it leaves out of the mean without a word, as it did with times and texts that are numbers."""
    pytest.importorskip("sdmetrics", reason="pip install sdmetrics, which needs pandas 2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sdmetrics.reports.single_table.quality_report import QualityReport

    details = []
    generate = QualityReport.generate

    def kept(self, *given, **more):
        generate(self, *given, **more)
        details.append(self.get_details("Column Shapes"))

    monkeypatch.setattr(QualityReport, "generate", kept)
    figures(stays)
    (shapes,) = details
    assert sorted(shapes.Column) == ["age", "clock", "cost", "day", "old", "part", "sex"]
    assert shapes.Score.notna().all()


@pytest.mark.medium
def test_without_the_package_the_page_says_what_is_missing(people, monkeypatch):
    release = people.synthesize("people", 1.0, workload="all 2-way", relaxed_rows=16, steps=20)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "sdmetrics" else found(name, *more)
    )
    text = figures(release)
    assert "SDMetrics is not installed: pip install sdmetrics adds its quality report." in text
    assert SCORE not in text
