"""`dpsql init --owner-looks` of awkward files: times, money and texts, from the file to synthetic rows."""

from __future__ import annotations

import gzip
import random
import re
from datetime import UTC, date, datetime

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.api.proposing.propose import propose

FORMS = {"HHMM": "%H%M", "YYYYMM": "%Y%m", "YYYYMMDD": "%Y%m%d", "YYYYDDD": "%Y%j"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, header: str, rows, encoding: str = "utf-8") -> str:
    with open(name, "w", encoding=encoding, newline="") as file:
        file.write("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return name


def init(*arguments: str) -> str:
    assert main(["init", *arguments, "--output", "script.sql"]) == 0
    with open("script.sql", encoding="utf-8") as file:
        return file.read()


def run(script: str) -> dpsql.Database:
    db = dpsql.connect()
    for part in db.connection.extract_statements(script):
        db.sql(part.query)
    return db


def lines_of(script: str, column: str) -> str:
    part = next(part for part in script.split("\n\n") if part.startswith(f"-- {column}, "))
    return " ".join(part.replace("\n--  ", "").split())


def clock(row: int) -> int:
    return row * 37 % 24 * 100 + row * 13 % 60


def day(row: int) -> date:
    return date.fromordinal(date(2014, 1, 1).toordinal() + row * 71 % 1400)


def moment(row: int) -> int:
    return int(datetime(2014, 1, 1, tzinfo=UTC).timestamp()) + row * 7919 % 40_000_000


def exists(form: str, text: str) -> bool:
    try:
        return datetime.strptime(text, FORMS[form]).strftime(FORMS[form]) == text
    except ValueError:
        return False


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_clocks_and_calendars_are_found_and_no_time_is_drawn_that_does_not_exist(folder):
    """In numbers, texts, numbers beside NA and codes for a missing one; what they disclose stands in the books."""
    rows = [
        (
            9999 if i % 50 == 0 else clock(i),
            f"{clock(i):04d}",
            "NA" if i % 40 == 0 else clock(i),
            f"{day(i):%Y%m}",
            f"{day(i):%Y%m%d}",
            f"{day(i):%Y%j}",
            moment(i),
            moment(i) * 1000 + i % 1000,
            f"{i % 9}:{i % 60:02d}:{i * 7 % 60:02d}",
            f"{i % 90}:{i % 60:02d}",
        )
        for i in range(3000)
    ]
    header = "dep,opens,arr_time,period,ymd,julian,created_at,event_ms,duration,lap"
    script = init(written("times.csv", header, rows), "--owner-looks")
    forms = dict(re.findall(r"'times', '(\w+)'[^;]*read_as := '([\w:]+)'", re.sub(r"--.*", "", script)))
    assert forms == {
        "dep": "HHMM",
        "opens": "HHMM",
        "arr_time": "HHMM",
        "period": "YYYYMM",
        "ymd": "YYYYMMDD",
        "julian": "YYYYDDD",
        "created_at": "EPOCH",
        "event_ms": "EPOCH_MS",
        "duration": "H:MM:SS",
        "lap": "M:SS",
    }
    with run(script) as db:
        assert {origin for (origin,) in db.sql("SELECT origin FROM dp_domains('times')").fetchall()} == {"looked"}
        for columns in (["dep", "opens", "arr_time"], ["ymd", "julian", "period"]):
            made = db.synthesize("times", epsilon=0.3, columns=columns, mechanism="direct").df()
            assert len(made) > 2000
            for column in columns:
                form = FORMS[forms[column]]
                width = len(datetime(2014, 1, 1, tzinfo=UTC).strftime(form))
                values = made[column].dropna()
                texts = values if column == "opens" else [f"{int(value):0{width}d}" for value in values]
                assert all(exists(forms[column], text) for text in texts), column
        made = db.synthesize("times", epsilon=0.3, columns=["duration", "lap"], mechanism="direct").df()
        assert made["duration"].dropna().str.fullmatch(r"\d+:[0-5]\d:[0-5]\d").all()
        assert made["lap"].dropna().str.fullmatch(r"\d+:[0-5]\d").all()
        made = db.synthesize("times", epsilon=0.3, columns=["created_at", "event_ms"], mechanism="direct").df()
        assert made["created_at"].dropna().between(moment(0), moment(0) + 50_000_000).all()
        assert made["event_ms"].dropna().between(moment(0) * 1000, (moment(0) + 50_000_000) * 1000).all()


@pytest.mark.medium
def test_numbers_that_write_no_times_stay_numbers(folder):
    """Prices in steps of 50, years, ids that begin with a year, amounts around two millions, large numbers."""
    rows = [
        (i % 48 * 50, 1950 + i % 70, 2_000_000 + i * 37 % 90_000, 1_400_000_000 + i * 7, i * 7 % 2400, 195_000 + i % 99 * 1000)
        for i in range(3000)
    ]  # fmt: skip
    script = init(written("n.csv", "price,vintage,turnover,balance,minutes,salary", rows), "--owner-looks")
    assert "read_as" not in script


@pytest.mark.medium
def test_texts_of_a_table_are_read_without_a_load(folder):
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            "CREATE TABLE t AS SELECT CASE WHEN i % 20 = 0 THEN 'NA' ELSE (i * 37 % 24 * 100 + i * 13 % 60)::VARCHAR END "
            "AS dep_time, printf('%02d:%02d', i % 24, i % 60) AS closes, "
            "printf('$%d,%03d.50', 1 + i % 99, i % 999) AS pay FROM range(3000) r(i)"
        )
    script = init("bank.duckdb:t", "--owner-looks")
    assert "read_as := 'HMM'" in script
    assert "read_as := 'HH:MM'" in script
    assert "QUESTION" in lines_of(script, "pay")
    assert "ids := true" not in re.sub(r"--.*", "", script)
    with dpsql.connect("bank.duckdb") as db:
        for part in db.connection.extract_statements(script):
            db.sql(part.query)
        made = db.synthesize("t", epsilon=2.0, columns=["dep_time", "closes"], mechanism="direct").df()
    assert all(exists("HHMM", text.zfill(4)) for text in made["dep_time"].dropna())
    assert made["closes"].dropna().str.fullmatch(r"([01]\d|2[0-3]):[0-5]\d").all()
    (made_so,) = re.findall(r"or: (CREATE TABLE numbers .*)", script)
    with duckdb.connect("bank.duckdb") as con:
        con.execute(made_so)
        assert con.execute("SELECT typeof(any_value(pay)), count(pay), min(pay) FROM numbers").fetchall()[0][:2] == ("DECIMAL(18,2)", 3000)  # fmt: skip


@pytest.mark.medium
def test_days_exist_in_their_months_whether_or_not_rows_are_read(folder):
    rows = [(day(i).year, day(i).month, day(i).day) for i in range(3000)]
    written("d.csv", "year,month,day", rows)
    for looks in (["--owner-looks"], ["--rows", "3000"]):
        script = init("d.csv", *looks)
        predicates = re.findall(r"dp_constraint.*", script)
        assert len(predicates) == 2
        assert "looked" not in "".join(predicates)
        with run(script) as db:
            made = db.synthesize("d", epsilon=0.5, mechanism="direct").df().dropna()
            without = db.synthesize("d", epsilon=0.5, columns=["month", "day"], mechanism="direct").df().dropna()
        for row in made.itertuples():
            date(int(row.year), int(row.month), int(row.day))
        for row in without.itertuples():
            date(2012, int(row.month), int(row.day))
        assert len(made) > 1000
        (folder / "script.sql").unlink()


@pytest.mark.medium
def test_months_that_may_begin_with_zero_are_asked_about(folder):
    """Of a column of 0 to 11, 4 is May, which has 31 days."""
    rows = [(i % 12, 1 + i % 31, 2010 + i % 9) for i in range(3000)]
    script = init(written("m.csv", "month,day,year", rows), "--owner-looks")
    facts = re.findall(r".*dp_constraint.*", script)
    assert facts
    assert all(line.startswith("-- ") for line in facts)
    assert "if 1 is January" in script


@pytest.mark.medium
@pytest.mark.parametrize("looks", [[], ["--owner-looks"]])
def test_a_text_of_one_row_is_not_in_the_script(folder, looks):
    rows = [
        (f"{i % 90}" if i else "7 Smith", "unknown" if i == 9 else "x" if i % 2 else f"{i % 50}") for i in range(3000)
    ]
    script = init(written("r.csv", "score,code", rows), *looks)
    assert "Smith" not in script
    assert looks or "unknown" not in script
    assert looks or "--nullstr x" in script


@pytest.mark.medium
def test_dates_have_months_where_a_plan_allows(folder):
    """Ten years of many rows by month; of few rows not finer than the plan bears. The report names the period."""
    for name, rows in (("many", 40_000), ("few", 600)):
        with duckdb.connect() as con:
            con.execute(
                f"COPY (SELECT DATE '2010-01-01' + (i * 7919 % 3200)::INTEGER AS seen, i % 3 AS a, i % 5 AS b FROM range({rows}) "
                f"r(i)) TO '{name}.parquet'"
            )
    many = init("many.parquet", "--owner-looks")
    assert "every := 'month', looked := true" in lines_of(many, "seen")
    (folder / "script.sql").unlink()
    assert "every := 'year'" in lines_of(init("few.parquet", "--owner-looks"), "seen")
    with run(many) as db:
        release = db.synthesize("many", epsilon=1.0, mechanism="direct")
        page = release.report().html
    assert "By the month, and no finer, were measured: seen." in page


# --- money ------------------------------------------------------------------------------------------------------------

WAYS = {
    "dollars": lambda v: f'"${v:,.2f}"' if v >= 0 else f'"(${-v:,.2f})"',
    "german": lambda v: '"' + f"{v:,.2f}".translate(str.maketrans(",.", ".,")) + '"',
    "comma": lambda v: f'"{v:.2f}"'.replace(".", ","),
    "parens": lambda v: f"({-v:.2f})" if v < 0 else f"{v:.2f}",
    "science": lambda v: f"{v:.6e}",
    "kilos": lambda v: f"{v:.2f} kg",
    "francs": lambda v: f"CHF {v:,.2f}".replace(",", "'"),
    "spaced": lambda v: f"{v:,.2f} €".replace(",", "\u00a0"),
    "gaps": lambda v: "n/a" if round(v) % 7 == 0 else f"{v:.2f}",
}


@pytest.mark.medium
def test_money_and_units_are_loaded_as_the_numbers_that_they_are(folder):
    numbers = [round((i * 7919 % 400_000) / 7 - 3000 + i / 3000, 2) for i in range(3000)]
    written("pay.csv", ",".join(WAYS), [[way(v) for way in WAYS.values()] for v in numbers])
    script = init("pay.csv", "--owner-looks")
    kept = re.sub(r"--.*", "", script)
    assert "ids" not in kept
    assert "exclude" not in kept
    told = [f"{way(v)}".strip('"') for way in WAYS.values() for v in numbers if "n/a" not in way(v)]
    assert not [text for text in told if len(text) > 6 and f"like {text};" in script]
    with run(script) as db:
        rows = db.sql(f"SELECT {', '.join(WAYS)} FROM pay").fetchall()
        origins = {origin for (origin,) in db.sql("SELECT origin FROM dp_domains('pay')").fetchall()}
    assert origins == {"looked"}
    for row, number in zip(rows, numbers, strict=True):
        known = [value for value in row if value is not None]
        assert len(known) >= len(WAYS) - 1
        assert all(abs(float(value) - number) <= 1e-6 * abs(number) + 1e-9 for value in known), row


@pytest.mark.medium
def test_how_rare_texts_are_written_is_seen_too(folder):
    """Small amounts, of which there are many, have no mark between thousands; a few are missing or below 0."""
    numbers = [(i % 1500) / 4 + 1 for i in range(12_000)] + [-5.25, -1234.5, 1_234_567.75, *range(1000, 1040)]
    kinds = ("dollars", "german", "francs", "spaced", "kilos")
    rows = [[WAYS[kind](float(v)) for kind in kinds] for v in numbers]
    rows[7000] = ["n/A"] * len(kinds)
    written("pay.csv", ",".join(kinds), rows)
    script = init("pay.csv", "--owner-looks")
    assert "n/A" not in script  # which a single row has
    assert "exclude" not in re.sub(r"--.*", "", script)
    with run(script) as db:
        sums = ", ".join(f"sum({kind})::DOUBLE" for kind in kinds)
        assert db.sql(f"SELECT {sums} FROM pay").fetchall() == [(sum(numbers) - numbers[7000],) * len(kinds)]


@pytest.mark.medium
def test_texts_of_digits_that_nobody_knows_are_asked_about(folder):
    rows = [(f"{i * 7919 % 99991:05d}", f"{1 + i}.{i % 12}.{2000 + i % 20}", f"{i} {'EUR' if i % 2 else 'USD'}", f"{i / 7:.2f}x{i}") for i in range(2000)]  # fmt: skip
    script = init(written("k.csv", "zip,odd,mixed,size", rows), "--owner-looks")
    assert "ids := true" not in re.sub(r"--.*", "", script)
    for column in ("zip", "odd", "mixed"):
        assert "QUESTION" in lines_of(script, column), column
    run(script).close()


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("looks", [["--owner-looks"], []])
def test_nothing_of_a_csv_file_is_lost_when_it_is_loaded(folder, packed, looks):
    """Of 30,000 rows the last ones differ; letters of Latin-1, a line break in a header, T and F."""
    rows = [
        (
            4.75 if i == 29_999 else i % 7,
            "2020-02-01 10:30:00" if i == 29_999 else f"2020-01-{1 + i % 9:02d}",
            "F",
            f"{i % 500:05d}",
            "Zürich" if i % 2 else "Genf",
            i % 2,
            "NA" if i % 9 == 0 else i % 100,
            "true" if i % 3 else "false",
            f"1:{i % 60:02d}:07",
        )
        for i in range(30_000)
    ]
    name = written("load.csv", 'late,seen,sex,zip,city,flag,"points\nscored",ok,took', rows, "latin-1")
    if packed:
        with open(name, "rb") as file, gzip.open("load.csv.gz", "wb") as made:
            made.write(file.read())
    script = init("load.csv.gz" if packed else name, *looks)
    with run(script) as db:
        last = db.sql("SELECT late, seen::VARCHAR, sex, zip, city, flag, ok::VARCHAR, took FROM load").fetchall()[-1]
    assert last == (4.75, "2020-02-01 10:30:00", "F", "00499", "Zürich", 1, "true", "1:59:07")
    points = next(part for part in script.split("\n\n") if part.startswith("-- points scored, "))
    if looks:
        assert lines_of(script, "flag").endswith('"values" := [0, 1], looked := true);')
        assert "ids := true" not in script
    else:
        assert "--nullstr NA" in points
        assert 'values" := [0, 1]' in lines_of(script, "flag")


def test_a_file_that_is_no_csv_is_refused_without_a_word_of_it(folder, capsys):
    with open("x.csv", "wb") as file:
        file.write(b'a,b\n1,"secret\n' * 3 + b"\x00\xff")
    main(["init", "x.csv", "--output", "script.sql"])
    assert "secret" not in capsys.readouterr().err


# --- the script's output ----------------------------------------------------------------------------------------------


def test_a_script_prints_a_line_for_each_kind_of_declaration(folder, capsys):
    rows = [(i * i // 11 % 5, i * i // 7 % 3, day(i).month, day(i).day) for i in range(400)]
    init(written("t.csv", "grade,ward,month,day", rows), "--owner-looks")
    capsys.readouterr()
    assert main(["sql", "bank.duckdb", "script.sql"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "grade (6, looked)" in shown[2]
    assert shown[3:] == ["1 constraint on synthetic rows: month and day"]
    assert main(["sql", "bank.duckdb", "CALL dp_domain('t', 'grade', lower := 0, upper := 4)"]) == 0
    assert "public_because" in capsys.readouterr().out


# --- whole numbers and cents ------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_whole_numbers_and_cents_in_floats_stay_so(folder):
    """Whatever type a file's numbers get: whole ones stay whole, amounts stay in cents, others are drawn anywhere."""
    file = written(
        "t.csv",
        "whole,cents,any,both",
        (
            (f"{row * row % 4001}.0", f"{row * 37 % 90001 / 100:.2f}", row / 7, f"{row % 2000}.5" if row == 9 else row)
            for row in range(4000)
        ),
    )
    script = init(file, "--owner-looks")
    assert "step := 1," in lines_of(script, "whole")
    assert "all are whole numbers, as synthetic ones will be" in lines_of(script, "whole")
    assert "step := 0.01," in lines_of(script, "cents")
    assert "step" not in lines_of(script, "any")
    assert "step := 0.1," in lines_of(script, "both")  # one row has a half
    with run(script) as db:
        db.synthesize("t", 2.0, mechanism="direct", workload="all 1-way").to_table("made")
        found = 'bool_and(whole = round(whole)), bool_and(cents = round(cents, 2)), bool_or("any" <> round("any", 2))'
        assert db.sql(f"SELECT {found} FROM made").fetchall() == [(True, True, True)]


@pytest.mark.medium
def test_no_cell_is_between_a_point_and_the_next_whole_number(folder):
    """There is no number in it, so noise would put rows where no row can be."""
    file = written("t.csv", "hours", ([f"{0 if row % 3 else row % 300 + 1}.0"] for row in range(4000)))
    script = init(file, "--owner-looks")
    assert "points := [0.0]" in lines_of(script, "hours")
    edges = re.search(r"edges := \[([^]]*)\]", lines_of(script, "hours"))
    assert edges is not None
    assert "1.0" not in edges.group(1).split(", ")


@pytest.mark.medium
def test_a_value_that_would_fill_a_cell_gets_one(folder):
    """One of the amounts beside many zeros, which an edge below it would leave in a wide cell."""
    amounts = (0 if row % 10 else 15024 if row % 100 == 0 else 1 + row * 97 % 30000 for row in range(8000))
    script = init(written("t.csv", "gain", ([amount] for amount in amounts)), "--owner-looks")
    assert "points := [0, 15024]" in lines_of(script, "gain")


# --- whole numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_whole_numbers_that_are_low_but_for_a_few_have_wide_bins_at_their_end(folder):
    """Noise in a cell for each of them would move their mean; that of ages stays where it is."""
    draw = random.Random(1)
    rows = [(int(draw.expovariate(1 / 3)), 18 + row * 29 % 73) for row in range(30_000)]
    script = init(written("t.csv", "visits,years", [*rows, (109, 40)]), "--owner-looks")
    visits, years = lines_of(script, "visits"), lines_of(script, "years")
    edges = re.search(r"edges := \[([^]]*)\]", visits)
    assert edges is not None
    numbers = [int(edge) for edge in edges[1].split(", ")]
    assert numbers[-1] == 110
    assert numbers[-1] - numbers[-2] > 10 * (numbers[1] - numbers[0])
    assert len(numbers) <= 26
    assert "whole numbers from 18 to 90" in years


def test_numbers_that_name_things_are_values_and_keys_are_left_out(folder):
    columns = {
        "schoolid": "2000 + i % 40 * 17",
        "ward_id": "CASE WHEN i < 5 THEN 900 + i ELSE 10 + i % 12 * 3 END",  # five of one row each
        "childid": "i",
        "case.id": "(i * 7919 % 5000)::DOUBLE",  # whole numbers that a file writes as 12.0
        "paid": "i % 400",
    }
    selected = ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())
    duckdb.sql(f"COPY (SELECT {selected} FROM range(6000) r(i)) TO 'pupils.parquet'")
    how = {p.column: p.how for p in propose("pupils.parquet", owner_looks=True).proposals}
    assert how["schoolid"]["values"] == [2000 + i * 17 for i in range(40)]
    assert how["ward_id"]["values"] == [10 + i * 3 for i in range(12)]  # none that hardly anyone has
    assert how["childid"]["exclude"]
    assert how["case.id"]["exclude"]
    assert "edges" in how["paid"] or "bins" in how["paid"]
