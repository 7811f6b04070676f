"""A script of `dpsql init` predicts what the plan of the release does, and its cells are wider than noise."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.propose import propose

COLUMNS = {
    "amount": "round((hash(i) % 90000) / 100, 2)",
    "visits": "(hash(i + 1) % 40)::INTEGER",
    "region": "'r' || hash(i + 2) % 5",
    "paid": "DATE '2021-01-01' + (hash(i + 3) % 900)::INTEGER",
    "fixed": "7",
    "sick": "hash(i + 4) % 3 = 0",
    "person": "i",
    "note": "'note ' || hash(i + 5)",
    "twice": "2 * visits + 1",
    "square": "visits * visits",
    "cents": "(amount * 100)::INTEGER",
    "month": "month(paid)",
}
"""Some vary, one is constant, some are left out, and the last four follow from others."""
COMPUTED = {"twice": "visits", "square": "visits", "cents": "amount", "month": "paid"}
PREDICTED = r"about (\d+) of (\d+) pairs .* --epsilon (\S+) --assume-rows (\d+) "


@pytest.mark.medium
@settings(max_examples=7, deadline=None)
@given(
    st.sets(st.sampled_from(sorted(COLUMNS))),
    st.sampled_from([1_234, 56_789, 10**7]),
    st.sampled_from([(), ("amount", "visits", "twice"), ("region", "sick", "square", "visits")]),
    st.sampled_from([None, "person"]),
)
def test_a_script_predicts_what_the_command_that_it_names_predicts(tmp_path_factory, names, rows, kept, unit):
    names |= {COMPUTED[name] for name in names & COMPUTED.keys()} | {"region", "sick", unit or "sick"}
    path = tmp_path_factory.mktemp("forecast") / "visits.parquet"
    bases = ", ".join(f"{sql} AS {name}" for name, sql in COLUMNS.items())
    duckdb.sql(f"SELECT {', '.join(sorted(names))} FROM (SELECT {bases} FROM range(3000) r(i))").write_parquet(
        str(path)
    )
    kept = [name for name in kept if name in names]
    script = propose(str(path), owner_looks=True, rows=rows, columns=kept, unit=unit)
    numbers = re.search(PREDICTED, re.sub(r"\n-- +", " ", script.text))
    rows, epsilon = (int(numbers[4]), float(numbers[3])) if numbers else (rows, 1.0)
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(script.text):
            db.sql(statement.query)
        planned = db.forecast("visits", epsilon, assume_rows=rows, linked=unit is not None)
    assert (" --linked" in script.text) == (unit is not None and numbers is not None)
    assert (planned.reliable, planned.pairs) == ((int(numbers[1]), int(numbers[2])) if numbers else (None, 0))
    computed = {p.column for p in script.proposals if p.how and "computed_as" in p.how}
    assert planned.scenario.varying.isdisjoint(computed | {"fixed", "person", "note"})


@pytest.mark.medium
@settings(max_examples=4, deadline=None)
@given(st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from([0.1, 3.0]), st.sampled_from([0, 3000]))
def test_noise_does_not_make_most_of_a_cell(tmp_path_factory, spread, epsilon, zeros):
    """The last cells of a skewed number have large values: the noise in how many rows they have would move the mean."""
    path = tmp_path_factory.mktemp("skewed") / "bills.parquet"
    normal = "sqrt(-2 * ln((1 + hash(i) % 9999) / 10000)) * cos(hash(i + 7) % 6283 / 1000)"
    amount = f"CASE WHEN i < {zeros} THEN 0 ELSE round(exp(5 + {spread} * {normal}), 2) END"
    duckdb.sql(f"SELECT {amount} AS amount, i % 3 AS kind FROM range(9000) r(i)").write_parquet(str(path))
    script = propose(str(path), owner_looks=True, epsilon=epsilon)
    edges = next(p.how["edges"] for p in script.proposals if p.column == "amount" and p.how)
    amounts = duckdb.sql(f"SELECT amount::DOUBLE AS amount FROM '{path}' WHERE amount > 0").fetchnumpy()["amount"]
    rows, _ = np.histogram(amounts, [edge for edge in map(float, edges) if edge > 0])
    fewest = Context("t", is_file=False, epsilon=epsilon).rows_of_cell
    assert min(rows) >= min(fewest, len(amounts) // 4) / 2, (edges, rows)
