"""`dpsql init` and `dpsql demo --input`: from a file to a script that runs as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.api.proposing.codes import code_list

SAMPLE = """
    SELECT
        i AS visit_id, i * 7919 % 1200 AS "Patient's id", 'Name ' || i AS "full name",
        (i * 13 % 97)::UTINYINT AS "Âge", (['low', 'it''s mid', 'high'])[1 + i * i % 3]::level AS "Größe ""k"" x",
        {'street': 'S' || i % 50} AS address, [i % 3] AS codes, MAP {'a': i % 4} AS props,
        CASE WHEN i % 3 = 0 THEN 0 ELSE i * 17 % 4999 / 7 END::DECIMAL(12, 2) AS cost,
        TIMESTAMP '2023-01-05 10:00:00' + to_hours(i * 31 % 9000) AS seen_at,
        (TIMESTAMP '2023-01-05' + to_hours(i * 7 % 9000))::TIMESTAMPTZ AS zoned,
        DATE '1930-01-01' + (i * 71 % 30000)::INT AS birth_date,
        CASE WHEN i % 17 = 0 THEN 'NaN'::DOUBLE WHEN i % 40 = 0 THEN 'inf'::DOUBLE ELSE i * 3 % 401 / 100 END AS temp,
        CASE WHEN i % 5 = 0 THEN -9 ELSE i * 11 % 307 END AS score,
        (['Zürich', 'Genève', 'Bern', '東京'])[1 + i % 4] AS "Stadt — 市", (['ZH', 'GE', 'BE', 'TK'])[1 + i % 4] AS kanton,
        i % 3 = 0 AS sick, uuid() AS token, 'raw'::BLOB AS raw, (['N', '12', '7', '3'])[1 + i % 4] AS mixed,
        INTERVAL (i % 3) DAY AS wait, TIME '08:00:00' + INTERVAL (i % 600) MINUTE AS clock, 1 AS constant,
        NULL::INTEGER AS nothing, (i % 7)::FLOAT / 2 AS half, (255 - i % 200)::UTINYINT AS top,
        CASE WHEN i < 3 THEN 'rare' WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS kind, (i % 9999)::DECIMAL(6, 2) AS small,
        (i::HUGEINT * 100000000000000000000) AS huge, (i * 37 % 1000 / 10)::VARCHAR || '%' AS part
    FROM range(2400) r(i)
"""
LEVEL = "CREATE TYPE level AS ENUM ('low', 'it''s mid', 'high');"
LEFT_OUT = {"visit_id", "Patient's id", "full name", "address", "codes", "props", "token", "raw", "nothing"}
"""What nobody would keep of the sample: keys, names, nested and binary columns, and what is NULL in every row."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def parquet(folder):
    with duckdb.connect() as con:
        con.execute(f"{LEVEL} COPY ({SAMPLE}) TO 'visits.parquet'")
    return "visits.parquet"


def init(*arguments: str, output: str = "script.sql") -> str:
    assert main(["init", *arguments, "--output", output]) == 0
    with open(output, encoding="utf-8") as file:
        return file.read()


def ran(db: dpsql.Database, script: str) -> None:
    for part in db.connection.extract_statements(script):
        db.sql(part.query)


def lines_of(script: str, column: str) -> str:
    """What a script says of a column: its comments and its statement."""
    return next(part for part in script.split("\n\n") if part.startswith(f"-- {column}, "))


# --- the rows are not read unless the owner says so -------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_without_owner_looks_the_script_does_not_depend_on_rows(folder, kind, capsys):
    """Two tables of the same columns and of different rows: not a byte differs."""
    made = []
    for number, rows in enumerate(
        ("'a', 5, DATE '2020-02-02', 1.5::DOUBLE", "'secret', 77, DATE '1999-01-01', 'nan'::DOUBLE")
    ):
        (folder / str(number)).mkdir()
        columns = "t(occupation, amount, seen, weight)"
        with duckdb.connect(str(folder / f"{number}" / "bank.duckdb")) as con:
            con.execute(f"CREATE TABLE visits AS SELECT * FROM (VALUES ({rows})) {columns}, range({50 + 900 * number})")
            con.execute(f"COPY visits TO '{number}/visits.parquet'")
        (folder / "now").symlink_to(folder / str(number))
        given = "now/visits.parquet" if kind == "parquet" else "now/bank.duckdb:visits"
        made.append(init(given, output=f"{number}.sql"))
        (folder / "now").unlink()
    assert made[0] == made[1]
    assert "No row was read" in made[0]
    assert "QUESTION: only you can tell of occupation, amount, seen, weight" in made[0]
    assert "spends nothing" in capsys.readouterr().out


@pytest.mark.medium
def test_a_codebook_and_public_tables_and_names_are_public_facts(folder):
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            "CREATE TABLE wards (ward VARCHAR PRIMARY KEY); CREATE TABLE stays (patient_id INTEGER, ward VARCHAR, "
            "sex VARCHAR, age INTEGER NOT NULL, dob DATE, country_code VARCHAR, notes VARCHAR, strange VARCHAR, "
            'amount DECIMAL(9, 2), sick BOOLEAN, hours_per_week SMALLINT, "a\n; DROP TABLE stays --" INTEGER)'
        )
    with open("codebook.csv", "w", encoding="utf-8") as file:
        file.write(
            "column,lower,upper,bins,values,label\nstrange,,,,x|y|z,\nAMOUNT,0,1000,20,,in francs\nghost,1,2,,,\n"
        )
    script = init("bank.duckdb:stays", "--unit", "PATIENT_ID", "--codebook", "codebook.csv", "--epsilon", "2")
    assert "dp_protect('stays', epsilon := 2.0, delta := 1e-09, privacy_unit := 'patient_id', max_rows := 8);" in script
    assert "The codebook names 'ghost', which is no column" in script
    assert "Public: the codebook says so" in lines_of(script, "strange")
    assert "\"values\" := ['x', 'y', 'z']" in lines_of(script, "strange")
    assert "lower := 0, upper := 119, bins := 24" in lines_of(script, "age")
    assert "a week has 168 hours" in lines_of(script, "hours_per_week")
    assert "CONFIRM" in lines_of(script, "sex")
    assert "exclude := true" in lines_of(script, "notes")
    assert 'reference := \'"wards"."ward"\'' in lines_of(script, "ward")
    codes = code_list("country2")
    assert codes is not None
    assert "'CH'" in lines_of(script, "country_code")
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        ran(db, script)  # doing it twice is harmless
        found = db.domains("stays").set_index("column")
        assert not found["undeclared"].any()
        assert found.loc["amount", "bins"] == 20
        assert found.loc["country_code", "size"] == len(codes.codes) + 1
        assert db.budget().releases[0] == 0


@pytest.mark.medium
def test_what_it_would_spend_stands_at_the_top(folder):
    with duckdb.connect("bank.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 'ward ' || i % 2 AS ward, 'x' AS kind, i AS amount FROM range(9000) r(i)")
    free = init("bank.duckdb:t", output="free.sql")
    assert "PRICE: running this script spends nothing" in free
    assert "cost ε = 0.1 each, all 3 of them 0.3" in free
    paid = init("bank.duckdb:t", "--discover", "0.4", output="paid.sql")
    assert "PRICE: running this script SPENDS ε = 0.8" in paid
    with dpsql.connect("bank.duckdb") as db:
        ran(db, free)
        assert db.budget().epsilon_spent[0] == 0
        ran(db, paid)
        assert db.budget().releases[0] == 2
        assert 0 < db.budget().epsilon_spent[0] <= 0.8
        assert db.domains("t").set_index("column").loc["ward", "origin"] == "discovered"


# --- the owner looks --------------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_every_kind_of_column_gets_a_domain_and_the_script_runs(parquet, kind):
    given = parquet
    if kind == "duckdb":
        with duckdb.connect("bank.duckdb") as con:
            con.execute(f'{LEVEL} CREATE SCHEMA "the wards"; CREATE TABLE "the wards"."my visits" AS {SAMPLE}')
        given = 'bank.duckdb:"the wards"."my visits"'
    script = init(given, "--owner-looks")
    assert "DISCLOSURE: the rows were read" in script
    table = "visits" if kind == "parquet" else '"the wards"."my visits"'
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        found = db.domains(table).set_index("column")
    assert not found["undeclared"].any()
    left_out = {*found.index[found["kind"] == "excluded"]}
    assert left_out == LEFT_OUT | ({"part", "mixed"} & left_out)
    if kind == "duckdb":
        assert found.loc["huge", "kind"] == "computed"  # no bins reach so far, but it is another column times a number
    if kind == "parquet":
        assert left_out == LEFT_OUT
    assert found.loc["top", "size"] == 5
    # the finer cells, as a comment: 200 had 12 rows each
    assert "lower := 56, upper := 255, bins := 24" in lines_of(script, "top")
    assert found.loc["cost", "kind"] == found.loc["seen_at", "kind"] == found.loc["zoned", "kind"] == "bins"
    assert found.loc["kind", "size"] == 4  # a, b, other and NULL: of 'rare' there are three rows
    assert "rare'" not in lines_of(script, "kind")
    assert "[0, 0.01)" in [*found.loc["cost", "labels"]] or "0.00" in [*found.loc["cost", "labels"]]
    assert "kanton" in script.split("Facts about several columns")[1].split("-- QUESTION")[0]


@pytest.mark.medium
def test_codes_for_missing_values_and_texts_of_numbers(parquet):
    script = init(parquet, "--owner-looks")
    for column, code in (("score", "-9"), ("mixed", "'N'")):
        assert f"{code} means that it is missing" in lines_of(script, column)
    assert "in percent" in " ".join(lines_of(script, "part").split("\n--  "))
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        found = db.domains("visits").set_index("column")
        release = db.synthesize("visits", epsilon=2.5, columns=["score", "mixed", "part"], mechanism="direct")
        rows = release.df()
    assert "-9" not in str(found.loc["score", "labels"])
    assert {str(value) for value in rows["mixed"].dropna()} <= {str(number) for number in range(3, 13)}
    assert 0.1 < rows["score"].isna().mean() < 0.3
    assert 0.1 < rows["mixed"].isna().mean() < 0.4


@pytest.mark.medium
def test_a_value_that_many_rows_have_is_as_frequent_in_synthetic_rows(folder):
    with duckdb.connect() as con:
        con.execute(
            "COPY (SELECT CASE WHEN i % 11 > 0 THEN 0 WHEN i % 121 = 0 THEN 99999 ELSE i * 7 % 20000 END AS gain, "
            "i % 2 AS a FROM range(20000) r(i)) TO 'gains.csv'"
        )
    script = init("gains.csv", "--owner-looks")
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        db.synthesize("gains", epsilon=1.0, mechanism="direct").to_table("made")
        for value in (0, 99999):
            shares = [db.sql(f"SELECT avg((gain = {value})::INT) FROM {t}").fetchall()[0][0] for t in ("gains", "made")]
            assert abs(shares[0] - shares[1]) < 0.02
            assert shares[1] > 0.003


@pytest.mark.medium
def test_cells_are_as_many_as_a_plan_predicts_reliable_pairs_of(folder):
    """The number in the forecast is what dp_plan says of the declarations that the script makes."""
    columns = ", ".join(f"hash(i + {n}) % 997 AS c{n}" for n in range(5))
    with duckdb.connect("bank.duckdb") as con:
        con.execute(f"CREATE TABLE t AS SELECT {columns}, i % 2 AS flag FROM range(3000) r(i)")
    cells, scripts = [], {}
    for rows in (3_000, 20_000, 10_000_000):
        scripts[rows] = init("bank.duckdb:t", "--owner-looks", "--rows", str(rows), output=f"{rows}.sql")
        said = re.search(r"about (\d+) of (\d+) pairs", scripts[rows])
        shutil.copy("bank.duckdb", f"{rows}.duckdb")
        with dpsql.connect(f"{rows}.duckdb") as db:
            ran(db, scripts[rows])
            plan = db.plan("t", epsilon=1.0, assume_rows=rows)
            cells.append(int(db.domains("t").set_index("column").loc["c0", "bins"]))
        pairs = plan[[len(clique) == 2 for clique in plan["marginal"]]]
        assert said is not None
        assert [int(said[1]), int(said[2])] == [(pairs["predicted_l1"] <= 0.1).sum(), len(pairs)] == [int(said[1]), 15]
    assert cells == sorted(cells)
    assert (cells[0], cells[-1]) == (4, 24)
    assert "of 15 pairs will be reliable" in lines_of(scripts[3_000], "c0")
    with duckdb.connect("bank.duckdb") as con:
        con.execute("CREATE TABLE shifts (age INTEGER, hour INTEGER, day INTEGER)")
    unseen = [init("bank.duckdb:shifts", *rows, output=f"{len(rows)}.sql") for rows in ([], ["--rows", "500"])]
    assert "lower := 0, upper := 119, bins := 24" in lines_of(unseen[0], "age")
    assert "lower := 0, upper := 119, bins := 4" in lines_of(unseen[1], "age")
    assert "FORECAST" not in unseen[0]


@pytest.mark.medium
def test_cells_of_public_bounds_are_where_the_rows_are(folder):
    """Of people over 65 nobody younger is made up, and nobody of more than their ages."""
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            "CREATE TABLE old AS SELECT 65 + (hash(i) % 30)::INTEGER AS age, (i % 24)::INTEGER AS hour, "
            "i % 3 AS ward, i AS note, 'x' AS kind FROM range(4000) r(i)"
        )
    script = init("bank.duckdb:old", "--owner-looks", "--columns", "AGE, hour,ward")
    assert "edges := [0, 65, " in lines_of(script, "age")
    assert ", 95, 120], looked := true" in lines_of(script, "age")
    assert "Public: a day has 24 hours" in lines_of(script, "hour")
    assert "Public: it is not among --columns" in lines_of(script, "kind")
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        rows = db.synthesize("old", epsilon=1.0).df()
    assert ((rows["age"] < 65) | (rows["age"] > 95)).mean() < 0.03  # noise has a standard deviation of some 20 rows
    assert rows["kind"].isna().all()


@pytest.mark.medium
def test_numbers_of_any_width_are_written(folder):
    """Of more digits than Python's decimals have by themselves; such columns wait for the owner's word."""
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            "CREATE TABLE wide AS SELECT (i / 1000.0)::DECIMAL(38, 37) AS small, "
            "(i::DECIMAL(38, 2) * 12345678901234567890123456789.01) AS large FROM range(999) r(i)"
        )
    script = init("bank.duckdb:wide", "--owner-looks")
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        assert {*db.domains("wide")["kind"]} == {"excluded"}
    assert "12400000000000000000000000000000.0000" in lines_of(script, "large")


def test_names_cannot_leave_their_comments_and_quotes(folder):
    name = 'x\'); DROP TABLE t; --\n"quoted"'
    with duckdb.connect("bank.duckdb") as con:
        quoted = '"' + name.replace('"', '""') + '"'
        con.execute(
            f"CREATE TABLE t ({quoted} VARCHAR); INSERT INTO t SELECT 'line' || chr(10) || '''; DROP' FROM range(50)"
        )
    script = init("bank.duckdb:t", "--owner-looks")
    with dpsql.connect("bank.duckdb") as db:
        ran(db, script)
        assert db.domains("t")["labels"][0].tolist()[0] == "line\n'; DROP"
        assert db.sql("SELECT count(*) FROM t").fetchall() == [(50,)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "give an existing .csv"),
        (["bank.duckdb:nothing"], "there is no table 'nothing'"),
        (["bank.duckdb:t", "--nullstr", "NA"], "nullstr is for CSV files"),
        (["bank.duckdb:t", "--unit", "who"], "unit is 'who', which is no column"),
        (["bank.duckdb:t", "--max-rows", "3"], "of which unit?"),
        (["bank.duckdb:t", "--codebook", "nowhere.csv"], "codebook is 'nowhere.csv'"),
        (["bank.duckdb:t", "--codebook", "bad.json"], "'lowr' is no argument"),
        (["bank.duckdb:t", "--epsilon", "-1"], "epsilon is -1"),
        (["bank.duckdb:t", "--rows", "0"], "rows is 0"),
        (["bank.duckdb:t", "--columns", "a,b"], "columns is 'b', which is no column"),
        (["bank.duckdb:t", "--output", "bad.json"], "exists already"),
    ],
)
def test_bad_input_is_refused(folder, capsys, arguments, message):
    with duckdb.connect("bank.duckdb") as con:
        con.execute("CREATE TABLE t (a INTEGER)")
    with open("bad.json", "w", encoding="utf-8") as file:
        file.write('{"a": {"lowr": 1}}')
    assert main(["init", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "\n" not in error.strip()


@pytest.mark.medium
def test_the_command_as_one_types_it(folder, load_adult):
    """Standard output, the default name, and `dpsql sql` that runs the script."""
    with duckdb.connect() as con:
        con.execute(
            "COPY (SELECT i % 5 AS grade, 'NA' AS gone, i % 3 = 0 AS sick FROM range(300) r(i)) TO 'pupils.csv'"
        )
    command = [sys.executable, "-m", "dpsql", "init", "pupils.csv", "--owner-looks", "--nullstr", "NA"]
    shown = subprocess.run([*command, "--output", "-"], capture_output=True, text=True, check=True)
    subprocess.run(command, capture_output=True, text=True, check=True)
    with open("pupils.sql", encoding="utf-8") as file:
        script = file.read()
    assert (shown.stdout, shown.stderr) == (script, "")
    assert "nullstr = ['', 'NA']" in script
    duckdb.connect("bank.duckdb").close()
    run = [sys.executable, "-m", "dpsql", "sql", "bank.duckdb", "-"]
    done = subprocess.run(run, input=script, capture_output=True, text=True, check=True)
    assert "grade" in done.stdout
    assert done.stderr == ""


# --- real tables ------------------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("name", ["adult", "loans"])
def test_no_column_of_real_tables_is_left_out(folder, data, name):
    script = init(f"{data}/{name}.csv.gz", "--owner-looks")
    assert "exclude := true" not in script
    assert "QUESTION: only you" not in script
    if name == "adult":
        assert '("education", "education_num") IN' in script
        assert "-- CALL dp_constraint('adult', 'NOT (\"relationship\"" in script
        gains = lines_of(script, "capital_gain")
        assert "points := [0, " in gains
        assert "99999], looked" in gains
    else:
        assert "in percent" in lines_of(script, "revol_util")
        assert "Looked: it is a code of a public list" in lines_of(script, "addr_state")


# --- the demonstration ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.drop")  # of DuckDB's own frames
def test_the_demonstration_takes_any_file(parquet, capsys):
    assert main(["demo", "--input", parquet, "--database", "demo.duckdb"]) == 0
    text = capsys.readouterr().out
    assert "DISCLOSURE" in text
    assert text.splitlines()[-1] == "The script that protects visits and declares its columns is demo.sql."
    with open("demo.sql", encoding="utf-8") as file:
        assert file.read().startswith("-- Protects the table visits")
