"""`dp_plan` of a query: the error of what was asked, in its own unit, or in words of what the number is."""

from __future__ import annotations

import pytest

import dpsql


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 5 = 0 AS late, (i % 4)::INTEGER AS r FROM range(4000) x(i)")
        db.protect("t", epsilon=100.0, delta=1e-9)
        db.domain("t", "r", lower=0, upper=3)
        yield db


def planned(db, shown: str, **more) -> list[tuple[str, float]]:
    options = "".join(f", {name} := {value}" for name, value in more.items())
    text = f"SELECT {shown} FROM t"
    return db.sql(f"SELECT note, stddev FROM dp_plan(?, epsilon := 1{options})", [text]).fetchall()


SHARE = "count(*) FILTER (WHERE late) / count(*)"
SCALED = {
    f"100.0 * {SHARE}": (SHARE, 100.0),
    f"round(100.0 * {SHARE}, 1)": (SHARE, 100.0),
    f"1 - {SHARE}": (SHARE, 1.0),
    f"({SHARE}) / 4 * -2": (SHARE, 0.5),
    f"100 * ({SHARE}) + 7": (SHARE, 100.0),
    "count(*) * 5": ("count(*)", 5.0),
    "-count(*)": ("count(*)", 1.0),
    "avg(r) * 60": ("avg(r)", 60.0),
    "3 * sum(r) / 12": ("sum(r)", 0.25),
}


@pytest.mark.parametrize("shown", SCALED)
def test_the_error_is_that_of_what_was_asked(declared, shown):
    bare, factor = SCALED[shown]
    ((note, stddev),) = planned(declared, shown)
    ((_, of_bare),) = planned(declared, bare)
    assert stddev == pytest.approx(factor * of_bare)
    assert note.startswith(shown)
    half = float(note.split("95 % interval ± ")[1].split()[0].rstrip(";"))
    assert half == pytest.approx(1.96 * stddev, rel=0.05)


def test_the_least_epsilon_is_that_of_what_was_asked(declared):
    """A share in percent may be 100 times as far off as the share."""
    sql = "SELECT epsilon FROM dp_plan(?, max_error := ?)"
    shares, percents = f"SELECT {SHARE} FROM t", f"SELECT 100.0 * {SHARE} FROM t"
    of_share = declared.sql(sql, [shares, 0.01]).fetchall()
    assert declared.sql(sql, [percents, 1.0]).fetchall() == of_share


@pytest.mark.parametrize(
    "shown",
    ["sum(r) - 2 * count(*)", "CASE WHEN count(*) > 5 THEN 1 END", "100.0 * count(*) / sum(count(*)) OVER ()"],
)
def test_what_is_made_of_more_than_one_number_says_of_which_each_number_is(declared, shown):
    for note, _ in planned(declared, shown):
        assert f"alone, of which {shown} is made" in note
