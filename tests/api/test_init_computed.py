"""Columns that follow from others: `dpsql init --owner-looks` proposes to compute them, and nothing that rows deny."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.proposing.formulas import Variable, formulas
from dpsql.api.proposing.propose import propose

pytestmark = pytest.mark.medium

BASES = """
    SELECT (hash(i) % 90)::INTEGER AS repair, (hash(i + 1) % 40)::INTEGER AS other, (hash(i + 2) % 30)::INTEGER AS rebate,
        round((hash(i + 3) % 5000) / 100, 2) AS price, (1 + hash(i + 4) % 9)::INTEGER AS quantity,
        (hash(i + 5) % 24)::INTEGER AS hour, (hash(i + 6) % 60)::INTEGER AS minute,
        DATE '2021-01-01' + (hash(i + 7) % 1000)::INTEGER AS paid, CASE WHEN i % 7 > 0 THEN hash(i + 8) % 50 END AS age
    FROM range(4000) r(i)
"""
EXPECTED = {
    "total": "repair + other",
    "net": "repair + other - rebate",
    "bill": "round(price * quantity, 2)",
    "clock": "hour * 100 + minute",
    "minutes": "hour * 60 + minute",
    "month": "month(paid)",
    "weekday": "dayofweek(paid)",
    "agesq": "age * age",
    "lage": "ln(1 + age)",
    "celsius": "(repair - 32) / 1.8",
    "cents": "(price * 100)::INTEGER",
    "rest": "100 - other",
    "adult": "(age >= 18)::INTEGER",
    "four": "(quantity = 4)::INTEGER",
}


def made(tmp_path, columns, bases=BASES):
    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    path = tmp_path / "bills.parquet"
    duckdb.sql(f"SELECT *, {listed} FROM ({bases})").write_parquet(str(path))
    return path


def proposed(path, **how):
    script = propose(str(path), owner_looks=True, **how)
    return {p.column: p.how["computed_as"] for p in script.proposals if p.how and "computed_as" in p.how}, script.text


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_column_that_follows_from_others_is_computed(tmp_path, name):
    path = made(tmp_path, {name: EXPECTED[name]})
    (text,) = [text for column, text in proposed(path)[0].items() if column == name]
    rows = f"read_parquet('{path}')"
    wrong = f"abs({name} - ({text})) > 1e-6 OR ({name} IS NULL) <> (({text}) IS NULL)"
    assert duckdb.sql(f"SELECT count(*) FROM {rows} WHERE {wrong}").fetchall() == [(0,)], text


def test_the_script_runs_and_synthetic_rows_add_up(tmp_path):
    """All at once: what is computed does not read each other in a circle, and the books say that it was looked at."""
    path = made(tmp_path, EXPECTED)
    found, script = proposed(path, epsilon=20.0)
    assert {*found} >= {"total", "bill", "month", "agesq", "adult", "celsius"}
    with dpsql.connect() as db:
        db.sql(script)
        origins = db.sql("SELECT DISTINCT origin FROM dp_domains('bills') WHERE kind = 'computed'").fetchall()
        assert origins == [("looked",)]
        db.synthesize("bills", 5.0, mechanism="direct", workload="all 1-way").to_table("synthetic")
        kinds = dict(
            db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'bills'").fetchall()
        )
        wrong = {
            name: db.sql(
                f"SELECT count(*) FROM synthetic WHERE {name} IS DISTINCT FROM ({text})::{kinds[name]}"
            ).fetchall()
            for name, text in found.items()
        }
        assert all(count == [(0,)] for count in wrong.values()), wrong
        assert db.sql("SELECT count(*) > 3000 FROM synthetic").fetchall() == [(True,)]


@pytest.mark.parametrize(
    "denied",
    [
        "repair + other + (i = 3999)::INTEGER",
        "CASE WHEN i <> 1234 THEN repair + other END",
        "coalesce(repair * repair, 0) + CASE WHEN i = 17 THEN 1e-3 ELSE 0 END",
    ],
)
def test_what_one_row_denies_is_not_proposed(tmp_path, denied):
    """The sample may not have that row: all rows are asked."""
    bases = BASES.replace("FROM range", ", i FROM range")
    path = made(tmp_path, {"total": denied}, bases)
    assert "total" not in proposed(path)[0]


def test_what_is_null_where_the_formula_is_not_is_not_proposed(tmp_path):
    path = made(tmp_path, {"total": "CASE WHEN repair > 20 THEN repair + other END", "copy": "coalesce(age, 0)"})
    assert not {"total", "copy"} & {*proposed(path)[0]}


def test_nothing_is_proposed_without_a_look_or_against_a_codebook(tmp_path):
    path = made(tmp_path, {"total": "repair + other"})
    assert "computed_as" not in propose(str(path)).text
    (tmp_path / "codes.json").write_text('{"total": {"lower": 0, "upper": 130}}')
    assert "total" not in proposed(path, codebook=str(tmp_path / "codes.json"))[0]
    kept, _ = proposed(path, columns=["total", "price"])
    assert kept == {}
    unit, _ = proposed(path, unit="total")
    assert "total" not in unit
    assert not any(re.search(r"\btotal\b", text) for text in unit.values())


def test_a_date_without_a_domain_is_computed_from_its_parts(tmp_path):
    days = "DATE '1900-01-01' + (hash(i) % 40000)::INTEGER"
    bases = f"SELECT {days} AS d, year({days})::INTEGER AS y, month({days})::INTEGER AS m, day({days})::INTEGER AS t FROM range(4000) r(i)"
    path = made(tmp_path, {"other": "y % 2"}, bases)
    found, script = proposed(path, columns=["y", "m", "t"])
    assert found.get("d") in (None, "TRY_CAST(y || '-' || m || '-' || t AS DATE)")
    with dpsql.connect() as db:
        db.sql(script)
    whole, script = proposed(path)
    assert {"y", "m", "t"} <= {*whole} or "d" in whole
    with dpsql.connect() as db:
        db.sql(script)


def test_two_columns_that_decide_a_third_are_said_in_a_comment(tmp_path):
    bases = "SELECT 'a' || hash(i) % 6 AS origin, 'b' || hash(i + 1) % 9 AS dest FROM range(4000) r(i)"
    path = made(
        tmp_path,
        {
            "distance": "(hash(origin || dest) % 3000)::INTEGER",
            "free": "(hash(origin || dest || random()) % 3000)::INTEGER",
        },
        bases,
    )
    _, script = proposed(path)
    said = " ".join(line.lstrip("- ") for line in script.splitlines() if line.startswith("--"))
    assert "origin and dest decide it in 100 % of the rows" in said
    assert said.count("decide it in") == 1
    with dpsql.connect() as db:
        db.sql(script)


def test_a_wide_table_with_names_that_need_quotes(tmp_path):
    bases = (
        "SELECT "
        + ", ".join(f'(hash(i * 99 + {k}) % {40 + k})::INTEGER AS "col {k}"' for k in range(60))
        + " FROM range(2000) r(i)"
    )
    path = made(tmp_path, {'"the ""sum"""': '"col 3" + "col 7"', '"select"': '"col 9" * "col 9"'}, bases)
    found, script = proposed(path)
    assert found == {'the "sum"': '"col 3" + "col 7"', "select": '"col 9" * "col 9"'}
    with dpsql.connect() as db:
        db.sql(script)


# --- formulas ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.integers(-9999, 9999).filter(bool),
    st.integers(0, 3),
    st.integers(-9999, 9999),
    st.integers(0, 2),
    st.sampled_from(["x", "x * x", "ln(1 + x)", "x + z", "x * z", "x - z"]),
    st.integers(0, 2**32),
)
def test_short_constants_are_found(a, digits, b, fewer, feature, seed):
    draw = np.random.default_rng(seed)
    x, z = draw.integers(1, 400, 300).astype(float), draw.integers(1, 50, 300).astype(float)
    x[::9] = np.nan
    values = {"x": x, "x * x": x * x, "ln(1 + x)": np.log1p(x), "x + z": x + z, "x * z": x * z, "x - z": x - z}
    y = a / 10**digits * values[feature] + b / 10**fewer
    found = formulas([Variable("x", 0, x), Variable("z", 1, z)], [(2, y)])
    assert found
    rows = np.isfinite(y)
    text = found[0].text.replace("ln(", "log(")
    made = eval(text, {"log": np.log, "round": np.round, "x": x, "z": z})
    assert np.abs(made - y)[rows].max() <= 1e-6 * np.abs(y[rows]).max() + found[0].step


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(2, 200))
def test_unrelated_columns_have_no_formula(seed, values):
    draw = np.random.default_rng(seed)
    columns = [draw.integers(0, values, 300).astype(float) for _ in range(6)]
    found = formulas([Variable(f"x{k}", k, column) for k, column in enumerate(columns)], list(enumerate(columns)))
    assert found == []


def test_a_column_is_not_computed_from_one_that_is_left_out(tmp_path):
    """No bins reach as far as the numbers of the one, so a formula of it would be refused when the script runs."""
    with duckdb.connect(str(tmp_path / "b.duckdb")) as con:
        con.execute(
            "CREATE TABLE wide AS SELECT (i / 1000.0)::DECIMAL(38, 37) AS small, i % 2 AS half, "
            "(i::DECIMAL(38, 2) * 12345678901234567890123456789.01) AS large FROM range(999) r(i)"
        )
    _, script = proposed(f"{tmp_path}/b.duckdb:wide")
    with dpsql.connect(tmp_path / "b.duckdb") as db:
        db.sql(script)
        assert {*db.domains("wide").set_index("column")["kind"][["small", "large"]]} == {"excluded"}
