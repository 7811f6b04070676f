"""The release card: what it says is so, and its shape is that of the registry's records."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
import yaml

from dpsql.errors import InvalidArgument
from dpsql.report.card import OPEN, schema

STATED = {
    "curator": "City hospital",
    "curator_type": "Nonprofit",
    "sector": "Healthcare",
    "region": "Bern",
    "intended_use": "Teaching",
    "justification": "Agreed with the board.",
    "authors": ["A. Muster"],
}


@pytest.fixture
def release(people):
    people.constraint("people", "sick OR age >= 18")
    return people.synthesize(
        "people", 1.0, mechanism="direct", workload="SELECT sex, count(*) FROM people GROUP BY sex"
    )


def check(card: dict) -> None:
    jsonschema.validate(card, schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.medium
def test_a_draft_and_a_whole_record_fit_the_schema(release):
    jsonschema.Draft202012Validator.check_schema(schema())
    draft, whole = release.card(), release.card(**STATED)
    check(draft)
    check(whole)
    assert draft["deployment"]["administrative"]["status"] == "Draft"
    assert draft["deployment"]["basic"]["intended_use"] == OPEN
    assert whole["deployment"]["administrative"]["status"] == "Pending"
    assert OPEN not in whole.json
    assert json.loads(whole.json) == yaml.safe_load(whole.yaml) == whole
    del whole["deployment"]["basic"]["data_curators"][0]["data_curator_type"]
    with pytest.raises(jsonschema.ValidationError, match="data_curator_type"):
        check(whole)


@pytest.mark.medium
def test_what_it_says_is_what_was_released(release):
    deployment = release.card()["deployment"]
    loss = deployment["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert loss["privacy_unit_details"] == "Adjacent tables differ by one row added or removed."
    total, reach = release.judgement.total, release.judgement.total_reach
    assert loss["number_of_privacy_units"] == (
        f"About {total:,.0f} by noisy counts; the 95 % interval is {total - reach:,.0f} to {total + reach:,.0f}."
    )
    assert release.entry.guarantee in loss["privacy_parameters_details"]
    variant = deployment["dp_variant"]
    assert "age (18 to 77 in 6 bins, NULL)" in variant["data_domain"]
    assert "sick OR age >= 18" in variant["unprotected_quantities"].replace('"', "")
    assert "gaussian" in deployment["implementation"]["mechanisms"]
    assert deployment["implementation"]["utility"] == str(release.verdict)
    assert str(release.verdict) in release.card().md


@pytest.mark.medium
@pytest.mark.parametrize(
    ("total", "reach", "words"),
    [(-3.2, 8.0, "About 0 by noisy counts; the 95 % interval is 0 to 5."), (-9.0, 2.0, "About 0 by noisy counts; the")],
)
def test_a_total_that_noise_takes_below_zero_is_about_none(release, monkeypatch, total, reach, words):
    """A table of few rows has one at a small ε; the schema takes no sign."""
    noisy = replace(release.judgement, total=total, total_reach=reach)
    monkeypatch.setitem(vars(release), "judgement", noisy)
    card = release.card()
    check(card)
    assert card["deployment"]["privacy_loss"]["number_of_privacy_units"].startswith(words)


@pytest.mark.medium
def test_pure_promises_and_privacy_units_are_named(db):
    db.sql("CREATE TABLE visits AS SELECT i % 90 AS patient, i % 3 = 0 AS sick FROM range(900) r(i)")
    db.protect("visits", epsilon=3.0, delta=1e-6, privacy_unit="patient", max_rows=4)
    options = {"mechanism": "direct", "columns": ["sick"], "workload": "all 1-way"}
    release = db.synthesize("visits", 0.5, noise="laplace", **options)
    deployment = release.card()["deployment"]
    check(release.card())
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}
    assert deployment["privacy_loss"]["privacy_unit"] == "All rows with the same patient"
    assert "number_of_privacy_units" not in deployment["privacy_loss"]
    assert "at most 4 rows count" in deployment["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert "Of each value of patient at most 4 rows count." in release.report().html


@pytest.mark.medium
def test_what_is_wrong_is_said(release, tmp_path):
    with pytest.raises(InvalidArgument, match="colour is nothing that a card states"):
        release.card(colour="red")
    with pytest.raises(InvalidArgument, match="curator_type is 'Bank': give Government, Industry, Nonprofit"):
        release.card(curator_type="Bank")
    with pytest.raises(InvalidArgument, match=r"give a \.json, \.yaml or \.md file"):
        release.card().save(tmp_path / "card.txt")
