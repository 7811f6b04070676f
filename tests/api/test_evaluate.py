"""How good a synthetic table is, for its owner: from Python and from the command line."""

from __future__ import annotations

import json

import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.errors import DpsqlError, InvalidArgument, NotOwner, NotProtected, UnknownName
from dpsql.owner import evaluate as evaluate_module

QUICK = {"relaxed_rows": 16, "steps": 20}


def books_of(db: dpsql.Database) -> list[tuple]:
    """All that the books hold, but for the rows of releases."""
    tables = db.sql(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dpsql' AND table_name NOT LIKE 'release_%' ORDER BY 1"
    ).fetchall()
    return [(name, sorted(map(str, db.sql(f'FROM dpsql."{name}"').fetchall()))) for (name,) in tables]


@pytest.mark.medium
def test_adult(load_adult, tmp_path, capsys):
    path = str(tmp_path / "adult.duckdb")
    with dpsql.connect(path) as db:
        load_adult(db)
        columns = ["age", "education", "marital_status", "occupation", "sex", "income"]
        release = db.synthesize("adult", 1.0, workload="all 2-way", columns=columns, **QUICK)
        db.sql(  # the income of another row
            "CREATE TABLE shuffled AS SELECT * FROM (SELECT * EXCLUDE income FROM adult) POSITIONAL JOIN "
            "(SELECT income FROM adult ORDER BY hash(rowid))"
        )
        before = books_of(db)
        found = db.evaluate("adult", release, "income")
        assert str(found).startswith("Private: computed from the real rows of 'adult', not differentially private")
        utility = found.utility
        assert utility.rows == found.real_rows == 48842
        assert utility.synthetic_rows == release.entry.rows
        assert 0.001 < utility.l1_pairs < utility.l1_triples < 1
        assert 0.8 < utility.training.linear < utility.training.linear_real < 0.95
        assert utility.pairs == 15
        same = db.evaluate("adult", "adult").utility
        assert (same.l1_pairs, same.l1_triples, same.nmi, same.correlation, same.unseen) == (0, 0, 0, 0, 0)
        apart = db.evaluate("adult", "shuffled", "income").utility  # the broken twin
        assert apart.nmi_top > 0.02
        assert apart.training.linear < utility.training.linear - 0.1
        assert apart.unseen > 0
        assert books_of(db) == before
        number = release.entry.number
    command = ["evaluate", path, "--table", "adult", "--release", str(number)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Private: computed from the real rows")
    assert "gradient boosting" not in shown
    assert main([*command, "--output", "json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert "not differentially private" in next(iter(told.values()))
    assert told["l1_pairs"] == pytest.approx(utility.l1_pairs)
    assert told["rows"] == 48842


def test_a_workload_and_groups(people):
    asked = "SELECT sex, count(*) FROM people GROUP BY sex; SELECT count(*) FROM people GROUP BY at_least(1, sex, age)"
    made(people)
    same = people.evaluate("people", "made", workload=asked, groups=["sex"])
    assert (same.answers.largest, same.answers.l1, same.answers.families) == (0, 0, 1)
    assert same.groups.error == 0
    assert "the workload: 1 marginal, 1 family of thresholds" in str(same)
    people.sql("UPDATE made SET sex = 'M'")
    apart = people.evaluate("people", "made", workload=asked, groups=["sex"])
    others = people.sql("SELECT count(*) / 600 FROM people WHERE sex IS DISTINCT FROM 'M'").fetchall()[0][0]
    assert apart.answers.l1 == pytest.approx(2 * others)
    assert apart.answers.zeros >= apart.answers.largest == pytest.approx(others)
    assert apart.groups.error > 1, "of the other groups no row is left"
    assert apart.figures()["groups_number"] == len(apart.groups.each)
    for given, words in (
        ({"workload": "SELECT nothing"}, "nothing"),
        ({"groups": ["nobody"]}, "nobody"),
        ({"groups": ["sex", "sex"]}, "name each column once"),
    ):
        with pytest.raises(DpsqlError, match=words):
            people.evaluate("people", "made", **given)


def test_linear_queries_are_compared_and_not_the_cells_that_they_read(people):
    """By their largest weight: 3 for women who are sick, so a row of them too few errs by 1 of 600, another by a third."""
    asked = "SELECT sum(CASE WHEN sex = 'F' THEN 3 ELSE 1 END) FROM people WHERE sick; SELECT sex, sum(age) FROM people GROUP BY sex"
    made(people)
    same = people.evaluate("people", "made", workload=asked)
    assert (same.answers.marginals, same.answers.linear, same.answers.largest, same.answers.l1) == (0, 4, 0, None)
    assert "the workload: 4 linear queries, by their largest weights" in str(same)
    assert "mean L1 of its marginals" not in str(same)
    (first,) = people.sql(
        "SELECT sum(CASE WHEN sex = 'F' THEN 3 ELSE 1 END) / 3 / 600 FROM people WHERE sick"
    ).fetchall()[0]
    alone = people.evaluate("people", "made", workload=asked.split(";")[0])
    assert alone.answers.zeros == pytest.approx(first)
    people.sql("UPDATE made SET sick = false")
    apart = people.evaluate("people", "made", workload=asked.split(";")[0])
    assert apart.answers.largest == pytest.approx(first)
    assert apart.figures()["workload_linear"] == 1
    cells = people.evaluate("people", "made", workload="SELECT sex, sick, count(*) FROM people GROUP BY ALL")
    assert cells.answers.largest != pytest.approx(first), "the broken twin compares the marginal of the columns"


def made(people: dpsql.Database, change: str = "*") -> dpsql.Database:
    people.sql(f"CREATE TABLE made AS SELECT {change} FROM people")
    return people


def test_a_value_outside_the_domain_has_a_code_of_its_own(people):
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    assert made(people).evaluate("people", "made").utility.largest_error == 0
    people.sql("UPDATE made SET sex = 'X' WHERE sex = 'F'")
    found = people.evaluate("people", "made").utility
    assert found.largest_error == pytest.approx(200 / 600)
    people.sql("UPDATE people SET sex = 'Y' WHERE sex = 'F'")  # outside too
    assert people.evaluate("people", "made").utility.largest_error == 0
    people.sql("UPDATE made SET sex = NULL WHERE sex = 'X'")  # as a synthetic row would have it
    assert people.evaluate("people", "made").utility.largest_error == pytest.approx(200 / 600)


def test_only_columns_with_bins_have_an_order(people):
    assert made(people).evaluate("people", "made").utility.correlation is None
    people.sql("ALTER TABLE people ADD COLUMN age2 INTEGER; UPDATE people SET age2 = age")
    people.domain("people", "age2", lower=18, upper=77, bins=6)
    people.sql("CREATE TABLE other AS SELECT * REPLACE (95 - age2 AS age2) FROM people")
    assert people.evaluate("people", "other").utility.correlation == pytest.approx(2, abs=0.01)


def test_of_many_rows_a_sample_is_compared(people, monkeypatch):
    monkeypatch.setattr(evaluate_module, "MOST_ROWS", 100)
    found = made(people).evaluate("people", "made")
    assert found.real_rows == 600
    assert 50 <= found.utility.rows <= 100
    assert "600 rows" in str(found)


def test_who_is_no_owner_is_refused():
    with dpsql.connect(owner=False) as db:
        db.sql("CREATE TABLE t AS SELECT true AS a")
        with pytest.raises(NotOwner, match="evaluate is for the owner"):
            db.evaluate("t", "t")


@pytest.mark.parametrize(
    ("release", "target", "error", "words"),
    [
        ("7", None, UnknownName, "no release of 'people' is called '7': give a number of FROM dp_releases"),
        ("nowhere", None, UnknownName, "no release of 'people' and no table called 'nowhere'"),
        ("narrow", None, UnknownName, "'narrow' has no column 'sex': compare a table with the same columns"),
        (
            "text",
            None,
            InvalidArgument,
            'column "age" of \'text\' is VARCHAR, not INTEGER: say ALTER TABLE "text" ALTER',
        ),
        ("empty", None, InvalidArgument, "table empty has no rows"),
        ("people", "salary", UnknownName, "there is no column 'salary'"),
        ("seen", None, InvalidArgument, "is a view"),
    ],
)
def test_what_is_wrong_is_named(people, release, target, error, words):
    people.sql(
        "CREATE TABLE narrow AS SELECT age FROM people; CREATE TABLE empty AS FROM people LIMIT 0; "
        "CREATE TABLE text AS SELECT * REPLACE (age::VARCHAR AS age) FROM people; CREATE VIEW seen AS FROM people"
    )
    with pytest.raises(error, match=words.replace("(", r"\(")):
        people.evaluate("people", release, target)


def test_a_table_without_an_account_and_a_query_are_refused(people):
    people.sql("CREATE TABLE other AS FROM people")
    with pytest.raises(NotProtected, match="dp_protect"):
        people.evaluate("other", "people")
    people.query("SELECT sex, count(*) AS n FROM people GROUP BY sex", epsilon=1.0)
    (number,) = people.releases()["release"]
    with pytest.raises(InvalidArgument, match="is of a query: evaluate compares synthetic tables"):
        people.evaluate("people", int(number))


@pytest.mark.medium
def test_a_column_of_another_type_than_the_releases(people):
    release = people.synthesize("people", 1.0, mechanism="direct", workload="all 1-way")
    assert people.evaluate("people", release).utility.pairs == 6
    people.sql("ALTER TABLE people ALTER age TYPE BIGINT")
    with pytest.raises(DpsqlError, match="evaluate a newer one"):
        people.evaluate("people", release)


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    path = str(tmp_path / "bank.duckdb")
    dpsql.connect(path).close()
    assert main(["evaluate", path, "--table", "t", "--release", "1"]) == 1
    assert "there is no table" in capsys.readouterr().err
