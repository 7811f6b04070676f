"""Bins that `dpsql init --owner-looks` proposes end where numbers of their kind end, and codes for missing values are none."""

from __future__ import annotations

import re
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.proposing.natural import Limits
from dpsql.api.proposing.proposal import Ground
from dpsql.api.proposing.propose import propose

pytestmark = pytest.mark.medium

KINDS = {
    "lat": (-90, 90),
    "start_longitude": (-180, 180),
    "humidity": (0, 1),
    "correlation": (-1, 1),
    "percent_paid": (0, 100),
    "hour": (0, 23),
    "dep_minute": (0, 59),
    "birth_month": (1, 12),
    "yday": (1, 366),
    "wind_direction": (0, 360),
    "weekday": (0, 6),
    "age": (0, 119),
}
"""Of each name the least and the largest number that there may be."""
TYPES = {"DOUBLE": 0, "DECIMAL(9,2)": Decimal("0.01"), "INTEGER": 1}
"""How far above the largest value the last edge of a type is."""


def column(random: np.random.Generator, kind: str, low: float, high: float, digits: int, at_bound: float) -> pd.Series:
    """Numbers between two others, some of them the upper one itself; rounded."""
    values = low + (high - low) * random.beta(*random.uniform(0.5, 4, 2), 900)
    values[random.random(900) < at_bound] = high
    digits = {"INTEGER": 0, "DOUBLE": digits}.get(kind, min(digits, 2))
    values = np.clip(np.round(values, digits), np.ceil(low), high)
    return pd.Series(values.astype(int) if kind == "INTEGER" else values)


@st.composite
def tables(draw) -> tuple[pd.DataFrame, dict[str, str]]:
    """A table with a column of each kind, and their types."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns, types = {}, {}
    for name, (low, high) in KINDS.items():
        types[name] = draw(st.sampled_from([*TYPES])) if name not in ("hour", "birth_month", "weekday") else "INTEGER"
        first = draw(st.sampled_from([low, low + (high - low) / 4]))
        first = round(first) if types[name] == "INTEGER" else first
        digits, at_bound = draw(st.sampled_from([1, 2, 6])), draw(st.sampled_from([0.0, 0.01, 0.2, 0.9]))
        columns[name] = column(random, types[name], first, high, digits, at_bound)
    return pd.DataFrame(columns), types


def proposals(path, frame: pd.DataFrame, types: dict[str, str]):
    listed = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items())
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.sql(f"SELECT {listed} FROM frame").write_parquet(str(path))
    return propose(str(path), owner_looks=True).proposals


def check(table, path) -> None:
    """No bin is beyond the bounds of its kind, and every row is in one."""
    frame, types = table
    for proposal in proposals(path, frame, types):
        assert proposal.ground is not Ground.QUESTION, proposal
        least, most = KINDS[proposal.column]
        rows = frame[proposal.column]
        for each in (proposal, *proposal.coarser):
            how = each.how or {}
            if "values" in how:
                continue
            edges = [float(edge) for edge in how.get("edges") or (how["lower"], how["upper"])]
            tick = float(TYPES[types[each.column]]) if "edges" in how else 0
            assert least <= edges[0] <= rows.min() + 1e-9, each
            assert rows.max() - 1e-9 <= edges[-1] - tick <= most + 1e-9, each
            assert all(edges[0] <= float(point) < edges[-1] for point in how.get("points", ())), each


@settings(max_examples=2, deadline=None, phases=[Phase.generate])  # a smaller table tells no more, and takes minutes
@given(tables())
def test_no_bin_is_beyond_the_bounds_of_its_kind(tmp_path_factory, table):
    check(table, tmp_path_factory.mktemp("bounds") / "kinds.parquet")


def test_edges_that_are_only_rounded_are_beyond_them(tmp_path, monkeypatch):
    """The twin: without limits the same check fails."""
    random = np.random.default_rng(1)
    types = dict.fromkeys(KINDS, "DOUBLE") | dict.fromkeys(("hour", "birth_month", "weekday"), "INTEGER")
    frame = pd.DataFrame({name: column(random, types[name], *KINDS[name], 2, 0.2) for name in KINDS})
    check((frame, types), tmp_path / "kinds.parquet")
    monkeypatch.setattr(Limits, "held", lambda self, edges, points: ([*edges], [*points]))
    with pytest.raises(AssertionError):
        check((frame, types), tmp_path / "broken.parquet")


def test_whole_numbers_above_0_stay_above_0(tmp_path):
    """Rounded edges made days 0 and logarithms of nothing."""
    random = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"visits": 1 + random.poisson(9, 3000) ** 3, "price": np.round(random.gamma(2, 40, 3000) + 0.01, 2)}
    )
    frame["debt"] = -1 - random.poisson(9, 3000) ** 3
    kept = proposals(tmp_path / "t.parquet", frame, {"visits": "INTEGER", "price": "DOUBLE", "debt": "BIGINT"})
    ends = {p.column: (p.how["edges"][0], p.how["edges"][-1]) for each in kept for p in (each, *each.coarser)}
    assert ends["visits"][0] >= 1
    assert ends["price"][0] >= 0.01
    assert ends["debt"][1] <= 0


# --- codes for missing values -----------------------------------------------------------------------------------------

CODES = """
    SELECT CASE WHEN i % 11 = 0 THEN {code} ELSE a END::{kind} AS least, CASE WHEN i % 13 = 0 THEN {code} ELSE a + b END::{kind} AS most,
        CASE WHEN i % 11 = 0 THEN {code} ELSE 2 * a END::{kind} AS double, c::{kind} AS whole
    FROM (SELECT i, round(1 + hash(i) % 4000 / 100, 2) AS a, round(hash(i + 1) % 5000 / 100, 2) AS b, hash(i + 2) % 97 AS c FROM range(6000) r(i))
"""


OF_TYPES = [
    *(("DOUBLE", code) for code in ("-1", "-99.9", "9999")),
    ("FLOAT", "-9"),
    ("DECIMAL(9,2)", "9999.99"),
]


@pytest.mark.parametrize(("kind", "code"), OF_TYPES)
def test_a_code_for_missing_values_is_one_in_every_type(tmp_path, kind, code):
    """Their order is found again, and so is what follows from them; codes are NULL in synthetic rows."""
    path = tmp_path / "codes.parquet"
    duckdb.sql(CODES.format(kind=kind, code=code)).write_parquet(str(path))
    script = propose(str(path), owner_looks=True)
    how = {p.column: p.how for p in script.proposals}
    for name in ("least", "most"):
        assert [float(text) for text in how[name]["nulls_as"]] == pytest.approx([float(code)]), how[name]
        assert float(max(how[name]["edges"])) <= 110
        assert float(min(how[name]["edges"])) >= 0
    assert "nulls_as" not in how["whole"]
    assert re.sub(r"\s", "", how["double"]["computed_as"]) in ("least*2", "least+least")
    assert '"least" <= "most"' in script.text


def test_codes_are_null_in_synthetic_rows(tmp_path):
    path = tmp_path / "codes.parquet"
    duckdb.sql(CODES.format(kind="DOUBLE", code="-9")).write_parquet(str(path))
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(propose(str(path), owner_looks=True).text):
            db.sql(statement.query)
        db.synthesize("codes", 2.0, mechanism="direct", workload="all 1-way").to_table("made")
        query = "SELECT max(most) < 200 AND min(most) >= 0, count(*) - count(most) > 200 FROM made"
        assert db.sql(query).fetchall() == [(True, True)]


@pytest.mark.parametrize(
    "column",
    [
        "CASE WHEN i % 30 = 0 THEN 99999 ELSE hash(i) % 41310 END",  # the top code of gains
        "CASE WHEN i % 30 = 0 THEN -9 ELSE (hash(i) % 100)::INTEGER - 50 END",
        "CASE WHEN i % 30 = 0 THEN 99 ELSE hash(i) % 98 END",
        "CASE WHEN i = 0 THEN 9999 ELSE hash(i) % 98 END",
    ],
)
def test_a_number_that_may_be_meant_is_no_code(tmp_path, column):
    path = tmp_path / "numbers.parquet"
    duckdb.sql(f"SELECT ({column})::DOUBLE AS x, hash(i + 7) % 3 AS y FROM range(6000) r(i)").write_parquet(str(path))
    assert "nulls_as" not in propose(str(path), owner_looks=True).text


# --- yes and no -------------------------------------------------------------------------------------------------------

FLAGS = ["YES NO", "yes no", "Yes No", "Y N", "y n", "t f", "T F", "true false", "TRUE FALSE", "1 0"]


@pytest.mark.parametrize("looks", [False, True])
def test_yes_and_no_stay_as_the_file_writes_them(tmp_path, looks):
    """In every spelling, rare or missing in some rows; only true and false are a BOOLEAN, and 0 and 1 numbers."""
    pairs = [flag.split() for flag in FLAGS]
    rows = [[yes if i % 200 == 0 else "" if i % 7 == 0 else no for yes, no in pairs] for i in range(1000)]
    lines = [",".join(f"c{place}" for place in range(len(pairs))), *map(",".join, rows)]
    (tmp_path / "flags.csv").write_text("\n".join(lines))
    script = propose(str(tmp_path / "flags.csv"), owner_looks=looks)
    proposals = {tuple(pair): p for pair, p in zip(pairs, script.proposals, strict=True)}
    for (yes, no), proposal in proposals.items():
        if no.lower() == "false":
            assert (proposal.type, proposal.how) == ("BOOLEAN", None)
        elif no != "0" and (looks or not proposal.is_excluded):
            assert proposal.type == "VARCHAR"
            assert proposal.how["values"] == [no, yes], proposal
        else:
            assert proposal.type == ("BIGINT" if no == "0" else "VARCHAR")
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(script.text):
            db.sql(statement.query)
        texts = [yes for (yes, no), p in proposals.items() if p.type == "VARCHAR"]
        assert db.sql("SELECT DISTINCT c0 FROM flags WHERE c0 IS NOT NULL ORDER BY 1").fetchall() == [("NO",), ("YES",)]
        assert len(texts) == 7
