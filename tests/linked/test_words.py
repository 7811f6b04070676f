"""What is said of a linked release: columns in people's words, by table and by link, and advice that is accepted."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.release import Release
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import fold
from dpsql.core.tree import Link, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.core.unit_words import words_of
from dpsql.release.judged_tree import judged_tree
from tests.depth import depth

FLAT = re.compile(r"\w\[[0-9]\]|[a-z]\.number|\.head\b|\.spouse\b")
QUICK = {"steps": 5, "relaxed_rows": 16}
SET = re.compile(r"\b(\w+) := ('[^']*'|[0-9.e+]*[0-9])")
BINS = re.compile(r"eclare about 4 bins a column of ([^:]*?)(?: and [0-9]+ more)?(?:, and ask|:)")


def bank(db: dpsql.Database, epsilon: float = 10.0, clients: int = 3000) -> None:
    """Clients, their accounts and the payments of these; payments of one account are alike."""
    db.sql("CREATE TABLE clients (cid INT PRIMARY KEY, age INT, region VARCHAR)")
    db.sql("CREATE TABLE accounts (aid INT PRIMARY KEY, cid INT REFERENCES clients (cid), opened INT, savings BOOLEAN)")
    db.sql("CREATE TABLE payments (aid INT REFERENCES accounts (aid), amount DOUBLE, purpose VARCHAR)")
    db.sql(f"INSERT INTO clients SELECT i, 20 + i % 60, ['n', 's'][1 + i % 2] FROM range({clients}) r(i)")
    db.sql(f"INSERT INTO accounts SELECT i, i // 2, 1990 + i % 30, i // 2 % 2 = 0 FROM range({2 * clients}) r(i)")
    db.sql(f"INSERT INTO payments SELECT i // 3, i % 100, ['a', 'b'][1 + i // 3 % 2] FROM range({5 * clients}) r(i)")
    db.protect("clients", epsilon=epsilon, delta=1e-9)
    db.link("accounts", "clients", most=4)
    db.link("payments", "accounts", most=6)
    db.domain("clients", "age", lower=20, upper=80, bins=30)
    db.domain("clients", "region", values=["n", "s"])
    db.domain("accounts", "opened", lower=1990, upper=2020, bins=30)
    db.domain("payments", "amount", lower=0, upper=100, bins=25)
    db.domain("payments", "purpose", values=["a", "b"])


def households(db: dpsql.Database, epsilon: float = 10.0) -> None:
    """One head each, at most one spouse, and children; each with jobs."""
    db.sql("CREATE TABLE households (hid INT PRIMARY KEY, income INT)")
    db.sql("CREATE TABLE persons (pid INT PRIMARY KEY, hid INT REFERENCES households (hid), relate INT, age INT)")
    db.sql("CREATE TABLE jobs (pid INT REFERENCES persons (pid), hours INT)")
    db.sql("INSERT INTO households SELECT i, i % 3 FROM range(900) r(i)")
    db.sql("INSERT INTO persons SELECT i, i // 3, i % 3, i * 7 % 90 FROM range(2700) r(i)")
    db.sql("INSERT INTO jobs SELECT i, i % 40 FROM range(2700) r(i)")
    db.protect("households", epsilon=epsilon, delta=1e-9)
    db.link("persons", "households", most=4, one_of={"head": "relate = 0"}, at_most_one={"spouse": "relate = 1"})
    db.link("jobs", "persons", most=2)
    db.domain("households", "income", values=[0, 1, 2])
    db.domain("persons", "relate", lower=0, upper=9)
    db.domain("persons", "age", lower=0, upper=90, bins=30)
    db.domain("jobs", "hours", lower=0, upper=40, bins=20)


def panel(db: dpsql.Database, epsilon: float = 10.0) -> None:
    """A table with several rows a person."""
    db.sql("CREATE TABLE wages AS SELECT i % 500 AS nr, i // 500 AS year, i % 500 % 3 AS region FROM range(4000) r(i)")
    db.protect("wages", epsilon=epsilon, delta=1e-9, privacy_unit="nr", max_rows=8)
    db.domain("wages", "year", lower=0, upper=39, bins=20)
    db.domain("wages", "region", values=[0, 1, 2])


BOUNDS = {
    ("clients", "age"): (20, 80),
    ("accounts", "opened"): (1990, 2020),
    ("payments", "amount"): (0, 100),
    ("persons", "age"): (0, 90),
    ("jobs", "hours"): (0, 40),
    ("wages", "year"): (0, 39),
}
"""Of the columns that can be declared anew with fewer bins: neither a role's, nor numbers of rows."""
TREES = {"clients": bank, "households": households, "wages": panel}


def said(db: dpsql.Database, release: Release, table: str) -> dict[str, str]:
    """All that a person reads of a release, by where it stands."""
    return {
        "verdict": release.verdict.text,
        "advice": " ".join(release.verdict.advice),
        "warnings": " ".join(release.warnings),
        "page": re.sub(r"<style>.*?</style>", "", release.report().html, flags=re.DOTALL),
        "card": release.card().json,
        "plan": db.plan(table, epsilon=1.0, linked=True).to_string(),
    }


@pytest.mark.medium
@pytest.mark.parametrize("table", TREES)
def test_no_name_of_the_flat_domain_is_shown(db, table):
    TREES[table](db)
    release = db.synthesize(table, epsilon=1.0, linked=True, **QUICK)
    for place, text in said(db, release, table).items():
        assert not FLAT.search(text), (place, FLAT.search(text))


@pytest.mark.medium
def test_words_and_names_mean_the_same_columns(db):
    bank(db)
    release = db.synthesize("clients", epsilon=1.0, linked=True, **QUICK)
    by_name, words = release.answers("accounts[2].opened"), "opened of a second account of the same client"
    assert release.answers(words)["measured"].tolist() == by_name["measured"].tolist()
    assert list(by_name.columns) == [words, "measured", "stddev", "synthetic"]
    errors = release.errors
    assert [words] in errors["columns"].tolist()
    for place, columns in enumerate(errors["columns"]):  # each is one to ask for
        assert not FLAT.search(" ".join(columns))
        assert place % 20 or len(release.answers(*columns))
    for unknown, why in ((["opend"], "the columns are age of clients"), (["age of clients", words], "it has: ")):
        with pytest.raises(dpsql.DpsqlError, match=why) as refused:
            release.answers(*unknown)
        assert not FLAT.search(str(refused.value))
    page = release.report().html
    for words in (
        "number of accounts a client has",
        "number of payments a second account of the same client has",
        "purpose of a second payment of the same account",
        "region of clients",
        "By table and by link",
        "payments with clients",
    ):
        assert words in page, words


@pytest.mark.medium
def test_columns_that_would_be_called_the_same_have_their_names(db):
    """Of a table `b of c` and a column `a`, and of a table `c` and a column `a of b`."""
    db.sql('CREATE TABLE "b of c" (i INT PRIMARY KEY, a BOOLEAN, x BOOLEAN)')
    db.sql('CREATE TABLE c (i INT REFERENCES "b of c" (i), "a of b" BOOLEAN)')
    db.sql('INSERT INTO "b of c" SELECT i, i % 2 = 0, i % 3 = 0 FROM range(300) r(i)')
    db.sql("INSERT INTO c SELECT i, i % 5 = 0 FROM range(300) r(i)")
    db.protect("b of c", epsilon=100.0, delta=1e-9)
    db.link("c", "b of c", most=1)
    release = db.synthesize("c", epsilon=50.0, linked=True, **QUICK)
    called = [tuple(columns) for columns in release.errors["columns"] if len(columns) == 1]
    assert len(called) == len({*called}) == 4
    assert ("x of b of c",) in called
    for columns in called:
        assert release.answers(*columns).columns[0] == columns[0]


def called_in(root: str, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """What the columns of a unit's row are called, of tables below a root."""
    flags = {
        table: Domain(tuple(Attribute(name, "BOOLEAN", "values", ("false", "true")) for name in names))
        for table, names in columns.items()
    }
    links = tuple(Link(table, root, ("k",), ("k",), most=2) for table in columns if table != root)
    row = UnitRow(Tree(root, links), flags)
    words = words_of(row)
    for name, own in words.items():  # whatever is said or named means one column
        assert {other for other in words if fold(own) in (fold(other), fold(words[other]))} == {name}
    return [*words.values()]


def test_no_column_is_called_by_the_name_of_another():
    """Nor by that of one that is called by its name because its words are taken."""
    called = called_in("clients", {"clients": ["kind of accounts"], "accounts": ["kind", "age"]})
    assert "kind of accounts of clients" in called
    assert "kind of accounts" not in called
    assert "age of accounts" in called
    assert "x of c" in called_in("b", {"b": ["x of c"], "c of b": ["x"], "c": ["x"]})
    assert "a" in called_in("b of c", {"b of c": ["a"], "C": ["A of B"]})


TEXTS = st.sampled_from(["a", "A", "b", "c", "a of b", "b of c", "C of B", "a of b of c", "c[1].a", "b.number"])


@pytest.mark.medium
@given(st.lists(TEXTS, min_size=1, max_size=3, unique_by=fold), st.data())
def test_each_column_has_one_meaning(tables, data):
    called_in(tables[0], {table: data.draw(st.lists(TEXTS, max_size=3, unique_by=fold)) for table in tables})


@pytest.mark.medium
def test_the_verdict_says_which_joins_can_be_trusted(db):
    """At a large ε all pairs are as measured; at a small one noise hides most of them."""
    bank(db, epsilon=1000.0, clients=1500)
    good = db.synthesize("clients", epsilon=400.0, linked=True)
    poor = db.synthesize("clients", epsilon=0.05, linked=True, **QUICK)
    assert re.search(r"Joins of accounts with clients .* can be trusted", good.verdict.text)
    assert "cannot be trusted" in poor.verdict.text
    assert " can be trusted" not in poor.verdict.text
    assert poor.verdict.text.index("Joins of") > poor.verdict.text.index("Shares of")

    one = next(pair for pair in good.judgement.of("kept") if pair.clique == ("region", "accounts[1].savings"))
    others = tuple(pair.clique for pair in good.judgement.pairs if pair != one)
    few = replace(good.judgement, pairs=(one,), unmeasured_pairs=others)
    assert good.entry.linked is not None
    tree = judged_tree(UnitRow.from_json(good.entry.linked, good.entry.domain), few)
    assert "cannot be trusted" in tree.words  # its other pairs were not measured, so nothing is known of them
    assert " can be trusted" not in tree.words


def follow(db: dpsql.Database, table: str, advice: str) -> None:
    """Do what a sentence of advice says, which must be accepted."""
    given = {name: literal_eval(value) for name, value in SET.findall(advice)}
    assert not {"columns", "workload", "prior"} & set(given)
    assert "columns := " not in advice
    assert "fewer columns" not in advice
    for listed in BINS.findall(advice):
        for words in listed.split(", "):
            column, _, of = words.partition(" of ")
            lower, upper = BOUNDS[of, column]
            db.domain(of, column, lower=lower, upper=upper, bins=4)
    given = {"epsilon": 0.001} | given
    options = ", ".join(f"{name} := {value!r}" for name, value in given.items())
    db.sql(f"EXPLAIN FROM dp_synthesize('{table}', linked := true, {options})").fetchall()  # refuses what is not left


@settings(max_examples=depth(10), deadline=None)
@given(st.sampled_from([*TREES]), st.floats(0.05, 3.0), st.sampled_from([1.0, 1.3, 2.0, 6.0, 30.0]))
@pytest.mark.medium
def test_what_a_plan_advises_is_accepted(table, epsilon, times):
    """Over trees and budgets: whatever is left, no call is named that would be refused."""
    with dpsql.connect() as db:
        TREES[table](db, epsilon=float(f"{epsilon * times:.3g}") + 0.02)
        advice = db.forecast(table, epsilon, linked=True).advice
        for one in advice[:1]:
            follow(db, table, one)


@pytest.mark.medium
@pytest.mark.parametrize("table", TREES)
@pytest.mark.parametrize("left", [0.0, 20.0])
def test_what_a_verdict_advises_is_accepted(db, table, left):
    TREES[table](db, epsilon=0.5 + left)
    release = db.synthesize(table, epsilon=0.5, linked=True, **QUICK)
    if not left:  # no call whatever is accepted, so none may be named
        assert not SET.search(" ".join(release.verdict.advice))
        return
    for one in release.verdict.advice:
        follow(db, table, one)


def test_the_refused_call_is_refused(db):
    """The twin of the tests above: what they follow advice by refuses an ε that is not left, and other arguments."""
    panel(db, epsilon=1.0)
    for asked in ("epsilon := 1.1", "epsilon := 0.5, columns := ['year']", "epsilon := 0.5, workload := 'all 2-way'"):
        with pytest.raises(dpsql.DpsqlError):
            db.sql(f"EXPLAIN FROM dp_synthesize('wages', linked := true, {asked})").fetchall()
