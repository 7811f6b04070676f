"""What people are told of a promise is true: δ is added, losses are rounded up, what was read off the rows is said.

Sentences are read where people read them: in the report, the card, SQL and the script of `dpsql init`.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import jsonschema
import pytest

import dpsql
from dpsql.privacy.accounting import gaussian_gdp
from dpsql.report.card import schema


@pytest.fixture
def release(people):
    return people.synthesize(
        "people", 1.0, mechanism="direct", workload="SELECT sex, count(*) FROM people GROUP BY sex"
    )


# --- δ is added ------------------------------------------------------------------------------------------------------


def words_of(db: dpsql.Database, release: dpsql.Release) -> dict[str, str]:
    """Whatever says what a release promises, as plain text."""
    page = re.sub(r"<[^>]+>", " ", release.report().html)
    return {
        "report": page,
        "card": release.card().json,
        "SQL": db.sql("SELECT string_agg(guarantee) FROM dp_releases()").fetchall()[0][0],
        "repr": repr(release),
    }


@pytest.mark.medium
def test_delta_is_nowhere_the_probability_of_an_exception(people, release):
    found = words_of(people, release)
    for place, text in found.items():
        assert not re.search(r"(but for|except with) a?\s*probability", text), place
    told = "If one row is added or removed, no set of outcomes becomes more likely than 2.72 times, plus 1e-06."
    assert told in found["report"]
    assert told in found["card"]


@pytest.mark.medium
def test_the_probability_of_more_than_the_factor_is_the_exact_one(people, release):
    """The report said 1e-06; it is 53 times as much of what is computed from the answers, 21 of a normal number."""
    told = "The factor alone is exceeded with a probability of at most 5.3e-05"
    for place in ("report", "card"):
        assert told in words_of(people, release)[place], place


# --- nothing is rounded down ------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_a_guarantee_names_a_mu_and_a_rho_that_are_enough(db, epsilon):
    """Of stored releases too, whose recorded words may be rounded down: those are for the digest."""
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(40) r(i)")
    db.protect("t", epsilon=9.0, delta=1e-6)
    db.sql(f"SELECT * FROM dp_query('SELECT a, count(*) FROM t GROUP BY a', epsilon := {epsilon})").fetchall()
    db.sql(
        f"SELECT * FROM dp_query('SELECT a, count(*) FROM t GROUP BY a', epsilon := {epsilon}, mechanism := 'laplace')"
    ).fetchall()
    sql = "SELECT r.guarantee, l.gdp, l.rho FROM dp_releases() r JOIN dp_ledger() l ON l.number = r.release ORDER BY 1"
    (normal, gdp, _), (laplace, _, rho) = db.sql(sql).fetchall()
    assert float(re.search(r"by (\S+)-Gaussian", normal)[1]) >= math.sqrt(2 * gdp)
    assert float(re.search(r"\((\S+)-zCDP", laplace)[1]) >= rho
    mu = Fraction(re.search(r"by (\S+)-Gaussian", normal)[1])
    assert mu**2 >= 2 * gaussian_gdp(epsilon, 1e-6)


@pytest.mark.medium
def test_the_number_of_rows_is_about_with_its_interval(people, release):
    card = release.card()
    jsonschema.validate(card, schema(), cls=jsonschema.Draft202012Validator)
    said = card["deployment"]["privacy_loss"]["number_of_privacy_units"]
    about, low, high = (
        int(number.replace(",", "")) for number in re.findall(r"(?<=\s)[\d,]+(?=[ .])", said + " ") if number != "95"
    )
    assert low < about < high
    assert high - low == pytest.approx(2 * release.judgement.total_reach, abs=2)


# --- what was read off the rows ---------------------------------------------------------------------------------------


@pytest.fixture
def looked(tmp_path, monkeypatch):
    """A database that the script of `dpsql init --owner-looks` made, with one release."""
    monkeypatch.chdir(tmp_path)
    rows = "SELECT (['F', 'M'])[1 + i % 2] AS sex, i % 5 = 0 AS sick, i % 7 + 100 AS ward, DATE '2020-01-01' + (i % 400)::INTEGER AS admitted"
    with dpsql.connect() as db:
        db.sql(f"COPY ({rows} FROM range(4000) r(i)) TO 'stays.csv'")
        from dpsql.api.cli import main

        assert main(["init", "stays.csv", "--owner-looks"]) == 0
        script = (tmp_path / "stays.sql").read_text(encoding="utf-8")
        for statement in db.connection.extract_statements(script):
            db.connection.execute(statement).fetchall()
        yield db, script


@pytest.mark.medium
def test_what_a_script_says_was_looked_at_is_in_the_books(looked):
    db, script = looked
    named = set(re.findall(r"^-- (\w+), [A-Z]+\. Looked:", script, re.MULTILINE))
    assert named >= {"ward", "admitted"}
    origins = dict(db.sql("SELECT \"column\", origin FROM dp_domains('stays')").fetchall())
    assert {column for column, origin in origins.items() if origin == "looked"} == named
    declared = set(re.findall(r"^-- (\w+), [A-Z]+\. (?:Public|CONFIRM):", script, re.MULTILINE))
    assert not any(origins[column] == "looked" for column in declared)


@pytest.mark.medium
def test_every_place_that_is_signed_says_what_was_looked_at(looked):
    db, _ = looked
    release = db.synthesize("stays", 1.0, mechanism="direct", workload="all 1-way")
    found = words_of(db, release)
    named = release.entry.looked
    assert {"ward", "admitted"} <= {*named}
    listed = ", ".join(named)
    card = json.loads(found["card"])["deployment"]
    assert f"but those of {listed}, which the owner read off the rows" in card["dp_variant"]["unprotected_quantities"]
    assert "dpsql tunes nothing on the rows" not in found["card"]
    assert "the owner looked at the rows" in card["implementation"]["preprocessing_and_hyperparameter_tuning"]
    for place in ("report", "SQL", "repr"):
        assert listed in found[place], place
    assert "not cover the domains of " + listed in found["report"]
    jsonschema.validate(json.loads(found["card"]), schema(), cls=jsonschema.Draft202012Validator)


@pytest.fixture
def stays(db):
    db.sql("CREATE TABLE stays AS SELECT i % 7 AS ward, i % 3 = 0 AS sick FROM range(700) r(i)")
    db.protect("stays", epsilon=3.0, delta=1e-9)
    return db


@pytest.mark.medium
def test_a_release_keeps_what_was_looked_at_when_it_was_charged(stays):
    """Whatever is declared later, and the same request is the same release: what is known of a domain is in no key."""
    how = {"mechanism": "direct", "workload": "all 1-way"}
    stays.domain("stays", "ward", lower=0, upper=6, looked=True)
    stays.constraint("stays", "ward >= 0", looked=True)
    first = stays.synthesize("stays", 1.0, **how)
    stays.domain("stays", "ward", lower=0, upper=6)  # the words alone do not make it public
    assert origin(stays) == "looked"
    stays.domain("stays", "ward", lower=0, upper=6, looked=False)
    stays.constraint("stays", "ward >= 0", remove=True)
    stays.constraint("stays", "ward >= 0")
    assert origin(stays) == "declared"
    again = stays.synthesize("stays", 1.0, **how)
    assert again.entry.number == first.entry.number
    assert again.entry.looked == ("ward",)
    assert again.entry.looked_facts == ("ward >= 0",)
    assert "the owner read it off the rows: the domain of ward; that every row has ward >= 0" in again.entry.guarantee
    assert stays.budget().releases[0] == 1


@pytest.mark.medium
def test_who_says_later_that_he_looked_corrects_what_is_released(stays):
    stays.domain("stays", "ward", lower=0, upper=6)
    release = stays.synthesize("stays", 1.0, mechanism="direct", workload="all 1-way")
    assert release.entry.looked == ()
    assert "read off the rows" not in release.card().json
    stays.sql('CALL dp_domains(\'stays\', from_json := \'{"ward": {"lower": 0, "upper": 6, "looked": true}}\')')
    again = stays.release(release.entry.number)
    assert again.entry.looked == ("ward",)
    assert "the owner read off the rows" in again.card().json


def origin(db: dpsql.Database) -> str:
    return dict(db.sql("SELECT \"column\", origin FROM dp_domains('stays')").fetchall())["ward"]


def test_the_statement_of_a_domain_says_it_too(stays):
    stays.sql("CALL dp_domain('stays', 'ward', lower := 0, upper := 6, looked := true)")
    ((statement,),) = stays.sql("SELECT statement FROM dp_domains('stays') WHERE \"column\" = 'ward'").fetchall()
    assert "looked := true" in statement
    stays.sql("CALL dp_domain('stays', 'ward', exclude := true)")
    stays.sql(statement)
    assert origin(stays) == "looked"


def test_what_is_measured_with_noise_was_not_looked_at(stays):
    with pytest.raises(dpsql.DpsqlError, match="looked is true, but discover := true"):
        stays.sql("CALL dp_domain('stays', 'ward', discover := true, epsilon := 0.1, looked := true)")


OTHERS = (
    {"lower": 0, "upper": 7},
    {"lower": 0, "upper": 6, "bins": 2},
    {"lower": 0, "upper": 6, "nulls": False},
    {"lower": 0, "upper": 6, "nulls_as": [99]},
    {"lower": 0, "upper": 6, "points": [3]},
    {"lower": 0, "upper": 5, "other": 9},
    {"edges": [0, 3, 7]},
    {"values": [0, 1, 2, 3, 4, 5, 6]},
)


@pytest.mark.parametrize("how", OTHERS, ids=str)
def test_whoever_read_the_rows_has_read_them_whatever_he_declares_next(stays, how):
    """Until he says otherwise; also with a time between in which the column was excluded."""
    stays.domain("stays", "ward", lower=0, upper=6, looked=True)
    stays.domain("stays", "ward", **how)
    assert origin(stays) == "looked"
    stays.domain("stays", "ward", exclude=True)
    assert origin(stays) != "looked"
    stays.domain("stays", "ward", **how)
    assert origin(stays) == "looked"
    stays.domain("stays", "ward", **how, looked=False)
    stays.domain("stays", "ward", lower=0, upper=6)
    assert origin(stays) == "declared"
