"""`mechanism := 'auto'`: the default, chosen from public facts, and said."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from dpsql.mechanisms.auto import Facts, choose
from tests.conftest import settle

RESULTS = Path(__file__).parents[1] / "benchmarks" / "RESULTS.md"

FAST = "relaxed_rows := 8, steps := 5"
WHY = "projection: the least mean L1 on the benchmarks, or within a tenth of it, in seconds"


@pytest.mark.medium
def test_it_is_the_default_and_says_why(people):
    for named in ("", ", mechanism := 'auto'"):
        plan = people.sql(f"SELECT DISTINCT mechanism, choice FROM dp_plan('people', epsilon := 1.0{named})").fetchall()
        assert plan == [("projection", WHY)]
        people.sql(f"FROM dp_synthesize('people', epsilon := 1.0, {FAST}{named})").fetchall()
    found = people.sql("SELECT mechanism, json_extract_string(report, '$.choice') FROM dp_releases()").fetchall()
    assert found == plan


@pytest.mark.medium
def test_a_release_that_was_made_by_name_says_why_it_was_chosen_later(people):
    """It is one release, whose report is of the request that made it; what is returned knows of this request."""
    named = people.synthesize("people", 1.0, mechanism="projection", relaxed_rows=8, steps=5)
    chosen = people.synthesize("people", 1.0, relaxed_rows=8, steps=5)
    assert chosen.entry.key == named.entry.key
    assert named.choice == ""
    assert chosen.choice == WHY


def test_what_is_named_is_not_chosen(people):
    sql = "SELECT DISTINCT mechanism, choice FROM dp_plan('people', epsilon := 1.0, mechanism := 'hdmm')"
    assert people.sql(sql).fetchall() == [("hdmm", None)]


def test_the_choice_does_not_depend_on_rows(people):
    sql = "FROM dp_plan('people', epsilon := 1.0)"
    before = people.sql(sql).fetchall()
    people.sql("DELETE FROM people WHERE age > 30")
    assert people.sql(sql).fetchall() == before


PRIOR = {"prior": True}


@pytest.mark.parametrize(
    ("facts", "given", "chosen", "noise", "why"),
    [
        ({}, {}, "projection", None, "the least mean L1 on the benchmarks"),
        ({"epsilon": 0.1}, {}, "projection", None, "the least mean L1"),
        ({"epsilon": 1.0, **PRIOR}, {}, "projection", None, "the least mean L1"),
        ({"epsilon": 0.1, **PRIOR}, {}, "ide", "gaussian", "ide: with a prior, epsilon below 0.15"),
        ({"epsilon": 0.1, "order": 3, **PRIOR}, {}, "projection", None, "the least mean L1"),
        ({"epsilon": 0.2, **PRIOR}, {}, "projection", None, "the least mean L1"),
        ({"epsilon": 0.1, **PRIOR}, {"noise": "laplace"}, "ide", "laplace", "ide: with a prior"),
        ({"epsilon": 2.0, **PRIOR}, {"region": "a"}, "ide", "gaussian", "it has regions and groups"),
        ({"epsilon": 0.1, **PRIOR}, {"relaxed_rows": 8}, "projection", None, "the least mean L1"),
        ({"epsilon": 0.1, "thresholds": True, **PRIOR}, {}, "projection", None, "the least mean L1"),
        ({"pure": True}, {}, "direct", "laplace", "direct with Laplace noise: the table promises pure"),
        ({"pure": True, **PRIOR}, {}, "ide", "laplace", "leans on the prior: the table promises pure"),
        ({"pure": True, "thresholds": True}, {}, "lp", "laplace", "at_least.*: the table promises pure"),
        ({"pure": True, "thresholds": True, **PRIOR}, {}, "ide", "laplace", "leans on the prior"),
    ],
)
def test_the_choice_by_public_facts(facts, given, chosen, noise, why):
    mechanism, said = choose("auto", given, Facts(**facts))
    assert mechanism.name == chosen
    assert getattr(mechanism, "noise", None) == noise
    assert re.search(why, said)
    assert mechanism.takes_prior or "prior" not in facts


def results(heading):
    """The first table below a heading of the benchmarks' results: of each system the numbers of its line."""
    text = RESULTS.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.split("\n| ", 1)[1].split("\n\n")[0].splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_with_a_prior_the_choice_is_near_the_best_that_was_measured():
    """Within a tenth of the best, at every ε that was measured."""
    found = results("A public prior")
    systems = {"ide": "ide, gaussian", "projection": "projection with the prior"}
    for place, epsilon in enumerate((0.1, 0.2, 1.0)):
        shown = {line: cells[place].split(" / ")[1:] for line, cells in found.items() if "itself" not in line}
        errors = {line: float(mean) for line, means in shown.items() for mean in means}
        assert len(errors) >= 5
        mechanism, _ = choose("auto", {}, Facts(epsilon=epsilon, prior=True))
        assert errors[systems[mechanism.name]] <= 1.1 * min(errors.values())


@pytest.fixture
def census(people):
    people.sql("CREATE TABLE p AS FROM people WHERE sex IS NOT NULL LIMIT 200")
    settle(people, "p")
    return people


@pytest.mark.medium
@pytest.mark.parametrize(("epsilon", "chosen"), [(0.1, "ide"), (0.2, "projection")])
def test_a_prior_and_a_small_epsilon_choose_another_and_say_why(census, epsilon, chosen):
    how = f"epsilon := {epsilon}, prior := 'p', workload := 'all 2-way'"
    plan = census.sql(f"SELECT DISTINCT mechanism, choice FROM dp_plan('people', {how})").fetchall()
    census.sql(f"FROM dp_synthesize('people', {how})").fetchall()
    found = census.sql("SELECT mechanism, json_extract_string(report, '$.choice') FROM dp_releases()").fetchall()
    assert found == plan
    assert found[0][0] == chosen
    assert found[0][1].startswith(f"{chosen}: ")


THRESHOLDS = "SELECT count(*) FROM pure GROUP BY at_least(1, sex, mood)"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("how", "chosen"),
    [({}, "direct"), ({"prior": "p"}, "ide"), ({"workload": THRESHOLDS}, "lp")],
)
def test_a_pure_account_gets_a_mechanism_that_answers_it(census, how, chosen):
    census.sql("CREATE TABLE pure AS FROM people")
    settle(census, "pure")
    census.protect("pure", epsilon=5.0, delta=0.0, enums=True)
    census.domain("pure", "age", lower=18, upper=77, bins=6)
    census.domain("pure", "sex", values=["F", "M"])
    release = census.synthesize("pure", 0.5, **how)
    assert release.entry.mechanism == chosen
    assert "the table promises pure epsilon" in release.entry.report["choice"]
    assert release.entry.guarantee.startswith("0.5-DP")


def test_options_are_those_of_the_choice(people):
    with pytest.raises(
        duckdb.Error, match="passes is no option of mechanism 'projection', it is one of ide, mwem, pmwpub"
    ):
        people.sql("FROM dp_synthesize('people', epsilon := 1.0, passes := 3)")
    assert people.budget().epsilon_spent.tolist() == [0.0]
