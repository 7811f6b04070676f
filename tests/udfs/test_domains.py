"""`dp_domains`: all domains at a glance, and many declared at once; `db.domains` says the same."""

from __future__ import annotations

import json

import duckdb
import pytest

import dpsql
from dpsql.errors import InvalidArgument, NotOwner, NotProtected, UnknownName

TABLE = """
    CREATE TYPE level AS ENUM ('low', 'it''s high');
    CREATE TABLE t (
        age INTEGER, sex VARCHAR, level level, sick BOOLEAN, born DATE, price DECIMAL(9,2), f FLOAT, g DOUBLE,
        u UTINYINT, "it's ""x"" y" VARCHAR NOT NULL, list INTEGER[], seen TIMESTAMP, zoned TIMESTAMPTZ, clock TIME
    )
"""
DECLARATIONS = {
    "age": {"lower": 0, "upper": 119, "bins": 24},
    "sex": {"values": ["F", "M"], "other": "other"},
    "level": {"type": True},
    "born": {"edges": ["2020-01-01", "2020-03-01", "2021-01-01"]},
    "price": {"edges": [0, 0.01, "5.5"], "nulls": False},
    "f": {"lower": 0.1, "upper": 0.7, "bins": 3},
    "g": {"edges": [0, 0.1, 0.30000000000000004, 1e20]},
    "u": {"lower": 0, "upper": 255, "bins": 100},
    'it\'s "x" y': {"values": ["a'b", "é|", "line\nbreak"], "nulls": True},
    "list": {"exclude": True},
    "seen": {"lower": "2020-01-01", "upper": "2020-12-31 23:59:59", "bins": 12},
    "zoned": {"edges": ["2020-01-01 00:00:00+00", "2020-06-01 00:00:00+00", "2021-01-01 00:00:00+00"]},
    "clock": {"lower": "00:00:00", "upper": "23:59:59.999999", "bins": 24},
}
SPECS = "SELECT name, spec FROM dpsql.domain WHERE source = ? ORDER BY name"


@pytest.fixture
def bank(db):
    db.sql(TABLE)
    db.protect("t", epsilon=3.0, delta=1e-9)
    return db


def specs(db, source="t"):
    return db.connection.execute(SPECS, [source]).fetchall()


def test_what_is_undeclared_is_listed(bank):
    rows = bank.sql("SELECT \"column\", undeclared, kind, statement FROM dp_domains('t')").fetchall()
    assert len(rows) == 14
    assert [row for row in rows if not row[1]] == [
        ("sick", False, "values", "CALL dp_domain('t', 'sick', type := true);")
    ]
    assert {row[2:] for row in rows if row[1]} == {(None, None)}


def test_members_of_an_enum_are_not_told_before_the_owner_said_so(bank):
    (before,) = bank.sql("SELECT type FROM dp_domains('t') WHERE \"column\" = 'level'").fetchall()
    assert before == ("ENUM",)
    bank.domains("t", {"level": {"type": True}})
    assert "it''s high" in bank.sql("SELECT type FROM dp_domains('t') WHERE \"column\" = 'level'").fetchall()[0][0]


def test_each_statement_declares_the_same_again(bank):
    """In SQL as it is printed, whatever the type, and whatever quotes are in names and values."""
    found = bank.domains("t", DECLARATIONS)
    before = specs(bank)
    assert len(before) == len(DECLARATIONS)
    bank.sql('CREATE TABLE u AS FROM t; ALTER TABLE u ALTER "it\'s ""x"" y" SET NOT NULL')
    bank.settle("the same made-up rows", table="u")
    bank.protect("u", epsilon=3.0, delta=1e-9)
    for statement in found["statement"]:
        bank.connection.execute(statement.replace("dp_domain('t'", "dp_domain('u'"))
    made = dict(specs(bank, "u"))
    assert {name: json.loads(spec) for name, spec in before}.items() <= {
        n: json.loads(s) for n, s in made.items()
    }.items()
    assert {*made} - {*dict(before)} == {"sick"}


def test_json_out_is_json_in(bank):
    bank.domains("t", DECLARATIONS)
    before = specs(bank)
    ((text,),) = bank.sql("FROM dp_domains('t', as_json := true)").fetchall()
    bank.connection.execute("DELETE FROM dpsql.domain")
    bank.connection.execute("CALL dp_domains('t', from_json := $text)", {"text": text}).fetchall()
    assert [row for row in specs(bank) if row[0] != "sick"] == before


def test_a_public_table_declares_many_columns(bank):
    bank.sql(
        """CREATE TABLE codebook AS FROM (VALUES
            ('age', '0', '119', 24, NULL, NULL, 'years'), ('sex', NULL, NULL, NULL, 'F|M', NULL, 'as in the passport'),
            ('level', NULL, NULL, NULL, NULL, NULL, NULL), ('list', NULL, NULL, NULL, NULL, true, NULL)
        ) v("column", lower, upper, bins, "values", exclude, label);
        DELETE FROM codebook WHERE "column" = 'level';"""
    )
    rows = bank.sql("FROM dp_domains('t', from_table := 'codebook')").fetchall()
    assert {(row[1], row[3], row[4]) for row in rows if not row[10]} == {
        ("age", "bins", 25),
        ("sex", "values", 3),
        ("list", "excluded", None),
        ("sick", "values", 3),
    }


def test_a_codebook_may_have_a_row_for_each_value(bank):
    bank.sql(
        "CREATE TABLE codebook AS FROM (VALUES ('SEX', 'F', 'female'), ('SEX', 'M', 'male'), ('u', '1', 'yes'), "
        "('u', '2', 'no')) v(variable, code, description)"
    )
    found = bank.domains("t", from_table="codebook").set_index("column")["statement"]
    assert found["sex"] == "CALL dp_domain('t', 'sex', \"values\" := ['F', 'M']);"
    assert found["u"] == "CALL dp_domain('t', 'u', \"values\" := [1, 2]);"


@pytest.mark.parametrize("name", ["t", "other", "view"])
def test_a_protected_table_is_no_codebook(bank, name):
    bank.sql(
        "CREATE TABLE other AS SELECT 'sex' AS \"column\", 'secret' AS value; CREATE VIEW view AS FROM other; "
        'INSERT INTO t (sex, "it\'s ""x"" y") VALUES (\'secret\', \'\')'
    )
    bank.protect("other", epsilon=1.0, delta=1e-9)
    with pytest.raises(InvalidArgument) as caught:
        bank.sql(f"CALL dp_domains('t', from_table := '{name}')")
    assert "secret" not in str(caught.value)
    assert "private" in str(caught.value) or "is a view" in str(caught.value)
    assert specs(bank) == []


def test_all_errors_are_said_at_once_and_nothing_is_declared(bank):
    wrong = {
        "age": {"lower": 0},
        "sex": {"valus": ["F"]},
        "nothing": {"exclude": True},
        "born": {"lower": "2020-01-01", "upper": "2021-01-01"},
        "u": {"bins": "many"},
        "f": {"discover": True, "epsilon": 1.0},
    }
    with pytest.raises(InvalidArgument) as caught:
        bank.domains("t", wrong)
    text = str(caught.value)
    assert "because of 5 of 6 columns" in text
    parts = ("lower and upper go together", "'valus' is no argument", "no column 'nothing'", "is charged")
    assert all(part in text for part in (*parts, "bins is 'many': give a whole number"))
    assert specs(bank) == []
    with pytest.raises(UnknownName, match="no column 'no'"):
        bank.domains("t", {"no": {"exclude": True}})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("from_json := '{'", "no JSON"),
        ("from_json := '[1]'", "no object of columns"),
        ("""from_json := '{"age": {"lower": 0}, "age": {"lower": 1}}'""", "names 'age' twice"),
        ("""from_json := '{"age": 1}'""", "1 declares nothing"),
        ("""from_json := '{}'""", "no column is declared"),
        ("""from_json := '[{"name": "age", "type": "integer"}]'""", "'type' is 'integer': give true or false"),
        ("""from_json := '[{"name": "age", "lowr": 1}]'""", "columns lowr mean nothing"),
        ("""from_json := '[{"lower": 1}]'""", "has no column 'column'"),
        ("""from_json := '{}', from_table := 'x'""", "leave one of them out"),
        ("from_table := 'nowhere'", "there is no table"),
    ],
)
def test_bad_input_is_refused(bank, call, message):
    with pytest.raises(duckdb.Error, match=message):
        bank.sql(f"CALL dp_domains('t', {call})")
    assert specs(bank) == []


def test_a_table_without_an_account_is_refused(db):
    db.sql("CREATE TABLE t (a INTEGER)")
    with pytest.raises(NotProtected):
        db.domains("t")
    with pytest.raises(InvalidArgument, match="leave one of them out"):
        db.domains("t", {}, from_table="t")


def test_others_than_the_owner_may_look_and_not_declare(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql(TABLE)
        db.protect("t", epsilon=3.0, delta=1e-9)
    with dpsql.connect(path, owner=False) as db:
        assert len(db.domains("t")) == 14
        for how in ({"age": {"exclude": True}}, '{"age": {"exclude": true}}'):
            with pytest.raises(NotOwner):
                db.domains("t", how)
        with pytest.raises(NotOwner):
            db.sql("CALL dp_domains('t', from_table := 't')")


@pytest.mark.medium
def test_the_share_outside_is_that_of_the_newest_release(db, quick):
    db.sql("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 = 0 AS b FROM range(1000) r(i)")
    db.protect("t", epsilon=9.0, delta=1e-6)
    db.domains("t", {"a": {"values": [1]}})
    assert db.sql("SELECT outside FROM dp_domains('t')").fetchall() == [(None,), (None,)]
    db.sql(f"FROM dp_synthesize('t', epsilon := 5, {quick})").fetchall()
    outside = dict(db.sql("SELECT \"column\", outside FROM dp_domains('t')").fetchall())
    assert abs(outside["a"] - 0.5) < 0.1
    assert outside["b"] == 0.0
