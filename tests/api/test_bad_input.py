"""Bad input: a clear error that names the argument and the way out; no charge, nothing lost, no private value."""

from __future__ import annotations

import logging
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument

SYNTHESIZE = {
    "unknown table": ("dp_synthesize('nowhere', epsilon := 1.0)", "there is no table 'nowhere'"),
    "not protected": ("dp_synthesize('bare', epsilon := 1.0)", "CALL dp_protect('bare'"),
    "a view": ("dp_synthesize('view_of_people', epsilon := 1.0)", "is a view"),
    "epsilon missing": ("dp_synthesize('people')", "epsilon is missing"),
    "epsilon 0": ("dp_synthesize('people', epsilon := 0)", "epsilon is 0: give a positive number"),
    "epsilon negative": ("dp_synthesize('people', epsilon := -1)", "epsilon is -1"),
    "epsilon NaN": ("dp_synthesize('people', epsilon := 'NaN'::DOUBLE)", "epsilon is nan"),
    "epsilon inf": ("dp_synthesize('people', epsilon := 'inf'::DOUBLE)", "epsilon is inf"),
    "epsilon NULL": ("dp_synthesize('people', epsilon := NULL)", "epsilon is NULL"),
    "epsilon text": ("dp_synthesize('people', epsilon := 'much')", "much"),
    "epsilon over budget": ("dp_synthesize('people', epsilon := 4)", "people has ε = 3 left; this asks for 4"),
    "delta 0": (
        "dp_synthesize('people', epsilon := 1, delta := 0, mechanism := 'projection')",
        "delta is 0, which Gaussian noise cannot promise",
    ),
    "delta 1": ("dp_synthesize('people', epsilon := 1, delta := 1)", "delta is 1"),
    "delta negative": ("dp_synthesize('people', epsilon := 1, delta := -1e-9)", "delta is -1e-09"),
    "delta NaN": ("dp_synthesize('people', epsilon := 1, delta := 'NaN'::DOUBLE)", "delta is nan"),
    "unknown mechanism": (
        "dp_synthesize('people', epsilon := 1, mechanism := 'magic')",
        "there are barak, direct, dualquery, fem, hdmm,",
    ),
    "unknown parameter": ("dp_synthesize('people', epsilon := 1, colour := 'red')", "colour"),
    "another's option": (
        "dp_synthesize('people', epsilon := 1, rounds := 3)",
        "it is one of dualquery, fem, mwem, pmwpub, rap",
    ),
    "option out of range": ("dp_synthesize('people', epsilon := 1, relaxed_rows := 0)", "relaxed_rows is 0: give 1"),
    "bad conversion": (
        "dp_synthesize('people', epsilon := 1, mechanism := 'rap', conversion := 'x')",
        "say one of 'tight', 'simple'",
    ),
    "other neighbours": (
        "dp_synthesize('people', epsilon := 1, mechanism := 'rap', neighbours := 'replace_one')",
        "protected for 'add_remove'",
    ),
    "too many cells": (
        "dp_synthesize('people', epsilon := 1, mechanism := 'rap', workload := 'all 1-way', queries_per_round := 9, "
        "start := 'uniform')",
        "at most 19 can be",
    ),
    "rows negative": ("dp_synthesize('people', epsilon := 1, rows := -1)", "rows is -1"),
    "rows too many": ("dp_synthesize('people', epsilon := 1, rows := 100000000000)", "rows is 100000000000"),
    "a name that is a text": (
        f"dp_synthesize('people', epsilon := 1, release := '{'x' * 1001}')",
        "release has 1001 characters, more than 1000",
    ),
    "no columns": ("dp_synthesize('people', epsilon := 1, columns := [])", "columns is empty"),
    "unknown column": ("dp_synthesize('people', epsilon := 1, columns := ['wage'])", "has no column 'wage'"),
    "workload: no SQL": ("dp_synthesize('people', epsilon := 1, workload := 'hello world')", "workload"),
    "workload: other table": (
        "dp_synthesize('people', epsilon := 1, workload := 'SELECT age, count(*) FROM bare GROUP BY age')",
        "not 'people'",
    ),
    "workload: unknown column": (
        "dp_synthesize('people', epsilon := 1, workload := 'SELECT wage, count(*) FROM people GROUP BY wage')",
        "there is no column 'wage'",
    ),
    "workload: too many columns": (
        "dp_synthesize('people', epsilon := 1, workload := 'all 9-way')",
        "need 1 to 4 columns",
    ),
    "table empty": ("dp_synthesize('', epsilon := 1)", "name is empty"),
    "the books": ("dp_synthesize('dpsql.account', epsilon := 1)", "there is no table 'dpsql.account'"),
}
OWNER = {
    "protect unknown": ("dp_protect('nowhere', epsilon := 1, delta := 1e-6)", "there is no table"),
    "protect without delta": ("dp_protect('bare', epsilon := 1)", "delta is missing"),
    "protect with delta 1": ("dp_protect('bare', epsilon := 1, delta := 1)", "delta is 1"),
    "protect with negative delta": ("dp_protect('bare', epsilon := 1, delta := -1e-9)", "delta is -1e-09"),
    "protect with epsilon 0": ("dp_protect('bare', epsilon := 0, delta := 1e-6)", "epsilon is 0"),
    "protect neighbours": (
        "dp_protect('bare', epsilon := 1, delta := 1e-6, neighbours := 'friends')",
        "say 'add_remove' or 'replace_one'",
    ),
    "protect twice": ("dp_protect('people', epsilon := 9, delta := 1e-6)", "protected already, with epsilon 3"),
    "domain unprotected": ("dp_domain('bare', 'a', lower := 0, upper := 1)", "is not protected"),
    "domain unknown column": ("dp_domain('people', 'wage', lower := 0, upper := 1)", "has no column 'wage'"),
    "domain no way": ("dp_domain('people', 'age')", "got none"),
    "domain two ways": (
        "dp_domain('people', 'age', exclude := true, lower := 1, upper := 2)",
        "got lower and upper and",
    ),
    "domain half": ("dp_domain('people', 'age', lower := 1)", "lower and upper go together"),
    "domain upside down": ("dp_domain('people', 'age', lower := 9, upper := 1)", "lower must be below upper"),
    "domain of another type": ("dp_domain('people', 'age', lower := 'x', upper := 1)", "'x' is not a INTEGER"),
    "domain NULL": ("dp_domain('people', 'age', lower := NULL, upper := 1)", "lower is NULL"),
    "domain too many bins": (
        "dp_domain('people', 'age', lower := 0, upper := 9, bins := 11)",
        "bins is 11: give 1 to 10",
    ),
    "domain bins 0": ("dp_domain('people', 'age', lower := 0, upper := 9, bins := 0)", "bins is 0"),
    "domain bins alone": ("dp_domain('people', 'sex', \"values\" := ['F'], bins := 2)", "bins goes with lower"),
    "domain edges": ("dp_domain('people', 'age', edges := [1, 1])", "increasing order"),
    "domain edges no list": ("dp_domain('people', 'age', edges := 5)", "give a list"),
    "domain values empty": ("dp_domain('people', 'sex', \"values\" := [])", "values is empty"),
    "domain values twice": ("dp_domain('people', 'sex', \"values\" := ['F', 'F'])", "repeats 'F'"),
    "domain values NULL": ("dp_domain('people', 'sex', \"values\" := ['F', NULL])", "values holds NULL"),
    "domain other": ("dp_domain('people', 'sex', \"values\" := ['F'], other := 'F')", "choose another"),
    "domain bins of text": ("dp_domain('people', 'sex', lower := 'a', upper := 'b')", "has no bins"),
    "domain of a list": ("dp_domain('people', 'tags', \"values\" := ['x'])", "exclude := true"),
    "domain of a blob": ("dp_domain('people', 'photo', \"values\" := ['x'])", "exclude := true"),
    "reference unknown": ("dp_domain('people', 'sex', reference := 'nowhere.c')", "there is no table"),
    "reference no column": ("dp_domain('people', 'sex', reference := 'bare')", "say 'table.column'"),
    "reference protected": ("dp_domain('people', 'sex', reference := 'people.sex')", "is protected"),
    "measurements of nothing": ("dp_measurements(99)", "no release is called '99'"),
}


@pytest.fixture
def bank(people: dpsql.Database) -> dpsql.Database:
    people.sql("CREATE TABLE bare (a INTEGER); CREATE VIEW view_of_people AS FROM people")
    return people


def books(db: dpsql.Database) -> list[object]:
    tables = ("account", "domain", "event", "release", "answer", "cell")
    return [db.sql(f"SELECT * FROM dpsql.{table} ORDER BY ALL").fetchall() for table in tables]


@pytest.mark.medium
@pytest.mark.parametrize("name", SYNTHESIZE)
def test_analysts(bank, name):
    sql, message = SYNTHESIZE[name]
    before = books(bank)
    with pytest.raises(duckdb.Error) as caught:
        bank.sql(f"FROM {sql}").fetchall()
    assert message in str(caught.value)
    assert "internal error" not in str(caught.value)
    assert books(bank) == before


@pytest.mark.parametrize("name", OWNER)
def test_owners(bank, name):
    bank.sql("ALTER TABLE people ADD COLUMN tags VARCHAR[]; ALTER TABLE people ADD COLUMN photo BLOB")
    sql, message = OWNER[name]
    before = books(bank)
    with pytest.raises(duckdb.Error) as caught:
        bank.sql(f"CALL {sql}").fetchall()
    assert message in str(caught.value)
    assert "internal error" not in str(caught.value)
    assert books(bank) == before


@pytest.mark.parametrize(
    "kind", ["VARCHAR[]", "BLOB", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "INTEGER[3]", "BIT"]
)
def test_nested_and_binary_columns_ask_to_be_excluded(bank, kind):
    bank.sql(f"ALTER TABLE people ADD COLUMN extra {kind}")
    with pytest.raises(duckdb.Error, match="exclude := true"):
        bank.sql("FROM dp_synthesize('people', epsilon := 1.0)")


@pytest.mark.medium
def test_huge_domains_are_refused_before_the_charge(db):
    columns = ", ".join(f"i % 50 AS c{k}" for k in range(12))
    db.sql(f"CREATE TABLE wide AS SELECT {columns} FROM range(100) r(i)")
    db.protect("wide", epsilon=1, delta=1e-6)
    for k in range(12):
        db.domain("wide", f"c{k}", lower=0, upper=49, nulls=False)
    names = ", ".join(f"c{k}" for k in range(12))
    sql = f"FROM dp_synthesize('wide', epsilon := 1.0, workload := 'SELECT {names}, count(*) FROM wide GROUP BY ALL')"
    with pytest.raises(duckdb.Error, match=r"has 3\.1e\+20 cells"):
        db.sql(sql)
    with pytest.raises(duckdb.Error, match=r"has 3\.1e\+20 cells"):
        db.sql("FROM dp_synthesize('wide', epsilon := 1.0, workload := 'all 12-way')")
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]
    few = "dp_synthesize('wide', epsilon := 1.0, workload := 'all 1-way', relaxed_rows := 8, steps := 5)"
    assert db.sql(f"SELECT count(*) > 0 FROM {few}").fetchall() == [(True,)]


def test_a_table_of_an_open_transaction_is_refused(bank):
    bank.sql("BEGIN; CREATE TABLE fresh AS SELECT true AS a")
    with pytest.raises(duckdb.Error, match="transaction that is still open"):
        bank.sql("CALL dp_protect('fresh', epsilon := 1, delta := 1e-6)")
    bank.sql("ROLLBACK")
    bank.sql("CREATE TEMP TABLE temporary AS SELECT true AS a")
    with pytest.raises(duckdb.Error, match="TEMP table"):
        bank.sql("CALL dp_protect('temporary', epsilon := 1, delta := 1e-6)")


def test_errors_carry_the_caret(bank):
    with pytest.raises(duckdb.Error, match=r"LINE 1: FROM dp_synthesize\('people', epsilon := 0\)\n +\^"):
        bank.sql("FROM dp_synthesize('people', epsilon := 0)")


def test_python_errors_are_dpsql_errors(bank):
    for call in (
        lambda: bank.synthesize("nowhere", 1.0),
        lambda: bank.synthesize("people", -1.0),
        lambda: bank.synthesize("people", 1.0, colour="red"),
        lambda: bank.protect("people", 1.0, 0.0),
        lambda: bank.domain("people", "age"),
    ):
        with pytest.raises(DpsqlError):
            call()


def test_a_connection_without_unsigned_extensions():
    with duckdb.connect() as con, pytest.raises(DpsqlError, match="allow_unsigned_extensions"):
        dpsql.install(con)


def test_a_connection_is_no_path(tmp_path, monkeypatch):
    """The text of any object would be the name of a new database, which holds nothing."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as con, pytest.raises(InvalidArgument, match=r"path is a DuckDBPyConnection.*dpsql\.install"):
        dpsql.connect(con)
    assert list(tmp_path.iterdir()) == []


CANARY = "canary-4711"
REFUSED_QUERIES = Path(__file__).parents[1] / "fixtures" / "workload" / "refused_queries.sql"


@pytest.fixture
def nothing_logged(caplog, capfd):
    """Nothing that is logged or written has a canary, whatever its level."""
    caplog.set_level(logging.DEBUG)
    yield
    written = capfd.readouterr()
    assert CANARY not in caplog.text + written.out + written.err


@pytest.mark.medium
@pytest.mark.usefixtures("nothing_logged")
def test_no_error_tells_a_private_value(bank):
    bank.sql(f"UPDATE people SET sex = '{CANARY}'; CREATE TABLE secrets AS SELECT '{CANARY}' AS a")
    texts = []
    for sql, _ in (*SYNTHESIZE.values(), *OWNER.values()):
        with pytest.raises(duckdb.Error) as caught:
            bank.sql(f"FROM {sql.replace('bare', 'secrets')}").fetchall()
        texts.append(str(caught.value))
    assert texts
    assert not any(CANARY in text for text in texts)


@pytest.mark.medium
@pytest.mark.usefixtures("nothing_logged")
def test_no_refused_query_tells_a_private_value(bank):
    """Canaries in every row, inside and outside the domain, and in a table that is open only to its owner."""
    bank.sql(f"UPDATE people SET sex = '{CANARY}'; CREATE TABLE secrets AS SELECT '{CANARY}' AS a")
    bank.protect("secrets", epsilon=1.0, delta=1e-6)
    asked = [line.split(" -> ")[0] for line in REFUSED_QUERIES.read_text(encoding="utf-8").splitlines() if line]
    asked += [
        f"SELECT {f}, count(*) FROM people GROUP BY 1" for f in ("sex::INT", "sex::DATE", "1 / age", "error(sex)")
    ]
    asked += ["SELECT a, count(*) FROM secrets GROUP BY a", "SELECT count(*) FROM secrets WHERE a::INT = 1"]
    asked += ["SELECT sum(sex::INT) FROM people", "SELECT count(DISTINCT sex) FROM people", "FROM secrets"]
    texts = []
    for sql in asked:
        for call in ("dp_query(?, epsilon := 0.01)", "dp_plan(?, epsilon := 0.01)"):
            try:
                bank.connection.execute(f"FROM {call}", [sql]).fetchall()
            except duckdb.Error as error:
                texts.append(str(error))
    assert len(texts) > 150
    assert not any(CANARY in text for text in texts)
