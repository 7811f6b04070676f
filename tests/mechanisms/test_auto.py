"""`mechanism := 'auto'`: the default, chosen from public facts, and said."""

from __future__ import annotations

import duckdb
import pytest

FAST = "relaxed_rows := 8, steps := 5"
WHY = "projection: the least mean L1 on the benchmarks, or within a tenth of it, in seconds"


def test_it_is_the_default_and_says_why(people):
    for named in ("", ", mechanism := 'auto'"):
        plan = people.sql(f"SELECT DISTINCT mechanism, choice FROM dp_plan('people', epsilon := 1.0{named})").fetchall()
        assert plan == [("projection", WHY)]
        people.sql(f"FROM dp_synthesize('people', epsilon := 1.0, {FAST}{named})").fetchall()
    found = people.sql("SELECT mechanism, json_extract_string(report, '$.choice') FROM dp_releases()").fetchall()
    assert found == plan


def test_what_is_named_is_not_chosen(people):
    sql = "SELECT DISTINCT mechanism, choice FROM dp_plan('people', epsilon := 1.0, mechanism := 'hdmm')"
    assert people.sql(sql).fetchall() == [("hdmm", None)]


def test_the_choice_does_not_depend_on_rows(people):
    sql = "FROM dp_plan('people', epsilon := 1.0)"
    before = people.sql(sql).fetchall()
    people.sql("DELETE FROM people WHERE age > 30")
    assert people.sql(sql).fetchall() == before


def test_options_are_those_of_the_choice(people):
    with pytest.raises(duckdb.Error, match="passes is no option of mechanism 'projection', it is one of mwem, pmwpub"):
        people.sql("FROM dp_synthesize('people', epsilon := 1.0, passes := 3)")
    assert people.budget().epsilon_spent.tolist() == [0.0]
